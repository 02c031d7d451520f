//! MetricsSnapshot about a runtime.

use super::{FileBackend, Handle};
use crate::inspect::{Histogram, MetricsSnapshot};
use crate::runtime::inner::Flavor;
use crate::task::state::COMPLETE;
use crate::telemetry::worker_metrics::WorkerMetrics;
use std::fmt;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// MetricsSnapshot about a runtime, read at the moment of each call; from
/// [`Handle::metrics`].
#[derive(Clone, Debug)]
pub struct RuntimeMetrics {
    handle: Handle,
}

impl RuntimeMetrics {
    pub(crate) fn new(handle: Handle) -> Self {
        Self { handle }
    }

    /// How many worker threads the runtime may use; 1 for a current-thread one.
    pub fn num_workers(&self) -> usize {
        match &self.handle.shared.flavor {
            Flavor::Current(_) => 1,
            Flavor::Multi(scheduler) => scheduler.remotes.len(),
        }
    }

    #[track_caller]
    fn meter(&self, worker: usize) -> &WorkerMetrics {
        let workers = self.num_workers();
        assert!(worker < workers, "there is no worker {worker}: they are 0 to {}", workers - 1);
        match &self.handle.shared.flavor {
            Flavor::Current(scheduler) => &scheduler.meter,
            Flavor::Multi(scheduler) => &scheduler.remotes[worker].meter,
        }
    }

    /// How long this worker was at work, by the runtime's clock: the turns in
    /// which it polled tasks, whole, with the moments in which it looked for more.
    /// A turn is counted when it ends, after
    /// [`event_interval`](super::Builder::event_interval) polls or when the worker
    /// runs out of tasks.
    ///
    /// # Panics
    ///
    /// If there is no such worker.
    #[track_caller]
    pub fn worker_total_busy_duration(&self, worker: usize) -> Duration {
        self.meter(worker).busy()
    }

    /// How often this worker went to sleep for want of tasks. A worker that got no
    /// thread yet sleeps since the start.
    ///
    /// # Panics
    ///
    /// If there is no such worker.
    #[track_caller]
    pub fn worker_park_count(&self, worker: usize) -> u64 {
        self.meter(worker).parks()
    }

    /// How often this worker went to sleep or woke up: odd means that it sleeps.
    ///
    /// # Panics
    ///
    /// If there is no such worker.
    #[track_caller]
    pub fn worker_park_unpark_count(&self, worker: usize) -> u64 {
        self.meter(worker).parks_and_unparks()
    }

    /// How many tasks are alive: spawned and not ended. Closures for the
    /// blocking pool do not count, and neither here nor elsewhere do the tasks of a
    /// `LocalSet`: these belong to the set.
    pub fn num_alive_tasks(&self) -> usize {
        use crate::task::state::{BLOCKING, COMPLETE};
        let mut alive = 0;
        self.handle.shared.for_each_task(|task| {
            alive += usize::from(!task.state().has(COMPLETE | BLOCKING));
        });
        alive
    }

    /// How many tasks wait in the queue that all workers share.
    pub fn global_queue_depth(&self) -> usize {
        match &self.handle.shared.flavor {
            Flavor::Current(scheduler) => scheduler.injected(),
            Flavor::Multi(scheduler) => scheduler.injector.len(),
        }
    }

    /// How many threads the blocking pool has at the moment.
    pub fn num_blocking_threads(&self) -> usize {
        self.handle.shared.pool.threads()
    }

    /// How many timers wait for their time.
    pub fn num_timers(&self) -> usize {
        match &self.handle.shared.flavor {
            Flavor::Current(scheduler) => scheduler.timers.len(),
            Flavor::Multi(scheduler) => {
                scheduler.remotes.iter().map(|remote| remote.timers.len()).sum()
            }
        }
    }

    /// Who carries out operations on files that cannot be done at once:
    /// [`FileBackend::Uring`] or [`FileBackend::Pool`].
    pub fn file_backend(&self) -> FileBackend {
        self.handle.shared.file_backend()
    }

    /// How many operations on files went through io_uring so far.
    pub fn file_operations_in_uring(&self) -> u64 {
        self.handle.shared.files.in_rings.load(Relaxed)
    }

    /// How many operations on files went to the blocking pool so far. What was
    /// done at once, from what the system has in memory, is counted nowhere.
    pub fn file_operations_in_pool(&self) -> u64 {
        self.handle.shared.files.in_pool.load(Relaxed)
    }

    /// How many spare threads stand in for workers that are stuck in a poll.
    pub fn spare_threads(&self) -> usize {
        match &self.handle.shared.flavor {
            Flavor::Current(_) => 0,
            Flavor::Multi(scheduler) => scheduler.spares.len(),
        }
    }

