//! Counted permits, first come, first served: what semaphores and read-write
//! locks are made of.
//!
//! One word holds how many permits are there, whether somebody waits, and whether
//! there will be more. While nobody waits, taking and giving back is one exchange
//! of that word.
//!
//! ```text
//! diagram
//!                 enqueue: takes what is there
//!   0..=MAX ──────────────────────────────────────► WAITERS, 0 permits
//!    │   ▲ ▲                                           │         │
//!    └───┘ └────── hand_out, close: nobody is left ────┘ ◄───────┘ hand_out:
//!  try_take, put                                          somebody is left
//! ```
//!
//! Rules:
//! - P1. While WAITERS is set, only the holder of the list's lock changes the
//!   word. So nobody can take a permit past those who wait, and whoever has
//!   permits to give goes to the list.
//! - P2. While WAITERS is set, the word holds no permits: they all went to the
//!   waiter in front, which may have a part of what it asks for. Those behind it
//!   have nothing, also if the little they ask for would be there.
//! - P3. WAITERS is set exactly while the list is not empty, seen by whoever holds
//!   the list's lock. The list changes in the same hold.
//!
//! The race one fears: a task finds too few permits and queues up while the last
//! permit is given back to the word, where nobody looks any more. It cannot
//! happen: the one exchange that sets WAITERS takes whatever was in the word. A
//! permit given back before is in that; one given back after meets WAITERS.
//!
//! Orderings: giving back releases and taking acquires, both on the word; it is
//! changed by exchanges only while there are no waiters, so that a task that takes
//! permits sees what was done under each of them. Permits that go through the list
//! are ordered by its lock, and by the answer.

use crate::sys::sync::atomic::{AtomicUsize, Ordering::*};
use crate::sys::sync::const_unless_model;
use crate::task::context;
use crate::task::coop::{self, RestoreOnPending};
use crate::task::header::WaitKind;
use crate::wait::calls::Calls;
use crate::wait::holder::{Held, Holders, Place};
use crate::wait::list::{Answer, Locked, Standing, Waiter, Waiters};
use crate::wait::waiting_on_plate;
use std::panic::{self, AssertUnwindSafe, Location};
use std::pin::Pin;
use std::ptr;
use std::task::{Context, Poll, Waker};

/// There will be no more permits.
const CLOSED: usize = 1;
/// Somebody waits (P1 to P3).
const WAITERS: usize = 2;
/// The permits are counted above the flags.
const SHIFT: u32 = 2;

/// The most permits there can be.
pub(super) const MAX: usize = usize::MAX >> 3;
const _: () = assert!(MAX << SHIFT >> SHIFT == MAX, "the flags leave room for MAX");

/// Permits, and those who wait for some.
pub(super) struct Permits {
    word: AtomicUsize,
    waiters: Waiters<(), Ask>,
    /// Who has permits; for those who ask why.
    holders: Holders,
}

/// What a waiter asks for.
struct Ask {
    wanted: usize,
    /// What it still lacks; more than 0 while it waits. Only the waiter in front
    /// lacks less than it wants (P2).
    lacks: usize,
    /// Who is to be noted as a holder.
    held: Held,
}

/// What came of an attempt to take permits.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// They are the caller's.
    Yes,
    /// There were not enough.
    Short,
    /// There will be no more.
    Closed,
}

/// There will be no more permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Closed;

impl Permits {
    const_unless_model! {
        /// Starts with this many, at most [`MAX`].
        pub(super) fn new(permits: usize) -> Self {
            Self {
                word: AtomicUsize::new(permits << SHIFT),
                waiters: Waiters::new(()),
                holders: Holders::nobody(),
            }
        }
    }

    /// The current task has permits which it took at once.
    #[inline]
    pub(super) fn note(&self, site: &'static Location<'static>) -> Place {
        let place = self.holders.add(site);
        // Whoever has queued up between the taking and the note does not know of it. Who
        // queues up sets WAITERS, then copies the notes; both do so by exchanges, SeqCst,
        // so one sees the other.
        if self.word.load(SeqCst) & WAITERS != 0 {
            self.tell_waiters();
        }
        place
    }

