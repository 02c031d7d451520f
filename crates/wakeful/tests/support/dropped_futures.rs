// Rows of a table. Each row polls a future once, which must be pending, and drops it. Then the future's event
// happens. The row records whether that wakes the waker.
//
// `bench/tests/dropped_futures.rs` includes this file twice, for wakeful and for the real tokio; `rt` is the
// runtime's crate. (An included file cannot begin with inner documentation.)
//
// The table lacks futures that are ready at the first poll (`bind`, `TcpSocket::connect` to a path) and futures
// of `fs` that one runtime answers from the page cache. The buffer of a `UdpSocket` does not stay full, so its
// sends are left out. Standard output and error belong to the test harness.

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

/// The name of a future, and whether its waker was woken after its drop.
pub type Row = (&'static str, bool);

/// A duration that no test reaches.
const NEVER: Duration = Duration::from_secs(3600);
/// The shortest duration of a timer.
const TICK: Duration = Duration::from_millis(1);

/// Counts wakes. Each wake also wakes the task that awaits the first one.
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

    /// Polls once, and asserts that the future is pending.
    fn poll(self: &Arc<Self>, name: &str, future: Pin<&mut impl Future>) {
        let waker = Waker::from(self.clone());
        let polled = future.poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending(), "{name} is ready at its first poll");
    }
}

/// Runs one row on a new runtime. One pool thread runs all closures in turn: see `pool_is_idle`.
fn run<T>(future: impl Future<Output = T>) -> T {
    let mut builder = Builder::new_current_thread();
    let runtime = builder.enable_all().max_blocking_threads(1).build().expect("it starts");
    runtime.block_on(future)
}

/// Runs one row about time. The clock is paused while tasks can run, and otherwise jumps to the next timer.
fn run_paused<T>(future: impl Future<Output = T>) -> T {
    let mut builder = Builder::new_current_thread();
    let runtime = builder.enable_all().start_paused(true).build().expect("it starts");
    runtime.block_on(future)
}

/// `row!(rows, name, { setup }, future, event, observed)`: adds a row.
///
/// The first run keeps the future, and ends only if the event wakes it, which proves that the event is the
/// right one. The second run drops the future before the event, and reads the count after `observed` has seen
/// the event.
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
                let _ = { $event };
                wakes.first().await;
            }
            let _: () = $observed;
        });
        let woken = $run(async {
            $($setup)*
            let wakes = Arc::new(Wakes::default());
            {
                let mut future = Box::pin($future);
                wakes.poll($name, future.as_mut());
            }
            let _ = { $event };
            let _: () = $observed;
            wakes.any()
        });
        $rows.push(($name, woken));
    }};
}

/// Polls once, with a no-op waker.
fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Returns after the runtime has delivered all events that the kernel had at the time of the call.
async fn driver_has_turned() {
    let (near, far) = UnixStream::pair().expect("a pair of sockets");
    far.writable().await.expect("a new socket has room");
    far.try_write(b"!").expect("a new socket has room");
    near.readable().await.expect("it was written to");
}

fn async_fd(fd: OwnedFd, interest: Interest) -> AsyncFd<OwnedFd> {
    // SAFETY: an `OwnedFd` keeps its descriptor open and always returns the same number.
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

    /// Waits until the kernel has reported the event to this registration. It reports to all registrations at once,
    /// under a lock that `poll` takes too. So the next poll of the driver delivers all of them.
    async fn has_fired(self) {
        drop(self.0.ready(self.1).await.expect("it is registered"));
        let mut fds = [rustix::event::PollFd::new(&self.0, rustix::event::PollFlags::IN)];
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        rustix::event::poll(&mut fds, Some(&now)).expect("it can be polled");
        driver_has_turned().await;
    }
}

/// Returns after all earlier closures have ended and the tasks that waited for them were woken.
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

/// Writes until the buffer is full.
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

/// Reads until the buffer is empty.
fn drain(mut read: impl FnMut(&mut [u8]) -> std::io::Result<usize>) {
    let mut bytes = vec![0; 1 << 16];
    while read(&mut bytes).is_ok_and(|read| read > 0) {}
}

fn send_signal(signal: rustix::process::Signal) {
    let own = rustix::process::getpid();
    rustix::process::kill_process(own, signal).expect("a process may signal itself");
}

/// Returns the rows of all modules.
pub fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    rows_of_sync::locks(&mut rows);
    rows_of_sync::events(&mut rows);
    rows_of_sync::channels(&mut rows);
    rows_of_sync::broadcast_and_watch(&mut rows);
    rows_of_tasks::tasks(&mut rows);
    rows_of_tasks::sets(&mut rows);
    rows_of_tasks::times(&mut rows);
    rows_of_io::memory_streams(&mut rows);
    rows_of_io::buffered(&mut rows);
    rows_of_net::tcp(&mut rows);
    rows_of_net::unix(&mut rows);
    rows_of_net::datagrams(&mut rows);
    rows_of_io::descriptors(&mut rows);
    rows_of_processes::processes(&mut rows);
    rows_of_processes::signals(&mut rows);
    rows_of_processes::pool(&mut rows);
    rows_of_polls::writes(&mut rows);
    rows_of_polls::datagrams(&mut rows);
    rows_of_polls::channels(&mut rows);
    rows_of_polls::stdin(&mut rows);
    rows
}

// After the macro `row`, which these modules use.
#[path = "dropped_futures_io.rs"]
mod rows_of_io;
#[path = "dropped_futures_net.rs"]
mod rows_of_net;
#[path = "dropped_futures_polls.rs"]
mod rows_of_polls;
#[path = "dropped_futures_processes.rs"]
mod rows_of_processes;
#[path = "dropped_futures_sync.rs"]
mod rows_of_sync;
#[path = "dropped_futures_tasks.rs"]
mod rows_of_tasks;
