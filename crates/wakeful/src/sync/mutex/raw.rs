//! The mutex without its value: one state word, and a wait list.
//!
//! ```text
//! diagram
//!             try_lock               enqueue
//!  UNLOCKED ──────────► LOCKED ──────────────────► CONTENDED
//!      ▲                 │  ▲                        │    ▲
//!      └──── unlock ─────┘  └── hand_over, cancel: ──┤    │ hand_over, cancel:
//!                               no waiter is left    └────┘ a waiter is left
//! ```
//!
//! While the mutex is locked, the word also holds the id of the owner: a task or a `block_on`
//! future. A flag records whether the lock was HANDED_OVER.
//!
//! Rules:
//! - MUTEX-1. The task that moves the word away from UNLOCKED holds the lock. While a task waits,
//!   the word never becomes UNLOCKED: the lock is handed to the first waiter, which finds it in its
//!   grant (`Grant::One`).
//! - MUTEX-2. While the word is LOCKED, two threads may change it: the holder of the list's lock,
//!   and the unlocking thread. While it is CONTENDED, only the holder of the list's lock may.
//! - MUTEX-3. Under the list's lock, the word is CONTENDED if and only if the list is not empty.
//! - MUTEX-4. While the word is CONTENDED or HANDED_OVER, the resource record names the owner. If
//!   the owner acquired a free lock, the first waiter copies the owner's id from the word and its
//!   site from `site`. If the lock was handed over, the unlocking thread writes the record. Only
//!   the new owner marks the record when it has accepted the lock.
//!
//! The race to fear: a task enqueues itself while the lock is released by a thread that saw no
//! waiter. It cannot happen: the step to CONTENDED is a compare-exchange from LOCKED, and so is the
//! step to UNLOCKED. One step comes first; the other fails and reads the word again.
//!
//! A task that enqueues itself just as another task acquires the lock reads the owner from the
//! word, but perhaps not the acquire site. It never reads the site of an earlier owner, because
//! `unlock` clears the site before it releases the word.
//!
//! Orderings: the Release of the word pairs with its Acquire, so a new owner sees everything that
//! the previous owner did. A handed-over lock is ordered by the list's lock and by the grant.

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
/// Set beside LOCKED: at least one task waits.
const CONTENDED: u64 = 2;
/// Set beside LOCKED: the owner was granted the lock instead of acquiring it free (MUTEX-4).
const HANDED_OVER: u64 = 4;
/// The owner's id is above the flags.
const SHIFT: u32 = 3;

/// Returns the word of a lock that is held by the task `id`.
#[inline]
fn locked_by(id: u64) -> u64 {
    id << SHIFT | LOCKED
}

/// A mutual exclusion lock without a value.
pub(in crate::sync) struct RawMutex {
    word: AtomicU64,
    /// Where the lock was acquired, null if it was handed over. For diagnostics.
    site: AtomicPtr<Location<'static>>,
    pub(in crate::sync) waiters: Waiters<(), NextOwner>,
}

/// The task that becomes the owner when its waiter is granted the lock, and its acquire site.
#[derive(Clone, Copy)]
pub(in crate::sync) struct NextOwner {
    task: u64,
    site: &'static Location<'static>,
}

