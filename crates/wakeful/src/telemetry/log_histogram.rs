//! [`LogHistogram`]: groups of equal buckets whose width doubles from group to group.

use super::bucket_scale::nanos;
use std::error::Error;
use std::fmt;
use std::time::Duration;

/// Buckets whose width grows with the duration, with a bounded relative error.
///
/// There are groups of 2^p buckets of equal width. From one group to the next, the width doubles.
/// So a bucket is at most 2^-p times as wide as the durations that it counts. The first bucket
/// counts all durations up to the smallest one of interest. The last bucket counts all durations
/// above the largest one.
///
/// By default there are 119 buckets from 96 ns to 60 s, with an error of at most 25 %.
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
    pub(super) buckets: usize,
    /// The exponent of the number of buckets in a group.
    pub(super) precision: u32,
    /// The last position that the first bucket covers.
    skipped: u64,
}

impl LogHistogram {
    /// Returns a builder with the default settings.
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

    /// Returns the shortest duration that the last bucket counts, in nanoseconds.
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

    pub(super) fn bucket_of(&self, ns: u64) -> usize {
        let bucket = position_of(ns, self.precision).saturating_sub(self.skipped);
        (bucket as usize).min(self.buckets - 1)
    }

    /// Returns the shortest duration that the bucket counts.
    pub(super) fn start_of(&self, bucket: usize) -> u64 {
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
/// The durations of the first two groups have a bucket each. Above these, only the highest
/// `precision` + 1 bits count.
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
    /// Sets the maximum width of a bucket, as a fraction of the durations that it counts; 0.25 by
    /// default.
    ///
    /// The value is rounded down to a power of two, which is at most 1/4 and at least 1/1024.
    ///
    /// # Panics
    ///
    /// Panics unless `max_error` is above 0 and below 1.
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
    /// Panics if `p` is above 10.
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

    /// Sets the smallest duration of interest; 100 ns by default. The first bucket ends at or
    /// before that duration.
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

    /// Sets the largest duration of interest; 60 s by default. The last bucket begins at or after
    /// that duration.
    ///
    /// # Panics
    ///
    /// Panics if `duration` is zero.
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

    /// Builds the histogram, if it needs at most `max_buckets` buckets.
    ///
    /// # Errors
    ///
    /// Returns an error if the histogram needs more buckets.
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
        // The bucket before that of `min` is the first one, so it ends at or before `min`.
        let skipped = position(min).saturating_sub(1);
        // The last bucket is the one after that of the largest duration below `max`.
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
        /// The number of buckets that it needs.
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
