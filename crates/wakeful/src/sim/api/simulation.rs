//! [`Simulation`]: runs a program once, in an order that a seed decides.

use super::sim_handle::{ProgramOutput, Sim};
use super::{Outcome, Supervision, ThreadResult, run_supervised, sim_handle, timeline};
use crate::runtime::{Builder, LocalOptions, OrphanPolicy};
use crate::sim::hash::RunHash;
use crate::sim::oracle::HostId;
use crate::sim::oracle::{Choices, Fifo, Random, Replay, Strategy};
use crate::sim::shown_numbers;
use crate::sim::world::{World, WorldSettings};
use crate::task::futile;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::path::PathBuf;
use std::time::Duration;

/// The number of events of a run that are kept for a comparison with another run.
const KEPT_EVENTS: usize = 16_384;

/// One run of a program in a simulation.
///
/// The seed decides everything that could differ: the order of the tasks, where they are preempted, and
/// every random choice. [`run`](Self::run) returns an [`Outcome`]; the same seed repeats its failure.
///
/// The run fails if a task panics, if a task can never be woken again, or if the program is stuck without
/// a ready task, a timer or a message. [`FailureKind`](crate::sim::FailureKind) lists all reasons.
///
/// # Examples
///
/// A lost update, which most orders of the tasks hide:
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
/// use wakeful::sim::Simulation;
/// use wakeful::task::yield_now;
///
/// let failed = (0..100).find(|seed| {
///     let outcome = Simulation::new(*seed).run(|_| async {
///         let counter = Arc::new(AtomicU32::new(0));
///         let add = |counter: Arc<AtomicU32>| async move {
///             let before = counter.load(SeqCst);
///             yield_now().await;
///             counter.store(before + 1, SeqCst);
///         };
///         let one = wakeful::spawn(add(counter.clone()));
///         let other = wakeful::spawn(add(counter.clone()));
///         one.await.unwrap();
///         other.await.unwrap();
///         assert_eq!(counter.load(SeqCst), 2);
///     });
///     outcome.failure().is_some()
/// });
/// assert!(failed.is_some());
/// ```
pub struct Simulation {
    seed: u64,
    strategy: Box<dyn Strategy>,
    /// The window of events that are kept for a comparison with another run.
    window: Option<(u64, usize)>,
    blocked_after: Duration,
    time_limit: Duration,
    livelock_after: u64,
    allows_observed_panics: bool,
    /// The file for the timeline.
    timeline: Option<PathBuf>,
}

