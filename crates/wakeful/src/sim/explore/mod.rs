//! Exploration: runs a program under many seeds, until one of them fails.
//!
//! ```text
//!   Search::start ──► profile run ──► seed 0, 1, 2 …   many on one thread (batch.rs)
//!                                       │ fails
//!                                       ▼
//!               run it again, compare the hashes (determinism.rs)
//!                                       │ equal
//!                                       ▼
//!               shrink its choices ──► `.choices` file (files.rs)
//!                                       │
//!                                       ▼
//!               confirm in new processes (confirm.rs) ──► ExploreError (report.rs)
//! ```
//!
//! - [`explorer`]: the public types, and the expansion of `#[wakeful::sim]`.
//! - [`settings`] reads the environment variables. [`progress`] prints the progress line, and [`panic_capture`]
//!   keeps the panics of the runs from standard error.
//! - [`seeds`]: the runs of a search. [`known_thread_locals`]: the thread-locals that a run may change.
//! - [`preemptions`] finds the lines at which tasks were preempted.
//! - A [`Program`] makes one run, as described by a [`Plan`].

mod batch;
mod confirm;
mod describe;
mod determinism;
mod explorer;
mod files;
mod known_thread_locals;
mod panic_capture;
mod preemptions;
mod progress;
mod report;
mod seeds;
mod settings;

#[doc(hidden)]
pub use explorer::run_test;
pub use explorer::{Explored, Explorer};
pub use report::ExploreError;

use crate::sim::api::{Outcome, Supervision, ThreadResult, run_supervised};
use crate::sim::oracle::{Choices, Replay, Strategy};
use crate::sim::shrink::{Attempt, shrink};
use crate::sim::strategy::profile::{Profile, Profiler};
use crate::sim::strategy::swarm::OrderKind;
use crate::sim::world::{Failure, FailureKind};
use batch::Batch;
use files::RunningFile;
use known_thread_locals::known_thread_locals;
use preemptions::Preemptions;
use progress::Progress;
use report::{Cause, Shrunk};
use seeds::{BySeed, DepthFirst, Seeds};
use settings::Repeat;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The parameters of one run.
pub(super) struct Plan {
    seed: u64,
    strategy: Box<dyn Strategy>,
    /// The window of events that are kept for a comparison.
    window: Option<(u64, usize)>,
    /// The run prints no panics, and fails if a poll blocks its thread.
    is_guarded: bool,
    /// Records which operations the preempted polls of the run did not make.
    preemptions: Option<Preemptions>,
    /// The file for the timeline of the run.
    timeline: Option<PathBuf>,
}

/// A program that can be run repeatedly.
type Program = Arc<dyn Fn(Plan, &Supervision) -> Outcome + Send + Sync>;

/// Every seed whose number is a multiple of this is run twice, and the runs are compared.
const COMPARED: u64 = 100;

/// The limit of a run that may stop in a debugger.
const UNLIMITED: Duration = Duration::from_secs(1 << 30);

/// Returns whether the run with this number is made twice.
fn is_compared(number: u64) -> bool {
    number.is_multiple_of(COMPARED)
}

/// The limits of shrinking: runs, and real time.
const SHRINK_RUNS: u32 = 2_000;
const SHRINK_TIME: Duration = Duration::from_secs(30);

/// The most polls of a run with a timeline. The file of a longer run would be too large to view.
const TIMELINE_POLLS: u64 = 100_000;

/// A search through the runs of one program.
struct Search {
    /// The name of the test.
    name: String,
    first_seed: u64,
    seeds: u64,
    /// `None` if each seed draws its own.
    order: Option<OrderKind>,
    program: Program,
    /// The limit for the real time of a step.
    limit: Duration,
    is_guarded: bool,
}

impl Search {
    /// Runs the seeds, or the runs that the environment variables request instead.
    fn start(mut self) -> Result<Explored, ExploreError> {
        panic_capture::install_hook();
        match settings::repeat(&self.name) {
            Repeat::Nothing => {}
            Repeat::Seeds(seeds) => {
                (self.first_seed, self.seeds) = (seeds.start, seeds.end - seeds.start);
            }
            Repeat::Seed(seed) => {
                // The run may stop in a debugger.
                self.is_guarded = false;
                (self.first_seed, self.seeds) = (seed, 1);
            }
            Repeat::Choices { seed, choices, path } => {
                return self.replay(seed, &choices, path);
            }
            Repeat::Confirm { seed, choices, answer } => {
                let outcome = self.run(seed, Box::new(Replay::new(&choices)));
                confirm::answer(&answer, &outcome)
            }
            Repeat::AnotherTest => {
                eprintln!("{}: skipped: {} belongs to another test", self.name, settings::REPLAY);
                return Ok(Explored::default());
            }
        }
        self.search()
    }

