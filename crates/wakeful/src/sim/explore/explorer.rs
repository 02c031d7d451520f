//! [`Explorer`]: runs a program under many seeds.

use super::panic_capture::Panics;
use super::{ExploreError, Plan, Search};
use crate::sim::api::{Outcome, ProgramOutput, Sim, Simulation, Supervision};
use crate::sim::strategy::swarm::OrderKind;
use crate::sim::world::FailureKind;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

/// The livelock limit of a search, ten times the usual one, because polls that are cut short do little.
const LIVELOCK_AFTER: u64 = 1_000_000;

/// Runs a program under many seeds, and shrinks the first failure.
///
/// [`#[wakeful::sim]`](macro@crate::sim) does this for a test. Use an `Explorer` outside of tests, or
/// for a test that examines the failure.
///
/// Each seed is one run. The seed draws the strategy that orders the tasks, how often polls are cut
/// short, and which faults happen. Some seeds and every failure are run twice, to check that the program
/// is deterministic.
///
/// # Examples
///
/// A lost update, which happens if two tasks take turns between reading and writing:
///
/// ```
/// use std::cell::Cell;
/// use std::rc::Rc;
/// use wakeful::sim::{Explorer, FailureKind};
/// use wakeful::task::{spawn_local, yield_now};
///
/// let found = Explorer::new("lost_update").seeds(100).run(|_sim| async {
///     let counter = Rc::new(Cell::new(0));
///     let add = |counter: Rc<Cell<u32>>| async move {
///         let before = counter.get();
///         yield_now().await;
///         counter.set(before + 1);
///     };
///     let one = spawn_local(add(counter.clone()));
///     let other = spawn_local(add(counter.clone()));
///     one.await.unwrap();
///     other.await.unwrap();
///     assert_eq!(counter.get(), 2);
/// });
/// assert_eq!(found.unwrap_err().kind(), Some(FailureKind::Panic));
/// ```
#[derive(Clone, Debug)]
#[must_use = "an explorer does nothing before `run`"]
pub struct Explorer {
    name: String,
    first_seed: u64,
    seeds: u64,
    order: Option<OrderKind>,
    configure: fn(Simulation) -> Simulation,
}

impl Explorer {
    /// Creates an explorer of the seeds 0 to 999.
    ///
    /// `name` is part of file names, and of the command that repeats a failure. Pass the name of the
    /// test.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sim::Explorer;
    ///
    /// let explored = Explorer::new("empty").run(|_sim| async {}).unwrap();
    /// assert_eq!(explored.runs(), 1_000);
    /// ```
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), first_seed: 0, seeds: 1_000, order: None, configure: |it| it }
    }

    /// Sets how many seeds are run if none fails. 1,000 by default.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sim::Explorer;
    ///
    /// let explored = Explorer::new("empty").seeds(10).run(|_sim| async {}).unwrap();
    /// assert_eq!(explored.runs(), 10);
    /// ```
    pub fn seeds(mut self, seeds: u64) -> Self {
        self.seeds = seeds;
        self
    }

    /// Sets the first seed. 0 by default, so that each search runs the same seeds.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sim::Explorer;
    ///
    /// Explorer::new("empty").first_seed(5_000).seeds(10).run(|_sim| async {}).unwrap();
    /// ```
    pub fn first_seed(mut self, seed: u64) -> Self {
        self.first_seed = seed;
        self
    }

    /// Sets the order of the tasks. By default, each seed draws an order.
    ///
    /// | strategy | order of the tasks |
    /// | --- | --- |
    /// | `swarm` | each seed draws one of the other strategies except `dfs`: the default |
    /// | `fifo` | first come, first served |
    /// | `random` | any ready task |
    /// | `pct(d)` | the ready task with the highest random priority; `d` - 1 times, the running task gets the lowest priority |
    /// | `delay(d)` | first come, first served; `d` times, a task is delayed until no other is ready |
    /// | `urw` | at random; tasks with many polls ahead of them are preferred |
    /// | `dfs(b)` | all runs with at most `b` unusual choices, one after the other: for tiny programs |
    ///
    /// `dfs` cuts a poll at its first two operations only, and tries only the first four values of a
    /// wider choice.
    ///
    /// # Panics
    ///
    /// If `strategy` is none of these.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sim::Explorer;
    ///
    /// let explored = Explorer::new("tiny").seeds(10_000).strategy("dfs(2)").run(|_sim| async {
    ///     let task = wakeful::spawn(async {});
    ///     task.await.unwrap();
    /// });
    /// assert!(explored.unwrap().is_exhaustive());
    /// ```
    #[track_caller]
    pub fn strategy(mut self, strategy: &str) -> Self {
        self.order = match strategy {
            "swarm" => None,
            other => Some(other.parse().unwrap_or_else(|error| panic!("{error}"))),
        };
        self
    }

    /// Sets the limits of each run: `configure` changes the [`Simulation`] before it runs.
    ///
    /// The default livelock limit of a search is 1,000,000 polls at one time, because a poll that is cut
    /// short does little.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use wakeful::{sim::Explorer, time::sleep};
    ///
    /// const DAY: Duration = Duration::from_secs(24 * 3600);
    /// let explorer = Explorer::new("day").seeds(10).configure(|run| run.time_limit(2 * DAY));
    /// explorer.run(|_sim| sleep(DAY)).unwrap();
    /// ```
    pub fn configure(mut self, configure: fn(Simulation) -> Simulation) -> Self {
        self.configure = configure;
        self
    }

    /// Runs the program under the seeds until one fails.
    ///
    /// If `WAKEFUL_SIM_SEED`, `WAKEFUL_SIM_REPLAY` or `WAKEFUL_SIM_SEEDS` is set, that variable decides
    /// what is run. The future may be `!Send`, since a run has one thread.
    ///
    /// # Errors
    ///
    /// Returns the shrunk failure if a run fails. Returns the first difference if two runs of a seed
    /// differ.
    ///
    /// # Panics
    ///
    /// If one of these variables has an invalid value.
    ///
    /// # Examples
    ///
    /// See [`Explorer`].
    pub fn run<F, Fut>(self, program: F) -> Result<Explored, ExploreError>
    where
        F: Fn(Sim) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: ProgramOutput> + 'static,
    {
        let Self { name, first_seed, seeds, order, configure } = self;
        let program = Arc::new(program);
        let limit = configure(Simulation::new(first_seed)).limit();
        let program = Arc::new(move |plan, supervision: &Supervision| {
            run_once(plan, configure, program.clone(), supervision)
        });
        Search { name, first_seed, seeds, order, program, limit, is_guarded: true }.start()
    }
}