    /// How many spare threads were started so far.
    pub fn spare_threads_started(&self) -> u64 {
        match &self.handle.shared.flavor {
            Flavor::Current(_) => 0,
            Flavor::Multi(scheduler) => scheduler.spares.started(),
        }
    }

    /// How many polls spare threads have made; those of workers do not count them.
    pub fn spare_thread_polls(&self) -> u64 {
        match &self.handle.shared.flavor {
            Flavor::Current(_) => 0,
            Flavor::Multi(scheduler) => scheduler.spares.polls(),
        }
    }

    /// How many tasks were spawned so far, closures for the blocking pool included.
    pub fn spawned_tasks(&self) -> u64 {
        self.handle.shared.looks().spawned()
    }

    /// How many tasks have ended so far.
    pub fn finished_tasks(&self) -> u64 {
        self.spawned_tasks().saturating_sub(self.unfinished())
    }

    /// How many tasks panicked so far.
    pub fn panicked_tasks(&self) -> u64 {
        self.handle.shared.panics()
    }

    /// How many tasks, and closures, have not ended.
    fn unfinished(&self) -> u64 {
        let mut alive = 0;
        self.handle.shared.for_each_task(|task| alive += u64::from(!task.state().has(COMPLETE)));
        alive
    }

    /// How often this worker polled a task, as of the last turn of its loop.
    ///
    /// # Panics
    ///
    /// If there is no such worker.
    #[track_caller]
    pub fn worker_poll_count(&self, worker: usize) -> u64 {
        self.meter(worker).polls()
    }

    /// How often this worker took tasks from another one's queue.
    ///
    /// # Panics
    ///
    /// If there is no such worker.
    #[track_caller]
    pub fn worker_steal_count(&self, worker: usize) -> u64 {
        self.meter(worker).steals()
    }

    /// How long polls take. By samples: the first poll of each turn of a worker's loop
    /// is timed and counts for all of the turn before. Polls of 10 ms and longer count
    /// for themselves: if they are timed, or if the thread that watches sees them last, as it
    /// does from 30 ms on, or 60 on a current-thread runtime; those of one turn as one. The longest is the longest that anybody saw.
    pub fn poll_times(&self) -> Histogram {
        Histogram::of_polls(&self.handle.shared.looks().workers())
    }

    /// How long tasks wait between their wake-up and their poll. By samples: one
    /// wake-up per turn, of those that come from the worker itself, and those that wake
    /// a runtime that sleeps.
    pub fn wake_to_poll_times(&self) -> Histogram {
        Histogram::of_wake_ups(&self.handle.shared.looks().workers())
    }

    /// How many descriptors are watched.
    pub fn num_sources(&self) -> usize {
        self.handle.shared.looks().workers().iter().map(|worker| worker.sources).sum()
    }

    /// How many reports there were, by kind.
    pub fn reports(&self) -> Vec<(&'static str, u64)> {
        self.handle.shared.reporter.counts().to_vec()
    }

    /// All of it in the text exposition format of Prometheus; each name begins with
    /// `wakeful_`, and the runtime's name is a label.
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// wakeful::spawn(async {}).await.unwrap();
    /// let page = wakeful::runtime::Handle::current().metrics().prometheus();
    /// assert!(page.contains("wakeful_tasks_spawned_total{runtime=\"\"} 1"));
    /// # }
    /// ```
    pub fn prometheus(&self) -> String {
        self.numbers().prometheus()
    }

    fn numbers(&self) -> MetricsSnapshot {
        let shared = &self.handle.shared;
        let looks = shared.looks();
        let (pool_threads, pool_idle, pool_queued) = shared.pool.look();
        MetricsSnapshot {
            runtime: shared.name.clone(),
            alive: self.unfinished(),
            spawned: self.spawned_tasks(),
            panicked: self.panicked_tasks(),
            queued: looks.injected() as u64,
            workers: looks.workers_and_queues(),
            pool_threads: pool_threads as u64,
            pool_idle: pool_idle as u64,
            pool_queued: pool_queued as u64,
            spares: self.spare_threads() as u64,
            spares_started: self.spare_threads_started(),
            spare_polls: self.spare_thread_polls(),
            reports: self.reports(),
        }
    }

    /// How many tasks were reported as orphans so far.
    pub fn orphaned_tasks(&self) -> u64 {
        self.handle.shared.reporter.orphans()
    }
}

/// All of it, in a few lines for a person.
impl fmt::Display for RuntimeMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.numbers().fmt(f)
    }
}