    /// The current task has the permits that `acquiring` was for.
    #[inline]
    pub(super) fn note_acquired(&self, acquiring: &Acquiring) -> Place {
        let Some(granted) = acquiring.waiter.as_ref().and_then(granted) else {
            return self.note(acquiring.site);
        };
        if granted.is_named() {
            self.holders.take_up(granted, acquiring.site);
            self.tell_waiters();
        }
        granted
    }

    /// Whoever noted itself there gives its permits back next.
    #[inline]
    pub(super) fn unnote(&self, place: Place) {
        self.holders.remove(place);
    }

    /// Whoever noted itself there has nothing to give back.
    pub(super) fn forget(&self, place: Place) {
        self.unnote(place);
        self.tell_waiters();
    }

    #[cold]
    fn tell_waiters(&self) {
        self.waiters.with(|_| self.tell_holders());
    }

    /// Tells those who ask on behalf of those who wait; under the list's lock.
    fn tell_holders(&self) {
        if let Some(plate) = self.waiters.plate.get() {
            plate.note(&self.holders);
        }
    }

    /// How many could be taken now.
    pub(super) fn available(&self) -> usize {
        self.word.load(Acquire) >> SHIFT
    }

    pub(super) fn is_closed(&self) -> bool {
        self.word.load(Acquire) & CLOSED != 0
    }

    /// Takes permits if they are there. Never past somebody who waits (P2), except
    /// for none at all.
    #[inline]
    pub(super) fn try_take(&self, wanted: usize) -> Taken {
        let mut word = self.word.load(Acquire);
        loop {
            if word & CLOSED != 0 {
                return Taken::Closed;
            }
            if word >> SHIFT < wanted {
                return Taken::Short;
            }
            let new = word - (wanted << SHIFT);
            match self.word.compare_exchange_weak(word, new, Acquire, Acquire) {
                Ok(_) => return Taken::Yes,
                Err(changed) => word = changed,
            }
        }
    }

    /// Takes up to `most` permits out of the world; answers how many.
    pub(super) fn take_up_to(&self, most: usize) -> usize {
        let mut word = self.word.load(Relaxed);
        loop {
            let taken = most.min(word >> SHIFT);
            let new = word - (taken << SHIFT);
            match self.word.compare_exchange_weak(word, new, Acquire, Relaxed) {
                Ok(_) => return taken,
                Err(changed) => word = changed,
            }
        }
    }

    /// Gives permits back, or new ones: to those who wait, as far as they reach.
    ///
    /// # Panics
    ///
    /// If there would be more than [`MAX`].
    #[inline]
    #[track_caller]
    pub(super) fn put(&self, permits: usize) {
        let mut word = self.word.load(Relaxed);
        // P1: with waiters, only the list's holder changes the word.
        while word & WAITERS == 0 {
            if permits > MAX - (word >> SHIFT) {
                too_many(permits);
            }
            let new = word + (permits << SHIFT);
            match self.word.compare_exchange_weak(word, new, Release, Relaxed) {
                Ok(_) => return,
                Err(changed) => word = changed,
            }
        }
        self.put_to_waiters(permits);
    }

    #[inline(never)]
    #[track_caller]
    fn put_to_waiters(&self, permits: usize) {
        if permits > MAX {
            too_many(permits);
        }
        let mut rest = permits;
        self.in_batches(|list, calls| {
            self.hand_out(list, &mut rest, calls);
            if !list.is_empty() {
                self.tell_holders();
            }
            rest == 0
        });
    }

