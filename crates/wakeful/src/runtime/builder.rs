//! The builder of runtimes: its fields, and the settings of drivers, queues and randomness.
//!
//! - `builder/threads.rs`: settings of worker threads and of the blocking pool.
//! - `builder/diagnostics.rs`: settings of the watchdog, of reports and of dumps.
//! - `builder/histograms.rs`: settings of exact histograms.
//! - `builder/task_hooks.rs`: hooks for the spawn, the polls and the end of tasks.
//! - `builder/accepted.rs`: settings of tokio that choose an implementation.
//! - `builder/simulated.rs`: simulated runtimes.
//! - `builder/build.rs`: turns the settings into a runtime.

mod accepted;
mod build;
mod diagnostics;
mod histograms;
mod simulated;
mod task_hooks;
mod threads;

use self::histograms::HistogramSettings;
use super::{FileBackend, OrphanPolicy, RngSeed, UnhandledPanic};
use crate::driver::poller::EventLimits;
use crate::inspect::{ReportFilter, ReportFormat, ReportHook};
use crate::runtime::test_limit::TestLimitSetting;
use crate::scheduler::config::{Callback, ThreadName};
use crate::scheduler::task_hooks::TaskHooks;
use crate::sim::world::World;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

/// Builds a [`Runtime`](super::Runtime) with custom settings.
///
/// Start with [`new_multi_thread`](Self::new_multi_thread) or
/// [`new_current_thread`](Self::new_current_thread), change settings, and call
/// [`build`](Self::build). A new builder enables neither timers nor I/O: most programs want
/// [`enable_all`](Self::enable_all). A builder can build several runtimes.
///
/// # Examples
///
/// ```
/// use wakeful::runtime::Builder;
///
/// let runtime = Builder::new_multi_thread()
///     .worker_threads(2)
///     .thread_name("my-worker")
///     .enable_all()
///     .build()?;
/// assert_eq!(runtime.block_on(async { 1 + 1 }), 2);
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Builder {
    kind: Kind,
    worker_threads: Option<usize>,
    max_blocking_threads: usize,
    thread_name: ThreadName,
    thread_stack_size: Option<usize>,
    thread_keep_alive: Duration,
    on_thread_start: Option<Callback>,
    on_thread_stop: Option<Callback>,
    on_thread_park: Option<Callback>,
    on_thread_unpark: Option<Callback>,
    task_hooks: TaskHooks,
    poll_histogram: HistogramSettings,
    latency_histogram: HistogramSettings,
    tracks_latencies: bool,
    global_queue_interval: Option<u32>,
    event_interval: u32,
    lifo_slot_enabled: bool,
    start_paused: bool,
    has_time: bool,
    timers_elapse_at_shutdown: bool,
    has_io: bool,
    io_batch: EventLimits,
    on_orphan: OrphanPolicy,
    on_panic: Option<UnhandledPanic>,
    on_report: Option<ReportHook>,
    report_filter: Option<ReportFilter>,
    report_format: Option<ReportFormat>,
    name: Option<String>,
    block_on_name: Option<String>,
    rescue_after: Option<Duration>,
    report_blocked_after: Option<Duration>,
    report_lasting_after: Option<Duration>,
    max_spare_threads: usize,
    always_end_stuck_block_on: bool,
    dump_on_signal: bool,
    /// The address of the live page.
    #[cfg(feature = "page")]
    page: Option<String>,
    test_limit: TestLimitSetting,
    seed: Option<u64>,
    shuffle: bool,
    /// The world that a simulated runtime joins; `None` if the runtime creates its own.
    world: Option<Arc<World>>,
    file_backend: Option<FileBackend>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    CurrentThread,
    MultiThread,
    /// A host of a simulation.
    Simulated,
}

impl Builder {
    fn new(kind: Kind) -> Self {
        Self {
            kind,
            worker_threads: None,
            max_blocking_threads: 512,
            thread_name: ThreadName::Fixed(Cow::Borrowed("wakeful-worker")),
            thread_stack_size: None,
            thread_keep_alive: Duration::from_secs(10),
            on_thread_start: None,
            on_thread_stop: None,
            on_thread_park: None,
            on_thread_unpark: None,
            task_hooks: TaskHooks::default(),
            poll_histogram: HistogramSettings::default(),
            latency_histogram: HistogramSettings::default(),
            tracks_latencies: false,
            global_queue_interval: None,
            event_interval: 61,
            lifo_slot_enabled: true,
            start_paused: false,
            has_time: false,
            timers_elapse_at_shutdown: false,
            has_io: false,
            io_batch: EventLimits::default(),
            on_orphan: OrphanPolicy::Report,
            on_panic: None,
            on_report: None,
            report_filter: None,
            report_format: None,
            name: None,
            block_on_name: None,
            rescue_after: Some(Duration::from_millis(20)),
            report_blocked_after: Some(Duration::from_millis(100)),
            report_lasting_after: Some(Duration::from_secs(3)),
            max_spare_threads: 64,
            always_end_stuck_block_on: false,
            dump_on_signal: false,
            #[cfg(feature = "page")]
            page: None,
            test_limit: TestLimitSetting::Unlimited,
            seed: None,
            shuffle: false,
            world: None,
            file_backend: None,
        }
    }

