//! [`Handle`]: a reference to a runtime, for use on any thread.

use super::context;
use super::enter::{EnterGuard, TryCurrentError};
use crate::inspect::runtimes::InspectedRuntime;
use crate::inspect::{self, Audience, Dump, Report, ScanMode};
use crate::runtime::inner::{Flavor, RuntimeInner};
use crate::runtime::task_api::{blocking, spawn};
use crate::runtime::{Id, RuntimeFlavor, RuntimeMetrics};
use crate::scheduler::block_on::BlockOnGuard;
use crate::task::block_on::BlockOnVia;
use crate::task::{JoinHandle, enter_guard};
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

/// A reference to a runtime; cheap to clone and usable on any thread.
///
/// A handle does not keep the runtime running. After the [`Runtime`](super::Runtime) is dropped,
/// tasks spawned through a handle are cancelled immediately.
///
/// # Examples
///
/// ```
/// use wakeful::runtime::Handle;
///
/// # #[wakeful::main]
/// # async fn main() {
/// let handle = Handle::current();
/// let thread = std::thread::spawn(move || handle.spawn(async { 42 }));
/// let task = thread.join().unwrap();
/// assert_eq!(task.await.unwrap(), 42);
/// # }
/// ```
#[derive(Clone)]
pub struct Handle {
    pub(crate) shared: Arc<RuntimeInner>,
}

impl Handle {
    pub(crate) fn from_shared(shared: Arc<RuntimeInner>) -> Self {
        Self { shared }
    }

    /// Returns a handle to the current runtime of the calling thread.
    ///
    /// A thread has a current runtime in tasks, inside `block_on`, in closures of the blocking
    /// pool, and while it holds an [`EnterGuard`].
    ///
    /// # Panics
    ///
    /// If the thread has no current runtime. Use [`try_current`](Self::try_current) to check.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Handle;
    ///
    /// # #[wakeful::main]
    /// # async fn main() {
    /// let handle = Handle::current();
    /// assert_eq!(handle.spawn(async { 42 }).await.unwrap(), 42);
    /// # }
    /// ```
    #[track_caller]
    pub fn current() -> Self {
        match context::try_current() {
            Ok(handle) => handle,
            Err(error) => panic!("{error}"),
        }
    }

    /// Returns a handle to the current runtime of the calling thread, if it has one.
    ///
    /// # Errors
    ///
    /// If the thread has no current runtime.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Handle;
    ///
    /// assert!(Handle::try_current().is_err());
    /// ```
    pub fn try_current() -> Result<Self, TryCurrentError> {
        context::try_current()
    }

