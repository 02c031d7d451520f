//! Counted permits, first come, first served: what semaphores and read-write
//! locks are made of.
//!
//! One word holds how many permits are there, whether somebody waits, whether
//! there will be more, and whether somebody has the first place among those whose
//! names are known (`permit_holders`). While nobody waits, taking and giving back is
//! one exchange of that word.
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

use super::permit_owners::{Counted, OwnerIndex, PermitOwners};
use crate::sys::sync::atomic::{AtomicUsize, Ordering::*};
use crate::sys::sync::{const_unless_model, thread};
use crate::task::context;
use crate::task::wait_target::TargetWord;
use crate::wait::list::{Grant, Locked, Waiter, WaiterState, Waiters};
use crate::wait::ownership::owner::Owner;
use crate::wait::ownership::resource_record::{ResourceRecord, WaitReason};
use crate::wait::wake_batch::{PanicSink, WakeBatch};
use std::panic::Location;
use std::pin::Pin;
use std::task::Waker;

/// There will be no more permits.
const CLOSED: usize = 1;
/// Somebody waits (P1 to P3).
const WAITERS: usize = 2;
/// Somebody has the first place (Q1).
const FIRST: usize = 4;
/// The permits are counted above the flags.
const SHIFT: u32 = 3;

/// The most permits there can be.
pub(super) const MAX: usize = usize::MAX >> 3;
const _: () = assert!(MAX << SHIFT >> SHIFT == MAX, "the flags leave room for MAX");

/// Permits, and those who wait for some.
pub(super) struct RawSemaphore {
    word: AtomicUsize,
    waiters: Waiters<Counted, Ask>,
    /// Who has permits; for those who ask why.
    holders: PermitOwners,
}

type List<'a> = Locked<'a, Counted, Ask>;

/// What a waiter asks for.
pub(super) struct Ask {
    wanted: usize,
    /// What it still lacks; more than 0 while it waits. Only the waiter in front
    /// lacks less than it wants (P2).
    lacks: usize,
    /// Who is to be noted as a holder, and where it got its permits.
    task: u64,
    site: &'static Location<'static>,
}

/// What came of an attempt to take permits.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// They are the caller's, which is noted as a holder there.
    Yes(OwnerIndex),
    /// There were not enough.
    Short,
    /// There will be no more.
    Closed,
}

/// There will be no more permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Closed;

impl RawSemaphore {
    const_unless_model! {
        /// Starts with this many, at most [`MAX`].
        pub(super) fn new(permits: usize) -> Self {
            Self {
                word: AtomicUsize::new(permits << SHIFT),
                waiters: Waiters::new(Counted::NOBODY),
                holders: PermitOwners::nobody(),
            }
        }
    }

    /// The current task has permits which it took at once, and FIRST or not.
    fn note(&self, has_first: bool, held: Owner) -> OwnerIndex {
        if has_first {
            self.holders.enter_first(held);
            return OwnerIndex::FIRST;
        }
        let spot = self.holders.enter_behind(held);
        self.tell_if_needed();
        spot
    }

    /// Q2: after something has changed with those who have permits behind the first.
    fn tell_if_needed(&self) {
        if self.word.load(SeqCst) & WAITERS != 0 {
            self.tell();
        }
    }

    /// The current task has some of the permits that another had a moment ago.
    pub(super) fn note_split(&self, site: &'static Location<'static>) -> OwnerIndex {
        self.note(false, Owner::current(site))
    }

    /// Somebody has permits that can go to any task or thread.
    #[inline]
    pub(super) fn go_anywhere(&self) {
        self.waiters.record.mark_movable();
    }