/// Makes a run on the calling thread, which `supervision` observes.
pub(super) fn run_once<F, Fut>(
    plan: Plan,
    configure: fn(Simulation) -> Simulation,
    program: Arc<F>,
    supervision: &Supervision,
) -> Outcome
where
    F: Fn(Sim) -> Fut + Send + Sync + 'static,
    Fut: Future<Output: ProgramOutput> + 'static,
{
    let Plan { seed, strategy, window, is_guarded, preemptions, timeline } = plan;
    let simulation = configure(Simulation::new(seed).livelock_after(LIVELOCK_AFTER));
    let simulation = simulation.planned(strategy, window);
    let simulation = match timeline {
        Some(path) => simulation.timeline(path),
        None => simulation,
    };
    let panics = Panics::default();
    let collected = panics.clone();
    let mut outcome = simulation.run_here(supervision, Location::caller(), move |sim| {
        if is_guarded {
            collected.collect();
        }
        if let Some(preemptions) = preemptions {
            preemptions.observe();
        }
        program(sim)
    });
    let failure = outcome.result.failure.as_mut();
    if let Some(failure) = failure.filter(|failure| failure.kind == FailureKind::Panic)
        && let Some(site) = panics.site_in(&failure.text)
    {
        failure.text += &format!("\n    panicked    at {site}");
    }
    outcome
}

/// The result of a search that found no failure.
///
/// # Examples
///
/// See [`Explorer::new`].
#[derive(Clone, Debug, Default)]
pub struct Explored {
    pub(super) runs: u64,
    pub(super) simulated: Duration,
    pub(super) is_exhaustive: bool,
}

impl Explored {
    /// Counts a run that passed.
    pub(super) fn count(&mut self, outcome: &Outcome) {
        self.runs += 1;
        self.simulated += outcome.elapsed();
    }

    /// Returns how many seeds were run.
    ///
    /// # Examples
    ///
    /// See [`Explorer::new`].
    pub fn runs(&self) -> u64 {
        self.runs
    }

    /// Returns the simulated time of all seeds together.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use wakeful::{sim::Explorer, time::sleep};
    ///
    /// let nap = Explorer::new("nap").seeds(10).run(|_sim| sleep(Duration::from_secs(60)));
    /// assert_eq!(nap.unwrap().simulated_time(), Duration::from_secs(600));
    /// ```
    pub fn simulated_time(&self) -> Duration {
        self.simulated
    }

    /// Returns whether the search made every run that the strategy `dfs` allows.
    ///
    /// # Examples
    ///
    /// See [`Explorer::strategy`].
    pub fn is_exhaustive(&self) -> bool {
        self.is_exhaustive
    }
}

/// Runs a test with the attribute `#[wakeful::sim]`. `path` starts with the crate name.
///
/// # Panics
///
/// If a seed fails, with the text of the failure.
#[doc(hidden)]
#[track_caller]
pub fn run_test<F, Fut>(path: &str, seeds: Option<u64>, strategy: &str, program: F)
where
    F: Fn(Sim) -> Fut + Send + Sync + 'static,
    Fut: Future<Output: ProgramOutput> + 'static,
{
    // The name that the test harness uses.
    let name = path.split_once("::").map_or(path, |(_, name)| name);
    let explorer = Explorer::new(name).strategy(strategy);
    let explorer = match seeds {
        Some(seeds) => explorer.seeds(seeds),
        None => explorer,
    };
    if let Err(error) = explorer.run(program) {
        panic!("{error}");
    }
}
