//! The configuration of a scheduler, as set by the builder.

use crate::driver::clock::Clock;
use crate::driver::clock::clock_ns::ClockNs;
use crate::driver::poller::EventLimits;
use crate::scheduler::hooks::RuntimeHooks;
use crate::scheduler::schedule_times::ScheduleTimes;
use crate::scheduler::task_hooks::TaskHooks;
use crate::sim::world::SimulatedHost;
use crate::sys::rng::Rng;
use crate::sys::thread_registry::{self, RuntimeThread};
use crate::sys::unwind::catch_and_forget;
use crate::task::ended::EndedWatch;
use crate::task::header::Header;
use crate::task::id::IdSource;
use crate::task::runnable::Runnable;
use crate::telemetry::poll_watch::PollWatch;
use crate::telemetry::worker_metrics::{ExactBuckets, WorkerMetrics};
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

/// A callback provided by the user.
pub(crate) type Callback = Arc<dyn Fn() + Send + Sync>;

/// The runtime's reaction to an orphan: a task that can never be woken again.
///
/// Set it with [`Builder::on_orphan`](crate::runtime::Builder::on_orphan).
///
/// # Examples
///
/// ```
/// use wakeful::runtime::{Builder, OrphanPolicy};
///
/// let runtime = Builder::new_current_thread().on_orphan(OrphanPolicy::Abort).build()?;
/// let error = runtime.block_on(async {
///     // The future drops its waker and waits forever.
///     wakeful::spawn(std::future::pending::<()>()).await.unwrap_err()
/// });
/// assert!(error.is_orphaned());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OrphanPolicy {
    /// Report the orphan once, and leave it alone.
    #[default]
    Report,
    /// Report the orphan and drop its future. Its JoinHandle resolves to an error for which
    /// [`is_orphaned`](crate::task::JoinError::is_orphaned) is true.
    Abort,
    /// Report the orphan and shut the runtime down.
    ///
    /// All tasks are dropped, and every `block_on` panics with the report, even if its future
    /// becomes ready in the poll that dropped the waker.
    ///
    /// This is the default under `#[wakeful::test]`.
    Panic,
}

/// The role of a thread of the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Runs tasks, so it must not block.
    Worker,
    /// Runs closures that may block.
    Blocking,
}

/// The configuration of a scheduler.
pub(crate) struct Config {
    pub(crate) worker_threads: usize,
    pub(crate) thread_name: ThreadName,
    pub(crate) thread_stack_size: Option<usize>,
    pub(crate) max_blocking_threads: usize,
    pub(crate) thread_keep_alive: Duration,
    pub(crate) on_thread_start: Option<Callback>,
    pub(crate) on_thread_stop: Option<Callback>,
    pub(crate) on_thread_park: Option<Callback>,
    pub(crate) on_thread_unpark: Option<Callback>,
    /// The number of polls after which a worker takes a task from the injector.
    pub(crate) injector_interval: u32,
    /// The largest number of polls after which the clock is read and the driver polled.
    pub(crate) event_interval: u32,
    pub(crate) lifo_slot_enabled: bool,
    pub(crate) has_io: bool,
    pub(crate) io_batch: EventLimits,
    /// The name of the runtime.
    pub(crate) name: Option<String>,
    /// The name of the future of `block_on` in reports.
    pub(crate) block_on_name: Option<String>,
    pub(crate) on_orphan: OrphanPolicy,
    /// The poll duration after which a worker's other tasks are rescued; `None` means never.
    pub(crate) rescue_after: Option<Duration>,
    /// The duration after which a blocked poll is reported; `None` means never.
    pub(crate) report_blocked_after: Option<Duration>,
    /// The duration after which a lasting problem is reported; `None` means never.
    pub(crate) report_lasting_after: Option<Duration>,
    /// The largest number of spare workers.
    pub(crate) max_spare_threads: usize,
    /// Whether the runtime belongs to a test. Then a `block_on` without a waker counts as stuck,
    /// and the watchdog checks whether other threads have exited.
    pub(crate) always_end_stuck_block_on: bool,
    /// The buckets of exact histograms.
    pub(crate) exact: ExactBuckets,
    /// When tasks were scheduled, if schedule latencies are tracked.
    pub(crate) schedule_times: Option<ScheduleTimes>,
    pub(crate) task_hooks: TaskHooks,
    /// Keeps `observe_end` called at the end of each task. `None` if `observe_end` would do
    /// nothing.
    pub(crate) _ended_watch: Option<EndedWatch>,
    pub(crate) hooks: Arc<dyn RuntimeHooks>,
    pub(crate) env: Environment,
}

impl Config {
    /// Returns whether every poll and every wake-up is observed, for the runtime's whole life.
    pub(crate) fn observes_all(&self) -> bool {
        self.task_hooks.observe_spawns_or_polls()
            || self.exact.poll_times.is_some()
            || self.schedule_times.is_some()
    }

    /// Observes that a task is scheduled at `now`, by a wake-up or a spawn.
    ///
    /// `poll_watch` is the calling thread's, if it holds a core.
    pub(crate) fn observe_schedule(
        &self,
        task: &Runnable,
        now: ClockNs,
        poll_watch: Option<&PollWatch>,
    ) {
        self.task_hooks.call_on_spawn(task, poll_watch);
        if let Some(times) = &self.schedule_times {
            times.schedule(task.cell_and_id().1, now);
        }
    }

