//! Station 7 for I/O: the readiness of one registered descriptor, and the wakers of its waiters.
//!
//! A task comes here from a read or write that would block. When the kernel reports that the
//! operation would no longer block, the poller wakes the task, which leads to station 8.
//!
//! # The readiness word
//!
//! One atomic word holds the known readiness of the descriptor and a count of events. The epoll
//! instance is edge-triggered: it reports only changes. So a descriptor stays ready until an
//! operation finds that it would block and clears the readiness
//! ([`IoReadiness::clear_if_unchanged`]). The event count keeps that operation from clearing an
//! event that came after its [`ReadinessSnapshot`].
//!
//! # Draining
//!
//! Usually an operation detects this by reading or writing less than it could have. This happens
//! with every request, so it costs only a plain store beside the word.
//! [`IoReadiness::mark_drained`] stores the event count up to which the descriptor was drained.
//! [`IoReadiness::load`] compares the two counts.
//!
//! If two operations store concurrently, the one with the older snapshot may store last. Then the
//! descriptor seems ready although it is not, and the next operation clears the readiness.
//!
//! # Closed directions
//!
//! `READ_CLOSED` and `WRITE_CLOSED` may be wrong. The kernel also reports these flags for an error
//! of a single packet, for a message in the error queue, and when the last writer of a named pipe
//! leaves and another comes. In a direction that is really closed, no operation would block. So an
//! operation that would block clears these flags too. Otherwise its caller would retry forever.
//!
//! # Protocol
//!
//! 1. The *poller* adds readiness to the word, then wakes the waiters.
//! 2. A *waiter* loads the word, stores its waker, and loads the word again.
//!
//! The race to fear: the poller finds no waker, and the waiter sees no readiness. It cannot happen:
//! all accesses to the word and to the waker cells are SeqCst, so at least one of the two sees the
//! other's write. (Model: `models/io_readiness.rs`.)
//!
//! # Waiters
//!
//! Polls that read wait in `reader`, polls that write in `writer`: one task each, without a lock.
//! Futures that name an interest wait in the list, which the poller visits only while
//! `has_listed_waiters` is set.

use crate::sys::IS_MODEL;
use crate::sys::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use crate::wait::atomic_waker::{AtomicWaker, Registered};
use crate::wait::list::{Grant, Waiter, WaiterState, Waiters};
use crate::wait::wake_batch::WakeBatch;
use std::ops::BitOr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// A set of readiness flags: what a descriptor is ready for, or what a task waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Readiness(pub(crate) u8);

impl Readiness {
    pub(crate) const NONE: Self = Self(0);
    pub(crate) const READABLE: Self = Self(1);
    pub(crate) const WRITABLE: Self = Self(1 << 1);
    pub(crate) const READ_CLOSED: Self = Self(1 << 2);
    pub(crate) const WRITE_CLOSED: Self = Self(1 << 3);
    pub(crate) const PRIORITY: Self = Self(1 << 4);
    pub(crate) const ERROR: Self = Self(1 << 5);
    /// The flags that end the wait of a read.
    pub(crate) const READ: Self = Self(Self::READABLE.0 | Self::READ_CLOSED.0);
    /// The flags that end the wait of a write.
    pub(crate) const WRITE: Self = Self(Self::WRITABLE.0 | Self::WRITE_CLOSED.0);
    const ALL: u64 = (1 << 6) - 1;
    /// The flags of a closed direction.
    const CLOSED: u8 = Self::READ_CLOSED.0 | Self::WRITE_CLOSED.0;

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn and(self, mask: Self) -> Self {
        Self(self.0 & mask.0)
    }
}

