//! Settings of the builder for exact histograms.

use super::Builder;
use crate::runtime::{HistogramConfiguration, HistogramScale};
use crate::telemetry::bucket_scale::BucketScale;
use std::time::Duration;

/// The settings of an exact histogram.
#[derive(Clone, Debug, Default)]
pub(super) struct HistogramSettings {
    is_enabled: bool,
    scale: BucketScale,
    /// The deprecated settings. If set, they replace `scale`.
    legacy: Option<LegacySettings>,
}

#[derive(Clone, Debug)]
struct LegacySettings {
    scale: HistogramScale,
    resolution: Duration,
    buckets: usize,
}

impl HistogramSettings {
    /// Returns the buckets, if the histogram is enabled.
    pub(super) fn buckets(&self) -> Option<BucketScale> {
        let scale = self.legacy.as_ref().map_or(self.scale, |legacy| {
            let resolution_ns = legacy.resolution.as_nanos() as u64;
            match legacy.scale {
                HistogramScale::Linear => BucketScale::linear(resolution_ns, legacy.buckets),
                HistogramScale::Log => BucketScale::doubling(resolution_ns, legacy.buckets),
            }
        });
        self.is_enabled.then_some(scale)
    }

    fn legacy(&mut self) -> &mut LegacySettings {
        self.legacy.get_or_insert(LegacySettings {
            scale: HistogramScale::Linear,
            resolution: Duration::from_micros(100),
            buckets: 10,
        })
    }
}