    /// Makes the runs until one fails or all are done.
    fn search(&self) -> Result<Explored, ExploreError> {
        if self.seeds == 0 {
            return Ok(Explored::default());
        }
        let running = RunningFile::create(&self.name);
        // The profile run may end the process. A search from any seed repeats it.
        running.writer().write(self.first_seed);
        let made = Arc::new(AtomicU64::new(0));
        let mut batch = Batch {
            program: self.program.clone(),
            seeds: self.runs(),
            writer: running.writer(),
            progress: Progress::new(&self.name, self.seeds),
            explored: Explored::default(),
            made: made.clone(),
            is_guarded: self.is_guarded,
            known: known_thread_locals(),
        };
        loop {
            let end = match run_supervised(self.limit(), move |supervision| batch.run(supervision))
            {
                ThreadResult::Returned(end) => end,
                // Each repetition would leave one more blocked thread behind.
                ThreadResult::Blocked(outcome) => {
                    let runs = made.load(Relaxed) + 1;
                    return Err(ExploreError::new(&self.name, runs, Cause::Failed, &outcome));
                }
            };
            batch = end.batch;
            let Some(outcome) = end.outcome else { break };
            if let Some(number) = batch.seeds.number() {
                self.check(number, outcome, end.runs, &mut batch)?;
            }
            if !batch.advance() {
                break;
            }
        }
        batch.explored.is_exhaustive = batch.seeds.is_exhausted();
        Ok(batch.explored)
    }

    /// Returns the runs of the search.
    fn runs(&self) -> Box<dyn Seeds> {
        if let Some(OrderKind::Dfs(bound)) = self.order {
            let end = self.first_seed.saturating_add(self.seeds);
            return Box::new(DepthFirst::new(bound, self.first_seed..end));
        }
        let (first, seeds, order) = (self.first_seed, self.seeds, self.order);
        Box::new(BySeed { first, seeds, done: 0, order, profile: Arc::new(self.profile()) })
    }

    /// Returns the limit for the real time of a step.
    fn limit(&self) -> Duration {
        if self.is_guarded { self.limit } else { UNLIMITED }
    }

    /// Measures the length of a run. A failure is ignored, since some seed fails as well.
    fn profile(&self) -> Profile {
        if matches!(self.order, Some(OrderKind::Fifo | OrderKind::Random)) {
            return Profile::default();
        }
        let profiler = Profiler::default();
        let _ = self.run(0, Box::new(profiler.clone()));
        profiler.profile()
    }

    fn run(&self, seed: u64, strategy: Box<dyn Strategy>) -> Outcome {
        let is_guarded = self.is_guarded;
        let (preemptions, timeline) = (None, None);
        self.run_plan(Plan { seed, strategy, window: None, is_guarded, preemptions, timeline })
    }

    /// Makes a run on a new thread.
    fn run_plan(&self, plan: Plan) -> Outcome {
        let limit = if plan.is_guarded { self.limit } else { UNLIMITED };
        let program = self.program.clone();
        match run_supervised(limit, move |supervision| program(plan, supervision)) {
            ThreadResult::Returned(outcome) => outcome,
            ThreadResult::Blocked(outcome) => *outcome,
        }
    }

    /// Repeats the current run of a search on new threads. Returns the first difference from `outcome`.
    fn compare(&self, outcome: &Outcome, seeds: &dyn Seeds) -> Option<String> {
        let (seed, is_guarded) = (outcome.seed(), self.is_guarded);
        determinism::compare(outcome, &|window| {
            let strategy = seeds.repetition();
            let (preemptions, timeline) = (None, None);
            self.run_plan(Plan { seed, strategy, window, is_guarded, preemptions, timeline })
        })
    }

    /// Counts a run that passed, after `number` others, or turns a failed run into an error.
    ///
    /// `runs` is the number of runs on the thread, of which this one was the last.
    fn check(
        &self,
        number: u64,
        mut outcome: Outcome,
        runs: u64,
        batch: &mut Batch,
    ) -> Result<(), ExploreError> {
        if is_compared(number) || outcome.failure().is_some() {
            let mut difference = self.compare(&outcome, &*batch.seeds);
            if difference.is_some() && runs > 1 {
                // The thread may have kept state of an earlier run that the image does not show.
                batch.known = None;
                outcome = self.run(outcome.seed(), batch.seeds.repetition());
                difference = self.compare(&outcome, &*batch.seeds);
            }
            if let Some(difference) = difference {
                let cause = Cause::NotDeterministic(difference);
                return Err(ExploreError::new(&self.name, number + 1, cause, &outcome));
            }
        }
        if let Some(failure) = &outcome.result.failure {
            let shrunk = self.shrink(&outcome, failure);
            let mut error = ExploreError::new(&self.name, number + 1, Cause::Failed, &outcome);
            error.set_shrunk(shrunk);
            return Err(error);
        }
        batch.explored.count(&outcome);
        Ok(())
    }

