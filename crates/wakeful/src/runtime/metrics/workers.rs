//! Metrics of the workers: parks, polls, steals, durations and spare threads.

use super::RuntimeMetrics;
use crate::inspect::Histogram;
use crate::runtime::inner::Flavor;
use crate::telemetry::worker_metrics::WorkerMetrics;
use std::thread::ThreadId;
use std::time::Duration;

/// Metrics of the workers.
impl RuntimeMetrics {
    /// Returns the number of workers; 1 for a current-thread runtime.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Handle;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// assert_eq!(Handle::current().metrics().num_workers(), 1);
    /// # }
    /// ```
    pub fn num_workers(&self) -> usize {
        match &self.handle.shared.flavor {
            Flavor::Current(_) => 1,
            Flavor::Multi(scheduler) => scheduler.workers.len(),
        }
    }

    #[track_caller]
    pub(super) fn assert_worker(&self, worker: usize) {
        let workers = self.num_workers();
        assert!(
            worker < workers,
            "there is no worker {worker}: the workers are 0 to {}",
            workers - 1
        );
    }

    #[track_caller]
    pub(super) fn worker_metrics(&self, worker: usize) -> &WorkerMetrics {
        self.assert_worker(worker);
        match &self.handle.shared.flavor {
            Flavor::Current(scheduler) => &scheduler.metrics,
            Flavor::Multi(scheduler) => &scheduler.workers[worker].metrics,
        }
    }

    /// Returns this worker's total busy time, by the runtime's clock.
    ///
    /// Busy time covers polls and the search for tasks between them. It is counted after
    /// [`event_interval`](crate::runtime::Builder::event_interval) polls, or when the worker runs
    /// out of tasks.
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
    /// let busy = Handle::current().metrics().worker_total_busy_duration(0);
    /// println!("worker 0 has worked for {busy:?}");
    /// # }
    /// ```
    #[track_caller]
    pub fn worker_total_busy_duration(&self, worker: usize) -> Duration {
        self.worker_metrics(worker).busy()
    }

    /// Returns how often this worker parked because it had no tasks.
    ///
    /// A worker whose thread has not started yet counts as parked.
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
    /// println!("{}", Handle::current().metrics().worker_park_count(0));
    /// # }
    /// ```
    #[track_caller]
    pub fn worker_park_count(&self, worker: usize) -> u64 {
        self.worker_metrics(worker).parks()
    }

    /// Returns how often this worker parked or was unparked. An odd number means that it is parked.
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
    /// let is_parked = Handle::current().metrics().worker_park_unpark_count(0) % 2 == 1;
    /// assert!(!is_parked, "it runs this code");
    /// # }
    /// ```
    #[track_caller]
    pub fn worker_park_unpark_count(&self, worker: usize) -> u64 {
        self.worker_metrics(worker).parks_and_unparks()
    }

    /// Returns how often this worker polled a task.
    ///
    /// The worker updates the count when it checks its timers and I/O.
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
    /// println!("{}", Handle::current().metrics().worker_poll_count(0));
    /// # }
    /// ```
    #[track_caller]
    pub fn worker_poll_count(&self, worker: usize) -> u64 {
        self.worker_metrics(worker).polls()
    }

    /// Returns how many tasks this worker stole from the queues of other workers.
    ///
    /// One steal takes up to half of a queue; [`worker_steal_operations`](Self::worker_steal_operations)
    /// counts the steals.
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
    /// assert_eq!(Handle::current().metrics().worker_steal_count(0), 0);
    /// # }
    /// ```
    #[track_caller]
    pub fn worker_steal_count(&self, worker: usize) -> u64 {
        self.worker_metrics(worker).stolen()
    }

    /// Returns how often this worker stole tasks from the queue of another one.
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
    /// assert_eq!(Handle::current().metrics().worker_steal_operations(0), 0);
    /// # }
    /// ```
    #[track_caller]
    pub fn worker_steal_operations(&self, worker: usize) -> u64 {
        self.worker_metrics(worker).steals()
    }

    /// Returns how often this worker looked for a task and found none.
    ///
    /// The worker then parks, unless another thread schedules a task first. So the number can be
    /// slightly higher than the number of wake-ups without work.
    ///
    /// A worker whose thread has not started yet counts as parked once, without work.
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
    /// println!("{}", Handle::current().metrics().worker_noop_count(0));
    /// # }
    /// ```
    #[track_caller]
    pub fn worker_noop_count(&self, worker: usize) -> u64 {
        self.worker_metrics(worker).idle_wakeups()
    }

