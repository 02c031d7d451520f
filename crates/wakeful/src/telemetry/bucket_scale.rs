//! The buckets of an exact histogram, which users choose.
//!
//! A scale says which bucket counts a duration, and which durations a bucket counts. All scales have
//! a last bucket without an upper limit. Three scales: buckets of equal width, buckets that double,
//! and groups of equal buckets whose width doubles from group to group ([`LogHistogram`]).

use std::error::Error;
use std::fmt;
use std::ops::Range;
use std::time::Duration;

/// Whether the buckets of a histogram have equal widths, or widths that double.
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
    /// If there are no buckets, or if they have no width.
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

/// Buckets whose width grows with the duration, with a bounded relative error.
///
/// There are groups of 2^p buckets of equal width. From one group to the next, the width doubles. So
/// a bucket is at most 2^-p times as wide as the durations that it counts. The first bucket counts
/// all durations up to the smallest one of interest, the last one all that exceed the largest.
///
/// Without other settings it has 119 buckets from 96 ns to 60 s, with an error of at most 25 %.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use wakeful::runtime::LogHistogram;
///
/// let histogram = LogHistogram::builder()
///     .min_value(Duration::from_micros(20))
///     .max_value(Duration::from_millis(4))
///     .precision_exact(0)
///     .build();
/// assert_eq!(histogram.max_value(), 4_194_304, "in nanoseconds");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogHistogram {
    buckets: usize,
    /// The exponent of the number of buckets in a group.
    precision: u32,
    /// How many buckets the first one takes the place of, besides itself.
    skipped: u64,
}

impl LogHistogram {
    /// Returns a builder.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::LogHistogram;
    ///
    /// assert_eq!(LogHistogram::builder().build(), LogHistogram::default());
    /// ```
    pub fn builder() -> LogHistogramBuilder {
        LogHistogramBuilder::default()
    }

    /// Returns from how many nanoseconds on a duration is counted in the last bucket.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::LogHistogram;
    ///
    /// assert!(LogHistogram::default().max_value() >= 60_000_000_000);
    /// ```
    pub fn max_value(&self) -> u64 {
        self.start_of(self.buckets - 1)
    }

    fn bucket_of(&self, ns: u64) -> usize {
        let bucket = position_of(ns, self.precision).saturating_sub(self.skipped);
        (bucket as usize).min(self.buckets - 1)
    }

    /// Returns the shortest duration that the bucket counts.
    fn start_of(&self, bucket: usize) -> u64 {
        match bucket {
            0 => 0,
            _ => start_of_position(bucket as u64 + self.skipped, self.precision),
        }
    }
}

impl Default for LogHistogram {
    fn default() -> Self {
        LogHistogramBuilder::default().build()
    }
}

impl From<LogHistogramBuilder> for LogHistogram {
    fn from(builder: LogHistogramBuilder) -> Self {
        builder.build()
    }
}

/// Returns the position of a duration among buckets without a limit: groups of 2^`precision` buckets.
///
/// The durations of the first two groups have a bucket each. From there on, the bits behind the
/// first `precision` + 1 do not count.
fn position_of(ns: u64, precision: u32) -> u64 {
    let ignored = ns.checked_ilog2().unwrap_or(0).saturating_sub(precision);
    (u64::from(ignored) << precision) + (ns >> ignored)
}

/// Returns the shortest duration at a position of [`position_of`].
fn start_of_position(position: u64, precision: u32) -> u64 {
    let ignored = (position >> precision).saturating_sub(1);
    let leading = position - (ignored << precision);
    leading.saturating_mul(1u64.checked_shl(ignored as u32).unwrap_or(u64::MAX))
}

/// Builds a [`LogHistogram`].
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use wakeful::runtime::{HistogramConfiguration, LogHistogram};
///
/// let fine = LogHistogram::builder().max_error(0.05).max_value(Duration::from_secs(1));
/// let configuration = HistogramConfiguration::log(fine);
/// # _ = configuration;
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct LogHistogramBuilder {
    max_value: Option<Duration>,
    min_value: Option<Duration>,
    precision: Option<u32>,
}

const DEFAULT_MIN: Duration = Duration::from_nanos(100);
const DEFAULT_MAX: Duration = Duration::from_secs(60);
/// An error of at most 25 %.
const DEFAULT_PRECISION: u32 = 2;
/// An error of at most 0.1 %.
const MAX_PRECISION: u32 = 10;

impl LogHistogramBuilder {
    /// Sets how wide a bucket may be, as a part of the durations that it counts; 0.25 by default.
    ///
    /// The bound that is used is the next power of two below it, at most 1/4 and at least 1/1024.
    ///
    /// # Panics
    ///
    /// Unless it is above 0 and below 1.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::LogHistogram;
    ///
    /// let coarse = LogHistogram::builder().max_error(0.25).build();
    /// assert_eq!(coarse, LogHistogram::default());
    /// ```
    #[track_caller]
    pub fn max_error(mut self, max_error: f64) -> Self {
        assert!(max_error > 0.0 && max_error < 1.0, "max_error must be above 0 and below 1");
        let is_enough = |precision: &u32| 0.5f64.powi(precision.cast_signed()) <= max_error;
        let precision = (DEFAULT_PRECISION..MAX_PRECISION).find(is_enough);
        self.precision = Some(precision.unwrap_or(MAX_PRECISION));
        self
    }

