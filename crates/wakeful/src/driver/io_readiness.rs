//! Station 7 for I/O: one socket, pipe or other descriptor that the poller
//! watches, and the wakers of those who wait for it. A task comes here from a
//! read or write that would block; when the system says that it no longer would,
//! the waker leads on to station 8.
//!
//! Readiness is kept in one word: what the descriptor is ready for, as far as we
//! know, and a count of the events that said so. The system tells of changes only
//! (edge-triggered), so what is ready stays ready until an operation finds out
//! that it is not ([`IoReadiness::take_back`]); the count keeps that operation from
//! clearing news that came after it looked.
//!
//! An end may turn out to be none: what the system tells as one is also an error that
//! concerned one packet, a message in the error queue, or the last writer of a named
//! pipe, after whom another came. At a true end of its direction no operation would block,
//! so one that would takes the end back as well. Who kept it would try again at once, for ever.
//!
//! Most often it finds out by reading or writing less than it could have. That happens
//! with every request, so it is said in a store beside the word ([`IoReadiness::use_up`]): up
//! to which count readiness was used up. Whoever looks compares. Of two who store, the
//! one who looked earlier may come later, or be seen later: then something seems ready
//! that is not, and the next operation clears it.
//!
//! Actors: the *poller* adds readiness and then calls; a *user* looks, leaves its
//! waker, and looks again. All steps on the word and on the places for wakers are
//! SeqCst, so at least one of them sees the other.
//!
//! Who waits where: polls that read wait in `reader`, polls that write in
//! `writer`, one task each, without a lock; futures that name an interest wait in
//! the list, which the poller looks at only while `listed` says so.

use crate::sys::IS_MODEL;
use crate::sys::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use crate::sys::unwind::catch_and_forget;
use crate::wait::atomic_waker::{AtomicWaker, Registered};
use crate::wait::list::{Grant, Waiter, WaiterState, Waiters};
use crate::wait::wake_batch::WakeBatch;
use std::ops::BitOr;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// What a descriptor is ready for, or somebody waits for.
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
    /// What ends the wait of a read.
    pub(crate) const READ: Self = Self(Self::READABLE.0 | Self::READ_CLOSED.0);
    /// What ends the wait of a write.
    pub(crate) const WRITE: Self = Self(Self::WRITABLE.0 | Self::WRITE_CLOSED.0);
    const ALL: u64 = (1 << 6) - 1;
    /// What looks like an end, and mostly is one.
    const FINAL: u8 = Self::READ_CLOSED.0 | Self::WRITE_CLOSED.0;

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

/// The runtime is gone: nothing happens any more.
const SHUT_DOWN: u64 = 1 << 8;
/// One event.
const EVENT: u64 = 1 << 16;
/// No count of events.
const NEVER: u64 = u64::MAX;

/// What was seen when somebody looked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) ready: Readiness,
    /// The count of events.
    events: u64,
    pub(crate) is_shut_down: bool,
}

impl Seen {
    fn of(word: u64, mask: Readiness) -> Self {
        Self {
            ready: Readiness((word & Readiness::ALL) as u8).and(mask),
            events: word / EVENT,
            is_shut_down: word & SHUT_DOWN != 0,
        }
    }

    /// Whether something came to its end.
    #[inline]
    pub(crate) fn has_end(&self) -> bool {
        self.ready.0 & Readiness::FINAL != 0
    }

    /// The same without those.
    pub(crate) fn without(self, others: Readiness) -> Self {
        Self { ready: Readiness(self.ready.0 & !others.0), ..self }
    }

    fn is_news(&self) -> bool {
        !self.ready.is_empty() || self.is_shut_down
    }
}

/// Which of the two places for a single waker.
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

/// Apart from its neighbours by two cache lines: pollers of several workers
/// write to theirs all the time. What every request needs is in the second of them; the
/// writer's waker, which hardly one does, ends the first.
#[repr(C, align(128))]
pub(crate) struct IoReadiness {
    waiters: Waiters<(), Readiness>,
    _gap: [u64; GAP],
    writer: AtomicWaker,
    word: AtomicU64,
    /// The count of events at which a read, or a write, used up what there was.
    read_up: AtomicU64,
    written_up: AtomicU64,
    reader: AtomicWaker,
    /// Somebody may be in the list. Written under its lock.
    listed: AtomicBool,
}

