//! Threads that wait inside a poll or a closure: in `blocking_lock`, or in a nested `block_on`.
//!
//! The state word of a task in `block_in_place`, or of a closure of the blocking pool, says that it
//! runs. If its thread waits inside, it depends on what the thread waits for. [`InnerWaits`] finds
//! these threads by the id that was current when the inner wait began.

use super::waiter::Waiter;
use crate::scheduler::block_on::{self, BlockOnState};
use crate::task::block_on::BlockOnRecord;
use crate::task::id;
use crate::task::poll_stamp::PollStamp;
use crate::task::wait_kind::WaitKind;
use crate::task::wait_record::{Wait, WaitRecord, WaitWriter};
use crate::task::wait_target::TargetWord;
use crate::wait::block_on::{BlockedThread, blocked_threads};
use std::collections::HashMap;
use std::sync::Arc;

/// What a task, closure or `block_on` future waits for on its own thread.
#[derive(Clone)]
pub(super) enum InnerWait {
    /// The thread is in a `blocking_…` method.
    Thread(Arc<BlockedThread>),
    /// The thread is in a nested `block_on`.
    BlockOn(Arc<BlockOnState>),
}

impl InnerWait {
    /// Returns the number of live wakers of the inner wait, or `None` if the thread no longer waits
    /// there.
    pub(super) fn wakers(&self, outer: u64) -> Option<u64> {
        match self {
            InnerWait::Thread(thread) => (thread.record.outer() == outer && thread.is_waiting())
                .then(|| thread.live_wakers() as u64),
            // The outer waiter has no waker of its own. It continues when the inner `block_on`
            // ends.
            InnerWait::BlockOn(inner) => {
                let waits =
                    inner.record.outer() == outer && !inner.record.is_polled() && !inner.is_woken();
                waits.then_some(1)
            }
        }
    }

    pub(super) fn record(&self) -> &BlockOnRecord {
        match self {
            InnerWait::Thread(thread) => &thread.record,
            InnerWait::BlockOn(inner) => &inner.record,
        }
    }

    pub(super) fn wake(&self) {
        match self {
            InnerWait::Thread(thread) => thread.wake(),
            InnerWait::BlockOn(inner) => inner.wake(),
        }
    }

    /// Makes a wait record for the outer waiter of a nested `block_on`, linked to that `block_on`.
    ///
    /// Returns `None` if the thread is in a `blocking_…` method, which has a record of its own.
    fn outer_record(&self) -> Option<WaitRecord> {
        let InnerWait::BlockOn(inner) = self else { return None };
        let record = WaitRecord::nothing();
        let writer = WaitWriter { waiting: &record, stamp: PollStamp::from_doubled(0) };
        let since_ms = inner.record.first_waited_ms().unwrap_or(0);
        let target = TargetWord::of_task(inner.record.id).linked();
        let site = inner.record.site()?;
        writer.record_linked(Wait { kind: WaitKind::BlockOn, target, site, since_ms });
        Some(record)
    }
}

/// The inner waits of all threads, keyed by the id of the enclosing task or future.
pub(super) struct InnerWaits(HashMap<u64, InnerWait>);

impl InnerWaits {
    pub(super) fn read() -> Self {
        let mut waits = HashMap::new();
        // Runtimes with `shuffle_tasks` share ids.
        if id::are_unique() {
            let inner = block_on::all_states().into_iter();
            waits.extend(inner.map(|inner| (inner.record.outer(), InnerWait::BlockOn(inner))));
            let threads = blocked_threads().into_iter();
            waits.extend(threads.map(|it| (it.record.outer(), InnerWait::Thread(it))));
        }
        waits.remove(&0);
        Self(waits)
    }

    /// Returns the waiter together with the inner wait of its thread, if there is one.
    pub(super) fn wrap(&self, waiter: Waiter) -> Waiter {
        let id = waiter.id();
        let Some(inner) = self.0.get(&id).filter(|inner| inner.wakers(id).is_some()) else {
            return waiter;
        };
        let record = inner.outer_record();
        Waiter::Inner { outer: Box::new(waiter), inner: inner.clone(), record }
    }
}
