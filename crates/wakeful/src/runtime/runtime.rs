//! The runtime itself: made by a builder, shut down when it is dropped.

use super::context;
use super::handle::{EnterGuard, Handle};
use super::{Builder, RuntimeMetrics};
use crate::runtime::inner::Flavor;
use crate::task::block_on::BlockOnVia;
use crate::task::{JoinHandle, enter_guard};
use std::io;
use std::time::{Duration, Instant};

/// An executor for tasks, a blocking pool, and their context.
///
/// Dropping it drops every task and waits for closures of the blocking pool, those that
/// run and those that wait for a thread; see [`shutdown_timeout`](Self::shutdown_timeout) and
/// [`shutdown_background`](Self::shutdown_background) for not waiting.
///
/// When the drop returns, every worker thread and every thread of the blocking pool has ended,
/// and the destructors of their thread-local values have run. The exception is a thread that
/// drops its own runtime.
///
/// ```
/// use wakeful::runtime::Runtime;
///
/// let runtime = Runtime::new()?;
/// let answer = runtime.block_on(async { wakeful::spawn(async { 42 }).await.unwrap() });
/// assert_eq!(answer, 42);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Runtime {
    handle: Handle,
    /// Shut down already.
    down: bool,
}

/// The kinds of runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RuntimeFlavor {
    /// Tasks run on the thread that is in `block_on`.
    CurrentThread,
    /// Tasks run on worker threads.
    MultiThread,
}

impl Runtime {
    pub(crate) fn from_handle(handle: Handle) -> Self {
        Self { handle, down: false }
    }

    /// A multi-thread runtime with everything enabled and a worker per core.
    ///
    /// # Errors
    ///
    /// If the operating system refuses a thread.
    #[cfg(feature = "rt-multi-thread")]
    pub fn new() -> io::Result<Runtime> {
        Builder::new_multi_thread().enable_all().build()
    }

    /// A handle for spawning from elsewhere.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Spawns a task. On a current-thread runtime it runs while some thread is
    /// in [`block_on`](Self::block_on).
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.handle.spawn(future)
    }

    /// Runs a closure that may block on a thread of the blocking pool.
    #[track_caller]
    pub fn spawn_blocking<F, R>(&self, func: F) -> JoinHandle<R>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        self.handle.spawn_blocking(func)
    }

    /// Runs a future on the calling thread, to its end. On a current-thread
    /// runtime, tasks run meanwhile on the same thread; several threads may call
    /// it at once and take turns.
    ///
    /// # Panics
    ///
    /// From within a runtime, or if the future panics.
    #[track_caller]
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        let shared = &self.handle.shared;
        match &shared.flavor {
            Flavor::Current(scheduler) => {
                let _attended = shared.attend_ring_afterwards();
                let _driving = enter_guard::start_driving(false);
                let _entered = context::enter(shared);
                scheduler.block_on(future)
            }
            Flavor::Multi(scheduler) => {
                let _driving = enter_guard::start_driving(true);
                let _entered = context::enter(shared);
                scheduler.block_on(future, BlockOnVia::Runtime)
            }
        }
    }

    /// Makes this runtime the thread's current one; see [`Handle::enter`].
    pub fn enter(&self) -> EnterGuard<'_> {
        self.handle.enter()
    }

    /// MetricsSnapshot about the runtime.
    pub fn metrics(&self) -> RuntimeMetrics {
        self.handle.metrics()
    }

    /// Shuts down: drops all tasks and waits for closures of the blocking pool, at most
    /// `duration`. Those that are not done by then are left behind, and still run.
    pub fn shutdown_timeout(mut self, duration: Duration) {
        self.shut_down(Some(duration));
    }

    /// Shuts down without waiting for anything; may be called from async code. Closures of
    /// the blocking pool are left behind, and still run.
    pub fn shutdown_background(mut self) {
        self.shut_down(Some(Duration::ZERO));
    }

    fn shut_down(&mut self, limit: Option<Duration>) {
        if std::mem::replace(&mut self.down, true) {
            return;
        }
        // A limit beyond all time is none.
        let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
        let shared = self.handle.shared.clone();
        let _entered = context::enter(&shared);
        match &shared.flavor {
            Flavor::Current(scheduler) => {
                scheduler.close();
                if deadline.is_none() {
                    scheduler.end_watch();
                }
            }
            Flavor::Multi(scheduler) => {
                scheduler.close();
                match deadline {
                    None => scheduler.join_threads(),
                    Some(deadline) => scheduler.join_threads_until(deadline),
                }
            }
        }
        shared.land_files(deadline.is_some());
        shared.pool.close();
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        shared.pool.join(left);
    }
}

impl Drop for Runtime {
    #[track_caller]
    fn drop(&mut self) {
        if self.down {
            return;
        }
        if enter_guard::is_driving() {
            if std::thread::panicking() {
                return self.shut_down(Some(Duration::ZERO));
            }
            self.shut_down(Some(Duration::ZERO));
            panic!(
                "Cannot drop a runtime in a context where blocking is not allowed. This happens \
                 when a runtime is dropped from within an asynchronous context. Drop it outside, \
                 or call `shutdown_background` on it."
            );
        }
        self.shut_down(None);
    }
}
