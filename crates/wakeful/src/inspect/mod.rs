//! Why is my task not running? Dumps, reports, metrics and traces.
//!
//! - [`Dump`]: every task and worker at one moment, from
//!   [`Handle::dump`](crate::runtime::Handle::dump).
//! - [`Report`]: something that went wrong, told once, to
//!   [`Builder::on_report`](crate::runtime::Builder::on_report).
//!
//! For readers of the source: it reads what the other rooms record and puts it into
//! words. Nothing on the walk of a task depends on this room.

mod dump;
mod harness;
mod histogram;
mod json;
mod prometheus;
mod report;
mod symbols;
mod task_info;
mod trace;
mod wait_graph;

pub use histogram::Histogram;

pub use dump::{Dump, HolderDump, TaskDump, TaskState, WaitDump, WorkerDump, WorkerState};
pub(crate) use prometheus::Numbers;
pub use report::{
    Blocked, Certainty, Deadlock, Edge, Futurelock, Orphan, Report, Spinning, StuckBlockOn,
    UnobservedPanic,
};
pub(crate) use report::{ReportHook, Reporter};
pub(crate) use symbols::stack_of;
pub use task_info::TaskInfo;
pub(crate) use trace::chrome_trace;
pub(crate) use wait_graph::{Found, detect};
