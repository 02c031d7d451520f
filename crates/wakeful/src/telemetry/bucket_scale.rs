//! Bucket scales of exact histograms, which users choose.
//!
//! A scale says which bucket counts a duration, and which durations a bucket counts. The last bucket
//! of a scale has no upper limit. There are three scales: buckets of equal width, buckets that
//! double, and groups of equal buckets whose width doubles from group to group ([`LogHistogram`]).

use super::log_histogram::LogHistogram;
use std::ops::Range;
use std::time::Duration;

/// The scale of a histogram: buckets of equal widths, or of doubling widths.
///
/// Only the deprecated settings of [`Builder`](crate::runtime::Builder) use it. Prefer
/// [`HistogramConfiguration`].
///
/// # Examples
///
/// ```
/// use wakeful::runtime::HistogramScale;
///
/// assert_ne!(HistogramScale::Linear, HistogramScale::Log);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HistogramScale {
    /// All buckets have the same width.
    Linear,
    /// Each bucket is as wide as all buckets before it.
    Log,
}

/// The buckets of an exact histogram.
///
/// Pass it to
/// [`metrics_poll_time_histogram_configuration`](crate::runtime::Builder::metrics_poll_time_histogram_configuration).
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use wakeful::runtime::{Builder, HistogramConfiguration};
///
/// let runtime = Builder::new_current_thread()
///     .enable_metrics_poll_time_histogram()
///     .metrics_poll_time_histogram_configuration(HistogramConfiguration::linear(
///         Duration::from_micros(100),
///         20,
///     ))
///     .build()?;
/// assert_eq!(runtime.metrics().poll_time_histogram_num_buckets(), 20);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct HistogramConfiguration {
    pub(crate) scale: BucketScale,
}

impl HistogramConfiguration {
    /// Returns `num_buckets` buckets of equal width. The last one has no upper limit.
    ///
    /// # Panics
    ///
    /// Panics if `num_buckets` or `bucket_width` is zero.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use wakeful::runtime::HistogramConfiguration;
    ///
    /// let buckets = HistogramConfiguration::linear(Duration::from_micros(50), 100);
    /// # _ = buckets;
    /// ```
    #[track_caller]
    pub fn linear(bucket_width: Duration, num_buckets: usize) -> Self {
        Self { scale: BucketScale::linear(nanos(bucket_width), num_buckets) }
    }

    /// Returns buckets whose width grows with the duration.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::{HistogramConfiguration, LogHistogram};
    ///
    /// let buckets = HistogramConfiguration::log(LogHistogram::default());
    /// # _ = buckets;
    /// ```
    pub fn log(configuration: impl Into<LogHistogram>) -> Self {
        Self { scale: BucketScale::Log(configuration.into()) }
    }
}

/// Returns a duration in nanoseconds, saturating at `u64::MAX`.
pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The mapping from durations to buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BucketScale {
    /// Buckets of this width.
    Linear {
        width_ns: u64,
        buckets: usize,
    },
    /// The first bucket has this width. Each further bucket is as wide as all before it.
    Doubling {
        first_ns: u64,
        buckets: usize,
    },
    Log(LogHistogram),
}

impl BucketScale {
    #[track_caller]
    pub(crate) fn linear(width_ns: u64, buckets: usize) -> Self {
        assert!(
            buckets > 0 && width_ns > 0,
            "a histogram needs at least one bucket of nonzero width"
        );
        Self::Linear { width_ns, buckets }
    }

    /// Returns doubling buckets. The first one counts durations below the next power of two.
    #[track_caller]
    pub(crate) fn doubling(resolution_ns: u64, buckets: usize) -> Self {
        assert!(
            buckets > 0 && resolution_ns > 0,
            "a histogram needs at least one bucket of nonzero width"
        );
        Self::Doubling { first_ns: resolution_ns.next_power_of_two(), buckets }
    }

    pub(crate) fn buckets(self) -> usize {
        match self {
            Self::Linear { buckets, .. } | Self::Doubling { buckets, .. } => buckets,
            Self::Log(log) => log.buckets,
        }
    }