impl Simulation {
    /// Creates a simulation whose random choices `seed` decides.
    ///
    /// # Examples
    ///
    /// See [`Simulation`].
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            strategy: Box::new(Random::default()),
            window: Some((0, KEPT_EVENTS)),
            blocked_after: Duration::from_secs(10),
            time_limit: Duration::from_secs(3600),
            livelock_after: WorldSettings::MAX_POLLS_PER_INSTANT,
            allows_observed_panics: false,
            timeline: None,
        }
    }

    /// Sets the strategy, and the window of events to keep. A timeline keeps all events.
    pub(in crate::sim) fn planned(
        mut self,
        strategy: Box<dyn Strategy>,
        window: Option<(u64, usize)>,
    ) -> Self {
        self.strategy = strategy;
        if self.timeline.is_none() {
            self.window = window;
        }
        self
    }

    /// Always makes the usual choice: first come, first served, and no faults.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sim::Simulation;
    ///
    /// let outcome = Simulation::new(1).fifo().run(|_| async {});
    /// assert_eq!(outcome.choices(), "");
    /// ```
    pub fn fifo(mut self) -> Self {
        self.strategy = Box::new(Fifo);
        self
    }

    /// Repeats the choices of another run, from [`Outcome::choices`]. All other choices are the usual
    /// ones.
    ///
    /// # Errors
    ///
    /// If a line of `choices` is not a choice.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sim::Simulation;
    ///
    /// async fn program() {
    ///     let tasks = (0..10).map(|_| wakeful::spawn(wakeful::task::yield_now()));
    ///     for task in tasks.collect::<Vec<_>>() {
    ///         task.await.unwrap();
    ///     }
    /// }
    /// let recorded = Simulation::new(17).run(|_| program());
    /// let repeated = Simulation::new(17).replay(&recorded.choices())?.run(|_| program());
    /// assert_eq!(repeated.hash(), recorded.hash());
    /// # Ok::<(), String>(())
    /// ```
    pub fn replay(mut self, choices: &str) -> Result<Self, String> {
        self.strategy = Box::new(Replay::new(&choices.parse::<Choices>()?));
        Ok(self)
    }

    /// Sets how much real time a step may take before the run fails. 10 seconds by default.
    ///
    /// A poll that blocks its thread cannot be ended, so the thread of the run is abandoned.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use wakeful::sim::Simulation;
    ///
    /// Simulation::new(1).blocked_after(Duration::from_secs(60)).run(|_| async {}).unwrap();
    /// ```
    pub fn blocked_after(mut self, limit: Duration) -> Self {
        self.blocked_after = limit;
        self
    }

    /// Sets how much simulated time the program has to return before the run fails. An hour by default.
    ///
    /// Without a limit, a host with a heartbeat would keep a run going forever.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use wakeful::sim::{FailureKind, Simulation};
    /// use wakeful::time::sleep;
    ///
    /// let day = Duration::from_secs(24 * 3600);
    /// let outcome = Simulation::new(1).run(move |_| sleep(day));
    /// assert_eq!(outcome.failure(), Some(FailureKind::TimeLimit));
    /// Simulation::new(1).time_limit(day).run(move |_| sleep(day)).unwrap();
    /// ```
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = limit;
        self
    }

    /// Sets after how many polls without progress of the simulated time a run fails. 100,000 by default.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sim::{FailureKind, Simulation};
    ///
    /// let yields = |_| async {
    ///     for _ in 0..500 {
    ///         wakeful::task::yield_now().await;
    ///     }
    /// };
    /// let outcome = Simulation::new(1).livelock_after(100).run(yields);
    /// assert_eq!(outcome.failure(), Some(FailureKind::Livelock));
    /// ```
    pub fn livelock_after(mut self, polls: u64) -> Self {
        self.livelock_after = polls;
        self
    }

    /// Allows a task to panic if its JoinHandle is awaited. A panic that no code observes still fails the
    /// run.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sim::Simulation;
    ///
    /// let program = |_| async {
    ///     assert!(wakeful::spawn(async { panic!("expected") }).await.is_err());
    /// };
    /// assert!(Simulation::new(1).run(program).failure().is_some());
    /// Simulation::new(1).allow_observed_panics().run(program).unwrap();
    /// ```
    pub fn allow_observed_panics(mut self) -> Self {
        self.allows_observed_panics = true;
        self
    }

    /// Writes a timeline of the run to `path`, as JSON for [Perfetto](https://ui.perfetto.dev) and
    /// `chrome://tracing`.
    ///
    /// A file beside it, with the extension `log`, gets one line for each network message. Each host has a
    /// row with its polls, timers, messages and unusual choices. A poll takes no simulated time and is
    /// drawn 1 ns long, so the polls of one moment appear side by side. Recording takes memory that grows
    /// with the run. Without this call nothing is recorded.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sim::Simulation;
    ///
    /// let path = std::env::temp_dir().join(format!("wakeful-timeline-{}.json", std::process::id()));
    /// Simulation::new(1).timeline(&path).run(|_| wakeful::task::yield_now()).unwrap();
    /// assert!(std::fs::read_to_string(&path)?.contains("\"main\""));
    /// # std::fs::remove_file(path.with_extension("log"))?;
    /// # std::fs::remove_file(path)?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn timeline(mut self, path: impl Into<PathBuf>) -> Self {
        self.timeline = Some(path.into());
        self.window = Some(RunHash::ALL);
        self
    }

    /// Runs `program` on a new thread and waits for it to end.
    ///
    /// `program` runs on a host named `main`. When its future has returned, all other hosts are killed. If
    /// the future returns an error, the run fails.
    ///
    /// # Panics
    ///
    /// - If the operating system refuses a thread.
    /// - If called in async code, whose thread it would block.
    /// - If the file of the [`timeline`](Self::timeline) cannot be written.
    ///
    /// # Examples
    ///
    /// See [`Simulation`].
    #[track_caller]
    pub fn run<F, Fut>(self, program: F) -> Outcome
    where
        F: FnOnce(Sim) -> Fut + Send + 'static,
        Fut: Future<Output: ProgramOutput> + 'static,
    {
        let (site, limit) = (Location::caller(), self.limit());
        let run = move |supervision: &Supervision| self.run_here(supervision, site, program);
        match run_supervised(limit, run) {
            ThreadResult::Returned(outcome) => outcome,
            ThreadResult::Blocked(outcome) => *outcome,
        }
    }

    /// Returns the limit for the real time of a step.
    pub(in crate::sim) fn limit(&self) -> Duration {
        self.blocked_after
    }

    /// Runs the program on the calling thread, which `supervision` observes. `site` is the caller, for reports.
    pub(in crate::sim) fn run_here<F, Fut>(
        self,
        supervision: &Supervision,
        site: &'static Location<'static>,
        program: F,
    ) -> Outcome
    where
        F: FnOnce(Sim) -> Fut + 'static,
        Fut: Future<Output: ProgramOutput> + 'static,
    {
        let settings = WorldSettings {
            is_supervised: true,
            allows_observed_panics: self.allows_observed_panics,
            time_limit: self.time_limit,
            max_polls_per_instant: self.livelock_after,
            window: self.window,
            ..WorldSettings::new(self.seed, self.strategy)
        };
        let world = World::new(settings);
        if self.timeline.is_some() {
            world.network.keep_log();
        }
        supervision.begin_run(&world);
        let (sim, seed) = (Sim { world: world.clone() }, self.seed);
        let run = AssertUnwindSafe(|| run_program(seed, sim, program, site));
        if let Err(payload) = catch_unwind(run) {
            world.fail_panic(HostId::WORLD, "a destructor at the end of the run", payload);
        }
        // The thread may make another run, whose tasks have the same ids.
        futile::forget_results();
        supervision.end_run();
        let mut outcome = Outcome { text: world.failure_text(), result: world.take_result() };
        if let Some(path) = &self.timeline {
            outcome.result.messages = world.network.take_log();
            let written = timeline::write(&outcome.result, path);
            written
                .unwrap_or_else(|error| panic!("the timeline {path:?} cannot be written: {error}"));
        }
        outcome
    }
}

