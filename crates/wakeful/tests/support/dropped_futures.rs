// Rows of a table: a future that is polled once, found pending and dropped. Then its event happens. Is the waker woken?
//
// `bench/tests/dropped_futures.rs` includes this file twice, for wakeful and for the real tokio; `rt` is the runtime's
// crate. (An included file cannot begin with inner documentation.)
//
// Not in the table: futures that are ready at the first poll (`bind`, `TcpSocket::connect` to a path), futures of `fs`
// that one runtime answers from the page cache, and the sends of `UdpSocket`, whose buffer does not stay full.

use super::rt;

use std::io::{ErrorKind, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex as StdMutex, PoisonError, mpsc as std_mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use rt::io::unix::AsyncFd;
use rt::io::{
    AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, BufWriter, DuplexStream, Interest,
    duplex, simplex,
};
use rt::net::{TcpListener, TcpStream, UdpSocket, UnixDatagram, UnixListener, UnixStream};
use rt::process::{Child, ChildStdin, Command};
use rt::runtime::Builder;
use rt::signal::unix::{Signal, SignalKind, signal};
use rt::sync::{
    Barrier, Mutex, Notify, OnceCell, RwLock, Semaphore, SetOnce, broadcast, mpsc, oneshot, watch,
};
use rt::task::{AbortHandle, JoinSet, LocalSet, coop, spawn_blocking, yield_now};
use rt::time::{Instant, interval, sleep, sleep_until, timeout, timeout_at};

/// The name of a future, and whether its waker was woken after it had been dropped.
pub type Row = (&'static str, bool);

/// Long enough that it never ends.
const NEVER: Duration = Duration::from_secs(3600);
/// The least that a timer can wait.
const TICK: Duration = Duration::from_millis(1);

/// Counts wakes, and passes each on to the future that awaits the first.
#[derive(Default)]
struct Wakes {
    count: AtomicUsize,
    awaited_by: StdMutex<Option<Waker>>,
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.count.fetch_add(1, SeqCst);
        let awaited_by = self.awaited_by.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(waker) = awaited_by {
            waker.wake();
        }
    }
}

impl Wakes {
    fn any(&self) -> bool {
        self.count.load(SeqCst) > 0
    }

    async fn first(&self) {
        std::future::poll_fn(|cx| {
            *self.awaited_by.lock().unwrap_or_else(PoisonError::into_inner) =
                Some(cx.waker().clone());
            if self.any() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Polls once; the future has to wait.
    fn poll(self: &Arc<Self>, name: &str, future: Pin<&mut impl Future>) {
        let waker = Waker::from(self.clone());
        let polled = future.poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending(), "{name} is ready at its first poll");
    }
}

/// Runs one row on a runtime of its own. One thread of the pool serves all closures in turn: see `pool_is_idle`.
fn run<T>(future: impl Future<Output = T>) -> T {
    let mut builder = Builder::new_current_thread();
    let runtime = builder.enable_all().max_blocking_threads(1).build().expect("it starts");
    runtime.block_on(future)
}

/// Runs one row about time. The clock stands still while there is something to do, and jumps to the next timer
/// otherwise.
fn run_paused<T>(future: impl Future<Output = T>) -> T {
    let mut builder = Builder::new_current_thread();
    let runtime = builder.enable_all().start_paused(true).build().expect("it starts");
    runtime.block_on(future)
}

/// `row!(rows, name, { setup }, future, event, observed)`: adds a row.
///
/// A first run keeps the future, and ends only if the event wakes it: so the event is the right one. A second run drops
/// the future before the event, and asks once `observed` has seen that the event is over.
macro_rules! row {
    ($rows:ident, $name:expr, { $($setup:tt)* }, $future:expr, $event:expr) => {
        row!($rows, $name, { $($setup)* }, $future, $event, ())
    };
    ($rows:ident, $name:expr, { $($setup:tt)* }, $future:expr, $event:expr, $observed:expr) => {
        row!(run, $rows, $name, { $($setup)* }, $future, $event, $observed)
    };
    (
        $run:ident, $rows:ident, $name:expr, { $($setup:tt)* }, $future:expr, $event:expr,
        $observed:expr
    ) => {{
        $run(async {
            $($setup)*
            let wakes = Arc::new(Wakes::default());
            {
                let mut future = Box::pin($future);
                wakes.poll($name, future.as_mut());
                $event;
                wakes.first().await;
            }
            $observed;
        });
        let woken = $run(async {
            $($setup)*
            let wakes = Arc::new(Wakes::default());
            {
                let mut future = Box::pin($future);
                wakes.poll($name, future.as_mut());
            }
            $event;
            $observed;
            wakes.any()
        });
        $rows.push(($name, woken));
    }};
}

/// Polls once, with a waker that tells nothing.
fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Returns when the runtime has delivered everything that the kernel had to tell when this was called.
async fn driver_has_turned() {
    let (near, far) = UnixStream::pair().expect("a pair of sockets");
    far.writable().await.expect("a new socket has room");
    far.try_write(b"!").expect("a new socket has room");
    near.readable().await.expect("it was written to");
}

fn async_fd(fd: OwnedFd, interest: Interest) -> AsyncFd<OwnedFd> {
    // SAFETY: an `OwnedFd` keeps its descriptor open and answers the same number each time.
    unsafe { AsyncFd::register_with_interest(fd, interest) }.expect("it can be polled")
}

/// A second registration of a descriptor with the same runtime, made before the event.
struct Watch(AsyncFd<OwnedFd>, Interest);

impl Watch {
    fn new(fd: impl AsFd, interest: Interest) -> Self {
        let fd = fd.as_fd().try_clone_to_owned().expect("a descriptor is free");
        Self(async_fd(fd, interest), interest)
    }

    fn read(fd: impl AsFd) -> Self {
        Self::new(fd, Interest::READABLE)
    }

    fn write(fd: impl AsFd) -> Self {
        Self::new(fd, Interest::WRITABLE)
    }

    /// Waits until the kernel has told of the event here. It tells all registrations in one go, under a lock that
    /// `poll` takes as well; so after that they all lie ready, and the next turn of the driver delivers them.
    async fn has_fired(self) {
        drop(self.0.ready(self.1).await.expect("it is registered"));
        let mut fds = [rustix::event::PollFd::new(&self.0, rustix::event::PollFlags::IN)];
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        rustix::event::poll(&mut fds, Some(&now)).expect("it can be polled");
        driver_has_turned().await;
    }
}

/// Returns when the closures before have ended, and the tasks that waited for them were woken.
async fn pool_is_idle() {
    spawn_blocking(|| ()).await.expect("an empty closure");
}

async fn has_finished(task: &AbortHandle) {
    while !task.is_finished() {
        yield_now().await;
    }
}

/// A task that ends when the gate is opened.
fn gate() -> (oneshot::Sender<()>, impl Future<Output = ()> + Send + 'static) {
    let (open, opened) = oneshot::channel();
    (open, async { opened.await.expect("it is opened") })
}

/// Writes until there is no more room.
fn fill(mut write: impl FnMut(&[u8]) -> std::io::Result<usize>) {
    let bytes = [0; 1 << 14];
    loop {
        match write(&bytes) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return,
            Err(error) => panic!("it is full or has room: {error}"),
        }
    }
}

/// Reads until there is nothing left.
fn drain(mut read: impl FnMut(&mut [u8]) -> std::io::Result<usize>) {
    let mut bytes = vec![0; 1 << 16];
    while read(&mut bytes).is_ok_and(|read| read > 0) {}
}

fn send_signal(signal: rustix::process::Signal) {
    let own = rustix::process::getpid();
    rustix::process::kill_process(own, signal).expect("a process may signal itself");
}

/// The answers of all modules.
pub fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    locks(&mut rows);
    events(&mut rows);
    channels(&mut rows);
    broadcast_and_watch(&mut rows);
    tasks(&mut rows);
    sets(&mut rows);
    times(&mut rows);
    memory_streams(&mut rows);
    buffered(&mut rows);
    tcp(&mut rows);
    unix(&mut rows);
    datagrams(&mut rows);
    descriptors(&mut rows);
    processes(&mut rows);
    signals(&mut rows);
    pool(&mut rows);
    rows
}

fn locks(rows: &mut Vec<Row>) {
    row!(
        rows,
        "Mutex::lock",
        {
            let mutex = Mutex::new(());
            let guard = mutex.lock().await;
        },
        mutex.lock(),
        drop(guard)
    );
    row!(
        rows,
        "Mutex::lock_owned",
        {
            let mutex = Arc::new(Mutex::new(()));
            let guard = mutex.lock().await;
        },
        mutex.clone().lock_owned(),
        drop(guard)
    );
    row!(
        rows,
        "RwLock::read",
        {
            let lock = RwLock::new(());
            let guard = lock.write().await;
        },
        lock.read(),
        drop(guard)
    );
    row!(
        rows,
        "RwLock::write",
        {
            let lock = RwLock::new(());
            let guard = lock.read().await;
        },
        lock.write(),
        drop(guard)
    );
    row!(
        rows,
        "RwLock::read_owned",
        {
            let lock = Arc::new(RwLock::new(()));
            let guard = lock.write().await;
        },
        lock.clone().read_owned(),
        drop(guard)
    );
    row!(
        rows,
        "RwLock::write_owned",
        {
            let lock = Arc::new(RwLock::new(()));
            let guard = lock.read().await;
        },
        lock.clone().write_owned(),
        drop(guard)
    );
    row!(
        rows,
        "Semaphore::acquire",
        {
            let permits = Semaphore::new(0);
        },
        permits.acquire(),
        permits.add_permits(1)
    );
    row!(
        rows,
        "Semaphore::acquire, closed",
        {
            let permits = Semaphore::new(0);
        },
        permits.acquire(),
        permits.close()
    );
    row!(
        rows,
        "Semaphore::acquire_many",
        {
            let permits = Semaphore::new(1);
        },
        permits.acquire_many(2),
        permits.add_permits(1)
    );
    row!(
        rows,
        "Semaphore::acquire_owned",
        {
            let permits = Arc::new(Semaphore::new(0));
        },
        permits.clone().acquire_owned(),
        permits.add_permits(1)
    );
    row!(
        rows,
        "Semaphore::acquire_many_owned",
        {
            let permits = Arc::new(Semaphore::new(1));
        },
        permits.clone().acquire_many_owned(2),
        permits.add_permits(1)
    );
}

fn events(rows: &mut Vec<Row>) {
    row!(
        rows,
        "Notify::notified, notify_one",
        {
            let notify = Notify::new();
        },
        notify.notified(),
        notify.notify_one()
    );
    row!(
        rows,
        "Notify::notified, notify_waiters",
        {
            let notify = Notify::new();
        },
        notify.notified(),
        notify.notify_waiters()
    );
    row!(
        rows,
        "Notify::notified_owned",
        {
            let notify = Arc::new(Notify::new());
        },
        notify.clone().notified_owned(),
        notify.notify_one()
    );
    row!(
        rows,
        "Barrier::wait",
        {
            let barrier = Barrier::new(2);
        },
        barrier.wait(),
        drop(poll_once(Box::pin(barrier.wait()).as_mut()))
    );
    row!(
        rows,
        "OnceCell::get_or_init",
        {
            let cell = OnceCell::new();
            let (open, opened) = gate();
            let mut first = Box::pin(cell.get_or_init(|| opened));
            assert!(poll_once(first.as_mut()).is_pending());
        },
        cell.get_or_init(async || ()),
        {
            open.send(()).unwrap();
            assert!(poll_once(first.as_mut()).is_ready());
        }
    );
    row!(
        rows,
        "OnceCell::get_or_try_init",
        {
            let cell = OnceCell::new();
            let (open, opened) = gate();
            let mut first = Box::pin(cell.get_or_init(|| opened));
            assert!(poll_once(first.as_mut()).is_pending());
        },
        cell.get_or_try_init(async || Ok::<_, ()>(())),
        {
            open.send(()).unwrap();
            assert!(poll_once(first.as_mut()).is_ready());
        }
    );
    row!(
        rows,
        "SetOnce::wait",
        {
            let cell = SetOnce::new();
        },
        cell.wait(),
        cell.set(1).unwrap()
    );
}

fn channels(rows: &mut Vec<Row>) {
    row!(
        rows,
        "mpsc::Receiver::recv",
        {
            let (tx, mut rx) = mpsc::channel::<u32>(1);
        },
        rx.recv(),
        tx.try_send(1).unwrap()
    );
    row!(
        rows,
        "mpsc::Receiver::recv, last sender dropped",
        {
            let (tx, mut rx) = mpsc::channel::<u32>(1);
        },
        rx.recv(),
        drop(tx)
    );
    row!(
        rows,
        "mpsc::Receiver::recv_many",
        {
            let (tx, mut rx) = mpsc::channel::<u32>(1);
            let mut buffer = Vec::new();
        },
        rx.recv_many(&mut buffer, 4),
        tx.try_send(1).unwrap()
    );
    row!(
        rows,
        "mpsc::Receiver::poll_recv",
        {
            let (tx, mut rx) = mpsc::channel::<u32>(1);
        },
        std::future::poll_fn(|cx| rx.poll_recv(cx)),
        tx.try_send(1).unwrap()
    );
    row!(
        rows,
        "mpsc::UnboundedReceiver::recv",
        {
            let (tx, mut rx) = mpsc::unbounded_channel::<u32>();
        },
        rx.recv(),
        tx.send(1).unwrap()
    );
    row!(
        rows,
        "mpsc::UnboundedReceiver::recv, last sender dropped",
        {
            let (tx, mut rx) = mpsc::unbounded_channel::<u32>();
        },
        rx.recv(),
        drop(tx)
    );
    row!(
        rows,
        "mpsc::UnboundedReceiver::recv_many",
        {
            let (tx, mut rx) = mpsc::unbounded_channel::<u32>();
            let mut buffer = Vec::new();
        },
        rx.recv_many(&mut buffer, 4),
        tx.send(1).unwrap()
    );
    row!(
        rows,
        "mpsc::UnboundedReceiver::poll_recv",
        {
            let (tx, mut rx) = mpsc::unbounded_channel::<u32>();
        },
        std::future::poll_fn(|cx| rx.poll_recv(cx)),
        tx.send(1).unwrap()
    );
    row!(
        rows,
        "mpsc::Sender::send",
        {
            let (tx, mut rx) = mpsc::channel::<u32>(1);
            tx.try_send(1).unwrap();
        },
        tx.send(2),
        rx.try_recv().unwrap()
    );
    row!(
        rows,
        "mpsc::Sender::send_timeout",
        {
            let (tx, mut rx) = mpsc::channel::<u32>(1);
            tx.try_send(1).unwrap();
        },
        tx.send_timeout(2, NEVER),
        rx.try_recv().unwrap()
    );
    row!(
        rows,
        "mpsc::Sender::reserve",
        {
            let (tx, mut rx) = mpsc::channel::<u32>(1);
            tx.try_send(1).unwrap();
        },
        tx.reserve(),
        rx.try_recv().unwrap()
    );
    row!(
        rows,
        "mpsc::Sender::reserve_many",
        {
            let (tx, mut rx) = mpsc::channel::<u32>(2);
            tx.try_send(1).unwrap();
        },
        tx.reserve_many(2),
        rx.try_recv().unwrap()
    );
    row!(
        rows,
        "mpsc::Sender::reserve_owned",
        {
            let (tx, mut rx) = mpsc::channel::<u32>(1);
            tx.try_send(1).unwrap();
        },
        tx.clone().reserve_owned(),
        rx.try_recv().unwrap()
    );
    row!(
        rows,
        "mpsc::Sender::closed",
        {
            let (tx, rx) = mpsc::channel::<u32>(1);
        },
        tx.closed(),
        drop(rx)
    );
    row!(
        rows,
        "mpsc::UnboundedSender::closed",
        {
            let (tx, rx) = mpsc::unbounded_channel::<u32>();
        },
        tx.closed(),
        drop(rx)
    );
    row!(
        rows,
        "oneshot::Receiver, by reference",
        {
            let (tx, mut rx) = oneshot::channel::<u32>();
        },
        &mut rx,
        tx.send(1).unwrap()
    );
    row!(
        rows,
        "oneshot::Receiver, by reference, sender dropped",
        {
            let (tx, mut rx) = oneshot::channel::<u32>();
        },
        &mut rx,
        drop(tx)
    );
    row!(
        rows,
        "oneshot::Sender::closed, receiver dropped",
        {
            let (mut tx, rx) = oneshot::channel::<u32>();
        },
        tx.closed(),
        drop(rx)
    );
    row!(
        rows,
        "oneshot::Sender::closed, receiver closed",
        {
            let (mut tx, mut rx) = oneshot::channel::<u32>();
        },
        tx.closed(),
        rx.close()
    );
    row!(
        rows,
        "oneshot::Sender::poll_closed",
        {
            let (mut tx, rx) = oneshot::channel::<u32>();
        },
        std::future::poll_fn(|cx| tx.poll_closed(cx)),
        drop(rx)
    );
}

fn broadcast_and_watch(rows: &mut Vec<Row>) {
    row!(
        rows,
        "broadcast::Receiver::recv",
        {
            let (tx, mut rx) = broadcast::channel::<u32>(2);
        },
        rx.recv(),
        tx.send(1).unwrap()
    );
    row!(
        rows,
        "broadcast::Receiver::recv, last sender dropped",
        {
            let (tx, mut rx) = broadcast::channel::<u32>(2);
        },
        rx.recv(),
        drop(tx)
    );
    row!(
        rows,
        "broadcast::Sender::closed",
        {
            let (tx, rx) = broadcast::channel::<u32>(2);
        },
        tx.closed(),
        drop(rx)
    );
    row!(
        rows,
        "watch::Receiver::changed",
        {
            let (tx, mut rx) = watch::channel(0);
        },
        rx.changed(),
        tx.send(1).unwrap()
    );
    row!(
        rows,
        "watch::Receiver::changed, last sender dropped",
        {
            let (tx, mut rx) = watch::channel(0);
        },
        rx.changed(),
        drop(tx)
    );
    row!(
        rows,
        "watch::Receiver::wait_for",
        {
            let (tx, mut rx) = watch::channel(0);
        },
        rx.wait_for(|value| *value == 1),
        tx.send(1).unwrap()
    );
    row!(
        rows,
        "watch::Sender::closed",
        {
            let (tx, rx) = watch::channel(0);
        },
        tx.closed(),
        drop(rx)
    );
}

fn tasks(rows: &mut Vec<Row>) {
    row!(
        rows,
        "JoinHandle, by reference",
        {
            let (open, opened) = gate();
            let mut task = rt::spawn(opened);
            let abort = task.abort_handle();
        },
        &mut task,
        open.send(()).unwrap(),
        has_finished(&abort).await
    );
    row!(
        rows,
        "JoinHandle, by reference, aborted",
        {
            let (_open, opened) = gate();
            let mut task = rt::spawn(opened);
            let abort = task.abort_handle();
        },
        &mut task,
        abort.abort(),
        has_finished(&abort).await
    );
    row!(
        rows,
        "JoinHandle, by value",
        {
            let (open, opened) = gate();
            let task = rt::spawn(opened);
            let abort = task.abort_handle();
        },
        task,
        open.send(()).unwrap(),
        has_finished(&abort).await
    );
    row!(
        rows,
        "JoinHandle of spawn_blocking, by reference",
        {
            let (open, opened) = std_mpsc::channel::<()>();
            let mut task = spawn_blocking(move || opened.recv().unwrap());
        },
        &mut task,
        open.send(()).unwrap(),
        pool_is_idle().await
    );
    row!(
        rows,
        "LocalSet, by reference",
        {
            let mut set = LocalSet::new();
            let (open, opened) = gate();
            set.spawn_local(opened);
        },
        &mut set,
        open.send(()).unwrap()
    );
    row!(
        rows,
        "LocalSet, by reference, a task is spawned",
        {
            let mut set = LocalSet::new();
            let (_open, opened) = gate();
            set.spawn_local(opened);
            let (spawn, told) = std_mpsc::channel::<()>();
            let (open, opened) = gate();
            set.spawn_local(async move {
                opened.await;
                told.try_recv().unwrap();
            });
        },
        &mut set,
        {
            spawn.send(()).unwrap();
            open.send(()).unwrap()
        }
    );
    row!(
        rows,
        "LocalSet::run_until",
        {
            let set = LocalSet::new();
            let (open, opened) = gate();
            set.spawn_local(opened);
        },
        set.run_until(std::future::pending::<()>()),
        open.send(()).unwrap()
    );
    row!(
        rows,
        "LocalSet::run_until, its future's event",
        {
            let set = LocalSet::new();
            let (tx, mut rx) = mpsc::channel::<u32>(1);
        },
        set.run_until(rx.recv()),
        tx.try_send(1).unwrap()
    );
    row!(rows, "yield_now", {}, yield_now(), (), yield_now().await);
    row!(
        rows,
        "coop::consume_budget, none left",
        { while poll_once(Box::pin(coop::consume_budget()).as_mut()).is_ready() {} },
        coop::consume_budget(),
        (),
        yield_now().await
    );
    row!(
        rows,
        "coop::unconstrained over recv",
        {
            let (tx, mut rx) = mpsc::channel::<u32>(1);
        },
        coop::unconstrained(rx.recv()),
        tx.try_send(1).unwrap()
    );
    row!(
        rows,
        "coop::cooperative over recv",
        {
            let (tx, mut rx) = mpsc::channel::<u32>(1);
        },
        coop::cooperative(rx.recv()),
        tx.try_send(1).unwrap()
    );
    row!(
        rows,
        "LocalKey::scope over recv",
        {
            rt::task_local! { static NUMBER: u32; }
            let (tx, mut rx) = mpsc::channel::<u32>(1);
        },
        NUMBER.scope(1, rx.recv()),
        tx.try_send(1).unwrap()
    );
    row!(
        rows,
        "select! over recv and join_next",
        {
            let (tx, mut rx) = mpsc::channel::<u32>(1);
            let mut set = JoinSet::new();
            set.spawn(std::future::pending::<()>());
        },
        async {
            rt::select! {
                _ = rx.recv() => {}
                _ = set.join_next() => {}
            }
        },
        tx.try_send(1).unwrap()
    );
    row!(
        rows,
        "join! over two recv",
        {
            let (tx, mut rx) = mpsc::channel::<u32>(1);
            let (_other, mut never) = mpsc::channel::<u32>(1);
        },
        async { rt::join!(rx.recv(), never.recv()) },
        tx.try_send(1).unwrap()
    );
}

fn sets(rows: &mut Vec<Row>) {
    row!(
        rows,
        "JoinSet::join_next",
        {
            let mut set = JoinSet::new();
            let (open, opened) = gate();
            let task = set.spawn(opened);
        },
        set.join_next(),
        open.send(()).unwrap(),
        has_finished(&task).await
    );
    row!(
        rows,
        "JoinSet::join_next, aborted",
        {
            let mut set = JoinSet::new();
            let (_open, opened) = gate();
            let task = set.spawn(opened);
        },
        set.join_next(),
        task.abort(),
        has_finished(&task).await
    );
    row!(
        rows,
        "JoinSet::join_next_with_id",
        {
            let mut set = JoinSet::new();
            let (open, opened) = gate();
            let task = set.spawn(opened);
        },
        set.join_next_with_id(),
        open.send(()).unwrap(),
        has_finished(&task).await
    );
    row!(
        rows,
        "JoinSet::poll_join_next",
        {
            let mut set = JoinSet::new();
            let (open, opened) = gate();
            let task = set.spawn(opened);
        },
        std::future::poll_fn(|cx| set.poll_join_next(cx)),
        open.send(()).unwrap(),
        has_finished(&task).await
    );
    row!(
        rows,
        "JoinSet::poll_join_next_with_id",
        {
            let mut set = JoinSet::new();
            let (open, opened) = gate();
            let task = set.spawn(opened);
        },
        std::future::poll_fn(|cx| set.poll_join_next_with_id(cx)),
        open.send(()).unwrap(),
        has_finished(&task).await
    );
    row!(
        rows,
        "JoinSet::join_all",
        {
            let mut set = JoinSet::new();
            let (open, opened) = gate();
            let task = set.spawn(opened);
        },
        set.join_all(),
        _ = open.send(()),
        has_finished(&task).await
    );
    row!(
        rows,
        "JoinSet::shutdown",
        {
            let mut set = JoinSet::new();
            let (_open, opened) = gate();
            let task = set.spawn(opened);
        },
        set.shutdown(),
        (),
        has_finished(&task).await
    );
    // These two end the wait in another way, and have no run that keeps the future.
    rows.push((
        "JoinSet::join_next, then the set is dropped",
        run(async {
            let mut set = JoinSet::new();
            let (_open, opened) = gate();
            let task = set.spawn(opened);
            let wakes = Arc::new(Wakes::default());
            wakes.poll("join_next", Box::pin(set.join_next()).as_mut());
            drop(set);
            has_finished(&task).await;
            wakes.any()
        }),
    ));
    rows.push((
        "JoinSet::join_next, then detach_all, then another task ends",
        run(async {
            let mut set = JoinSet::new();
            let (_open, opened) = gate();
            set.spawn(opened);
            let wakes = Arc::new(Wakes::default());
            wakes.poll("join_next", Box::pin(set.join_next()).as_mut());
            set.detach_all();
            let task = set.spawn(async {});
            has_finished(&task).await;
            wakes.any()
        }),
    ));
}

fn times(rows: &mut Vec<Row>) {
    row!(run_paused, rows, "sleep", {}, sleep(TICK), (), sleep(2 * TICK).await);
    row!(
        run_paused,
        rows,
        "sleep, by reference",
        {
            let mut sleep_once = Box::pin(sleep(TICK));
        },
        sleep_once.as_mut(),
        (),
        sleep(2 * TICK).await
    );
    row!(
        run_paused,
        rows,
        "sleep_until",
        {},
        sleep_until(Instant::now() + TICK),
        (),
        sleep(2 * TICK).await
    );
    row!(
        run_paused,
        rows,
        "Interval::tick",
        {
            let mut interval = interval(2 * TICK);
            interval.tick().await;
        },
        interval.tick(),
        (),
        sleep(4 * TICK).await
    );
    row!(
        run_paused,
        rows,
        "Interval::poll_tick",
        {
            let mut interval = interval(2 * TICK);
            interval.tick().await;
        },
        std::future::poll_fn(|cx| interval.poll_tick(cx)),
        (),
        sleep(4 * TICK).await
    );
    row!(
        run_paused,
        rows,
        "timeout, its time",
        {},
        timeout(TICK, std::future::pending::<()>()),
        (),
        sleep(2 * TICK).await
    );
    row!(
        run_paused,
        rows,
        "timeout_at, its time",
        {},
        timeout_at(Instant::now() + TICK, std::future::pending::<()>()),
        (),
        sleep(2 * TICK).await
    );
    row!(
        rows,
        "timeout over recv",
        {
            let (tx, mut rx) = mpsc::channel::<u32>(1);
        },
        timeout(NEVER, rx.recv()),
        tx.try_send(1).unwrap()
    );
}

/// A stream whose buffer is full.
async fn full_duplex() -> (DuplexStream, DuplexStream) {
    let (mut near, far) = duplex(4);
    near.write_all(b"full").await.expect("there is room");
    (near, far)
}

fn memory_streams(rows: &mut Vec<Row>) {
    row!(
        rows,
        "DuplexStream, read",
        {
            let (mut near, mut far) = duplex(4);
            let mut buffer = [0; 4];
        },
        near.read(&mut buffer),
        far.write_all(b"x").await.unwrap()
    );
    row!(
        rows,
        "DuplexStream, read, other end dropped",
        {
            let (mut near, far) = duplex(4);
            let mut buffer = [0; 4];
        },
        near.read(&mut buffer),
        drop(far)
    );
    row!(
        rows,
        "DuplexStream, write",
        {
            let (mut near, mut far) = full_duplex().await;
            let mut buffer = [0; 4];
        },
        near.write(b"x"),
        far.read_exact(&mut buffer).await.unwrap()
    );
    row!(
        rows,
        "SimplexStream, read",
        {
            let (mut near, mut far) = simplex(4);
            let mut buffer = [0; 4];
        },
        near.read(&mut buffer),
        far.write_all(b"x").await.unwrap()
    );
    row!(
        rows,
        "SimplexStream, write",
        {
            let (mut near, mut far) = simplex(4);
            far.write_all(b"full").await.unwrap();
            let mut buffer = [0; 4];
        },
        far.write(b"x"),
        near.read_exact(&mut buffer).await.unwrap()
    );
    row!(
        rows,
        "io::split, read",
        {
            let (near, mut far) = duplex(4);
            let (mut read, _write) = rt::io::split(near);
            let mut buffer = [0; 4];
        },
        read.read(&mut buffer),
        far.write_all(b"x").await.unwrap()
    );
    row!(
        rows,
        "io::split, write",
        {
            let (near, mut far) = full_duplex().await;
            let (_read, mut write) = rt::io::split(near);
            let mut buffer = [0; 4];
        },
        write.write(b"x"),
        far.read_exact(&mut buffer).await.unwrap()
    );
    row!(
        rows,
        "io::copy, waiting for the reader",
        {
            let (mut near, mut far) = duplex(4);
            let mut sink = rt::io::sink();
        },
        rt::io::copy(&mut near, &mut sink),
        far.write_all(b"x").await.unwrap()
    );
    row!(
        rows,
        "io::copy, waiting for the writer",
        {
            let (mut near, mut far) = full_duplex().await;
            let mut source = b"more".as_slice();
            let mut buffer = [0; 4];
        },
        rt::io::copy(&mut source, &mut near),
        far.read_exact(&mut buffer).await.unwrap()
    );
    row!(
        rows,
        "io::copy_buf",
        {
            let (near, mut far) = duplex(4);
            let (mut near, mut sink) = (BufReader::new(near), rt::io::sink());
        },
        rt::io::copy_buf(&mut near, &mut sink),
        far.write_all(b"x").await.unwrap()
    );
    row!(
        rows,
        "io::copy_bidirectional",
        {
            let (mut near, mut far) = duplex(4);
            let (mut other, _other_far) = duplex(4);
        },
        rt::io::copy_bidirectional(&mut near, &mut other),
        far.write_all(b"x").await.unwrap()
    );
    row!(
        rows,
        "io::copy_bidirectional_with_sizes",
        {
            let (mut near, mut far) = duplex(4);
            let (mut other, _other_far) = duplex(4);
        },
        rt::io::copy_bidirectional_with_sizes(&mut near, &mut other, 8, 8),
        far.write_all(b"x").await.unwrap()
    );
}

fn buffered(rows: &mut Vec<Row>) {
    /// Reads from an empty `near`; something comes from `far`.
    macro_rules! reads {
        ($($name:literal: |$near:ident, $buffer:ident| $future:expr;)+) => {$(
            row!(rows, $name, {
                let (near, mut far) = duplex(16);
                let mut $near = BufReader::new(near);
                #[allow(unused, reason = "some futures need no buffer")]
                let mut $buffer = Buffer::default();
            }, $future, far.write_all(b"one\n").await.unwrap());
        )+};
    }
    #[derive(Default)]
    struct Buffer {
        bytes: Vec<u8>,
        array: [u8; 4],
        text: String,
    }
    reads! {
        "AsyncReadExt::read_u8": |near, buffer| near.read_u8();
        "AsyncReadExt::read_u32_le": |near, buffer| near.read_u32_le();
        "AsyncReadExt::read_f64": |near, buffer| near.read_f64();
        "AsyncReadExt::read_buf": |near, buffer| near.read_buf(&mut buffer.bytes);
        "AsyncReadExt::read_exact": |near, buffer| near.read_exact(&mut buffer.array);
        "AsyncReadExt::read_to_end": |near, buffer| near.read_to_end(&mut buffer.bytes);
        "AsyncReadExt::read_to_string": |near, buffer| near.read_to_string(&mut buffer.text);
        "AsyncBufReadExt::fill_buf": |near, buffer| near.fill_buf();
        "AsyncBufReadExt::read_until": |near, buffer| near.read_until(b'\n', &mut buffer.bytes);
        "AsyncBufReadExt::read_line": |near, buffer| near.read_line(&mut buffer.text);
    }
    row!(
        rows,
        "AsyncReadExt::take, read",
        {
            let (near, mut far) = duplex(16);
            let mut near = near.take(8);
            let mut bytes = [0; 4];
        },
        near.read(&mut bytes),
        far.write_all(b"one\n").await.unwrap()
    );
    row!(
        rows,
        "AsyncReadExt::chain, read",
        {
            let (near, mut far) = duplex(16);
            let mut near = b"".as_slice().chain(near);
            let mut bytes = [0; 4];
        },
        near.read(&mut bytes),
        far.write_all(b"one\n").await.unwrap()
    );
    row!(
        rows,
        "Lines::next_line",
        {
            let (near, mut far) = duplex(16);
            let mut lines = BufReader::new(near).lines();
        },
        lines.next_line(),
        far.write_all(b"one\n").await.unwrap()
    );
    row!(
        rows,
        "Split::next_segment",
        {
            let (near, mut far) = duplex(16);
            let mut segments = BufReader::new(near).split(b'\n');
        },
        segments.next_segment(),
        far.write_all(b"one\n").await.unwrap()
    );
    row!(
        rows,
        "AsyncWriteExt::write_vectored",
        {
            let (mut near, mut far) = full_duplex().await;
            let parts = [std::io::IoSlice::new(b"x")];
        },
        near.write_vectored(&parts),
        far.read_u32().await.unwrap()
    );
    row!(
        rows,
        "AsyncWriteExt::write_buf",
        {
            let (mut near, mut far) = full_duplex().await;
            let mut bytes = b"x".as_slice();
        },
        near.write_buf(&mut bytes),
        far.read_u32().await.unwrap()
    );
    row!(
        rows,
        "AsyncWriteExt::write_all_buf",
        {
            let (mut near, mut far) = full_duplex().await;
            let mut bytes = b"x".as_slice();
        },
        near.write_all_buf(&mut bytes),
        far.read_u32().await.unwrap()
    );
    row!(
        rows,
        "AsyncWriteExt::write_all",
        {
            let (mut near, mut far) = full_duplex().await;
        },
        near.write_all(b"x"),
        far.read_u32().await.unwrap()
    );
    row!(
        rows,
        "AsyncWriteExt::write_u64",
        {
            let (mut near, mut far) = full_duplex().await;
        },
        near.write_u64(1),
        far.read_u32().await.unwrap()
    );
    row!(
        rows,
        "AsyncWriteExt::flush of a BufWriter",
        {
            let (near, mut far) = full_duplex().await;
            let mut near = BufWriter::new(near);
            near.write_all(b"x").await.unwrap();
        },
        near.flush(),
        far.read_u32().await.unwrap()
    );
    row!(
        rows,
        "AsyncWriteExt::shutdown of a BufWriter",
        {
            let (near, mut far) = full_duplex().await;
            let mut near = BufWriter::new(near);
            near.write_all(b"x").await.unwrap();
        },
        near.shutdown(),
        far.read_u32().await.unwrap()
    );
}

/// Two ends of a TCP connection.
async fn tcp_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let near = TcpStream::connect(listener.local_addr().expect("it is bound")).await;
    let (far, _) = listener.accept().await.expect("it was connected to");
    (near.expect("it listens"), far)
}