    /// Runs `round` under the list's lock and wakes whom it called, until it
    /// answers that it is done. A waker that panics does so when all is done.
    fn in_batches(&self, mut round: impl FnMut(&mut Locked<'_, (), Ask>, &mut Calls) -> bool) {
        let mut panicked = None;
        let mut done = false;
        while !done {
            let mut calls = Calls::new();
            done = self.waiters.with(|list| round(list, &mut calls));
            let woken = panic::catch_unwind(AssertUnwindSafe(|| calls.wake()));
            panicked = panicked.or(woken.err());
        }
        if let Some(payload) = panicked {
            panic::resume_unwind(payload);
        }
    }

    /// Gives what is in hand to those in front, and what nobody waits for to the
    /// word. Some stays in hand only if `calls` is full.
    fn hand_out(&self, list: &mut Locked<'_, (), Ask>, in_hand: &mut usize, calls: &mut Calls) {
        while *in_hand > 0
            && let Some(front) = list.front()
        {
            if *in_hand < front.lacks {
                front.lacks -= *in_hand;
                *in_hand = 0;
                return;
            }
            if calls.is_full() {
                return;
            }
            *in_hand -= front.lacks;
            front.lacks = 0;
            let place = self.holders.note(front.held.granted());
            let call = list.pop_front_with(Answer::One, place.to_remark());
            calls.push(call.expect("it is in front"));
        }
        if list.is_empty() {
            self.nobody_waits(std::mem::take(in_hand));
        }
    }

    /// The list is empty: clears WAITERS (P3), if it is set, and adds permits.
    fn nobody_waits(&self, permits: usize) {
        let mut word = self.word.load(Relaxed);
        loop {
            let room = MAX - (word >> SHIFT);
            let new = (word & !WAITERS) + (permits.min(room) << SHIFT);
            match self.word.compare_exchange_weak(word, new, Release, Relaxed) {
                Ok(_) if permits > room => too_many(permits),
                Ok(_) => return,
                Err(changed) => word = changed,
            }
        }
    }

    /// From here on nobody gets permits; those who wait learn so.
    pub(super) fn close(&self) {
        let mut returned = 0;
        self.in_batches(|list, calls| {
            self.word.fetch_or(CLOSED, AcqRel);
            while let Some(front) = list.front() {
                if calls.is_full() {
                    return false;
                }
                returned += front.wanted - front.lacks;
                calls.push(list.pop_front(Answer::Closed).expect("it is in front"));
            }
            self.nobody_waits(returned);
            true
        });
    }

    /// Takes what is there and queues up for the rest, unless it is all there.
    fn enqueue(&self, waiter: Pin<&Waiter<Ask>>, wanted: usize, held: Held, waker: Waker) -> Taken {
        // Dropped after the lock.
        let mut unneeded = Some(waker);
        self.waiters.with(|list| {
            let mut word = self.word.load(Relaxed);
            debug_assert_eq!(word & WAITERS != 0, !list.is_empty(), "P3");
            let there = loop {
                let there = word >> SHIFT;
                let new = match () {
                    () if word & CLOSED != 0 => return Taken::Closed,
                    () if there >= wanted => word - (wanted << SHIFT),
                    () => WAITERS,
                };
                // Acquire for the permits; nothing is released: the list's lock
                // orders what is about WAITERS. SeqCst for `note`.
                match self.word.compare_exchange_weak(word, new, SeqCst, Relaxed) {
                    Ok(_) if there >= wanted => return Taken::Yes,
                    Ok(_) => break there,
                    Err(changed) => word = changed,
                }
            };
            let ask = Ask { wanted, lacks: wanted - there, held };
            let waker = unneeded.take().expect("not used yet");
            list.push_anchored(waiter, ask, waker, |plate| plate.note(&self.holders));
            Taken::Short
        })
    }

    /// A waiter gives up; what it already has goes to the others.
    #[inline(never)]
    fn give_up(&self, waiter: Pin<&Waiter<Ask>>, wanted: usize) {
        let mut in_hand = 0;
        // Dropped at the end, after the lock.
        let mut _unneeded = None;
        if waiter.standing() == Standing::Waiting {
            self.in_batches(|list, calls| {
                if let Some(ask) = list.asked(waiter) {
                    in_hand = ask.wanted - ask.lacks;
                    _unneeded = Some(list.remove(waiter));
                }
                self.hand_out(list, &mut in_hand, calls);
                if !list.is_empty() {
                    self.tell_holders();
                }
                in_hand == 0
            });
        }
        if waiter.standing() == Standing::Answered(Answer::One) {
            self.pass_on(waiter, wanted);
        }
    }

    /// What a waiter was given goes to the others.
    fn pass_on(&self, waiter: Pin<&Waiter<Ask>>, wanted: usize) {
        waiter.reset();
        if let Some(place) = granted(&waiter) {
            self.unnote(place);
        }
        self.put(wanted);
    }
}

/// Where it is noted that this waiter was given its permits, if it was.
fn granted(waiter: &Waiter<Ask>) -> Option<Place> {
    Place::from_remark(waiter.take_remark())
}

#[cold]
#[track_caller]
fn too_many(permits: usize) -> ! {
    panic!("number of added permits ({permits}) would overflow MAX_PERMITS ({MAX})")
}

pin_project_lite::pin_project! {
    /// The part of a future that waits for permits. Whoever it is part of calls
    /// [`cancel`](Self::cancel) when it is dropped.
    pub(super) struct Acquiring {
        // None until it has to wait: then there is little to move around, and little
        // to look at, where permits are there.
        #[pin]
        waiter: Option<Waiter<Ask>>,
        wanted: usize,
        site: &'static Location<'static>,
    }
}

impl Acquiring {
    /// # Panics
    ///
    /// If there can never be that many.
    #[inline]
    #[track_caller]
    pub(super) fn new(wanted: usize, site: &'static Location<'static>) -> Self {
        check_permits(wanted);
        Self { waiter: None, wanted, site }
    }

