//! A poll that blocks its thread.

use super::text::{Short, field};
use crate::inspect::task_info::TaskInfo;
use crate::scheduler::hooks::BlockedPoll;
use std::fmt;
use std::time::Duration;

/// A task whose poll has not returned for a long time: it blocks its thread or computes.
///
/// The poll may return later, so the report is always [suspected](super::Certainty::Suspected). Time in
/// which a thread of the process was ready to run and had no CPU does not count, unless the poll sleeps.
#[derive(Clone, Debug)]
pub struct Blocked {
    task: TaskInfo,
    worker: Option<usize>,
    /// The runtime has no other thread for its tasks.
    alone: bool,
    duration: Duration,
    stack: Vec<String>,
}

impl Blocked {
    pub(crate) fn new(task: TaskInfo, poll: &BlockedPoll, stack: Vec<String>) -> Self {
        let BlockedPoll { worker, alone, duration, .. } = *poll;
        Self { task, worker, alone, duration, stack }
    }

    /// Returns the task.
    pub fn task(&self) -> &TaskInfo {
        &self.task
    }

    /// Returns the index of the worker that it blocks, or `None` for a spare worker.
    ///
    /// The thread in `block_on` of a current-thread runtime is worker 0.
    pub fn worker(&self) -> Option<usize> {
        self.worker
    }

    /// Returns how long the poll had lasted when it was reported.
    pub fn duration(&self) -> Duration {
        self.duration
    }

    /// Returns the functions on the thread's stack, innermost first, up to the task's future.
    ///
    /// Empty if the system does not allow a stack capture, or if the thread is in a system call that
    /// the capture would interrupt.
    pub fn stack(&self) -> &[String] {
        &self.stack
    }
}

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "blocked: {} has been inside one poll for {}, on ",
            self.task,
            Short(self.duration)
        )?;
        match self.worker {
            Some(_) if self.alone => f.write_str("the only thread of its runtime\n")?,
            Some(worker) => writeln!(f, "worker {worker}")?,
            None => f.write_str("a spare worker\n")?,
        }
        field(f, "    ", "spawned", format_args!("at {}", self.task.spawned_at()))?;
        for (nth, function) in self.stack.iter().enumerate() {
            let name = if nth == 0 { "stack" } else { "" };
            field(f, "    ", name, format_args!("{nth:>2}: {function}"))?;
        }
        f.write_str(match self.alone {
            true => "  effect: no other task of the runtime runs.\n",
            false => "  effect: other tasks run on other threads.\n",
        })?;
        f.write_str(
            "  fix: use the async version of the blocking call (wakeful::time::sleep, wakeful::fs, \
             wakeful::sync), or move it into wakeful::task::spawn_blocking. If the poll computes, call \
             wakeful::task::yield_now().await at intervals.",
        )
    }
}