fn tcp(rows: &mut Vec<Row>) {
    /// Reads from an empty `near`; something comes from `far`.
    macro_rules! reads {
        ($($name:literal: |$near:ident, $bytes:ident| { $($more:tt)* } $future:expr;)+) => {$(
            row!(rows, $name, {
                let (near, far) = tcp_pair().await;
                far.writable().await.unwrap();
                let watch = Watch::read(&near);
                #[allow(unused, reason = "some futures need no buffer")]
                let mut $bytes = [0; 4];
                #[allow(unused_mut, reason = "some futures borrow it only")]
                let mut $near = near;
                $($more)*
            }, $future, far.try_write(b"x").unwrap(), watch.has_fired().await);
        )+};
    }
    reads! {
        "TcpStream, read": |near, bytes| {} near.read(&mut bytes);
        "TcpStream::peek": |near, bytes| {} near.peek(&mut bytes);
        "TcpStream::poll_peek": |near, bytes| {} std::future::poll_fn(|cx| {
            near.poll_peek(cx, &mut rt::io::ReadBuf::new(&mut bytes))
        });
        "TcpStream::poll_read_ready": |near, bytes| {}
            std::future::poll_fn(|cx| near.poll_read_ready(cx));
        "TcpStream::readable": |near, bytes| {} near.readable();
        "TcpStream::ready": |near, bytes| {} near.ready(Interest::READABLE);
        "TcpStream::async_io": |near, bytes| {} near.async_io(Interest::READABLE, || {
            near.try_read(&mut bytes)
        });
        "tcp::ReadHalf, read": |near, bytes| { let (mut read, _write) = near.split(); }
            read.read(&mut bytes);
        "tcp::ReadHalf::peek": |near, bytes| { let (mut read, _write) = near.split(); }
            read.peek(&mut bytes);
        "tcp::ReadHalf::readable": |near, bytes| { let (read, _write) = near.split(); }
            read.readable();
        "tcp::ReadHalf::ready": |near, bytes| { let (read, _write) = near.split(); }
            read.ready(Interest::READABLE);
        "tcp::OwnedReadHalf, read": |near, bytes| { let (mut read, _write) = near.into_split(); }
            read.read(&mut bytes);
        "tcp::OwnedReadHalf::peek": |near, bytes| { let (mut read, _write) = near.into_split(); }
            read.peek(&mut bytes);
        "tcp::OwnedReadHalf::readable": |near, bytes| { let (read, _write) = near.into_split(); }
            read.readable();
        "tcp::OwnedReadHalf::ready": |near, bytes| { let (read, _write) = near.into_split(); }
            read.ready(Interest::READABLE);
    }
    row!(
        rows,
        "TcpListener::accept",
        {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let addr = listener.local_addr().unwrap();
            let watch = Watch::read(&listener);
        },
        listener.accept(),
        _ = std::net::TcpStream::connect(addr).unwrap(),
        watch.has_fired().await
    );
    row!(
        rows,
        "TcpListener::poll_accept",
        {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let addr = listener.local_addr().unwrap();
            let watch = Watch::read(&listener);
        },
        std::future::poll_fn(|cx| listener.poll_accept(cx)),
        _ = std::net::TcpStream::connect(addr).unwrap(),
        watch.has_fired().await
    );
    row!(
        rows,
        "TcpStream::connect",
        {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let addr = listener.local_addr().unwrap();
            let watch = Watch::read(&listener);
        },
        TcpStream::connect(addr),
        (),
        watch.has_fired().await
    );
    row!(
        rows,
        "TcpSocket::connect",
        {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let addr = listener.local_addr().unwrap();
            let watch = Watch::read(&listener);
        },
        rt::net::TcpSocket::new_v4().unwrap().connect(addr),
        (),
        watch.has_fired().await
    );
}

