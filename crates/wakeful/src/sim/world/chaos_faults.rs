//! The faults of chaos: their kinds, limits and rates, and what the number of a strike means.

use super::HostId;
use crate::sim::oracle::ChoiceKind;
use crate::sys::rng::Rng;
use std::collections::BTreeMap;
use std::time::Duration;

/// The kinds of faults, in the order in which their levels are drawn. The first three have a probability
/// for each message, the others strike.
pub(super) const KINDS: [ChoiceKind; 9] = [
    ChoiceKind::Loss,
    ChoiceKind::Duplicate,
    ChoiceKind::Reorder,
    ChoiceKind::Partition,
    ChoiceKind::LatencySpike,
    ChoiceKind::Kill,
    ChoiceKind::Pause,
    ChoiceKind::ClockStep,
    ChoiceKind::ClockDrift,
];

/// The number of levels of a kind. Level 0 switches it off; each other level doubles the rate.
pub(super) const LEVELS: u64 = 8;

/// The number of moments at which the oracle decides, for each kind, whether it strikes in the following
/// interval.
pub(super) const TICKS: u64 = 128;

/// The number of different moments of a strike in its interval.
const OFFSETS: u64 = 16;

/// The number of different targets of a strike: hosts or groups of hosts.
const TARGETS: u64 = 240;

/// The targets from this one on are groups of several hosts.
const FIRST_GROUP: u64 = 120;

/// The number of different amounts and directions of a strike.
const AMOUNTS: u64 = 8;

/// The durations of strikes, as parts of the whole chaos, in 128ths.
const DURATIONS: [u64; 8] = [1, 2, 4, 8, 12, 16, 24, 32];

/// The limits of a chaos. A kind whose limit is 0 is excluded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChaosLimits {
    /// The highest probabilities, in millionths.
    pub(crate) loss: u32,
    pub(crate) duplicate: u32,
    pub(crate) reorder: u32,
    /// The highest additional latency.
    pub(crate) latency_ns: u64,
    /// The highest numbers at one time.
    pub(crate) partitions: usize,
    pub(crate) kills: usize,
    pub(crate) pauses: usize,
    /// The longest step of a wall clock.
    pub(crate) clock_step_ns: u64,
    /// The highest drift of a host's clocks, in millionths.
    pub(crate) drift_ppm: u32,
    pub(crate) until: Duration,
    /// The names of the hosts that are not killed or paused, and whose clocks do not change.
    pub(crate) exempt: Vec<String>,
}

impl ChaosLimits {
    pub(super) fn includes(&self, kind: ChoiceKind) -> bool {
        match kind {
            ChoiceKind::Loss => self.loss > 0,
            ChoiceKind::Duplicate => self.duplicate > 0,
            ChoiceKind::Reorder => self.reorder > 0,
            ChoiceKind::Partition => self.partitions > 0,
            ChoiceKind::LatencySpike => self.latency_ns > 0,
            ChoiceKind::Kill => self.kills > 0,
            ChoiceKind::Pause => self.pauses > 0,
            ChoiceKind::ClockStep => self.clock_step_ns > 0,
            ChoiceKind::ClockDrift => self.drift_ppm > 0,
            _ => false,
        }
    }

