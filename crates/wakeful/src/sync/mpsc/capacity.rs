//! The capacity of a bounded channel: senders that wait for it, and the assignment of freed slots.
//!
//! A slot is *used* from its reservation by a permit, or its claim by a message, until that message
//! is received. `tail` holds the numbers of claimed and of reserved slots; `head` is the receiver's
//! position. The difference is the number of used slots, and must not exceed `limit`. A sender
//! keeps the last `head` it has seen, and loads it again only if the channel seems to be full.
//!
//! Rules:
//! - CAPACITY-1. While QUEUED is set, only the holder of the lock reserves slots, and no sender
//!   claims a slot without a reservation. The holder of the lock sets QUEUED if a sender waits in
//!   the list, or if the reserved slots exceed what the word can count.
//! - CAPACITY-2. Freed slots go to the first waiter until its request is complete. Until then,
//!   `partial` is the number of slots it has; they count as reserved.
//! - CAPACITY-3. SENDER_WAITS in `fence_mode` is set whenever a sender waits in the list. An actor
//!   that frees slots afterwards grants them (`grant_capacity`): permits see QUEUED in the word
//!   that they change, the receiver sees SENDER_WAITS.
//!
//! The race to fear: a sender finds the channel full and enqueues itself, while the receiver frees
//! a slot and sees no waiting sender. The sender writes `fence_mode` and then reads `head`; the
//! receiver writes `head` and then reads `fence_mode`. With a full fence between the two steps on
//! both sides, at least one side sees the other's write. A full fence for every message would cost
//! the receiver half of its time, so there are two modes:
//!
//! - *cheap fence* (`fence_mode` is 0): the receiver has only a compiler fence between its steps. A
//!   sender that enqueues itself runs an expensive fence, a `membarrier` system call.
//! - *full fence* (FULL_FENCE is set): the receiver swaps `head`, which is a full fence. A sender
//!   needs no fence but its own read-modify-write of `fence_mode`.
//!
//! A sender that enqueues itself in cheap-fence mode sets FULL_FENCE and SENDER_WAITS in one step,
//! and then runs the expensive fence. A receiver that did not see the bits has written `head`
//! before that fence, so the sender's next load of `head` sees it. The receiver returns to cheap
//! fences after many messages for which no sender waited. For this it uses a compare-exchange that
//! fails if SENDER_WAITS is set. That exchange sees every sender that enqueued itself before; a
//! later sender finds FULL_FENCE cleared.
//!
//! If two senders enqueue themselves at the same time, the second may find FULL_FENCE set although
//! the first has not run its fence yet. The first sender loads `head` again after its fence, under
//! the lock, and grants capacity to all waiters. If the second sender enqueues itself after that,
//! the lock orders it after the first one's load of `head`.

use super::chan::Chan;
use super::tail::{CLOSED, MAX_RESERVED, PERMIT, QUEUED, Tail};
use crate::sys::sync::atomic::Ordering::*;
use crate::task::wait_kind::WaitKind;
use crate::wait::list::{Grant, Locked, Waiter, WaiterState};
use crate::wait::ownership::resource_record::ResourceRecord;
use crate::wait::ownership::stall_note::Stall;
use crate::wait::wake_batch::{PanicSink, WakeBatch};
use std::panic::Location;
use std::pin::Pin;
use std::task::Waker;

/// A sender waits for capacity (CAPACITY-3).
pub(super) const SENDER_WAITS: u32 = 1;
/// The receiver runs full fences.
pub(super) const FULL_FENCE: u32 = 2;

/// State that the lock guards, in addition to the list.
pub(super) struct Capacity {
    /// Reserved slots that do not fit into the word (CAPACITY-1).
    overflow: u64,
    /// The slots that the first waiter has so far (CAPACITY-2). When the channel is closed, they
    /// stay until that waiter is polled or dropped.
    partial: u64,
    /// The address of the waiter that has these slots.
    partial_waiter: usize,
}

/// The request of a waiting sender.
#[derive(Clone, Copy)]
pub(super) struct CapacityRequest {
    slots: u64,
    /// The address of the waiter.
    waiter: usize,
}

type Queue<'a> = Locked<'a, Capacity, CapacityRequest>;

