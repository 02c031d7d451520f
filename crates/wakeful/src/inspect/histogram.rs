//! The public view of the runtime's histograms.

use crate::telemetry::histogram::{BUCKETS, Counts};
use crate::watchdog::snapshot::WorkerSnapshot;
use std::time::Duration;

/// A histogram of durations with power-of-two buckets: below 1 ns, 2 ns, 4 ns and so on.
///
/// Returned by [`RuntimeMetrics::poll_times`](crate::runtime::RuntimeMetrics::poll_times) and
/// [`RuntimeMetrics::wake_to_poll_times`](crate::runtime::RuntimeMetrics::wake_to_poll_times).
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() {
/// use std::time::Duration;
/// use wakeful::runtime::Handle;
///
/// for _ in 0..1000 {
///     wakeful::task::yield_now().await;
/// }
/// let polls = Handle::current().metrics().poll_times();
/// assert!(polls.p50() <= polls.p99() && polls.p99() <= polls.max());
/// assert!(polls.sum() >= Duration::ZERO);
/// println!("{} polls, p99 {:?}", polls.count(), polls.p99());
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Histogram(Counts);

impl Histogram {
    /// Sums the poll durations of these workers.
    pub(crate) fn of_polls(workers: &[WorkerSnapshot]) -> Self {
        Self::sum_of(workers.iter().map(|worker| &worker.poll_times))
    }

    /// Sums the wake-to-poll times of these workers.
    pub(crate) fn of_wake_ups(workers: &[WorkerSnapshot]) -> Self {
        Self::sum_of(workers.iter().map(|worker| &worker.wake_to_poll))
    }

    /// Sums several histograms.
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

    /// Returns the number of values.
    pub fn count(&self) -> u64 {
        self.0.counts.iter().sum()
    }

    /// Returns the sum of all values.
    pub fn sum(&self) -> Duration {
        Duration::from_nanos(self.0.sum_ns)
    }

    /// Returns the largest value.
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.0.max_ns)
    }

    /// Returns the given quantile, rounded up to the end of its bucket.
    ///
    /// The result is never larger than [`max`](Self::max). It is zero if the histogram is empty.
    ///
    /// # Panics
    ///
    /// Panics if `fraction` is not between 0 and 1.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use wakeful::runtime::Handle;
    ///
    /// let polls = Handle::current().metrics().poll_times();
    /// assert!(polls.quantile(0.999) >= polls.quantile(0.5));
    /// assert!(polls.quantile(1.0) <= polls.max());
    /// # }
    /// ```
    #[track_caller]
    pub fn quantile(&self, fraction: f64) -> Duration {
        assert!(
            (0.0..=1.0).contains(&fraction),
            "a quantile must be between 0 and 1, not {fraction}"
        );
        if self.count() == 0 {
            return Duration::ZERO; // `max` may still be set: the watchdog records long polls that were not sampled
        }
        let wanted = (self.count() as f64 * fraction).ceil() as u64;
        let mut cumulative = 0;
        for (end, count) in self.buckets() {
            cumulative += count;
            if cumulative >= wanted {
                return end.min(self.max());
            }
        }
        self.max()
    }

    /// Returns the median.
    pub fn p50(&self) -> Duration {
        self.quantile(0.5)
    }

    /// Returns the 99th percentile.
    pub fn p99(&self) -> Duration {
        self.quantile(0.99)
    }

    /// Returns an iterator over the buckets, as pairs of exclusive upper bound and number of
    /// values.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use wakeful::runtime::Handle;
    ///
    /// let polls = Handle::current().metrics().poll_times();
    /// let sum: u64 = polls.buckets().map(|(_, count)| count).sum();
    /// assert_eq!(sum, polls.count());
    /// # }
    /// ```
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
        seen.raise_max(Duration::from_millis(9));
        let seen = Histogram::sum_of([&seen.read()]);
        assert_eq!((seen.p50(), seen.max()), (Duration::ZERO, Duration::from_millis(9)));
    }
}
