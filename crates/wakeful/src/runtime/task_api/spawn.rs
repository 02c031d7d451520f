//! Station 1: spawning a task, and `block_in_place`.

use crate::runtime::context;
use crate::runtime::inner::{Flavor, RuntimeInner};
use crate::scheduler::multi_thread::{block_in_place, worker};
use crate::task::cell::SpawnOptions;
use crate::task::context::wake_deferred;
use crate::task::origin::Origin;
use crate::task::{JoinHandle, enter_guard};

/// Returns the options of a plain spawn at the caller's location.
#[track_caller]
#[inline]
pub(crate) fn options_here() -> SpawnOptions {
    SpawnOptions { origin: Origin::here(), flags: 0 }
}

/// Spawns a task on the current runtime.
///
/// The task starts at once, awaited or not. Dropping the returned [`JoinHandle`] detaches it. To
/// wait for several tasks, use a [`JoinSet`](crate::task::JoinSet). To name a task, use
/// [`task::Builder`](crate::task::Builder).
///
/// # Panics
///
/// If the thread has no current runtime. Call it from a task, inside `block_on`, or while holding
/// an [`EnterGuard`](crate::runtime::EnterGuard).
///
/// # Examples
///
/// ```
/// # #[wakeful::main]
/// # async fn main() {
/// let handles: Vec<_> = (0..3).map(|n| wakeful::spawn(async move { n * n })).collect();
/// let mut sum = 0;
/// for handle in handles {
///     sum += handle.await.unwrap();
/// }
/// assert_eq!(sum, 5);
/// # }
/// ```
#[track_caller]
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let options = options_here();
    match context::with_current(|shared| spawn_on(shared, future, options)) {
        Some(handle) => handle,
        None => no_runtime(),
    }
}

#[cold]
#[track_caller]
pub(crate) fn no_runtime() -> ! {
    panic!("{}", crate::runtime::TryCurrentError::missing())
}

#[inline]
pub(crate) fn spawn_on<F>(
    shared: &RuntimeInner,
    future: F,
    options: SpawnOptions,
) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    // SAFETY: the future and its output are `Send`.
    unsafe {
        match &shared.flavor {
            Flavor::Current(scheduler) => scheduler.spawn(future, options),
            Flavor::Multi(scheduler) => scheduler.spawn(future, options),
        }
    }
}

/// Returns the index of the worker that runs the calling code.
///
/// `None` means that the calling thread is not a worker of its current runtime. A current-thread
/// runtime has one worker, with the index 0: the thread that runs its tasks inside `block_on`.
///
/// # Examples
///
/// ```
/// use wakeful::runtime::worker_index;
///
/// # #[wakeful::main]
/// # async fn main() {
/// let index = wakeful::spawn(async { worker_index() }).await.unwrap();
/// assert!(index.is_some());
/// assert_eq!(worker_index(), None, "the thread in `block_on` is not a worker");
/// # }
/// ```
pub fn worker_index() -> Option<usize> {
    context::with_current(|shared| match &shared.flavor {
        Flavor::Multi(scheduler) => worker::index(scheduler),
        Flavor::Current(scheduler) => scheduler.is_held_here().then_some(0),
    })
    .flatten()
}

/// Runs a closure that may block on the current thread, while another thread takes over the worker.
///
/// The worker's other tasks continue. The closure belongs to the calling task, so other branches of
/// that task, such as those of a `join!`, make no progress until the closure returns. On a thread
/// that runs no asynchronous code, the closure is simply called.
///
/// If no thread can be started to take over, the other threads of the runtime run this worker's
/// tasks and serve its timers and sockets. This thread becomes the worker again when the closure
/// returns.
///
/// Prefer [`spawn_blocking`](crate::task::spawn_blocking) for closures that are `'static` and
/// `Send`, because it does not stall the calling task.
///
/// # Shutdown
///
/// A runtime that shuts down waits for the closure, unless
/// [`shutdown_background`](crate::runtime::Runtime::shutdown_background) or the limit of
/// [`shutdown_timeout`](crate::runtime::Runtime::shutdown_timeout) ends the wait. A wait inside the
/// closure ends if it depends on that runtime:
///
/// - A timer panics with "A Tokio 1.x context was found, but it is being shutdown.".
/// - An operation on a socket fails with an error for which
///   [`is_rt_shutdown_err`](crate::runtime::is_rt_shutdown_err) is true.
/// - A [`JoinHandle`](crate::task::JoinHandle) returns a cancellation error.
/// - A channel whose other end is in a task is closed, and a lock held by a task is released, when
///   the tasks are dropped.
/// - A file operation is completed or cancelled.
///
/// A wait for another runtime, another thread or a closure of
/// [`spawn_blocking`](crate::task::spawn_blocking) is not interrupted: the shutdown waits until it
/// ends.
///
/// # Panics
///
/// If called on a current-thread runtime, where no other thread can take over. Use
/// [`spawn_blocking`](crate::task::spawn_blocking) there.
///
/// # Examples
///
/// ```
/// use wakeful::task;
///
/// # #[wakeful::main]
/// # async fn main() {
/// let text = String::from("the closure may borrow");
/// let length = task::block_in_place(|| text.len());
/// assert_eq!(length, 22);
/// # }
/// ```
#[track_caller]
pub fn block_in_place<F, R>(f: F) -> R
where
    F: FnOnce() -> R,
{
    match enter_guard::block_in_place() {
        enter_guard::BlockInPlace::NotDriving => f(),
        enter_guard::BlockInPlace::Simulating => panic!(
            "`block_in_place` was called inside a simulation, which has no other thread that could \
             run the tasks meanwhile; use `task::spawn_blocking`, whose closures run as tasks"
        ),
        enter_guard::BlockInPlace::Refused => panic!(
            "can call blocking only when running on the multi-threaded runtime; use \
             `task::spawn_blocking` here"
        ),
        enter_guard::BlockInPlace::Allowed => {
            // Deferred wake-ups of other tasks must not wait for the closure.
            wake_deferred();
            let _may_block = enter_guard::stop_driving();
            block_in_place::block_in_place(f)
        }
    }
}
