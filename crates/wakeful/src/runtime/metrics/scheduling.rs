//! Metrics of scheduling: the depths of the queues, and how tasks enter them.

use super::RuntimeMetrics;
use crate::runtime::inner::Flavor;
use std::sync::atomic::Ordering::Relaxed;

/// Metrics of queues and schedules.
impl RuntimeMetrics {
    /// Returns the number of tasks in this worker's own queue.
    ///
    /// The task in the worker's LIFO slot is not counted. On a current-thread runtime, this method
    /// visits all tasks.
    ///
    /// # Panics
    ///
    /// If `worker` is not less than [`num_workers`](Self::num_workers).
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Handle;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// wakeful::spawn(async {});
    /// assert_eq!(Handle::current().metrics().worker_local_queue_depth(0), 1);
    /// # }
    /// ```
    #[track_caller]
    pub fn worker_local_queue_depth(&self, worker: usize) -> usize {
        self.assert_worker(worker);
        self.handle.shared.inspectable().workers_and_queues()[worker].queued
    }

    /// Returns how many tasks this worker has put into its own queue, by spawns and wake-ups.
    ///
    /// A task is counted when it leaves the queue. The worker updates the count when it checks its
    /// timers and I/O.
    ///
    /// # Panics
    ///
    /// If `worker` is not less than [`num_workers`](Self::num_workers).
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Builder;
    ///
    /// let runtime = Builder::new_current_thread().build()?;
    /// runtime.block_on(async { wakeful::spawn(async {}).await }).unwrap();
    /// assert_eq!(runtime.metrics().worker_local_schedule_count(0), 1);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[track_caller]
    pub fn worker_local_schedule_count(&self, worker: usize) -> u64 {
        // Only a current-thread scheduler must query the injector.
        let injected = match &self.handle.shared.flavor {
            Flavor::Current(scheduler) => scheduler.arrived_and_taken().1,
            Flavor::Multi(_) => 0,
        };
        self.worker_metrics(worker).local_schedules(injected)
    }

    /// Returns how many tasks were spawned or woken by threads other than the runtime's workers.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Builder;
    ///
    /// let runtime = Builder::new_multi_thread().build()?;
    /// runtime.block_on(runtime.spawn(async {})).unwrap();
    /// assert_eq!(runtime.metrics().remote_schedule_count(), 1);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn remote_schedule_count(&self) -> u64 {
        match &self.handle.shared.flavor {
            Flavor::Current(scheduler) => scheduler.arrived_and_taken().0,
            Flavor::Multi(scheduler) => scheduler.injector.arrived_and_taken().0,
        }
    }

    /// Returns how often this worker's queue was full, so that half of it moved to the injector.
    ///
    /// A worker's queue holds up to 2048 tasks. The queue of a current-thread runtime is unbounded.
    ///
    /// # Panics
    ///
    /// If `worker` is not less than [`num_workers`](Self::num_workers).
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Handle;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// assert_eq!(Handle::current().metrics().worker_overflow_count(0), 0);
    /// # }
    /// ```
    #[track_caller]
    pub fn worker_overflow_count(&self, worker: usize) -> u64 {
        self.worker_metrics(worker).overflows()
    }

    /// Returns how many polls yielded because their cooperative budget was exhausted.
    ///
    /// This includes polls of `block_on`.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Handle;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// for _ in 0..129 {
    ///     wakeful::task::consume_budget().await;
    /// }
    /// assert_eq!(Handle::current().metrics().budget_forced_yield_count(), 1);
    /// # }
    /// ```
    pub fn budget_forced_yield_count(&self) -> u64 {
        self.handle.shared.base().budget_yields.load(Relaxed)
    }

    /// Returns how many tasks have been spawned, excluding closures of the blocking pool.
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
    /// assert_eq!(Handle::current().metrics().spawned_tasks_count(), 1);
    /// # }
    /// ```
    pub fn spawned_tasks_count(&self) -> u64 {
        let closures = self.handle.shared.pool.pushed();
        self.spawned_tasks().saturating_sub(closures)
    }

    /// An old name of [`num_alive_tasks`](Self::num_alive_tasks).
    #[doc(hidden)]
    #[deprecated(note = "renamed to `num_alive_tasks`")]
    pub fn active_tasks_count(&self) -> usize {
        self.num_alive_tasks()
    }

    /// An old name of [`global_queue_depth`](Self::global_queue_depth).
    #[doc(hidden)]
    #[deprecated(note = "renamed to `global_queue_depth`")]
    pub fn injection_queue_depth(&self) -> usize {
        self.global_queue_depth()
    }
}
