//! A closure of the blocking pool that runs although it was aborted.

use super::Content;
use super::stamp::Stamp;
use super::text::{Short, field};
use crate::inspect::task_info::TaskInfo;
use std::fmt;
use std::time::Duration;

/// A closure of [`spawn_blocking`](crate::task::spawn_blocking) that was aborted while it ran, and still
/// runs some seconds later.
///
/// An abort has no effect on a closure that has started. It is
/// [suspected](super::Certainty::Suspected): the closure may end by itself.
#[derive(Clone, Debug)]
pub struct AbortedClosure {
    task: TaskInfo,
    since: Duration,
    stamp: Stamp,
}

impl AbortedClosure {
    pub(crate) fn new(task: TaskInfo, since: Duration) -> Self {
        Self { task, since, stamp: Stamp::now() }
    }

    /// Returns the closure, which is a task of the blocking pool.
    pub fn task(&self) -> &TaskInfo {
        &self.task
    }

    /// Returns how long ago it was aborted, at least.
    pub fn since(&self) -> Duration {
        self.since
    }
}

impl Content for AbortedClosure {
    fn stamp(&self) -> &Stamp {
        &self.stamp
    }

    fn tasks(&self) -> Vec<&TaskInfo> {
        vec![&self.task]
    }
}

impl fmt::Display for AbortedClosure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "aborted closure (suspected): the closure of {} was aborted at least {} ago, and still runs",
            self.task,
            Short(self.since)
        )?;
        field(f, "    ", "spawned", format_args!("at {}", self.task.spawned_at()))?;
        f.write_str(
            "  why: abort drops a future at its next .await. A closure of spawn_blocking has none, so an abort after \
             its start has no effect.\n  \
             effect: it keeps a thread of the blocking pool, and a drop of the runtime waits for it.\n  \
             fix: give the closure a flag or a channel, and return when it is set or closed.",
        )
    }
}
