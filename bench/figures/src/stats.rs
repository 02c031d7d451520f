//! Medians and comparisons of samples.
//!
//! Latencies vary most. So if a median is above tokio's, the single rounds are compared, in which wakeful and tokio
//! run one after the other: see [`Latency`].

use serde_json::Value;

/// Lowest, middle and highest of a cell's samples.
#[derive(Clone, Copy)]
pub struct Spread {
    pub min: f64,
    pub median: f64,
    pub max: f64,
}

/// Returns the spread of samples; none, if there are none.
pub fn spread(samples: &[f64]) -> Option<Spread> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (min, max) = (*sorted.first()?, *sorted.last()?);
    let upper = sorted[sorted.len() / 2];
    let lower = sorted[(sorted.len() - 1) / 2];
    Some(Spread { min, median: (lower + upper) / 2.0, max })
}

/// Rounds a ratio as tables show it.
pub fn rounded(ratio: f64) -> f64 {
    (ratio * 100.0).round() / 100.0
}

/// Rounds to three decimals. More would be noise.
pub fn three_decimals(value: f64) -> Value {
    ((value * 1000.0).round() / 1000.0).into()
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
    pub fn of(ours: &[f64], tokios: &[f64]) -> Option<Self> {
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