fn unix(rows: &mut Vec<Row>) {
    /// Reads from an empty `near`; something comes from `far`.
    macro_rules! reads {
        ($($name:literal: |$near:ident, $bytes:ident| { $($more:tt)* } $future:expr;)+) => {$(
            row!(rows, $name, {
                let (near, far) = UnixStream::pair().unwrap();
                far.writable().await.unwrap();
                #[allow(unused, reason = "some futures need no buffer")]
                let mut $bytes = [0; 4];
                #[allow(unused_mut, reason = "some futures borrow it only")]
                let mut $near = near;
                $($more)*
            }, $future, far.try_write(b"x").unwrap(), driver_has_turned().await);
        )+};
    }
    reads! {
        "UnixStream, read": |near, bytes| {} near.read(&mut bytes);
        "UnixStream::poll_read_ready": |near, bytes| {}
            std::future::poll_fn(|cx| near.poll_read_ready(cx));
        "UnixStream::readable": |near, bytes| {} near.readable();
        "UnixStream::ready": |near, bytes| {} near.ready(Interest::READABLE);
        "UnixStream::async_io": |near, bytes| {} near.async_io(Interest::READABLE, || {
            near.try_read(&mut bytes)
        });
        "unix::ReadHalf, read": |near, bytes| { let (mut read, _write) = near.split(); }
            read.read(&mut bytes);
        "unix::ReadHalf::readable": |near, bytes| { let (read, _write) = near.split(); }
            read.readable();
        "unix::OwnedReadHalf, read": |near, bytes| { let (mut read, _write) = near.into_split(); }
            read.read(&mut bytes);
        "unix::OwnedReadHalf::readable": |near, bytes| { let (read, _write) = near.into_split(); }
            read.readable();
    }
    /// Writes to a full `near`; `far` reads all of it.
    macro_rules! writes {
        ($($name:literal: |$near:ident| { $($more:tt)* } $future:expr;)+) => {$(
            row!(rows, $name, {
                let (near, far) = UnixStream::pair().unwrap();
                near.writable().await.unwrap();
                fill(|bytes| near.try_write(bytes));
                far.readable().await.unwrap();
                #[allow(unused_mut, reason = "some futures borrow it only")]
                let mut $near = near;
                $($more)*
            }, $future, drain(|bytes| far.try_read(bytes)), driver_has_turned().await);
        )+};
    }
    writes! {
        "UnixStream, write": |near| {} near.write(b"x");
        "UnixStream::poll_write_ready": |near| {}
            std::future::poll_fn(|cx| near.poll_write_ready(cx));
        "UnixStream::writable": |near| {} near.writable();
        "UnixStream::ready, writable": |near| {} near.ready(Interest::WRITABLE);
        "UnixStream::async_io, write": |near| {} near.async_io(Interest::WRITABLE, || {
            near.try_write(b"x")
        });
        "unix::WriteHalf, write": |near| { let (_read, mut write) = near.split(); }
            write.write(b"x");
        "unix::WriteHalf::writable": |near| { let (_read, write) = near.split(); }
            write.writable();
        "unix::OwnedWriteHalf, write": |near| { let (_read, mut write) = near.into_split(); }
            write.write(b"x");
        "unix::OwnedWriteHalf::writable": |near| { let (_read, write) = near.into_split(); }
            write.writable();
    }
    row!(
        rows,
        "UnixListener::accept",
        {
            let (listener, path) = bound();
        },
        listener.accept(),
        _ = std::os::unix::net::UnixStream::connect_addr(&path).unwrap(),
        driver_has_turned().await
    );
    row!(
        rows,
        "UnixListener::poll_accept",
        {
            let (listener, path) = bound();
        },
        std::future::poll_fn(|cx| listener.poll_accept(cx)),
        _ = std::os::unix::net::UnixStream::connect_addr(&path).unwrap(),
        driver_has_turned().await
    );
}

