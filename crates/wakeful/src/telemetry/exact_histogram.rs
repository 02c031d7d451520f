//! A histogram that counts every event of one worker, in buckets of the user's choice.
//!
//! One thread writes it with plain stores; any thread may read it.

use crate::telemetry::bucket_scale::BucketScale;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The exact histogram of one worker.
#[derive(Debug)]
pub(crate) struct ExactHistogram {
    pub(crate) scale: BucketScale,
    counts: Box<[AtomicU64]>,
}

impl ExactHistogram {
    pub(crate) fn new(scale: BucketScale) -> Self {
        Self { scale, counts: (0..scale.buckets()).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Counts an event. Only the writing thread may call it.
    pub(crate) fn record(&self, duration: Duration) {
        let count = &self.counts[self.scale.bucket_of(duration)];
        count.store(count.load(Relaxed) + 1, Relaxed);
    }

    /// Returns the number of events in a bucket.
    ///
    /// # Panics
    ///
    /// Panics if there is no such bucket.
    #[track_caller]
    pub(crate) fn count(&self, bucket: usize) -> u64 {
        let buckets = self.counts.len();
        assert!(
            bucket < buckets,
            "there is no bucket {bucket}: the buckets are 0 to {}",
            buckets - 1
        );
        self.counts[bucket].load(Relaxed)
    }
}
