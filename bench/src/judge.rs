//! Judges the samples of a run: medians, ratios to tokio, and whether wakeful meets its targets.
//!
//! A row's own figure is judged by its median against the row's target. Latencies of rows about
//! sockets ([`FIGURES`]) must not be above tokio's. They vary most. So if a median is above, the
//! single rounds are compared, in which wakeful and tokio run one after the other: see [`Latency`].

use crate::peers::Flavor;
use crate::rows::sockets::FIGURES;
use crate::runner::{Outcome, Run};
use crate::sockets::server::RAW;

/// Lowest, middle and highest of a cell's samples.
#[derive(Clone, Copy)]
pub struct Spread {
    pub min: f64,
    pub median: f64,
    pub max: f64,
}

pub fn spread(samples: &[f64]) -> Option<Spread> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (min, max) = (*sorted.first()?, *sorted.last()?);
    let upper = sorted[sorted.len() / 2];
    let lower = sorted[(sorted.len() - 1) / 2];
    Some(Spread { min, median: (lower + upper) / 2.0, max })
}

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

/// Rounds a ratio as the table shows it.
fn rounded(ratio: f64) -> f64 {
    (ratio * 100.0).round() / 100.0
}

/// How a latency of wakeful's compares with tokio's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Latency {
    /// The median is not above.
    Met,
    /// The median is above, but the number of rounds above is likely by chance.
    Unclear,
    /// The median is above, and the number of rounds above is unlikely by chance.
    Above,
}

/// The probability below which a number of rounds above is unlikely between equals: all of three to
/// five, all but one of six to eight.
const CHANCE: f64 = 0.125;

impl Latency {
    pub fn word(self) -> &'static str {
        match self {
            Latency::Met => "met",
            Latency::Unclear => "unclear",
            Latency::Above => "above",
        }
    }

    /// Compares samples that were taken in the same rounds.
    fn of(ours: &[f64], tokios: &[f64]) -> Option<Self> {
        let ratio = spread(ours)?.median / spread(tokios)?.median;
        if rounded(ratio) <= 1.0 {
            return Some(Latency::Met);
        }
        let rounds = ours.len().min(tokios.len());
        let above = ours.iter().zip(tokios).filter(|(ours, tokios)| ours > tokios).count();
        let is_surprising = chance_of(above, rounds) <= CHANCE;
        Some(if is_surprising { Latency::Above } else { Latency::Unclear })
    }
}

/// The chance that a fair coin shows heads at least `heads` times in `throws`.
fn chance_of(heads: usize, throws: usize) -> f64 {
    let mut ways = 1.0;
    let mut sum = 0.0;
    for count in 0..=throws {
        if count >= heads {
            sum += ways;
        }
        ways *= (throws - count) as f64 / (count + 1) as f64;
    }
    sum / 2f64.powi(throws as i32)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_or_between_the_two_middles() {
        let median = |samples: &[f64]| spread(samples).map(|spread| spread.median);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn a_coin_shows_heads_as_often_as_it_does() {
        assert_eq!(chance_of(0, 5), 1.0);
        assert_eq!(chance_of(5, 5), 1.0 / 32.0);
        assert_eq!(chance_of(4, 5), 6.0 / 32.0);
        assert_eq!(chance_of(6, 7), 8.0 / 128.0);
    }

    #[test]
    fn a_latency_is_above_when_most_rounds_say_so() {
        let tokios = [10.0, 10.0, 10.0, 10.0, 10.0, 10.0, 10.0];
        let of = |ours: [f64; 7]| Latency::of(&ours, &tokios);
        assert_eq!(of([9.0, 9.0, 9.0, 9.0, 99.0, 99.0, 99.0]), Some(Latency::Met));
        assert_eq!(of([9.0, 9.0, 11.0, 11.0, 11.0, 11.0, 11.0]), Some(Latency::Unclear));
        assert_eq!(of([9.0, 11.0, 11.0, 11.0, 11.0, 11.0, 11.0]), Some(Latency::Above));
        assert_eq!(of([10.04; 7]), Some(Latency::Met), "judged as it is shown");
        assert_eq!(Latency::of(&[], &tokios), None);
    }
}
