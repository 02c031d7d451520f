//! The state word: everything that threads must agree on about one task, in 64
//! bits, so that every decision is one atomic step.
//!
//! ```text
//!  63            40 39             12 11        0
//! ┌────────────────┬─────────────────┬───────────┐
//! │ handles        │ live wakers     │ flags     │
//! └────────────────┴─────────────────┴───────────┘
//! ```
//!
//! Wakers and other handles are counted apart. That is the idea the project
//! rests on: a task that is idle, not notified and has **no live waker** can
//! never run again, and the thread that took the last waker away learns it from
//! the very subtraction it had to do anyway.
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
//!                 └─────────────────────────  IDLE ──────────────────►     free
//!                                              │ 9 end_poll(), drop_waker():
//!                                              ▼ no waker left
//!                                            Orphan
//! ```
//!
//! Who keeps the cell alive: it is free when COMPLETE is set and nothing else
//! is: no RUNNING, no NOTIFIED, no waker, no handle. So a queue entry and a
//! running poll need no count of their own, their flag is the reference.
//!
//! Rules for the fields that the word guards:
//!
//! - TASK-1. The future or output is touched only by the thread that set RUNNING
//!   (or holds the queue entry of a task that kept RUNNING), and after COMPLETE
//!   only by the owner of JOIN_INTEREST.
//! - TASK-2. The join waker is touched only by the JoinHandle while JOIN_WAKER is
//!   clear and COMPLETE was not seen; whoever clears JOIN_WAKER owns the slot:
//!   the JoinHandle to replace it, the completing thread to wake it.
//! - TASK-3. A task that wakes itself during its own poll goes back to a queue with
//!   RUNNING still set: for every other thread "running" and "queued" mean the
//!   same (somebody holds it and will look again), so a yield needs no atomic
//!   step at all. The queue entry is then the exclusive right of TASK-1.
//! - TASK-4. NOTIFIED on a task that is not RUNNING means that exactly one queue
//!   entry exists, or is about to be pushed by the thread that set it.
//! - TASK-5. Of the header's plain fields, those written at spawn are read-only
//!   while LIVE is set; the others are written under TASK-1.
//! - TASK-6. A poll starts with one waker more than there are, the *spare*: the first
//!   clone that the future makes of its waker is that one, and needs no atomic step. If it
//!   is left when the poll is over, the step that ends the poll or the task takes it back.
//!   Whether it is there the header says (under TASK-1), since a task that woke itself keeps it
//!   in the queue (TASK-3). Whoever looks at the word of a task that is RUNNING may count it.
//!
//! Orderings: every transition is one read-modify-write with AcqRel (what is done to the
//! word besides, while RUNNING keeps the cell, needs no order). A wake
//! releases what its caller wrote before it; the transition that takes NOTIFIED
//! away acquires it, so the poll sees it. That is why a wake of an already
//! notified task is still a read-modify-write: a plain load could pass before
//! the caller's own stores, the poll would miss them, and nobody would look
//! again.

use crate::sys::sync::atomic::{AtomicU64, Ordering::*};

pub(crate) const RUNNING: u64 = 1 << 0;
pub(crate) const NOTIFIED: u64 = 1 << 1;
pub(crate) const COMPLETE: u64 = 1 << 2;
/// The future is to be dropped at the next opportunity.
pub(crate) const CANCELLED: u64 = 1 << 3;
pub(crate) const JOIN_INTEREST: u64 = 1 << 4;
pub(crate) const JOIN_WAKER: u64 = 1 << 5;
/// The cell holds a task (as opposed to free memory).
pub(crate) const LIVE: u64 = 1 << 6;
/// CANCELLED was set because nothing could ever wake the task.
pub(crate) const ORPHANED: u64 = 1 << 7;
/// A closure for the blocking pool: never idle, never scheduled again.
pub(crate) const BLOCKING: u64 = 1 << 8;
/// The last poll ended inside `may_wait_forever`: no orphan.
pub(crate) const EXEMPT: u64 = 1 << 9;
/// Spawned with `task::Builder::forever`: never an orphan.
pub(crate) const FOREVER: u64 = 1 << 10;
/// NOTIFIED is the entry of a thread that is about to find the queues closed;
/// it takes both flags away in `refuse` or `claim_refused_spawn`.
pub(crate) const FOREIGN_ENTRY: u64 = 1 << 11;

