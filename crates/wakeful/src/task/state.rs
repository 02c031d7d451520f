//! The state word of a task: all flags and counts that threads must agree on.
//!
//! The flags and counts share 64 bits, so every decision is one atomic operation.
//!
//! ```text
//!  63            40 39             12 11        0
//! ┌────────────────┬─────────────────┬───────────┐
//! │ handles        │ live wakers     │ flags     │
//! └────────────────┴─────────────────┴───────────┘
//! ```
//!
//! Wakers are counted separately from other handles. The orphan check relies on that: a task that
//! is idle, not notified and has **no live waker** can never run again. The thread that drops the
//! last waker sees this in the result of its subtraction.
//!
//! ```text
//! diagram
//!                 ┌──────────────── 7 end_poll() Requeue ────────────┐
//!                 ▼                                                  │
//!  1 spawn ──► NOTIFIED ── 2 start_poll() ──► RUNNING ── 3 complete() ──► COMPLETE
//!                 ▲                            │  ▲  │                      │
//!                 │ 5 wake_by_ref()            │  │  └─ 6 wake: +NOTIFIED   │ 8 last of
//!                 │   wake_by_val()    4 end_poll()  │                      │ wakers, handles
//!                 │   abort()                  ▼  │  10 claim_for_shutdown() ▼
//!                 └─────────────────────────  IDLE                         free
//!                                              │ 9 end_poll(), drop_waker():
//!                                              ▼ no waker left
//!                                            Orphan
//! ```
//!
//! A cell is free when COMPLETE is set and RUNNING, NOTIFIED and both counts are zero. So a queue
//! entry and a running poll need no count: their flag is their reference.
//!
//! # Rules for the fields that the word guards
//!
//! - TASK-1. RUNNING is the exclusive right to the future and its outcome. The thread that sets
//!   RUNNING has this right. If the task is queued with RUNNING set (TASK-3), the holder of the
//!   queue entry has the right. After COMPLETE the owner of JOIN_INTEREST has it. Without a
//!   JoinHandle, the completing thread keeps it until `release_running`.
//! - TASK-2. While JOIN_WAKER is set, no thread accesses the join waker. The thread that clears the
//!   flag owns the waker: the JoinHandle replaces or drops it, the completing thread wakes it. In
//!   every other state the waker belongs to the JoinHandle, which publishes a waker only before
//!   COMPLETE.
//! - TASK-3. A task that wakes itself during its own poll goes back to a queue with RUNNING set.
//!   For all other threads "running" and "queued" mean the same: a poll will follow. So a yield
//!   needs no atomic operation. The queue entry is then the exclusive right of TASK-1.
//! - TASK-4. NOTIFIED on a task that is not RUNNING means that exactly one queue entry exists. The
//!   thread that set the flag may still be about to push it.
//! - TASK-5. The plain header fields that are written at spawn are read-only while LIVE is set. The
//!   other plain fields are written under TASK-1. Origin and vtable are atomic: the spawning thread
//!   replaces them once, before the task is queued, if a hook attaches data.
//! - TASK-6. A poll starts with one waker counted in advance, the *spare waker*. The first clone
//!   that the future makes of its waker uses the spare waker, and needs no atomic operation. The
//!   step that ends the poll or the task subtracts an unused spare waker. The header records
//!   whether it is unused (under TASK-1), because a task that woke itself keeps it in the queue
//!   (TASK-3). The waker count of a RUNNING task may therefore be one too high.
//!
//! # Orderings
//!
//! A transition that changes the word is one read-modify-write with AcqRel. A transition that
//! changes nothing acquires. Two kinds of steps publish nothing, so they are Relaxed: a clone of a
//! waker or handle, and a correction by the polling thread. That thread's RUNNING keeps the cell
//! alive. A wake releases the caller's earlier writes. The transition that clears NOTIFIED acquires
//! them, so the poll sees them.
//!
//! The race to fear: a waker's caller stores a value and finds the task already notified. The next
//! poll misses the value, and no other poll follows. It cannot happen, because a wake of a notified
//! task is still a read-modify-write. A plain load could be reordered before the caller's own
//! stores.

mod snapshot;

pub(crate) use snapshot::{
    BLOCKING, CANCELLED, COMPLETE, EXEMPT, FOREVER, JOIN_INTEREST, JOIN_WAKER, LIVE, NOTIFIED,
    ORPHANED, RUNNING, Snapshot,
};

