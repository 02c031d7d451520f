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
//! Rules:
//! - X1. Whoever moves the word away from UNLOCKED holds the lock. The lock of a
//!   CONTENDED word never goes through UNLOCKED while somebody waits: it is handed
//!   to the one in front, who finds it in the answer (`Answer::One`).
//! - X2. While the word is CONTENDED, only the holder of the list's lock changes it.
//! - X3. The word is CONTENDED exactly while the list is not empty, seen by whoever
//!   holds the list's lock.
//!
//! The race one fears: a task queues up while the lock is released by somebody who
//! saw nobody wait. It cannot happen: the step to CONTENDED is an exchange from
//! LOCKED, and so is the step to UNLOCKED. One of them comes first, and the other
//! fails and looks again.
//!
//! Orderings: releasing the word pairs with acquiring it, so that a holder sees what
//! the one before did. A lock that is handed over is ordered by the list's lock and
//! the answer.

use crate::sys::sync::atomic::{AtomicU32, Ordering::*};
use crate::sys::sync::const_unless_model;
use crate::task::context;
use crate::task::coop::{self, RestoreOnPending};
use crate::task::header::WaitKind;
use crate::wait::calls::Call;
use crate::wait::holder::{Held, Holder};
use crate::wait::list::{Answer, Standing, Waiter, Waiters};
use crate::wait::waiting_on_plate;
use std::panic::Location;
use std::pin::Pin;
use std::ptr;
use std::task::{Context, Poll, Waker};

const UNLOCKED: u32 = 0;
const LOCKED: u32 = 1;
/// Locked, and somebody waits.
const CONTENDED: u32 = 2;

pub(super) struct RawMutex {
    word: AtomicU32,
    /// Who has the lock; for those who ask why.
    holder: Holder,
    /// What a waiter asks for is to be noted as the holder.
    waiters: Waiters<(), Held>,
}

/// What came of an attempt to get the lock.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attempt {
    Locked,
    /// Somebody else has it.
    Busy,
}

impl RawMutex {
    const_unless_model! {
        pub(super) fn new() -> Self {
            Self {
                word: AtomicU32::new(UNLOCKED),
                holder: Holder::nobody(),
                waiters: Waiters::new(()),
            }
        }
    }

    #[inline]
    pub(super) fn try_lock(&self, site: &'static Location<'static>) -> Attempt {
        // Looked at first: a swap that fails costs as much as one that succeeds.
        if self.word.load(Relaxed) != UNLOCKED
            || self.word.compare_exchange(UNLOCKED, LOCKED, Acquire, Relaxed).is_err()
        {
            return Attempt::Busy;
        }
        self.holder.set(site);
        Attempt::Locked
    }

    /// By whoever holds the lock, once.
    #[inline]
    pub(super) fn unlock(&self) {
        self.holder.clear();
        if self.word.load(Relaxed) != LOCKED
            || self.word.compare_exchange(LOCKED, UNLOCKED, Release, Relaxed).is_err()
        {
            self.hand_over();
        }
    }

    /// Hands the lock to the one in front, if there still is one.
    #[inline(never)]
    fn hand_over(&self) {
        let call = self.waiters.with(|list| {
            let Some(next) = list.front() else {
                // The word is not UNLOCKED, and we hold the list's lock, so nobody
                // else changes it (X2, X3).
                self.word.store(UNLOCKED, Release);
                return Call::NOBODY;
            };
            let granted = next.granted();
            self.holder.note(granted);
            if let Some(plate) = list.plate.get() {
                plate.note_one(Some(granted));
            }
            let call = list.pop_front(Answer::One).expect("it is in front");
            if list.is_empty() {
                // X3. Nothing to release: the lock goes with the answer.
                self.word.store(LOCKED, Relaxed);
            }
            call
        });
        call.wake();
    }