    /// Returns the mean duration of this worker's polls, or zero for a current-thread runtime.
    ///
    /// The mean is the worker's busy time divided by its number of polls. On a current-thread
    /// runtime the busy time includes the polls of `block_on`, so the value is zero there, as in
    /// tokio; use [`poll_times`](Self::poll_times).
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
    /// # #[wakeful::main]
    /// # async fn main() {
    /// println!("{:?}", Handle::current().metrics().worker_mean_poll_time(0));
    /// # }
    /// ```
    #[track_caller]
    pub fn worker_mean_poll_time(&self, worker: usize) -> Duration {
        let metrics = self.worker_metrics(worker);
        match (&self.handle.shared.flavor, metrics.polls()) {
            (Flavor::Current(_), _) | (_, 0) => Duration::ZERO,
            (Flavor::Multi(_), polls) => {
                Duration::from_nanos(metrics.busy().as_nanos() as u64 / polls)
            }
        }
    }

    /// Returns the thread of this worker, or `None` if the worker has no thread yet.
    ///
    /// A worker gets another thread when its own thread blocks in place. For a current-thread
    /// runtime, returns the thread that last ran tasks in `block_on`.
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
    /// let worker = Handle::current().metrics().worker_thread_id(0);
    /// assert_eq!(worker, Some(std::thread::current().id()));
    /// # }
    /// ```
    #[track_caller]
    pub fn worker_thread_id(&self, worker: usize) -> Option<ThreadId> {
        self.assert_worker(worker);
        match &self.handle.shared.flavor {
            Flavor::Current(scheduler) => scheduler.poll_watch().std_thread(),
            Flavor::Multi(scheduler) => scheduler.workers[worker].poll_watch.std_thread(),
        }
    }

    /// Returns the histogram of poll durations.
    ///
    /// The durations are sampled. A worker times the first poll after a check of its timers and
    /// I/O; that duration represents all polls since the previous check. A busy worker does so
    /// after one in 16 checks, and the duration represents 16 times as many polls. A poll of 10 ms
    /// or longer is counted individually if it is timed, or if the watchdog observes it. The
    /// watchdog observes polls from 30 ms on, or from 60 ms on a current-thread runtime. Several
    /// such polls between two checks count as one. The maximum is the longest poll that was timed
    /// or observed.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Handle;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let times = Handle::current().metrics().poll_times();
    /// println!("p50 {:?}, p99 {:?}, max {:?}", times.p50(), times.p99(), times.max());
    /// # }
    /// ```
    pub fn poll_times(&self) -> Histogram {
        Histogram::of_polls(&self.handle.shared.inspectable().workers())
    }

    /// Returns the histogram of the times between a task's wake-up and its poll.
    ///
    /// The times are sampled. A worker times one of its own wake-ups after a check of its timers
    /// and I/O; a busy worker does so after one in 16 checks. Wake-ups that unpark an idle runtime
    /// are also timed.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Handle;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let times = Handle::current().metrics().wake_to_poll_times();
    /// println!("p50 {:?}, p99 {:?}, max {:?}", times.p50(), times.p99(), times.max());
    /// # }
    /// ```
    pub fn wake_to_poll_times(&self) -> Histogram {
        Histogram::of_wake_ups(&self.handle.shared.inspectable().workers())
    }

    /// Returns the number of spare threads that currently replace stuck workers.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Handle;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// assert_eq!(Handle::current().metrics().spare_threads(), 0);
    /// # }
    /// ```
    pub fn spare_threads(&self) -> usize {
        match &self.handle.shared.flavor {
            Flavor::Current(_) => 0,
            Flavor::Multi(scheduler) => scheduler.spares.len(),
        }
    }

    /// Returns how many spare threads have been started.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Handle;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// assert_eq!(Handle::current().metrics().spare_threads_started(), 0);
    /// # }
    /// ```
    pub fn spare_threads_started(&self) -> u64 {
        match &self.handle.shared.flavor {
            Flavor::Current(_) => 0,
            Flavor::Multi(scheduler) => scheduler.spares.started(),
        }
    }

    /// Returns how many times spare threads have polled a task.
    ///
    /// [`worker_poll_count`](Self::worker_poll_count) does not include them.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Handle;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// assert_eq!(Handle::current().metrics().spare_thread_polls(), 0);
    /// # }
    /// ```
    pub fn spare_thread_polls(&self) -> u64 {
        match &self.handle.shared.flavor {
            Flavor::Current(_) => 0,
            Flavor::Multi(scheduler) => scheduler.spares.polls(),
        }
    }
}