impl BitOr for Readiness {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Flag of the word: the runtime has shut down, so no event will come.
const SHUT_DOWN: u64 = 1 << 8;
/// The unit of the event count in the word.
const EVENT: u64 = 1 << 16;
/// The value of `read_drained_at` and `write_drained_at` that means "not drained".
const NEVER: u64 = u64::MAX;

/// The readiness at one time, together with the event count.
///
/// A copy of the readiness word in which other flags are cleared, so that it fits a register.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadinessSnapshot(u64);

impl ReadinessSnapshot {
    #[inline]
    fn from_word(word: u64, mask: Readiness) -> Self {
        Self(word & (!(EVENT - 1) | SHUT_DOWN | (Readiness::ALL & u64::from(mask.0))))
    }

    /// Returns what the descriptor was ready for.
    #[inline]
    pub(crate) fn ready(self) -> Readiness {
        Readiness((self.0 & Readiness::ALL) as u8)
    }

    /// Returns the event count when the snapshot was taken.
    #[inline]
    fn events(self) -> u64 {
        self.0 / EVENT
    }

    #[inline]
    pub(crate) fn is_shut_down(self) -> bool {
        self.0 & SHUT_DOWN != 0
    }

    /// Returns whether a direction is reported as closed.
    #[inline]
    pub(crate) fn is_closed(self) -> bool {
        self.ready().0 & Readiness::CLOSED != 0
    }

    /// Returns this snapshot with other flags.
    #[inline]
    pub(crate) fn with_ready(self, ready: Readiness) -> Self {
        Self(self.0 & !Readiness::ALL | u64::from(ready.0))
    }

    /// Returns this snapshot without the flags in `removed`.
    #[inline]
    pub(crate) fn without(self, removed: Readiness) -> Self {
        self.with_ready(Readiness(self.ready().0 & !removed.0))
    }

    #[inline]
    fn ends_wait(self) -> bool {
        self.0 & (Readiness::ALL | SHUT_DOWN) != 0
    }
}

/// The direction of an operation, which selects one of the two waker cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Read,
    Write,
}

impl Direction {
    pub(crate) fn mask(self) -> Readiness {
        match self {
            Direction::Read => Readiness::READ,
            Direction::Write => Readiness::WRITE,
        }
    }
}

/// The readiness of one descriptor, and the tasks that wait for it.
///
/// It fills two cache lines, because the pollers of several workers write to their sources
/// constantly. The fields that every request uses are in the second line. The writer's waker, which
/// few requests use, is at the end of the first.
#[repr(C, align(128))]
pub(crate) struct IoReadiness {
    waiters: Waiters<(), Readiness>,
    _gap: [u64; GAP],
    writer: AtomicWaker,
    word: AtomicU64,
    /// The event count up to which reads have drained the descriptor.
    read_drained_at: AtomicU64,
    /// The event count up to which writes have filled the descriptor.
    write_drained_at: AtomicU64,
    reader: AtomicWaker,
    /// Whether `waiters` may be non-empty. Written under its lock.
    has_listed_waiters: AtomicBool,
}

/// The padding in words. (Under loom all fields are larger, and the layout does not matter.)
const GAP: usize = (SECOND_LINE - size_of::<Waker>() - size_of::<Waiters<(), Readiness>>()) / 8;
const SECOND_LINE: usize = if IS_MODEL { 1024 } else { 64 };
const _: () = assert!(IS_MODEL || std::mem::offset_of!(IoReadiness, word) == SECOND_LINE + 8);
const _: () = assert!(IS_MODEL || size_of::<IoReadiness>() == 128);

impl IoReadiness {
    pub(crate) fn new() -> Self {
        Self {
            waiters: Waiters::new(()),
            _gap: [0; GAP],
            writer: AtomicWaker::new(),
            word: AtomicU64::new(0),
            read_drained_at: AtomicU64::new(NEVER),
            write_drained_at: AtomicU64::new(NEVER),
            reader: AtomicWaker::new(),
            has_listed_waiters: AtomicBool::new(false),
        }
    }

