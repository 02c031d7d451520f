//! Building runtimes.

use super::file_backend::Files;
use super::{
    FileBackend, Handle, Id, LocalOptions, LocalRuntime, OrphanPolicy, Runtime, UnhandledPanic,
    dump_signal, registry,
};
use crate::driver::clock::Clock;
use crate::driver::poller::EventLimits;
use crate::inspect::{Report, ReportHook};
use crate::runtime::inner::{Flavor, ReportingHooks, Shared};
use crate::scheduler::blocking_pool::BlockingPool;
use crate::scheduler::config::{Callback, Config, Environment, NextTask};
use crate::scheduler::current_thread::CurrentThread;
use crate::scheduler::multi_thread::MultiThread;
use crate::task::id::IdSource;
use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Builds a [`Runtime`] with settings of your own.
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
    thread_name: Arc<dyn Fn() -> String + Send + Sync>,
    thread_stack_size: Option<usize>,
    thread_keep_alive: Duration,
    on_thread_start: Option<Callback>,
    on_thread_stop: Option<Callback>,
    on_thread_park: Option<Callback>,
    on_thread_unpark: Option<Callback>,
    global_queue_interval: Option<u32>,
    event_interval: u32,
    run_next_slot: bool,
    start_paused: bool,
    has_time: bool,
    has_io: bool,
    io_batch: EventLimits,
    on_orphan: OrphanPolicy,
    on_panic: UnhandledPanic,
    on_report: Option<ReportHook>,
    name: Option<String>,
    root_name: Option<String>,
    rescue_after: Option<Duration>,
    report_blocked_after: Option<Duration>,
    max_spare_threads: usize,
    always_end_quiescent: bool,
    dump_on_signal: bool,
    seed: Option<u64>,
    shuffle: bool,
    file_backend: Option<FileBackend>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    CurrentThread,
    MultiThread,
}

/// Seeds a runtime's randomness; see [`Builder::rng_seed`].
#[derive(Clone, Debug)]
pub struct RngSeed(u64);

impl RngSeed {
    /// A seed made from any bytes: the same bytes give the same seed.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        // FNV-1a: short, and the same in every build.
        let fold = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        Self(bytes.iter().fold(0xcbf2_9ce4_8422_2325, fold))
    }
}

impl Builder {
    fn new(kind: Kind) -> Self {
        Self {
            kind,
            worker_threads: None,
            max_blocking_threads: 512,
            thread_name: Arc::new(|| "wakeful-worker".to_owned()),
            thread_stack_size: None,
            thread_keep_alive: Duration::from_secs(10),
            on_thread_start: None,
            on_thread_stop: None,
            on_thread_park: None,
            on_thread_unpark: None,
            global_queue_interval: None,
            event_interval: 61,
            run_next_slot: true,
            start_paused: false,
            has_time: false,
            has_io: false,
            io_batch: EventLimits::default(),
            on_orphan: OrphanPolicy::Report,
            on_panic: UnhandledPanic::Ignore,
            on_report: None,
            name: None,
            root_name: None,
            rescue_after: Some(Duration::from_millis(20)),
            report_blocked_after: Some(Duration::from_millis(100)),
            max_spare_threads: 64,
            always_end_quiescent: false,
            dump_on_signal: false,
            seed: None,
            shuffle: false,
            file_backend: None,
        }
    }

    /// A runtime whose tasks run on the thread that is in `block_on`.
    pub fn new_current_thread() -> Builder {
        Self::new(Kind::CurrentThread)
    }

    /// A runtime with worker threads that steal work from each other.
    #[cfg(feature = "rt-multi-thread")]
    pub fn new_multi_thread() -> Builder {
        Self::new(Kind::MultiThread)
    }

    /// Enables everything that can be enabled.
    pub fn enable_all(&mut self) -> &mut Self {
        self.has_time = true;
        self.has_io = true;
        self
    }

    /// Enables timers.
    #[cfg(feature = "time")]
    pub fn enable_time(&mut self) -> &mut Self {
        self.has_time = true;
        self
    }

    /// Enables sockets and the like.
    pub fn enable_io(&mut self) -> &mut Self {
        self.has_io = true;
        self
    }

    /// How many I/O events a thread that waits for them fetches at once; 256 by
    /// default.
    ///
    /// # Panics
    ///
    /// If `capacity` is 0.
    #[track_caller]
    pub fn max_io_events_per_tick(&mut self, capacity: usize) -> &mut Self {
        assert!(capacity > 0, "max_io_events_per_tick must be non-zero");
        self.io_batch.waiting = capacity;
        self
    }

