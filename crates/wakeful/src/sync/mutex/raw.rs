//! The lock without the value: one word, and those who wait.
//!
//! ```text
//! diagram
//!             try_lock               enqueue
//!  UNLOCKED ──────────► LOCKED ──────────────────► CONTENDED
//!      ▲                 │  ▲                        │    ▲
//!      └──── unlock ─────┘  └─ hand_over, give_up: ──┤    │ hand_over, give_up:
//!                              nobody is left        └────┘ somebody is left
//! ```
//!
//! While it is locked, the word also says by whom (the number of a task or root), and
//! whether the lock was HANDED over.
//!
//! Rules:
//! - X1. Whoever moves the word away from UNLOCKED holds the lock. The lock of a
//!   CONTENDED word never goes through UNLOCKED while somebody waits: it is handed
//!   to the one in front, who finds it in the answer (`Grant::One`).
//! - X2. While the word is LOCKED, the holder of the list's lock changes it, and whoever
//!   unlocks. While it is CONTENDED, only the holder of the list's lock does.
//! - X3. The word is CONTENDED exactly while the list is not empty, seen by whoever
//!   holds the list's lock.
//! - X4. While the word is CONTENDED or HANDED, the plate names the holder. Of a lock
//!   that was taken, it is copied there by the first to queue up, from the word and
//!   `site`; of one that was handed over, by the one who did, and it is for the
//!   holder alone to say there that it has taken it up.
//!
//! The race one fears: a task queues up while the lock is released by somebody who
//! saw nobody wait. It cannot happen: the step to CONTENDED is an exchange from
//! LOCKED, and so is the step to UNLOCKED. One of them comes first, and the other
//! fails and looks again.
//!
//! Who queues up at the very moment when the lock is taken learns from the word who has
//! it, and perhaps not where it was taken; never a place where another took it, as that
//! is cleared before the word is released.
//!
//! Orderings: releasing the word pairs with acquiring it, so that a holder sees what
//! the one before did. A lock that is handed over is ordered by the list's lock and
//! the answer.

use crate::sys::sync::atomic::{AtomicPtr, AtomicU64, Ordering::*};
use crate::sys::sync::const_unless_model;
use crate::task::context;
use crate::task::coop::{self, RestoreOnPending};
use crate::task::wait_kind::WaitKind;
use crate::wait::list::{Grant, Waiter, WaiterState, Waiters};
use crate::wait::ownership::owner::Owner;
use crate::wait::record_wait_keeping_link;
use crate::wait::wake_batch::PendingWake;
use std::panic::Location;
use std::pin::Pin;
use std::ptr;
use std::task::{Context, Poll, Waker};

const UNLOCKED: u64 = 0;
const LOCKED: u64 = 1;
/// Beside LOCKED: somebody waits.
const CONTENDED: u64 = 2;
/// Beside LOCKED: the holder did not take the lock, but was handed it (X4).
const HANDED: u64 = 4;
/// The holder's number is above the flags.
const SHIFT: u32 = 3;

/// The word of a lock that this one has.
#[inline]
fn locked_by(number: u64) -> u64 {
    number << SHIFT | LOCKED
}

pub(in crate::sync) struct RawMutex {
    word: AtomicU64,
    /// Where the lock was taken, unless it was handed over; for those who ask why.
    site: AtomicPtr<Location<'static>>,
    pub(in crate::sync) waiters: Waiters<(), Claim>,
}

/// What a waiter asks for.
#[derive(Clone, Copy)]
pub(in crate::sync) struct Claim {
    /// Who is to be noted as the holder, and where it got the lock.
    task: u64,
    site: &'static Location<'static>,
}

/// What came of an attempt to get the lock.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sync) enum Attempt {
    Locked,
    /// Somebody else has it.
    Busy,
}

impl RawMutex {
    const_unless_model! {
        pub(in crate::sync) fn new() -> Self {
            Self {
                word: AtomicU64::new(UNLOCKED),
                site: AtomicPtr::new(ptr::null_mut()),
                waiters: Waiters::new(()),
            }
        }
    }

