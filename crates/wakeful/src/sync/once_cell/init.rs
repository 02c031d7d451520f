//! The right to compute the value of a `OnceCell`, and the tasks that wait for it.
//!
//! Actors: the *initializer* is the one task that has the right to compute the value; *waiters*
//! wait for the value, or for that right.
//!
//! Rules:
//! - ONCECELL-1. `claimed` is accessed under the list's lock. It is true while there is an
//!   initializer. It stays true when the right is granted to a waiter (`Grant::One`), and forever
//!   once the cell has a value.
//! - ONCECELL-2. Waiters are in the list only while there is an initializer and no value. The
//!   initializer ends its role by filling the slot, or by handing the right to the first waiter.
//!
//! The race to fear: a waiter finds no value and enqueues itself, while the initializer fills the
//! slot and finds no waiter. It cannot happen: the slot is filled before the list is emptied, and
//! the waiter checks the slot again under the list's lock. So either the waiter is already in the
//! list, or it sees the value.

use super::OnceCell;
use crate::task::coop;
use crate::task::wait_kind::WaitKind;
use crate::wait;
use crate::wait::list::{Grant, Waiter, WaiterState};
use crate::wait::ownership::owner::Owner;
use crate::wait::wake_batch::PendingWake;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

impl<T> OnceCell<T> {
    /// Waits for the value, or for the right to compute it.
    pub(super) fn claim_init(&self, site: &'static Location<'static>) -> ClaimInit<'_, T> {
        ClaimInit { cell: self, site, waiter: Waiter::new() }
    }

    /// Makes the caller the initializer, or enqueues `waiter` (if given) behind the current one.
    pub(super) fn try_claim_init(
        &self,
        site: &'static Location<'static>,
        waiter: Option<(Pin<&Waiter<Owner>>, &mut Option<Waker>)>,
    ) -> ClaimOutcome {
        self.waiters.with(|list| {
            if self.slot.is_full() {
                return ClaimOutcome::HasValue;
            }
            if !std::mem::replace(&mut list.claimed, true) {
                self.owner.set(site);
                return ClaimOutcome::Initializer;
            }
            if let Some((waiter, waker)) = waiter {
                let waker = waker.take().expect("cloned for this");
                // The first waiter copies the owner to the record. For later waiters, the first one
                // or the task that handed the right over has already done so.
                let is_first = list.is_empty();
                let reason = (WaitKind::OnceCell, site);
                list.push_linked(waiter, Owner::current(site), waker, reason, |record| {
                    if is_first && let Some(held) = self.owner.get() {
                        record.update_owner(Some(held));
                    }
                });
            }
            ClaimOutcome::Waiting
        })
    }

    /// Makes the caller the initializer, or enqueues its waiter.
    fn claim_init_or_wait(
        &self,
        site: &'static Location<'static>,
        waiter: Pin<&Waiter<Owner>>,
        waker: &Waker,
    ) -> ClaimOutcome {
        match self.try_claim_init(site, None) {
            ClaimOutcome::Waiting => {}
            other => return other,
        }
        // Cloned only here, because mostly there is no need. An unused clone is dropped after the
        // list's lock is released.
        let mut waker = Some(waker.clone());
        self.try_claim_init(site, Some((waiter, &mut waker)))
    }

    /// Hands the initializer's right to the first waiter (ONCECELL-2).
    fn hand_over_init(&self) {
        let wake = self.waiters.with(|list| {
            self.owner.clear();
            let front = list.front().copied();
            let next = list.pop_front_with(Grant::One, |list| {
                if let (Some(record), Some(next)) = (list.record.get(), front) {
                    record.set_owner(next.granted_unpolled());
                }
                0
            });
            // ONCECELL-1.
            list.claimed = next.is_some();
            next
        });
        wake.unwrap_or(PendingWake::NONE).wake();
    }
}

