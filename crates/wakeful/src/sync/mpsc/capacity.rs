//! Room in a bounded channel: who has to wait for it, and who gets what is freed.
//!
//! A slot is *used* from its promise to a permit or its claim by a message until
//! that message is received. `tail` says how many slots were claimed and are
//! promised, `head` how far the receiver is; the difference is what is used, and
//! must not exceed `limit`. A sender remembers the `head` that it saw and looks
//! at it again only when the channel seems to be full.
//!
//! Rules:
//! - M1. While QUEUED is set, only the lock's holder promises slots and nobody
//!   claims any without a promise. It is set, by the lock's holder, whenever
//!   somebody waits in the list or the number of promises does not fit into the
//!   word.
//! - M2. What is freed goes to the one in front until it has all that it wants.
//!   Until then `partial` says how much that is; it counts as promised.
//! - M3. WAITING in `attention` is set whenever somebody waits in the list.
//!   Whoever frees slots afterwards hands them out (`hand_out`): permits see
//!   QUEUED in the word that they change, the receiver sees WAITING.
//!
//! The race one fears: a sender finds the channel full and queues, while the
//! receiver frees a slot and sees nobody waiting. The sender writes `attention`
//! and then reads `head`; the receiver writes `head` and then reads `attention`.
//! With a full barrier between the two steps on both sides, at least one of them
//! sees the other's. A barrier with every message would cost the receiver half of
//! its time, so it comes in two strengths:
//!
//! - *calm* (no bit in `attention`): the receiver has only a light barrier there,
//!   and a sender that queues has a heavy one, a system call.
//! - *alert* (ALERT is set): the receiver exchanges `head`, which is a full
//!   barrier, and a sender needs none but its own exchange of `attention`.
//!
//! A sender that queues while the receiver is calm sets ALERT with WAITING in one
//! step and then runs the heavy barrier: a receiver that did not see the bits has
//! written `head` before it, so that the sender's next look at `head` finds it. The
//! receiver calms down after many messages for which nobody waited, by an exchange
//! that fails if WAITING was set. Whoever queues before that exchange is seen by
//! it; whoever queues after sees ALERT gone.
//!
//! Two senders queue at the same time, and the second finds ALERT set though the
//! first has not run its barrier yet: the first looks at `head` again after its
//! barrier, under the lock, and hands out to all that wait. If the second queues
//! after that, the lock shows it what the first saw.

use super::chan::Chan;
use super::tail::{CLOSED, MAX_RESERVED, PERMIT, QUEUED, Tail};
use crate::sys::sync::atomic::Ordering::*;
use crate::task::wait_kind::WaitKind;
use crate::wait::list::{Grant, Locked, Waiter, WaiterState};
use crate::wait::ownership::resource_record::ResourceRecord;
use crate::wait::wake_batch::{PanicSink, WakeBatch};
use std::panic::Location;
use std::pin::Pin;
use std::task::Waker;

/// Somebody waits for room (M3).
pub(super) const WAITING: u32 = 1;
/// The receiver runs full barriers.
pub(super) const ALERT: u32 = 2;

/// What the lock guards besides the list.
pub(super) struct Capacity {
    /// Promises that do not fit into the word (M1).
    beyond: u64,
    /// What the one in front has got so far (M2). It stays when the channel is
    /// closed, until that one comes to know.
    partial: u64,
    /// The address of the waiter that has got it.
    partial_of: usize,
}

/// What a sender waits for.
#[derive(Clone, Copy)]
pub(super) struct CapacityRequest {
    slots: u64,
    /// The address of the waiter.
    who: usize,
}

type Queue<'a> = Locked<'a, Capacity, CapacityRequest>;

impl Capacity {
    pub(super) fn new() -> Self {
        Self { beyond: 0, partial: 0, partial_of: 0 }
    }
}

/// Why there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    Full,
    Closed,
}

/// What came of asking for room.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Promised,
    Waiting,
    Closed,
}

fn address(waiter: Pin<&Waiter<CapacityRequest>>) -> usize {
    (&raw const *waiter).addr()
}

impl<T> Chan<T> {
    /// The receiver went to another task, or to a thread that runs none, and receives there.
    #[cold]
    pub(super) fn is_received_by_another(&self) {
        self.last_receiver.set_without_site();
        self.tell_receiver();
    }

    /// Those who wait for room learn who receives.
    #[cold]
    pub(super) fn tell_receiver(&self) {
        if let Some(plate) = self.room.record.get() {
            self.room.with(|_| plate.update_owner(self.last_receiver.get()));
        }
    }

    /// Somebody has permits for so many slots, which it may give back at any time.
    pub(super) fn has_reserved(&self, slots: usize) {
        self.reserved.fetch_add(slots, SeqCst);
        self.tell_reserved();
    }

    /// So many of them were used or given back.
    pub(super) fn has_used_reserved(&self, slots: usize) {
        self.reserved.fetch_sub(slots, SeqCst);
        self.tell_reserved();
    }

