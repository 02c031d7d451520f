//! A task or a `block_on` future, as the deadlock scan sees it.

use crate::inspect::task_info::TaskInfo;
use crate::scheduler::block_on::BlockOnState;
use crate::task::runnable::TaskRef;
use crate::task::state::{BLOCKING, COMPLETE, EXEMPT, FOREVER, JOIN_WAKER, NOTIFIED, RUNNING};
use crate::task::wait_record::WaitRecord;
use std::sync::Arc;

/// A task or a `block_on` future that waits.
pub(super) enum Waiter {
    Task(TaskRef),
    BlockOn(Arc<BlockOnState>),
}

impl Waiter {
    pub(super) fn number(&self) -> u64 {
        match self {
            Waiter::Task(task) => task.header().id.get(),
            Waiter::BlockOn(root) => root.record.id,
        }
    }

    pub(super) fn record(&self) -> &WaitRecord {
        match self {
            Waiter::Task(task) => &task.header().waiting,
            Waiter::BlockOn(root) => &root.record.waiting,
        }
    }

    /// Returns the number of live wakers, or `None` if it does not wait.
    pub(super) fn wakers(&self) -> Option<u64> {
        match self {
            Waiter::Task(task) => {
                let state = task.state();
                let waits = !state.has(RUNNING | NOTIFIED | COMPLETE | BLOCKING);
                waits.then(|| state.wakers())
            }
            Waiter::BlockOn(root) => {
                let waits = !root.record.is_polled() && !root.is_woken();
                waits.then(|| root.live_wakers() as u64)
            }
        }
    }

    pub(super) fn wake(&self) {
        match self {
            Waiter::Task(task) => task.wake(),
            Waiter::BlockOn(root) => root.wake(),
        }
    }

    pub(super) fn polls(&self) -> u32 {
        match self {
            Waiter::Task(task) => task.header().polls(),
            Waiter::BlockOn(root) => root.record.polls(),
        }
    }

    /// Returns whether a handle exists that can abort the task and is held by no node of the graph.
    ///
    /// This node holds one handle. If the task is awaited, the awaiting node holds another.
    pub(super) fn may_be_aborted(&self, is_awaited: bool) -> bool {
        match self {
            Waiter::Task(task) => task.state().handles() > 1 + u64::from(is_awaited),
            Waiter::BlockOn(_) => false,
        }
    }

    /// Returns the lower half of its parent's number.
    pub(super) fn parent(&self) -> Option<u32> {
        match self {
            Waiter::Task(task) => Some(task.header().parent.get()).filter(|parent| *parent != 0),
            Waiter::BlockOn(_) => None,
        }
    }

    pub(super) fn is_awaited(&self) -> bool {
        matches!(self, Waiter::Task(task) if task.state().has(JOIN_WAKER))
    }

    /// Returns whether the program declared that the task may wait forever.
    pub(super) fn is_exempt(&self) -> bool {
        match self {
            Waiter::Task(task) => task.state().has(EXEMPT | FOREVER),
            Waiter::BlockOn(_) => false,
        }
    }

    pub(super) fn info(&self, block_on_name: Option<&str>) -> Option<TaskInfo> {
        match self {
            Waiter::Task(task) => Some(TaskInfo::of_task(task.header())),
            Waiter::BlockOn(root) => TaskInfo::of_block_on(root, block_on_name),
        }
    }
}