impl Capacity {
    pub(super) fn new() -> Self {
        Self { overflow: 0, partial: 0, partial_waiter: 0 }
    }
}

/// Why no slot could be reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReserveError {
    Full,
    Closed,
}

/// The result of a request for capacity.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestOutcome {
    Reserved,
    Waiting,
    Closed,
}

fn address(waiter: Pin<&Waiter<CapacityRequest>>) -> usize {
    (&raw const *waiter).addr()
}

impl<T> Chan<T> {
    /// Records that a different task now receives, or a thread that runs no tasks.
    #[cold]
    pub(super) fn record_other_receiver(&self) {
        self.last_receiver.set_without_site();
        self.publish_receiver();
    }

    /// Publishes the receiving task to the resource record of waiting senders.
    #[cold]
    pub(super) fn publish_receiver(&self) {
        if let Some(record) = self.send_waiters.record.get() {
            self.send_waiters.with(|_| record.update_owner(self.last_receiver.get()));
        }
    }

    /// Counts slots that a permit holds, which it may release at any time.
    pub(super) fn record_reserved(&self, slots: usize) {
        self.held_permits.fetch_add(slots, SeqCst);
        self.publish_reserved();
    }

    /// Counts slots that permits have used or released.
    pub(super) fn record_unreserved(&self, slots: usize) {
        self.held_permits.fetch_sub(slots, SeqCst);
        self.publish_reserved();
    }

    /// Publishes whether capacity may come from permits, and not only from the receiver.
    fn publish_reserved(&self) {
        if let Some(record) = self.send_waiters.record.get() {
            self.send_waiters.with(|_| self.publish_reserved_locked(record));
        }
    }

    /// Publishes whether permits hold slots. The caller holds the lock.
    fn publish_reserved_locked(&self, record: &ResourceRecord) {
        record.owner_table.set_unlisted(self.held_permits.load(SeqCst) > 0);
    }

    /// Returns whether `slots` more fit, by the sender's possibly outdated view of `head`.
    #[inline]
    pub(super) fn fits(&self, word: Tail, slots: u64) -> bool {
        // Relaxed: an old value is a conservative one.
        word.used(self.seen_head.load(Relaxed)) + slots <= self.limit
    }

    /// Loads the receiver's position again, which may have advanced.
    ///
    /// # Errors
    ///
    /// Returns the current word if `word` is outdated, and `None` if the channel is full.
    #[cold]
    pub(super) fn recheck_capacity(&self, word: Tail, slots: u64) -> Result<(), Option<Tail>> {
        self.seen_head.store(self.head.load(SeqCst), Relaxed);
        if self.fits(word, slots) {
            return Ok(());
        }
        let now = self.load_tail();
        Err((now != word).then_some(now))
    }

    /// Reserves slots if they are free now.
    pub(super) fn try_reserve_slots(&self, slots: u64) -> Result<(), ReserveError> {
        let mut word = self.load_tail();
        loop {
            if word.has(CLOSED) {
                return Err(ReserveError::Closed);
            }
            if slots == 0 {
                return Ok(());
            }
            if word.has(QUEUED) || word.reserved() + slots > MAX_RESERVED {
                return self.try_reserve_locked(slots);
            }
            if !self.fits(word, slots)
                && let Err(newer) = self.recheck_capacity(word, slots)
            {
                word = newer.ok_or(ReserveError::Full)?;
                continue;
            }
            match self.replace_tail(word, word.reserve(slots)) {
                Ok(()) => return Ok(()),
                Err(now) => word = now,
            }
        }
    }

    #[cold]
    pub(super) fn try_reserve_locked(&self, slots: u64) -> Result<(), ReserveError> {
        let result = self.send_waiters.with(|queue| {
            // CAPACITY-1: from here on only this thread reserves.
            self.set_queued()?;
            if queue.is_empty() && self.free_slots(queue) >= slots {
                self.reserve_locked(queue, slots);
                return Ok(());
            }
            Err(ReserveError::Full)
        });
        self.grant_capacity_or_release(slots, result.is_ok());
        result
    }

