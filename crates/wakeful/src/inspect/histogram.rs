//! How long things took, as a user sees it.

use crate::telemetry::histogram::{BUCKETS, Counts};
use crate::watchdog::snapshot::WorkerSnapshot;
use std::time::Duration;

/// How long things took, counted in buckets that double: less than 1 ns, 2 ns, 4 ns
/// and so on. From [`RuntimeMetrics`](crate::runtime::RuntimeMetrics).
#[derive(Clone, Debug)]
pub struct Histogram(Counts);

impl Histogram {
    /// How long polls took on these workers.
    pub(crate) fn of_polls(workers: &[WorkerSnapshot]) -> Self {
        Self::sum_of(workers.iter().map(|worker| &worker.poll_times))
    }

    /// How long their tasks waited between wake-up and poll.
    pub(crate) fn of_wake_ups(workers: &[WorkerSnapshot]) -> Self {
        Self::sum_of(workers.iter().map(|worker| &worker.wake_to_poll))
    }

    /// The sum of several.
    pub(crate) fn sum_of<'a>(all: impl IntoIterator<Item = &'a Counts>) -> Self {
        let mut sum = Counts { counts: [0; BUCKETS], sum_ns: 0, max_ns: 0 };
        for one in all {
            for (sum, count) in sum.counts.iter_mut().zip(one.counts) {
                *sum += count;
            }
            sum.sum_ns = sum.sum_ns.saturating_add(one.sum_ns);
            sum.max_ns = sum.max_ns.max(one.max_ns);
        }
        Self(sum)
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.0.counts.iter().sum()
    }

    /// How long they took together.
    pub fn sum(&self) -> Duration {
        Duration::from_nanos(self.0.sum_ns)
    }

    /// How long the longest took.
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.0.max_ns)
    }

    /// The time within which the given part of them was done, as far as the buckets
    /// tell: the upper end of the bucket where it falls, or the longest of all; zero if
    /// there were none.
    ///
    /// # Panics
    ///
    /// If `part` is not between 0 and 1.
    #[track_caller]
    pub fn quantile(&self, part: f64) -> Duration {
        assert!((0.0..=1.0).contains(&part), "a part is between 0 and 1, not {part}");
        if self.count() == 0 {
            return Duration::ZERO; // also where one was seen that no sample counts
        }
        let wanted = (self.count() as f64 * part).ceil() as u64;
        let mut so_far = 0;
        for (end, count) in self.buckets() {
            so_far += count;
            if so_far >= wanted {
                return end.min(self.max());
            }
        }
        self.max()
    }

    /// Half of them took no longer.
    pub fn p50(&self) -> Duration {
        self.quantile(0.5)
    }

    /// Of a hundred, one took longer.
    pub fn p99(&self) -> Duration {
        self.quantile(0.99)
    }

    /// The buckets: the time that what is in it took less than, and how many there are.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> {
        let end = |nth: usize| Duration::from_nanos(1 << nth);
        self.0.counts.iter().enumerate().map(move |(nth, count)| (end(nth), *count))
    }
}

#[cfg(test)]
mod tests {
    use super::Histogram;
    use crate::telemetry::histogram::Histogram as Writer;
    use std::time::Duration;

    #[test]
    fn quantiles_are_ends_of_buckets() {
        let (one, other) = (Writer::new(), Writer::new());
        one.record(Duration::from_nanos(100), 98);
        other.record(Duration::from_nanos(5_000), 2);
        let sum = Histogram::sum_of([&one.read(), &other.read()]);
        assert_eq!((sum.count(), sum.sum()), (100, Duration::from_nanos(19_800)));
        assert_eq!(sum.p50(), Duration::from_nanos(128));
        assert_eq!(sum.p99(), Duration::from_nanos(5_000), "no later than the latest");
        assert_eq!(sum.max(), Duration::from_nanos(5_000));
        let none = Histogram::sum_of([]);
        assert_eq!((none.count(), none.p99()), (0, Duration::ZERO));
        let seen = Writer::new();
        seen.saw(Duration::from_millis(9));
        let seen = Histogram::sum_of([&seen.read()]);
        assert_eq!((seen.p50(), seen.max()), (Duration::ZERO, Duration::from_millis(9)));
    }
}
