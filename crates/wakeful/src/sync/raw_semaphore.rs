//! A counting semaphore with a FIFO wait list: the base of `Semaphore` and `RwLock`.
//!
//! One word has the number of available permits and three flags. WAITERS: a task waits. CLOSED: the
//! semaphore is closed. FIRST: the first owner slot is occupied (see `permit_owners`). While no
//! task waits, acquiring and releasing is one compare-exchange of that word.
//!
//! ```text
//! diagram
//!                 enqueue: takes all permits
//!   0..=MAX ──────────────────────────────────────► WAITERS, 0 permits
//!    │   ▲ ▲                                           │         │
//!    └───┘ └── grant_waiters, close: no waiter left ───┘ ◄───────┘ grant_waiters:
//!  try_acquire, release                                   a waiter is left
//! ```
//!
//! Rules:
//! - PERMIT-1. While WAITERS is set, only the holder of the list's lock changes the word. So no
//!   task can overtake a waiter, and a task that releases permits gives them to the list.
//! - PERMIT-2. While WAITERS is set, the word has no permits. All permits went to the first waiter,
//!   which may have a part of what it requested. The waiters behind it have none, even if the few
//!   they requested are there.
//! - PERMIT-3. Under the list's lock, WAITERS is set exactly if the list is not empty. The list
//!   changes in the same critical section.
//!
//! The race to fear: a task finds too few permits and enqueues itself, while the last permit is
//! released to the word, which is not read again. It cannot happen: the compare-exchange that sets
//! WAITERS takes all permits of the word. A permit that was released before is among them; a later
//! release finds WAITERS set.
//!
//! Orderings: a release of permits is a Release of the word, and acquiring them an Acquire. While
//! no task waits, the word changes only by read-modify-write operations, so a task that acquires
//! permits sees everything that was done under each of them. Permits that go through the list are
//! ordered by its lock and by the grant.

use super::permit_owners::{ListState, OwnerIndex, PermitOwners};
use crate::sys::sync::atomic::{AtomicUsize, Ordering::*};
use crate::sys::sync::const_unless_model;
use crate::task::context;
use crate::task::wait_target::TargetWord;
use crate::wait::list::{Grant, Locked, Waiter, WaiterState, Waiters};
use crate::wait::ownership::owner::Owner;
use crate::wait::ownership::resource_record::{RecordCell, ResourceRecord, WaitReason};
use crate::wait::ownership::stall_note::Stall;
use crate::wait::wake_batch::{PanicSink, WakeBatch};
use std::panic::Location;
use std::pin::Pin;
use std::task::Waker;

/// The semaphore is closed: no more permits are handed out.
const CLOSED: usize = 1;
/// A task waits (PERMIT-1 to PERMIT-3).
const WAITERS: usize = 2;
/// The first owner slot is occupied (PERMIT-4).
const FIRST: usize = 4;
/// The number of permits is above the flags.
const SHIFT: u32 = 3;

/// The largest number of permits.
pub(super) const MAX: usize = usize::MAX >> 3;
const _: () = assert!(MAX << SHIFT >> SHIFT == MAX, "MAX fits above the flags");

/// Permits, and the tasks that wait for some.
pub(super) struct RawSemaphore {
    word: AtomicUsize,
    waiters: Waiters<ListState, Demand>,
    /// The tasks that hold permits. For diagnostics.
    owners: PermitOwners,
    /// The permits at the beginning and all that were added since. For diagnostics, and not part of the
    /// protocol, so it is std's atomic in models too.
    ever: std::sync::atomic::AtomicU64,
}

type List<'a> = Locked<'a, ListState, Demand>;

/// What a waiter has requested.
pub(super) struct Demand {
    requested: usize,
    /// How many permits it still needs; more than 0 while it waits. Only for the first waiter it is
    /// less than `requested` (PERMIT-2).
    missing: usize,
    /// The task that becomes an owner when the waiter is granted its permits, and its acquire site.
    task: u64,
    site: &'static Location<'static>,
}

