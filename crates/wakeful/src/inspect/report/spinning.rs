//! A task that wakes itself all the time.

use crate::inspect::who::Who;
use std::fmt;
use std::time::Duration;

/// A task that is polled again and again because it wakes itself in every poll,
/// and never gets anywhere.
#[derive(Clone, Debug)]
pub struct Spinning {
    task: Who,
    polls: u32,
    within: Duration,
}

impl Spinning {
    pub(crate) fn new(task: Who, polls: u32, within: Duration) -> Self {
        Self { task, polls, within }
    }

    /// The task.
    pub fn task(&self) -> &Who {
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
        write!(
            f,
            "{} spins: it was polled {} times in {} ms, each time because it woke itself.\n  spawned \
             at {}\n  likely cause: a future calls cx.waker().wake_by_ref() and returns Pending \
             instead of leaving the waker with what it waits for. Wait on a \
             wakeful::sync::Notify or a channel, or sleep between two looks.",
            self.task,
            self.polls,
            self.within.as_millis(),
            self.task.spawned_at()
        )
    }
}