    /// How many I/O events a thread fetches at once that has tasks left to run;
    /// as many as one that waits, by default.
    ///
    /// Fewer leave the rest with the system while the thread has more than enough
    /// to do.
    ///
    /// # Panics
    ///
    /// If `capacity` is 0.
    #[track_caller]
    pub fn max_io_events_per_busy_tick(&mut self, capacity: usize) -> &mut Self {
        assert!(capacity > 0, "max_io_events_per_busy_tick must be non-zero");
        self.io_batch.busy = Some(capacity);
        self
    }

    /// How many worker threads a multi-thread runtime has. Without it, the
    /// environment variable `WAKEFUL_WORKER_THREADS` (or the
    /// `TOKIO_WORKER_THREADS` that existing deployments set) decides, and
    /// without either the number of cores.
    ///
    /// # Panics
    ///
    /// If `val` is 0.
    #[track_caller]
    pub fn worker_threads(&mut self, val: usize) -> &mut Self {
        assert!(val > 0, "Worker threads cannot be set to 0");
        self.worker_threads = Some(val);
        self
    }

    /// How many threads the blocking pool may have; 512 by default. Threads are
    /// started when they are needed.
    ///
    /// # Panics
    ///
    /// If `val` is 0.
    #[track_caller]
    pub fn max_blocking_threads(&mut self, val: usize) -> &mut Self {
        assert!(val > 0, "Max blocking threads cannot be set to 0");
        self.max_blocking_threads = val;
        self
    }

    /// The name of the runtime's threads.
    pub fn thread_name(&mut self, val: impl Into<String>) -> &mut Self {
        let name = val.into();
        self.thread_name = Arc::new(move || name.clone());
        self
    }

    /// A function that names each of the runtime's threads.
    pub fn thread_name_fn<F>(&mut self, f: F) -> &mut Self
    where
        F: Fn() -> String + Send + Sync + 'static,
    {
        self.thread_name = Arc::new(f);
        self
    }

    /// A name for the runtime itself, for dumps and metrics.
    ///
    /// # Panics
    ///
    /// If the name is empty or blank.
    #[track_caller]
    pub fn name(&mut self, val: impl Into<String>) -> &mut Self {
        let name = val.into();
        assert!(!name.trim().is_empty(), "runtime name shouldn't be empty");
        self.name = Some(name);
        self
    }

    /// A name for the futures of this runtime's `block_on`, for dumps and reports.
    /// `#[wakeful::main]` and `#[wakeful::test]` give the function's.
    pub fn root_name(&mut self, val: impl Into<String>) -> &mut Self {
        self.root_name = Some(val.into());
        self
    }

    /// The stack size of the runtime's threads, in bytes.
    pub fn thread_stack_size(&mut self, val: usize) -> &mut Self {
        self.thread_stack_size = Some(val);
        self
    }

    /// How long a thread of the blocking pool waits for work before it ends; 10
    /// seconds by default.
    pub fn thread_keep_alive(&mut self, duration: Duration) -> &mut Self {
        self.thread_keep_alive = duration;
        self
    }

    /// Called on each of the runtime's threads when it starts.
    pub fn on_thread_start<F>(&mut self, f: F) -> &mut Self
    where
        F: Fn() + Send + Sync + 'static,
    {
        self.on_thread_start = Some(Arc::new(f));
        self
    }

    /// Called on each of the runtime's threads before it ends.
    pub fn on_thread_stop<F>(&mut self, f: F) -> &mut Self
    where
        F: Fn() + Send + Sync + 'static,
    {
        self.on_thread_stop = Some(Arc::new(f));
        self
    }

    /// Called on a thread that is about to sleep because there is no work.
    pub fn on_thread_park<F>(&mut self, f: F) -> &mut Self
    where
        F: Fn() + Send + Sync + 'static,
    {
        self.on_thread_park = Some(Arc::new(f));
        self
    }

    /// Called on a thread that wakes up from that sleep.
    pub fn on_thread_unpark<F>(&mut self, f: F) -> &mut Self
    where
        F: Fn() + Send + Sync + 'static,
    {
        self.on_thread_unpark = Some(Arc::new(f));
        self
    }