const WAKER_SHIFT: u32 = 12;
const WAKER_ONE: u64 = 1 << WAKER_SHIFT;
const WAKER_BITS: u32 = 28;
const WAKER_MASK: u64 = ((1 << WAKER_BITS) - 1) << WAKER_SHIFT;
const HANDLE_SHIFT: u32 = WAKER_SHIFT + WAKER_BITS;
const HANDLE_ONE: u64 = 1 << HANDLE_SHIFT;
const HANDLE_MASK: u64 = !((1 << HANDLE_SHIFT) - 1);

const _: () = assert!(FOREIGN_ENTRY < WAKER_ONE, "flags run into the waker count");
const _: () = assert!(WAKER_MASK & HANDLE_MASK == 0 && RUNNING == 1 && NOTIFIED == 2);

/// One value of the word, with questions to ask it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Snapshot(pub(crate) u64);

impl Snapshot {
    /// An entry finds the queues closed: what follows, and what is left to do. The future is the
    /// entry's holder's to drop, unless it is `claimed`.
    fn refuse_entry(self, claimed: bool) -> (Option<u64>, Option<Release>) {
        if !claimed {
            return (Some((self.0 & !NOTIFIED) | RUNNING | CANCELLED), None);
        }
        let less = Snapshot(self.0 & !(NOTIFIED | FOREIGN_ENTRY));
        let duty = if less.is_free() { Release::Free } else { Release::Nothing };
        (Some(less.0), Some(duty))
    }

    #[inline(always)]
    pub(crate) fn has(self, flag: u64) -> bool {
        self.0 & flag != 0
    }

    pub(crate) fn wakers(self) -> u64 {
        (self.0 & WAKER_MASK) >> WAKER_SHIFT
    }

    pub(crate) fn handles(self) -> u64 {
        (self.0 & HANDLE_MASK) >> HANDLE_SHIFT
    }

    /// One more was counted: there are not too many.
    #[inline(always)]
    fn check_wakers(self) {
        if self.wakers() > WAKER_MASK >> (WAKER_SHIFT + 1) {
            count_overflow("wakers");
        }
    }

    /// Nothing refers to the cell any more.
    #[inline(always)]
    fn is_free(self) -> bool {
        self.0 & (COMPLETE | RUNNING | NOTIFIED | WAKER_MASK | HANDLE_MASK) == COMPLETE
    }

    /// Nothing in the world can wake this task, and it was not meant so.
    #[inline(always)]
    fn is_orphan(self) -> bool {
        let none_of = RUNNING | NOTIFIED | COMPLETE | CANCELLED | EXEMPT | FOREVER | WAKER_MASK;
        self.0 & none_of == 0
    }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const NAMES: [(u64, &str); 12] = [
            (RUNNING, "running"),
            (NOTIFIED, "notified"),
            (COMPLETE, "complete"),
            (CANCELLED, "cancelled"),
            (JOIN_INTEREST, "join-interest"),
            (JOIN_WAKER, "join-waker"),
            (LIVE, "live"),
            (ORPHANED, "orphaned"),
            (BLOCKING, "blocking"),
            (EXEMPT, "exempt"),
            (FOREVER, "forever"),
            (FOREIGN_ENTRY, "foreign-entry"),
        ];
        for (_, name) in NAMES.iter().filter(|(flag, _)| self.has(*flag)) {
            write!(f, "{name} ")?;
        }
        write!(f, "wakers={} handles={}", self.wakers(), self.handles())
    }
}

/// What to do with a task taken from a queue.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Start {
    Poll,
    /// The same, and a spare waker was counted (TASK-6).
    PollWithSpare,
    /// Drop the future instead of polling it.
    Cancel,
}

