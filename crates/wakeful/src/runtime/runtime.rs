//! The owner of a runtime: runs futures to completion, and shuts everything down when dropped.

use super::context;
use super::enter::EnterGuard;
use super::handle::Handle;
use super::{Builder, RuntimeMetrics, registry};
use crate::inspect::{Report, ShutdownReport, SlowShutdown};
use crate::runtime::inner::Flavor;
use crate::runtime::shutdown_wait::{AtLimit, ShutdownWait};
use crate::runtime::test_limit::{self, TestLimit};
use crate::task::block_on::BlockOnVia;
use crate::task::{JoinHandle, enter_guard};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// A runtime: a scheduler for tasks, timers and I/O, and a pool for blocking closures.
///
/// Create one with [`Runtime::new`] or a [`Builder`], and enter it with
/// [`block_on`](Self::block_on). Programs with one runtime for everything can use
/// [`#[wakeful::main]`](macro@crate::main) instead.
///
/// # Shutdown
///
/// Dropping the runtime drops every task at its next `.await`. The drop then waits for the closures
/// of the blocking pool, both running and queued. Use [`shutdown_timeout`](Self::shutdown_timeout)
/// or [`shutdown_background`](Self::shutdown_background) to wait less or not at all.
///
/// When the drop returns, every worker thread and every thread of the blocking pool has ended, and
/// the destructors of their thread-local values have run. The exception is a thread that drops its
/// own runtime.
///
/// Dropping a runtime inside asynchronous code shuts it down without waiting, and panics. Use
/// [`shutdown_background`](Self::shutdown_background) there.
///
/// # Examples
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
    is_shut_down: bool,
}

/// The outcome of a shutdown.
#[derive(Default)]
struct ShutdownEnd {
    /// How long it took, if the end was to be described. Otherwise the clock is not read again.
    waited: Duration,
    /// What is still alive. Set if the limit was reached and [`AtLimit::Describe`] was requested.
    late: Option<SlowShutdown>,
}

