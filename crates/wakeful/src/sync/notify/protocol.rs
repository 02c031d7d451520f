//! The protocol between the waiters of a [`Notify`] and its notifiers.
//!
//! Actors: *waiters* are `Notified` futures (`notified.rs`); *notifiers* call `notify_one`,
//! `notify_last` or `notify_waiters`.
//!
//! All state is in one word. Its lower bits record whether a permit is stored, or a task waits. The bits
//! above count the calls of `notify_waiters`. A waiter remembers that count from its creation. Once the
//! counts differ, the waiter is notified, whether it was polled or not.
//!
//! ```text
//! diagram
//!              notify_one, notify_last             enqueue
//!   NOTIFIED ◄───────────────────────── EMPTY ─────────────► WAITING
//!       │          try_consume             ▲                    │
//!       └──────────────────────────────────┴────────────────────┘
//!                                 notify_locked, remove, notify_waiters: no waiter left
//! ```
//!
//! Rules:
//! - NOTIFY-1. The word is WAITING exactly while a *current* waiter is in the list: one whose count
//!   equals the count in the word. Current waiters are behind all others, because the count only grows.
//! - NOTIFY-2. While the word is WAITING, only the holder of the list's lock changes it, with a plain
//!   store. Otherwise any thread may, with a compare-exchange.
//! - NOTIFY-3. All other waiters in the list were notified by a `notify_waiters` call that is still
//!   waking them, batch by batch. `notify_locked` skips them.
//!
//! The race to fear: a notifier finds no waiter and stores a permit, while a waiter finds no permit and
//! enqueues itself. It cannot happen: both confirm their read with a compare-exchange of the same word
//! (NOTIFY-2), and one of these fails.
//!
//! Orderings: a notifier changes the word with Release, even if a permit is stored already. A
//! waiter that consumes the permit or reads the count does so with Acquire, so it sees everything
//! that earlier notifiers did. For a waiter in the list, the grant carries the ordering
//! (`wait::list`).

use super::Notify;
use crate::sys::sync::atomic::Ordering::*;
use crate::task::context;
use crate::task::wait_target::TargetWord;
use crate::wait::list::{Grant, Locked, Waiter, WaiterState};
use crate::wait::ownership::stall_note::Stall;
use crate::wait::wake_batch::{PanicSink, PendingWake};
use std::pin::Pin;
use std::task::Waker;

/// No permit is stored, and no task waits.
pub(super) const EMPTY: usize = 0;
/// A task waits.
pub(super) const WAITING: usize = 1;
/// A permit is stored.
pub(super) const NOTIFIED: usize = 2;
/// The mask of the three states above.
const STATE: usize = 3;
/// One call of `notify_waiters`, in the count.
pub(super) const CALL: usize = 4;

/// Returns the count of `notify_waiters` calls, as a multiple of [`CALL`].
#[inline]
pub(super) fn calls(word: usize) -> usize {
    word & !STATE
}

#[inline]
pub(super) fn state(word: usize) -> usize {
    word & STATE
}

/// The waiter that gets a notification for one task.
#[derive(Clone, Copy)]
pub(super) enum Which {
    First,
    Last,
}

/// The result of `notify_locked`.
#[must_use]
enum NotifyOutcome {
    /// A waiter was granted the notification. The caller wakes it.
    Granted(PendingWake),
    /// No task waits: the notification is stored as the permit.
    Stored,
    /// Waiters that `notify_waiters` has yet to wake are in front (NOTIFY-3). The caller wakes
    /// them, and tries again.
    Blocked,
}

impl Notify {
    /// Counts a call, which notifies all waiters in the list (NOTIFY-3). The caller holds the
    /// list's lock.
    pub(super) fn count_call(&self) {
        let mut word = self.word.load(Relaxed);
        loop {
            if state(word) == WAITING {
                self.mark_reached();
                // NOTIFY-2.
                return self.word.store(calls(word).wrapping_add(CALL) | EMPTY, Release);
            }
            match self.word.compare_exchange(word, word.wrapping_add(CALL), AcqRel, Relaxed) {
                Ok(_) => return,
                Err(now) => word = now,
            }
        }
    }

    /// Wakes the waiters that a `notify_waiters` call has notified.
    pub(super) fn wake_notified(&self) {
        // A stale word is good enough. If it is WAITING, it is not stale (NOTIFY-2). Otherwise no waiter
        // in the list is current, and none becomes current (NOTIFY-1).
        self.waiters.grant_while(Grant::All, |(), &created_at| {
            created_at != calls(self.word.load(Relaxed))
        });
    }

    #[inline]
    pub(super) fn notify(&self, which: Which) {
        let mut word = self.word.load(Relaxed);
        while state(word) != WAITING {
            // Even if a permit is stored: its consumer must see what this thread did before.
            match self.word.compare_exchange(word, calls(word) | NOTIFIED, AcqRel, Relaxed) {
                Ok(_) => return,
                Err(now) => word = now,
            }
        }
        self.notify_waiting(which);
    }