/// A listener with a name that the kernel chose, outside of the file system.
fn bound() -> (UnixListener, std::os::unix::net::SocketAddr) {
    use std::os::linux::net::SocketAddrExt;
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let name = format!(
        "wakeful-dropped-{}-{}-{}",
        std::process::id(),
        module_path!(),
        NEXT.fetch_add(1, SeqCst)
    );
    let addr = std::os::unix::net::SocketAddr::from_abstract_name(name).expect("a short name");
    let listener = std::os::unix::net::UnixListener::bind_addr(&addr).expect("nobody else has it");
    listener.set_nonblocking(true).expect("a socket can");
    (UnixListener::from_std(listener).expect("it can be polled"), addr)
}

async fn udp_pair() -> (UdpSocket, UdpSocket) {
    let near = UdpSocket::bind("127.0.0.1:0").await.expect("a port is free");
    let far = UdpSocket::bind("127.0.0.1:0").await.expect("a port is free");
    far.connect(near.local_addr().expect("it is bound")).await.expect("no packet is sent");
    near.connect(far.local_addr().expect("it is bound")).await.expect("no packet is sent");
    (near, far)
}

fn datagrams(rows: &mut Vec<Row>) {
    /// Receives on `near`, which has no packet; one comes from `far`.
    macro_rules! reads {
        ($($name:literal: |$near:ident, $bytes:ident, $array:ident| $future:expr;)+) => {$(
            row!(rows, $name, {
                let ($near, far) = udp_pair().await;
                far.writable().await.unwrap();
                let watch = Watch::read(&$near);
                #[allow(unused, reason = "some futures need no buffer")]
                let (mut $bytes, mut $array) = (Vec::<u8>::with_capacity(4), [0; 4]);
            }, $future, far.try_send(b"x").unwrap(), watch.has_fired().await);
        )+};
    }
    reads! {
        "UdpSocket::recv": |near, bytes, array| near.recv(&mut array);
        "UdpSocket::recv_from": |near, bytes, array| near.recv_from(&mut array);
        "UdpSocket::recv_buf": |near, bytes, array| near.recv_buf(&mut bytes);
        "UdpSocket::recv_buf_from": |near, bytes, array| near.recv_buf_from(&mut bytes);
        "UdpSocket::peek": |near, bytes, array| near.peek(&mut array);
        "UdpSocket::peek_from": |near, bytes, array| near.peek_from(&mut array);
        "UdpSocket::peek_sender": |near, bytes, array| near.peek_sender();
        "UdpSocket::readable": |near, bytes, array| near.readable();
        "UdpSocket::ready": |near, bytes, array| near.ready(Interest::READABLE);
        "UdpSocket::async_io": |near, bytes, array| near.async_io(Interest::READABLE, || {
            near.try_recv(&mut array)
        });
        "UdpSocket::poll_recv": |near, bytes, array| std::future::poll_fn(|cx| {
            near.poll_recv(cx, &mut rt::io::ReadBuf::new(&mut array))
        });
        "UdpSocket::poll_recv_ready": |near, bytes, array|
            std::future::poll_fn(|cx| near.poll_recv_ready(cx));
    }
    /// Receives on `near`, which has no packet; one comes from `far`.
    macro_rules! unix_reads {
        ($($name:literal: |$near:ident, $bytes:ident, $array:ident| $future:expr;)+) => {$(
            row!(rows, $name, {
                let ($near, far) = UnixDatagram::pair().unwrap();
                far.writable().await.unwrap();
                #[allow(unused, reason = "some futures need no buffer")]
                let (mut $bytes, mut $array) = (Vec::<u8>::with_capacity(4), [0; 4]);
            }, $future, far.try_send(b"x").unwrap(), driver_has_turned().await);
        )+};
    }
    unix_reads! {
        "UnixDatagram::recv": |near, bytes, array| near.recv(&mut array);
        "UnixDatagram::recv_from": |near, bytes, array| near.recv_from(&mut array);
        "UnixDatagram::recv_buf": |near, bytes, array| near.recv_buf(&mut bytes);
        "UnixDatagram::recv_buf_from": |near, bytes, array| near.recv_buf_from(&mut bytes);
        "UnixDatagram::readable": |near, bytes, array| near.readable();
        "UnixDatagram::ready": |near, bytes, array| near.ready(Interest::READABLE);
        "UnixDatagram::async_io": |near, bytes, array| near.async_io(Interest::READABLE, || {
            near.try_recv(&mut array)
        });
        "UnixDatagram::poll_recv": |near, bytes, array| std::future::poll_fn(|cx| {
            near.poll_recv(cx, &mut rt::io::ReadBuf::new(&mut array))
        });
    }
    /// Sends to `far`, whose queue is full; `far` receives all of it.
    macro_rules! unix_writes {
        ($($name:literal: |$near:ident| $future:expr;)+) => {$(
            row!(rows, $name, {
                let ($near, far) = UnixDatagram::pair().unwrap();
                $near.writable().await.unwrap();
                fill(|bytes| $near.try_send(&bytes[..1]));
                far.readable().await.unwrap();
            }, $future, drain(|bytes| far.try_recv(bytes)), driver_has_turned().await);
        )+};
    }
    unix_writes! {
        "UnixDatagram::send": |near| near.send(b"x");
        "UnixDatagram::writable": |near| near.writable();
        "UnixDatagram::poll_send": |near| std::future::poll_fn(|cx| near.poll_send(cx, b"x"));
    }
}

