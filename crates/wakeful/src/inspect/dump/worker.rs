//! One worker in a dump.

use super::TaskDump;
use crate::inspect::who::Who;
use crate::scheduler::look::{Doing, WorkerLook};
use std::time::Duration;

/// A worker at one moment. The one worker of a current-thread runtime is the thread
/// in `block_on` that runs its tasks.
#[derive(Clone, Debug)]
pub struct WorkerDump {
    index: usize,
    state: WorkerState,
    task: Option<Who>,
    how_long: Option<Duration>,
    look: WorkerLook,
}

/// What a worker does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WorkerState {
    /// There is no thread for it yet: there was no need.
    NotStarted,
    /// It sleeps until there is work, a timer goes off or a descriptor is ready.
    Asleep,
    /// It looks for work.
    Searching,
    /// It polls a task, or, as the thread of a current-thread runtime, the future of its
    /// `block_on`.
    Polling,
}

impl WorkerState {
    /// A word or two for it.
    pub fn name(self) -> &'static str {
        match self {
            WorkerState::NotStarted => "not started",
            WorkerState::Asleep => "asleep",
            WorkerState::Searching => "searching",
            WorkerState::Polling => "polling",
        }
    }
}

impl WorkerDump {
    pub(super) fn new(index: usize, look: &WorkerLook, now: Duration, tasks: &[TaskDump]) -> Self {
        let who = |task: Option<&TaskDump>| task.map(|task| task.who().clone());
        let (state, task, how_long) = match look.doing {
            Doing::Nothing => (WorkerState::NotStarted, None, None),
            Doing::Sleeps(since) => (WorkerState::Asleep, None, Some(now.saturating_sub(since))),
            Doing::Looks => (WorkerState::Searching, None, None),
            Doing::Polls(cell, how_long) => {
                (WorkerState::Polling, who(tasks.iter().find(|task| task.cell == cell)), how_long)
            }
            Doing::PollsRoot(root) => {
                let root = tasks.iter().find(|task| task.who().number == root);
                (WorkerState::Polling, who(root), None)
            }
        };
        Self { index, state, task, how_long, look: look.clone() }
    }

    /// Its number, from 0.
    pub fn index(&self) -> usize {
        self.index
    }

    /// What it does.
    pub fn state(&self) -> WorkerState {
        self.state
    }

    /// What it polls.
    pub fn task(&self) -> Option<&Who> {
        self.task.as_ref()
    }

    /// How long it has slept, or been seen in the same poll: the monitor looks every
    /// 10 ms, the thread that watches current-thread runtimes every 25, so a poll that began
    /// since has no time yet.
    pub fn how_long(&self) -> Option<Duration> {
        self.how_long
    }

    /// How many tasks wait in its own queue, not counting the one that is to run
    /// next.
    pub fn queued(&self) -> usize {
        self.look.queued
    }

    /// How many timers it has.
    pub fn timers(&self) -> usize {
        self.look.timers
    }

    /// How many descriptors it watches.
    pub fn sources(&self) -> usize {
        self.look.sources
    }

    /// How many polls it has made, as of the last turn of its loop.
    pub fn polls(&self) -> u64 {
        self.look.polls
    }

    /// How long it was at work.
    pub fn busy(&self) -> Duration {
        self.look.busy
    }
}