/// The result of an attempt to lock.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sync) enum LockOutcome {
    Locked,
    /// Another task holds the lock.
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
    pub(in crate::sync) fn try_lock(&self, site: &'static Location<'static>) -> LockOutcome {
        // A plain load first: a failed compare-exchange costs as much as a successful one.
        if self.word.load(Relaxed) != UNLOCKED {
            return LockOutcome::Busy;
        }
        let locked = locked_by(context::current_id());
        if self.word.compare_exchange(UNLOCKED, locked, Acquire, Relaxed).is_err() {
            return LockOutcome::Busy;
        }
        self.site.store(ptr::from_ref(site).cast_mut(), Relaxed);
        LockOutcome::Locked
    }

    /// Unlocks. The caller holds the lock, and calls this once.
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

    /// Hands the lock to the first waiter, or unlocks if all waiters have left meanwhile.
    #[inline(never)]
    fn hand_over(&self) {
        let wake = self.waiters.with(|list| {
            let Some(&mut next) = list.front() else {
                // The word is not UNLOCKED and the list is empty. Under the list's lock no other
                // thread changes the word (MUTEX-2, MUTEX-3).
                self.word.store(UNLOCKED, Release);
                return PendingWake::NONE;
            };
            // MUTEX-3. Relaxed: the grant publishes the lock.
            let contended = if list.is_single() { 0 } else { CONTENDED };
            self.word.store(locked_by(next.task) | HANDED_OVER | contended, Relaxed);
            let wake = list.pop_front_with(Grant::One, |list| {
                if let Some(record) = list.record.get() {
                    record.set_owner(Owner {
                        task: next.task,
                        site: Some(next.site),
                        granted_unpolled: true,
                    });
                }
                0
            });
            wake.expect("the list is not empty")
        });
        wake.wake();
    }

    /// Accepts a granted lock for the current task.
    #[inline]
    fn accept(&self, site: &'static Location<'static>) {
        let id = context::current_id();
        // MUTEX-4.
        if let Some(record) = self.waiters.record.get()
            && record.owner_table.slots[0].is_owned_by(id)
        {
            return record.owner_table.slots[0].mark_polled(site);
        }
        self.accept_as_other_task(id, site);
    }

    /// Accepts a granted lock for a task that did not enqueue the waiter.
    #[cold]
    fn accept_as_other_task(&self, id: u64, site: &'static Location<'static>) {
        self.waiters.with(|list| {
            // MUTEX-2.
            let contended = self.word.load(Relaxed) & CONTENDED;
            self.word.store(locked_by(id) | HANDED_OVER | contended, Relaxed);
            if let Some(record) = list.record.get() {
                record.set_owner(Owner { task: id, site: Some(site), granted_unpolled: false });
            }
        });
    }

    /// Enqueues the waiter, or acquires the lock if it is free.
    fn enqueue(
        &self,
        waiter: Pin<&Waiter<NextOwner>>,
        next: NextOwner,
        waker: Waker,
    ) -> LockOutcome {
        // A waker that was not queued is dropped after the list's lock is released.
        let mut unneeded = Some(waker);
        self.waiters.with(|list| {
            let mut word = self.word.load(Relaxed);
            debug_assert_eq!(word & CONTENDED != 0, !list.is_empty(), "MUTEX-3");
            while word & CONTENDED == 0 {
                let new = if word == UNLOCKED { locked_by(next.task) } else { word | CONTENDED };
                // Acquire for the mutex. The list's lock orders the CONTENDED flag.
                match self.word.compare_exchange_weak(word, new, Acquire, Relaxed) {
                    Ok(UNLOCKED) => {
                        self.site.store(ptr::from_ref(next.site).cast_mut(), Relaxed);
                        return LockOutcome::Locked;
                    }
                    Ok(_) => break,
                    Err(changed) => word = changed,
                }
            }
            let waker = unneeded.take().expect("not used yet");
            let reason = (WaitKind::Mutex, next.site);
            list.push_linked(waiter, next, waker, reason, |record| {
                // MUTEX-4.
                if word & (CONTENDED | HANDED_OVER) == 0 {
                    record.set_owner(self.current_owner(word >> SHIFT));
                }
            });
            LockOutcome::Busy
        })
    }

    /// Returns the owner of a lock that was acquired free.
    fn current_owner(&self, task: u64) -> Owner {
        // SAFETY: `site` is null or was made from a `&'static Location`.
        let site = unsafe { self.site.load(Relaxed).as_ref() };
        Owner { task, site, granted_unpolled: false }
    }

    /// Removes a waiter and unlocks if it was already granted the lock.
    #[inline(never)]
    fn cancel(&self, waiter: Pin<&Waiter<NextOwner>>) {
        // An idle waiter is in no list, and was granted nothing.
        if !waiter.is_idle() {
            self.leave(waiter);
        }
    }

    /// The slow path of [`cancel`](Self::cancel): the waiter is queued or was granted the lock.
    #[cold]
    #[inline(never)]
    fn leave(&self, waiter: Pin<&Waiter<NextOwner>>) {
        // Dropped after the list's lock is released.
        let _unneeded = self.waiters.with(|list| {
            if waiter.state() != WaiterState::Waiting {
                return PendingWake::NONE;
            }
            let wake = list.remove(waiter);
            if list.is_empty() {
                // MUTEX-2.
                self.word.store(self.word.load(Relaxed) & !CONTENDED, Relaxed);
            }
            wake
        });
        if waiter.state() == WaiterState::Granted(Grant::One) {
            waiter.reset();
            self.unlock();
        }
    }
}