    #[inline]
    pub(in crate::sync) fn try_lock(&self, site: &'static Location<'static>) -> Attempt {
        // Looked at first: a swap that fails costs as much as one that succeeds.
        if self.word.load(Relaxed) != UNLOCKED {
            return Attempt::Busy;
        }
        let locked = locked_by(context::current_id());
        if self.word.compare_exchange(UNLOCKED, locked, Acquire, Relaxed).is_err() {
            return Attempt::Busy;
        }
        self.site.store(ptr::from_ref(site).cast_mut(), Relaxed);
        Attempt::Locked
    }

    /// By whoever holds the lock, once.
    #[inline]
    pub(in crate::sync) fn unlock(&self) {
        self.site.store(ptr::null_mut(), Relaxed);
        let word = self.word.load(Relaxed);
        if word & CONTENDED != 0
            || self.word.compare_exchange(word, UNLOCKED, Release, Relaxed).is_err()
        {
            self.hand_over();
        }
    }

    /// Hands the lock to the one in front, if there still is one.
    #[inline(never)]
    fn hand_over(&self) {
        let call = self.waiters.with(|list| {
            let Some(&mut next) = list.front() else {
                // The word is not UNLOCKED, and we hold the list's lock, so nobody
                // else changes it (X2, X3).
                self.word.store(UNLOCKED, Release);
                return PendingWake::NONE;
            };
            // X3. Nothing to release: the lock goes with the answer.
            let contended = if list.is_single() { 0 } else { CONTENDED };
            self.word.store(locked_by(next.task) | HANDED | contended, Relaxed);
            let call = list.pop_front_with(Grant::One, |list| {
                if let Some(plate) = list.record.get() {
                    plate.set_owner(Owner {
                        task: next.task,
                        site: Some(next.site),
                        granted_unpolled: true,
                    });
                }
                0
            });
            call.expect("it is in front")
        });
        call.wake();
    }

    /// The one that was handed the lock has come to know.
    #[inline]
    fn take_up(&self, site: &'static Location<'static>) {
        let number = context::current_id();
        // X4.
        if let Some(plate) = self.waiters.record.get()
            && plate.owner_table.slots[0].is_owned_by(number)
        {
            return plate.owner_table.slots[0].mark_polled(site);
        }
        self.take_up_as_another(number, site);
    }

    /// The same, where it is not the task that queued up which polls now.
    #[cold]
    fn take_up_as_another(&self, number: u64, site: &'static Location<'static>) {
        self.waiters.with(|list| {
            // X2.
            let contended = self.word.load(Relaxed) & CONTENDED;
            self.word.store(locked_by(number) | HANDED | contended, Relaxed);
            if let Some(plate) = list.record.get() {
                plate.set_owner(Owner { task: number, site: Some(site), granted_unpolled: false });
            }
        });
    }

    /// Queues up, unless the lock is free.
    fn enqueue(&self, waiter: Pin<&Waiter<Claim>>, claim: Claim, waker: Waker) -> Attempt {
        // Dropped after the lock.
        let mut unneeded = Some(waker);
        self.waiters.with(|list| {
            let mut word = self.word.load(Relaxed);
            debug_assert_eq!(word & CONTENDED != 0, !list.is_empty(), "X3");
            while word & CONTENDED == 0 {
                let new = if word == UNLOCKED { locked_by(claim.task) } else { word | CONTENDED };
                // Acquire for the lock; what CONTENDED says is ordered by the list's.
                match self.word.compare_exchange_weak(word, new, Acquire, Relaxed) {
                    Ok(UNLOCKED) => {
                        self.site.store(ptr::from_ref(claim.site).cast_mut(), Relaxed);
                        return Attempt::Locked;
                    }
                    Ok(_) => break,
                    Err(changed) => word = changed,
                }
            }
            let waker = unneeded.take().expect("not used yet");
            let reason = (WaitKind::Mutex, claim.site);
            list.push_linked(waiter, claim, waker, reason, |plate| {
                // X4.
                if word & (CONTENDED | HANDED) == 0 {
                    plate.set_owner(self.taken_by(word >> SHIFT));
                }
            });
            Attempt::Busy
        })
    }

