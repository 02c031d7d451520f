//! Futures that are polled once and dropped: which of them leave their waker with the resource.
//!
//! The rule is in the documentation of `wakeful::sync`. `bench` compares the table with tokio's.

use std::future::{pending, poll_fn};
use std::pin::pin;
use std::sync::mpsc as std_mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use wakeful::runtime::Builder;
use wakeful::signal::unix::{Signal, SignalKind, signal};
use wakeful::sync::{mpsc, oneshot};
use wakeful::task::{JoinSet, LocalSet, may_wait_forever};
use wakeful::time::sleep;

mod support {
    pub use wakeful as rt;
    pub mod bad_wakers;
    pub mod dropped_futures;
    pub mod manual_poll;
    pub mod runtimes;
}
use support::bad_wakers::{panics, panics_when_cloned, panics_when_dropped};
use support::dropped_futures::rows;
use support::manual_poll::ManualPoll;
use support::runtimes::{
    TestRuntime, current_thread, runtimes, serial_builders, serial_runtimes, watch,
};

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

/// Hand-written streams create a future of the resource for each poll. Any report fails the test, and a lost waker
/// ends `block_on` with a panic.
#[test]
fn a_stream_may_make_a_new_recv_for_each_poll() {
    for rt in runtimes() {
        let (tx, mut rx) = mpsc::channel(1);
        let (polled, was_polled) = std_mpsc::channel();
        let sender = thread::spawn(move || {
            for number in 0..100 {
                // The receiver found the channel empty, or received a message.
                let _ = was_polled.recv();
                tx.blocking_send(number).unwrap();
            }
        });
        let received = rt.block_on(async move {
            let mut received = Vec::new();
            loop {
                let next = poll_fn(|cx| {
                    let next = pin!(rx.recv()).poll(cx);
                    let _ = polled.send(());
                    next
                });
                match next.await {
                    Some(number) => received.push(number),
                    None => return received,
                }
            }
        });
        sender.join().unwrap();
        assert_eq!(received, (0..100).collect::<Vec<_>>(), "{}", rt.name);
    }
}

#[test]
fn a_stream_in_a_task_may_make_a_new_recv_for_each_poll() {
    for rt in serial_runtimes() {
        let (tx, mut rx) = mpsc::unbounded_channel();
        let mut many = Vec::new();
        let task = rt.spawn(async move {
            let first = poll_fn(|cx| pin!(rx.recv()).poll(cx)).await;
            let others = poll_fn(|cx| pin!(rx.recv_many(&mut many, 8)).poll(cx)).await;
            (first, others)
        });
        rt.settle();
        tx.send(1).unwrap();
        rt.settle();
        tx.send(2).unwrap();
        assert_eq!(rt.block_on(task).unwrap(), (Some(1), 1), "{}", rt.name);
    }
}

/// tonic's server with TLS: `select!` over a stream and the handshakes that are under way, made anew in each poll.
#[test]
fn a_select_over_join_next_may_be_made_anew_for_each_poll() {
    #[derive(Debug, PartialEq)]
    enum Event {
        Connection(u32),
        Ready(u32),
    }
    for rt in serial_runtimes() {
        let (connect, mut incoming) = mpsc::channel::<u32>(4);
        let (report, mut events) = mpsc::unbounded_channel();
        let (open, mut gates): (Vec<_>, Vec<_>) = (0..2).map(|_| oneshot::channel()).unzip();
        let server = rt.spawn(async move {
            let mut handshakes = JoinSet::new();
            loop {
                let event = poll_fn(|cx| {
                    let select = async {
                        wakeful::select! {
                            Some(number) = incoming.recv() => Some(Event::Connection(number)),
                            Some(done) = handshakes.join_next() => Some(Event::Ready(done.unwrap())),
                            else => None,
                        }
                    };
                    pin!(select).poll(cx)
                });
                match event.await {
                    Some(event) => {
                        if let Event::Connection(number) = event {
                            let gate = gates.remove(0);
                            handshakes.spawn(async move {
                                gate.await.unwrap();
                                number
                            });
                        }
                        report.send(event).unwrap();
                    }
                    None => return,
                }
            }
        });
        rt.settle();
        let mut expect = |event| {
            rt.settle();
            assert_eq!(events.try_recv().ok(), Some(event), "{}", rt.name);
        };
        connect.try_send(1).unwrap();
        expect(Event::Connection(1));
        connect.try_send(2).unwrap();
        expect(Event::Connection(2));
        for (number, open) in [2, 1].into_iter().zip(open.into_iter().rev()) {
            open.send(()).unwrap();
            expect(Event::Ready(number));
        }
        drop(connect);
        rt.block_on(server).unwrap();
    }
}