    /// Those who wait for room learn whether it may come from others than who receives.
    fn tell_reserved(&self) {
        if let Some(plate) = self.room.record.get() {
            self.room.with(|_| self.note_reserved(plate));
        }
    }

    /// The same, under the lock.
    fn note_reserved(&self, plate: &ResourceRecord) {
        plate.owner_table.set_unlisted(self.reserved.load(SeqCst) > 0);
    }

    /// Whether so many slots more can be used, as far as the sender knows.
    #[inline]
    pub(super) fn fits(&self, word: Tail, slots: u64) -> bool {
        // Relaxed: an old value is a cautious one.
        word.used(self.seen_head.load(Relaxed)) + slots <= self.limit
    }

    /// Looks at the receiver again: it may have freed slots. `Err` says what
    /// became of `word`: it is old, or if it is not, the channel is full.
    #[cold]
    pub(super) fn look_for_room(&self, word: Tail, slots: u64) -> Result<(), Option<Tail>> {
        self.seen_head.store(self.head.load(SeqCst), Relaxed);
        if self.fits(word, slots) {
            return Ok(());
        }
        let now = self.word();
        Err((now != word).then_some(now))
    }

    /// Promises slots, if that is possible now.
    pub(super) fn try_promise(&self, slots: u64) -> Result<(), Refusal> {
        let mut word = self.word();
        loop {
            if word.has(CLOSED) {
                return Err(Refusal::Closed);
            }
            if slots == 0 {
                return Ok(());
            }
            if word.has(QUEUED) || word.reserved() + slots > MAX_RESERVED {
                return self.try_promise_locked(slots);
            }
            if !self.fits(word, slots)
                && let Err(newer) = self.look_for_room(word, slots)
            {
                word = newer.ok_or(Refusal::Full)?;
                continue;
            }
            match self.exchange(word, word.reserve(slots)) {
                Ok(()) => return Ok(()),
                Err(now) => word = now,
            }
        }
    }

    #[cold]
    pub(super) fn try_promise_locked(&self, slots: u64) -> Result<(), Refusal> {
        let result = self.room.with(|queue| {
            // M1: nobody else promises from here on.
            self.start_queue()?;
            if queue.is_empty() && self.free(queue) >= slots {
                self.promise(queue, slots);
                return Ok(());
            }
            Err(Refusal::Full)
        });
        self.hand_out_and_keep(slots, result.is_ok());
        result
    }

    /// As `hand_out`, by one who has just been promised `slots`, if it was: should a waker panic,
    /// it never learns of that.
    fn hand_out_and_keep(&self, slots: u64, is_promised: bool) {
        let mut panics = PanicSink::default();
        self.hand_out_to_all(&mut panics);
        if is_promised && panics.has_panic() {
            panics.catch(|| self.release(slots));
        }
        panics.resume();
    }

    /// Sets QUEUED, under the lock. Not in a closed channel, so that one that has
    /// ended has done so for good (T4).
    fn start_queue(&self) -> Result<(), Refusal> {
        let mut word = self.word();
        loop {
            if word.has(CLOSED) {
                return Err(Refusal::Closed);
            }
            match self.exchange(word, word.with(QUEUED)) {
                Ok(()) => return Ok(()),
                Err(now) => word = now,
            }
        }
    }

    /// Slots that are neither used nor promised. Under M1.
    fn free(&self, queue: &Queue<'_>) -> u64 {
        let word = self.word();
        // SeqCst: comes after the exchange of `attention`, see above. After the
        // word: what is used can only shrink meanwhile (M1).
        let used = word.used(self.head.load(SeqCst)) + queue.beyond;
        self.limit.saturating_sub(used)
    }

    /// M1: under the lock, with QUEUED set.
    fn promise(&self, queue: &mut Queue<'_>, slots: u64) {
        // Only we add to it; others take away.
        let fit = slots.min(MAX_RESERVED - self.word().reserved());
        self.add(fit * PERMIT);
        queue.beyond += slots - fit;
    }

    /// Waits for room: `waiter` is answered when it was promised so many slots.
    #[cold]
    pub(super) fn ask(
        &self,
        waiter: Pin<&Waiter<CapacityRequest>>,
        slots: u64,
        waker: &Waker,
        site: &'static Location<'static>,
    ) -> Asked {
        let waker = waker.clone();
        let mut calls = WakeBatch::new();
        let mut was_calm = false;
        let asked = self.room.with(|queue| {
            if self.start_queue().is_err() {
                return Asked::Closed;
            }
            let before = self.attention.fetch_or(WAITING | ALERT, SeqCst);
            was_calm = before & ALERT == 0;
            if queue.is_empty() && self.free(queue) >= slots {
                self.promise(queue, slots);
                return Asked::Promised;
            }
            let ask = CapacityRequest { slots, who: address(waiter) };
            queue.push_linked(waiter, ask, waker, (WaitKind::MpscSend, site), |plate| {
                plate.update_owner(self.last_receiver.get());
                self.note_reserved(plate);
            });
            self.serve(queue, &mut calls);
            Asked::Waiting
        });
        let more = calls.is_full();
        calls.wake();
        if asked == Asked::Waiting && !was_calm && !more {
            return asked;
        }
        if was_calm {
            self.barriers.heavy();
        }
        self.hand_out_and_keep(slots, asked == Asked::Promised);
        asked
    }