/// The result of an attempt to acquire permits.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AcquireOutcome {
    /// The caller holds the permits, and is recorded as an owner at this index.
    Acquired(OwnerIndex),
    /// Too few permits are available.
    NoPermits,
    /// The semaphore is closed.
    Closed,
}

/// The semaphore is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Closed;

impl RawSemaphore {
    const_unless_model! {
        /// Creates a semaphore with this number of permits, at most [`MAX`].
        pub(super) fn new(permits: usize) -> Self {
            Self {
                word: AtomicUsize::new(permits << SHIFT),
                waiters: Waiters::new(ListState::NEW),
                owners: PermitOwners::new(),
                ever: std::sync::atomic::AtomicU64::new(permits as u64),
            }
        }
    }

    /// Records the owner of permits that were available. `has_first`: it has set FIRST.
    fn record_owner(&self, has_first: bool, held: Owner) -> OwnerIndex {
        if has_first {
            self.owners.record_first(held);
            return OwnerIndex::FIRST;
        }
        let owner = self.owners.record_after_first(held);
        self.publish_if_waiters();
        owner
    }

    /// PERMIT-5: publishes the owners if a task waits, after an owner other than the first changed.
    fn publish_if_waiters(&self) {
        if self.word.load(SeqCst) & WAITERS != 0 {
            self.publish_owners();
        }
    }

    /// Records the current task as the owner of permits that were split off.
    pub(super) fn record_split(&self, site: &'static Location<'static>) -> OwnerIndex {
        self.record_owner(false, Owner::current(site))
    }

    /// Records that permits may move to any task or thread, because their guard borrows nothing.
    #[inline]
    pub(super) fn mark_movable(&self) {
        self.waiters.record.mark_movable();
    }

