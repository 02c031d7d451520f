//! The waiters that the deadlock scan observes: tasks, closures and `block_on` futures.

use super::inner_waits::InnerWait;
use crate::inspect::task_info::TaskInfo;
use crate::scheduler::block_on::BlockOnState;
use crate::task::poll_stamp::PollStamp;
use crate::task::runnable::TaskRef;
use crate::task::state::{BLOCKING, COMPLETE, EXEMPT, FOREVER, JOIN_WAKER, NOTIFIED, RUNNING};
use crate::task::wait_record::{Wait, WaitRecord};
use crate::wait::describe::ObservedWait;
use std::sync::Arc;

/// A waiting task, closure or `block_on` future.
pub(super) enum Waiter {
    Task(TaskRef),
    BlockOn(Arc<BlockOnState>),
    /// A closure that is queued in a pool that has reached its maximum number of threads.
    Queued(TaskRef),
    /// A task, closure or `block_on` future whose thread waits inside its poll.
    Inner {
        outer: Box<Waiter>,
        inner: InnerWait,
        /// Linked to the inner `block_on`. `None` if the thread is in a `blocking_…` method, which
        /// has a record of its own.
        record: Option<WaitRecord>,
    },
}

impl Waiter {
    pub(super) fn id(&self) -> u64 {
        match self {
            Waiter::Task(task) | Waiter::Queued(task) => task.header().id.get(),
            Waiter::BlockOn(block_on) => block_on.record.id,
            Waiter::Inner { outer, .. } => outer.id(),
        }
    }

    pub(super) fn record(&self) -> &WaitRecord {
        match self {
            Waiter::Task(task) | Waiter::Queued(task) => &task.header().waiting,
            Waiter::BlockOn(block_on) => &block_on.record.waiting,
            Waiter::Inner { record: Some(record), .. } => record,
            Waiter::Inner { inner: InnerWait::Thread(thread), .. } => &thread.record.waiting,
            Waiter::Inner { inner: InnerWait::BlockOn(inner), .. } => &inner.record.waiting,
        }
    }

    /// Returns the number of live wakers, or `None` if it does not wait.
    pub(super) fn wakers(&self) -> Option<u64> {
        match self {
            Waiter::Queued(task) => (!task.state().has(RUNNING | COMPLETE)).then_some(1),
            Waiter::Task(task) => {
                let state = task.state();
                let waits = !state.has(RUNNING | NOTIFIED | COMPLETE | BLOCKING);
                waits.then(|| state.wakers())
            }
            Waiter::BlockOn(block_on) => {
                let waits = !block_on.record.is_polled() && !block_on.is_woken();
                waits.then(|| block_on.live_wakers() as u64)
            }
            Waiter::Inner { outer, inner, .. } => inner.wakers(outer.id()),
        }
    }

    pub(super) fn wake(&self) {
        match self {
            Waiter::Task(task) | Waiter::Queued(task) => task.wake(),
            Waiter::BlockOn(block_on) => block_on.wake(),
            Waiter::Inner { inner, .. } => inner.wake(),
        }
    }

    /// Returns the stamp that identifies its last poll in its wait record.
    pub(super) fn poll_stamp(&self) -> PollStamp {
        match self {
            Waiter::Task(task) | Waiter::Queued(task) => task.header().poll_stamp(),
            Waiter::BlockOn(block_on) => block_on.record.poll_stamp(),
            Waiter::Inner { inner, .. } => inner.record().poll_stamp(),
        }
    }

    pub(super) fn polls(&self) -> u32 {
        match self {
            Waiter::Task(task) | Waiter::Queued(task) => task.header().polls(),
            Waiter::BlockOn(block_on) => block_on.record.polls(),
            Waiter::Inner { inner, .. } => inner.record().poll_number(),
        }
    }

    /// Returns its wait in the form that a request for details needs.
    pub(super) fn observed(&self, wait: Wait) -> ObservedWait {
        let record = match self {
            Waiter::Task(_) | Waiter::Queued(_) => None,
            Waiter::BlockOn(block_on) => Some(&block_on.record),
            Waiter::Inner { inner, .. } => Some(inner.record()),
        };
        let (call, polls) =
            record.map_or((0, self.polls()), |record| (record.call_number(), record.polls()));
        let (waiter, stamp) = (self.id(), self.poll_stamp());
        ObservedWait { waiter, call, polls, stamp, wait }
    }

    /// Returns whether a handle exists that can abort the task and is held by no node of the graph.
    ///
    /// This node holds one handle. If the task is awaited, the awaiting node holds another.
    pub(super) fn may_be_aborted(&self, is_awaited: bool) -> bool {
        match self {
            Waiter::Task(task) | Waiter::Queued(task) => {
                task.state().handles() > 1 + u64::from(is_awaited)
            }
            // An abort does not end a running poll.
            Waiter::BlockOn(_) | Waiter::Inner { .. } => false,
        }
    }

    /// Returns the TID of the polling thread, for a `block_on` future.
    pub(super) fn block_on_thread(&self) -> Option<i32> {
        match self {
            Waiter::Task(_) | Waiter::Queued(_) => None,
            Waiter::BlockOn(block_on) => Some(block_on.thread),
            Waiter::Inner { outer, .. } => outer.block_on_thread(),
        }
    }

    /// Returns the lower half of its parent's id.
    pub(super) fn parent(&self) -> Option<u32> {
        match self {
            Waiter::Task(task) | Waiter::Queued(task) => {
                Some(task.header().parent.get()).filter(|parent| *parent != 0)
            }
            Waiter::BlockOn(_) => None,
            Waiter::Inner { outer, .. } => outer.parent(),
        }
    }

    pub(super) fn is_awaited(&self) -> bool {
        match self {
            Waiter::Task(task) | Waiter::Queued(task) => task.state().has(JOIN_WAKER),
            Waiter::BlockOn(_) => false,
            Waiter::Inner { outer, .. } => outer.is_awaited(),
        }
    }

    /// Returns whether the program declared that the task may wait forever.
    pub(super) fn is_exempt(&self) -> bool {
        match self {
            Waiter::Task(task) | Waiter::Queued(task) => task.state().has(EXEMPT | FOREVER),
            Waiter::BlockOn(_) => false,
            Waiter::Inner { outer, .. } => outer.is_exempt(),
        }
    }

    pub(super) fn info(&self, block_on_name: Option<&str>) -> Option<TaskInfo> {
        match self {
            Waiter::Task(task) | Waiter::Queued(task) => Some(TaskInfo::of_task(task.header())),
            Waiter::BlockOn(block_on) => TaskInfo::of_block_on(block_on, block_on_name),
            Waiter::Inner { outer, .. } => outer.info(block_on_name),
        }
    }
}