/// Runs the program on the calling thread. A failure is recorded in the world.
fn run_program<F, Fut>(seed: u64, sim: Sim, program: F, site: &'static Location<'static>)
where
    F: FnOnce(Sim) -> Fut + 'static,
    Fut: Future<Output: ProgramOutput> + 'static,
{
    shown_numbers::start_run();
    let world = sim.world.clone();
    let runtime = Builder::new_simulated(seed)
        .in_world(world.clone())
        .enable_all()
        .on_orphan(OrphanPolicy::Panic)
        // A finding becomes the failure of the run.
        .on_report(|_| {})
        .build_local(LocalOptions::default())
        .expect("a simulated runtime starts no thread");
    // A task, because a task can be preempted.
    let in_main = world.clone();
    let main = runtime.spawn_local_at(site, async move {
        let output = program(sim).await;
        sim_handle::fail_if_error(&in_main, output);
    });
    let end = async {
        let ended = main.await;
        world.end_chaos();
        world.disable_network_faults();
        poll_fn(|cx| world.poll_eventually_settled(cx.waker())).await;
        ended
    };
    let ended = catch_unwind(AssertUnwindSafe(|| runtime.block_on(end)));
    match ended {
        Ok(Err(error)) if error.is_panic() => {
            world.fail_panic(HostId::FIRST, "the program", error.into_panic())
        }
        // A failure that the world has recorded ends `block_on` with a panic as well.
        Err(payload) if !world.has_failed() => {
            world.fail_panic(HostId::FIRST, "code outside of a task", payload)
        }
        _ => {}
    }
    drop(runtime);
}