#[test]
fn a_sender_may_ask_anew_in_each_poll_whether_it_is_wanted() {
    for rt in serial_runtimes() {
        let (mut tx, rx) = oneshot::channel::<u32>();
        let task = rt.spawn(async move { poll_fn(|cx| pin!(tx.closed()).poll(cx)).await });
        rt.settle();
        drop(rx);
        rt.block_on(task).unwrap();
    }
}

#[test]
fn a_set_of_local_tasks_may_be_run_by_a_new_future_in_each_poll() {
    let rt = current_thread();
    let set = LocalSet::new();
    let (tx, rx) = oneshot::channel();
    let task = set.spawn_local(rx);
    let (polled, was_polled) = std_mpsc::channel();
    let sender = thread::spawn(move || {
        was_polled.recv().unwrap();
        tx.send(1).unwrap();
    });
    let mut task = pin!(task);
    let received = rt.block_on(poll_fn(|cx| {
        let _ = pin!(set.run_until(may_wait_forever(pending::<()>()))).poll(cx);
        let _ = polled.send(());
        // Polled with a no-op waker, so that only the set wakes the task.
        task.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    }));
    sender.join().unwrap();
    assert_eq!(received.unwrap(), Ok(1));
}

#[test]
fn a_set_of_local_tasks_keeps_one_waker_of_futures_that_are_gone() {
    let set = LocalSet::new();
    let hands: Vec<_> =
        (0..3).map(|_| ManualPoll::pending(set.run_until(pending::<()>()))).collect();
    let wake_counts: Vec<_> = hands.iter().map(ManualPoll::wake_count).collect();
    drop(hands);
    let kept = || {
        wake_counts.iter().map(|wake_count| Arc::strong_count(wake_count) - 1).collect::<Vec<_>>()
    };
    assert_eq!(kept(), [0, 0, 1]);
    let next = ManualPoll::pending(set.run_until(pending::<()>()));
    assert_eq!((kept(), next.wakers()), (vec![0, 0, 0], 1), "a new one takes its place");
    drop(next);
    drop(set);
}

/// The waker of a dropped future is foreign code, and may panic when the resource drops it.
#[test]
fn a_waker_that_panics_when_it_is_dropped_harms_no_other_end() {
    let poll = |future: &mut dyn FnMut(&mut Context<'_>)| {
        let waker = panics_when_dropped();
        future(&mut Context::from_waker(&waker));
    };
    let (tx, mut rx) = mpsc::channel::<u32>(1);
    poll(&mut |cx| assert!(pin!(rx.recv()).poll(cx).is_pending()));
    tx.try_reserve().map(std::mem::forget).unwrap();
    let waiting = ManualPoll::pending(tx.closed());
    assert!(panics(|| drop(rx)));
    assert!(tx.is_closed());
    assert_eq!(waiting.take_wakes(), 1);

    let (mut tx, mut rx) = oneshot::channel::<u32>();
    poll(&mut |cx| assert!(pin!(tx.closed()).poll(cx).is_pending()));
    let mut receiver = ManualPoll::pending(&mut rx);
    assert!(panics(|| tx.send(1).unwrap()));
    assert_eq!((receiver.take_wakes(), receiver.ready()), (1, Ok(1)));

    let rt = current_thread();
    let mut set = JoinSet::new();
    let task = set.spawn_on(may_wait_forever(pending::<()>()), rt.handle());
    poll(&mut |cx| assert!(pin!(set.join_next()).poll(cx).is_pending()));
    assert!(panics(|| drop(set)));
    rt.settle();
    assert!(task.is_finished(), "it was aborted");
}

/// The first waker panics when the second poll replaces it. The second waker is dropped with the future, at the latest.
#[track_caller]
fn drops_both_wakers<F: Future>(future: F) {
    let mut manual = ManualPoll::new(future);
    {
        let waker = panics_when_dropped();
        assert!(manual.poll_with(&waker).is_pending());
    }
    assert!(panics(|| _ = manual.poll()), "the second waker did not replace the first");
    let wake_count = manual.wake_count();
    drop(manual);
    assert_eq!(Arc::strong_count(&wake_count), 1, "the second waker is lost");
}

#[test]
fn a_waker_is_not_lost_if_the_one_before_panics_when_it_is_dropped() {
    let rt = watch("with drivers", Builder::new_current_thread().enable_all());
    let _entered = rt.enter();
    drops_both_wakers(rt.spawn(may_wait_forever(pending::<()>())));
    let (_tx, mut rx) = mpsc::channel::<u32>(1);
    drops_both_wakers(async move { rx.recv().await });
    let (_tx, rx) = oneshot::channel::<u32>();
    drops_both_wakers(rx);
    let (mut tx, _rx) = oneshot::channel::<u32>();
    drops_both_wakers(async move { tx.closed().await });
    let mut set = JoinSet::new();
    set.spawn_on(may_wait_forever(pending::<()>()), rt.handle());
    drops_both_wakers(async move { set.join_next().await });
    let mut signal = signal(SignalKind::user_defined2()).unwrap();
    drops_both_wakers(async move { signal.recv().await });
    drops_both_wakers(sleep(Duration::from_secs(3_600)));
    let held = wakeful::sync::Mutex::new(());
    let _guard = held.try_lock().unwrap();
    drops_both_wakers(held.lock());
    let set = LocalSet::new();
    drops_both_wakers(async move { set.run_until(pending::<()>()).await });
}