    /// Returns the resource record, if a task has ever waited.
    #[inline]
    pub(super) fn resource_record(&self) -> Option<&'static ResourceRecord> {
        self.waiters.record.get()
    }

    /// Returns the target that waiting tasks record. A waiter that is polled again calls it.
    pub(super) fn target(&self) -> TargetWord {
        let Some(record) = self.resource_record() else { return TargetWord::of_address(self) };
        if record.owner_table.has_unnamed() {
            self.publish_owners(); // PERMIT-6
        }
        record.target()
    }

    /// Describes the queue to a task that waits for ever for `requested` permits.
    pub(super) fn describe_to_waiter(&self, requested: usize) -> String {
        let own = context::current_id();
        let ahead = self.waiters.with(|list| {
            let front = list.front()?;
            Some((front.task == own, front.requested, front.missing, front.site))
        });
        match ahead {
            Some((true, requested, missing, _)) => {
                format!("wants {requested} permits, of which {} are free", requested - missing)
            }
            Some((false, ahead, _, site)) => {
                format!("wants {requested} permits, behind a request for {ahead} at {site}")
            }
            None => format!("wants {requested} permits"),
        }
    }

    /// Stores the waker of a waiter that is polled again.
    pub(super) fn update_waker(&self, waiter: Pin<&Waiter<Demand>>, waker: &Waker) -> WaiterState {
        self.waiters.update_waker_with(waiter, waker, |demand| demand.task = context::current_id())
    }

    /// Copies the owners to the resource record, where the deadlock scanner reads them.
    #[cold]
    fn publish_owners(&self) {
        self.waiters.with(|list| {
            if let Some(record) = list.record.get() {
                self.publish_locked(list, record);
            }
        });
    }

    /// Copies the owners to the resource record (PERMIT-6). The caller holds the list's lock.
    fn publish_locked(&self, state: &ListState, record: &ResourceRecord) {
        let has_first = self.word.load(SeqCst) & FIRST != 0;
        self.owners.publish(has_first, state, &record.owner_table);
    }

    /// Returns the number of permits that can be acquired now.
    pub(super) fn available(&self) -> usize {
        self.word.load(Acquire) >> SHIFT
    }

    pub(super) fn is_closed(&self) -> bool {
        self.word.load(Acquire) & CLOSED != 0
    }

    /// Acquires permits if they are available. It never overtakes a waiter (PERMIT-2), unless it
    /// requests 0 permits.
    #[inline]
    pub(super) fn try_acquire(
        &self,
        requested: usize,
        site: &'static Location<'static>,
    ) -> AcquireOutcome {
        if self.try_acquire_first(requested, site) {
            return AcquireOutcome::Acquired(OwnerIndex::FIRST);
        }
        self.try_acquire_slow(requested, site)
    }

    /// Acquires permits together with the first owner slot. This is the fast path.
    #[inline(always)]
    pub(super) fn try_acquire_first(
        &self,
        requested: usize,
        site: &'static Location<'static>,
    ) -> bool {
        let word = self.word.load(Relaxed);
        // A request for 0 permits has no owner to record.
        if word & (CLOSED | WAITERS | FIRST) != 0 || word >> SHIFT < requested || requested == 0 {
            return false;
        }
        let new = (word - (requested << SHIFT)) | FIRST;
        if self.word.compare_exchange(word, new, Acquire, Relaxed).is_err() {
            return false;
        }
        self.owners.record_first(Owner::current(site));
        true
    }

    /// Acquires permits if they are available, in any owner slot.
    #[inline(never)]
    pub(super) fn try_acquire_slow(
        &self,
        requested: usize,
        site: &'static Location<'static>,
    ) -> AcquireOutcome {
        let mut word = self.word.load(Acquire);
        loop {
            if word & CLOSED != 0 {
                return AcquireOutcome::Closed;
            }
            if word >> SHIFT < requested {
                return AcquireOutcome::NoPermits;
            }
            let (new, has_first) = word_after_acquire(word, requested);
            match self.word.compare_exchange_weak(word, new, Acquire, Acquire) {
                Ok(_) if requested == 0 => return AcquireOutcome::Acquired(OwnerIndex::NONE),
                Ok(_) => {
                    return AcquireOutcome::Acquired(
                        self.record_owner(has_first, Owner::current(site)),
                    );
                }
                Err(changed) => word = changed,
            }
        }
    }

    /// Removes up to `most` available permits for good, and returns how many.
    pub(super) fn remove_up_to(&self, most: usize) -> usize {
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

    /// Adds new permits. Waiters get them first.
    ///
    /// # Panics
    ///
    /// Panics if there would be more than [`MAX`].
    #[track_caller]
    pub(super) fn add(&self, permits: usize) {
        self.ever.fetch_add(permits as u64, Relaxed);
        self.release(permits, OwnerIndex::NONE);
        // A request that was queued before the release has its note, by the list's lock. A later one has
        // seen the new number, by the word.
        if self.resource_record().is_some_and(|record| record.stall.is_set()) {
            self.update_request_note();
        }
    }

    /// Corrects the note about a request after permits were added.
    #[cold]
    fn update_request_note(&self) {
        self.waiters.with(|list| {
            let Some(record) = list.record.get() else { return };
            let (noted, ever) = (record.stall.get(), self.ever.load(Relaxed));
            match noted {
                Some(noted) if noted.count > ever => record.stall.set(Stall { of: ever, ..noted }),
                _ => record.stall.clear(),
            }
        });
    }

    /// Releases the permits of `owner`, or adds new permits. Waiters get them first.
    ///
    /// # Panics
    ///
    /// Panics if there would be more than [`MAX`].
    #[inline(always)]
    #[track_caller]
    pub(super) fn release(&self, permits: usize, owner: OwnerIndex) {
        if owner == OwnerIndex::FIRST {
            self.owners.clear_first();
            let word = self.word.load(Relaxed);
            if word & WAITERS == 0 && permits <= MAX - (word >> SHIFT) {
                // FIRST is set, and the subtraction clears it.
                let new = word - FIRST + (permits << SHIFT);
                if self.word.compare_exchange(word, new, Release, Relaxed).is_ok() {
                    return;
                }
            }
        }
        self.release_slow(permits, owner);
    }

    #[inline(never)]
    #[track_caller]
    fn release_slow(&self, permits: usize, owner: OwnerIndex) {
        let first = if owner == OwnerIndex::FIRST { FIRST } else { 0 };
        let mut word = self.word.load(Relaxed);
        // PERMIT-1: while a task waits, only the holder of the list's lock changes the word.
        while word & WAITERS == 0 {
            if permits > MAX - (word >> SHIFT) {
                self.forget_owner(owner);
                panic_too_many(permits);
            }
            let new = (word & !first) + (permits << SHIFT);
            match self.word.compare_exchange_weak(word, new, Release, Relaxed) {
                Ok(_) if owner.is_after_first() => return self.clear_after_first(owner),
                Ok(_) => return,
                Err(changed) => word = changed,
            }
        }
        self.release_to_waiters(permits, owner);
    }

    fn clear_after_first(&self, owner: OwnerIndex) {
        self.owners.clear_after_first(owner);
        self.publish_if_waiters();
    }

    #[track_caller]
    fn release_to_waiters(&self, permits: usize, mut owner: OwnerIndex) {
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

    /// Clears an owner that has released its permits, or releases them in this critical section.
    #[inline]
    fn clear(&self, list: &mut List<'_>, owner: OwnerIndex) {
        if owner == OwnerIndex::FIRST {
            self.owners.clear_first();
            if list.is_empty() {
                self.word.fetch_and(!FIRST, Release);
            } else {
                // PERMIT-1, PERMIT-3.
                self.word.store(self.word.load(Relaxed) & !FIRST, Relaxed);
            }
        }
        let names = list.record.get().map(|record| &record.owner_table);
        self.owners.clear(owner, list, names);
    }

    /// Publishes changed counts and the partial waiter. Called before the list's lock is released.
    #[inline]
    fn flush(&self, list: &mut List<'_>) {
        let names = list.record.get().map(|record| &record.owner_table);
        self.owners.flush(list, names);
        let is_partial = list.front().is_some_and(|front| front.missing < front.requested);
        if is_partial || list.has_partial_waiter {
            record_partial_waiter(list);
        }
    }

    /// Clears an owner that has no permits to release.
    #[cold]
    pub(super) fn forget_owner(&self, owner: OwnerIndex) {
        self.waiters.with(|list| {
            self.clear(list, owner);
            self.flush(list);
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

    /// Grants the permits in `in_hand` to the first waiters, and adds the rest to the word.
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

    /// Records the first waiter as an owner.
    #[inline]
    fn record_grant(&self, list: &mut List<'_>, held: Owner) -> OwnerIndex {
        let word = self.word.load(Relaxed);
        let has_first = word & FIRST == 0;
        if has_first {
            // PERMIT-1: a task waits.
            self.word.store(word | FIRST, Relaxed);
        }
        let names = list.record.get().map(|record| &record.owner_table);
        self.owners.record_grant(has_first, held, list, names)
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
    pub(super) fn close(&self) {
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

    /// Takes the available permits and waits for the rest, unless all are available.
    pub(super) fn enqueue(
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
                self.note_request(requested, record);
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

    /// Notes a request for more permits than there ever were, or that the current task makes another
    /// one. The caller holds the list's lock.
    #[inline]
    fn note_request(&self, requested: usize, record: &ResourceRecord) {
        let (requested, ever) = (requested as u64, self.ever.load(Relaxed));
        let noted = record.stall.get();
        // A semaphore without permits is a gate: the permits are what is waited for.
        if noted.is_none() && (requested <= ever || ever == 0) {
            return;
        }
        let task = context::current_id();
        // The first such request stays, because the queue is stuck behind it.
        let is_replaced = noted.is_none_or(|noted| noted.task == task || noted.count <= ever);
        match requested > ever {
            _ if !is_replaced => {}
            true => record.stall.set(Stall { task, count: requested, of: ever, made_at: None }),
            false => record.stall.clear(),
        }
    }

    /// Removes a waiter. Permits that it was granted go to the next waiters.
    #[inline(never)]
    pub(super) fn cancel(&self, waiter: Pin<&Waiter<Demand>>, requested: usize) {
        // An idle waiter is in no list, and was granted nothing.
        if !waiter.is_idle() {
            self.leave(waiter, requested);
        }
    }

    /// [`cancel`](Self::cancel) of a waiter that waits or was granted its permits.
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
    pub(super) fn release_grant(&self, waiter: Pin<&Waiter<Demand>>, requested: usize) {
        waiter.reset();
        self.release(requested, OwnerIndex::from_payload(waiter.take_payload()));
    }

    /// Accepts the permits that a waiter was granted, for the current task.
    #[inline]
    pub(super) fn accept_grant(
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
}

/// Removes the note about a request of this task, whose waiter leaves. The caller holds the list's lock.
fn forget_request(task: u64, record: &RecordCell) {
    if let Some(record) = record.get()
        && record.stall.get().is_some_and(|noted| noted.task == task)
    {
        record.stall.clear();
    }
}

/// PERMIT-8: records the first waiter as the partial waiter, if it has a part of its permits.
#[cold]
fn record_partial_waiter(list: &mut List<'_>) {
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

/// Returns the word after `requested` permits are taken, and whether that sets FIRST.
///
/// While a task waits, FIRST does not change (PERMIT-1); only a request for 0 permits gets here
/// then.
#[inline]
fn word_after_acquire(word: usize, requested: usize) -> (usize, bool) {
    let has_first = word & (FIRST | WAITERS) == 0 && requested > 0;
    ((word - (requested << SHIFT)) | if has_first { FIRST } else { 0 }, has_first)
}

#[cold]
#[track_caller]
fn panic_too_many(permits: usize) -> ! {
    panic!("number of added permits ({permits}) would overflow MAX_PERMITS ({MAX})")
}

/// Checks that a semaphore can have this number of permits.
///
/// # Panics
///
/// Panics if `permits` is more than [`MAX`].
#[inline]
#[track_caller]
pub(super) fn check_permits(permits: usize) {
    assert!(
        permits <= MAX,
        "a semaphore may not have more than MAX_PERMITS permits ({MAX}), \
         but {permits} were requested"
    );
}
#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::inspect::Report;
    use crate::runtime::{Builder, Handle};
    use crate::sync::acquire::PermitRequest;
    use crate::task::wait_kind::WaitKind;
    use crate::task::{spawn, yield_now};
    use std::future::poll_fn;
    use std::pin::pin;
    use std::sync::Arc;

    /// An owner has the first slot and has not written its name when a task enqueues itself, and
    /// neither of the two does anything after that.
    #[test]
    fn the_scan_learns_of_an_owner_that_wrote_its_name_late() {
        let runtime = Builder::new_current_thread().on_report(|_| {}).build().unwrap();
        runtime.block_on(async {
            let permits = Arc::new(RawSemaphore::new(1));
            permits.word.store(FIRST, SeqCst);
            let waiter = spawn({
                let permits = permits.clone();
                async move {
                    let mut acquiring = pin!(PermitRequest::new(1, Location::caller()));
                    let poll = |cx: &mut std::task::Context<'_>| {
                        acquiring.as_mut().poll(&permits, WaitKind::Semaphore, cx)
                    };
                    let owner = poll_fn(poll).await.unwrap();
                    permits.release(1, owner);
                }
            });
            yield_now().await;
            let record = permits.resource_record().expect("a task waits");
            assert!(record.known_owners().is_none() && record.owner_table.has_unnamed());
            // The waiter holds the only permit itself.
            let task = waiter.id().as_u64();
            let held = Owner { task, site: Some(Location::caller()), granted_unpolled: false };
            permits.owners.record_first(held);
            let diagnose = || Handle::current().diagnose();
            assert!(diagnose().is_empty(), "the name is not in the record");
            yield_now().await;
            let reports = diagnose();
            assert!(matches!(reports[..], [Report::Deadlock(_)]), "{reports:?}");
            permits.release(1, OwnerIndex::FIRST);
            waiter.await.unwrap();
        });
    }
}
