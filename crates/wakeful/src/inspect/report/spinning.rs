//! A task that wakes itself all the time.

use super::text::{Short, field};
use crate::inspect::task_info::TaskInfo;
use std::fmt;
use std::time::Duration;

/// A task that is polled very often, nearly always because it woke itself.
///
/// It is [suspected](super::Certainty::Suspected) to wait by polling. That rests on the assumption that it does no work
/// in these polls, which wakeful cannot see. A task that yields with [`yield_now`](crate::task::yield_now), or that has
/// spent its budget, is not reported, nor is one whose polls take 2 µs and more on average.
#[derive(Clone, Debug)]
pub struct Spinning {
    task: TaskInfo,
    polls: u32,
    within: Duration,
}

impl Spinning {
    pub(crate) fn new(task: TaskInfo, polls: u32, within: Duration) -> Self {
        Self { task, polls, within }
    }

    /// The task.
    pub fn task(&self) -> &TaskInfo {
        &self.task
    }

    /// How often it was polled [within](Self::within) that time.
    pub fn polls(&self) -> u32 {
        self.polls
    }

    /// For how long it was watched.
    pub fn within(&self) -> Duration {
        self.within
    }
}

impl fmt::Display for Spinning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "spinning (suspected): {} was polled {} times in {}, nearly always because it woke itself",
            self.task,
            self.polls,
            Short(self.within)
        )?;
        field(f, "    ", "spawned", format_args!("at {}", self.task.spawned_at()))?;
        f.write_str(
            "  why: of 100 polls, at most one was for a wake-up by another task or thread.\n  \
             assumes: the polls do no work. If each of them does, this is no bug.\n  \
             likely cause: a future calls cx.waker().wake_by_ref() and returns Pending instead of leaving the waker \
             with what it waits for.\n  \
             fix: wait on a wakeful::sync::Notify or a channel, or sleep between two looks. If the polls do work, \
             give way with wakeful::task::yield_now().await, which is never reported.",
        )
    }
}