/// The poll of a handle panics. The test then drops the handle, or polls it again. Both drop all wakers.
#[test]
fn a_handle_keeps_one_waker_whatever_panics() {
    let rt = current_thread();
    let (tx, rx) = oneshot::channel();
    let mut task = ManualPoll::new(rt.spawn(rx));
    assert!(task.poll_with(&panics_when_dropped()).is_pending());
    assert!(panics(|| _ = task.poll()));
    assert_eq!(task.wakers(), 1, "the new waker is registered before the old one is dropped");
    assert!(panics(|| _ = task.poll_with(&panics_when_cloned())));
    assert_eq!(task.wakers(), 0, "the waker that was taken out to be replaced is dropped");
    assert!(task.poll().is_pending());
    tx.send(7).unwrap();
    rt.settle();
    assert_eq!((task.take_wakes(), task.wakers()), (1, 0));
    assert_eq!(task.ready().unwrap(), Ok(7));
}

/// How the task ends.
#[derive(Clone, Copy, Debug)]
enum End {
    LastSender,
    Abort,
    Shutdown,
}

/// The task owns the receiver, and the channel keeps the task's waker. This cycle lasts until the task ends.
#[test]
fn a_task_that_owns_what_keeps_its_waker_is_freed() {
    for end in [End::LastSender, End::Abort, End::Shutdown] {
        for rt in serial_runtimes() {
            let (tx, mut rx) = mpsc::channel::<Arc<()>>(1);
            let (mut closed_tx, _closed_rx) = oneshot::channel::<u32>();
            let mut set = JoinSet::new();
            set.spawn_on(may_wait_forever(pending::<()>()), rt.handle());
            let owned = Arc::new(());
            let alive = Arc::downgrade(&owned);
            let task = rt.spawn(async move {
                let _owned = owned;
                poll_fn(|cx| {
                    assert!(pin!(closed_tx.closed()).poll(cx).is_pending());
                    assert!(pin!(set.join_next()).poll(cx).is_pending());
                    pin!(rx.recv()).poll(cx)
                })
                .await
            });
            rt.settle();
            assert_eq!(alive.strong_count(), 1);
            match end {
                End::LastSender => {
                    drop(tx);
                    assert_eq!(rt.block_on(task).unwrap(), None);
                    rt.settle();
                }
                End::Abort => {
                    task.abort();
                    rt.settle();
                    assert!(tx.is_closed(), "{}: the receiver is gone", rt.name);
                }
                End::Shutdown => {
                    drop(rt);
                    assert!(tx.is_closed(), "the receiver is gone");
                    assert_eq!(alive.strong_count(), 0);
                    continue;
                }
            }
            assert_eq!(alive.strong_count(), 0, "{}: {end:?}", rt.name);
            // Neither the task nor the task of its set is alive.
            assert_eq!(rt.metrics().num_alive_tasks(), 0, "{}: {end:?}", rt.name);
        }
    }
}

/// A waker that drops the set that wakes it.
#[test]
fn a_set_may_be_dropped_by_its_own_waker() {
    struct DropsSet(Mutex<Option<JoinSet<()>>>);
    impl Wake for DropsSet {
        fn wake(self: Arc<Self>) {
            let set = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
            drop(set.expect("it is woken once"));
        }
    }
    for rt in serial_runtimes() {
        let drops_set = Arc::new(DropsSet(Mutex::new(None)));
        let waker = Waker::from(drops_set.clone());
        let (tx, rx) = oneshot::channel::<()>();
        let mut set = JoinSet::new();
        set.spawn_on(async move { rx.await.unwrap() }, rt.handle());
        let other = set.spawn_on(may_wait_forever(pending::<()>()), rt.handle());
        assert!(pin!(set.join_next()).poll(&mut Context::from_waker(&waker)).is_pending());
        drop(waker);
        *drops_set.0.lock().unwrap() = Some(set);
        tx.send(()).unwrap();
        rt.settle();
        assert!(drops_set.0.lock().unwrap().is_none(), "{}: it was not woken", rt.name);
        rt.settle();
        assert!(other.is_finished(), "{}: it was aborted", rt.name);
        assert_eq!(Arc::strong_count(&drops_set), 1, "{}: the waker is lost", rt.name);
    }
}