    /// Observes the end of a task.
    pub(crate) fn observe_end(&self, task: &Header) {
        if let Some(times) = &self.schedule_times {
            times.remove(task.id.get());
        }
        self.task_hooks.call_on_terminate(task);
    }

    /// Polls a task through `poll`, calls the hooks around it, and records the schedule latency.
    ///
    /// The latency goes to `metrics`, which are the calling worker's. The thread's `PollWatch`
    /// shows no task before and after `poll`.
    pub(crate) fn observe_poll(
        &self,
        task: Runnable,
        metrics: Option<&WorkerMetrics>,
        poll: impl FnOnce(Runnable),
    ) {
        let clock = &self.env.clock;
        let mut meta = task.meta();
        let tracked = self.schedule_times.as_ref().map(|times| {
            let tracked = times.start_poll(task.cell_and_id().1, clock.now_approx());
            meta.schedule_latency = Some(tracked.latency);
            if let Some(latencies) = metrics.and_then(|it| it.schedule_latencies.as_ref()) {
                latencies.record(tracked.latency);
            }
            (times, tracked)
        });
        self.task_hooks.call_before_poll(&meta);
        poll(task);
        if let Some((times, tracked)) = tracked {
            times.end_poll(tracked, clock.now_approx());
        }
        self.task_hooks.call_after_poll(&meta);
    }

    /// Calls the user's `on_thread_start` callback on the new thread.
    pub(crate) fn call_on_thread_start(&self) {
        if let Some(callback) = &self.on_thread_start {
            thread_registry::set_runs_user_code(true);
            callback();
            thread_registry::set_runs_user_code(false);
        }
    }

    /// Returns an address that identifies this runtime.
    pub(crate) fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Starts a named thread that runs `main` inside the runtime's context.
    ///
    /// # Errors
    ///
    /// Returns an error if the thread can't be created, or if the user's thread-name function panics.
    pub(crate) fn spawn_thread(
        &self,
        role: Role,
        main: impl FnOnce() + Send + 'static,
    ) -> std::io::Result<thread::JoinHandle<()>> {
        let name = match &self.thread_name {
            ThreadName::Fixed(name) => name.clone().into_owned(),
            ThreadName::Function(name) => {
                self.hooks.before_user_code();
                // The user's function is called while locks are held, so its panic must not unwind.
                // The panic counts as a failure to start the thread.
                catch_and_forget(|| name()).ok_or_else(|| {
                    std::io::Error::other("the function for thread names panicked")
                })?
            }
        };
        let mut builder = thread::Builder::new().name(name);
        if let Some(bytes) = self.thread_stack_size {
            builder = builder.stack_size(bytes);
        }
        let (hooks, runtime) = (self.hooks.clone(), self.address());
        builder.spawn(move || {
            let _own = RuntimeThread::new(runtime);
            let mut main = Some(main);
            hooks.in_context(role, &mut || {
                if let Some(main) = main.take() {
                    main();
                }
            });
        })
    }
}

/// The names of a runtime's threads.
#[derive(Clone)]
pub(crate) enum ThreadName {
    Fixed(Cow<'static, str>),
    /// The user's function, called for each thread.
    Function(Arc<dyn Fn() -> String + Send + Sync>),
}

/// Clock, task ids and random numbers of a runtime.
///
/// Everything that could make two runs differ comes from here, never from a global. So a run with
/// `Builder::shuffle_tasks` can be repeated.
pub(crate) struct Environment {
    pub(crate) clock: Clock,
    pub(crate) ids: IdSource,
    seeds: SeedSource,
    pub(crate) next_task: NextTask,
    /// The simulated host, if the runtime is one.
    pub(crate) simulated: Option<SimulatedHost>,
}

/// How the current-thread scheduler chooses among its ready tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextTask {
    /// In the order in which they became ready (FIFO).
    InOrder,
    /// At random, from the runtime's seed.
    Shuffled,
}

impl Environment {
    pub(crate) fn new(clock: Clock, ids: IdSource, seed: u64, next_task: NextTask) -> Self {
        Self { clock, ids, seeds: SeedSource(AtomicU64::new(seed)), next_task, simulated: None }
    }

    /// Creates the environment of a host of a simulation.
    pub(crate) fn simulated(host: SimulatedHost) -> Self {
        let (clock, ids) = (Clock::simulated(host.time.clone()), host.world.ids.clone());
        let seed = host.world.seed ^ u64::from(host.id.0).rotate_left(48);
        let seeds = SeedSource(AtomicU64::new(seed));
        // Local sets draw the next task at random, and the oracle makes the choice.
        Self { clock, ids, seeds, next_task: NextTask::Shuffled, simulated: Some(host) }
    }

    /// Returns a random number generator for one thread or one structure of this runtime.
    pub(crate) fn rng(&self) -> Rng {
        self.seeds.draw()
    }
}

/// Creates generators in a fixed order, starting from the runtime's seed.
struct SeedSource(AtomicU64);

impl SeedSource {
    fn draw(&self) -> Rng {
        Rng::from_seed(self.0.fetch_add(1, Relaxed))
    }
}