pin_project_lite::pin_project! {
    /// The part of a future that waits for the lock.
    ///
    /// The future that contains it calls [`cancel`](Self::cancel) when it is dropped.
    pub(in crate::sync) struct LockRequest {
        // None until the lock is found busy, so that an uncontended lock moves and checks little.
        #[pin]
        waiter: Option<Waiter<NextOwner>>,
        site: &'static Location<'static>,
    }
}

impl LockRequest {
    #[inline]
    pub(in crate::sync) fn new(site: &'static Location<'static>) -> Self {
        Self { waiter: None, site }
    }

    /// Polls for the lock. `raw` is the same in every call.
    #[inline]
    pub(in crate::sync) fn poll(
        self: Pin<&mut Self>,
        raw: &RawMutex,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        let progress = coop::try_proceed();
        if let (Some(progress), None) = (&progress, &self.waiter)
            && raw.try_lock(self.site) == LockOutcome::Locked
        {
            progress.made_progress();
            return Poll::Ready(());
        }
        self.poll_slow(raw, progress, cx)
    }

    #[inline(never)]
    fn poll_slow(
        mut self: Pin<&mut Self>,
        raw: &RawMutex,
        progress: Option<RestoreOnPending>,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        // A task without budget still enqueues itself, so that it gets its place in the queue.
        if progress.is_none() && !self.must_wait(raw) {
            context::yield_out_of_budget(cx.waker());
            return Poll::Pending;
        }
        match self.as_mut().wait(raw, cx) {
            LockOutcome::Locked => {
                if let Some(progress) = progress {
                    progress.made_progress();
                }
                Poll::Ready(())
            }
            LockOutcome::Busy => Poll::Pending,
        }
    }

    fn must_wait(&self, raw: &RawMutex) -> bool {
        match &self.waiter {
            None => raw.word.load(Relaxed) != UNLOCKED,
            Some(waiter) => waiter.state() == WaiterState::Waiting,
        }
    }

    fn wait(self: Pin<&mut Self>, raw: &RawMutex, cx: &Context<'_>) -> LockOutcome {
        let mut this = self.project();
        if this.waiter.is_none() {
            this.waiter.set(Some(Waiter::new()));
        }
        let waiter = this.waiter.into_ref().as_pin_ref().expect("set above");
        let mut waiter_state = waiter.state();
        if waiter_state == WaiterState::Waiting {
            let update_task = |next: &mut NextOwner| next.task = context::current_id();
            waiter_state = raw.waiters.update_waker_with(waiter, cx.waker(), update_task);
        }
        match waiter_state {
            WaiterState::Idle => {
                let next = NextOwner { task: context::current_id(), site: this.site };
                raw.enqueue(waiter, next, cx.waker().clone())
            }
            WaiterState::Waiting => {
                let target = raw.waiters.record.target(raw);
                record_wait_keeping_link(WaitKind::Mutex, target, this.site);
                LockOutcome::Busy
            }
            WaiterState::Granted(_) => {
                waiter.reset();
                raw.accept(this.site);
                LockOutcome::Locked
            }
        }
    }

    /// Leaves the wait list and unlocks if the lock was granted and not yet accepted.
    #[inline]
    pub(super) fn cancel(self: Pin<&mut Self>, raw: &RawMutex) {
        if let Some(waiter) = self.project().waiter.into_ref().as_pin_ref() {
            raw.cancel(waiter);
        }
    }
}