fn descriptors(rows: &mut Vec<Row>) {
    /// A pipe of the system, non-blocking, as `AsyncFd`s.
    fn pipe() -> (AsyncFd<OwnedFd>, std::io::PipeWriter) {
        let (read, write) = std::io::pipe().expect("two descriptors are free");
        (async_fd(read.into(), Interest::READABLE), write)
    }
    macro_rules! reads {
        ($($name:literal: |$fd:ident| $future:expr;)+) => {$(
            row!(rows, $name, {
                let (fd, mut write) = pipe();
                #[allow(unused_mut, reason = "some futures borrow it only")]
                let mut $fd = fd;
            }, $future, write.write_all(b"x").unwrap(), driver_has_turned().await);
        )+};
    }
    reads! {
        "AsyncFd::readable": |fd| fd.readable();
        "AsyncFd::readable_mut": |fd| fd.readable_mut();
        "AsyncFd::ready": |fd| fd.ready(Interest::READABLE);
        "AsyncFd::ready_mut": |fd| fd.ready_mut(Interest::READABLE);
        "AsyncFd::async_io": |fd| fd.async_io(Interest::READABLE, |_| Ok(()));
        "AsyncFd::async_io_mut": |fd| fd.async_io_mut(Interest::READABLE, |_| Ok(()));
        "AsyncFd::poll_read_ready": |fd| std::future::poll_fn(|cx| {
            fd.poll_read_ready(cx).map(drop)
        });
    }
    row!(
        rows,
        "pipe::Receiver, read",
        {
            let (tx, mut rx) = rt::net::unix::pipe::pipe().unwrap();
            tx.writable().await.unwrap();
            let mut bytes = [0; 4];
        },
        rx.read(&mut bytes),
        tx.try_write(b"x").unwrap(),
        driver_has_turned().await
    );
    row!(
        rows,
        "pipe::Receiver::readable",
        {
            let (tx, rx) = rt::net::unix::pipe::pipe().unwrap();
            tx.writable().await.unwrap();
        },
        rx.readable(),
        tx.try_write(b"x").unwrap(),
        driver_has_turned().await
    );
    row!(
        rows,
        "pipe::Receiver::ready",
        {
            let (tx, rx) = rt::net::unix::pipe::pipe().unwrap();
            tx.writable().await.unwrap();
        },
        rx.ready(Interest::READABLE),
        tx.try_write(b"x").unwrap(),
        driver_has_turned().await
    );
    row!(
        rows,
        "pipe::Sender, write",
        {
            let (mut tx, rx) = rt::net::unix::pipe::pipe().unwrap();
            tx.writable().await.unwrap();
            fill(|bytes| tx.try_write(bytes));
            rx.readable().await.unwrap();
        },
        tx.write(b"x"),
        drain(|bytes| rx.try_read(bytes)),
        driver_has_turned().await
    );
    row!(
        rows,
        "pipe::Sender::writable",
        {
            let (tx, rx) = rt::net::unix::pipe::pipe().unwrap();
            tx.writable().await.unwrap();
            fill(|bytes| tx.try_write(bytes));
            rx.readable().await.unwrap();
        },
        tx.writable(),
        drain(|bytes| rx.try_read(bytes)),
        driver_has_turned().await
    );
    row!(
        rows,
        "pipe::Sender::ready",
        {
            let (tx, rx) = rt::net::unix::pipe::pipe().unwrap();
            tx.writable().await.unwrap();
            fill(|bytes| tx.try_write(bytes));
            rx.readable().await.unwrap();
        },
        tx.ready(Interest::WRITABLE),
        drain(|bytes| rx.try_read(bytes)),
        driver_has_turned().await
    );
    row!(
        rows,
        "TcpStream, write",
        {
            let (mut near, far) = tcp_pair().await;
            near.writable().await.unwrap();
            fill(|bytes| near.try_write(bytes));
            far.readable().await.unwrap();
            fill(|bytes| near.try_write(bytes));
            let watch = Watch::write(&near);
        },
        near.write(b"x"),
        drain(|bytes| far.try_read(bytes)),
        watch.has_fired().await
    );
}

