//! Access to all runtimes of the process, for diagnostics that cover more than one.
//!
//! The list itself is in `runtime::registry`. This module may not depend on `runtime`, so the
//! registry passes in a function that returns the list.

use super::MetricsSnapshot;
#[cfg(feature = "page")]
use super::TokioMetrics;
use super::dump::Dump;
use crate::sys::sort::sort_by_key;
use crate::telemetry::trace_buffer::TracePart;
use crate::watchdog::snapshot::Inspectable;
use std::sync::{Arc, OnceLock};

/// The interface of a runtime towards diagnostics.
pub(crate) trait InspectedRuntime: Send + Sync {
    /// Returns its id, which is unique in the process.
    fn id(&self) -> u64;
    fn inspectable(&self) -> &dyn Inspectable;
    /// Returns how many tasks and closures have not ended, without tasks of a `LocalSet`.
    fn alive_tasks(&self) -> u64;
    /// Takes a dump that includes the findings of a scan.
    fn dump(&self) -> Dump;
    /// Returns the name of its flavor, such as [`CURRENT_THREAD`].
    fn flavor(&self) -> &'static str;
    /// Returns its metrics. Counts the tasks one by one.
    fn metrics(self: Arc<Self>) -> MetricsSnapshot;
    /// Returns its metrics under the names of tokio-metrics, and ends their current interval.
    #[cfg(feature = "page")]
    fn tokio_metrics(self: Arc<Self>) -> TokioMetrics;
    /// Returns the threads and closures of its blocking pool.
    fn pool_counts(&self) -> PoolCounts;
    /// Returns how many spare workers replace stuck ones.
    fn spare_threads(&self) -> u64;
    /// Returns whether its flight recorder is on.
    fn is_recording(&self) -> bool;
    /// Turns its flight recorder on or off.
    fn set_recording(&self, on: bool);
    /// Returns the recorded events: one row for each worker, one for other threads, one for
    /// reports.
    ///
    /// A row begins at its position in `from`, or at the oldest event that is still in the buffer.
    fn recorded(&self, from: &[u64]) -> Vec<(String, TracePart)>;
    /// Aborts the task with this id. Returns false if there is none.
    fn abort(&self, id: u64) -> bool;
}

/// The flavor of a runtime that runs its tasks on the thread in `block_on`.
pub(crate) const CURRENT_THREAD: &str = "current-thread";

/// The threads and closures of a blocking pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolCounts {
    pub(crate) threads: u64,
    pub(crate) idle: u64,
    /// Closures that wait for a thread.
    pub(crate) queued: u64,
}

type List = fn() -> Vec<Arc<dyn InspectedRuntime>>;

static LIST: OnceLock<List> = OnceLock::new();

/// Sets the function that lists the runtimes. Only the first call has an effect.
pub(crate) fn set_list(list: List) {
    let _ = LIST.set(list);
}

/// Calls `f` with each runtime that exists, and collects the results.
///
/// Keeps at most one runtime alive at a time, so a slow `f` does not delay the end of the others.
pub(crate) fn map_each<R>(f: impl Fn(&dyn InspectedRuntime) -> R) -> Vec<R> {
    let ids: Vec<u64> = all().iter().map(|runtime| runtime.id()).collect();
    let find = |id| all().into_iter().find(|runtime| runtime.id() == id);
    ids.into_iter().filter_map(|id| find(id).map(|runtime| f(&*runtime))).collect()
}

/// Returns the runtimes that exist, in the order in which they were built.
pub(crate) fn all() -> Vec<Arc<dyn InspectedRuntime>> {
    let mut runtimes = LIST.get().map_or(Vec::new(), |list| list());
    sort_by_key(&mut runtimes, |runtime| runtime.id());
    runtimes
}
