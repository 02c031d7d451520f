//! Exploration: runs a program under many seeds, until one of them fails.
//!
//! ```text
//!   Search::start ──► profile run ──► seed 0, 1, 2 …   each on a fresh thread
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
//! - [`explorer`]: what a user calls, and what `#[wakeful::sim]` expands to.
//! - [`settings`] reads the environment variables. [`progress`] prints the progress line, and [`quiet`]
//!   keeps the panics of the runs from standard error.
//! - [`preemptions`] finds the lines at which tasks were preempted.
//! - A [`Program`] makes one run, as a [`Plan`] says.

mod confirm;
mod determinism;
mod explorer;
mod files;
mod preemptions;
mod progress;
mod quiet;
mod report;
mod settings;
mod words;

#[doc(hidden)]
pub use explorer::run_test;
pub use explorer::{Explored, Explorer};
pub use report::ExploreError;

use crate::sim::api::Outcome;
use crate::sim::oracle::{Choices, Replay, Strategy};
use crate::sim::shrink::{Attempt, shrink};
use crate::sim::strategy::dfs::{Dfs, Path};
use crate::sim::strategy::profile::{Profile, Profiler};
use crate::sim::strategy::swarm::{OrderKind, swarm};
use crate::sim::world::{Failure, FailureKind};
use crate::sys::sync::ignore_poison;
use files::RunningFile;
use preemptions::Preemptions;
use progress::Progress;
use report::{Cause, Shrunk};
use settings::Repeat;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How one run is made.
pub(super) struct Plan {
    seed: u64,
    strategy: Box<dyn Strategy>,
    /// The events that are kept for a comparison.
    window: Option<(u64, usize)>,
    /// The run prints no panics, and fails if a poll blocks its thread.
    is_guarded: bool,
    /// Where the run notes which operations its preempted polls did not make.
    preemptions: Option<Preemptions>,
    /// Where the timeline of the run goes.
    timeline: Option<PathBuf>,
}

/// A program that can be run again and again.
type Program = Arc<dyn Fn(Plan) -> Outcome + Send + Sync>;

/// Every seed whose number is a multiple of this is run twice.
const COMPARED: u64 = 100;

/// The limits of shrinking: runs, and real time.
const SHRINK_RUNS: u32 = 2_000;
const SHRINK_TIME: Duration = Duration::from_secs(30);

/// A longer run has no timeline: the file would be too large to look at.
const TIMELINE_POLLS: u64 = 100_000;

/// A search through the runs of one program.
struct Search {
    /// The name of the test.
    name: String,
    first_seed: u64,
    seeds: u64,
    /// `None`: the seed draws it.
    order: Option<OrderKind>,
    program: Program,
    is_guarded: bool,
}

impl Search {
    /// Runs the seeds, or what the environment variables say instead.
    fn start(mut self) -> Result<Explored, ExploreError> {
        quiet::install_hook();
        match settings::repeat(&self.name) {
            Repeat::Nothing => {}
            Repeat::Seeds(seeds) => {
                (self.first_seed, self.seeds) = (seeds.start, seeds.end - seeds.start);
            }
            Repeat::Seed(seed) => {
                // It may stop in a debugger.
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
                eprintln!(
                    "{}: no run, since {} is a file of another test",
                    self.name,
                    settings::REPLAY
                );
                return Ok(Explored::default());
            }
        }
        match self.order {
            Some(OrderKind::Dfs(bound)) => self.search_depth_first(bound),
            _ => self.search_by_seed(),
        }
    }

    /// Runs the seeds until one fails.
    fn search_by_seed(&self) -> Result<Explored, ExploreError> {
        let running = RunningFile::create(&self.name);
        // If the run that measures the profile ends the process, every seed leads to it.
        running.write(self.first_seed);
        let profile = Arc::new(self.profile());
        let mut progress = Progress::new(&self.name, self.seeds);
        let mut explored = Explored::default();
        for done in 0..self.seeds {
            let seed = self.first_seed.wrapping_add(done);
            let strategy = || -> Box<dyn Strategy> { Box::new(swarm(seed, self.order, &profile)) };
            running.write(seed);
            let outcome = self.run(seed, strategy());
            self.check(done, outcome, &strategy, &mut explored)?;
            progress.advance(done + 1);
        }
        Ok(explored)
    }

