//! Station 1: spawning, and leaving a worker to block.

use super::context;
use super::shared::{Flavor, Shared};
use crate::scheduler::worker;
use crate::task::cell::Birth;
use crate::task::context::wake_deferred;
use crate::task::header::Origin;
use crate::task::{JoinHandle, driving};

/// A plain spawn, at the caller's place.
#[track_caller]
#[inline]
pub(crate) fn birth_here() -> Birth {
    Birth { origin: Origin::here(), flags: 0 }
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
    panic!("{}", super::TryCurrentError::missing())
}

#[inline]
pub(crate) fn spawn_on<F>(shared: &Shared, future: F, birth: Birth) -> JoinHandle<F::Output>
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
/// # Panics
///
/// On a current-thread runtime, where nobody could carry on: use
/// [`spawn_blocking`](crate::task::spawn_blocking) there.
#[track_caller]
pub fn block_in_place<F, R>(f: F) -> R
where
    F: FnOnce() -> R,
{
    match driving::block_in_place() {
        driving::BlockInPlace::NotDriving => f(),
        driving::BlockInPlace::Refused => panic!(
            "can call blocking only when running on the multi-threaded runtime; use \
             `task::spawn_blocking` here"
        ),
        driving::BlockInPlace::Allowed => {
            // The others that this task put off must not wait for it.
            wake_deferred();
            let _free = driving::stop_driving();
            worker::block_in_place(f)
        }
    }
}