    /// Makes this runtime the thread's current one until the guard is dropped.
    ///
    /// Functions that need a runtime, like [`spawn`](crate::spawn) and
    /// [`sleep`](crate::time::sleep), then use this one outside of asynchronous code.
    ///
    /// # Panics
    ///
    /// The guard's drop panics if guards are not dropped in the reverse order of their creation.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Runtime;
    ///
    /// let runtime = Runtime::new()?;
    /// let handle = runtime.handle().clone();
    /// let thread = std::thread::spawn(move || {
    ///     let _guard = handle.enter();
    ///     wakeful::spawn(async { 42 })
    /// });
    /// assert_eq!(runtime.block_on(thread.join().unwrap()).unwrap(), 42);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn enter(&self) -> EnterGuard<'_> {
        EnterGuard::new(self)
    }

    /// Spawns a task on this runtime.
    ///
    /// The task starts at once, awaited or not. Dropping the returned handle detaches it. If the
    /// runtime is shut down, the task is cancelled before its first poll.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Runtime;
    ///
    /// let runtime = Runtime::new()?;
    /// let task = runtime.handle().spawn(async { 42 });
    /// assert_eq!(runtime.block_on(task).unwrap(), 42);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        spawn::spawn_on(&self.shared, future, spawn::options_here())
    }

    /// Runs a closure that may block on a thread of the blocking pool.
    ///
    /// See [`task::spawn_blocking`](crate::task::spawn_blocking).
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Handle;
    ///
    /// # #[wakeful::main]
    /// # async fn main() {
    /// let sum = Handle::current().spawn_blocking(|| (1..=100u64).sum::<u64>());
    /// assert_eq!(sum.await.unwrap(), 5050);
    /// # }
    /// ```
    #[track_caller]
    pub fn spawn_blocking<F, R>(&self, func: F) -> JoinHandle<R>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        blocking::spawn_blocking_on(&self.shared, func, None, true)
    }

    /// Runs a future to completion on the calling thread, and returns its output.
    ///
    /// On a current-thread runtime, this method drives neither tasks nor timers nor I/O. They make
    /// progress only while a thread is in [`Runtime::block_on`](super::Runtime::block_on).
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
    /// - If the runtime is [simulated](mod@crate::sim): spawn the future instead.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Handle;
    ///
    /// # #[wakeful::main]
    /// # async fn main() {
    /// let handle = Handle::current();
    /// // A closure of the blocking pool may block on a future.
    /// let closure = wakeful::task::spawn_blocking(move || handle.block_on(async { 42 }));
    /// assert_eq!(closure.await.unwrap(), 42);
    /// # }
    /// ```
    #[track_caller]
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        let _driving = enter_guard::start_driving(true);
        let _entered = context::enter(&self.shared);
        match &self.shared.flavor {
            Flavor::Current(scheduler) => {
                if scheduler.base.config.env.simulated.is_some() {
                    panic!(
                        "`Handle::block_on` was called on a simulated runtime, which runs only in \
                         `Runtime::block_on`: the seed does not decide when another thread is \
                         woken. Spawn the future instead."
                    );
                }
                scheduler.base.block_on(future, BlockOnVia::Handle, BlockOnGuard::park)
            }
            Flavor::Multi(scheduler) => scheduler.block_on(future, BlockOnVia::Handle),
        }
    }

    /// Returns the kind of this runtime.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::{Handle, RuntimeFlavor};
    ///
    /// # #[wakeful::main]
    /// # async fn main() {
    /// assert_eq!(Handle::current().runtime_flavor(), RuntimeFlavor::MultiThread);
    /// # }
    /// ```
    pub fn runtime_flavor(&self) -> RuntimeFlavor {
        match &self.shared.flavor {
            Flavor::Current(_) if self.shared.config().env.simulated.is_some() => {
                RuntimeFlavor::Simulated
            }
            Flavor::Current(_) => RuntimeFlavor::CurrentThread,
            Flavor::Multi(_) => RuntimeFlavor::MultiThread,
        }
    }

    /// Returns the id of the runtime, which is unique in the process.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Runtime;
    ///
    /// let (first, second) = (Runtime::new()?, Runtime::new()?);
    /// assert_ne!(first.handle().id(), second.handle().id());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn id(&self) -> Id {
        self.shared.id
    }

    /// Returns the name set with [`Builder::name`](super::Builder::name).
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Builder;
    ///
    /// let runtime = Builder::new_current_thread().name("database").build()?;
    /// assert_eq!(runtime.handle().name(), Some("database"));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn name(&self) -> Option<&str> {
        self.shared.name()
    }

    /// Takes a dump: every task and worker, what each does or waits for, and what is wrong.
    ///
    /// Any thread may call it at any time, even while all workers are blocked. It neither stops
    /// workers nor wakes or polls tasks. [`inspect::snapshot`](crate::inspect::snapshot()) covers
    /// all runtimes of the process.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Handle;
    /// use wakeful::task;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let (_tx, rx) = wakeful::sync::oneshot::channel::<()>();
    /// task::Builder::new().name("waits").spawn(rx)?;
    /// task::yield_now().await;
    ///
    /// let dump = Handle::current().dump();
    /// let wait = dump.find_named("waits").unwrap().waiting_on().unwrap();
    /// println!("{} at {}", wait.phrase(), wait.site());
    /// # Ok(())
    /// # }
    /// ```
    pub fn dump(&self) -> Dump {
        let dump = self.shared.dump();
        dump.tasks().iter().for_each(|task| _ = task.info().data_text());
        dump
    }

    /// Switches the flight recorder on or off.
    ///
    /// While it is on, each worker records its polls, wake-ups, spawns, parks and steals in a ring
    /// buffer of the last few thousand events. Another buffer holds the events of all other
    /// threads. [`trace`](Self::trace) returns them. A worker starts recording when it next checks
    /// its timers and I/O. Recording times every poll, which has a small cost.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Handle;
    ///
    /// # #[wakeful::main]
    /// # async fn main() {
    /// let handle = Handle::current();
    /// handle.record(true);
    /// wakeful::spawn(async {}).await.unwrap();
    /// handle.record(false);
    /// # }
    /// ```
    pub fn record(&self, on: bool) {
        self.shared.set_recording(on);
    }

    /// Returns whether the flight recorder is on.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Handle;
    ///
    /// # #[wakeful::main]
    /// # async fn main() {
    /// assert!(!Handle::current().is_recording());
    /// # }
    /// ```
    pub fn is_recording(&self) -> bool {
        InspectedRuntime::is_recording(&*self.shared)
    }

    /// Returns the events of the flight recorder as JSON for `chrome://tracing` or Perfetto.
    ///
    /// The trace has one row for each worker, one for all other threads, and one for reports. Live
    /// tasks appear with their names, ended ones with their ids.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use wakeful::runtime::Handle;
    ///
    /// # #[wakeful::main]
    /// # async fn main() -> std::io::Result<()> {
    /// let handle = Handle::current();
    /// handle.record(true);
    /// // … the part of the program to look at …
    /// std::fs::write("trace.json", handle.trace())?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn trace(&self) -> String {
        let rows = self.shared.recorded(&[]).into_iter();
        let rows: Vec<_> = rows.map(|(name, part)| (name, part.entries)).collect();
        let dump = self.dump();
        let names = dump.tasks().iter().filter_map(|task| Some((task.id()?, task.info())));
        let names = names.map(|(id, task)| (id.as_u64(), task.to_string())).collect();
        inspect::chrome_trace(&rows, &names)
    }

    /// Scans the runtime for deadlocks and long-lasting problems, and returns the findings.
    ///
    /// The watchdog makes the same scan when the runtime becomes idle, and
    /// [reports](super::Builder::on_report) the findings. Findings of this call are only returned,
    /// not reported. A problem's [duration](super::Builder::report_lasting_after) counts from the
    /// first scan that sees it.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Handle;
    ///
    /// # #[wakeful::main]
    /// # async fn main() {
    /// for finding in Handle::current().diagnose() {
    ///     eprintln!("{finding}");
    /// }
    /// # }
    /// ```
    pub fn diagnose(&self) -> Vec<Report> {
        let mut reports = self.shared.scan_for_deadlocks(ScanMode::MayWake).reports;
        reports.extend(self.shared.hooks.observe(&self.shared, Audience::Diagnose).reports);
        for report in &reports {
            report.set_runtime(self.name());
            report.write_data();
        }
        reports
    }

    /// Returns the metrics of the runtime.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Handle;
    ///
    /// # #[wakeful::main]
    /// # async fn main() {
    /// let metrics = Handle::current().metrics();
    /// println!("{} workers, {} tasks", metrics.num_workers(), metrics.num_alive_tasks());
    /// # }
    /// ```
    pub fn metrics(&self) -> RuntimeMetrics {
        RuntimeMetrics::new(self.clone())
    }
}

impl UnwindSafe for Handle {}
impl RefUnwindSafe for Handle {}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle")
            .field("id", &self.shared.id)
            .field("name", &self.name())
            .field("flavor", &self.runtime_flavor())
            .finish()
    }
}