use super::duty::{Complete, DropJoin, EndPoll, Release, Shutdown, Start, Wake};
use crate::sys::sync::atomic::{AtomicU64, Ordering::*};
use snapshot::{FOREIGN_ENTRY, HANDLE_MASK, HANDLE_ONE, HANDLE_SHIFT, WAKER_ONE, count_overflow};

/// The state word of a task cell.
#[derive(Debug)]
pub(crate) struct State(AtomicU64);

impl State {
    /// The state of a cell without a task.
    pub(crate) fn free() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Publishes a new task: queued, with one JoinHandle. `extra` may contain the flags BLOCKING
    /// and FOREVER.
    ///
    /// The caller has already written the cell. Release pairs with the Acquire loads of all transitions.
    #[inline]
    pub(crate) fn publish(&self, extra: u64) {
        self.0.store(LIVE | NOTIFIED | JOIN_INTEREST | HANDLE_ONE | extra, Release);
    }

    /// Marks the cell as free memory, before it returns to its arena.
    pub(crate) fn retire(&self) {
        debug_assert!(self.load().is_free(), "freed while in use: {:?}", self.load());
        self.0.store(0, Release);
    }

    #[inline]
    pub(crate) fn load(&self) -> Snapshot {
        Snapshot(self.0.load(Acquire))
    }

    /// Replaces the word by the value that `next` computes, and returns the decision of `next`.
    ///
    /// The word stays unchanged if `next` returns no new value.
    #[inline(always)]
    fn update<R>(&self, mut next: impl FnMut(Snapshot) -> (Option<u64>, R)) -> R {
        let mut current = self.0.load(Relaxed);
        loop {
            let (new, decision) = next(Snapshot(current));
            let Some(new) = new else {
                // The decision may depend on writes that another thread published.
                crate::sys::sync::atomic::fence(Acquire);
                return decision;
            };
            match self.0.compare_exchange_weak(current, new, AcqRel, Relaxed) {
                Ok(_) => return decision,
                Err(seen) => current = seen,
            }
        }
    }

    /// Arrow 2: the holder of the queue entry starts a poll.
    #[inline]
    pub(crate) fn start_poll(&self) -> Start {
        let seen = self.load();
        if !seen.has(RUNNING) {
            debug_assert!(seen.has(NOTIFIED) && !seen.has(COMPLETE), "not an entry: {seen:?}");
            // One addition clears NOTIFIED (2), sets RUNNING (1) and counts the spare waker
            // (TASK-6).
            let seen = Snapshot(self.0.fetch_add(WAKER_ONE - (NOTIFIED - RUNNING), AcqRel));
            seen.check_wakers();
            return self.started(seen, Start::PollWithSpare);
        }
        // The task woke itself (TASK-3), and other threads may have woken it too: one poll serves
        // both wakes.
        let both = seen.has(NOTIFIED);
        let seen = if both { Snapshot(self.0.fetch_and(!NOTIFIED, AcqRel)) } else { seen };
        self.started(seen, Start::Poll)
    }

    #[inline]
    fn started(&self, seen: Snapshot, start: Start) -> Start {
        if seen.has(CANCELLED) {
            if start == Start::PollWithSpare {
                self.0.fetch_sub(WAKER_ONE, Relaxed);
            }
            return Start::Cancel;
        }
        if seen.has(EXEMPT) {
            self.0.fetch_and(!EXEMPT, Relaxed);
        }
        start
    }

    /// Arrows 4, 7 and 9: the polling thread ends the poll.
    ///
    /// `spare` says that the spare waker is unused (TASK-6). A task that woke itself is requeued
    /// without this call (TASK-3).
    #[inline]
    pub(crate) fn end_poll(&self, exempt: bool, spare: bool) -> EndPoll {
        let mark = if exempt { EXEMPT } else { 0 };
        let spare = if spare { WAKER_ONE } else { 0 };
        self.update(|seen| {
            debug_assert!(seen.has(RUNNING) && !seen.has(COMPLETE), "not polled: {seen:?}");
            debug_assert!(spare == 0 || seen.wakers() > 0, "waker count underflow: {seen:?}");
            let seen = Snapshot(seen.0 - spare);
            if seen.has(CANCELLED) {
                return (Some(seen.0), EndPoll::Cancel);
            }
            let idle = Snapshot((seen.0 & !RUNNING) | mark);
            if seen.has(NOTIFIED) {
                return (Some(idle.0), EndPoll::Requeue);
            }
            if idle.is_orphan() {
                return (Some(idle.0 + HANDLE_ONE), EndPoll::Orphan);
            }
            (Some(idle.0), EndPoll::Idle)
        })
    }