    /// Shrinks a failure, writes its choices to a file, and confirms it. Returns `None` if a replay of
    /// the choices does not fail.
    fn shrink(&self, found: &Outcome, failure: &Failure) -> Option<Shrunk> {
        let started = Instant::now();
        let replay = |choices: &Choices, preemptions| {
            let outcome = self.run_plan(Plan {
                seed: found.seed(),
                strategy: Box::new(Replay::new(choices)),
                window: None,
                is_guarded: true,
                preemptions,
                timeline: None,
            });
            let is_same =
                outcome.result.failure.as_ref().is_some_and(|it| is_same_failure(it, failure));
            is_same.then_some(outcome)
        };
        let mut runs = 0;
        let choices = shrink(found.result.choices.clone(), &mut |choices| {
            if runs == SHRINK_RUNS || started.elapsed() > SHRINK_TIME {
                return Attempt::OutOfRuns;
            }
            runs += 1;
            replay(choices, None).map_or(Attempt::Passes, |it| Attempt::Fails(it.result.choices))
        });
        let elapsed = started.elapsed();
        let preemptions = Preemptions::default();
        let smallest = replay(&choices, Some(preemptions.clone()))?;
        let path = files::write_choices(&self.name, found.seed(), &choices);
        let confirmed =
            path.as_ref().ok().map(|path| confirm::confirm(&self.name, path, &smallest));
        let timeline =
            path.as_ref().ok().and_then(|path| self.write_timeline(&smallest, &choices, path));
        let outcome = smallest;
        Some(Shrunk { outcome, preemptions, runs, elapsed, path, timeline, confirmed })
    }

    /// Repeats the shrunk run, and writes its timeline beside the file with the choices.
    fn write_timeline(&self, run: &Outcome, choices: &Choices, path: &FilePath) -> Option<PathBuf> {
        if run.polls() > TIMELINE_POLLS {
            return None;
        }
        let path = path.with_extension("json");
        let _ = self.run_plan(Plan {
            seed: run.seed(),
            strategy: Box::new(Replay::new(choices)),
            window: None,
            is_guarded: true,
            preemptions: None,
            timeline: Some(path.clone()),
        });
        Some(path)
    }

    /// Repeats the run of a file with choices.
    fn replay(
        &self,
        seed: u64,
        choices: &Choices,
        path: PathBuf,
    ) -> Result<Explored, ExploreError> {
        let preemptions = Preemptions::default();
        let outcome = self.run_plan(Plan {
            seed,
            strategy: Box::new(Replay::new(choices)),
            window: None,
            is_guarded: false,
            preemptions: Some(preemptions.clone()),
            timeline: None,
        });
        if outcome.failure().is_none() {
            return Ok(Explored { runs: 1, simulated: outcome.elapsed(), is_exhaustive: false });
        }
        let mut error = ExploreError::new(&self.name, 1, Cause::Failed, &outcome);
        error.set_replayed(path, preemptions);
        Err(error)
    }
}

/// Returns whether two failures are of one kind. Panics and conditions must also have equal texts: the
/// message and place of a panic, the name of a condition. Numbers in the texts may differ, except for
/// line numbers.
fn is_same_failure(one: &Failure, other: &Failure) -> bool {
    use FailureKind::{Always, Eventually, HostError, Panic};
    let has_text = matches!(one.kind, Panic | Always | Eventually | HostError);
    one.kind == other.kind
        && (!has_text || without_numbers(&one.text) == without_numbers(&other.text))
}

/// Replaces each number of a text by one character, except for numbers after a `:`.
fn without_numbers(text: &str) -> String {
    let mut kept = String::new();
    for char in text.chars() {
        match char {
            '0'..='9' if kept.ends_with('#') => {}
            '0'..='9' if !kept.trim_end_matches(|it: char| it.is_ascii_digit()).ends_with(':') => {
                kept.push('#');
            }
            char => kept.push(char),
        }
    }
    kept
}

#[cfg(all(test, not(loom)))]
mod tests;
