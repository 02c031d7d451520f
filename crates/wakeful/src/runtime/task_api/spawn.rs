//! Station 1: spawning, and leaving a worker to block.

use crate::runtime::context;
use crate::runtime::inner::{Flavor, Shared};
use crate::scheduler::multi_thread::worker;
use crate::task::cell::SpawnOptions;
use crate::task::context::wake_deferred;
use crate::task::origin::Origin;
use crate::task::{JoinHandle, enter_guard};

/// A plain spawn, at the caller's place.
#[track_caller]
#[inline]
pub(crate) fn birth_here() -> SpawnOptions {
    SpawnOptions { origin: Origin::here(), flags: 0 }
}

/// Spawns a task on the current runtime; it starts to run at once, awaited or
/// not. Dropping the handle detaches it.
///
/// # Panics
///
/// Outside of a runtime: call it from a task, inside `block_on`, or while an
/// [`EnterGuard`](crate::runtime::EnterGuard) is held.
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
    let birth = birth_here();
    match context::with_current(|shared| spawn_on(shared, future, birth)) {
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
pub(crate) fn spawn_on<F>(shared: &Shared, future: F, birth: SpawnOptions) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    // SAFETY: the future and its output are Send.
    unsafe {
        match &shared.flavor {
            Flavor::Current(scheduler) => scheduler.spawn(future, birth),
            Flavor::Multi(scheduler) => scheduler.spawn(future, birth),
        }
    }
}

/// The number of the worker that the calling code runs on, if it runs on a
/// worker thread of the current runtime. The only worker of a current-thread
/// runtime is the thread that runs its tasks inside `block_on`.
pub fn worker_index() -> Option<usize> {
    context::with_current(|shared| match &shared.flavor {
        Flavor::Multi(scheduler) => worker::index(scheduler),
        Flavor::Current(scheduler) => scheduler.is_held_here().then_some(0),
    })
    .flatten()
}

/// Runs a closure that may block on the current thread, while the other tasks
/// of this worker carry on elsewhere.
///
/// The closure belongs to the calling task, so nothing else in that task makes
/// progress meanwhile (other branches of a `join!`, say). Outside of a runtime
/// it is simply called.
///
/// If no thread can be started to carry on, the other threads of the runtime run this
/// worker's tasks and serve its timers and sockets. This thread is the worker again when the
/// closure has ended.
///
/// # Shutdown
///
/// A runtime that shuts down waits for the closure, unless
/// [`shutdown_background`](crate::runtime::Runtime::shutdown_background) or the limit of
/// [`shutdown_timeout`](crate::runtime::Runtime::shutdown_timeout) says otherwise. What the closure
/// waits for ends, if it belongs to that runtime:
///
/// - a timer panics with "A Tokio 1.x context was found, but it is being shutdown.",
/// - an operation on a socket fails, and
///   [`is_rt_shutdown_err`](crate::runtime::is_rt_shutdown_err) says so,
/// - a [`JoinHandle`](crate::task::JoinHandle) says that its task was cancelled,
/// - a channel whose other end is in a task is closed, and a lock that a task held is free, when
///   the tasks are dropped,
/// - a file operation is completed or cancelled.
///
/// A wait for another runtime, another thread or a closure of
/// [`spawn_blocking`](crate::task::spawn_blocking) ends when that does: the shutdown waits with it.
///
/// # Panics
///
/// On a current-thread runtime, where nobody could carry on: use
/// [`spawn_blocking`](crate::task::spawn_blocking) there.
#[track_caller]
pub fn block_in_place<F, R>(f: F) -> R
where
    F: FnOnce() -> R,
{
    match enter_guard::block_in_place() {
        enter_guard::BlockInPlace::NotDriving => f(),
        enter_guard::BlockInPlace::Refused => panic!(
            "can call blocking only when running on the multi-threaded runtime; use \
             `task::spawn_blocking` here"
        ),
        enter_guard::BlockInPlace::Allowed => {
            // The others that this task put off must not wait for it.
            wake_deferred();
            let _free = enter_guard::stop_driving();
            worker::block_in_place(f)
        }
    }
}
