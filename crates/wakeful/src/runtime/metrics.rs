//! Metrics of a runtime: counters, gauges and histograms.

mod histograms;
mod io;
mod pool;
mod scheduling;
mod tokio_names;
mod workers;

use super::{FileBackend, Handle};
use crate::inspect::MetricsSnapshot;
use crate::inspect::runtimes::InspectedRuntime;
use crate::runtime::inner::Flavor;
use std::fmt;
use std::sync::atomic::Ordering::Relaxed;

/// Metrics of a runtime; returned by [`Handle::metrics`].
///
/// Each method reads the current value. Workers update their counters at intervals, so a value may
/// be slightly behind. Use [`prometheus`](Self::prometheus) to export all metrics, or `Display` to
/// print them.
///
/// # Examples
///
/// ```
/// use wakeful::runtime::Handle;
///
/// # #[wakeful::main]
/// # async fn main() {
/// let metrics = Handle::current().metrics();
/// println!("{} of {} tasks are alive", metrics.num_alive_tasks(), metrics.spawned_tasks());
/// println!("{metrics}");
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct RuntimeMetrics {
    handle: Handle,
}

impl RuntimeMetrics {
    pub(crate) fn new(handle: Handle) -> Self {
        Self { handle }
    }

    /// Returns the number of live tasks: spawned, and not yet ended.
    ///
    /// This excludes closures of the blocking pool and the tasks of a `LocalSet`.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Handle;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let task = wakeful::spawn(wakeful::task::may_wait_forever(std::future::pending::<()>()));
    /// assert_eq!(Handle::current().metrics().num_alive_tasks(), 1);
    /// # task.abort();
    /// # }
    /// ```
    pub fn num_alive_tasks(&self) -> usize {
        use crate::task::state::{BLOCKING, COMPLETE};
        let mut alive = 0;
        self.handle.shared.for_each_task(|task| {
            alive += usize::from(!task.state().has(COMPLETE | BLOCKING));
        });
        alive
    }

    /// Returns the number of tasks in the injector, the queue that all workers share.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Handle;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// println!("{}", Handle::current().metrics().global_queue_depth());
    /// # }
    /// ```
    pub fn global_queue_depth(&self) -> usize {
        match &self.handle.shared.flavor {
            Flavor::Current(scheduler) => scheduler.injected(),
            Flavor::Multi(scheduler) => scheduler.injector.len(),
        }
    }

    /// Returns the number of registered timers that have not fired.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Handle;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// println!("{}", Handle::current().metrics().num_timers());
    /// # }
    /// ```
    pub fn num_timers(&self) -> usize {
        match &self.handle.shared.flavor {
            Flavor::Current(scheduler) => scheduler.timers.len(),
            Flavor::Multi(scheduler) => {
                scheduler.workers.iter().map(|worker| worker.timers.len()).sum()
            }
        }
    }

    /// Returns the backend that executes file operations which the page cache cannot serve.
    ///
    /// The result is [`FileBackend::Uring`] or [`FileBackend::Pool`].
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Handle;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// println!("{:?}", Handle::current().metrics().file_backend());
    /// # }
    /// ```
    pub fn file_backend(&self) -> FileBackend {
        self.handle.shared.file_backend()
    }

    /// Returns how many file operations have been submitted to io_uring.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Handle;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// println!("{}", Handle::current().metrics().file_operations_in_uring());
    /// # }
    /// ```
    pub fn file_operations_in_uring(&self) -> u64 {
        self.handle.shared.files.uring_ops.load(Relaxed)
    }

    /// Returns how many file operations have been sent to the blocking pool.
    ///
    /// Operations that the page cache served on the calling thread are not counted.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Handle;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// println!("{}", Handle::current().metrics().file_operations_in_pool());
    /// # }
    /// ```
    pub fn file_operations_in_pool(&self) -> u64 {
        self.handle.shared.files.pool_ops.load(Relaxed)
    }

