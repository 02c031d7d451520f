//! The error of a search: the failure, the choices that lead to it, and the commands that repeat it.

use super::confirm::{Confirmed, PROCESSES, is_test_program};
use super::describe::{describe, time, with_commas};
use super::files;
use super::preemptions::Preemptions;
use super::settings::{REPLAY, SEED};
use crate::sim::api::Outcome;
use crate::sim::world::FailureKind;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// The most choices of a failure that are printed.
const PRINTED: usize = 40;

/// The failure of a simulated program, and how to repeat it; from
/// [`Explorer::run`](super::Explorer::run).
///
/// The text has the seed, the failure, the choices that lead to it, and the commands that repeat the
/// run. `Debug` prints the same text, for `unwrap`.
///
/// # Examples
///
/// ```
/// use wakeful::sim::Explorer;
///
/// let error = Explorer::new("silent").seeds(10).run(|_sim| async {
///     wakeful::sync::Notify::new().notified().await;
/// });
/// let text = error.unwrap_err().to_string();
/// assert!(text.starts_with("seed 0x0: stuck after 0 s simulated"), "{text}");
/// ```
pub struct ExploreError(Box<Report>);

struct Report {
    test: String,
    runs: u64,
    cause: Cause,
    outcome: Outcome,
    shrunk: Option<Shrunk>,
    /// The file of choices that was replayed.
    replayed: Option<(PathBuf, Preemptions)>,
}

/// Why a search failed.
pub(super) enum Cause {
    /// A run failed, as its outcome says.
    Failed,
    /// Two runs of the seed differ; describes the first difference.
    NotDeterministic(String),
}

/// The smallest run that fails.
pub(super) struct Shrunk {
    pub(super) outcome: Outcome,
    pub(super) preemptions: Preemptions,
    pub(super) runs: u32,
    pub(super) elapsed: Duration,
    /// The file with the choices.
    pub(super) path: io::Result<PathBuf>,
    /// The file with the timeline.
    pub(super) timeline: Option<PathBuf>,
    pub(super) confirmed: Option<Confirmed>,
}

impl ExploreError {
    pub(super) fn new(test: &str, runs: u64, cause: Cause, outcome: &Outcome) -> Self {
        let outcome = outcome.clone();
        let test = test.to_owned();
        Self(Box::new(Report { test, runs, cause, outcome, shrunk: None, replayed: None }))
    }

    pub(super) fn set_shrunk(&mut self, shrunk: Option<Shrunk>) {
        self.0.shrunk = shrunk;
    }

    pub(super) fn set_replayed(&mut self, path: PathBuf, preemptions: Preemptions) {
        self.0.replayed = Some((path, preemptions));
    }

    /// Returns the seed that failed.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sim::Explorer;
    ///
    /// let failed = Explorer::new("odd").seeds(10).first_seed(7).run(|_sim| async { panic!("odd") });
    /// let error = failed.unwrap_err();
    /// assert_eq!((error.seed(), error.runs(), error.choices()), (7, 1, Some(0)));
    /// ```
    pub fn seed(&self) -> u64 {
        self.0.outcome.seed()
    }

    /// Returns why the run failed, or `None` if two runs of the seed differ.
    ///
    /// # Examples
    ///
    /// See [`Explorer`](super::Explorer).
    pub fn kind(&self) -> Option<FailureKind> {
        match self.0.cause {
            Cause::Failed => self.0.outcome.failure(),
            Cause::NotDeterministic(_) => None,
        }
    }

    /// Returns how many seeds were run, including the failing one.
    ///
    /// # Examples
    ///
    /// See [`ExploreError::seed`].
    pub fn runs(&self) -> u64 {
        self.0.runs
    }

    /// Returns how many unusual choices the shrunk failure needs, or `None` if it was not shrunk.
    ///
    /// # Examples
    ///
    /// See [`ExploreError::seed`].
    pub fn choices(&self) -> Option<usize> {
        self.0.shrunk.as_ref().map(|shrunk| shrunk.outcome.result.choices.0.len())
    }

    /// Returns the hash of the shrunk run, or `None` if it was not shrunk. Equal runs have equal
    /// hashes.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sim::Explorer;
    ///
    /// let hash = || {
    ///     let failed = Explorer::new("twice").seeds(1).run(|_sim| async { panic!("always") });
    ///     failed.unwrap_err().hash()
    /// };
    /// assert_eq!(hash(), hash());
    /// ```
    pub fn hash(&self) -> Option<u64> {
        self.0.shrunk.as_ref().map(|shrunk| shrunk.outcome.hash())
    }
}