    /// Somebody freed slots, or may have: gives them to those who wait.
    #[cold]
    pub(super) fn hand_out(&self) {
        let mut panics = PanicSink::default();
        self.hand_out_to_all(&mut panics);
        panics.resume();
    }

    fn hand_out_to_all(&self, panics: &mut PanicSink) {
        let mut more = true;
        while more {
            let mut calls = WakeBatch::new();
            self.room.with(|queue| self.serve(queue, &mut calls));
            more = calls.is_full();
            panics.catch(|| calls.wake());
        }
        panics.catch(|| self.call_at_end());
    }

    /// Under the lock, with QUEUED set or nobody waiting.
    fn serve(&self, queue: &mut Queue<'_>, calls: &mut WakeBatch) {
        while let Some(&mut ask) = queue.front() {
            let wanted = ask.slots - queue.partial;
            let given = wanted.min(self.free(queue));
            if calls.is_full() || given == 0 {
                return;
            }
            self.promise(queue, given);
            if given < wanted {
                (queue.partial, queue.partial_of) = (queue.partial + given, ask.who);
            } else {
                (queue.partial, queue.partial_of) = (0, 0);
                calls.push(queue.pop_front(Grant::One).expect("it is in front"));
            }
        }
        if self.attention.load(Relaxed) & WAITING != 0 {
            self.attention.fetch_and(!WAITING, SeqCst);
        }
        if queue.beyond == 0 && self.word().has(QUEUED) {
            self.add(0u64.wrapping_sub(QUEUED.0));
        }
    }

    /// Gives promised slots back.
    #[inline]
    pub(super) fn release(&self, slots: u64) {
        let mut word = self.word();
        while word.reserved() >= slots {
            let next = word.unreserve(slots);
            match self.exchange(word, next) {
                Ok(()) if next.has(QUEUED) => return self.hand_out(),
                Ok(()) if next.has(CLOSED) => return self.call_at_end(),
                Ok(()) => return,
                Err(now) => word = now,
            }
        }
        self.release_beyond(slots);
    }

    /// As `release`, where some of the promises are not in the word.
    #[cold]
    fn release_beyond(&self, slots: u64) {
        self.room.with(|queue| {
            let from_beyond = slots.min(queue.beyond);
            queue.beyond -= from_beyond;
            // The others can only be in the word.
            self.add(0u64.wrapping_sub((slots - from_beyond) * PERMIT));
        });
        self.hand_out();
    }

    /// A permit finds the word without promises: its own is beyond. Brings some
    /// into the word.
    #[cold]
    pub(super) fn bring_promises(&self) {
        self.room.with(|queue| {
            let space = MAX_RESERVED.div_ceil(2).saturating_sub(self.word().reserved());
            let fit = queue.beyond.min(space);
            queue.beyond -= fit;
            self.add(fit * PERMIT);
        });
        self.hand_out();
    }

    /// Somebody who asked for room gives up, whatever became of it.
    #[cold]
    pub(super) fn give_up(&self, waiter: Pin<&Waiter<CapacityRequest>>, slots: u64) {
        let (standing, partial, unneeded) = self.room.with(|queue| {
            let standing = waiter.state();
            let waits = standing == WaiterState::Waiting;
            let unneeded = waits.then(|| queue.remove(waiter));
            let mut partial = 0;
            if queue.partial_of == address(waiter) {
                partial = queue.partial;
                (queue.partial, queue.partial_of) = (0, 0);
            }
            (standing, partial, unneeded)
        });
        drop(unneeded);
        if standing != WaiterState::Waiting {
            waiter.reset();
        }
        let promised = standing == WaiterState::Granted(Grant::One);
        // Also if it is 0: those behind it may be in front now.
        self.release(if promised { slots } else { partial });
    }

    /// The channel is closed: whoever waits need not any longer.
    #[cold]
    pub(super) fn refuse_room(&self, panics: &mut PanicSink) {
        panics.catch(|| self.room.grant_while(Grant::Closed, |_, _| true));
        self.hand_out_to_all(panics);
    }

    /// Slots that could be taken at once.
    pub(super) fn capacity(&self) -> u64 {
        let word = self.word();
        let beyond = if word.has(QUEUED) { self.room.with(|queue| queue.beyond) } else { 0 };
        let used = word.used(self.head.load(Acquire));
        // If the receiver has overtaken the word, then nothing is used.
        let used = if used > super::tail::POSITIONS / 2 { 0 } else { used };
        self.limit.saturating_sub(used + beyond)
    }
}
