//! Panics that no code has observed, because the `JoinHandle` is kept but not awaited.

use super::Content;
use super::stamp::Stamp;
use super::text::{Short, field};
use crate::inspect::task_info::TaskInfo;
use std::fmt;
use std::time::Duration;

/// A task that panicked seconds ago and whose `JoinHandle` is kept but has not been awaited.
///
/// A [`JoinSet`](crate::task::JoinSet) that keeps the task counts as a handle. The report is
/// [suspected](super::Certainty::Suspected): the program may still await the handle. If it drops
/// the handle instead, the panic is reported as [`UnobservedPanic`](super::UnobservedPanic).
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use wakeful::inspect::Report;
/// use wakeful::runtime::{Builder, Handle};
///
/// let rt = Builder::new_current_thread()
///     .report_lasting_after(Some(Duration::ZERO))
///     .on_report(|_| {})
///     .build()?;
/// rt.block_on(async {
///     let task = wakeful::spawn(async { panic!("a bug") });
///     wakeful::task::yield_now().await;
///     let found = Handle::current().diagnose();
///     let Report::UnawaitedPanic(report) = &found[0] else { panic!("{found:?}") };
///     assert_eq!(report.task().id(), Some(task.id()));
///     assert!(task.await.unwrap_err().is_panic());
/// });
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct UnawaitedPanic {
    task: TaskInfo,
    is_closure: bool,
    since: Duration,
    stamp: Stamp,
}

impl UnawaitedPanic {
    pub(crate) fn new(task: TaskInfo, is_closure: bool, since: Duration) -> Self {
        Self { task, is_closure, since, stamp: Stamp::now() }
    }

    /// Returns the task.
    pub fn task(&self) -> &TaskInfo {
        &self.task
    }

    /// Returns whether the task is a closure of [`spawn_blocking`](crate::task::spawn_blocking).
    pub fn is_closure(&self) -> bool {
        self.is_closure
    }

    /// Returns the minimum time since the task panicked.
    pub fn since(&self) -> Duration {
        self.since
    }
}

impl Content for UnawaitedPanic {
    fn stamp(&self) -> &Stamp {
        &self.stamp
    }

    fn tasks(&self) -> Vec<&TaskInfo> {
        vec![&self.task]
    }
}

impl fmt::Display for UnawaitedPanic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let noun = if self.is_closure { "the closure of " } else { "" };
        writeln!(
            f,
            "unawaited panic (suspected): {noun}{} panicked at least {} ago, and its JoinHandle is kept but has not been \
             awaited since",
            self.task,
            Short(self.since)
        )?;
        field(f, "    ", "spawned", format_args!("at {}", self.task.spawned_at()))?;
        f.write_str(
            "  effect: no code of the program has observed the panic yet.\n  \
             likely cause: handles are awaited one after the other, and an earlier one does not end; or they are \
             awaited only at shutdown.\n  \
             fix: collect the tasks in a JoinSet and await join_next, await the handles with try_join!, or shut the \
             runtime down on any panic with Builder::unhandled_panic(UnhandledPanic::ShutdownRuntime).",
        )
    }
}