    /// Grants freed capacity and releases `slots` if a waker panics.
    ///
    /// The caller has reserved `slots` if `is_reserved`. It could not release them itself after a
    /// panic.
    fn grant_capacity_or_release(&self, slots: u64, is_reserved: bool) {
        let mut panics = PanicSink::default();
        self.grant_capacity_to_all(&mut panics);
        if is_reserved && panics.has_panic() {
            panics.catch(|| self.release(slots));
        }
        panics.resume();
    }

    /// Sets QUEUED, under the lock. Not in a closed channel, so that its end is final (MPSC-4).
    fn set_queued(&self) -> Result<(), ReserveError> {
        let mut word = self.load_tail();
        loop {
            if word.has(CLOSED) {
                return Err(ReserveError::Closed);
            }
            match self.replace_tail(word, word.with(QUEUED)) {
                Ok(()) => return Ok(()),
                Err(now) => word = now,
            }
        }
    }

    /// Returns the number of slots that are neither used nor reserved. CAPACITY-1 holds.
    fn free_slots(&self, queue: &Queue<'_>) -> u64 {
        let word = self.load_tail();
        // SeqCst: ordered after the change of `fence_mode`, see the module's documentation. `head`
        // is loaded after the word: the number of used slots can only shrink meanwhile
        // (CAPACITY-1).
        let used = word.used(self.head.load(SeqCst)) + queue.overflow;
        self.limit.saturating_sub(used)
    }

    /// Reserves slots under the lock, with QUEUED set (CAPACITY-1).
    fn reserve_locked(&self, queue: &mut Queue<'_>, slots: u64) {
        // Only the holder of the lock adds to it; others subtract.
        let fit = slots.min(MAX_RESERVED - self.load_tail().reserved());
        self.add_to_tail(fit * PERMIT);
        queue.overflow += slots - fit;
    }

    /// Reserves slots, or enqueues `waiter`, which is granted them later.
    #[cold]
    pub(super) fn request_capacity(
        &self,
        waiter: Pin<&Waiter<CapacityRequest>>,
        slots: u64,
        waker: &Waker,
        site: &'static Location<'static>,
    ) -> RequestOutcome {
        let waker = waker.clone();
        let mut batch = WakeBatch::new();
        let mut was_cheap = false;
        let outcome = self.send_waiters.with(|queue| {
            if self.set_queued().is_err() {
                return RequestOutcome::Closed;
            }
            let before = self.fence_mode.fetch_or(SENDER_WAITS | FULL_FENCE, SeqCst);
            was_cheap = before & FULL_FENCE == 0;
            if queue.is_empty() && self.free_slots(queue) >= slots {
                self.reserve_locked(queue, slots);
                return RequestOutcome::Reserved;
            }
            let request = CapacityRequest { slots, waiter: address(waiter) };
            queue.push_linked(waiter, request, waker, (WaitKind::MpscSend, site), |record| {
                record.update_owner(self.last_receiver.get());
                self.publish_reserved_locked(record);
                if !record.stall.is_set() {
                    let (total, created_at) = (self.limit, Some(self.created_at));
                    record.stall.set(Stall { task: 0, count: 0, total, created_at });
                }
            });
            self.grant_locked(queue, &mut batch);
            RequestOutcome::Waiting
        });
        let more = batch.is_full();
        batch.wake();
        if outcome == RequestOutcome::Waiting && !was_cheap && !more {
            return outcome;
        }
        if was_cheap {
            self.barriers.heavy();
        }
        self.grant_capacity_or_release(slots, outcome == RequestOutcome::Reserved);
        outcome
    }

    /// Grants freed slots to waiting senders.
    #[cold]
    pub(super) fn grant_capacity(&self) {
        let mut panics = PanicSink::default();
        self.grant_capacity_to_all(&mut panics);
        panics.resume();
    }

    fn grant_capacity_to_all(&self, panics: &mut PanicSink) {
        let mut more = true;
        while more {
            let mut batch = WakeBatch::new();
            self.send_waiters.with(|queue| self.grant_locked(queue, &mut batch));
            more = batch.is_full();
            panics.catch(|| batch.wake());
        }
        panics.catch(|| self.wake_receiver_if_ended());
    }

