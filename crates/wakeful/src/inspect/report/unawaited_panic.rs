//! A panic that no task has learned of, because the JoinHandle is kept and not awaited.

use super::Content;
use super::stamp::Stamp;
use super::text::{Short, field};
use crate::inspect::task_info::TaskInfo;
use std::fmt;
use std::time::Duration;

/// A task that panicked some seconds ago, and whose `JoinHandle` or `JoinSet` is alive and has not
/// returned the panic.
///
/// It is [suspected](super::Certainty::Suspected): the program may still await the handle. If it drops
/// the handle instead, the panic is reported as [`UnobservedPanic`](super::UnobservedPanic).
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

    /// Returns whether it is a closure of [`spawn_blocking`](crate::task::spawn_blocking).
    pub fn is_closure(&self) -> bool {
        self.is_closure
    }

    /// Returns how long ago it panicked, at least.
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
            "unawaited panic (suspected): {noun}{} panicked at least {} ago, and its JoinHandle is kept and was not \
             awaited since",
            self.task,
            Short(self.since)
        )?;
        field(f, "    ", "spawned", format_args!("at {}", self.task.spawned_at()))?;
        f.write_str(
            "  effect: no code of the program knows of the panic yet.\n  \
             likely cause: handles are awaited one after the other, and an earlier one does not end; or they are \
             awaited only at shutdown.\n  \
             fix: collect the tasks in a JoinSet and await join_next, await the handles with try_join!, or shut the \
             runtime down on a panic with Builder::unhandled_panic(UnhandledPanic::ShutdownRuntime).",
        )
    }
}