    /// The plate, once somebody has had to wait.
    #[inline]
    pub(super) fn plate(&self) -> Option<&'static ResourceRecord> {
        self.waiters.record.get()
    }

    /// What the permits are called in records.
    pub(super) fn target(&self) -> TargetWord {
        self.waiters.record.target(self)
    }

    /// A waiter is polled again, with this waker.
    pub(super) fn update_waker(&self, waiter: Pin<&Waiter<Ask>>, waker: &Waker) -> WaiterState {
        self.waiters.update_waker_with(waiter, waker, |ask| ask.task = context::current_id())
    }

    /// Tells those who ask on behalf of those who wait.
    #[cold]
    fn tell(&self) {
        self.waiters.with(|list| {
            if let Some(plate) = list.record.get() {
                self.tell_names(list, plate);
            }
        });
    }

    /// The same; under the list's lock. Whether somebody has no name yet.
    fn tell_names(&self, counted: &Counted, plate: &ResourceRecord) -> bool {
        let has_first = self.word.load(SeqCst) & FIRST != 0;
        self.holders.tell(has_first, counted, &plate.owner_table)
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
    pub(super) fn try_take(&self, wanted: usize, site: &'static Location<'static>) -> Taken {
        if self.try_take_first(wanted, site) {
            return Taken::Yes(OwnerIndex::FIRST);
        }
        self.try_take_any(wanted, site)
    }

    /// The same, together with the first place if that is free, as it mostly is.
    #[inline(always)]
    pub(super) fn try_take_first(&self, wanted: usize, site: &'static Location<'static>) -> bool {
        let word = self.word.load(Relaxed);
        // Who wants none has none to be named for.
        if word & (CLOSED | WAITERS | FIRST) != 0 || word >> SHIFT < wanted || wanted == 0 {
            return false;
        }
        let new = (word - (wanted << SHIFT)) | FIRST;
        if self.word.compare_exchange(word, new, Acquire, Relaxed).is_err() {
            return false;
        }
        self.holders.enter_first(Owner::current(site));
        true
    }

    #[inline(never)]
    pub(super) fn try_take_any(&self, wanted: usize, site: &'static Location<'static>) -> Taken {
        let mut word = self.word.load(Acquire);
        loop {
            if word & CLOSED != 0 {
                return Taken::Closed;
            }
            if word >> SHIFT < wanted {
                return Taken::Short;
            }
            let (new, has_first) = taken(word, wanted);
            match self.word.compare_exchange_weak(word, new, Acquire, Acquire) {
                Ok(_) if wanted == 0 => return Taken::Yes(OwnerIndex::NOWHERE),
                Ok(_) => return Taken::Yes(self.note(has_first, Owner::current(site))),
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

    /// Gives permits back, by the one who stands there, or new ones: to those who wait,
    /// as far as they reach.
    ///
    /// # Panics
    ///
    /// If there would be more than [`MAX`].
    #[inline(always)]
    #[track_caller]
    pub(super) fn put(&self, permits: usize, spot: OwnerIndex) {
        if spot == OwnerIndex::FIRST {
            self.holders.leave_first();
            let word = self.word.load(Relaxed);
            if word & WAITERS == 0 && permits <= MAX - (word >> SHIFT) {
                // FIRST is set, and goes.
                let new = word - FIRST + (permits << SHIFT);
                if self.word.compare_exchange(word, new, Release, Relaxed).is_ok() {
                    return;
                }
            }
        }
        self.put_any(permits, spot);
    }

    #[inline(never)]
    #[track_caller]
    fn put_any(&self, permits: usize, spot: OwnerIndex) {
        let first = if spot == OwnerIndex::FIRST { FIRST } else { 0 };
        let mut word = self.word.load(Relaxed);
        // P1: with waiters, only the list's holder changes the word.
        while word & WAITERS == 0 {
            if permits > MAX - (word >> SHIFT) {
                self.forget(spot);
                too_many(permits);
            }
            let new = (word & !first) + (permits << SHIFT);
            match self.word.compare_exchange_weak(word, new, Release, Relaxed) {
                Ok(_) if spot.is_behind() => return self.leave_behind(spot),
                Ok(_) => return,
                Err(changed) => word = changed,
            }
        }
        self.put_to_waiters(permits, spot);
    }

    fn leave_behind(&self, spot: OwnerIndex) {
        self.holders.leave_behind(spot);
        self.tell_if_needed();
    }

    #[track_caller]
    fn put_to_waiters(&self, permits: usize, mut spot: OwnerIndex) {
        if permits > MAX {
            too_many(permits);
        }
        let mut rest = permits;
        self.in_batches(|list, calls| {
            self.leave(list, std::mem::replace(&mut spot, OwnerIndex::NOWHERE));
            self.hand_out(list, &mut rest, calls);
            rest == 0
        });
    }

    /// The one who stands there has no permits any more, or is about to give them away
    /// under this hold of the lock.
    #[inline]
    fn leave(&self, list: &mut List<'_>, spot: OwnerIndex) {
        if spot == OwnerIndex::FIRST {
            self.holders.leave_first();
            if list.is_empty() {
                self.word.fetch_and(!FIRST, Release);
            } else {
                // P1, P3.
                self.word.store(self.word.load(Relaxed) & !FIRST, Relaxed);
            }
        }
        let names = list.record.get().map(|plate| &plate.owner_table);
        self.holders.leave(spot, list, names);
    }

    /// Before the list's lock is let go of.
    #[inline]
    fn settle(&self, list: &mut List<'_>) {
        let names = list.record.get().map(|plate| &plate.owner_table);
        self.holders.settle(list, names);
        let has_part = list.front().is_some_and(|front| front.lacks < front.wanted);
        if has_part || list.has_ahead {
            set_partial_waiter(list);
        }
    }

    /// The one who stands there has nothing to give back.
    #[cold]
    pub(super) fn forget(&self, spot: OwnerIndex) {
        self.waiters.with(|list| {
            self.leave(list, spot);
            self.settle(list);
        });
    }

    /// Runs `round` under the list's lock and wakes whom it called, until it
    /// answers that it is done. A waker that panics does so when all is done.
    fn in_batches(&self, mut round: impl FnMut(&mut List<'_>, &mut WakeBatch) -> bool) {
        let mut panics = PanicSink::default();
        let mut done = false;
        while !done {
            let mut calls = WakeBatch::new();
            done = self.waiters.with(|list| {
                let done = round(list, &mut calls);
                self.settle(list);
                done
            });
            panics.catch(|| calls.wake());
        }
        panics.resume();
    }

    /// Gives what is in hand to those in front, and what nobody waits for to the
    /// word. Some stays in hand only if `calls` is full.
    fn hand_out(&self, list: &mut List<'_>, in_hand: &mut usize, calls: &mut WakeBatch) {
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
            let held = Owner { task: front.task, site: Some(front.site), granted_unpolled: true };
            let call = list.pop_front_with(Grant::One, |list| self.hand(list, held).to_remark());
            calls.push(call.expect("it is in front"));
        }
        if list.is_empty() {
            self.nobody_waits(std::mem::take(in_hand));
        }
    }

    /// Notes the waiter in front as a holder.
    #[inline]
    fn hand(&self, list: &mut List<'_>, held: Owner) -> OwnerIndex {
        let word = self.word.load(Relaxed);
        let has_first = word & FIRST == 0;
        if has_first {
            // P1: somebody waits.
            self.word.store(word | FIRST, Relaxed);
        }
        let names = list.record.get().map(|plate| &plate.owner_table);
        self.holders.hand(has_first, held, list, names)
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
                calls.push(list.pop_front(Grant::Closed).expect("it is in front"));
            }
            self.nobody_waits(returned);
            true
        });
    }

    /// Takes what is there and queues up for the rest, unless it is all there.
    pub(super) fn enqueue(
        &self,
        waiter: Pin<&Waiter<Ask>>,
        wanted: usize,
        (kind, site): WaitReason,
        waker: Waker,
    ) -> Taken {
        // Dropped after the lock.
        let mut unneeded = Some(waker);
        let mut is_unsure = false;
        let queued = self.waiters.with(|list| {
            let mut word = self.word.load(Relaxed);
            debug_assert_eq!(word & WAITERS != 0, !list.is_empty(), "P3");
            let there = loop {
                let there = word >> SHIFT;
                let (new, has_first) = match () {
                    () if word & CLOSED != 0 => return Queued::Closed,
                    () if there >= wanted => taken(word, wanted),
                    () => (WAITERS | word & FIRST, false),
                };
                // Acquire for the permits; nothing is released: the list's lock
                // orders what is about WAITERS. SeqCst for Q2.
                match self.word.compare_exchange_weak(word, new, SeqCst, Relaxed) {
                    Ok(_) if there >= wanted => return Queued::Taken(has_first),
                    Ok(_) => break there,
                    Err(changed) => word = changed,
                }
            };
            let lacks = wanted - there;
            let ask = Ask { wanted, lacks, task: context::current_id(), site };
            let waker = unneeded.take().expect("not used yet");
            let (is_first, counted) = (list.is_empty(), **list);
            list.push_linked(waiter, ask, waker, (kind, site), |plate| {
                // Q3.
                is_unsure = is_first && self.tell_names(&counted, plate);
            });
            if there > 0 {
                set_partial_waiter(list);
            }
            Queued::Waits
        });
        if is_unsure {
            self.make_sure();
        }
        match queued {
            Queued::Taken(_) if wanted == 0 => Taken::Yes(OwnerIndex::NOWHERE),
            Queued::Taken(has_first) => Taken::Yes(self.note(has_first, Owner::current(site))),
            Queued::Waits => Taken::Short,
            Queued::Closed => Taken::Closed,
        }
    }

    /// Q3: somebody took permits a moment ago and has not said who it is, or is about to
    /// give them back.
    #[cold]
    fn make_sure(&self) {
        // Without the lock, which that one may need.
        while self.holders.has_unnamed(self.word.load(SeqCst) & FIRST != 0) {
            thread::yield_now();
        }
        self.tell();
    }

    /// A waiter gives up; what it already has goes to the others.
    #[inline(never)]
    pub(super) fn give_up(&self, waiter: Pin<&Waiter<Ask>>, wanted: usize) {
        let mut in_hand = 0;
        // Dropped at the end, after the lock.
        let mut _unneeded = None;
        if waiter.state() == WaiterState::Waiting {
            self.in_batches(|list, calls| {
                if let Some(ask) = list.request_of(waiter) {
                    in_hand = ask.wanted - ask.lacks;
                    _unneeded = Some(list.remove(waiter));
                }
                self.hand_out(list, &mut in_hand, calls);
                in_hand == 0
            });
        }
        if waiter.state() == WaiterState::Granted(Grant::One) {
            self.pass_on(waiter, wanted);
        }
    }

    /// What a waiter was given goes to the others.
    pub(super) fn pass_on(&self, waiter: Pin<&Waiter<Ask>>, wanted: usize) {
        waiter.reset();
        self.put(wanted, OwnerIndex::from_remark(waiter.take_payload()));
    }

    /// What a waiter was given is taken up by the current task.
    #[inline]
    pub(super) fn take_up(
        &self,
        waiter: Pin<&Waiter<Ask>>,
        site: &'static Location<'static>,
    ) -> OwnerIndex {
        waiter.reset();
        let spot = OwnerIndex::from_remark(waiter.take_payload());
        let names = self.plate().map(|plate| &plate.owner_table);
        if !PermitOwners::take_up(spot, context::current_id(), site, names) {
            // It is not the task that queued up which polls now.
            self.waiters.with(|_| {
                PermitOwners::take_up_as_another(spot, Owner::current(site), names);
            });
        }
        spot
    }
}

/// Q5: says who is ahead, if somebody is.
#[cold]
fn set_partial_waiter(list: &mut List<'_>) {
    let part = list.front().filter(|front| front.lacks < front.wanted);
    let ahead = part.map(|front| Owner {
        task: front.task,
        site: Some(front.site),
        granted_unpolled: false,
    });
    list.has_ahead = ahead.is_some();
    if let Some(plate) = list.record.get() {
        plate.set_partial_waiter(ahead);
    }
}

/// What came of queuing up.
enum Queued {
    Waits,
    /// It was all there; with FIRST or not.
    Taken(bool),
    Closed,
}

/// The word after so many permits were taken, and whether FIRST came with them. While
/// somebody waits, which only those can pass who want none, it stays as it is (P1).
#[inline]
fn taken(word: usize, wanted: usize) -> (usize, bool) {
    let has_first = word & (FIRST | WAITERS) == 0 && wanted > 0;
    ((word - (wanted << SHIFT)) | if has_first { FIRST } else { 0 }, has_first)
}

#[cold]
#[track_caller]
fn too_many(permits: usize) -> ! {
    panic!("number of added permits ({permits}) would overflow MAX_PERMITS ({MAX})")
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