    /// Grants freed slots under the lock, with QUEUED set or the list empty.
    fn grant_locked(&self, queue: &mut Queue<'_>, batch: &mut WakeBatch) {
        while let Some(&mut request) = queue.front() {
            let missing = request.slots - queue.partial;
            let granted = missing.min(self.free_slots(queue));
            if batch.is_full() || granted == 0 {
                return;
            }
            self.reserve_locked(queue, granted);
            if granted < missing {
                (queue.partial, queue.partial_waiter) = (queue.partial + granted, request.waiter);
            } else {
                (queue.partial, queue.partial_waiter) = (0, 0);
                batch.push(queue.pop_front(Grant::One).expect("the list is not empty"));
            }
        }
        if self.fence_mode.load(Relaxed) & SENDER_WAITS != 0 {
            self.fence_mode.fetch_and(!SENDER_WAITS, SeqCst);
        }
        if queue.overflow == 0 && self.load_tail().has(QUEUED) {
            self.add_to_tail(0u64.wrapping_sub(QUEUED.0));
        }
    }

    /// Releases reserved slots.
    #[inline]
    pub(super) fn release(&self, slots: u64) {
        let mut word = self.load_tail();
        while word.reserved() >= slots {
            let next = word.unreserve(slots);
            match self.replace_tail(word, next) {
                Ok(()) if next.has(QUEUED) => return self.grant_capacity(),
                Ok(()) if next.has(CLOSED) => return self.wake_receiver_if_ended(),
                Ok(()) => return,
                Err(now) => word = now,
            }
        }
        self.release_overflow(slots);
    }

    /// Releases reserved slots, some of which are not counted in the word.
    #[cold]
    fn release_overflow(&self, slots: u64) {
        self.send_waiters.with(|queue| {
            let from_overflow = slots.min(queue.overflow);
            queue.overflow -= from_overflow;
            // All others are in the word.
            self.add_to_tail(0u64.wrapping_sub((slots - from_overflow) * PERMIT));
        });
        self.grant_capacity();
    }

    /// Moves overflowed reservations to the word. Called by a permit that found none there, so its
    /// own has overflowed.
    #[cold]
    pub(super) fn refill_reserved(&self) {
        self.send_waiters.with(|queue| {
            let space = MAX_RESERVED.div_ceil(2).saturating_sub(self.load_tail().reserved());
            let fit = queue.overflow.min(space);
            queue.overflow -= fit;
            self.add_to_tail(fit * PERMIT);
        });
        self.grant_capacity();
    }

    /// Cancels a request for capacity, in any state.
    #[cold]
    pub(super) fn cancel_request(&self, waiter: Pin<&Waiter<CapacityRequest>>, slots: u64) {
        let (waiter_state, partial, unneeded) = self.send_waiters.with(|queue| {
            let waiter_state = waiter.state();
            let waits = waiter_state == WaiterState::Waiting;
            let unneeded = waits.then(|| queue.remove(waiter));
            let mut partial = 0;
            if queue.partial_waiter == address(waiter) {
                partial = queue.partial;
                (queue.partial, queue.partial_waiter) = (0, 0);
            }
            (waiter_state, partial, unneeded)
        });
        drop(unneeded);
        if waiter_state != WaiterState::Waiting {
            waiter.reset();
        }
        let granted = waiter_state == WaiterState::Granted(Grant::One);
        // Even if the number is 0: the next waiter may now be the first one.
        self.release(if granted { slots } else { partial });
    }

    /// Wakes all waiting senders of a closed channel.
    #[cold]
    pub(super) fn close_send_waiters(&self, panics: &mut PanicSink) {
        panics.catch(|| self.send_waiters.grant_while(Grant::Closed, |_, _| true));
        self.grant_capacity_to_all(panics);
    }

    /// Returns the number of slots that could be reserved at once.
    pub(super) fn capacity(&self) -> u64 {
        let word = self.load_tail();
        let overflow =
            if word.has(QUEUED) { self.send_waiters.with(|queue| queue.overflow) } else { 0 };
        let used = word.used(self.head.load(Acquire));
        // If the receiver has overtaken the word, no slot is used.
        let used = if used > super::tail::POSITIONS / 2 { 0 } else { used };
        self.limit.saturating_sub(used + overflow)
    }
}
