//! The view of a runtime that diagnostics use.

#[cfg(feature = "page")]
use crate::inspect::TokioMetrics;
use crate::inspect::runtimes::{CURRENT_THREAD, InspectedRuntime, PoolCounts};
use crate::inspect::{Dump, MetricsSnapshot};
use crate::runtime::inner::{Flavor, RuntimeInner};
use crate::runtime::registry::Peer;
use crate::runtime::{Handle, RuntimeMetrics};
use crate::task::Id;
use crate::task::state::COMPLETE;
use crate::telemetry::trace_buffer::TracePart;
use crate::watchdog::snapshot::Inspectable;
use std::sync::Arc;

impl InspectedRuntime for RuntimeInner {
    fn id(&self) -> u64 {
        self.id.as_u64()
    }

    fn inspectable(&self) -> &dyn Inspectable {
        RuntimeInner::inspectable(self)
    }

    fn alive_tasks(&self) -> u64 {
        let mut alive = 0;
        self.for_each_task(|task| alive += u64::from(!task.state().has(COMPLETE)));
        alive
    }

    fn dump(&self) -> Dump {
        RuntimeInner::dump(self)
    }

    fn flavor(&self) -> &'static str {
        match &self.flavor {
            Flavor::Current(_) if self.config().env.simulated.is_some() => "simulated",
            Flavor::Current(_) => CURRENT_THREAD,
            Flavor::Multi(_) => "multi-thread",
        }
    }

    fn metrics(self: Arc<Self>) -> MetricsSnapshot {
        RuntimeMetrics::new(Handle::from_shared(self)).snapshot()
    }

    #[cfg(feature = "page")]
    fn tokio_metrics(self: Arc<Self>) -> TokioMetrics {
        RuntimeMetrics::new(Handle::from_shared(self)).end_tokio_interval()
    }

    fn pool_counts(&self) -> PoolCounts {
        let (threads, idle, queued) = self.pool.counts();
        PoolCounts { threads: threads as u64, idle: idle as u64, queued: queued as u64 }
    }

    fn spare_threads(&self) -> u64 {
        match &self.flavor {
            Flavor::Current(_) => 0,
            Flavor::Multi(scheduler) => scheduler.spares.len() as u64,
        }
    }

    fn is_recording(&self) -> bool {
        self.hooks.reporter.trace.is_enabled()
    }

    fn set_recording(&self, on: bool) {
        let inspectable = RuntimeInner::inspectable(self);
        inspectable.recorders().iter().for_each(|recorder| recorder.set_enabled(on));
        inspectable.base().external_trace.set_enabled(on);
        self.hooks.reporter.trace.set_enabled(on);
    }

    fn recorded(&self, from: &[u64]) -> Vec<(String, TracePart)> {
        let from = |row: usize| from.get(row).copied().unwrap_or(0);
        let inspectable = RuntimeInner::inspectable(self);
        let workers = inspectable.recorders().into_iter().enumerate();
        let mut rows: Vec<_> = workers
            .map(|(row, worker)| (format!("worker {row}"), worker.read_from(from(row))))
            .collect();
        let others = inspectable.base().external_trace.read_from(from(rows.len()));
        rows.push(("other threads".to_owned(), others));
        let reports = self.hooks.reporter.trace.read_from(from(rows.len()));
        rows.push(("reports".to_owned(), reports));
        rows
    }

    fn abort(&self, id: u64) -> bool {
        let mut found = None;
        RuntimeInner::inspectable(self).each_task(&mut |task| {
            if task.header().id.get() == id && !task.state().has(COMPLETE) {
                found = Some(task);
            }
        });
        // Not inside the walk, because the abort may have to queue the task.
        found.inspect(|task| task.abort(0)).is_some()
    }
}

/// A runtime in a list; a shutdown waits until the peer is dropped (PEER-1).
impl InspectedRuntime for Peer {
    fn id(&self) -> u64 {
        InspectedRuntime::id(&**self)
    }

    fn inspectable(&self) -> &dyn Inspectable {
        InspectedRuntime::inspectable(&**self)
    }

    fn alive_tasks(&self) -> u64 {
        (**self).alive_tasks()
    }

    fn dump(&self) -> Dump {
        InspectedRuntime::dump(&**self)
    }

    fn flavor(&self) -> &'static str {
        InspectedRuntime::flavor(&**self)
    }

    fn metrics(self: Arc<Self>) -> MetricsSnapshot {
        RuntimeMetrics::new(self.handle()).snapshot()
    }

    #[cfg(feature = "page")]
    fn tokio_metrics(self: Arc<Self>) -> TokioMetrics {
        RuntimeMetrics::new(self.handle()).end_tokio_interval()
    }

    fn pool_counts(&self) -> PoolCounts {
        (**self).pool_counts()
    }

    fn spare_threads(&self) -> u64 {
        (**self).spare_threads()
    }

    fn is_recording(&self) -> bool {
        (**self).is_recording()
    }

    fn set_recording(&self, on: bool) {
        (**self).set_recording(on);
    }

    fn recorded(&self, from: &[u64]) -> Vec<(String, TracePart)> {
        (**self).recorded(from)
    }

    fn abort(&self, id: u64) -> bool {
        (**self).abort(id)
    }
}

impl Handle {
    /// Aborts the task with this id, as [`JoinHandle::abort`](crate::task::JoinHandle::abort) does.
    ///
    /// Returns false if this runtime has no live task with that id. This method is for tools that
    /// know a task from a dump: it searches all tasks, so prefer an
    /// [`AbortHandle`](crate::task::AbortHandle) in programs.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Handle;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let task = wakeful::spawn(wakeful::time::sleep(std::time::Duration::from_secs(3600)));
    /// assert!(Handle::current().abort(task.id()));
    /// assert!(task.await.unwrap_err().is_cancelled());
    /// # }
    /// ```
    pub fn abort(&self, id: Id) -> bool {
        InspectedRuntime::abort(&*self.shared, id.as_u64())
    }
}