    /// After how many polls a worker looks at the shared queue although its own
    /// has work. The default suits all but unusual loads.
    ///
    /// # Panics
    ///
    /// If `val` is 0.
    #[track_caller]
    pub fn global_queue_interval(&mut self, val: u32) -> &mut Self {
        assert!(val > 0, "global_queue_interval must be greater than 0");
        self.global_queue_interval = Some(val);
        self
    }

    /// After how many polls, at the most, a thread looks at its clock and its driver
    /// although there is work; 61 by default. Where polls are long it looks sooner.
    ///
    /// # Panics
    ///
    /// If `val` is 0.
    #[track_caller]
    pub fn event_interval(&mut self, val: u32) -> &mut Self {
        assert!(val > 0, "event_interval must be greater than 0");
        self.event_interval = val;
        self
    }

    /// Makes woken tasks queue up instead of running next on the worker that
    /// woke them.
    pub fn disable_lifo_slot(&mut self) -> &mut Self {
        self.run_next_slot = false;
        self
    }

    /// Starts the runtime with its clock paused, as if `time::pause` were called first.
    ///
    /// It is for tests on a current-thread runtime: [`build`](Self::build) panics if the runtime is a
    /// multi-thread one. It needs the feature `test-util`.
    #[cfg(feature = "test-util")]
    pub fn start_paused(&mut self, start_paused: bool) -> &mut Self {
        self.start_paused = start_paused;
        self
    }

    /// Who carries out operations on files. Without it, the environment variable
    /// `WAKEFUL_FILE_BACKEND` (`auto`, `uring` or `pool`) decides, and without
    /// either [`FileBackend::Auto`].
    ///
    /// What was chosen is a wish: where io_uring is missing or forbidden, or does
    /// not know an operation, the blocking pool takes over. The same goes for
    /// runtimes without [`enable_io`](Self::enable_io), and for futures that are
    /// polled on a thread that drives no tasks. What is used is in
    /// [`RuntimeMetrics::file_backend`](super::RuntimeMetrics::file_backend).
    pub fn file_backend(&mut self, val: FileBackend) -> &mut Self {
        self.file_backend = Some(val);
        self
    }

    /// Seeds everything that the runtime draws at random: the first branch of
    /// `select!`, the order of stealing.
    pub fn rng_seed(&mut self, seed: RngSeed) -> &mut Self {
        self.seed = Some(seed.0);
        self
    }

    /// Runs ready tasks in an order drawn from `seed` instead of the order in
    /// which they became ready, and numbers tasks from 1: on a current-thread
    /// runtime whose tasks wait for nothing outside, the same seed gives the same
    /// run, and many seeds give many interleavings.
    ///
    /// ```
    /// use std::sync::{Arc, Mutex};
    /// use wakeful::runtime::{Builder, RngSeed};
    ///
    /// let order = |seed: &[u8]| {
    ///     let seed = RngSeed::from_bytes(seed);
    ///     let runtime = Builder::new_current_thread().shuffle_tasks(seed).build().unwrap();
    ///     let order = Arc::new(Mutex::new(Vec::new()));
    ///     let note = order.clone();
    ///     runtime.block_on(async move {
    ///         let tasks = (0..10).map(|n| (n, note.clone())).map(|(n, note)| {
    ///             wakeful::spawn(async move { note.lock().unwrap().push(n) })
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

    /// What happens when a task panics; by default nothing beyond its
    /// JoinHandle.
    pub fn unhandled_panic(&mut self, behavior: UnhandledPanic) -> &mut Self {
        self.on_panic = behavior;
        self
    }

    /// What happens to a task that can never run again, because it waits and no
    /// waker for it is left; by default it is reported.
    pub fn on_orphan(&mut self, policy: OrphanPolicy) -> &mut Self {
        self.on_orphan = policy;
        self
    }

    /// After how long a worker that is inside one poll counts as stuck: what waits in
    /// its queues is taken by others then, its timers and descriptors are looked
    /// after, and if all workers are stuck, a spare thread joins them. 20 ms by
    /// default; `None` leaves a stuck worker alone with what it has.
    ///
    /// A monitor thread looks every 10 ms, or a little later, while tasks are found to be
    /// polled, every 25 ms while the runtime is at work otherwise, and sleeps while it is not.
    pub fn rescue_after(&mut self, after: Option<Duration>) -> &mut Self {
        self.rescue_after = after;
        self
    }