/// The kind of a runtime, returned by [`Handle::runtime_flavor`].
///
/// # Examples
///
/// ```
/// use wakeful::runtime::{Handle, RuntimeFlavor};
///
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() {
/// assert_eq!(Handle::current().runtime_flavor(), RuntimeFlavor::CurrentThread);
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RuntimeFlavor {
    /// Tasks run on the thread that is in `block_on`.
    CurrentThread,
    /// Tasks run on worker threads.
    MultiThread,
    /// Tasks run in a [simulation](mod@crate::sim), on the thread that is in `block_on`.
    Simulated,
}

impl Runtime {
    pub(crate) fn from_handle(handle: Handle) -> Self {
        Self { handle, is_shut_down: false }
    }

    /// Creates a multi-thread runtime with timers and I/O, and one worker for each CPU.
    ///
    /// Use a [`Builder`] for other settings.
    ///
    /// # Errors
    ///
    /// Returns an error if the operating system can't create a thread.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Runtime;
    ///
    /// let runtime = Runtime::new()?;
    /// assert_eq!(runtime.block_on(async { 1 + 1 }), 2);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[cfg(feature = "rt-multi-thread")]
    pub fn new() -> io::Result<Runtime> {
        Builder::new_multi_thread().enable_all().build()
    }

    /// Returns a handle to the runtime, which can be cloned and sent to other threads.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Runtime;
    ///
    /// let runtime = Runtime::new()?;
    /// let handle = runtime.handle().clone();
    /// let thread = std::thread::spawn(move || handle.block_on(async { 42 }));
    /// assert_eq!(thread.join().unwrap(), 42);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Spawns a task on this runtime.
    ///
    /// The task starts at once, awaited or not. On a current-thread runtime it runs while a thread
    /// is in [`block_on`](Self::block_on). Dropping the returned handle detaches the task.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Runtime;
    ///
    /// let runtime = Runtime::new()?;
    /// let task = runtime.spawn(async { 6 * 7 });
    /// assert_eq!(runtime.block_on(task).unwrap(), 42);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.handle.spawn(future)
    }

    /// Runs a closure that may block on a thread of the blocking pool.
    ///
    /// See [`task::spawn_blocking`](crate::task::spawn_blocking).
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Runtime;
    ///
    /// let runtime = Runtime::new()?;
    /// let sum = runtime.spawn_blocking(|| (1..=100u64).sum::<u64>());
    /// assert_eq!(runtime.block_on(sum).unwrap(), 5050);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[track_caller]
    pub fn spawn_blocking<F, R>(&self, func: F) -> JoinHandle<R>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        self.handle.spawn_blocking(func)
    }

    /// Runs a future to completion on the calling thread, and returns its output.
    ///
    /// On a current-thread runtime, the calling thread also runs the runtime's tasks until the
    /// future completes. If several threads call `block_on`, one of them runs the tasks, and
    /// another takes over when the first one returns. On a multi-thread runtime, only the future
    /// runs on the calling thread; tasks run on the workers.
    ///
    /// # Panics
    ///
    /// - If the future panics.
    /// - If the calling thread runs asynchronous code: await the future there instead.
    /// - If the `block_on` can provably never return, with the report
    ///   [`StuckBlockOn`](crate::inspect::StuckBlockOn) as the message.
    /// - If a task has shut the runtime down by a panic, see
    ///   [`UnhandledPanic`](super::UnhandledPanic), or by becoming an orphan, see
    ///   [`OrphanPolicy`](super::OrphanPolicy).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use wakeful::runtime::Runtime;
    ///
    /// let runtime = Runtime::new()?;
    /// let answer = runtime.block_on(async {
    ///     wakeful::time::sleep(Duration::from_millis(1)).await;
    ///     42
    /// });
    /// assert_eq!(answer, 42);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[track_caller]
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        let shared = &self.handle.shared;
        match &shared.flavor {
            Flavor::Current(scheduler) => {
                let _keep_ring = shared.keep_ring_after_block_on();
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

    /// Makes this runtime the thread's current one until the guard is dropped.
    ///
    /// Functions that need a runtime, like [`spawn`](crate::spawn) and
    /// [`sleep`](crate::time::sleep), then use this one outside of asynchronous code.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Runtime;
    ///
    /// let runtime = Runtime::new()?;
    /// let task = {
    ///     let _guard = runtime.enter();
    ///     wakeful::spawn(async { 42 })
    /// };
    /// assert_eq!(runtime.block_on(task).unwrap(), 42);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn enter(&self) -> EnterGuard<'_> {
        self.handle.enter()
    }

    /// Returns the metrics of the runtime.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Runtime;
    ///
    /// let runtime = Runtime::new()?;
    /// println!("{} tasks", runtime.metrics().num_alive_tasks());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn metrics(&self) -> RuntimeMetrics {
        self.handle.metrics()
    }

    /// Shuts the runtime down, and waits at most `duration`.
    ///
    /// Drops all tasks and waits for the closures of the blocking pool. Closures that have not
    /// returned in time still run to completion. The report
    /// [`SlowShutdown`](crate::inspect::SlowShutdown) names them. It is not sent if `duration` is
    /// zero, or if only a read of [standard input](crate::io::stdin) is left, which no program can
    /// cancel. [`shutdown_with_report`](Self::shutdown_with_report) returns it as data.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use wakeful::runtime::Runtime;
    ///
    /// let runtime = Runtime::new()?;
    /// runtime.spawn_blocking(|| std::thread::sleep(Duration::from_millis(50)));
    /// runtime.shutdown_timeout(Duration::from_millis(1));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn shutdown_timeout(mut self, duration: Duration) {
        // A caller that passes zero expects that closures may still be running.
        let at_limit = if duration.is_zero() { AtLimit::Ignore } else { AtLimit::Describe };
        let ended = self.shut_down(Some(duration), at_limit);
        let shared = &self.handle.shared;
        if let Some(late) = ended.late
            && shared.config().report_lasting_after.is_some()
            && !late.is_only_stdin()
        {
            shared.hooks.report(&Arc::new(Report::SlowShutdown(late)));
        }
    }

    /// Shuts the runtime down within `limit`, and reports what was alive before and after.
    ///
    /// Waits like [`shutdown_timeout`](Self::shutdown_timeout). Use it to find out why a shutdown
    /// hangs. The [`ShutdownReport`] lists the tasks that were alive when the shutdown began, with
    /// what they waited for. It also lists the tasks and threads that did not end in time, with the
    /// stacks of the threads. If the limit is a second or more, the stacks are captured half a second
    /// before the limit.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use std::time::Duration;
    /// use wakeful::runtime::Runtime;
    ///
    /// let runtime = Runtime::new()?;
    /// let (tx, rx) = mpsc::channel::<()>();
    /// runtime.spawn_blocking(move || rx.recv());
    /// let report = runtime.shutdown_with_report(Duration::from_millis(50));
    /// let late = report.late().expect("the closure waits for the channel");
    /// assert!(late.tasks()[0].is_closure());
    /// eprintln!("{report}");
    /// # drop(tx);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn shutdown_with_report(mut self, limit: Duration) -> ShutdownReport {
        let before = self.handle.dump();
        let ended = self.shut_down(Some(limit), AtLimit::Describe);
        ShutdownReport::new(before, ended.waited, ended.late)
    }

    /// Shuts the runtime down without waiting.
    ///
    /// Use it in asynchronous code, where dropping a runtime panics. Closures of the blocking pool
    /// still run to completion.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Runtime;
    ///
    /// # #[wakeful::main]
    /// # async fn main() -> std::io::Result<()> {
    /// let inner = Runtime::new()?;
    /// let answer = inner.spawn(async { 42 }).await.unwrap();
    /// inner.shutdown_background();
    /// assert_eq!(answer, 42);
    /// # Ok(())
    /// # }
    /// ```
    pub fn shutdown_background(mut self) {
        self.shut_down_now();
    }

    fn shut_down_now(&mut self) {
        self.shut_down(Some(Duration::ZERO), AtLimit::Ignore);
    }

    fn shut_down(&mut self, limit: Option<Duration>, at_limit: AtLimit) -> ShutdownEnd {
        if std::mem::replace(&mut self.is_shut_down, true) {
            return ShutdownEnd::default();
        }
        let shared = self.handle.shared.clone();
        let _entered = context::enter(&shared);
        let mut wait = ShutdownWait::new(&shared, limit, at_limit);
        let deadline = wait.deadline();
        match &shared.flavor {
            Flavor::Current(scheduler) => scheduler.close(),
            Flavor::Multi(scheduler) => {
                scheduler.close();
                wait.for_threads(scheduler);
            }
        }
        shared.hooks.close_watch(deadline);
        registry::close(shared.id, deadline);
        shared.complete_file_ops(deadline.is_some());
        shared.pool.close();
        wait.for_pool();
        if limit.is_none() {
            wait.report_never_polled();
        }
        let end = match at_limit {
            AtLimit::Ignore => ShutdownEnd::default(),
            AtLimit::Describe => ShutdownEnd { waited: wait.waited(), late: wait.slow_shutdown() },
        };
        test_limit::end(&shared);
        end
    }

    /// Shuts down the runtime of a test, and waits at most until the test's time limit.
    ///
    /// # Panics
    ///
    /// If the shutdown reaches the limit.
    #[track_caller]
    fn shut_down_within(&mut self, limit: &TestLimit) {
        self.shut_down(Some(limit.shutdown_limit()), AtLimit::Ignore);
        limit.check_shutdown(&self.handle.shared);
    }
}

impl Drop for Runtime {
    #[track_caller]
    fn drop(&mut self) {
        if self.is_shut_down {
            return;
        }
        if enter_guard::is_driving() {
            self.shut_down_now();
            if std::thread::panicking() {
                return;
            }
            panic!(
                "Cannot drop a runtime in a context where blocking is not allowed. This happens \
                 when a runtime is dropped from within an asynchronous context. Drop it outside, \
                 or call `shutdown_background` on it."
            );
        }
        let shared = self.handle.shared.clone();
        match &shared.test_limit {
            Some(limit) => self.shut_down_within(limit),
            None => _ = self.shut_down(None, AtLimit::Ignore),
        }
    }
}
