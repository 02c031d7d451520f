//! Metrics of the exact histograms, which the builder can enable.

use super::RuntimeMetrics;
use crate::telemetry::exact_histogram::ExactHistogram;
use std::ops::Range;
use std::time::Duration;

/// The exact histogram of poll times.
///
/// [`Builder::enable_metrics_poll_time_histogram`](crate::runtime::Builder::enable_metrics_poll_time_histogram)
/// enables it. [`poll_times`](RuntimeMetrics::poll_times) is a sampled histogram, which is always
/// available.
impl RuntimeMetrics {
    #[track_caller]
    fn exact_poll_times(&self, worker: usize) -> Option<&ExactHistogram> {
        self.worker_metrics(worker).exact_poll_times.as_ref()
    }

    /// Returns whether the exact histogram of poll times is enabled.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Builder;
    ///
    /// let runtime = Builder::new_current_thread().build()?;
    /// assert!(!runtime.metrics().poll_time_histogram_enabled());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn poll_time_histogram_enabled(&self) -> bool {
        self.exact_poll_times(0).is_some()
    }

    /// Returns the number of buckets, or 0 if the histogram is not enabled.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Builder;
    ///
    /// let runtime =
    ///     Builder::new_current_thread().enable_metrics_poll_time_histogram().build()?;
    /// assert_eq!(runtime.metrics().poll_time_histogram_num_buckets(), 10);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn poll_time_histogram_num_buckets(&self) -> usize {
        self.exact_poll_times(0).map_or(0, |histogram| histogram.scale.buckets())
    }

    /// Returns the range of durations of a bucket, or an empty range if the histogram is not enabled.
    ///
    /// # Panics
    ///
    /// If the histogram is enabled and has no such bucket.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use wakeful::runtime::Builder;
    ///
    /// let runtime =
    ///     Builder::new_current_thread().enable_metrics_poll_time_histogram().build()?;
    /// let first = runtime.metrics().poll_time_histogram_bucket_range(0);
    /// assert_eq!(first, Duration::ZERO..Duration::from_micros(100));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[track_caller]
    pub fn poll_time_histogram_bucket_range(&self, bucket: usize) -> Range<Duration> {
        match self.exact_poll_times(0) {
            Some(histogram) => histogram.scale.range_of(bucket),
            None => Duration::ZERO..Duration::ZERO,
        }
    }

    /// Returns the number of a worker's polls in a bucket, or 0 if the histogram is not enabled.
    ///
    /// Excludes polls that block in place, because another thread takes over the worker during
    /// them.
    ///
    /// # Panics
    ///
    /// If there is no such worker, or if the histogram is enabled and has no such bucket.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Builder;
    ///
    /// let runtime =
    ///     Builder::new_current_thread().enable_metrics_poll_time_histogram().build()?;
    /// assert_eq!(runtime.metrics().poll_time_histogram_bucket_count(0, 0), 0);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[track_caller]
    pub fn poll_time_histogram_bucket_count(&self, worker: usize, bucket: usize) -> u64 {
        match self.exact_poll_times(worker) {
            Some(histogram) => histogram.count(bucket),
            None => 0,
        }
    }

    /// An old name of [`poll_time_histogram_enabled`](Self::poll_time_histogram_enabled).
    #[doc(hidden)]
    #[deprecated(note = "renamed to `poll_time_histogram_enabled`")]
    pub fn poll_count_histogram_enabled(&self) -> bool {
        self.poll_time_histogram_enabled()
    }

    /// An old name of [`poll_time_histogram_num_buckets`](Self::poll_time_histogram_num_buckets).
    #[doc(hidden)]
    #[deprecated(note = "renamed to `poll_time_histogram_num_buckets`")]
    pub fn poll_count_histogram_num_buckets(&self) -> usize {
        self.poll_time_histogram_num_buckets()
    }

    /// An old name of [`poll_time_histogram_bucket_range`](Self::poll_time_histogram_bucket_range).
    #[doc(hidden)]
    #[deprecated(note = "renamed to `poll_time_histogram_bucket_range`")]
    #[track_caller]
    pub fn poll_count_histogram_bucket_range(&self, bucket: usize) -> Range<Duration> {
        self.poll_time_histogram_bucket_range(bucket)
    }

    /// An old name of [`poll_time_histogram_bucket_count`](Self::poll_time_histogram_bucket_count).
    #[doc(hidden)]
    #[deprecated(note = "renamed to `poll_time_histogram_bucket_count`")]
    #[track_caller]
    pub fn poll_count_histogram_bucket_count(&self, worker: usize, bucket: usize) -> u64 {
        self.poll_time_histogram_bucket_count(worker, bucket)
    }
}

/// The exact histogram of schedule latencies.
///
/// [`Builder::enable_metrics_schedule_latency_histogram`](crate::runtime::Builder::enable_metrics_schedule_latency_histogram)
/// enables it. [`wake_to_poll_times`](RuntimeMetrics::wake_to_poll_times) is a sampled histogram,
/// which is always available.
impl RuntimeMetrics {
    #[track_caller]
    fn schedule_latencies(&self, worker: usize) -> Option<&ExactHistogram> {
        self.worker_metrics(worker).schedule_latencies.as_ref()
    }

    /// Returns whether the exact histogram of schedule latencies is enabled.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Builder;
    ///
    /// let runtime = Builder::new_current_thread().build()?;
    /// assert!(!runtime.metrics().schedule_latency_histogram_enabled());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn schedule_latency_histogram_enabled(&self) -> bool {
        self.schedule_latencies(0).is_some()
    }

    /// Returns the number of buckets, or 0 if the histogram is not enabled.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Builder;
    ///
    /// let runtime =
    ///     Builder::new_current_thread().enable_metrics_schedule_latency_histogram().build()?;
    /// assert_eq!(runtime.metrics().schedule_latency_histogram_num_buckets(), 10);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn schedule_latency_histogram_num_buckets(&self) -> usize {
        self.schedule_latencies(0).map_or(0, |histogram| histogram.scale.buckets())
    }

    /// Returns the range of latencies of a bucket, or an empty range if the histogram is not enabled.
    ///
    /// # Panics
    ///
    /// If the histogram is enabled and has no such bucket.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use wakeful::runtime::Builder;
    ///
    /// let runtime =
    ///     Builder::new_current_thread().enable_metrics_schedule_latency_histogram().build()?;
    /// let first = runtime.metrics().schedule_latency_histogram_bucket_range(0);
    /// assert_eq!(first, Duration::ZERO..Duration::from_micros(100));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[track_caller]
    pub fn schedule_latency_histogram_bucket_range(&self, bucket: usize) -> Range<Duration> {
        match self.schedule_latencies(0) {
            Some(histogram) => histogram.scale.range_of(bucket),
            None => Duration::ZERO..Duration::ZERO,
        }
    }

    /// Returns the number of a worker's polls in a latency bucket, or 0 if the histogram is not
    /// enabled.
    ///
    /// # Panics
    ///
    /// If there is no such worker, or if the histogram is enabled and has no such bucket.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Builder;
    ///
    /// let runtime =
    ///     Builder::new_current_thread().enable_metrics_schedule_latency_histogram().build()?;
    /// assert_eq!(runtime.metrics().schedule_latency_histogram_bucket_count(0, 0), 0);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[track_caller]
    pub fn schedule_latency_histogram_bucket_count(&self, worker: usize, bucket: usize) -> u64 {
        match self.schedule_latencies(worker) {
            Some(histogram) => histogram.count(bucket),
            None => 0,
        }
    }
}
