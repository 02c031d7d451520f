//! Waiting requests: how tasks enter and leave the wait list, and how waiters are granted permits.
//!
//! The rules PERMIT-1 to PERMIT-3 are in the parent module.

use super::{
    AcquireOutcome, CLOSED, Demand, FIRST, List, MAX, RawSemaphore, SHIFT, WAITERS, panic_too_many,
    word_after_acquire,
};
use crate::sync::permit_owners::{OwnerIndex, PermitOwners};
use crate::sync::raw_semaphore::diagnostics::forget_request;
use crate::sys::sync::atomic::Ordering::*;
use crate::task::context;
use crate::wait::list::{Grant, Waiter, WaiterState};
use crate::wait::ownership::owner::Owner;
use crate::wait::ownership::resource_record::WaitReason;
use crate::wait::wake_batch::{PanicSink, WakeBatch};
use std::panic::Location;
use std::pin::Pin;
use std::task::Waker;

impl RawSemaphore {
    /// Stores the waker of a waiter that is polled again.
    pub(in crate::sync) fn update_waker(
        &self,
        waiter: Pin<&Waiter<Demand>>,
        waker: &Waker,
    ) -> WaiterState {
        self.waiters.update_waker_with(waiter, waker, |demand| demand.task = context::current_id())
    }

    /// Takes the available permits and waits for the rest, unless all are available.
    pub(in crate::sync) fn enqueue(
        &self,
        waiter: Pin<&Waiter<Demand>>,
        requested: usize,
        (kind, site): WaitReason,
        waker: Waker,
    ) -> AcquireOutcome {
        // A waker that was not queued is dropped after the list's lock is released.
        let mut unneeded = Some(waker);
        let queued = self.waiters.with(|list| {
            let mut word = self.word.load(Relaxed);
            debug_assert_eq!(word & WAITERS != 0, !list.is_empty(), "PERMIT-3");
            let available = loop {
                let available = word >> SHIFT;
                let (new, has_first) = match () {
                    () if word & CLOSED != 0 => return EnqueueOutcome::Closed,
                    () if available >= requested => word_after_acquire(word, requested),
                    () => (WAITERS | word & FIRST, false),
                };
                // Acquire for the permits. Nothing is released: the list's lock orders everything
                // about WAITERS. SeqCst for PERMIT-5.
                match self.word.compare_exchange_weak(word, new, SeqCst, Relaxed) {
                    Ok(_) if available >= requested => return EnqueueOutcome::Acquired(has_first),
                    Ok(_) => break available,
                    Err(changed) => word = changed,
                }
            };
            let missing = requested - available;
            let demand = Demand { requested, missing, task: context::current_id(), site };
            let waker = unneeded.take().expect("not used yet");
            let (is_first, state) = (list.is_empty(), **list);
            list.push_linked(waiter, demand, waker, (kind, site), |record| {
                // PERMIT-6.
                if is_first {
                    self.publish_locked(&state, record);
                }
                self.record_request(requested, record);
            });
            if available > 0 {
                record_partial_waiter(list);
            }
            EnqueueOutcome::Waiting
        });
        match queued {
            EnqueueOutcome::Acquired(_) if requested == 0 => {
                AcquireOutcome::Acquired(OwnerIndex::NONE)
            }
            EnqueueOutcome::Acquired(has_first) => {
                AcquireOutcome::Acquired(self.record_owner(has_first, Owner::current(site)))
            }
            EnqueueOutcome::Waiting => AcquireOutcome::NoPermits,
            EnqueueOutcome::Closed => AcquireOutcome::Closed,
        }
    }

    /// Accepts the permits that a waiter was granted, for the current task.
    #[inline]
    pub(in crate::sync) fn accept_grant(
        &self,
        waiter: Pin<&Waiter<Demand>>,
        site: &'static Location<'static>,
    ) -> OwnerIndex {
        waiter.reset();
        let owner = OwnerIndex::from_payload(waiter.take_payload());
        let names = self.resource_record().map(|record| &record.owner_table);
        if !PermitOwners::accept_grant(owner, context::current_id(), site, names) {
            // The polling task did not enqueue the waiter.
            self.waiters.with(|_| {
                PermitOwners::accept_grant_as(owner, Owner::current(site), names);
            });
        }
        owner
    }

    /// Removes a waiter. Permits that it was granted go to the next waiters.
    #[inline(never)]
    pub(in crate::sync) fn cancel(&self, waiter: Pin<&Waiter<Demand>>, requested: usize) {
        // An idle waiter is in no list, and was granted nothing.
        if !waiter.is_idle() {
            self.leave(waiter, requested);
        }
    }