    /// Creates a builder for a runtime whose tasks run on the thread that calls `block_on`.
    ///
    /// Such a runtime starts no worker threads. Its tasks make progress only while a thread is in
    /// [`Runtime::block_on`](super::Runtime::block_on). Use it for tests, for small programs, and
    /// for tasks that must share one thread.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Builder;
    ///
    /// let runtime = Builder::new_current_thread().enable_all().build()?;
    /// let caller = std::thread::current().id();
    /// runtime.block_on(async move {
    ///     let task = wakeful::spawn(async { std::thread::current().id() });
    ///     assert_eq!(task.await.unwrap(), caller);
    /// });
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn new_current_thread() -> Builder {
        Self::new(Kind::CurrentThread)
    }

    /// Creates a builder for a runtime with worker threads that steal work from each other.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Builder;
    ///
    /// let runtime = Builder::new_multi_thread().worker_threads(4).enable_all().build()?;
    /// assert_eq!(runtime.metrics().num_workers(), 4);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[cfg(feature = "rt-multi-thread")]
    pub fn new_multi_thread() -> Builder {
        Self::new(Kind::MultiThread)
    }

    /// Enables timers and I/O.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use wakeful::runtime::Builder;
    ///
    /// let runtime = Builder::new_current_thread().enable_all().build()?;
    /// runtime.block_on(async { wakeful::time::sleep(Duration::from_millis(1)).await });
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn enable_all(&mut self) -> &mut Self {
        self.has_time = true;
        self.has_io = true;
        self
    }

    /// Enables timers: `sleep`, `timeout`, `interval`.
    ///
    /// On a runtime without timers those functions panic.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use wakeful::runtime::Builder;
    /// use wakeful::time::timeout;
    ///
    /// let runtime = Builder::new_current_thread().enable_time().build()?;
    /// let result = runtime.block_on(async {
    ///     timeout(Duration::from_millis(1), std::future::pending::<()>()).await
    /// });
    /// assert!(result.is_err());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[cfg(feature = "time")]
    pub fn enable_time(&mut self) -> &mut Self {
        self.has_time = true;
        self
    }

