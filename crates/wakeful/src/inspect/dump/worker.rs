//! One worker in a dump.

use super::TaskDump;
use crate::inspect::task_info::TaskInfo;
use crate::watchdog::snapshot::{WorkerActivity, WorkerSnapshot};
use std::time::Duration;

/// A worker at one moment. The one worker of a current-thread runtime is the thread
/// in `block_on` that runs its tasks.
#[derive(Clone, Debug)]
pub struct WorkerDump {
    index: usize,
    state: WorkerState,
    task: Option<TaskInfo>,
    duration: Option<Duration>,
    look: WorkerSnapshot,
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
    pub(super) fn new(
        index: usize,
        look: &WorkerSnapshot,
        now: Duration,
        tasks: &[TaskDump],
    ) -> Self {
        let who = |task: Option<&TaskDump>| task.map(|task| task.who().clone());
        let (state, task, duration) = match look.doing {
            WorkerActivity::Nothing => (WorkerState::NotStarted, None, None),
            WorkerActivity::Sleeps(since) => {
                (WorkerState::Asleep, None, Some(now.saturating_sub(since)))
            }
            WorkerActivity::Inspectable => (WorkerState::Searching, None, None),
            WorkerActivity::Polls(cell, duration) => {
                (WorkerState::Polling, who(tasks.iter().find(|task| task.cell == cell)), duration)
            }
            WorkerActivity::PollsRoot(root) => {
                let root = tasks.iter().find(|task| task.who().number == root);
                (WorkerState::Polling, who(root), None)
            }
        };
        Self { index, state, task, duration, look: look.clone() }
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
    pub fn task(&self) -> Option<&TaskInfo> {
        self.task.as_ref()
    }

    /// How long it has slept, or been seen in the same poll: the monitor looks every
    /// 10 ms, the thread that watches current-thread runtimes every 25, so a poll that began
    /// since has no time yet.
    pub fn duration(&self) -> Option<Duration> {
        self.duration
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