    pub(crate) fn bucket_of(self, duration: Duration) -> usize {
        let ns = nanos(duration);
        let bucket = match self {
            Self::Linear { width_ns, .. } => (ns / width_ns).try_into().unwrap_or(usize::MAX),
            Self::Doubling { first_ns, .. } => {
                (ns / first_ns).checked_ilog2().map_or(0, |doublings| doublings as usize + 1)
            }
            Self::Log(log) => log.bucket_of(ns),
        };
        bucket.min(self.buckets() - 1)
    }

    /// Returns the durations that a bucket counts.
    ///
    /// # Panics
    ///
    /// Panics if there is no such bucket.
    #[track_caller]
    pub(crate) fn range_of(self, bucket: usize) -> Range<Duration> {
        let buckets = self.buckets();
        assert!(
            bucket < buckets,
            "there is no bucket {bucket}: the buckets are 0 to {}",
            buckets - 1
        );
        let start_of = |bucket: usize| match self {
            Self::Linear { width_ns, .. } => width_ns.saturating_mul(bucket as u64),
            Self::Doubling { .. } if bucket == 0 => 0,
            Self::Doubling { first_ns, .. } => {
                first_ns.saturating_mul(1u64.checked_shl(bucket as u32 - 1).unwrap_or(u64::MAX))
            }
            Self::Log(log) => log.start_of(bucket),
        };
        let end = if bucket + 1 == buckets { u64::MAX } else { start_of(bucket + 1) };
        Duration::from_nanos(start_of(bucket))..Duration::from_nanos(end)
    }
}

impl Default for BucketScale {
    /// Ten buckets of 100 µs.
    fn default() -> Self {
        Self::linear(100_000, 10)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{BucketScale, LogHistogram};
    use std::time::Duration;

    const NS: fn(u64) -> Duration = Duration::from_nanos;

    fn scales() -> Vec<BucketScale> {
        let mut scales = vec![
            BucketScale::default(),
            BucketScale::linear(1, 1),
            BucketScale::doubling(50_000, 20),
            BucketScale::doubling(1, 3),
            BucketScale::doubling(1, 70),
        ];
        for precision in 0..=10 {
            for (min, max) in [(1, 2), (100, 60_000_000_000), (20_000, 4_000_000), (7, u64::MAX)] {
                let log = LogHistogram::builder()
                    .precision_exact(precision)
                    .min_value(NS(min))
                    .max_value(NS(max))
                    .build();
                assert!(log.max_value() >= max, "{log:?}");
                let first = BucketScale::Log(log).range_of(0).end;
                assert!(first <= NS(min.max(1)), "{log:?}");
                scales.push(BucketScale::Log(log));
            }
        }
        scales
    }

    #[test]
    fn buckets_cover_all_durations_without_overlap() {
        for scale in scales() {
            let mut end = Duration::ZERO;
            for bucket in 0..scale.buckets() {
                let range = scale.range_of(bucket);
                assert_eq!(range.start, end, "bucket {bucket} of {scale:?}");
                // Beyond `u64::MAX` nanoseconds there are only empty buckets.
                if range.is_empty() {
                    assert_eq!(range.start, NS(u64::MAX), "bucket {bucket} of {scale:?}");
                } else {
                    let last = range.end - NS(1);
                    let counted = [scale.bucket_of(range.start), scale.bucket_of(last)];
                    assert_eq!(counted, [bucket; 2], "{range:?} of {scale:?}");
                }
                end = range.end;
            }
            assert_eq!(end, NS(u64::MAX));
        }
    }

    #[test]
    fn the_error_of_a_bucket_is_bounded() {
        for (max_error, precision) in [(0.9, 2), (0.25, 2), (0.2, 3), (0.01, 7), (0.0001, 10)] {
            let log = LogHistogram::builder().max_error(max_error).build();
            assert_eq!(log.precision, precision);
            let scale = BucketScale::Log(log);
            for bucket in 1..scale.buckets() - 1 {
                let range = scale.range_of(bucket);
                let width = (range.end - range.start).as_nanos() as f64;
                let bound = range.start.as_nanos() as f64 * max_error.max(0.001);
                // No bucket is narrower than a nanosecond.
                assert!(width <= bound.max(1.0), "{range:?}");
            }
        }
    }
}