    pub(super) fn wanted(&self) -> usize {
        self.wanted
    }

    /// Always with the same `permits`.
    #[inline]
    pub(super) fn poll(
        self: Pin<&mut Self>,
        permits: &Permits,
        kind: WaitKind,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Closed>> {
        let progress = coop::try_proceed();
        if let (Some(progress), None) = (&progress, &self.waiter) {
            match permits.try_take(self.wanted) {
                Taken::Yes => {
                    progress.made_progress();
                    return Poll::Ready(Ok(()));
                }
                Taken::Closed => return Poll::Ready(Err(Closed)),
                Taken::Short => {}
            }
        }
        self.poll_slowly(permits, kind, progress, cx)
    }

    #[inline(never)]
    fn poll_slowly(
        mut self: Pin<&mut Self>,
        permits: &Permits,
        kind: WaitKind,
        progress: Option<RestoreOnPending>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Closed>> {
        // Without budget it still queues up, so that it keeps its place.
        if progress.is_none() && self.could_go_on(permits) {
            context::give_way(cx.waker());
            return Poll::Pending;
        }
        match self.as_mut().wait(permits, cx) {
            Taken::Yes => {
                if let Some(progress) = progress {
                    progress.made_progress();
                }
                Poll::Ready(Ok(()))
            }
            Taken::Closed => Poll::Ready(Err(Closed)),
            Taken::Short => {
                let number = permits.waiters.plate.number(ptr::from_ref(permits).addr());
                waiting_on_plate(kind, number, self.site);
                Poll::Pending
            }
        }
    }

    fn could_go_on(&self, permits: &Permits) -> bool {
        let there = match &self.waiter {
            None => permits.available() >= self.wanted,
            Some(waiter) => waiter.standing() != Standing::Waiting,
        };
        there && !permits.is_closed()
    }

    fn wait(self: Pin<&mut Self>, permits: &Permits, cx: &Context<'_>) -> Taken {
        let mut this = self.project();
        if this.waiter.is_none() {
            this.waiter.set(Some(Waiter::new()));
        }
        let waiter = this.waiter.into_ref().as_pin_ref().expect("it is there by now");
        let wanted = *this.wanted;
        let mut standing = waiter.standing();
        if standing == Standing::Waiting {
            standing = permits.waiters.update_waker(waiter, cx.waker());
        }
        match standing {
            Standing::Idle => {
                let held = Held::by_current(this.site);
                permits.enqueue(waiter, wanted, held, cx.waker().clone())
            }
            Standing::Waiting => Taken::Short,
            Standing::Answered(Answer::Closed) => Taken::Closed,
            Standing::Answered(_) => {
                if permits.is_closed() {
                    permits.pass_on(waiter, wanted);
                    return Taken::Closed;
                }
                waiter.reset();
                Taken::Yes
            }
        }
    }

    /// Gives back what it got and nobody saw.
    #[inline]
    pub(super) fn cancel(self: Pin<&mut Self>, permits: &Permits) {
        let this = self.project();
        if let Some(waiter) = this.waiter.into_ref().as_pin_ref() {
            permits.give_up(waiter, *this.wanted);
        }
    }
}

/// # Panics
///
/// If there can never be that many permits.
#[inline]
#[track_caller]
pub(super) fn check_permits(permits: usize) {
    assert!(
        permits <= MAX,
        "a semaphore may not have more than MAX_PERMITS permits ({MAX}), and {permits} were asked for"
    );
}