impl std::error::Error for ExploreError {}

impl fmt::Debug for ExploreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for ExploreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { test, cause, outcome, shrunk, replayed, .. } = &*self.0;
        let seed = outcome.seed();
        match (cause, &outcome.result.failure) {
            (Cause::NotDeterministic(_), _) => {
                write!(f, "seed {seed:#x}: two of its runs differ")?;
            }
            (Cause::Failed, Some(failure)) => {
                write!(f, "seed {seed:#x}: {} after {} simulated", failure.kind, time(failure.at))?;
            }
            (Cause::Failed, None) => write!(f, "seed {seed:#x}")?,
        }
        writeln!(f, "; strategy {}", outcome.result.strategy)?;
        if let Cause::NotDeterministic(difference) = cause {
            writeln!(f, "  {difference}")?;
            writeln!(
                f,
                "  likely cause: the program depends on something that the seed does not decide: the \
                 order of a HashMap, an address, the real clock, a static that keeps its value from run \
                 to run, or another thread\n  fix: take order, time and random numbers from the \
                 simulation: BTreeMap, wakeful::time, sim::system_time, sim::choose"
            )?;
        }
        let shown = shrunk.as_ref().map_or(outcome, |shrunk| &shrunk.outcome);
        match (shrunk, replayed) {
            (Some(shrunk), _) => self.fmt_shrunk(shrunk, f)?,
            (None, Some((_, preemptions))) => fmt_choices(shown, preemptions, f)?,
            (None, None) => {}
        }
        if let (Cause::Failed, Some(failure)) = (cause, &shown.result.failure) {
            for line in failure.text.lines() {
                writeln!(f, "  {line}")?;
            }
        }
        let command = again_command(test);
        writeln!(f, "  again:  {SEED}={seed:#x} {command}")?;
        let path = shrunk.as_ref().and_then(|shrunk| shrunk.path.as_ref().ok());
        if let Some(path) = path.or(replayed.as_ref().map(|(path, _)| path)) {
            writeln!(f, "  short:  {REPLAY}={} {command}", files::shown(path))?;
        }
        if let Some(path) = shrunk.as_ref().and_then(|shrunk| shrunk.timeline.as_ref()) {
            writeln!(f, "  timeline: {} in https://ui.perfetto.dev", files::shown(path))?;
        }
        shrunk.as_ref().map_or(Ok(()), |shrunk| fmt_confirmed(shrunk, f))
    }
}

impl ExploreError {
    fn fmt_shrunk(&self, shrunk: &Shrunk, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let before = self.0.outcome.result.choices.0.len() as u64;
        let after = shrunk.outcome.result.choices.0.len() as u64;
        writeln!(
            f,
            "  shrunk from {} choices to {} ({} runs, {:.1} s){}",
            with_commas(before),
            with_commas(after),
            with_commas(shrunk.runs.into()),
            shrunk.elapsed.as_secs_f64(),
            if after == 0 { ": it fails with no unusual choice" } else { ":" }
        )?;
        fmt_choices(&shrunk.outcome, &shrunk.preemptions, f)?;
        if let Err(error) = &shrunk.path {
            writeln!(f, "  the file with the choices cannot be written: {error}")?;
        }
        Ok(())
    }
}

/// Writes the choices of a run in words.
fn fmt_choices(
    outcome: &Outcome,
    preemptions: &Preemptions,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    let choices = &outcome.result.choices.0;
    for (made, number) in choices.iter().zip(1..).take(PRINTED) {
        writeln!(f, "    {number}. {}", describe(made, &outcome.result, preemptions))?;
    }
    match choices.len().saturating_sub(PRINTED) {
        0 => Ok(()),
        more => writeln!(f, "    and {} more", with_commas(more as u64)),
    }
}

fn fmt_confirmed(shrunk: &Shrunk, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Some(Confirmed { equal, other }) = &shrunk.confirmed else { return Ok(()) };
    let hash = shrunk.outcome.hash();
    write!(f, "  confirmed alone in a new process: {equal} of {PROCESSES}, hash {hash:016x}")?;
    match other {
        Some(other) => write!(f, "\n  a new process has another result: {other}"),
        None => Ok(()),
    }
}

/// Returns the command that runs the program again.
fn again_command(test: &str) -> String {
    if is_test_program() {
        return format!("cargo test {}", test.rsplit("::").next().unwrap_or(test));
    }
    std::env::args().collect::<Vec<_>>().join(" ")
}