/// What to do after a poll that returned `Pending`.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum EndPoll {
    /// The task waits; it is no longer ours.
    Idle,
    /// It was woken meanwhile: put the entry back into a queue.
    Requeue,
    /// It was cancelled meanwhile; it is still ours: drop the future.
    Cancel,
    /// It waits and nothing can wake it. A handle was taken for the report.
    Orphan,
}

/// What to do after the output was stored.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Complete {
    /// The JoinHandle has it from here.
    Done,
    /// Take the join waker, wake it, then call `release_running`.
    WakeJoiner,
    /// Nobody wants the output: drop it, then call `release_running`.
    DropOutput,
}

/// What the caller of a wake or an abort owes.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    Nothing,
    /// A queue entry was created: push it.
    Schedule,
    /// That was the last reference: free the cell.
    Free,
}

/// What the caller of a reference drop owes.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Release {
    Nothing,
    Free,
    /// The last waker went while the task waits. A handle was taken for the
    /// report.
    Orphan,
}

/// How the JoinHandle found the task when it was dropped.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum DropJoin {
    /// All done, no reference left behind.
    Nothing,
    Free,
    /// Drop the join waker (TASK-2), then drop the handle.
    DropWaker,
    /// Drop the output (TASK-1), then drop the handle.
    DropOutput,
}

/// What the thread that closes a scheduler owes a cell.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Shutdown {
    /// There is no future in it, or a poll still holds it.
    Nothing,
    /// TASK-1 is ours: drop the future and complete the task.
    DropFuture,
}

#[derive(Debug)]
pub(crate) struct State(AtomicU64);

impl State {
    /// A cell without a task.
    pub(crate) fn free() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Publishes a new task: queued, with one JoinHandle. Everything the cell
    /// holds was written before (Release).
    #[inline]
    pub(crate) fn publish(&self, extra: u64) {
        self.0.store(LIVE | NOTIFIED | JOIN_INTEREST | HANDLE_ONE | extra, Release);
    }

    /// The cell goes back to its heap.
    pub(crate) fn retire(&self) {
        debug_assert!(self.load().is_free(), "freed while in use: {:?}", self.load());
        self.0.store(0, Release);
    }

    #[inline]
    pub(crate) fn load(&self) -> Snapshot {
        Snapshot(self.0.load(Acquire))
    }

    /// Replaces the word by what `next` makes of it, or leaves it alone where
    /// `next` answers no new value, and gives back what `next` decided.
    #[inline(always)]
    fn update<R>(&self, mut next: impl FnMut(Snapshot) -> (Option<u64>, R)) -> R {
        let mut current = self.0.load(Relaxed);
        loop {
            let (new, decision) = next(Snapshot(current));
            let Some(new) = new else {
                // Nothing to write, but the decision may rest on what another
                // thread published.
                crate::sys::sync::atomic::fence(Acquire);
                return decision;
            };
            match self.0.compare_exchange_weak(current, new, AcqRel, Relaxed) {
                Ok(_) => return decision,
                Err(seen) => current = seen,
            }
        }
    }