    /// Makes all runs of a tiny program, as far as the seeds suffice. A seed is the number of a run.
    fn search_depth_first(&self, bound: usize) -> Result<Explored, ExploreError> {
        let running = RunningFile::create(&self.name);
        let end = self.first_seed.saturating_add(self.seeds);
        let mut progress = Progress::new(&self.name, end);
        let mut explored = Explored::default();
        let mut next = Some(Path::default());
        for seed in 0..end {
            let Some(start) = next else { break };
            running.write(seed);
            let (dfs, path) = Dfs::new(bound, start.clone());
            let outcome = self.run(seed, Box::new(dfs));
            // Runs before the first seed are made only to get there.
            if let Some(done) = seed.checked_sub(self.first_seed) {
                let strategy =
                    || -> Box<dyn Strategy> { Box::new(Dfs::new(bound, start.clone()).0) };
                self.check(done, outcome, &strategy, &mut explored)?;
            }
            next = ignore_poison(path.lock()).clone().next(bound);
            progress.advance(seed + 1);
        }
        explored.is_exhaustive = next.is_none();
        Ok(explored)
    }

    /// Measures how long a run is. If it fails, some seed fails too.
    fn profile(&self) -> Profile {
        if matches!(self.order, Some(OrderKind::Fifo | OrderKind::Random)) {
            return Profile::default();
        }
        let profiler = Profiler::default();
        let _ = self.run(0, Box::new(profiler.clone()));
        profiler.profile()
    }

    fn run(&self, seed: u64, strategy: Box<dyn Strategy>) -> Outcome {
        self.run_with_window(seed, strategy, None)
    }

    fn run_with_window(
        &self,
        seed: u64,
        strategy: Box<dyn Strategy>,
        window: Option<(u64, usize)>,
    ) -> Outcome {
        let is_guarded = self.is_guarded;
        let (preemptions, timeline) = (None, None);
        (self.program)(Plan { seed, strategy, window, is_guarded, preemptions, timeline })
    }

    /// Counts a run that has passed, after `done` others. Turns one that has failed into an error.
    fn check(
        &self,
        done: u64,
        outcome: Outcome,
        strategy: &dyn Fn() -> Box<dyn Strategy>,
        explored: &mut Explored,
    ) -> Result<(), ExploreError> {
        let seed = outcome.seed();
        let error = |cause| Err(ExploreError::new(&self.name, done + 1, cause, &outcome));
        // A thread that is blocked would be left behind by every repetition.
        if outcome.failure() == Some(FailureKind::BlockedPoll) {
            return error(Cause::Failed);
        }
        if done.is_multiple_of(COMPARED) || outcome.failure().is_some() {
            let rerun = |window| self.run_with_window(seed, strategy(), window);
            if let Some(difference) = determinism::compare(&outcome, &rerun) {
                return error(Cause::NotDeterministic(difference));
            }
        }
        if let Some(failure) = &outcome.result.failure {
            let shrunk = self.shrink(&outcome, failure);
            let mut error = ExploreError::new(&self.name, done + 1, Cause::Failed, &outcome);
            error.set_shrunk(shrunk);
            return Err(error);
        }
        explored.runs += 1;
        explored.simulated += outcome.elapsed();
        Ok(())
    }

    /// Shrinks a failure, writes its choices to a file, and confirms it. Returns `None` if a replay of
    /// its choices does not fail.
    fn shrink(&self, found: &Outcome, failure: &Failure) -> Option<Shrunk> {
        let started = Instant::now();
        let replay = |choices: &Choices, preemptions| {
            let outcome = (self.program)(Plan {
                seed: found.seed(),
                strategy: Box::new(Replay::new(choices)),
                window: None,
                is_guarded: true,
                preemptions,
                timeline: None,
            });
            let is_alike = outcome.result.failure.as_ref().is_some_and(|it| is_alike(it, failure));
            is_alike.then_some(outcome)
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

    /// Makes the shrunk run again, and writes its timeline beside the file with the choices.
    fn write_timeline(&self, run: &Outcome, choices: &Choices, path: &FilePath) -> Option<PathBuf> {
        if run.polls() > TIMELINE_POLLS {
            return None;
        }
        let path = path.with_extension("json");
        let _ = (self.program)(Plan {
            seed: run.seed(),
            strategy: Box::new(Replay::new(choices)),
            window: None,
            is_guarded: true,
            preemptions: None,
            timeline: Some(path.clone()),
        });
        Some(path)
    }

    /// Makes the run of a file with choices.
    fn replay(
        &self,
        seed: u64,
        choices: &Choices,
        path: PathBuf,
    ) -> Result<Explored, ExploreError> {
        let preemptions = Preemptions::default();
        let outcome = (self.program)(Plan {
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

/// Returns whether two failures are of one kind. Panics and conditions need equal texts as well: the
/// message and the place of a panic, the name of a condition. Numbers in them may differ, but for those
/// of a place.
fn is_alike(one: &Failure, other: &Failure) -> bool {
    use FailureKind::{Always, Eventually, HostError, Panic};
    let has_text = matches!(one.kind, Panic | Always | Eventually | HostError);
    one.kind == other.kind
        && (!has_text || without_numbers(&one.text) == without_numbers(&other.text))
}

/// Returns a text with each number replaced by one character, but for those behind a `:`.
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