    /// Returns how many tasks have been spawned, including closures of the blocking pool.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Handle;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// wakeful::spawn(async {}).await.unwrap();
    /// wakeful::task::spawn_blocking(|| ()).await.unwrap();
    /// assert_eq!(Handle::current().metrics().spawned_tasks(), 2);
    /// # }
    /// ```
    pub fn spawned_tasks(&self) -> u64 {
        self.handle.shared.inspectable().spawned()
    }

    /// Returns how many tasks have ended, including closures of the blocking pool.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Handle;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// wakeful::spawn(async {}).await.unwrap();
    /// assert_eq!(Handle::current().metrics().finished_tasks(), 1);
    /// # }
    /// ```
    pub fn finished_tasks(&self) -> u64 {
        self.spawned_tasks().saturating_sub(self.handle.shared.alive_tasks())
    }

    /// Returns how many tasks have panicked.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Handle;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let error = wakeful::spawn(async { panic!("on purpose") }).await.unwrap_err();
    /// assert!(error.is_panic());
    /// assert_eq!(Handle::current().metrics().panicked_tasks(), 1);
    /// # }
    /// ```
    pub fn panicked_tasks(&self) -> u64 {
        self.handle.shared.panics()
    }

    /// Returns the number of descriptors that are registered for I/O.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Handle;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// println!("{}", Handle::current().metrics().num_sources());
    /// # }
    /// ```
    pub fn num_sources(&self) -> usize {
        self.handle.shared.inspectable().workers().iter().map(|worker| worker.sources).sum()
    }

    /// Returns the number of reports by kind.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Handle;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// for (kind, count) in Handle::current().metrics().reports() {
    ///     println!("{kind}: {count}");
    /// }
    /// # }
    /// ```
    pub fn reports(&self) -> Vec<(&'static str, u64)> {
        self.handle.shared.hooks.reporter.counts().to_vec()
    }

    /// Returns all metrics in the text exposition format of Prometheus.
    ///
    /// Each name begins with `wakeful_`; `docs/METRICS.md` lists them. [`prometheus_tokio`] uses
    /// the names of tokio-metrics. The label `runtime` is the [name of the
    /// runtime](crate::runtime::Builder::name). For an unnamed runtime it is the name of the
    /// function with `#[wakeful::main]` or `#[wakeful::test]`, or else the runtime's id.
    ///
    /// The buckets of histograms double from 1 µs (1.024 µs) to 17 s.
    ///
    /// [`prometheus_tokio`]: Self::prometheus_tokio
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// wakeful::spawn(async {}).await.unwrap();
    /// let page = wakeful::runtime::Handle::current().metrics().prometheus();
    /// assert!(page.contains("wakeful_tasks_spawned_total{runtime=\"main\"} 1"));
    /// # }
    /// ```
    pub fn prometheus(&self) -> String {
        self.snapshot().prometheus()
    }

    pub(super) fn snapshot(&self) -> MetricsSnapshot {
        let shared = &self.handle.shared;
        let inspectable = shared.inspectable();
        let (pool_threads, pool_idle, pool_queued) = shared.pool.counts();
        MetricsSnapshot {
            runtime: shared.display_name(),
            alive: self.handle.shared.alive_tasks(),
            spawned: self.spawned_tasks(),
            panicked: self.panicked_tasks(),
            queued: inspectable.injected() as u64,
            workers: inspectable.workers_and_queues(),
            pool_threads: pool_threads as u64,
            pool_idle: pool_idle as u64,
            pool_queued: pool_queued as u64,
            spares: self.spare_threads() as u64,
            spares_started: self.spare_threads_started(),
            spare_polls: self.spare_thread_polls(),
            reports: self.reports(),
        }
    }

    /// Returns how many tasks have been reported as orphans.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Handle;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// assert_eq!(Handle::current().metrics().orphaned_tasks(), 0);
    /// # }
    /// ```
    pub fn orphaned_tasks(&self) -> u64 {
        self.handle.shared.hooks.reporter.orphans()
    }
}

/// Prints all metrics in a few lines.
impl fmt::Display for RuntimeMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.snapshot().fmt(f)
    }
}