/// In words. (In a model all parts are larger, and lie anywhere.)
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
            read_up: AtomicU64::new(NEVER),
            written_up: AtomicU64::new(NEVER),
            reader: AtomicWaker::new(),
            listed: AtomicBool::new(false),
        }
    }

    /// It is for another descriptor from now on. The system may still tell of the one before,
    /// if that was closed too early.
    pub(crate) fn renew(&self) {
        self.read_up.store(NEVER, Relaxed);
        self.written_up.store(NEVER, Relaxed);
        // The count goes on, so that what was seen before concerns nothing from now on.
        self.word.fetch_and(!(EVENT - 1), SeqCst);
    }

    #[inline]
    pub(crate) fn look(&self, mask: Readiness) -> Seen {
        Seen::of(self.left_of(self.word.load(SeqCst), mask), mask)
    }

    /// The word without what was used up since its last event, as far as `mask` asks.
    #[inline]
    fn left_of(&self, word: u64, mask: Readiness) -> u64 {
        let mut used_up = Readiness::NONE;
        for (up_to, kind) in
            [(&self.read_up, Readiness::READABLE), (&self.written_up, Readiness::WRITABLE)]
        {
            if !mask.and(kind).is_empty() && up_to.load(Acquire) == word / EVENT {
                used_up = used_up | kind;
            }
        }
        word & !u64::from(used_up.0)
    }

    fn place(&self, direction: Direction) -> &AtomicWaker {
        match direction {
            Direction::Read => &self.reader,
            Direction::Write => &self.writer,
        }
    }

    /// Waits for one direction, for the task that asks last.
    #[inline]
    pub(crate) fn poll_ready(&self, direction: Direction, cx: &mut Context<'_>) -> Poll<Seen> {
        let seen = self.look(direction.mask());
        if seen.is_news() { Poll::Ready(seen) } else { self.poll_news(direction, cx.waker()) }
    }

    fn poll_news(&self, direction: Direction, waker: &Waker) -> Poll<Seen> {
        let registered = self.place(direction).register(waker);
        let seen = self.look(direction.mask());
        if seen.is_news() {
            self.place(direction).deregister();
            return Poll::Ready(seen);
        }
        if registered == Registered::Notified {
            // Somebody else was faster to use what it was called for.
            waker.wake_by_ref();
        }
        Poll::Pending
    }

    /// Waits for any of `mask` in the list. The future that holds `waiter` calls
    /// [`leave`](Self::leave) before it goes.
    pub(crate) fn poll_listed(
        &self,
        waiter: Pin<&Waiter<Readiness>>,
        mask: Readiness,
        cx: &mut Context<'_>,
    ) -> Poll<Seen> {
        let seen = self.look(mask);
        if seen.is_news() {
            self.leave(waiter);
            return Poll::Ready(seen);
        }
        // If it is called this very moment, the one who is woken may be another: it waits anew.
        let waits = self.waiters.update_waker(waiter, cx.waker()) == WaiterState::Waiting;
        if !waits {
            waiter.reset();
            let waker = cx.waker().clone();
            self.waiters.with(|list| {
                list.push_back(waiter, mask, Some(waker));
                self.listed.store(true, SeqCst);
            });
        }
        let seen = self.look(mask);
        if seen.is_news() {
            self.leave(waiter);
            return Poll::Ready(seen);
        }
        Poll::Pending
    }

    pub(crate) fn leave(&self, waiter: Pin<&Waiter<Readiness>>) {
        // News is for everybody: nothing to pass on.
        let _ = self.waiters.cancel(waiter);
    }

    /// Somebody says that what was seen is no longer so, for reasons of its own. What
    /// came after it looked stays, and so does an end.
    pub(crate) fn clear(&self, seen: Seen) {
        self.remove(seen.events, seen.ready.0 & !Readiness::FINAL);
    }

    /// The same after a read or a write that was short of what it could have been.
    #[inline]
    pub(crate) fn use_up(&self, direction: Direction, seen: Seen) {
        let up_to = match direction {
            Direction::Read => &self.read_up,
            Direction::Write => &self.written_up,
        };
        up_to.store(seen.events, Release);
    }

    /// Nobody waits any more in the places for one: the descriptor goes, and a waker must
    /// not outlive it. Not while somebody begins to wait.
    pub(crate) fn let_wakers_go(&self) {
        self.reader.deregister();
        self.writer.deregister();
    }

    /// An operation would have blocked: what it saw is no longer so, an end included.
    /// What came after it looked stays.
    pub(crate) fn take_back(&self, seen: Seen) {
        self.remove(seen.events, seen.ready.0);
    }

    fn remove(&self, events: u64, gone: u8) {
        // On failure the word has changed: by news, so nothing is to be cleared,
        // or by another who clears, so try again.
        let _ = self.word.fetch_update(SeqCst, SeqCst, |word| {
            (word / EVENT == events).then_some(word & !u64::from(gone))
        });
    }

    /// The poller says what happened; wakes whoever waits for it. If a waker panics, the caller goes
    /// on with [`call_others`](Self::call_others).
    pub(crate) fn add(&self, ready: Readiness) {
        let left = |word| self.left_of(word, Readiness::READ | Readiness::WRITE);
        let added = |word| (left(word) | u64::from(ready.0)).wrapping_add(EVENT);
        let _ = self.word.fetch_update(SeqCst, SeqCst, |word| Some(added(word)));
        self.call(ready);
    }

    /// Nothing happens any more; everybody is told.
    pub(crate) fn shut_down(&self) {
        self.word.fetch_or(SHUT_DOWN, SeqCst);
        self.call_others(Readiness(u8::MAX));
    }

    /// Wakes whoever was not woken for these yet, whichever wakers panic: that was printed, and
    /// nobody here is to blame.
    #[cold]
    pub(crate) fn call_others(&self, ready: Readiness) {
        // One that panicked is gone, and does not come again.
        while catch_and_forget(|| self.call(ready)).is_none() {}
    }

    fn call(&self, ready: Readiness) {
        // A datagram socket's error is found by those who read.
        if !ready.and(Readiness::READ | Readiness::ERROR).is_empty() {
            self.reader.take().wake();
        }
        if !ready.and(Readiness::WRITE).is_empty() {
            self.writer.take().wake();
        }
        if self.listed.load(SeqCst) {
            self.call_listed(ready);
        }
    }

    #[cold]
    fn call_listed(&self, ready: Readiness) {
        let mut calls = WakeBatch::new();
        loop {
            let more = self.waiters.with(|list| {
                let concerned = |ask: &Readiness| !ask.and(ready).is_empty();
                let more = list.grant_matching(Grant::All, &mut calls, concerned);
                self.listed.store(!list.is_empty(), SeqCst);
                more
            });
            calls.wake();
            if !more {
                return;
            }
        }
    }
}