    /// Prepares the source for another descriptor.
    ///
    /// epoll may still report the previous descriptor, if that was closed too early.
    pub(crate) fn reset_for_reuse(&self) {
        self.read_drained_at.store(NEVER, Relaxed);
        self.write_drained_at.store(NEVER, Relaxed);
        // The event count continues, so that an older snapshot cannot clear a later event.
        self.word.fetch_and(!(EVENT - 1), SeqCst);
    }

    /// Returns the current readiness, restricted to `mask`.
    #[inline]
    pub(crate) fn load(&self, mask: Readiness) -> ReadinessSnapshot {
        ReadinessSnapshot::from_word(self.without_drained(self.word.load(SeqCst), mask), mask)
    }

    /// Removes the flags of `mask` from `word` that were drained since its last event.
    #[inline]
    fn without_drained(&self, word: u64, mask: Readiness) -> u64 {
        let mut drained = Readiness::NONE;
        for (drained_at, kind) in [
            (&self.read_drained_at, Readiness::READABLE),
            (&self.write_drained_at, Readiness::WRITABLE),
        ] {
            // Acquire pairs with the Release store in `mark_drained`.
            if !mask.and(kind).is_empty() && drained_at.load(Acquire) == word / EVENT {
                drained = drained | kind;
            }
        }
        word & !u64::from(drained.0)
    }

    fn waker_cell(&self, direction: Direction) -> &AtomicWaker {
        match direction {
            Direction::Read => &self.reader,
            Direction::Write => &self.writer,
        }
    }

    /// Waits until a direction is ready. Only the task that polled last is woken.
    #[inline]
    pub(crate) fn poll_ready(
        &self,
        direction: Direction,
        cx: &mut Context<'_>,
    ) -> Poll<ReadinessSnapshot> {
        let seen = self.load(direction.mask());
        if seen.ends_wait() {
            Poll::Ready(seen)
        } else {
            self.register_and_recheck(direction, cx.waker())
        }
    }

    fn register_and_recheck(&self, direction: Direction, waker: &Waker) -> Poll<ReadinessSnapshot> {
        let registered = self.waker_cell(direction).register(waker);
        let seen = self.load(direction.mask());
        if seen.ends_wait() {
            self.waker_cell(direction).deregister();
            return Poll::Ready(seen);
        }
        if registered == Registered::Notified {
            // The poller woke this cell while the waker was being stored, and another task has
            // consumed the readiness since. Poll again.
            waker.wake_by_ref();
        }
        Poll::Pending
    }

    /// Waits in the list until any flag of `mask` is ready.
    ///
    /// The future that owns `waiter` must call [`cancel_wait`](Self::cancel_wait) before it is
    /// dropped.
    pub(crate) fn poll_listed(
        &self,
        waiter: Pin<&Waiter<Readiness>>,
        mask: Readiness,
        cx: &mut Context<'_>,
    ) -> Poll<ReadinessSnapshot> {
        let seen = self.load(mask);
        if seen.ends_wait() {
            self.cancel_wait(waiter);
            return Poll::Ready(seen);
        }
        // If the poller is currently waking this waiter, it may wake an older waker. The waiter
        // then queues itself again.
        let is_waiting = self.waiters.update_waker(waiter, cx.waker()) == WaiterState::Waiting;
        if !is_waiting {
            waiter.reset();
            let waker = cx.waker().clone();
            self.waiters.with(|list| {
                list.push_back(waiter, mask, Some(waker));
                self.has_listed_waiters.store(true, SeqCst);
            });
        }
        let seen = self.load(mask);
        if seen.ends_wait() {
            self.cancel_wait(waiter);
            return Poll::Ready(seen);
        }
        Poll::Pending
    }

    /// Removes `waiter` from the list, if it is in the list.
    pub(crate) fn cancel_wait(&self, waiter: Pin<&Waiter<Readiness>>) {
        // An event wakes all waiters, so a cancelled waiter has nothing to forward.
        let _ = self.waiters.cancel(waiter);
    }

