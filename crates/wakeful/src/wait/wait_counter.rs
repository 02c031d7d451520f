//! A number that tasks wait for: until it is another one, until it is zero.
//!
//! Actors: *changers* change the number, each by one step on one word; *waiters*
//! have a goal that a number may reach.
//!
//! Whether anybody waits stands in the lowest bit of the word itself, AWAITED.
//! So a changer learns it with the step that it does anyway, and goes to the list
//! only then.
//!
//! Rules:
//! - COUNTER-1. While a waiter is in the list, AWAITED is set: it is set before the
//!   waiter enters and cleared only when the list is empty, both under the
//!   list's lock.
//! - COUNTER-2. A changer whose step found AWAITED calls those whose goal is reached.
//!
//! The race one fears: the waiter sees a number that is not its goal and enters
//! the list, while the changer finds nobody waiting. There is one order of all
//! steps on the word. If the change comes before the waiter's look under the
//! lock, the waiter sees it and does not enter; if it comes after, AWAITED was
//! set (COUNTER-1), and the changer calls (COUNTER-2): under the lock, so after the waiter has
//! entered.
//!
//! AWAITED may stay set when the last waiter has left. The next changer then
//! looks in vain, once, and clears it: two who take turns never pay for the bit.
//!
//! Orderings: a step releases what its changer did before, and whoever reads the
//! number acquires it.

use super::list::{Grant, Waiter, WaiterState, Waiters};
use crate::sys::sync::atomic::{AtomicU64, Ordering::*};
use std::pin::Pin;
use std::task::{Context, Poll};

/// Somebody may be in the list (COUNTER-1).
const AWAITED: u64 = 1;
const SHIFT: u32 = 1;

/// What a waiter waits for the number to be.
pub(crate) trait WaitCondition: Copy {
    fn is_met(self, number: u64) -> bool;
}

/// Any other number than this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotEqual(pub(crate) u64);

impl WaitCondition for NotEqual {
    #[inline]
    fn is_met(self, number: u64) -> bool {
        number != self.0
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Zero;

impl WaitCondition for Zero {
    #[inline]
    fn is_met(self, number: u64) -> bool {
        number == 0
    }
}

/// A number of 63 bits and those who wait for it.
pub(crate) struct WaitCounter<G> {
    word: AtomicU64,
    waiters: Waiters<(), G>,
}

/// A step was taken.
#[must_use = "those who wait are to be called, after any lock"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CounterChange {
    /// The number before.
    pub(crate) before: u64,
    is_awaited: bool,
}

impl CounterChange {
    fn from_word(word: u64) -> Self {
        Self { before: word >> SHIFT, is_awaited: word & AWAITED != 0 }
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

    /// Adds to the number, which wraps around.
    #[inline]
    pub(crate) fn add(&self, n: u64) -> CounterChange {
        CounterChange::from_word(self.word.fetch_add(n << SHIFT, AcqRel))
    }

    #[inline]
    pub(crate) fn sub(&self, n: u64) -> CounterChange {
        CounterChange::from_word(self.word.fetch_sub(n << SHIFT, AcqRel))
    }

    /// Sets bits of the number.
    pub(crate) fn set(&self, bits: u64) -> CounterChange {
        CounterChange::from_word(self.word.fetch_or(bits << SHIFT, AcqRel))
    }

    /// After a step, and after any lock: wakes those who waited for it.
    #[inline]
    pub(crate) fn wake_waiters(&self, moved: CounterChange) {
        if moved.is_awaited {
            self.wake_satisfied();
        }
    }

    fn wake_satisfied(&self) {
        let mut any = false;
        self.waiters.grant_while(Grant::All, |(), goal| {
            let reached = goal.is_met(self.get());
            any |= reached;
            reached
        });
        if !any {
            // Relaxed: says nothing about anything but the list, whose lock we
            // hold.
            self.waiters.with(|list| {
                if list.is_empty() {
                    self.word.fetch_and(!AWAITED, Relaxed);
                }
            });
        }
    }

    /// Waits for the goal; answers the number that reached it. Ready, the waiter
    /// has left the list.
    #[inline]
    pub(crate) fn poll(&self, waiter: Pin<&Waiter<G>>, goal: G, cx: &mut Context<'_>) -> Poll<u64> {
        let number = self.get();
        if goal.is_met(number) && waiter.state() == WaiterState::Idle {
            return Poll::Ready(number);
        }
        self.poll_in_list(waiter, goal, cx)
    }

    fn poll_in_list(&self, waiter: Pin<&Waiter<G>>, goal: G, cx: &mut Context<'_>) -> Poll<u64> {
        loop {
            let number = self.get();
            if goal.is_met(number) {
                self.cancel(waiter);
                return Poll::Ready(number);
            }
            let waits = match waiter.state() {
                WaiterState::Idle => self.enter(waiter, goal, cx),
                WaiterState::Waiting => {
                    self.waiters.update_waker(waiter, cx.waker()) == WaiterState::Waiting
                }
                // The number moved on, and back or to where it is now.
                WaiterState::Granted(_) => {
                    waiter.reset();
                    false
                }
            };
            if waits {
                return Poll::Pending;
            }
        }
    }

    /// Answers whether the waiter is in the list.
    fn enter(&self, waiter: Pin<&Waiter<G>>, goal: G, cx: &mut Context<'_>) -> bool {
        let waker = cx.waker().clone();
        // What is left over is dropped after the lock.
        let left_over = self.waiters.with(|list| {
            // COUNTER-1. If the bit is there, it stays there while we hold the lock.
            let mut word = self.word.load(Acquire);
            if word & AWAITED == 0 {
                word = self.word.fetch_or(AWAITED, AcqRel);
            }
            if goal.is_met(word >> SHIFT) {
                return Some(waker);
            }
            list.push_back(waiter, goal, Some(waker));
            None
        });
        left_over.is_none()
    }

    /// The waiter no longer waits: because it has what it waited for, or because
    /// its future is dropped.
    #[inline]
    pub(crate) fn cancel(&self, waiter: Pin<&Waiter<G>>) {
        match waiter.state() {
            WaiterState::Idle => {}
            _ => self.cancel_in_list(waiter),
        }
    }

    fn cancel_in_list(&self, waiter: Pin<&Waiter<G>>) {
        if let WaiterState::Granted(_) = self.waiters.cancel(waiter) {
            // Everybody was told, so there is nothing to pass on.
            waiter.reset();
        }
    }
}