    /// Queues up, unless the lock is free.
    fn enqueue(&self, waiter: Pin<&Waiter<Held>>, held: Held, waker: Waker) -> Attempt {
        // Dropped after the lock.
        let mut unneeded = Some(waker);
        self.waiters.with(|list| {
            let mut word = self.word.load(Relaxed);
            debug_assert_eq!(word == CONTENDED, !list.is_empty(), "X3");
            while word != CONTENDED {
                let new = if word == UNLOCKED { LOCKED } else { CONTENDED };
                // Acquire for the lock; what CONTENDED says is ordered by the list's.
                match self.word.compare_exchange_weak(word, new, Acquire, Relaxed) {
                    Ok(UNLOCKED) => {
                        self.holder.note(held);
                        return Attempt::Locked;
                    }
                    Ok(_) => break,
                    Err(changed) => word = changed,
                }
            }
            let waker = unneeded.take().expect("not used yet");
            list.push_anchored(waiter, held, waker, |plate| plate.note_one(self.holder.get()));
            Attempt::Busy
        })
    }

    /// A waiter no longer wants the lock, and hands it on if it got it.
    #[inline(never)]
    fn give_up(&self, waiter: Pin<&Waiter<Held>>) {
        if waiter.standing() == Standing::Idle {
            return;
        }
        // Dropped after the lock.
        let _unneeded = self.waiters.with(|list| {
            if waiter.standing() != Standing::Waiting {
                return Call::NOBODY;
            }
            let call = list.remove(waiter);
            if list.is_empty() {
                self.word.store(LOCKED, Relaxed);
            }
            call
        });
        if waiter.standing() == Standing::Answered(Answer::One) {
            waiter.reset();
            self.unlock();
        }
    }
}

pin_project_lite::pin_project! {
    /// The part of a future that waits for the lock. Whoever it is part of calls
    /// [`cancel`](Self::cancel) when it is dropped.
    pub(super) struct Locking {
        // None until it has to wait: then there is little to move around, and little
        // to look at, where the lock is free.
        #[pin]
        waiter: Option<Waiter<Held>>,
        site: &'static Location<'static>,
    }
}

impl Locking {
    #[inline]
    pub(super) fn new(site: &'static Location<'static>) -> Self {
        Self { waiter: None, site }
    }

    /// Always with the same `raw`.
    #[inline]
    pub(super) fn poll(self: Pin<&mut Self>, raw: &RawMutex, cx: &mut Context<'_>) -> Poll<()> {
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
            context::give_way(cx.waker());
            return Poll::Pending;
        }
        match self.as_mut().wait(raw, cx) {
            Attempt::Locked => {
                if let Some(progress) = progress {
                    progress.made_progress();
                }
                Poll::Ready(())
            }
            Attempt::Busy => {
                let number = raw.waiters.plate.number(ptr::from_ref(raw).addr());
                waiting_on_plate(WaitKind::Mutex, number, self.site);
                Poll::Pending
            }
        }
    }

    fn has_to_wait(&self, raw: &RawMutex) -> bool {
        match &self.waiter {
            None => raw.word.load(Relaxed) != UNLOCKED,
            Some(waiter) => waiter.standing() == Standing::Waiting,
        }
    }

    fn wait(self: Pin<&mut Self>, raw: &RawMutex, cx: &Context<'_>) -> Attempt {
        let mut this = self.project();
        if this.waiter.is_none() {
            this.waiter.set(Some(Waiter::new()));
        }
        let waiter = this.waiter.into_ref().as_pin_ref().expect("it is there by now");
        let mut standing = waiter.standing();
        if standing == Standing::Waiting {
            standing = raw.waiters.update_waker(waiter, cx.waker());
        }
        match standing {
            Standing::Idle => raw.enqueue(waiter, Held::by_current(this.site), cx.waker().clone()),
            Standing::Waiting => Attempt::Busy,
            Standing::Answered(_) => {
                waiter.reset();
                // Taken up; and perhaps it is another task that polls now.
                let held = Held::by_current(this.site);
                raw.holder.note(held);
                if let Some(plate) = raw.waiters.plate.get() {
                    plate.note_one(Some(held));
                }
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
