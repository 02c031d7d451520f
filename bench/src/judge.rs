//! Judges the samples of a run: medians, ratios to tokio, and whether wakeful meets its targets.
//!
//! A row's own figure is judged by its median against the row's target. Latencies of rows about
//! sockets ([`FIGURES`]) must not be above tokio's. They vary most. So if a median is above, the
//! single rounds are compared, in which wakeful and tokio run one after the other: see [`Latency`].

use figures::stats::{Latency, rounded, spread};

use crate::peers::Flavor;
use crate::rows::sockets::FIGURES;
use crate::runner::{Outcome, Run};
use crate::sockets::server::RAW;

/// The outcome's median as a multiple of tokio's in the same row and flavor.
pub fn ratio(run: &Run<'_>, outcome: &Outcome<'_>) -> Option<f64> {
    ratio_to(run, outcome, tokio_like(outcome), |outcome| Some(&outcome.samples))
}

/// tokio in the flavor of `outcome`.
fn tokio_like(outcome: &Outcome<'_>) -> &'static str {
    match outcome.flavor {
        Flavor::Multi => "tokio-mt",
        Flavor::Single => "tokio-ct",
    }
}

/// The median of some samples as a multiple of another peer's in the same row.
fn ratio_to<'r>(
    run: &'r Run<'_>,
    outcome: &'r Outcome<'r>,
    peer: &str,
    samples: impl for<'o> Fn(&'o Outcome<'o>) -> Option<&'o Vec<f64>>,
) -> Option<f64> {
    let other = other_in_row(run, outcome, peer)?;
    Some(spread(samples(outcome)?)?.median / spread(samples(other)?)?.median)
}

fn other_in_row<'r>(
    run: &'r Run<'_>,
    outcome: &Outcome<'_>,
    peer: &str,
) -> Option<&'r Outcome<'r>> {
    let is_wanted = |other: &&Outcome<'_>| other.row.name == outcome.row.name && other.peer == peer;
    run.results.iter().find(is_wanted)
}

/// Another figure's median as a multiple of tokio's.
pub fn ratio_of(run: &Run<'_>, outcome: &Outcome<'_>, key: &str) -> Option<f64> {
    ratio_to(run, outcome, tokio_like(outcome), |outcome| outcome.more.get(key))
}

/// Returns the outcome's median as a multiple of that of the server without a runtime.
pub fn ratio_to_raw(run: &Run<'_>, outcome: &Outcome<'_>) -> Option<f64> {
    ratio_to(run, outcome, RAW, |outcome| Some(&outcome.samples))
}

/// How wakeful compares with its target.
#[derive(Clone, Copy, PartialEq)]
pub enum Verdict {
    Met,
    Missed,
    /// Above the target, and worse than tokio.
    Behind,
}

/// Judges an outcome of wakeful. Other peers, and counts of instructions, have no targets.
pub fn verdict(run: &Run<'_>, outcome: &Outcome<'_>) -> Option<Verdict> {
    if run.instructions || !outcome.peer.starts_with("wakeful") {
        return None;
    }
    // Judged as it is shown: half a percent is noise.
    let ratio = rounded(ratio(run, outcome)?);
    let median = spread(&outcome.samples)?.median;
    let target = outcome.row.target;
    let of_raw = target.of_raw.filter(|_| outcome.flavor == Flavor::Single);
    let beyond_raw = || ratio_to_raw(run, outcome).map(rounded);
    let too_much = target.at_most.is_some_and(|limit| median > limit)
        || of_raw.is_some_and(|limit| beyond_raw().is_some_and(|ratio| ratio > rounded(limit)));
    Some(if ratio > 1.0 {
        Verdict::Behind
    } else if too_much || ratio > rounded(target.of(outcome.flavor)) {
        Verdict::Missed
    } else {
        Verdict::Met
    })
}

/// Compares one of wakeful's [`FIGURES`] with tokio's. Returns `None` if it is not judged.
pub fn latency(run: &Run<'_>, outcome: &Outcome<'_>, key: &str) -> Option<Latency> {
    let is_judged = FIGURES.iter().any(|&(figure, _, is_judged)| figure == key && is_judged);
    if !is_judged || !outcome.peer.starts_with("wakeful") {
        return None;
    }
    let tokio = other_in_row(run, outcome, tokio_like(outcome))?;
    Latency::of(outcome.more.get(key)?, tokio.more.get(key)?)
}