/// A program that ends with its standard input, which the test keeps. And a listener for the end of children: the
/// kernel sends that signal after it has told those who have a descriptor of the process.
fn child() -> (Child, ChildStdin, Signal) {
    let ended = signal(SignalKind::child()).expect("it can be listened for");
    let mut command = Command::new("cat");
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("there is `cat`");
    let stdin = child.stdin.take().expect("it was asked for");
    (child, stdin, ended)
}

/// The signal came, and the runtime has delivered what the kernel told before.
async fn has_ended(mut ended: Signal) {
    ended.recv().await.expect("the runtime is there");
    driver_has_turned().await;
}

/// A command whose standard input ends when the second is dropped.
fn command() -> (Command, std::io::PipeWriter, Signal) {
    let ended = signal(SignalKind::child()).expect("it can be listened for");
    let (read, write) = std::io::pipe().expect("two descriptors are free");
    let mut command = Command::new("cat");
    command.stdin(Stdio::from(read)).stdout(Stdio::null());
    (command, write, ended)
}

fn processes(rows: &mut Vec<Row>) {
    row!(
        rows,
        "Child::wait",
        {
            let (mut child, stdin, ended) = child();
        },
        child.wait(),
        drop(stdin),
        has_ended(ended).await
    );
    row!(
        rows,
        "Child::kill",
        {
            let (mut child, _stdin, ended) = child();
        },
        child.kill(),
        (),
        has_ended(ended).await
    );
    row!(
        rows,
        "Child::wait_with_output",
        {
            let (child, stdin, ended) = child();
        },
        child.wait_with_output(),
        drop(stdin),
        has_ended(ended).await
    );
    row!(
        rows,
        "Command::status",
        {
            let (mut command, write, ended) = command();
        },
        command.status(),
        drop((write, command.stdin(Stdio::null()))),
        has_ended(ended).await
    );
    row!(
        rows,
        "Command::output",
        {
            let (mut command, write, ended) = command();
        },
        command.output(),
        drop((write, command.stdin(Stdio::null()))),
        has_ended(ended).await
    );
    row!(
        rows,
        "ChildStdout, read",
        {
            let (mut child, mut stdin, ended) = child();
            let mut stdout = child.stdout.take().unwrap();
            let watch = Watch::read(&stdout);
            let mut bytes = [0; 4];
        },
        stdout.read(&mut bytes),
        stdin.write_all(b"x").await.unwrap(),
        {
            watch.has_fired().await;
            // No signal is left over for the next row.
            drop(stdin);
            has_ended(ended).await;
        }
    );
}

fn signals(rows: &mut Vec<Row>) {
    row!(
        rows,
        "Signal::recv",
        {
            let mut signals = signal(SignalKind::user_defined1()).unwrap();
            let mut others = signal(SignalKind::user_defined1()).unwrap();
        },
        signals.recv(),
        send_signal(rustix::process::Signal::USR1),
        others.recv().await.unwrap()
    );
    row!(
        rows,
        "Signal::poll_recv",
        {
            let mut signals = signal(SignalKind::user_defined1()).unwrap();
            let mut others = signal(SignalKind::user_defined1()).unwrap();
        },
        std::future::poll_fn(|cx| signals.poll_recv(cx)),
        send_signal(rustix::process::Signal::USR1),
        others.recv().await.unwrap()
    );
    row!(
        rows,
        "ctrl_c",
        {
            let mut others = signal(SignalKind::interrupt()).unwrap();
        },
        rt::signal::ctrl_c(),
        send_signal(rustix::process::Signal::INT),
        others.recv().await.unwrap()
    );
}

fn pool(rows: &mut Vec<Row>) {
    row!(rows, "lookup_host", {}, rt::net::lookup_host("localhost:1"), (), pool_is_idle().await);
}
