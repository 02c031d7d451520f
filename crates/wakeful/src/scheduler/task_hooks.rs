//! Functions of the user that the scheduler calls at the events of a task.
//!
//! They cost nothing unless they are set. No code of the hot paths asks whether they are:
//!
//! - A spawn and a poll take a rare path while each of them is observed. That is while the runtime
//!   is traced, or has hooks or exact histograms (`TraceBuffer::is_enabled`). Threads decide that
//!   once per round (`thread_core`), and for a wake-up together with the latency sample.
//! - The end of a task reads one word, as it does for the live page (`task::ended`).
//!
//! The hooks for the spawn and around a poll run outside of any poll. While they are called, the thread's
//! [`PollWatch`] shows no task, so `block_in_place` leaves a worker's thread its core, which the thread
//! needs afterwards. A spare worker stays active. A thread outside of the runtime, which calls the hook
//! for a spawn, holds the task as an `UnqueuedTask`. The hook for the end of a task runs inside its last
//! poll.

use crate::sys::unwind::catch_and_forget;
use crate::task::header::Header;
use crate::task::meta::TaskMeta;
use crate::task::runnable::{Runnable, UnqueuedTask};
use crate::task::spawn_meta::SpawnMeta;
use crate::telemetry::poll_watch::PollWatch;
use std::sync::Arc;

/// A hook of the user.
pub(crate) type TaskCallback = Arc<dyn Fn(&TaskMeta<'_>) + Send + Sync>;

/// A hook of the user that may attach data to a task.
pub(crate) type SpawnCallback = Arc<dyn Fn(&mut SpawnMeta<'_>) + Send + Sync>;

/// The hooks of a runtime.
#[derive(Clone, Default)]
pub(crate) struct TaskHooks {
    /// Sees all tasks, those of local sets and closures too.
    pub(crate) attach: Option<SpawnCallback>,
    pub(crate) on_spawn: Option<TaskCallback>,
    pub(crate) on_terminate: Option<TaskCallback>,
    pub(crate) before_poll: Option<TaskCallback>,
    pub(crate) after_poll: Option<TaskCallback>,
}

impl TaskHooks {
    /// Returns whether spawns or polls are to be observed.
    pub(crate) fn observe_spawns_or_polls(&self) -> bool {
        self.attach.is_some()
            || self.on_spawn.is_some()
            || self.before_poll.is_some()
            || self.after_poll.is_some()
    }

    /// Replaces the hooks that `other` has.
    pub(crate) fn override_with(&mut self, other: TaskHooks) {
        let TaskHooks { attach, on_spawn, on_terminate, before_poll, after_poll } = other;
        self.attach = attach.or(self.attach.take());
        self.on_spawn = on_spawn.or(self.on_spawn.take());
        self.on_terminate = on_terminate.or(self.on_terminate.take());
        self.before_poll = before_poll.or(self.before_poll.take());
        self.after_poll = after_poll.or(self.after_poll.take());
    }

    /// Calls the hooks for spawns if the task was never polled: it is scheduled for the first time.
    ///
    /// `poll_watch` is that of the calling thread, if it holds a core.
    pub(crate) fn call_on_spawn(&self, task: &Runnable, poll_watch: Option<&PollWatch>) {
        if (self.attach.is_some() || self.on_spawn.is_some()) && task.is_new() {
            let _outside = poll_watch.map(OutsidePoll::new);
            self.call_attach(task);
            if let Some(hook) = &self.on_spawn {
                hook(&task.meta());
            }
        }
    }

    /// Calls the hook that may attach data, for a task that is spawned on a local set or as a closure.
    ///
    /// The hook may panic, and meanwhile the set or runtime may be closed.
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

    /// Calls the hook for the end of a task. Its panic ends neither the task nor its worker.
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

/// A thread that calls a hook in the middle of a poll, which it shows again afterwards.
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