    /// Arrow 3: the thread with the right of TASK-1 completes the task.
    ///
    /// The future is dropped and the outcome stored. `spare` says that the spare waker is unused
    /// (TASK-6). NOTIFIED is cleared, unless another thread holds the queue entry (see
    /// `claim_for_shutdown`).
    #[inline]
    pub(crate) fn complete(&self, spare: bool) -> Complete {
        let spare = if spare { WAKER_ONE } else { 0 };
        self.update(|seen| {
            debug_assert!(seen.has(RUNNING) && !seen.has(COMPLETE), "completed twice: {seen:?}");
            debug_assert!(spare == 0 || seen.wakers() > 0, "waker count underflow: {seen:?}");
            let own_entry = if seen.has(FOREIGN_ENTRY) { 0 } else { NOTIFIED };
            let done = ((seen.0 - spare) | COMPLETE) & !own_entry;
            if seen.has(JOIN_WAKER) {
                (Some(done & !JOIN_WAKER), Complete::WakeJoiner)
            } else if seen.has(JOIN_INTEREST) {
                (Some(done & !RUNNING), Complete::Done)
            } else {
                (Some(done), Complete::DropOutput)
            }
        })
    }

    /// Clears RUNNING, which was a reference, after COMPLETE.
    pub(crate) fn release_running(&self) -> Release {
        let left = Snapshot(self.0.fetch_sub(RUNNING, AcqRel) - RUNNING);
        if left.is_free() { Release::Free } else { Release::Nothing }
    }

    /// Arrows 5 and 6: wakes the task and keeps the waker.
    #[inline]
    pub(crate) fn wake_by_ref(&self) -> Wake {
        self.update(|seen| {
            if seen.has(COMPLETE) {
                (None, Wake::Nothing)
            } else if seen.has(RUNNING | NOTIFIED) {
                (Some(seen.0 | NOTIFIED), Wake::Nothing)
            } else {
                (Some(seen.0 | NOTIFIED), Wake::Schedule)
            }
        })
    }

    /// Arrows 5 and 6: wakes the task and drops the waker.
    #[inline]
    pub(crate) fn wake_by_val(&self) -> Wake {
        self.update(|seen| {
            debug_assert!(seen.wakers() > 0, "waker count underflow: {seen:?}");
            let less = Snapshot(seen.0 - WAKER_ONE);
            if less.is_free() {
                (Some(less.0), Wake::Free)
            } else if seen.has(COMPLETE) {
                (Some(less.0), Wake::Nothing)
            } else if seen.has(RUNNING | NOTIFIED) {
                (Some(less.0 | NOTIFIED), Wake::Nothing)
            } else {
                (Some(less.0 | NOTIFIED), Wake::Schedule)
            }
        })
    }

    #[inline]
    pub(crate) fn clone_waker(&self) {
        Snapshot(self.0.fetch_add(WAKER_ONE, Relaxed)).check_wakers();
    }

    /// Drops a waker without a wake; takes arrow 9 if it was the last waker.
    #[inline]
    pub(crate) fn drop_waker(&self) -> Release {
        self.update(|seen| {
            debug_assert!(seen.wakers() > 0, "waker count underflow: {seen:?}");
            let less = Snapshot(seen.0 - WAKER_ONE);
            if less.is_free() {
                (Some(less.0), Release::Free)
            } else if less.is_orphan() {
                (Some(less.0 + HANDLE_ONE), Release::Orphan)
            } else {
                (Some(less.0), Release::Nothing)
            }
        })
    }

    pub(crate) fn clone_handle(&self) {
        let seen = Snapshot(self.0.fetch_add(HANDLE_ONE, Relaxed));
        if seen.handles() > HANDLE_MASK >> (HANDLE_SHIFT + 1) {
            count_overflow("8 million handles");
        }
    }

    /// Counts a handle if the cell holds a task, and returns whether it does.
    ///
    /// For threads that walk an arena without a reference to any of its tasks.
    pub(crate) fn try_clone_handle(&self) -> bool {
        self.update(|seen| {
            if !seen.has(LIVE) || seen.is_free() {
                (None, false)
            } else {
                (Some(seen.0 + HANDLE_ONE), true)
            }
        })
    }

    #[inline]
    pub(crate) fn drop_handle(&self) -> Release {
        let left = Snapshot(self.0.fetch_sub(HANDLE_ONE, AcqRel).wrapping_sub(HANDLE_ONE));
        if left.is_free() { Release::Free } else { Release::Nothing }
    }

