//! Futures that are polled once and dropped: which of them leave their waker with the resource.
//!
//! The rule is in the documentation of `wakeful::sync`. `bench` compares the table with tokio's.

mod renewed;
mod waker_drops;

use std::future::{pending, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use wakeful::signal::unix::{Signal, SignalKind, signal};
use wakeful::sync::{mpsc, oneshot};
use wakeful::task::{JoinSet, may_wait_forever};

#[path = "../support"]
mod support {
    pub use wakeful as rt;
    pub mod bad_wakers;
    pub mod dropped_futures;
    pub mod manual_poll;
    pub mod runtimes;
}
use support::dropped_futures::rows;
use support::manual_poll::ManualPoll;
use support::runtimes::{TestRuntime, serial_builders, watch};

/// Futures that leave their waker with the resource when they are dropped.
const LEFT_WITH_THE_RESOURCE: &[&str] = &[
    "mpsc::Receiver::recv",
    "mpsc::Receiver::recv, last sender dropped",
    "mpsc::Receiver::recv_many",
    "mpsc::Receiver::poll_recv",
    "mpsc::UnboundedReceiver::recv",
    "mpsc::UnboundedReceiver::recv, last sender dropped",
    "mpsc::UnboundedReceiver::recv_many",
    "mpsc::UnboundedReceiver::poll_recv",
    "oneshot::Receiver, by reference",
    "oneshot::Receiver, by reference, sender dropped",
    "oneshot::Sender::closed, receiver dropped",
    "oneshot::Sender::closed, receiver closed",
    "oneshot::Sender::poll_closed",
    "JoinHandle, by reference",
    "JoinHandle, by reference, aborted",
    "JoinHandle of spawn_blocking, by reference",
    "LocalSet, by reference",
    "LocalSet, by reference, a task is spawned",
    "LocalSet::run_until",
    "LocalSet::run_until, its future's event",
    "yield_now",
    "coop::consume_budget, none left",
    "coop::unconstrained over recv",
    "coop::cooperative over recv",
    "LocalKey::scope over recv",
    "select! over recv and join_next",
    "join! over two recv",
    "JoinSet::join_next",
    "JoinSet::join_next, aborted",
    "JoinSet::join_next_with_id",
    "JoinSet::poll_join_next",
    "JoinSet::poll_join_next_with_id",
    "JoinSet::shutdown",
    "JoinSet::join_next, then detach_all, then another task ends",
    "sleep, by reference",
    "Interval::tick",
    "Interval::poll_tick",
    "timeout over recv",
    "DuplexStream, read",
    "DuplexStream, read, other end dropped",
    "DuplexStream, write",
    "SimplexStream, read",
    "SimplexStream, write",
    "io::split, read",
    "io::split, write",
    "io::copy, waiting for the reader",
    "io::copy, waiting for the writer",
    "io::copy_buf",
    "io::copy_bidirectional",
    "io::copy_bidirectional_with_sizes",
    "AsyncReadExt::read_u8",
    "AsyncReadExt::read_u32_le",
    "AsyncReadExt::read_f64",
    "AsyncReadExt::read_buf",
    "AsyncReadExt::read_exact",
    "AsyncReadExt::read_to_end",
    "AsyncReadExt::read_to_string",
    "AsyncBufReadExt::fill_buf",
    "AsyncBufReadExt::read_until",
    "AsyncBufReadExt::read_line",
    "AsyncReadExt::take, read",
    "AsyncReadExt::chain, read",
    "Lines::next_line",
    "Split::next_segment",
    "AsyncWriteExt::write_vectored",
    "AsyncWriteExt::write_buf",
    "AsyncWriteExt::write_all_buf",
    "AsyncWriteExt::write_all",
    "AsyncWriteExt::write_u64",
    "AsyncWriteExt::flush of a BufWriter",
    "AsyncWriteExt::shutdown of a BufWriter",
    "TcpStream, read",
    "TcpStream::poll_peek",
    "TcpStream::poll_read_ready",
    "tcp::ReadHalf, read",
    "tcp::ReadHalf::peek",
    "tcp::OwnedReadHalf, read",
    "tcp::OwnedReadHalf::peek",
    "TcpListener::poll_accept",
    "UnixStream, read",
    "UnixStream::poll_read_ready",
    "unix::ReadHalf, read",
    "unix::OwnedReadHalf, read",
    "UnixStream, write",
    "UnixStream::poll_write_ready",
    "unix::WriteHalf, write",
    "unix::OwnedWriteHalf, write",
    "UnixListener::poll_accept",
    "UdpSocket::poll_recv",
    "UdpSocket::poll_recv_ready",
    "UnixDatagram::poll_recv",
    "UnixDatagram::poll_send",
    "AsyncFd::poll_read_ready",
    "pipe::Receiver, read",
    "pipe::Sender, write",
    "TcpStream, write",
    "Child::wait",
    "ChildStdout, read",
    "Signal::recv",
    "Signal::poll_recv",
    "TcpStream::poll_write_ready",
    "tcp::WriteHalf, write",
    "tcp::OwnedWriteHalf, write",
    "AsyncFd::poll_write_ready",
    "AsyncFd::poll_write_ready_mut",
    "UdpSocket::poll_recv_from",
    "UdpSocket::poll_peek",
    "UdpSocket::poll_peek_from",
    "UdpSocket::poll_peek_sender",
    "UnixDatagram::poll_recv_from",
    "UnixDatagram::poll_recv_ready",
    "UnixDatagram::poll_send_to",
    "UnixDatagram::poll_send_ready",
    "mpsc::Receiver::poll_recv_many",
    "mpsc::UnboundedReceiver::poll_recv_many",
    "Lines::poll_next_line",
    "Split::poll_next_segment",
    "AsyncFd::poll_read_ready_mut",
    "Stdin, read",
];

/// Futures that take their waker along: they had a place in a queue, or owned the resource.
const TAKEN_ALONG: &[&str] = &[
    "Mutex::lock",
    "Mutex::lock_owned",
    "RwLock::read",
    "RwLock::write",
    "RwLock::read_owned",
    "RwLock::write_owned",
    "Semaphore::acquire",
    "Semaphore::acquire, closed",
    "Semaphore::acquire_many",
    "Semaphore::acquire_owned",
    "Semaphore::acquire_many_owned",
    "Notify::notified, notify_one",
    "Notify::notified, notify_waiters",
    "Notify::notified_owned",
    "Barrier::wait",
    "OnceCell::get_or_init",
    "OnceCell::get_or_try_init",
    "SetOnce::wait",
    "mpsc::Sender::send",
    "mpsc::Sender::send_timeout",
    "mpsc::Sender::reserve",
    "mpsc::Sender::reserve_many",
    "mpsc::Sender::reserve_owned",
    "mpsc::Sender::closed",
    "mpsc::UnboundedSender::closed",
    "broadcast::Receiver::recv",
    "broadcast::Receiver::recv, last sender dropped",
    "broadcast::Sender::closed",
    "watch::Receiver::changed",
    "watch::Receiver::changed, last sender dropped",
    "watch::Receiver::wait_for",
    "watch::Sender::closed",
    "JoinHandle, by value",
    "JoinSet::join_all",
    "JoinSet::join_next, then the set is dropped",
    "sleep",
    "sleep_until",
    "timeout, its time",
    "timeout_at, its time",
    "TcpStream::peek",
    "TcpStream::readable",
    "TcpStream::ready",
    "TcpStream::async_io",
    "tcp::ReadHalf::readable",
    "tcp::ReadHalf::ready",
    "tcp::OwnedReadHalf::readable",
    "tcp::OwnedReadHalf::ready",
    "TcpListener::accept",
    "TcpStream::connect",
    "TcpSocket::connect",
    "UnixStream::readable",
    "UnixStream::ready",
    "UnixStream::async_io",
    "unix::ReadHalf::readable",
    "unix::OwnedReadHalf::readable",
    "UnixStream::writable",
    "UnixStream::ready, writable",
    "UnixStream::async_io, write",
    "unix::WriteHalf::writable",
    "unix::OwnedWriteHalf::writable",
    "UnixListener::accept",
    "UdpSocket::recv",
    "UdpSocket::recv_from",
    "UdpSocket::recv_buf",
    "UdpSocket::recv_buf_from",
    "UdpSocket::peek",
    "UdpSocket::peek_from",
    "UdpSocket::peek_sender",
    "UdpSocket::readable",
    "UdpSocket::ready",
    "UdpSocket::async_io",
    "UnixDatagram::recv",
    "UnixDatagram::recv_from",
    "UnixDatagram::recv_buf",
    "UnixDatagram::recv_buf_from",
    "UnixDatagram::readable",
    "UnixDatagram::ready",
    "UnixDatagram::async_io",
    "UnixDatagram::send",
    "UnixDatagram::writable",
    "AsyncFd::readable",
    "AsyncFd::readable_mut",
    "AsyncFd::ready",
    "AsyncFd::ready_mut",
    "AsyncFd::async_io",
    "AsyncFd::async_io_mut",
    "pipe::Receiver::readable",
    "pipe::Receiver::ready",
    "pipe::Sender::writable",
    "pipe::Sender::ready",
    "Child::wait_with_output",
    "Command::status",
    "Command::output",
    "ctrl_c",
    "lookup_host",
    "TcpStream::writable",
    "TcpStream::ready, writable",
    "TcpStream::async_io, write",
    "tcp::WriteHalf::writable",
    "tcp::WriteHalf::ready",
    "tcp::OwnedWriteHalf::writable",
    "tcp::OwnedWriteHalf::ready",
    "AsyncFd::writable",
    "AsyncFd::writable_mut",
    "unix::WriteHalf::ready",
    "unix::OwnedWriteHalf::ready",
    "UnixDatagram::send_to",
    "UnixDatagram::ready, writable",
    "UnixDatagram::async_io, write",
];

#[test]
fn every_future_leaves_or_takes_its_waker_as_the_rule_says() {
    let rows = rows();
    for (name, woken) in &rows {
        let listed = (LEFT_WITH_THE_RESOURCE.contains(name), TAKEN_ALONG.contains(name));
        assert_eq!(listed, (*woken, !*woken), "{name}: woken after it was dropped: {woken}");
    }
    assert_eq!(rows.len(), LEFT_WITH_THE_RESOURCE.len() + TAKEN_ALONG.len());
}

/// Rows for futures that tokio does not have.
#[test]
fn a_future_within_may_wait_forever_leaves_its_waker() {
    let (tx, mut rx) = mpsc::channel(1);
    let recv = ManualPoll::pending(may_wait_forever(rx.recv()));
    let wake_count = recv.wake_count();
    drop(recv);
    tx.try_send(1).unwrap();
    assert_eq!(Arc::strong_count(&wake_count), 1, "the waker was woken, and is gone");
}

/// A resource that a task polls once, and that the test can take away.
struct Shared<T>(Arc<Mutex<Option<T>>>);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Shared<T> {
    fn new(resource: T) -> Self {
        Self(Arc::new(Mutex::new(Some(resource))))
    }

    fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).as_mut().map(f)
    }

    fn take(&self) -> T {
        let taken = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        taken.expect("it is taken once")
    }
}

