//! [`Outcome`]: the result of a simulated run.

use crate::sim::hash::{BLOCK, Difference, Event, first_difference};
use crate::sim::world::{FailureKind, RunResult, World};
use std::fmt;
use std::time::Duration;

/// The result of a simulated run; from [`Simulation::run`](super::Simulation::run).
///
/// `Display` prints the failure, or a one-line summary of a successful run.
#[derive(Clone)]
#[must_use = "a run may have failed"]
pub struct Outcome {
    pub(in crate::sim) result: RunResult,
    /// The text of the failure, as a panic prints it.
    pub(super) text: String,
}

impl Outcome {
    /// Returns the outcome of a run up to now.
    pub(super) fn of(world: &World) -> Self {
        Self { text: world.failure_text(), result: world.result() }
    }

    /// Returns why the run failed, or `None` if its program returned.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sim::{FailureKind, Simulation};
    ///
    /// let outcome = Simulation::new(1).run(|_| async {
    ///     // Nothing ever notifies it.
    ///     wakeful::sync::Notify::new().notified().await;
    /// });
    /// assert_eq!(outcome.failure(), Some(FailureKind::Stuck));
    /// ```
    pub fn failure(&self) -> Option<FailureKind> {
        self.result.failure.as_ref().map(|failure| failure.kind)
    }

    /// Panics with the text of the failure if the run failed.
    ///
    /// # Panics
    ///
    /// If the run failed.
    ///
    /// # Examples
    ///
    /// ```
    /// wakeful::sim::Simulation::new(1).run(|_| async {}).unwrap();
    /// ```
    #[track_caller]
    pub fn unwrap(self) {
        assert!(self.result.failure.is_none(), "{}", self.text);
    }

    /// Returns the seed of the run.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(wakeful::sim::Simulation::new(5).run(|_| async {}).seed(), 5);
    /// ```
    pub fn seed(&self) -> u64 {
        self.result.seed
    }

    /// Returns the hash of all steps of the run. Runs with equal hashes made the same steps.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sim::Simulation;
    ///
    /// let hash = |seed| {
    ///     let outcome = Simulation::new(seed).run(|_| async {
    ///         let tasks = (0..10).map(|_| wakeful::spawn(wakeful::task::yield_now()));
    ///         for task in tasks.collect::<Vec<_>>() {
    ///             task.await.unwrap();
    ///         }
    ///     });
    ///     outcome.hash()
    /// };
    /// assert_eq!(hash(1), hash(1));
    /// assert_ne!(hash(1), hash(2));
    /// ```
    pub fn hash(&self) -> u64 {
        self.result.hash.value()
    }

    /// Returns the unusual choices of the run, as text for
    /// [`Simulation::replay`](super::Simulation::replay).
    ///
    /// The usual choices are the oldest task, the full budget, the lowest latency, no fault, and 0.
    ///
    /// # Examples
    ///
    /// See [`Simulation::replay`](super::Simulation::replay).
    pub fn choices(&self) -> String {
        self.result.choices.to_string()
    }

    /// Describes the first event in which two runs differ. Returns `None` if the runs are equal.
    ///
    /// If runs with the same seed differ, the seed does not decide everything: the program may depend
    /// on the real time, or on the order of a `HashMap`.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sim::Simulation;
    ///
    /// let run = |polls: u32| {
    ///     Simulation::new(1).run(move |_| async move {
    ///         for _ in 0..polls {
    ///             wakeful::task::yield_now().await;
    ///         }
    ///     })
    /// };
    /// assert_eq!(run(5).first_difference(&run(5)), None);
    /// assert!(run(5).first_difference(&run(6)).unwrap().contains("step "));
    /// ```
    pub fn first_difference(&self, other: &Outcome) -> Option<String> {
        let describe = |event: Option<Event>| {
            event.map_or_else(|| "the end of the run".to_owned(), |event| event.to_string())
        };
        Some(match first_difference(&self.result.hash, &other.result.hash)? {
            Difference::Event(one, other) => {
                format!("{}\n{}", describe(one), describe(other))
            }
            Difference::Block(first) => {
                format!("among the {BLOCK} events after event {first}, which were not kept")
            }
        })
    }

    /// Returns how much simulated time the run took.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use wakeful::{sim::Simulation, time::sleep};
    ///
    /// let outcome = Simulation::new(5).run(|_| sleep(Duration::from_secs(9)));
    /// assert_eq!(outcome.elapsed(), Duration::from_secs(9));
    /// ```
    pub fn elapsed(&self) -> Duration {
        self.result.elapsed
    }

    /// Returns the number of polls in the run.
    ///
    /// # Examples
    ///
    /// ```
    /// assert!(wakeful::sim::Simulation::new(5).run(|_| async {}).polls() > 0);
    /// ```
    pub fn polls(&self) -> u64 {
        self.result.polls
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let result = &self.result;
        match result.failure {
            Some(_) => f.write_str(&self.text),
            None => write!(
                f,
                "the simulation ended after {:?}, seed {:#x}, {}: {} polls, {} of {} choices unusual",
                result.elapsed,
                result.seed,
                result.strategy,
                result.polls,
                result.choices.0.len(),
                result.choice_count
            ),
        }
    }
}

impl fmt::Debug for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outcome")
            .field("seed", &self.seed())
            .field("failure", &self.failure())
            .field("hash", &self.hash())
            .finish_non_exhaustive()
    }
}