    /// Sets the exponent p of the error bound 2^-p; 2 by default.
    ///
    /// With 0, each bucket is as wide as all buckets before it.
    ///
    /// # Panics
    ///
    /// If it is above 10.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::LogHistogram;
    ///
    /// assert_eq!(LogHistogram::builder().precision_exact(2).build(), LogHistogram::default());
    /// ```
    #[track_caller]
    pub fn precision_exact(mut self, p: u32) -> Self {
        assert!(p <= MAX_PRECISION, "the precision must be at most {MAX_PRECISION}");
        self.precision = Some(p);
        self
    }

    /// Sets the smallest duration of interest; 100 ns by default. The first bucket ends there, or before.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use wakeful::runtime::LogHistogram;
    ///
    /// let histogram = LogHistogram::builder().min_value(Duration::from_micros(1)).build();
    /// # _ = histogram;
    /// ```
    pub fn min_value(mut self, duration: Duration) -> Self {
        self.min_value = Some(duration);
        self
    }

    /// Sets the largest duration of interest; 60 s by default. The last bucket begins there, or after.
    ///
    /// # Panics
    ///
    /// If it is zero.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use wakeful::runtime::LogHistogram;
    ///
    /// let histogram = LogHistogram::builder().max_value(Duration::from_secs(1)).build();
    /// assert!(histogram.max_value() >= 1_000_000_000);
    /// ```
    #[track_caller]
    pub fn max_value(mut self, duration: Duration) -> Self {
        assert!(!duration.is_zero(), "max value must be greater than 0");
        self.max_value = Some(duration);
        self
    }

    /// Builds the histogram, if it needs no more buckets than this.
    ///
    /// # Errors
    ///
    /// If it needs more.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::LogHistogram;
    ///
    /// assert!(LogHistogram::builder().max_buckets(119).is_ok());
    /// let error = LogHistogram::builder().max_buckets(118).unwrap_err();
    /// assert!(error.to_string().contains("119 buckets"));
    /// ```
    pub fn max_buckets(
        &mut self,
        max_buckets: usize,
    ) -> Result<LogHistogram, InvalidHistogramConfiguration> {
        let histogram = self.build();
        let required_bucket_count = histogram.buckets;
        if required_bucket_count > max_buckets {
            return Err(InvalidHistogramConfiguration::TooManyBuckets { required_bucket_count });
        }
        Ok(histogram)
    }

    /// Builds the histogram.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::LogHistogram;
    ///
    /// let histogram = LogHistogram::builder().build();
    /// # _ = histogram;
    /// ```
    pub fn build(&self) -> LogHistogram {
        let precision = self.precision.unwrap_or(DEFAULT_PRECISION);
        let position = |ns| position_of(ns, precision);
        let min = nanos(self.min_value.unwrap_or(DEFAULT_MIN));
        let max = nanos(self.max_value.unwrap_or(DEFAULT_MAX));
        // The bucket before that of `min` is the first one: it ends at `min`, or before.
        let skipped = position(min).saturating_sub(1);
        // The last bucket is the one behind that of the largest duration below `max`.
        let last = (position(max - 1) + 1).saturating_sub(skipped).max(1);
        LogHistogram { buckets: last as usize + 1, precision, skipped }
    }
}

/// Why a histogram cannot be built.
///
/// # Examples
///
/// ```
/// use wakeful::runtime::{InvalidHistogramConfiguration, LogHistogram};
///
/// let InvalidHistogramConfiguration::TooManyBuckets { required_bucket_count } =
///     LogHistogram::builder().max_buckets(10).unwrap_err();
/// assert_eq!(required_bucket_count, 119);
/// ```
#[derive(Debug)]
pub enum InvalidHistogramConfiguration {
    /// The histogram needs more buckets than it may have.
    TooManyBuckets {
        /// How many it needs.
        required_bucket_count: usize,
    },
}

impl fmt::Display for InvalidHistogramConfiguration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::TooManyBuckets { required_bucket_count } = self;
        write!(
            f,
            "the histogram needs {required_bucket_count} buckets; allow more, or ask for less \
             precision or a smaller range"
        )
    }
}

impl Error for InvalidHistogramConfiguration {}

/// Returns a duration in nanoseconds, or the largest number if it is longer.
fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Which bucket counts a duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BucketScale {
    /// Buckets of this width.
    Linear {
        width_ns: u64,
        buckets: usize,
    },
    /// The first bucket has this width. Each other one is as wide as all before it.
    Doubling {
        first_ns: u64,
        buckets: usize,
    },
    Log(LogHistogram),
}

impl BucketScale {
    #[track_caller]
    pub(crate) fn linear(width_ns: u64, buckets: usize) -> Self {
        assert!(buckets > 0 && width_ns > 0, "a histogram has buckets, and these have a width");
        Self::Linear { width_ns, buckets }
    }

    /// The first bucket counts durations below the next power of two.
    #[track_caller]
    pub(crate) fn doubling(resolution_ns: u64, buckets: usize) -> Self {
        assert!(
            buckets > 0 && resolution_ns > 0,
            "a histogram has buckets, and these have a width"
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
    /// If there is no such bucket.
    #[track_caller]
    pub(crate) fn range_of(self, bucket: usize) -> Range<Duration> {
        let buckets = self.buckets();
        assert!(bucket < buckets, "there is no bucket {bucket}: they are 0 to {}", buckets - 1);
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
                // Beyond the largest number of nanoseconds there are only empty buckets.
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
