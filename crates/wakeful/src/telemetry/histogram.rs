//! How long things take, in powers of two: written by one thread with plain stores,
//! read by anybody.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Bucket `n` counts what took less than 2^n ns, and not less than half of that; the
/// last one also what took longer (18 minutes).
pub(crate) const BUCKETS: usize = 41;

#[derive(Debug)]
pub(crate) struct Histogram {
    counts: [AtomicU64; BUCKETS],
    sum_ns: AtomicU64,
    max_ns: AtomicU64,
}

/// A copy of a [`Histogram`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counts {
    pub(crate) counts: [u64; BUCKETS],
    pub(crate) sum_ns: u64,
    pub(crate) max_ns: u64,
}

fn add(cell: &AtomicU64, n: u64) {
    cell.store(cell.load(Relaxed).wrapping_add(n), Relaxed);
}

impl Histogram {
    pub(crate) fn new() -> Self {
        Self {
            counts: [const { AtomicU64::new(0) }; BUCKETS],
            sum_ns: AtomicU64::new(0),
            max_ns: AtomicU64::new(0),
        }
    }

    /// So many took so long. By the one who writes.
    pub(crate) fn record(&self, took: Duration, times: u64) {
        self.count(took, times);
        self.saw(took);
    }

    /// The same for what may be several: no longest of them.
    pub(crate) fn count(&self, took: Duration, times: u64) {
        let ns = took.as_nanos().min(u128::from(u64::MAX)) as u64;
        add(&self.counts[bucket_of(ns)], times);
        add(&self.sum_ns, ns.saturating_mul(times));
    }

    /// One took so long that everybody should know, counted or not. By anybody.
    pub(crate) fn saw(&self, took: Duration) {
        let ns = took.as_nanos().min(u128::from(u64::MAX)) as u64;
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
    fn sums_up_what_it_counts_and_keeps_the_longest() {
        let histogram = Histogram::new();
        histogram.record(Duration::from_nanos(100), 3);
        histogram.record(Duration::from_nanos(5), 1);
        histogram.saw(Duration::from_nanos(777));
        let read = histogram.read();
        assert_eq!((read.counts[7], read.counts[3]), (3, 1));
        assert_eq!((read.sum_ns, read.max_ns), (305, 777));
        assert_eq!(read.counts.iter().sum::<u64>(), 4);
    }
}