/// Spawns a task that never ends. Each of its polls makes a future of the resource, polls it and drops it. Returns when
/// the task waits.
fn spawn_polls<T: Send + 'static>(
    rt: &TestRuntime,
    resource: &Shared<T>,
    mut poll: impl FnMut(&mut T, &mut Context<'_>) + Send + 'static,
) -> wakeful::task::JoinHandle<()> {
    let resource = resource.clone();
    let task = rt.spawn(poll_fn(move |cx| {
        resource.with(|resource| poll(resource, cx));
        Poll::Pending
    }));
    rt.settle();
    task
}

fn reporting() -> impl Iterator<Item = TestRuntime> {
    use wakeful::runtime::OrphanPolicy::Report;
    serial_builders()
        .into_iter()
        .map(|(name, mut builder)| watch(name, builder.enable_all().on_orphan(Report)))
}

/// Asserts that the task is no orphan while the resource has its waker. It becomes one when `end` drops the waker.
fn is_orphaned_by<T: Send + 'static>(
    make: impl Fn(&TestRuntime) -> T,
    poll: fn(&mut T, &mut Context<'_>),
    end: impl Fn(T),
) {
    for rt in reporting() {
        let resource = Shared::new(make(&rt));
        let task = spawn_polls(&rt, &resource, poll);
        assert!(rt.reports.take().is_empty(), "{}: the resource can wake it", rt.name);
        end(resource.take());
        let orphan = rt.reports.wait_for_one();
        assert_eq!((orphan.id(), orphan.polls()), (task.id(), 1), "{}", rt.name);
    }
}

