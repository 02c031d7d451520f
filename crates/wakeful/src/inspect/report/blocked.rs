//! A poll that does not return.

use super::text::{Short, field};
use crate::inspect::task_info::TaskInfo;
use crate::scheduler::config::BlockedPoll;
use std::fmt;
use std::time::Duration;

/// A task that has been inside one poll for long: it waits with its thread, or computes,
/// where it should await.
///
/// The text states what was seen. The poll may return later, so the report counts as
/// [suspected](super::Certainty::Suspected). Time in which a thread of the process was ready to run and had no CPU does
/// not count, unless the poll sleeps.
#[derive(Clone, Debug)]
pub struct Blocked {
    task: TaskInfo,
    worker: Option<usize>,
    /// There is no other thread for the tasks of the runtime.
    alone: bool,
    duration: Duration,
    stack: Vec<String>,
}

impl Blocked {
    pub(crate) fn new(task: TaskInfo, stall: &BlockedPoll, stack: Vec<String>) -> Self {
        let BlockedPoll { worker, alone, duration, .. } = *stall;
        Self { task, worker, alone, duration, stack }
    }

    /// The task.
    pub fn task(&self) -> &TaskInfo {
        &self.task
    }

    /// The worker whose thread it blocks; `None` for a thread that stood in for one. The
    /// thread in `block_on` of a current-thread runtime is worker 0.
    pub fn worker(&self) -> Option<usize> {
        self.worker
    }

    /// How long the poll had lasted when it was reported.
    pub fn duration(&self) -> Duration {
        self.duration
    }

    /// The functions that the thread was in at that moment, the innermost first, up to
    /// the task's own future. Empty where the system does not let us look, and in a system
    /// call that looking would end.
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
            None => f.write_str("a spare thread\n")?,
        }
        field(f, "    ", "spawned", format_args!("at {}", self.task.spawned_at()))?;
        for (nth, function) in self.stack.iter().enumerate() {
            let name = if nth == 0 { "stack" } else { "" };
            field(f, "    ", name, format_args!("{nth:>2}: {function}"))?;
        }
        f.write_str(match self.alone {
            true => "  effect: no other task of the runtime runs meanwhile.\n",
            false => "  effect: other tasks run on other threads meanwhile.\n",
        })?;
        f.write_str(
            "  fix: use the async counterpart of what blocks here (wakeful::time::sleep, wakeful::fs, \
             wakeful::sync), move it into wakeful::task::spawn_blocking, or, if it computes, call \
             wakeful::task::yield_now now and then.",
        )
    }
}
