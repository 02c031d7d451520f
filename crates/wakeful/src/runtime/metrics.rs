//! Numbers about a runtime.

use super::Handle;
use super::shared::Flavor;

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
            Flavor::Multi(scheduler) => scheduler.injector.len_hint(),
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

    /// How many tasks were reported as orphans so far.
    pub fn orphaned_tasks(&self) -> u64 {
        self.handle.shared.reporter.orphans()
    }
}
