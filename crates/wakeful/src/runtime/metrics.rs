//! Numbers about a runtime.

use super::shared::Flavor;
use super::{FileBackend, Handle};
use crate::scheduler::meter::Meter;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Numbers about a runtime, read at the moment of each call; from
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
    fn meter(&self, worker: usize) -> &Meter {
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
    /// blocking pool do not count.
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

    /// How many tasks were reported as orphans so far.
    pub fn orphaned_tasks(&self) -> u64 {
        self.handle.shared.reporter.orphans()
    }
}