    /// The one that has taken the lock.
    fn taken_by(&self, task: u64) -> Owner {
        // SAFETY: only `&'static`s are stored there.
        let site = unsafe { self.site.load(Relaxed).as_ref() };
        Owner { task, site, granted_unpolled: false }
    }

    /// A waiter no longer wants the lock, and hands it on if it got it.
    #[inline(never)]
    fn give_up(&self, waiter: Pin<&Waiter<Claim>>) {
        if waiter.state() == WaiterState::Idle {
            return;
        }
        // Dropped after the lock.
        let _unneeded = self.waiters.with(|list| {
            if waiter.state() != WaiterState::Waiting {
                return PendingWake::NONE;
            }
            let call = list.remove(waiter);
            if list.is_empty() {
                // X2.
                self.word.store(self.word.load(Relaxed) & !CONTENDED, Relaxed);
            }
            call
        });
        if waiter.state() == WaiterState::Granted(Grant::One) {
            waiter.reset();
            self.unlock();
        }
    }
}

pin_project_lite::pin_project! {
    /// The part of a future that waits for the lock. Whoever it is part of calls
    /// [`cancel`](Self::cancel) when it is dropped.
    pub(in crate::sync) struct Locking {
        // None until it has to wait: then there is little to move around, and little
        // to look at, where the lock is free.
        #[pin]
        waiter: Option<Waiter<Claim>>,
        site: &'static Location<'static>,
    }
}

impl Locking {
    #[inline]
    pub(in crate::sync) fn new(site: &'static Location<'static>) -> Self {
        Self { waiter: None, site }
    }

    /// Always with the same `raw`.
    #[inline]
    pub(in crate::sync) fn poll(
        self: Pin<&mut Self>,
        raw: &RawMutex,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        let progress = coop::try_proceed();
        if let (Some(progress), None) = (&progress, &self.waiter)
            && raw.try_lock(self.site) == Attempt::Locked
        {
            progress.made_progress();
            return Poll::Ready(());
        }
        self.poll_slowly(raw, progress, cx)
    }

    #[inline(never)]
    fn poll_slowly(
        mut self: Pin<&mut Self>,
        raw: &RawMutex,
        progress: Option<RestoreOnPending>,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        // Without budget it still queues up, so that it keeps its place.
        if progress.is_none() && !self.has_to_wait(raw) {
            context::yield_out_of_budget(cx.waker());
            return Poll::Pending;
        }
        match self.as_mut().wait(raw, cx) {
            Attempt::Locked => {
                if let Some(progress) = progress {
                    progress.made_progress();
                }
                Poll::Ready(())
            }
            Attempt::Busy => Poll::Pending,
        }
    }

    fn has_to_wait(&self, raw: &RawMutex) -> bool {
        match &self.waiter {
            None => raw.word.load(Relaxed) != UNLOCKED,
            Some(waiter) => waiter.state() == WaiterState::Waiting,
        }
    }

    fn wait(self: Pin<&mut Self>, raw: &RawMutex, cx: &Context<'_>) -> Attempt {
        let mut this = self.project();
        if this.waiter.is_none() {
            this.waiter.set(Some(Waiter::new()));
        }
        let waiter = this.waiter.into_ref().as_pin_ref().expect("it is there by now");
        let mut standing = waiter.state();
        if standing == WaiterState::Waiting {
            let is_others = |claim: &mut Claim| claim.task = context::current_id();
            standing = raw.waiters.update_waker_with(waiter, cx.waker(), is_others);
        }
        match standing {
            WaiterState::Idle => {
                let claim = Claim { task: context::current_id(), site: this.site };
                raw.enqueue(waiter, claim, cx.waker().clone())
            }
            WaiterState::Waiting => {
                let target = raw.waiters.record.target(raw);
                record_wait_keeping_link(WaitKind::Mutex, target, this.site);
                Attempt::Busy
            }
            WaiterState::Granted(_) => {
                waiter.reset();
                raw.take_up(this.site);
                Attempt::Locked
            }
        }
    }

    /// Hands over what it got and nobody saw.
    #[inline]
    pub(super) fn cancel(self: Pin<&mut Self>, raw: &RawMutex) {
        if let Some(waiter) = self.project().waiter.into_ref().as_pin_ref() {
            raw.give_up(waiter);
        }
    }
}
