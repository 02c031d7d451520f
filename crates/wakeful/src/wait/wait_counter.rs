//! An atomic counter that tasks wait on, until it changes or is zero.
//!
//! Actors: *changers* change the number, each with one atomic operation. *Waiters* wait until their
//! [`WaitCondition`] is met.
//!
//! The lowest bit of the word, HAS_WAITERS, says whether the wait list may be non-empty. A
//! changer's atomic operation also reads this bit, and the changer accesses the list only if it is
//! set.
//!
//! # Rules
//!
//! - COUNTER-1. HAS_WAITERS is set while a waiter is in the list. It is set before the waiter
//!   enters and cleared only when the list is empty, both under the lock of the list.
//! - COUNTER-2. A changer whose operation found HAS_WAITERS wakes the waiters whose condition is
//!   met.
//!
//! The race to fear: a waiter sees a number that does not meet its condition and enters the list,
//! while the changer finds no waiters. It cannot happen, because all operations on the word have
//! one order. If the change comes before the waiter's load under the lock, the waiter sees the
//! change and does not enter. If it comes after, HAS_WAITERS is set (COUNTER-1), and the changer
//! wakes waiters (COUNTER-2). It does so under the lock, and so after the waiter has entered.
//!
//! HAS_WAITERS may stay set after the last waiter has left. Then the next changer finds an empty
//! list and clears the bit.
//!
//! Orderings: an operation releases the changer's earlier writes, and a load of the number acquires
//! them.

use super::list::{Grant, Waiter, WaiterState, Waiters};
use crate::sys::sync::atomic::{AtomicU64, Ordering::*};
use std::pin::Pin;
use std::task::{Context, Poll};

/// The bit that says that the list may contain a waiter (COUNTER-1).
const HAS_WAITERS: u64 = 1;
const SHIFT: u32 = 1;

/// The condition that ends a wait.
pub(crate) trait WaitCondition: Copy {
    fn is_met(self, number: u64) -> bool;
}

/// The condition that the number differs from this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotEqual(pub(crate) u64);

impl WaitCondition for NotEqual {
    #[inline]
    fn is_met(self, number: u64) -> bool {
        number != self.0
    }
}

/// The condition that the number is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Zero;

impl WaitCondition for Zero {
    #[inline]
    fn is_met(self, number: u64) -> bool {
        number == 0
    }
}

/// A counter of 63 bits, and its waiters.
pub(crate) struct WaitCounter<G> {
    /// The number, shifted by one, and HAS_WAITERS.
    word: AtomicU64,
    waiters: Waiters<(), G>,
}

/// The result of a change; the caller must pass it to `wake_waiters`.
#[must_use = "pass it to `wake_waiters`, after any lock is released"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CounterChange {
    /// The number before the change.
    pub(crate) before: u64,
    has_waiters: bool,
}

impl CounterChange {
    fn from_word(word: u64) -> Self {
        Self { before: word >> SHIFT, has_waiters: word & HAS_WAITERS != 0 }
    }
}

impl<G: WaitCondition> WaitCounter<G> {
    pub(crate) fn new(number: u64) -> Self {
        Self { word: AtomicU64::new(number << SHIFT), waiters: Waiters::new(()) }
    }

    #[inline]
    pub(crate) fn get(&self) -> u64 {
        self.word.load(Acquire) >> SHIFT
    }

    /// Adds `n` to the number, which wraps around.
    #[inline]
    pub(crate) fn add(&self, n: u64) -> CounterChange {
        CounterChange::from_word(self.word.fetch_add(n << SHIFT, AcqRel))
    }

    /// Subtracts `n` from the number.
    #[inline]
    pub(crate) fn sub(&self, n: u64) -> CounterChange {
        CounterChange::from_word(self.word.fetch_sub(n << SHIFT, AcqRel))
    }

    /// Sets bits of the number.
    pub(crate) fn set(&self, bits: u64) -> CounterChange {
        CounterChange::from_word(self.word.fetch_or(bits << SHIFT, AcqRel))
    }

    /// Wakes the waiters whose condition is met. Must be called after a change, without holding a
    /// lock.
    #[inline]
    pub(crate) fn wake_waiters(&self, change: CounterChange) {
        if change.has_waiters {
            self.wake_satisfied();
        }
    }

    fn wake_satisfied(&self) {
        let mut any = false;
        self.waiters.grant_while(Grant::All, |(), condition| {
            let is_met = condition.is_met(self.get());
            any |= is_met;
            is_met
        });
        if !any {
            // Relaxed: the bit describes only the list, whose lock is held.
            self.waiters.with(|list| {
                if list.is_empty() {
                    self.word.fetch_and(!HAS_WAITERS, Relaxed);
                }
            });
        }
    }

    /// Polls for the condition. Returns the number that meets it.
    ///
    /// After `Ready` the waiter is not in the list.
    #[inline]
    pub(crate) fn poll(
        &self,
        waiter: Pin<&Waiter<G>>,
        condition: G,
        cx: &mut Context<'_>,
    ) -> Poll<u64> {
        let number = self.get();
        if condition.is_met(number) && waiter.state() == WaiterState::Idle {
            return Poll::Ready(number);
        }
        self.poll_in_list(waiter, condition, cx)
    }

    fn poll_in_list(
        &self,
        waiter: Pin<&Waiter<G>>,
        condition: G,
        cx: &mut Context<'_>,
    ) -> Poll<u64> {
        loop {
            let number = self.get();
            if condition.is_met(number) {
                self.cancel(waiter);
                return Poll::Ready(number);
            }
            let is_waiting = match waiter.state() {
                WaiterState::Idle => self.enter(waiter, condition, cx),
                WaiterState::Waiting => {
                    self.waiters.update_waker(waiter, cx.waker()) == WaiterState::Waiting
                }
                // The condition was met when a changer woke this waiter, but is no longer met.
                WaiterState::Granted(_) => {
                    waiter.reset();
                    false
                }
            };
            if is_waiting {
                return Poll::Pending;
            }
        }
    }

    /// Enters the list unless the condition is met. Returns whether the waiter is in the list.
    fn enter(&self, waiter: Pin<&Waiter<G>>, condition: G, cx: &mut Context<'_>) -> bool {
        let waker = cx.waker().clone();
        // An unused waker is dropped after the lock is released.
        let unused = self.waiters.with(|list| {
            // COUNTER-1. While the lock is held, no thread clears the bit.
            let mut word = self.word.load(Acquire);
            if word & HAS_WAITERS == 0 {
                word = self.word.fetch_or(HAS_WAITERS, AcqRel);
            }
            if condition.is_met(word >> SHIFT) {
                return Some(waker);
            }
            list.push_back(waiter, condition, Some(waker));
            None
        });
        unused.is_none()
    }

    /// Ends the wait, because the condition is met or the waiter's future is dropped.
    #[inline]
    pub(crate) fn cancel(&self, waiter: Pin<&Waiter<G>>) {
        match waiter.state() {
            WaiterState::Idle => {}
            _ => self.cancel_in_list(waiter),
        }
    }

    fn cancel_in_list(&self, waiter: Pin<&Waiter<G>>) {
        if let WaiterState::Granted(_) = self.waiters.cancel(waiter) {
            // Every waiter gets its own grant, so there is none to forward.
            waiter.reset();
        }
    }
}
