//! Closures of the blocking pool, spawned as tasks.

use crate::runtime::context;
use crate::runtime::inner::{Flavor, RuntimeInner};
use crate::runtime::task_api::spawn::no_runtime;
use crate::scheduler::blocking_pool::Job;
use crate::task::JoinHandle;
use crate::task::cell::SpawnOptions;
use crate::task::origin::Origin;
use crate::task::runnable::Runnable;
use crate::task::state::BLOCKING;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A future that runs the closure in its first poll.
struct Closure<F>(Option<F>);

impl<F> Unpin for Closure<F> {}

impl<F: FnOnce() -> R, R> Future for Closure<F> {
    type Output = R;

    fn poll(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<R> {
        let run = self.0.take().expect("a closure is polled once");
        Poll::Ready(crate::task::context::without_budget(run))
    }
}

/// Runs a closure that may block on a thread of the current runtime's blocking pool.
///
/// Use it for blocking system calls and long computations, which would otherwise stall a worker.
/// The pool grows up to [`max_blocking_threads`](crate::runtime::Builder::max_blocking_threads);
/// beyond that limit, closures wait in its queue.
///
/// A closure that has started cannot be aborted. Dropping the runtime waits for running and queued
/// closures.
///
/// # Panics
///
/// - If the thread has no current runtime.
/// - If the pool has no thread, and none can be started.
///
/// # Examples
///
/// ```
/// # #[wakeful::main]
/// # async fn main() {
/// let sum = wakeful::task::spawn_blocking(|| (1..=100u64).sum::<u64>()).await.unwrap();
/// assert_eq!(sum, 5050);
/// # }
/// ```
#[track_caller]
pub fn spawn_blocking<F, R>(f: F) -> JoinHandle<R>
where
    F: FnOnce() -> R + Send + 'static,
    R: Send + 'static,
{
    let site = Location::caller();
    let spawn = |shared: &RuntimeInner| {
        let hooks = &shared.base().config.task_hooks;
        spawn_closure(shared, f, Origin::at(site, None), true, |task| hooks.attach_unqueued(task))
    };
    match context::with_current(spawn) {
        Some(handle) => handle,
        None => no_runtime(),
    }
}

#[track_caller]
pub(crate) fn spawn_blocking_on<F, R>(
    shared: &RuntimeInner,
    f: F,
    name: Option<&str>,
    mandatory: bool,
) -> JoinHandle<R>
where
    F: FnOnce() -> R + Send + 'static,
    R: Send + 'static,
{
    let hooks = &shared.base().config.task_hooks;
    let origin = Origin::at(Location::caller(), name);
    spawn_closure(shared, f, origin, mandatory, |task| hooks.attach_unqueued(task))
}

/// Runs an internal closure, such as a file operation, on the runtime's blocking pool.
///
/// The spawn hook is not called, because the caller may hold a lock, be the watchdog, or be polling
/// an unrelated task.
#[track_caller]
pub(crate) fn spawn_internal<F, R>(
    shared: &RuntimeInner,
    f: F,
    name: Option<&str>,
    mandatory: bool,
) -> JoinHandle<R>
where
    F: FnOnce() -> R + Send + 'static,
    R: Send + 'static,
{
    spawn_closure(shared, f, Origin::at(Location::caller(), name), mandatory, |task| task)
}

#[track_caller]
fn spawn_closure<F, R>(
    shared: &RuntimeInner,
    f: F,
    origin: Origin,
    mandatory: bool,
    attach: impl FnOnce(Runnable) -> Runnable,
) -> JoinHandle<R>
where
    F: FnOnce() -> R + Send + 'static,
    R: Send + 'static,
{
    let (closure, options) = (Closure(Some(f)), SpawnOptions { origin, flags: BLOCKING });
    // SAFETY: the closure and its result are `Send`.
    let (task, join) = unsafe {
        match &shared.flavor {
            Flavor::Current(scheduler) => scheduler.fill(closure, options),
            Flavor::Multi(scheduler) => scheduler.fill(closure, options),
        }
    };
    let task = attach(task);
    match &shared.flavor {
        // In a simulation, a closure runs as a task: in one poll, on the thread of the simulation.
        Flavor::Current(scheduler) if scheduler.base.config.env.simulated.is_some() => {
            scheduler.push_closure(task);
        }
        _ => shared.pool.push(Job { task, mandatory }),
    }
    join
}
