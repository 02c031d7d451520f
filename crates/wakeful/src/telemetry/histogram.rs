//! A histogram of durations with power-of-two buckets.
//!
//! One thread counts with plain stores. Any thread may read, and raise the maximum.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The number of buckets. Bucket `n` counts durations from 2^(n-1) ns up to, not including, 2^n ns.
/// The last one also counts all longer durations (18 minutes and more).
pub(crate) const BUCKETS: usize = 41;

/// A histogram with one counting thread.
#[derive(Debug)]
pub(crate) struct Histogram {
    counts: [AtomicU64; BUCKETS],
    sum_ns: AtomicU64,
    max_ns: AtomicU64,
}

/// A copy of the values of a [`Histogram`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counts {
    pub(crate) counts: [u64; BUCKETS],
    pub(crate) sum_ns: u64,
    pub(crate) max_ns: u64,
}

/// Adds to a value that only this thread writes.
fn add(cell: &AtomicU64, n: u64) {
    cell.store(cell.load(Relaxed).wrapping_add(n), Relaxed);
}

impl Histogram {
    pub(crate) const fn new() -> Self {
        Self {
            counts: [const { AtomicU64::new(0) }; BUCKETS],
            sum_ns: AtomicU64::new(0),
            max_ns: AtomicU64::new(0),
        }
    }

    /// Records `times` events of this duration. Only the writing thread may call it.
    pub(crate) fn record(&self, duration: Duration, times: u64) {
        self.count(duration, times);
        self.raise_max(duration);
    }

    /// Records `times` events without raising the maximum, for a duration that may be the sum of
    /// several events. Only the writing thread may call it.
    pub(crate) fn count(&self, duration: Duration, times: u64) {
        let ns = duration.as_nanos().min(u128::from(u64::MAX)) as u64;
        add(&self.counts[bucket_of(ns)], times);
        add(&self.sum_ns, ns.saturating_mul(times));
    }

    /// Raises the maximum to this duration, if it is longer. Any thread may call it; a concurrent
    /// call may be lost.
    pub(crate) fn raise_max(&self, duration: Duration) {
        let ns = duration.as_nanos().min(u128::from(u64::MAX)) as u64;
        if ns > self.max_ns.load(Relaxed) {
            self.max_ns.store(ns, Relaxed);
        }
    }

    pub(crate) fn read(&self) -> Counts {
        Counts {
            counts: std::array::from_fn(|n| self.counts[n].load(Relaxed)),
            sum_ns: self.sum_ns.load(Relaxed),
            max_ns: self.max_ns.load(Relaxed),
        }
    }
}

fn bucket_of(ns: u64) -> usize {
    ((u64::BITS - ns.leading_zeros()) as usize).min(BUCKETS - 1)
}

#[cfg(test)]
mod tests {
    use super::{BUCKETS, Histogram, bucket_of};
    use std::time::Duration;

    #[test]
    fn buckets_are_powers_of_two() {
        let cases = [(0, 0), (1, 1), (2, 2), (3, 2), (4, 3), (1023, 10), (1024, 11)];
        assert_eq!(cases.map(|(ns, _)| bucket_of(ns)), cases.map(|(_, bucket)| bucket));
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn sums_counts_and_keeps_the_maximum() {
        let histogram = Histogram::new();
        histogram.record(Duration::from_nanos(100), 3);
        histogram.record(Duration::from_nanos(5), 1);
        histogram.raise_max(Duration::from_nanos(777));
        let read = histogram.read();
        assert_eq!((read.counts[7], read.counts[3]), (3, 1));
        assert_eq!((read.sum_ns, read.max_ns), (305, 777));
        assert_eq!(read.counts.iter().sum::<u64>(), 4);
    }
}