    /// Arrow 2, by the holder of the queue entry.
    #[inline]
    pub(crate) fn start_poll(&self) -> Start {
        let seen = self.load();
        if !seen.has(RUNNING) {
            debug_assert!(seen.has(NOTIFIED) && !seen.has(COMPLETE), "not an entry: {seen:?}");
            // NOTIFIED (2) goes, RUNNING (1) and the spare (TASK-6) come: one addition.
            let seen = Snapshot(self.0.fetch_add(WAKER_ONE - (NOTIFIED - RUNNING), AcqRel));
            seen.check_wakers();
            return self.started(seen, Start::PollWithSpare);
        }
        // Woken by itself and by others (TASK-3): the coming poll serves both.
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

    /// Arrows 4, 7 and 9, by the thread that polled; `spare`: it is left (TASK-6). A task that
    /// woke itself is requeued without calling this (TASK-3).
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

    /// Arrow 3, by the thread that holds the task, after the future is gone and
    /// the outcome stored; `spare`: it is left (TASK-6). NOTIFIED goes with it, unless it is an
    /// entry in the hands of another thread (see `claim_for_shutdown`).
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

    /// Ends the reference that RUNNING was, after COMPLETE.
    pub(crate) fn release_running(&self) -> Release {
        let left = Snapshot(self.0.fetch_sub(RUNNING, AcqRel) - RUNNING);
        if left.is_free() { Release::Free } else { Release::Nothing }
    }

    /// Arrows 5 and 6 with the waker kept.
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

    /// Arrows 5 and 6 with the waker used up.
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

    /// A waker goes without waking; arrow 9 if it was the last.
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
            count_overflow("handles");
        }
    }

    /// Takes a handle if the cell holds a task: for those who walk the heap
    /// without owning anything in it.
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

    /// The JoinHandle goes. With no waker registered and nothing to drop this
    /// is one step; otherwise the caller tidies up and calls `drop_handle`.
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

    /// Publishes the join waker (TASK-2). False: the task is complete.
    pub(crate) fn set_join_waker(&self) -> bool {
        self.update(|seen| {
            debug_assert!(!seen.has(JOIN_WAKER), "join waker set twice: {seen:?}");
            if seen.has(COMPLETE) { (None, false) } else { (Some(seen.0 | JOIN_WAKER), true) }
        })
    }

    /// Takes the join waker back (TASK-2). False: the task is complete.
    pub(crate) fn unset_join_waker(&self) -> bool {
        self.update(|seen| {
            if seen.has(COMPLETE) { (None, false) } else { (Some(seen.0 & !JOIN_WAKER), true) }
        })
    }

    /// Asks for the task to be dropped; `reason` is 0 or ORPHANED.
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

    /// Arrow 10, by the thread that closes a scheduler after every queue is
    /// closed and drained. NOTIFIED can then only belong to a waker or a spawn
    /// on its way to a closed queue: it stays that thread's, and is marked so
    /// that wakes during the drop of the future are not taken for it.
    pub(crate) fn claim_for_shutdown(&self) -> Shutdown {
        self.update(|seen| {
            if !seen.has(LIVE) || seen.has(COMPLETE | RUNNING | BLOCKING) {
                return (None, Shutdown::Nothing);
            }
            let mark = if seen.has(NOTIFIED) { FOREIGN_ENTRY } else { 0 };
            (Some(seen.0 | RUNNING | CANCELLED | mark), Shutdown::DropFuture)
        })
    }

    /// An entry is taken out of a queue that is being drained, before anybody
    /// claims for shutdown: the future is the caller's to drop.
    pub(crate) fn claim_drained(&self) {
        self.update(|seen| {
            debug_assert!(!seen.has(COMPLETE) && seen.has(RUNNING | NOTIFIED), "{seen:?}");
            (Some((seen.0 & !NOTIFIED) | RUNNING | CANCELLED), ())
        });
    }

    /// A spawn found the queues closed. `None`: the future is the spawner's to
    /// drop; otherwise `claim_for_shutdown` was faster and only the entry goes.
    pub(crate) fn claim_refused_spawn(&self) -> Option<Release> {
        self.update(|seen| seen.refuse_entry(seen.has(RUNNING | COMPLETE)))
    }

    /// A poll has ended, its task was woken meanwhile, and its thread finds the queues closed.
    /// `None`: the future is the caller's to drop; otherwise `claim_for_shutdown` was faster and
    /// only the entry goes. (A task that woke itself is RUNNING still, and ours.)
    pub(crate) fn claim_refused_requeue(&self) -> Option<Release> {
        self.update(|seen| seen.refuse_entry(seen.has(FOREIGN_ENTRY)))
    }

    /// A waker found the queues closed: the entry it was to push goes away.
    pub(crate) fn refuse(&self) -> Release {
        let others = !(NOTIFIED | FOREIGN_ENTRY);
        let left = Snapshot(self.0.fetch_and(others, AcqRel) & others);
        if left.is_free() { Release::Free } else { Release::Nothing }
    }
}

#[cold]
fn count_overflow(what: &str) -> ! {
    // As with Arc: the counts can only get here by leaking, and going on would
    // free a task that is still referred to.
    eprintln!("wakeful: one task has millions of {what}; they are being leaked. Aborting.");
    std::process::abort();
}
