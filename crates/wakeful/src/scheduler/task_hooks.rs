//! User hooks that the scheduler calls at the events of a task.
//!
//! Hooks cost nothing unless they are set, because the hot paths do not check for them:
//!
//! - Spawns and polls take a rare path while every event is observed: while the runtime is traced,
//!   or has hooks or exact histograms (`TraceBuffer::is_enabled`). Threads decide this once per
//!   round (`thread_core`), and for a wake-up together with the latency sample.
//! - The end of a task reads one word, which the live page also uses (`task::ended`).
//!
//! The spawn hook and the hooks around a poll run outside any poll. During them, the thread's
//! [`PollWatch`] shows no task, so `block_in_place` does not take the core from a worker's thread,
//! which needs the core afterwards. A spare worker stays active. A thread outside the runtime that
//! calls the spawn hook holds the task as an `UnqueuedTask`. The hook for the end of a task runs
//! inside the task's last poll.

use crate::sys::unwind::catch_and_forget;
use crate::task::header::Header;
use crate::task::meta::TaskMeta;
use crate::task::runnable::{Runnable, UnqueuedTask};
use crate::task::spawn_meta::SpawnMeta;
use crate::telemetry::poll_watch::PollWatch;
use std::sync::Arc;

/// A hook provided by the user.
pub(crate) type TaskCallback = Arc<dyn Fn(&TaskMeta<'_>) + Send + Sync>;

/// A user hook that may attach data to a task.
pub(crate) type SpawnCallback = Arc<dyn Fn(&mut SpawnMeta<'_>) + Send + Sync>;

/// The hooks of a runtime.
#[derive(Clone, Default)]
pub(crate) struct TaskHooks {
    /// The hook that sees all tasks, including tasks of local sets and closures.
    pub(crate) attach: Option<SpawnCallback>,
    pub(crate) on_spawn: Option<TaskCallback>,
    pub(crate) on_terminate: Option<TaskCallback>,
    pub(crate) before_poll: Option<TaskCallback>,
    pub(crate) after_poll: Option<TaskCallback>,
}

impl TaskHooks {
    /// Returns whether any hook observes spawns or polls.
    pub(crate) fn observe_spawns_or_polls(&self) -> bool {
        self.attach.is_some()
            || self.on_spawn.is_some()
            || self.before_poll.is_some()
            || self.after_poll.is_some()
    }

    /// Replaces each hook that is set in `other`.
    pub(crate) fn override_with(&mut self, other: TaskHooks) {
        let TaskHooks { attach, on_spawn, on_terminate, before_poll, after_poll } = other;
        self.attach = attach.or(self.attach.take());
        self.on_spawn = on_spawn.or(self.on_spawn.take());
        self.on_terminate = on_terminate.or(self.on_terminate.take());
        self.before_poll = before_poll.or(self.before_poll.take());
        self.after_poll = after_poll.or(self.after_poll.take());
    }

    /// Calls the spawn hooks, if the task is scheduled for the first time and so was never polled.
    ///
    /// `poll_watch` is the calling thread's, if it holds a core.
    pub(crate) fn call_on_spawn(&self, task: &Runnable, poll_watch: Option<&PollWatch>) {
        if (self.attach.is_some() || self.on_spawn.is_some()) && task.was_never_polled() {
            let _outside = poll_watch.map(OutsidePoll::new);
            self.call_attach(task);
            if let Some(hook) = &self.on_spawn {
                hook(&task.meta());
            }
        }
    }

    /// Calls the data hook for a task that is spawned on a local set or as a closure.
    ///
    /// The hook may panic, and the set or runtime may be closed during the call.
    pub(crate) fn attach_unqueued(&self, task: Runnable) -> Runnable {
        let task = UnqueuedTask::new(task);
        self.call_attach(&task);
        task.into_runnable()
    }

    fn call_attach(&self, task: &Runnable) {
        if let Some(hook) = &self.attach {
            SpawnMeta::call(task, &**hook);
        }
    }

    /// Calls the hook for the end of a task. A panic in the hook affects neither the task nor its
    /// worker.
    pub(crate) fn call_on_terminate(&self, task: &Header) {
        if let Some(hook) = &self.on_terminate {
            catch_and_forget(|| hook(&TaskMeta::new(task)));
        }
    }

    pub(crate) fn call_before_poll(&self, task: &TaskMeta<'_>) {
        if let Some(hook) = &self.before_poll {
            hook(task);
        }
    }

    pub(crate) fn call_after_poll(&self, task: &TaskMeta<'_>) {
        if let Some(hook) = &self.after_poll {
            hook(task);
        }
    }
}

/// Hides the current poll from the watchdog while a hook runs, and restores it on drop.
struct OutsidePoll<'a> {
    poll_watch: &'a PollWatch,
    running: *mut Header,
}

impl<'a> OutsidePoll<'a> {
    fn new(poll_watch: &'a PollWatch) -> Self {
        let running = poll_watch.running().map_or(std::ptr::null_mut(), |cell| cell.as_ptr());
        poll_watch.clear_running();
        Self { poll_watch, running }
    }
}

impl Drop for OutsidePoll<'_> {
    fn drop(&mut self) {
        self.poll_watch.set_running(self.running);
    }
}