#[test]
fn a_task_is_an_orphan_once_the_resource_drops_its_waker() {
    is_orphaned_by(
        |_| mpsc::channel::<u32>(1),
        |(_, rx), cx| assert!(pin!(rx.recv()).poll(cx).is_pending()),
        |(tx, rx)| {
            drop(rx);
            assert!(tx.is_closed());
        },
    );
    is_orphaned_by(
        |_| mpsc::unbounded_channel::<u32>(),
        |(_, rx), cx| assert!(pin!(rx.recv_many(&mut Vec::new(), 1)).poll(cx).is_pending()),
        |(_, rx)| drop(rx),
    );
    is_orphaned_by(
        |_| oneshot::channel::<u32>(),
        |(tx, _), cx| assert!(pin!(tx.closed()).poll(cx).is_pending()),
        |(tx, mut rx)| {
            tx.send(1).unwrap();
            assert_eq!(rx.try_recv(), Ok(1));
        },
    );
    is_orphaned_by(
        |rt| rt.block_on(async { signal(SignalKind::user_defined2()) }).unwrap(),
        |signal: &mut Signal, cx| assert!(pin!(signal.recv()).poll(cx).is_pending()),
        drop,
    );
    is_orphaned_by(
        |rt| {
            let mut set = JoinSet::new();
            set.spawn_on(may_wait_forever(pending::<()>()), rt.handle());
            set
        },
        |set, cx| assert!(pin!(set.join_next()).poll(cx).is_pending()),
        drop,
    );
}