    /// The slow path of [`cancel`](Self::cancel): the waiter is queued or was granted its permits.
    #[cold]
    #[inline(never)]
    fn leave(&self, waiter: Pin<&Waiter<Demand>>, requested: usize) {
        let mut in_hand = 0;
        // Dropped after the list's lock is released.
        let mut _unneeded = None;
        if waiter.state() == WaiterState::Waiting {
            self.with_wake_batches(|list, batch| {
                if let Some(demand) = list.request_of(waiter) {
                    in_hand = demand.requested - demand.missing;
                    forget_request(demand.task, list.record);
                    _unneeded = Some(list.remove(waiter));
                }
                self.grant_waiters(list, &mut in_hand, batch);
                in_hand == 0
            });
        }
        if waiter.state() == WaiterState::Granted(Grant::One) {
            self.release_grant(waiter, requested);
        }
    }

    /// Releases the permits that a waiter was granted and did not accept.
    pub(in crate::sync) fn release_grant(&self, waiter: Pin<&Waiter<Demand>>, requested: usize) {
        waiter.reset();
        self.release(requested, OwnerIndex::from_payload(waiter.take_payload()));
    }

    #[track_caller]
    pub(super) fn release_to_waiters(&self, permits: usize, mut owner: OwnerIndex) {
        if permits > MAX {
            panic_too_many(permits);
        }
        let mut rest = permits;
        self.with_wake_batches(|list, batch| {
            self.clear(list, std::mem::replace(&mut owner, OwnerIndex::NONE));
            self.grant_waiters(list, &mut rest, batch);
            rest == 0
        });
    }

    /// Grants the permits in `in_hand` to the first waiters and adds the rest to the word.
    ///
    /// Permits are left in `in_hand` only if `batch` is full.
    fn grant_waiters(&self, list: &mut List<'_>, in_hand: &mut usize, batch: &mut WakeBatch) {
        while *in_hand > 0
            && let Some(front) = list.front()
        {
            if *in_hand < front.missing {
                front.missing -= *in_hand;
                *in_hand = 0;
                return;
            }
            if batch.is_full() {
                return;
            }
            *in_hand -= front.missing;
            front.missing = 0;
            let held = Owner { task: front.task, site: Some(front.site), granted_unpolled: true };
            let wake =
                list.pop_front_with(Grant::One, |list| self.record_grant(list, held).to_payload());
            batch.push(wake.expect("the list is not empty"));
        }
        if list.is_empty() {
            self.finish_empty_list(std::mem::take(in_hand));
        }
    }

    /// Clears WAITERS if it is set, and adds permits. The list is empty (PERMIT-3).
    fn finish_empty_list(&self, permits: usize) {
        let mut word = self.word.load(Relaxed);
        loop {
            let free = MAX - (word >> SHIFT);
            let new = (word & !WAITERS) + (permits.min(free) << SHIFT);
            match self.word.compare_exchange_weak(word, new, Release, Relaxed) {
                Ok(_) if permits > free => panic_too_many(permits),
                Ok(_) => return,
                Err(changed) => word = changed,
            }
        }
    }

    /// Closes the semaphore: waiting and later requests fail.
    pub(in crate::sync) fn close(&self) {
        let mut returned = 0;
        self.with_wake_batches(|list, batch| {
            self.word.fetch_or(CLOSED, AcqRel);
            while let Some(front) = list.front() {
                if batch.is_full() {
                    return false;
                }
                returned += front.requested - front.missing;
                batch.push(list.pop_front(Grant::Closed).expect("the list is not empty"));
            }
            self.finish_empty_list(returned);
            true
        });
    }

    /// Runs `round` under the list's lock and wakes the waiters it granted, until it returns true.
    ///
    /// A panic of a waker is resumed after the last round.
    fn with_wake_batches(&self, mut round: impl FnMut(&mut List<'_>, &mut WakeBatch) -> bool) {
        let mut panics = PanicSink::default();
        let mut done = false;
        while !done {
            let mut batch = WakeBatch::new();
            done = self.waiters.with(|list| {
                let done = round(list, &mut batch);
                self.flush(list);
                done
            });
            panics.catch(|| batch.wake());
        }
        panics.resume();
    }
}

/// PERMIT-8: records the first waiter as the partial waiter, if it has a part of its permits.
#[cold]
pub(super) fn record_partial_waiter(list: &mut List<'_>) {
    let partial = list.front().filter(|front| front.missing < front.requested);
    let owner = partial.map(|front| Owner {
        task: front.task,
        site: Some(front.site),
        granted_unpolled: false,
    });
    list.has_partial_waiter = owner.is_some();
    if let Some(record) = list.record.get() {
        record.set_partial_waiter(owner);
    }
}

/// The result of `enqueue` under the list's lock.
enum EnqueueOutcome {
    Waiting,
    /// All permits were available; the flag says whether FIRST was set with them.
    Acquired(bool),
    Closed,
}
