//! Settings of the builder for the watchdog, reports and dumps.

use super::Builder;
use crate::inspect::{Report, ReportFilter, ReportFormat};
use crate::runtime::test_limit::TestLimitSetting;
use crate::runtime::{OrphanPolicy, UnhandledPanic};
use std::sync::Arc;
use std::time::Duration;

/// Settings of diagnostics: what the runtime detects, and how it reacts.
impl Builder {
    /// Names the futures of this runtime's `block_on`, for dumps and reports.
    ///
    /// `#[wakeful::main]` and `#[wakeful::test]` use the name of the function.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::{Builder, Handle};
    ///
    /// let runtime = Builder::new_current_thread().block_on_name("main").build()?;
    /// let dump = runtime.block_on(async { Handle::current().dump() });
    /// assert!(dump.find_named("main").is_some());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn block_on_name(&mut self, val: impl Into<String>) -> &mut Self {
        self.block_on_name = Some(val.into());
        self
    }

    /// Serves the live page of the process at `address`, from when the runtime is built.
    ///
    /// `address` is as in [`page::serve`](crate::inspect::page::serve()): `127.0.0.1:0`, another
    /// address with a port, or `unix:PATH`. The URL is printed to standard error. All runtimes of
    /// the process share one page, which the first builder or `WAKEFUL_PAGE` starts.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Builder;
    ///
    /// let runtime = Builder::new_multi_thread().enable_all().page("127.0.0.1:0").build()?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[cfg(feature = "page")]
    pub fn page(&mut self, address: impl Into<String>) -> &mut Self {
        self.page = Some(address.into());
        self
    }

    /// Sets what happens when a task panics, in particular if no code observes the panic.
    ///
    /// By default the panic goes to the task's `JoinHandle`. It is reported if no code awaits the
    /// handle.
    /// [`UnhandledPanic`] lists the other choices: shut the runtime down, abort the process, or call
    /// a function.
    ///
    /// Without this setting, the environment variable `WAKEFUL_ON_PANIC` (`report`, `shutdown` or
    /// `abort`) applies to panics that no code observes. Use it for programs that you don't want to
    /// edit.
    ///
    /// # Examples
    ///
    /// ```should_panic
    /// use wakeful::runtime::{Builder, UnhandledPanic};
    ///
    /// let runtime = Builder::new_current_thread()
    ///     .unhandled_panic(UnhandledPanic::ShutdownIfUnobserved)
    ///     .build()
    ///     .unwrap();
    /// runtime.block_on(async {
    ///     drop(wakeful::spawn(async { panic!("this ends the runtime") }));
    ///     wakeful::task::may_wait_forever(std::future::pending::<()>()).await;
    /// });
    /// ```
    pub fn unhandled_panic(&mut self, behavior: UnhandledPanic) -> &mut Self {
        self.on_panic = Some(behavior);
        self
    }

    /// Sets what happens to an orphan: a waiting task that has no live waker.
    ///
    /// An orphan can never run again. By default, the runtime reports it.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::{Builder, OrphanPolicy};
    ///
    /// let runtime = Builder::new_current_thread()
    ///     .on_orphan(OrphanPolicy::Abort)
    ///     .on_report(|_| {})
    ///     .build()?;
    /// let error = runtime.block_on(async {
    ///     wakeful::spawn(std::future::pending::<()>()).await.unwrap_err()
    /// });
    /// assert!(error.is_orphaned());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn on_orphan(&mut self, policy: OrphanPolicy) -> &mut Self {
        self.on_orphan = policy;
        self
    }

    /// Sets how long one poll may take before its worker counts as stuck; 20 ms by default.
    ///
    /// Other workers then steal the tasks in the queue and the LIFO slot of the stuck worker. They
    /// and the watchdog also serve its timers and descriptors. If all workers are stuck, the
    /// runtime starts a spare thread. With `None`, tasks behind a stuck worker wait for it.
    ///
    /// The watchdog checks about every 10 ms while it observes polls, and otherwise every 25 ms while
    /// the runtime is busy. A poll that starts when all workers are parked is observed after at most
    /// 50 ms. The watchdog sleeps while the runtime is idle.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use wakeful::runtime::Builder;
    ///
    /// let runtime = Builder::new_multi_thread()
    ///     .rescue_after(Some(Duration::from_millis(50)))
    ///     .build()?;
    /// # drop(runtime);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn rescue_after(&mut self, after: Option<Duration>) -> &mut Self {
        self.rescue_after = after;
        self
    }

    /// Sets how long a poll may take before it is reported; 100 ms by default.
    ///
    /// The watchdog sends the report, a [`Report::Blocked`]. With `None`, it sends none. The
    /// watchdog observes a current-thread runtime every 25 ms, or every quarter of `after` if that
    /// is shorter, but at most every 5 ms. A poll that starts when all threads are parked is first
    /// observed after half of `after` or 50 ms, whichever is shorter, but not before 25 ms.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use std::time::Duration;
    /// use wakeful::inspect::Report;
    /// use wakeful::runtime::Builder;
    ///
    /// let (tx, rx) = mpsc::channel();
    /// let runtime = Builder::new_multi_thread()
    ///     .report_blocked_after(Some(Duration::from_millis(30)))
    ///     .on_report(move |report| drop(tx.send(report.clone())))
    ///     .build()?;
    /// let task = runtime.spawn(async move {
    ///     // Blocks its worker until the report arrives.
    ///     let Report::Blocked(blocked) = rx.recv().unwrap() else { unreachable!() };
    ///     blocked.duration()
    /// });
    /// assert!(runtime.block_on(task).unwrap() >= Duration::from_millis(30));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn report_blocked_after(&mut self, after: Option<Duration>) -> &mut Self {
        self.report_blocked_after = after;
        self
    }

    /// Sets how long a problem may last before it is reported; 3 s by default.
    ///
    /// The setting applies to the reports [`SlowHolder`](Report::SlowHolder),
    /// [`UnawaitedPanic`](Report::UnawaitedPanic), [`AbortedClosure`](Report::AbortedClosure) and
    /// [`SlowShutdown`](Report::SlowShutdown). [`GrowingTasks`](Report::GrowingTasks) and
    /// [`Stalled`](Report::Stalled) are sent after three times as long, and so is a
    /// [`SlowHolder`](Report::SlowHolder) for a lock that only one task waits for. With `None`,
    /// none of these and no [`NeverPolled`](Report::NeverPolled) is reported.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use wakeful::runtime::Builder;
    ///
    /// let runtime = Builder::new_multi_thread()
    ///     .report_lasting_after(Some(Duration::from_secs(30)))
    ///     .build()?;
    /// # drop(runtime);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn report_lasting_after(&mut self, after: Option<Duration>) -> &mut Self {
        self.report_lasting_after = after;
        self
    }

    /// Sets how many spare threads may replace stuck workers; 64 by default.
    ///
    /// The number is reached only if tasks block their threads. If the threads are CPU-bound
    /// instead, and more threads compute than there are workers, another one starts only after 100
    /// ms without a new poll.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Builder;
    ///
    /// let runtime = Builder::new_multi_thread().max_spare_threads(8).build()?;
    /// assert_eq!(runtime.metrics().spare_threads(), 0);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn max_spare_threads(&mut self, val: usize) -> &mut Self {
        self.max_spare_threads = val;
        self
    }

    /// Prints a dump of every runtime of the process to stderr whenever it receives SIGQUIT.
    ///
    /// Ctrl-\\ on a terminal and `kill -QUIT` send the signal. The output contains the
    /// [dump](crate::runtime::Handle::dump) and the findings of
    /// [`Handle::diagnose`](crate::runtime::Handle::diagnose). It works even while every worker is
    /// blocked. If the flight recorder is on, the [trace](crate::runtime::Handle::trace) goes to
    /// the file `wakeful-trace-….json` in the current directory, and the output names it.
    ///
    /// The program continues after the dump. SIGTERM still ends it, and SIGABRT ends it with a core
    /// dump.
    ///
    /// - `#[wakeful::main]` and `#[wakeful::test]` enable it. One runtime with the setting is enough:
    ///   the dumps of all runtimes are printed, each once. A test harness does not capture them.
    /// - A program that handles SIGQUIT itself, through `wakeful::signal` or otherwise, keeps its
    ///   handler and prints no dumps.
    /// - A program that ignores SIGQUIT prints dumps, and its child processes no longer inherit
    ///   that the signal is ignored.
    ///
    /// The environment variable `WAKEFUL_DUMP_AFTER`, a duration such as `10s`, prints one dump of
    /// every runtime that long after it was built.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Builder;
    ///
    /// let runtime = Builder::new_multi_thread().enable_all().dump_on_signal(true).build()?;
    /// # drop(runtime);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn dump_on_signal(&mut self, on: bool) -> &mut Self {
        self.dump_on_signal = on;
        self
    }

    /// Sets a time limit for a test: if the runtime lives longer than `limit`, the test fails.
    ///
    /// `#[wakeful::test]` calls this with its argument `timeout`, or with `None`. With `None`, the
    /// environment variable `WAKEFUL_TEST_TIMEOUT` sets the limit, a duration such as `30s`;
    /// without the variable there is no limit. `WAKEFUL_TEST_TIMEOUT=off` removes every limit, for
    /// use with a debugger.
    ///
    /// The limit is in real time from when the runtime is built, even if its clock is paused. When
    /// the limit is reached:
    ///
    /// - Each `block_on` of the runtime panics. The message contains the findings of
    ///   [`Handle::diagnose`](crate::runtime::Handle::diagnose) and the
    ///   [dump](crate::runtime::Handle::dump).
    /// - The drop of the runtime no longer waits for closures and workers that block, and panics if
    ///   the test has not failed yet.
    /// - A thread that is blocked inside a poll cannot panic. The runtime then has a grace period
    ///   for its shutdown, which is the limit clamped to 1 s to 5 s. After the grace period the
    ///   process prints the message with the thread's stack, and aborts.
    ///
    /// # Examples
    ///
    /// ```should_panic
    /// use std::time::Duration;
    /// use wakeful::runtime::Builder;
    /// use wakeful::sync::mpsc;
    ///
    /// let mut builder = Builder::new_current_thread();
    /// let runtime = builder.test_timeout(Some(Duration::from_millis(50))).build().unwrap();
    /// let (_tx, mut rx) = mpsc::channel::<()>(1);
    /// runtime.block_on(rx.recv());
    /// ```
    pub fn test_timeout(&mut self, limit: Option<Duration>) -> &mut Self {
        self.test_limit = limit.map_or(TestLimitSetting::Environment, TestLimitSetting::Given);
        self
    }

    /// Ends a `block_on` in more of the cases in which it can never return.
    ///
    /// `#[wakeful::test]` and `#[tokio::test]` enable it. A `block_on` that provably can never
    /// return panics with the report [`StuckBlockOn`](crate::inspect::StuckBlockOn) as its message.
    /// This setting adds two proofs:
    ///
    /// - The future of the `block_on` has no waker left. Outside of tests this may be intended,
    ///   because the `block_on` can serve tasks that other threads spawn.
    /// - The last other thread of the process has exited, which is noticed after at most a minute.
    ///
    /// The main thread of the standard test harness does not count as another thread while it waits
    /// for its tests to end. It runs no code of the test, so it holds no guard, permit or channel
    /// of the test.
    ///
    /// Any other live thread, such as one of another test, may hold the guard or permit. Then the
    /// deadlock is reported as [suspected](crate::inspect::Certainty::Suspected), and the
    /// `block_on` continues.
    ///
    /// # Examples
    ///
    /// ```should_panic
    /// use wakeful::runtime::Builder;
    ///
    /// let mut builder = Builder::new_current_thread();
    /// let runtime = builder.always_end_stuck_block_on(true).build().unwrap();
    /// runtime.block_on(std::future::pending::<()>());
    /// ```
    pub fn always_end_stuck_block_on(&mut self, always: bool) -> &mut Self {
        self.always_end_stuck_block_on = always;
        self
    }

    /// Sets which reports are delivered; all by default.
    ///
    /// Other reports reach neither the hook of [`on_report`](Self::on_report), nor stderr, nor the
    /// file that `WAKEFUL_REPORTS` names. The metrics still count them. The filter changes only the
    /// delivery: the [policy](Self::on_orphan) for orphans still applies, and a `block_on` that can
    /// never return still ends.
    ///
    /// Without this setting, the environment variable `WAKEFUL_REPORT` (`off`, `proven` or `all`)
    /// decides. Use it for programs that you don't want to edit.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use wakeful::inspect::{Certainty, ReportFilter};
    /// use wakeful::runtime::Builder;
    ///
    /// let (tx, rx) = mpsc::channel();
    /// let runtime = Builder::new_current_thread()
    ///     .report_filter(ReportFilter::Proven)
    ///     .on_report(move |report| drop(tx.send(report.certainty())))
    ///     .build()?;
    /// runtime.block_on(async {
    ///     wakeful::spawn(std::future::pending::<()>());
    ///     wakeful::task::yield_now().await;
    /// });
    /// assert_eq!(rx.recv(), Ok(Certainty::Proven));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn report_filter(&mut self, filter: ReportFilter) -> &mut Self {
        self.report_filter = Some(filter);
        self
    }

    /// Sets the format of printed reports; text by default.
    ///
    /// The format applies to stderr and to the file that `WAKEFUL_REPORTS` names, not to the hook
    /// of [`on_report`](Self::on_report), which can call
    /// [`Report::to_json`](crate::inspect::Report::to_json).
    ///
    /// Without this setting, the environment variable `WAKEFUL_REPORT` (`text` or `json`) decides.
    /// The variable can also contain a filter: `WAKEFUL_REPORT=proven,json`.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::inspect::ReportFormat;
    /// use wakeful::runtime::Builder;
    ///
    /// let runtime = Builder::new_current_thread().report_format(ReportFormat::Json).build()?;
    /// # drop(runtime);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn report_format(&mut self, format: ReportFormat) -> &mut Self {
        self.report_format = Some(format);
        self
    }

    /// Sets a hook that receives every report instead of stderr.
    ///
    /// [`report_filter`](Self::report_filter) can withhold some reports. A finding is reported at
    /// most once in ten seconds. On average, at most a hundred reports of one kind are delivered
    /// per second; all are counted. If the environment variable `WAKEFUL_REPORTS` names a file,
    /// each report is also appended to it as one line.
    ///
    /// The thread that detects a problem calls the hook: the watchdog, a worker, or a thread that
    /// drops a waker. That thread does nothing else until the hook returns, so the hook should be
    /// quick. The watchdog hands its role to another thread before it calls the hook. A panic in
    /// the hook is caught.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use wakeful::inspect::Report;
    /// use wakeful::runtime::Builder;
    ///
    /// let (tx, rx) = mpsc::channel();
    /// let runtime = Builder::new_current_thread()
    ///     .on_report(move |report| tx.send(report.clone()).unwrap())
    ///     .build()?;
    /// runtime.block_on(async {
    ///     wakeful::spawn(std::future::pending::<()>());
    ///     wakeful::task::yield_now().await;
    /// });
    /// let Report::Orphan(orphan) = rx.try_recv().unwrap() else { unreachable!() };
    /// assert_eq!(orphan.polls(), 1);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn on_report<F>(&mut self, hook: F) -> &mut Self
    where
        F: Fn(&Report) + Send + Sync + 'static,
    {
        self.on_report = Some(Arc::new(hook));
        self
    }
}
