//! Metrics under the names that exporters of the crate tokio-metrics use.

use super::RuntimeMetrics;
use crate::inspect::{TokioMetrics, TokioReadings, WorkerReadings, tokio_prometheus};
use crate::sys::sync::ignore_poison;

/// Metrics under the names of tokio-metrics.
impl RuntimeMetrics {
    /// Returns metrics for Prometheus under the names that exporters of the crate tokio-metrics use.
    ///
    /// Use it with existing tokio dashboards; [`prometheus`](Self::prometheus) exports more. Each
    /// name begins with `tokio_`, such as `tokio_workers_count`. The label `runtime` is the same as
    /// in [`prometheus`](Self::prometheus). `docs/METRICS.md` lists the metrics.
    ///
    /// Some metrics describe an interval, such as `tokio_busy_ratio`. The interval starts at the
    /// previous call for this runtime, or at the runtime's start, and ends now. So use a single
    /// scraper.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let page = wakeful::runtime::Handle::current().metrics().prometheus_tokio();
    /// assert!(page.contains("tokio_workers_count{runtime=\"main\"} 1"));
    /// # }
    /// ```
    pub fn prometheus_tokio(&self) -> String {
        tokio_prometheus(&[self.end_tokio_interval()])
    }

    /// Ends the current interval, and returns all metrics.
    pub(in crate::runtime) fn end_tokio_interval(&self) -> TokioMetrics {
        let shared = &self.handle.shared;
        // Held while the counters are read, so that no interval ends before its beginning.
        let mut intervals = ignore_poison(shared.tokio_intervals.lock());
        let worker = |worker: usize| WorkerReadings {
            counters: [
                self.worker_park_count(worker),
                self.worker_total_busy_duration(worker).as_micros() as u64,
                self.worker_noop_count(worker),
                self.worker_steal_count(worker),
                self.worker_steal_operations(worker),
                self.worker_local_schedule_count(worker),
                self.worker_overflow_count(worker),
                self.worker_poll_count(worker),
            ],
            queued: self.worker_local_queue_depth(worker) as u64,
            mean_poll: self.worker_mean_poll_time(worker),
        };
        intervals.advance(TokioReadings {
            runtime: shared.display_name(),
            now: shared.clock().elapsed(),
            workers: (0..self.num_workers()).map(worker).collect(),
            live_tasks: self.num_alive_tasks(),
            global_queue: self.global_queue_depth(),
            blocking_queue: self.blocking_queue_depth(),
            blocking_threads: self.num_blocking_threads(),
            idle_blocking_threads: self.num_idle_blocking_threads(),
            remote_schedules: self.remote_schedule_count(),
            forced_yields: self.budget_forced_yield_count(),
            io_ready: self.io_driver_ready_count(),
        })
    }
}