    /// Drops the JoinHandle.
    ///
    /// Without a registered waker and an output this is one operation. Otherwise the caller must
    /// drop the waker or output, and then call `drop_handle`.
    #[inline]
    pub(crate) fn drop_join(&self, output_taken: bool) -> DropJoin {
        self.update(|seen| {
            debug_assert!(seen.has(JOIN_INTEREST) && seen.handles() > 0, "no JoinHandle: {seen:?}");
            if seen.has(COMPLETE) && !output_taken {
                return (None, DropJoin::DropOutput);
            }
            if seen.has(JOIN_WAKER) {
                return (Some(seen.0 & !(JOIN_INTEREST | JOIN_WAKER)), DropJoin::DropWaker);
            }
            let less = Snapshot((seen.0 & !JOIN_INTEREST) - HANDLE_ONE);
            let duty = if less.is_free() { DropJoin::Free } else { DropJoin::Nothing };
            (Some(less.0), duty)
        })
    }

    /// Publishes the join waker (TASK-2). Returns false if the task is complete.
    pub(crate) fn set_join_waker(&self) -> bool {
        self.update(|seen| {
            debug_assert!(!seen.has(JOIN_WAKER), "join waker set twice: {seen:?}");
            if seen.has(COMPLETE) { (None, false) } else { (Some(seen.0 | JOIN_WAKER), true) }
        })
    }

    /// Unpublishes the join waker (TASK-2). Returns false if the task is complete.
    pub(crate) fn unset_join_waker(&self) -> bool {
        self.update(|seen| {
            if seen.has(COMPLETE) { (None, false) } else { (Some(seen.0 & !JOIN_WAKER), true) }
        })
    }

    /// Requests that the future is dropped. `reason` is 0 or ORPHANED.
    pub(crate) fn abort(&self, reason: u64) -> Wake {
        self.update(|seen| {
            if seen.has(COMPLETE | CANCELLED) {
                (None, Wake::Nothing)
            } else if seen.has(RUNNING | NOTIFIED) {
                (Some(seen.0 | CANCELLED | reason), Wake::Nothing)
            } else {
                (Some(seen.0 | CANCELLED | NOTIFIED | reason), Wake::Schedule)
            }
        })
    }

    /// Arrow 10: the thread that shuts a scheduler down claims the future.
    ///
    /// All queues are closed and drained. NOTIFIED can then only belong to a thread that is about
    /// to push to a closed queue, for a wake or a spawn. The entry stays with that thread. It is
    /// marked FOREIGN_ENTRY, so that a wake during the drop of the future is not mistaken for it.
    pub(crate) fn claim_for_shutdown(&self) -> Shutdown {
        self.update(|seen| {
            if !seen.has(LIVE) || seen.has(COMPLETE | RUNNING | BLOCKING) {
                return (None, Shutdown::Nothing);
            }
            let mark = if seen.has(NOTIFIED) { FOREIGN_ENTRY } else { 0 };
            (Some(seen.0 | RUNNING | CANCELLED | mark), Shutdown::DropFuture)
        })
    }

    /// Claims the future of an entry that the caller took from a queue which is being drained.
    ///
    /// The drain precedes `claim_for_shutdown`, so the caller drops the future.
    pub(crate) fn claim_drained(&self) {
        self.update(|seen| {
            debug_assert!(!seen.has(COMPLETE) && seen.has(RUNNING | NOTIFIED), "{seen:?}");
            (Some((seen.0 & !NOTIFIED) | RUNNING | CANCELLED), ())
        });
    }

    /// Gives up the entry of a spawn that found the queues closed.
    ///
    /// `None` means that the spawner drops the future. Otherwise `claim_for_shutdown` came first,
    /// and only the entry is given up.
    pub(crate) fn claim_refused_spawn(&self) -> Option<Release> {
        self.update(|seen| seen.refuse_entry(seen.has(RUNNING | COMPLETE)))
    }

    /// Gives up the entry of a task that was woken during its poll and finds the queues closed.
    ///
    /// `None` means that the caller drops the future. Otherwise `claim_for_shutdown` came first,
    /// and only the entry is given up. (A task that woke itself is still RUNNING, and still belongs
    /// to the caller.)
    pub(crate) fn claim_refused_requeue(&self) -> Option<Release> {
        self.update(|seen| seen.refuse_entry(seen.has(FOREIGN_ENTRY)))
    }

    /// Gives up the entry of a wake that found the queues closed.
    pub(crate) fn discard_wake(&self) -> Release {
        let others = !(NOTIFIED | FOREIGN_ENTRY);
        let left = Snapshot(self.0.fetch_and(others, AcqRel) & others);
        if left.is_free() { Release::Free } else { Release::Nothing }
    }
}