/// The next step of a task that wants the value.
#[must_use]
pub(super) enum ClaimOutcome {
    /// The cell has a value.
    HasValue,
    /// The task is the initializer.
    Initializer,
    /// The task was granted the initializer's right by a task that did not use it.
    Granted,
    /// The task waits for the initializer.
    Waiting,
}

/// The right to compute the value. Dropping it hands the right to the next waiter.
pub(super) struct InitGuard<'a, T> {
    pub(super) cell: &'a OnceCell<T>,
}

impl<'a, T> InitGuard<'a, T> {
    /// Accepts a right that was granted (ONCECELL-1).
    fn from_grant(cell: &'a OnceCell<T>, site: &'static Location<'static>) -> Self {
        cell.waiters.with(|list| {
            cell.owner.set(site);
            if let Some(record) = list.record.get() {
                record.update_owner(cell.owner.get());
            }
        });
        InitGuard { cell }
    }

    /// Sets the value and notifies all waiters.
    pub(super) fn fill(self, value: T) -> &'a T {
        let cell = self.cell;
        // The value is set, so there is no right to hand over: `claimed` stays true.
        std::mem::forget(self);
        let refused = cell.slot.fill(value).is_err();
        assert!(!refused, "ONCECELL-1: there is one initializer, and none once there is a value");
        cell.waiters.with(|_| cell.owner.clear());
        // ONCECELL-2.
        cell.waiters.grant_while(Grant::All, |_, _| true);
        cell.get().expect("it was filled")
    }
}

impl<T> Drop for InitGuard<'_, T> {
    fn drop(&mut self) {
        self.cell.hand_over_init();
    }
}

/// The result of waiting: the value, or the right to compute it.
pub(super) enum ClaimResult<'a, T> {
    Value(&'a T),
    Init(InitGuard<'a, T>),
}

pin_project_lite::pin_project! {
    /// The future that waits for the value, or for the right to compute it.
    pub(super) struct ClaimInit<'a, T> {
        cell: &'a OnceCell<T>,
        site: &'static Location<'static>,
        #[pin]
        waiter: Waiter<Owner>,
    }

    impl<T> PinnedDrop for ClaimInit<'_, T> {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            let state = this.cell.waiters.cancel(this.waiter.as_ref());
            if state == WaiterState::Granted(Grant::One) {
                this.cell.hand_over_init();
            }
        }
    }
}

impl<'a, T> Future for ClaimInit<'a, T> {
    type Output = ClaimResult<'a, T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<ClaimResult<'a, T>> {
        let progress = ready!(coop::poll_proceed(cx));
        let this = self.project();
        let (cell, site, waiter) = (*this.cell, *this.site, this.waiter.as_ref());
        let outcome = match waiter.state() {
            WaiterState::Idle => cell.claim_init_or_wait(site, waiter, cx.waker()),
            _ => match cell.waiters.update_waker(waiter, cx.waker()) {
                WaiterState::Granted(Grant::One) => ClaimOutcome::Granted,
                WaiterState::Granted(_) | WaiterState::Idle => ClaimOutcome::HasValue,
                WaiterState::Waiting => ClaimOutcome::Waiting,
            },
        };
        let claimed = match outcome {
            ClaimOutcome::Waiting => {
                let target = cell.waiters.record.target(cell);
                wait::record_wait_keeping_link(WaitKind::OnceCell, target, site);
                return Poll::Pending;
            }
            ClaimOutcome::Initializer => ClaimResult::Init(InitGuard { cell }),
            ClaimOutcome::Granted => {
                // From here on the `InitGuard` hands the right over.
                waiter.reset();
                ClaimResult::Init(InitGuard::from_grant(cell, site))
            }
            ClaimOutcome::HasValue => ClaimResult::Value(
                cell.get().expect("ONCECELL-2: granted after the slot was filled"),
            ),
        };
        progress.made_progress();
        Poll::Ready(claimed)
    }
}