/// Settings of exact histograms.
impl Builder {
    /// Measures each poll of a task and counts it in a histogram.
    ///
    /// Read the histogram with
    /// [`poll_time_histogram_bucket_count`](crate::runtime::RuntimeMetrics::poll_time_histogram_bucket_count).
    /// Each poll then reads the clock twice. Without this setting, wakeful measures a sample of the
    /// polls ([`poll_times`](crate::runtime::RuntimeMetrics::poll_times)). Set the buckets with
    /// [`metrics_poll_time_histogram_configuration`](Self::metrics_poll_time_histogram_configuration);
    /// the default is ten buckets of 100 µs.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Builder;
    ///
    /// let runtime =
    ///     Builder::new_current_thread().enable_metrics_poll_time_histogram().build()?;
    /// let metrics = runtime.metrics();
    /// runtime.block_on(runtime.spawn(async {})).unwrap();
    /// let polls: u64 = (0..10).map(|n| metrics.poll_time_histogram_bucket_count(0, n)).sum();
    /// assert_eq!(polls, 1);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn enable_metrics_poll_time_histogram(&mut self) -> &mut Self {
        self.poll_histogram.is_enabled = true;
        self
    }

    /// Sets the buckets of the histogram of poll times.
    ///
    /// This setting has no effect without
    /// [`enable_metrics_poll_time_histogram`](Self::enable_metrics_poll_time_histogram).
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::{Builder, HistogramConfiguration, LogHistogram};
    ///
    /// let runtime = Builder::new_multi_thread()
    ///     .enable_metrics_poll_time_histogram()
    ///     .metrics_poll_time_histogram_configuration(HistogramConfiguration::log(
    ///         LogHistogram::builder().max_error(0.1),
    ///     ))
    ///     .build()?;
    /// # drop(runtime);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn metrics_poll_time_histogram_configuration(
        &mut self,
        configuration: HistogramConfiguration,
    ) -> &mut Self {
        self.poll_histogram.scale = configuration.scale;
        self
    }

    /// Measures the time from each schedule of a task to its poll, for hooks.
    ///
    /// Hooks read it with
    /// [`TaskMeta::schedule_latency`](crate::runtime::TaskMeta::schedule_latency). Each schedule
    /// and each poll then takes a lock of the runtime and reads the clock. Without this setting,
    /// wakeful measures a sample
    /// ([`wake_to_poll_times`](crate::runtime::RuntimeMetrics::wake_to_poll_times)).
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Builder;
    ///
    /// let runtime = Builder::new_current_thread()
    ///     .track_task_schedule_latency()
    ///     .on_after_task_poll(|task| println!("{:?}", task.schedule_latency()))
    ///     .build()?;
    /// runtime.block_on(runtime.spawn(async {})).unwrap();
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn track_task_schedule_latency(&mut self) -> &mut Self {
        self.tracks_latencies = true;
        self
    }

    /// Measures the time from each schedule of a task to its poll, and counts it in a histogram.
    ///
    /// This includes [`track_task_schedule_latency`](Self::track_task_schedule_latency). Set the
    /// buckets with
    /// [`metrics_schedule_latency_histogram_configuration`](Self::metrics_schedule_latency_histogram_configuration);
    /// the default is ten buckets of 100 µs.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Builder;
    ///
    /// let runtime =
    ///     Builder::new_current_thread().enable_metrics_schedule_latency_histogram().build()?;
    /// runtime.block_on(runtime.spawn(async {})).unwrap();
    /// let metrics = runtime.metrics();
    /// let counts = (0..10).map(|n| metrics.schedule_latency_histogram_bucket_count(0, n));
    /// assert_eq!(counts.sum::<u64>(), 1);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn enable_metrics_schedule_latency_histogram(&mut self) -> &mut Self {
        self.latency_histogram.is_enabled = true;
        self.track_task_schedule_latency()
    }

    /// Sets the buckets of the histogram of schedule latencies.
    ///
    /// This setting has no effect without
    /// [`enable_metrics_schedule_latency_histogram`](Self::enable_metrics_schedule_latency_histogram).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use wakeful::runtime::{Builder, HistogramConfiguration};
    ///
    /// let buckets = HistogramConfiguration::linear(Duration::from_millis(1), 50);
    /// let runtime = Builder::new_multi_thread()
    ///     .enable_metrics_schedule_latency_histogram()
    ///     .metrics_schedule_latency_histogram_configuration(buckets)
    ///     .build()?;
    /// assert_eq!(runtime.metrics().schedule_latency_histogram_num_buckets(), 50);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn metrics_schedule_latency_histogram_configuration(
        &mut self,
        configuration: HistogramConfiguration,
    ) -> &mut Self {
        self.latency_histogram.scale = configuration.scale;
        self
    }

    /// An old name of [`enable_metrics_poll_time_histogram`](Self::enable_metrics_poll_time_histogram).
    #[doc(hidden)]
    #[deprecated(note = "renamed to `enable_metrics_poll_time_histogram`")]
    pub fn enable_metrics_poll_count_histogram(&mut self) -> &mut Self {
        self.enable_metrics_poll_time_histogram()
    }

    /// Sets whether the buckets have equal widths, or widths that double.
    #[doc(hidden)]
    #[deprecated(note = "use `metrics_poll_time_histogram_configuration`")]
    pub fn metrics_poll_count_histogram_scale(
        &mut self,
        histogram_scale: HistogramScale,
    ) -> &mut Self {
        self.poll_histogram.legacy().scale = histogram_scale;
        self
    }

    /// Sets the width of the first bucket: more than zero, and at most a second.
    #[doc(hidden)]
    #[deprecated(note = "use `metrics_poll_time_histogram_configuration`")]
    #[track_caller]
    pub fn metrics_poll_count_histogram_resolution(&mut self, resolution: Duration) -> &mut Self {
        let is_valid = !resolution.is_zero() && resolution <= Duration::from_secs(1);
        assert!(is_valid, "the resolution must be more than zero and at most one second");
        self.poll_histogram.legacy().resolution = resolution;
        self
    }

    /// Sets the number of buckets.
    #[doc(hidden)]
    #[deprecated(note = "use `metrics_poll_time_histogram_configuration`")]
    pub fn metrics_poll_count_histogram_buckets(&mut self, buckets: usize) -> &mut Self {
        self.poll_histogram.legacy().buckets = buckets;
        self
    }
}