    pub(super) fn until_ns(&self) -> u64 {
        u64::try_from(self.until.as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Returns the probability of a kind at a level above 0, in millionths. The highest level has `most`.
pub(super) fn probability(most: u32, level: u64) -> u32 {
    (most >> (LEVELS - 1 - level)).max(1)
}

/// Returns the expected number of strikes of a kind at a level above 0.
pub(super) fn expected(level: u64) -> u64 {
    1 << (level - 1)
}

/// Returns the probability that a kind strikes in an interval, in millionths.
pub(super) fn probability_per_tick(level: u64) -> u32 {
    (expected(level) * 1_000_000 / TICKS) as u32
}

/// A strike, as one number describes it. Its kind decides which parts matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Strike {
    pub(super) kind: ChoiceKind,
    /// The number of the choice in its stream.
    pub(super) number: u32,
    /// The moment in the interval of the strike, in 16ths.
    pub(super) offset: u64,
    amount: u64,
    target: u64,
    duration: u64,
}

impl Strike {
    /// The number of values of the choice: no strike, and every strike.
    pub(super) const VALUES: u64 = 1 + OFFSETS * AMOUNTS * TARGETS * DURATIONS.len() as u64;

    /// Decodes the value of a choice, which is above 0. A low value is a short strike.
    pub(super) fn new(kind: ChoiceKind, number: u32, value: u64) -> Self {
        let rest = value - 1;
        let (offset, rest) = (rest % OFFSETS, rest / OFFSETS);
        let (amount, rest) = (rest % AMOUNTS, rest / AMOUNTS);
        let (target, duration) = (rest % TARGETS, rest / TARGETS);
        Self { kind, number, offset, amount, target, duration }
    }

    /// Returns the delay of the strike after the start of an interval of this length.
    pub(super) fn after_ns(&self, interval_ns: u64) -> u64 {
        interval_ns / OFFSETS * self.offset
    }

    /// Returns the duration of the strike in a chaos of this length.
    pub(super) fn duration_ns(&self, chaos_ns: u64) -> u64 {
        let parts = DURATIONS[self.duration as usize % DURATIONS.len()];
        (chaos_ns / TICKS).saturating_mul(parts)
    }

    /// Returns the host of the strike, or `None` if there is no host.
    pub(super) fn host(&self, hosts: &[HostId]) -> Option<HostId> {
        let index = self.target.checked_rem(hosts.len() as u64)?;
        Some(hosts[index as usize])
    }

    /// Divides the hosts into a group that the strike isolates, and the others. Both are empty if there
    /// is only one host.
    pub(super) fn groups(&self, hosts: &[HostId]) -> (Vec<HostId>, Vec<HostId>) {
        let Some(isolated) = self.host(hosts).filter(|_| hosts.len() > 1) else {
            return (Vec::new(), Vec::new());
        };
        let mut group = vec![isolated];
        if self.target >= FIRST_GROUP {
            // The group depends only on the target, so that a replay isolates the same hosts.
            let mut rng = Rng::from_seed(self.target);
            let len = 1 + rng.below(hosts.len() as u32 / 2) as usize;
            let mut rest: Vec<HostId> = hosts.to_vec();
            group.clear();
            while group.len() < len {
                group.push(rest.swap_remove(rng.below(rest.len() as u32) as usize));
            }
            group.sort_unstable();
        }
        let others = hosts.iter().copied().filter(|host| !group.contains(host)).collect();
        (group, others)
    }

    /// Returns whether messages from the isolated group, and to it, are cut.
    pub(super) fn directions(&self) -> (bool, bool) {
        match self.amount % 4 {
            0 | 1 => (true, true),
            2 => (true, false),
            _ => (false, true),
        }
    }

    /// Returns an amount up to `most`.
    pub(super) fn amount(&self, most: u64) -> u64 {
        most >> (3 - self.amount % 4)
    }

    /// Returns an amount between `-most` and `most`.
    pub(super) fn signed_amount(&self, most: u64) -> i64 {
        let amount = i64::try_from(self.amount(most)).unwrap_or(i64::MAX);
        if self.amount < AMOUNTS / 2 { amount } else { -amount }
    }
}

/// The drawn kinds with their names and rates, for the failure of a run.
pub(super) type DrawnFaults = BTreeMap<ChoiceKind, String>;

/// Formats a probability in millionths as a percentage.
pub(super) fn percent(millionths: u32) -> String {
    format!("{} %", (f64::from(millionths) / 1_000.0).round() / 10.0)
}

/// Rounds a time for a text.
pub(super) fn rounded(ns: u64) -> Duration {
    let micros = ns / 1_000;
    Duration::from_micros(if micros < 1_000 { micros } else { micros / 100 * 100 })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn hosts(len: u32) -> Vec<HostId> {
        (1..=len).map(HostId).collect()
    }

    fn strikes(kind: ChoiceKind) -> impl Iterator<Item = Strike> {
        (1..Strike::VALUES).map(move |value| Strike::new(kind, 1, value))
    }

    #[test]
    fn every_value_is_a_strike_and_the_lowest_is_the_shortest() {
        let lowest = Strike::new(ChoiceKind::Kill, 1, 1);
        assert_eq!((lowest.after_ns(160), lowest.duration_ns(1_280)), (0, 10));
        let highest = Strike::new(ChoiceKind::Kill, 1, Strike::VALUES - 1);
        assert_eq!((highest.after_ns(160), highest.duration_ns(1_280)), (150, 320));
        let hosts = hosts(7);
        let seen: BTreeSet<_> =
            strikes(ChoiceKind::Kill).map(|it| (it.host(&hosts), it.duration)).collect();
        assert_eq!(seen.len(), 7 * DURATIONS.len());
        assert_eq!(lowest.host(&[]), None);
    }

    #[test]
    fn a_partition_isolates_at_most_half_of_the_hosts() {
        let hosts = hosts(5);
        let groups: BTreeSet<_> =
            strikes(ChoiceKind::Partition).map(|it| it.groups(&hosts)).collect();
        assert!((1..=5).all(|host| groups.iter().any(|(group, _)| group == &[HostId(host)])));
        assert!(groups.iter().any(|(group, _)| group.len() == 2));
        for (group, others) in &groups {
            assert!(!group.is_empty() && group.len() <= 2 && group.len() + others.len() == 5);
        }
        let directions: BTreeSet<_> =
            strikes(ChoiceKind::Partition).map(|it| it.directions()).collect();
        assert_eq!(directions.len(), 3, "both ways, and each way alone");
        let alone = Strike::new(ChoiceKind::Partition, 1, 1).groups(&hosts[..1]);
        assert_eq!(alone, (vec![], vec![]));
    }

    #[test]
    fn amounts_have_both_signs_and_stay_in_their_limit() {
        let amounts: BTreeSet<i64> =
            strikes(ChoiceKind::ClockStep).map(|it| it.signed_amount(800)).collect();
        assert_eq!(amounts, [-800, -400, -200, -100, 100, 200, 400, 800].into());
    }

    #[test]
    fn each_level_doubles_the_rate() {
        let probabilities = (1..LEVELS).map(|level| probability(640_000, level));
        assert!(probabilities.eq([10_000, 20_000, 40_000, 80_000, 160_000, 320_000, 640_000]));
        assert_eq!(probability(1, 1), 1, "a kind that is on has no probability of 0");
        assert_eq!((expected(1), expected(7)), (1, 64));
        assert_eq!((probability_per_tick(1), probability_per_tick(7)), (7_812, 500_000));
    }

    #[test]
    fn numbers_are_rounded_for_people() {
        assert_eq!([percent(25_000), percent(3_125)], ["2.5 %", "0.3 %"]);
        assert_eq!(rounded(78_125_000), Duration::from_micros(78_100));
        assert_eq!(rounded(1_999), Duration::from_micros(1));
    }
}