#[test]
fn a_task_is_an_orphan_once_another_receives_in_its_place() {
    for rt in reporting() {
        let (tx, rx) = mpsc::channel::<u32>(1);
        let rx = Shared::new(rx);
        let first = spawn_polls(&rt, &rx, |rx, cx| {
            assert!(pin!(rx.recv()).poll(cx).is_pending());
        });
        assert!(rt.reports.take().is_empty(), "{}", rt.name);
        let second = ManualPoll::new(pending::<()>());
        let waker = Waker::from(second.wake_count());
        rx.with(|rx| {
            assert!(pin!(rx.recv()).poll(&mut Context::from_waker(&waker)).is_pending());
        });
        assert_eq!(rt.reports.wait_for_one().id(), first.id(), "{}", rt.name);
        tx.try_send(1).unwrap();
        assert_eq!(second.take_wakes(), 1, "the last waker counts");
    }
}

/// A message wakes the task, although its future was dropped.
#[test]
fn a_message_wakes_the_task_whose_future_is_gone() {
    for rt in reporting() {
        let (tx, rx) = mpsc::channel::<u32>(1);
        let rx = Shared::new(rx);
        let task = spawn_polls(&rt, &rx, |rx, cx| _ = pin!(rx.recv()).poll(cx));
        tx.try_send(1).unwrap();
        rt.settle();
        assert!(matches!(rx.with(|rx| rx.try_recv()), Some(Err(_))), "it was received");
        let orphan = rt.reports.wait_for_one();
        assert_eq!((orphan.id(), orphan.polls()), (task.id(), 2), "{}", rt.name);
    }
}
