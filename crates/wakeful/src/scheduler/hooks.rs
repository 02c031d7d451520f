//! Upcalls of the scheduler to the modules above it.

use crate::scheduler::block_on::BlockOnState;
use crate::scheduler::config::Role;
use crate::task::header::Header;
use crate::task::runnable::TaskRef;
use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The upcalls of a scheduler to its runtime.
pub(crate) trait RuntimeHooks: Send + Sync {
    /// Reports an orphan, and returns the text of the report.
    fn orphan(&self, task: &TaskRef) -> String;
    /// Records that a task panicked. Returns the message with which every `block_on` must fail, if any.
    fn panicked(&self, task: &Header, payload: &(dyn Any + Send)) -> Option<String>;
    /// Reports the panic of a task whose JoinHandle was dropped.
    ///
    /// Returns the message with which every `block_on` must fail, if any.
    fn unobserved_panic(&self, task: &Header, payload: &(dyn Any + Send)) -> Option<String>;
    /// Reports a poll that blocks its thread.
    fn blocked(&self, poll: &BlockedPoll);
    /// Reports a task that keeps waking itself: it was polled `polls` times within `within`.
    fn spinning(&self, subject: &PolledEntity, polls: u32, within: Duration);
    /// Reports the futile loops that threads of the runtime have found.
    fn report_futile_loops(&self);
    /// Scans the runtime for deadlocks and reports them.
    ///
    /// Returns after how long the scan must be repeated even without progress, if necessary. A
    /// thread outside the runtime may change the result, or a wait may be too recent to be
    /// reported.
    fn scan_for_deadlocks(&self) -> Option<Duration>;
    /// Reports problems that have lasted too long. Returns the time until the next one may be due.
    fn observe_lasting(&self) -> Option<Duration>;
    /// Makes the watchdog visit the scheduler. Returns false if its thread cannot be started.
    fn wake_watchdog(&self) -> bool;
    /// Postpones the watchdog's next visit of the scheduler, if possible.
    ///
    /// Every thread that polls tasks was parked at some time since `parked_at`. Returns after how
    /// long another call is useful; `None` means not before the next visit.
    fn postpone_visit(&self, parked_at: Instant) -> Option<Duration>;
    /// Returns whether a thread other than the calling one is the watchdog.
    fn has_other_watchdog(&self) -> bool;
    /// Hands the role of the watchdog to another thread, if the calling thread has it.
    ///
    /// Called by a thread that is about to run user code, which may block.
    fn before_user_code(&self);
    /// Counts an event that may leave a task stuck: the end of a blocking closure.
    fn notify_progress(&self);
    /// Completes the pending operations of the io_uring instances, without blocking the calling
    /// thread. Called when workers no longer poll a driver, because a closure of `block_in_place`
    /// may wait for such an operation.
    fn drivers_closed(&self);
    /// Called after the last blocking closure that kept a paused clock from auto-advancing has
    /// ended.
    fn auto_advance_released(&self);
    /// Runs `main`, the whole life of a thread, inside the runtime's context.
    fn in_context(&self, role: Role, main: &mut dyn FnMut());
}

/// The task or `block_on` that a report is about.
pub(crate) enum PolledEntity {
    Task(TaskRef),
    /// The future of a `block_on`.
    BlockOnState(Arc<BlockOnState>),
}

/// The role of a thread that polls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PollingThread {
    /// The worker with this index.
    Worker(usize),
    /// The only thread of its runtime that runs tasks: worker 0.
    OnlyWorker,
    SpareWorker,
    /// A thread in `block_on` that runs no tasks except tasks of local sets.
    BlockOn,
}

/// A poll that blocks its thread.
pub(crate) struct BlockedPoll {
    pub(crate) subject: PolledEntity,
    pub(crate) role: PollingThread,
    pub(crate) duration: Duration,
    /// The kernel's id of the thread, or 0 if it is not known.
    pub(crate) thread: i32,
}
