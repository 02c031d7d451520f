//! Why is my task not running? Reads what the rooms below record and puts it
//! into words. Nothing below depends on this room.

mod report;

pub use report::{Orphan, Report};
pub(crate) use report::{ReportHook, Reporter};