    /// Clears the readiness of a snapshot at a user's request, except for closed directions.
    ///
    /// Does nothing if there was an event since the snapshot.
    pub(crate) fn clear_except_closed(&self, seen: ReadinessSnapshot) {
        self.remove(seen.events(), seen.ready().0 & !Readiness::CLOSED);
    }

    /// Marks a direction as drained after a read or write that was shorter than it could have been.
    ///
    /// Has no effect if there was an event since the snapshot. Cheaper than
    /// [`clear_if_unchanged`](Self::clear_if_unchanged).
    #[inline]
    pub(crate) fn mark_drained(&self, direction: Direction, seen: ReadinessSnapshot) {
        let drained_at = match direction {
            Direction::Read => &self.read_drained_at,
            Direction::Write => &self.write_drained_at,
        };
        drained_at.store(seen.events(), Release);
    }

    /// Drops the wakers in both cells. Must not run concurrently with a poll that registers one.
    ///
    /// Called when the descriptor is deregistered, because a waker must not outlive it.
    pub(crate) fn drop_wakers(&self) {
        self.reader.deregister();
        self.writer.deregister();
    }

    /// Clears all readiness of a snapshot, closed directions included, after an operation would
    /// have blocked.
    ///
    /// Does nothing if there was an event since the snapshot.
    pub(crate) fn clear_if_unchanged(&self, seen: ReadinessSnapshot) {
        self.remove(seen.events(), seen.ready().0);
    }

    fn remove(&self, events: u64, flags: u8) {
        // If the word changed because of an event, there is nothing to clear. If another thread
        // cleared flags, `fetch_update` tries again.
        let _ = self.word.fetch_update(SeqCst, SeqCst, |word| {
            (word / EVENT == events).then_some(word & !u64::from(flags))
        });
    }

    /// Adds readiness that the poller reports, and wakes the tasks that wait for it.
    ///
    /// If a waker panics, the caller continues with [`wake_remaining`](Self::wake_remaining).
    pub(crate) fn add(&self, ready: Readiness) {
        let undrained = |word| self.without_drained(word, Readiness::READ | Readiness::WRITE);
        let added = |word| (undrained(word) | u64::from(ready.0)).wrapping_add(EVENT);
        let _ = self.word.fetch_update(SeqCst, SeqCst, |word| Some(added(word)));
        self.wake(ready);
    }

    /// Marks the runtime as shut down and wakes all waiters.
    pub(crate) fn shut_down(&self) {
        self.word.fetch_or(SHUT_DOWN, SeqCst);
        self.wake_remaining(Readiness(u8::MAX));
    }

    /// Wakes all tasks that were not yet woken for `ready`, even if wakers panic.
    ///
    /// The panic hook has printed each panic, and the calling thread is not at fault.
    #[cold]
    pub(crate) fn wake_remaining(&self, ready: Readiness) {
        // A waker is taken out before it is woken, so the loop ends even if wakers panic.
        while let Err(payload) = catch_unwind(AssertUnwindSafe(|| self.wake(ready))) {
            std::mem::forget(payload); // its drop might panic again
        }
    }

    fn wake(&self, ready: Readiness) {
        // The error of a datagram socket is returned by its next read.
        if !ready.and(Readiness::READ | Readiness::ERROR).is_empty() {
            self.reader.take().wake();
        }
        if !ready.and(Readiness::WRITE).is_empty() {
            self.writer.take().wake();
        }
        if self.has_listed_waiters.load(SeqCst) {
            self.wake_listed(ready);
        }
    }

    #[cold]
    fn wake_listed(&self, ready: Readiness) {
        let mut batch = WakeBatch::new();
        loop {
            let more = self.waiters.with(|list| {
                let is_concerned = |mask: &Readiness| !mask.and(ready).is_empty();
                let more = list.grant_matching(Grant::All, &mut batch, is_concerned);
                self.has_listed_waiters.store(!list.is_empty(), SeqCst);
                more
            });
            batch.wake();
            if !more {
                return;
            }
        }
    }
}