    /// After how long a poll is reported as [`Blocked`](crate::inspect::Blocked); 100 ms by
    /// default, and never with `None`. A multi-thread runtime's monitor notices; for
    /// current-thread runtimes, one thread of the process does, which looks every 25 ms, or
    /// four times within this time if that is less, but not more often than every 5 ms.
    pub fn report_blocked_after(&mut self, after: Option<Duration>) -> &mut Self {
        self.report_blocked_after = after;
        self
    }

    /// How many spare threads may stand in for workers that are stuck; 64 by default. So many
    /// there are only where tasks wait with their threads: once more threads compute than there
    /// are workers, another is started only if no poll has begun for a tenth of a second.
    pub fn max_spare_threads(&mut self, val: usize) -> &mut Self {
        self.max_spare_threads = val;
        self
    }

    /// Prints a [dump](Handle::dump) of this runtime to stderr whenever the process gets
    /// SIGQUIT (Ctrl-\\ on a terminal), also while every worker is blocked; with what
    /// [`Handle::diagnose`] finds, and with the [trace](Handle::trace) if the recorder is on:
    /// that goes to the file `wakeful-trace-….json` in the current directory, and stderr
    /// says its name. The program goes on, where `kill -QUIT` would otherwise have ended
    /// it, or done nothing, as with what a script runs in the background; SIGTERM, or
    /// SIGABRT for a core dump, still end it.
    ///
    /// On under `#[wakeful::main]`. A program that handles SIGQUIT itself, by
    /// `wakeful::signal` or in any other way, keeps it, and gets no dumps; one that ignores it
    /// gets them, and its children do not inherit that it is ignored. The environment
    /// variable `WAKEFUL_DUMP_AFTER`, a time like `10s`, has a dump of every runtime
    /// printed once, so long after it was built.
    pub fn dump_on_signal(&mut self, on: bool) -> &mut Self {
        self.dump_on_signal = on;
        self
    }

    /// Ends a `block_on` in a test in more of the cases in which it can never return. On under `#[wakeful::test]`.
    ///
    /// A `block_on` that provably can never return ends with a panic whose message is the report
    /// [`StuckBlockOn`](crate::inspect::StuckBlockOn). With this option, two more cases count as proven:
    ///
    /// - The future of the `block_on` has no waker left. Outside of tests that may be intended, since the `block_on`
    ///   can serve tasks that other threads spawn.
    /// - The only other thread of the process is the main thread of the standard test harness, and that waits for its
    ///   tests to end. It runs no code of the test, so it has no guard, permit or channel of it.
    ///
    /// While another thread lives, one of another test for example, it may have the guard or permit that is waited
    /// for. Then the deadlock is reported as [suspected](crate::inspect::Certainty::Suspected), and the `block_on`
    /// goes on.
    pub fn always_end_quiescent(&mut self, always: bool) -> &mut Self {
        self.always_end_quiescent = always;
        self
    }

    /// Receives every report, instead of stderr.
    ///
    /// A finding is told once in ten seconds, and no more than a hundred reports of a
    /// kind per second in the long run; all are counted. If the environment variable
    /// `WAKEFUL_REPORTS` names a file, each is appended there as well, as one line.
    ///
    /// The hook is called by whichever thread noticed, possibly from inside a
    /// waker's drop: it should be quick. Until it returns, the thread that watches over the
    /// workers may be in it, and those that are blocked have to wait for its help. If it
    /// panics, that ends there.
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

    /// Builds the runtime.
    ///
    /// # Errors
    ///
    /// If the operating system refuses a thread.
    ///
    /// # Panics
    ///
    /// If a multi-thread runtime is to start with its clock paused (`start_paused`).
    #[track_caller]
    pub fn build(&mut self) -> io::Result<Runtime> {
        assert!(
            self.kind == Kind::CurrentThread || !self.start_paused,
            "`time::pause()` requires the `current_thread` Tokio runtime, and so does \
             `start_paused(true)`: the clock of many threads cannot stand still. Use \
             Builder::new_current_thread, or leave out start_paused."
        );
        Ok(Runtime::from_handle(Handle::from_shared(self.build_shared(false)?)))
    }