    /// Enables I/O: sockets, pipes, signals, child processes and io_uring for files.
    ///
    /// On a runtime without I/O, creating a socket panics, and files use the blocking pool.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::net::TcpListener;
    /// use wakeful::runtime::Builder;
    ///
    /// let runtime = Builder::new_current_thread().enable_io().build()?;
    /// let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
    /// assert_ne!(listener.local_addr()?.port(), 0);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn enable_io(&mut self) -> &mut Self {
        self.has_io = true;
        self
    }

    /// Sets how many I/O events a parked thread fetches with one system call; 256 by default.
    ///
    /// # Panics
    ///
    /// If `capacity` is 0.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Builder;
    ///
    /// let runtime = Builder::new_multi_thread().enable_io().max_io_events_per_tick(1024).build()?;
    /// # drop(runtime);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[track_caller]
    pub fn max_io_events_per_tick(&mut self, capacity: usize) -> &mut Self {
        assert!(capacity > 0, "max_io_events_per_tick must be non-zero");
        self.io_batch.waiting = capacity;
        self
    }

    /// Sets how many I/O events a thread with tasks left to run fetches with one system call.
    ///
    /// The default is the value of [`max_io_events_per_tick`](Self::max_io_events_per_tick). With a
    /// smaller value, a busy thread fetches the other events with its next system calls.
    ///
    /// # Panics
    ///
    /// If `capacity` is 0.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Builder;
    ///
    /// let runtime =
    ///     Builder::new_multi_thread().enable_io().max_io_events_per_busy_tick(32).build()?;
    /// # drop(runtime);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[track_caller]
    pub fn max_io_events_per_busy_tick(&mut self, capacity: usize) -> &mut Self {
        assert!(capacity > 0, "max_io_events_per_busy_tick must be non-zero");
        self.io_batch.busy = Some(capacity);
        self
    }

    /// Names the runtime, for dumps and metrics.
    ///
    /// # Panics
    ///
    /// If the name is empty or blank.
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
    #[track_caller]
    pub fn name(&mut self, val: impl Into<String>) -> &mut Self {
        let name = val.into();
        assert!(!name.trim().is_empty(), "runtime name shouldn't be empty");
        self.name = Some(name);
        self
    }

    /// Sets the number of polls after which a busy worker checks the injector.
    ///
    /// The injector is the queue that all workers share. The default suits all but unusual loads.
    ///
    /// # Panics
    ///
    /// If `val` is 0.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Builder;
    ///
    /// let runtime = Builder::new_multi_thread().global_queue_interval(61).build()?;
    /// # drop(runtime);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[track_caller]
    pub fn global_queue_interval(&mut self, val: u32) -> &mut Self {
        assert!(val > 0, "global_queue_interval must be greater than 0");
        self.global_queue_interval = Some(val);
        self
    }

    /// Sets the number of polls after which a busy thread checks its timers and I/O.
    ///
    /// The value is an upper limit; 61 by default. If polls are long, the thread checks sooner.
    ///
    /// # Panics
    ///
    /// If `val` is 0.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Builder;
    ///
    /// let runtime = Builder::new_multi_thread().enable_all().event_interval(31).build()?;
    /// # drop(runtime);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[track_caller]
    pub fn event_interval(&mut self, val: u32) -> &mut Self {
        assert!(val > 0, "event_interval must be greater than 0");
        self.event_interval = val;
        self
    }

    /// Disables the LIFO slot of the workers.
    ///
    /// A task that a worker wakes usually runs next on that worker, ahead of the queue. Without the
    /// LIFO slot it goes to the end of the queue, where other workers can steal it.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Builder;
    ///
    /// let runtime = Builder::new_multi_thread().disable_lifo_slot().build()?;
    /// # drop(runtime);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn disable_lifo_slot(&mut self) -> &mut Self {
        self.lifo_slot_enabled = false;
        self
    }

    /// Starts the runtime with its clock paused, as if `time::pause` were called first.
    ///
    /// Use it in tests. Only a current-thread runtime supports it: [`build`](Self::build) panics on
    /// a multi-thread one. A paused clock advances to the next timer when no task can run.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// use wakeful::runtime::Builder;
    ///
    /// let runtime = Builder::new_current_thread().enable_time().start_paused(true).build()?;
    /// let start = Instant::now();
    /// runtime.block_on(async { wakeful::time::sleep(Duration::from_secs(3600)).await });
    /// assert!(start.elapsed() < Duration::from_secs(3600));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[cfg(feature = "test-util")]
    pub fn start_paused(&mut self, start_paused: bool) -> &mut Self {
        self.start_paused = start_paused;
        self
    }

    /// Sets how file operations are executed.
    ///
    /// Without this setting, the environment variable `WAKEFUL_FILE_BACKEND` (`auto`, `uring` or
    /// `pool`) decides. Without the variable, the backend is [`FileBackend::Auto`].
    ///
    /// The setting is a preference. The blocking pool executes an operation in these cases:
    ///
    /// - The kernel lacks io_uring, forbids it, or does not support the operation.
    /// - The runtime is built without [`enable_io`](Self::enable_io).
    /// - The future is polled on a thread that drives no tasks of the runtime.
    ///
    /// [`RuntimeMetrics::file_backend`](super::RuntimeMetrics::file_backend) returns the backend in use.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::{Builder, FileBackend};
    ///
    /// let runtime =
    ///     Builder::new_multi_thread().enable_all().file_backend(FileBackend::Pool).build()?;
    /// assert_eq!(runtime.metrics().file_backend(), FileBackend::Pool);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn file_backend(&mut self, val: FileBackend) -> &mut Self {
        self.file_backend = Some(val);
        self
    }

    /// Seeds all random numbers that the runtime draws.
    ///
    /// Random numbers choose the first branch that `select!` polls, and the worker that a thief tries first.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::{Builder, RngSeed};
    ///
    /// let first_branch = || {
    ///     let seed = RngSeed::from_bytes(b"the same in every run");
    ///     let runtime = Builder::new_current_thread().rng_seed(seed).build().unwrap();
    ///     runtime.block_on(async {
    ///         wakeful::select! {
    ///             _ = async {} => 1,
    ///             _ = async {} => 2,
    ///         }
    ///     })
    /// };
    /// assert_eq!(first_branch(), first_branch());
    /// ```
    pub fn rng_seed(&mut self, seed: RngSeed) -> &mut Self {
        self.seed = Some(seed.0);
        self
    }

    /// Runs ready tasks in an order drawn from `seed`, instead of the order of their wake-ups.
    ///
    /// Task ids start at 1. On a current-thread runtime whose tasks wait for nothing outside it,
    /// equal seeds give equal runs, and different seeds give different interleavings. Use it to
    /// search for races and to replay them.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::{Arc, Mutex};
    /// use wakeful::runtime::{Builder, RngSeed};
    ///
    /// let order = |seed: &[u8]| {
    ///     let seed = RngSeed::from_bytes(seed);
    ///     let runtime = Builder::new_current_thread().shuffle_tasks(seed).build().unwrap();
    ///     let order = Arc::new(Mutex::new(Vec::new()));
    ///     runtime.block_on(async {
    ///         let tasks = (0..10).map(|n| (n, order.clone())).map(|(n, order)| {
    ///             wakeful::spawn(async move { order.lock().unwrap().push(n) })
    ///         });
    ///         for task in tasks.collect::<Vec<_>>() {
    ///             task.await.unwrap();
    ///         }
    ///     });
    ///     let order = order.lock().unwrap().clone();
    ///     order
    /// };
    /// assert_eq!(order(b"one"), order(b"one"));
    /// assert_ne!(order(b"one"), order(b"two"));
    /// ```
    pub fn shuffle_tasks(&mut self, seed: RngSeed) -> &mut Self {
        self.shuffle = true;
        self.rng_seed(seed)
    }
}