    fn notify_waiting(&self, which: Which) {
        let mut panics = PanicSink::default();
        loop {
            match self.waiters.with(|list| self.notify_locked(list, which)) {
                NotifyOutcome::Granted(wake) => break wake.wake(),
                NotifyOutcome::Stored => break,
                NotifyOutcome::Blocked => {
                    // A panic of their wakers must not lose this notification.
                    panics.catch(|| self.wake_notified());
                }
            }
        }
        panics.resume();
    }

    /// Grants a notification to a waiter, or stores it. The caller holds the list's lock.
    fn notify_locked(&self, list: &mut Locked<'_, (), usize>, which: Which) -> NotifyOutcome {
        let mut word = self.word.load(Acquire);
        while state(word) != WAITING {
            match self.word.compare_exchange(word, calls(word) | NOTIFIED, AcqRel, Acquire) {
                Ok(_) => return NotifyOutcome::Stored,
                Err(now) => word = now,
            }
        }
        let wake = match which {
            Which::First if list.front().is_some_and(|created_at| *created_at != calls(word)) => {
                return NotifyOutcome::Blocked;
            }
            Which::First => list.pop_front(Grant::One),
            // NOTIFY-1: the last waiter is current, because a current one exists.
            Which::Last => list.pop_back(Grant::Last),
        };
        self.update_waiting(list, word);
        self.mark_reached();
        NotifyOutcome::Granted(wake.expect("NOTIFY-1: a task waits"))
    }

    /// Keeps NOTIFY-1 true after a waiter has left the list. The caller holds the list's lock.
    fn update_waiting(&self, list: &Locked<'_, (), usize>, word: usize) {
        let waiting = list.back().is_some_and(|created_at| *created_at == calls(word));
        if !waiting && state(word) == WAITING {
            // NOTIFY-2.
            self.word.store(calls(word) | EMPTY, Release);
        }
    }

    /// Returns true if a waiter created at count `created_at` is notified without waiting.
    ///
    /// This is the case if `notify_waiters` was called since, or if a permit is stored. The permit is
    /// consumed.
    #[inline]
    pub(super) fn try_consume(&self, created_at: usize) -> bool {
        let mut word = self.word.load(Acquire);
        loop {
            if calls(word) != created_at {
                self.has_reached.store(true, Relaxed);
                return true;
            }
            if state(word) != NOTIFIED {
                return false;
            }
            match self.word.compare_exchange(word, calls(word) | EMPTY, AcqRel, Acquire) {
                Ok(_) => {
                    self.has_reached.store(true, Relaxed);
                    return true;
                }
                Err(now) => word = now,
            }
        }
    }

    /// Records that a notification has reached a waiter, or that a waiter has given up. The caller holds
    /// the list's lock.
    fn mark_reached(&self) {
        self.has_reached.store(true, Relaxed);
        if let Some(record) = self.record.get() {
            record.stall.clear();
        }
    }

    /// Enqueues a waiter. Returns the waker if the waiter was notified meanwhile.
    pub(super) fn enqueue(
        &self,
        waiter: Pin<&Waiter<usize>>,
        created_at: usize,
        waker: Option<Waker>,
    ) -> Result<(), Option<Waker>> {
        self.waiters.with(|list| {
            loop {
                if self.try_consume(created_at) {
                    // The caller drops the waker after the list's lock is released.
                    return Err(waker);
                }
                let word = created_at | EMPTY;
                match self.word.compare_exchange(word, created_at | WAITING, AcqRel, Acquire) {
                    Ok(_) => break,
                    // NOTIFY-2: it stays WAITING.
                    Err(now) if now == created_at | WAITING => break,
                    Err(_) => {}
                }
            }
            if created_at == CALL {
                self.record_earlier_call();
            }
            list.push_back(waiter, created_at, waker);
            Ok(())
        })
    }

    /// Records that `notify_waiters` was called once before a waiter was created, unless a notification
    /// has reached a waiter. The caller holds the list's lock.
    ///
    /// A program that calls it more often announces each change, whether tasks wait or not.
    #[cold]
    fn record_earlier_call(&self) {
        if !self.has_reached.load(Relaxed) {
            self.record.obtain().stall.set(Stall { task: 0, count: 1, total: 0, created_at: None });
        }
    }

    /// Returns the target of a wait that began at this count of calls.
    #[inline]
    pub(super) fn target(&self, created_at: usize, waker: &Waker) -> TargetWord {
        match created_at {
            CALL if context::is_own_waker(waker) => self.record.target(self),
            _ => TargetWord::of_address(self),
        }
    }

    /// Removes a waiter from the list, if queued, and returns its previous state.
    pub(super) fn remove(&self, waiter: Pin<&Waiter<usize>>) -> WaiterState {
        let (waiter_state, unneeded) = self.waiters.with(|list| {
            let waiter_state = waiter.state();
            if waiter_state != WaiterState::Waiting {
                return (waiter_state, PendingWake::NONE);
            }
            let unneeded = list.remove(waiter);
            // The wait record of the task may still name the resource.
            self.mark_reached();
            self.update_waiting(list, self.word.load(Relaxed));
            (waiter_state, unneeded)
        });
        // Dropped after the list's lock is released, and not woken.
        drop(unneeded);
        waiter_state
    }
}
