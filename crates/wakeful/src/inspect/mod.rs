//! Answers the question why a task is not running: dumps, reports, metrics and traces.
//!
//! - [`Dump`]: all tasks and workers of a runtime, with what each task waits for. Taken by
//!   [`Handle::dump`](crate::runtime::Handle::dump).
//! - [`Report`]: a bug that the runtime found in the program. Delivered to
//!   [`Builder::on_report`](crate::runtime::Builder::on_report), or printed to stderr.
//! - [`ShutdownReport`]: what a shutdown found and left behind. Returned by
//!   [`Runtime::shutdown_with_report`](crate::runtime::Runtime::shutdown_with_report).
//! - [`Snapshot`]: all runtimes of the process, with tasks by spawn site. Taken by [`snapshot()`].
//! - `page` (feature `page`): all of it live, in a browser.
//! - [`Histogram`]: how long polls took, and how long tasks waited in run queues. Part of
//!   [`RuntimeMetrics`](crate::runtime::RuntimeMetrics).

// Inside: this module reads the records of the other modules and formats them. No scheduling decision depends on it.
// `wait_graph` is the deadlock scan, and `findings` remembers what lasts. `stack` shows the frames of a thread, and
// `symbols` names their functions. `prometheus` writes metrics, `tokio_names` the metrics under the names of
// tokio-metrics, and `trace` the trace buffer. `harness` recognises the test harness.

mod dump;
mod findings;
mod harness;
mod histogram;
mod json;
#[cfg(feature = "page")]
pub mod page;
mod prometheus;
mod report;
pub(crate) mod runtimes;
mod shutdown_report;
mod snapshot;
mod stack;
mod symbols;
mod task_data;
mod task_info;
mod tokio_names;
mod trace;
mod wait_graph;

pub use histogram::Histogram;

pub use dump::{
    Dump, FullDump, HolderDump, TaskDump, TaskState, TaskTrace, WaitDump, WorkerDump, WorkerState,
};
pub(crate) use findings::{Audience, Findings, Observed};
pub(crate) use prometheus::MetricsSnapshot;
pub use report::{
    AbortedClosure, Blocked, Certainty, Deadlock, Edge, Exit, FutileLoop, Futurelock, GrowingTasks,
    LastingHolder, LateTask, LateThread, NeverPolled, Orphan, Report, ReportFilter, ReportFormat,
    SlowHolder, SlowShutdown, Spinning, Stalled, StuckBlockOn, UnawaitedPanic, UnobservedPanic,
};
pub(crate) use report::{Delivery, ReportHook, Reporter, Stamped};
pub(crate) use report::{MAX_LISTED_THREADS, fatal_panic_text, panic_text};
pub use shutdown_report::ShutdownReport;
pub use snapshot::{RuntimeSnapshot, Snapshot, SpawnGroup, WaitGroup, snapshot};
pub use stack::StackFrame;
pub(crate) use stack::{Stack, is_library_source, stack_text};
pub(crate) use task_data::defer_drops;
pub use task_info::TaskInfo;
pub(crate) use tokio_names::{
    TokioIntervals, TokioMetrics, TokioReadings, WorkerReadings, prometheus as tokio_prometheus,
};
pub(crate) use trace::{TraceEvent, chrome_trace, write_trace};
pub(crate) use wait_graph::{ScanMode, ScanResult, scan, scan_hosts};

/// Sets how long a task must spin before it is reported, for all runtimes of the process.
///
/// For the runtime's own tests, which keep a CPU busy for that long. Not part of the API.
#[cfg(feature = "test-util")]
#[doc(hidden)]
pub fn set_spin_window(window: std::time::Duration) {
    crate::sys::spin_window::set(window);
}