    /// Builds a runtime that may spawn tasks which are not `Send`, and may not
    /// leave the thread.
    ///
    /// # Errors
    ///
    /// Only if the builder's settings make no sense for it.
    ///
    /// # Panics
    ///
    /// If the builder is for a multi-thread runtime.
    #[track_caller]
    pub fn build_local(&mut self, _options: LocalOptions) -> io::Result<LocalRuntime> {
        assert!(
            self.kind == Kind::CurrentThread,
            "multi_thread is not supported for LocalRuntime: use Builder::new_current_thread"
        );
        Ok(LocalRuntime::from_handle(Handle::from_shared(self.build_shared(true)?)))
    }

    fn build_shared(&mut self, local: bool) -> io::Result<Arc<Shared>> {
        let witness = ReportingHooks::new(self.on_report.clone());
        let (reporter, panics) = (witness.reporter.clone(), witness.panics.clone());
        let config = Arc::new(self.config(witness.clone()));
        // It panics if it does not understand the environment: not after there are threads.
        let files = Files::new(self.file_backend.unwrap_or_else(FileBackend::from_env));
        let pool = Arc::new(BlockingPool::new(config.clone()));
        let flavor = match self.kind {
            Kind::CurrentThread => Flavor::Current(CurrentThread::start(config)),
            Kind::MultiThread => Flavor::Multi(MultiThread::start(config)?),
        };
        let name = self.name.clone();
        let local_to = local.then(|| std::thread::current().id());
        let id = Id::next();
        let has_time = self.has_time;
        let shared = Arc::new(Shared {
            id,
            has_time,
            name,
            flavor,
            pool,
            local_to,
            reporter,
            panics,
            files,
        });
        // Set once: this builder made the witness a moment ago.
        let _ = witness.shared.set(Arc::downgrade(&shared));
        registry::add(&shared);
        dump_signal::print_later(&shared);
        if self.dump_on_signal {
            dump_signal::print_on_signal(&shared);
        }
        Ok(shared)
    }

    fn config(&self, witness: Arc<ReportingHooks>) -> Config {
        Config {
            worker_threads: match (self.kind, self.worker_threads) {
                (Kind::CurrentThread, _) => 1,
                (Kind::MultiThread, Some(count)) => count,
                (Kind::MultiThread, None) => default_workers(),
            },
            thread_name: self.thread_name.clone(),
            thread_stack_size: self.thread_stack_size,
            max_blocking_threads: self.max_blocking_threads,
            thread_keep_alive: self.thread_keep_alive,
            on_thread_start: self.on_thread_start.clone(),
            on_thread_stop: self.on_thread_stop.clone(),
            on_thread_park: self.on_thread_park.clone(),
            on_thread_unpark: self.on_thread_unpark.clone(),
            injector_interval: self.global_queue_interval.unwrap_or(31),
            turn_interval: self.event_interval,
            run_next_slot: self.run_next_slot,
            has_io: self.has_io,
            io_batch: self.io_batch,
            root_name: self.root_name.clone(),
            on_orphan: self.on_orphan,
            on_panic: self.on_panic,
            rescue_after: self.rescue_after,
            report_blocked_after: self.report_blocked_after,
            max_spare_threads: self.max_spare_threads,
            always_end_quiescent: self.always_end_quiescent,
            witness,
            seam: self.seam(),
        }
    }
}

impl Builder {
    /// Everything that makes two runs differ, chosen here.
    fn seam(&self) -> Environment {
        let clock = Clock::new(self.start_paused);
        let seed = self.seed.unwrap_or_else(|| RandomState::new().hash_one(0));
        if self.shuffle {
            Environment::new(clock, IdSource::own(), seed, NextTask::Shuffled)
        } else {
            Environment::new(clock, IdSource::Process, seed, NextTask::InOrder)
        }
    }
}

/// As many workers as the environment says, or as there are cores.
fn default_workers() -> usize {
    for name in ["WAKEFUL_WORKER_THREADS", "TOKIO_WORKER_THREADS"] {
        let Ok(value) = std::env::var(name) else { continue };
        match value.parse::<usize>() {
            Ok(count) if count > 0 => return count,
            _ => panic!("\"{name}\" must be a positive number of threads, but it is {value:?}"),
        }
    }
    std::thread::available_parallelism().map_or(1, |count| count.get())
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("kind", &self.kind)
            .field("worker_threads", &self.worker_threads)
            .field("max_blocking_threads", &self.max_blocking_threads)
            .field("thread_keep_alive", &self.thread_keep_alive)
            .field("on_orphan", &self.on_orphan)
            .field("on_panic", &self.on_panic)
            .finish_non_exhaustive()
    }
}
