//! A counting semaphore with a FIFO wait list: the base of `Semaphore` and `RwLock`.
//!
//! One word holds the number of available permits and three flags. WAITERS: a task waits. CLOSED: the
//! semaphore is closed. FIRST: the first owner slot is occupied (see `permit_owners`). While no task
//! waits, acquiring and releasing are each one compare-exchange of that word.
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
//! - PERMIT-1. While WAITERS is set, only the holder of the list's lock changes the word. So no task can
//!   overtake a waiter, and a task that releases permits grants them to waiters.
//! - PERMIT-2. While WAITERS is set, the word has no permits. All permits went to the first waiter,
//!   which may have only a part of its request. The waiters behind it get none, even if they requested
//!   few.
//! - PERMIT-3. Under the list's lock, WAITERS is set if and only if the list is not empty. The list
//!   changes in the same critical section.
//!
//! The race to fear: a task finds too few permits and enqueues itself, while the last permit is released
//! to the word. The task does not read the word again. It cannot happen: the compare-exchange that sets
//! WAITERS takes all permits of the word. A permit released before is among them; a later release finds
//! WAITERS set.
//!
//! Orderings: a release of permits is a Release of the word, and acquiring them an Acquire. While no
//! task waits, the word changes only by read-modify-write operations. So a task that acquires permits
//! sees everything that their previous owners did. Permits that go through the list are ordered by its
//! lock and by the grant.

mod diagnostics;
mod waiters;

use super::permit_owners::{ListState, OwnerIndex, PermitOwners};
use crate::sys::sync::atomic::{AtomicUsize, Ordering::*};
use crate::sys::sync::const_unless_model;
use crate::wait::list::{Locked, Waiters};
use crate::wait::ownership::owner::Owner;
use std::panic::Location;

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

/// Permits, and the tasks that wait for them.
pub(super) struct RawSemaphore {
    word: AtomicUsize,
    waiters: Waiters<ListState, Demand>,
    /// The tasks that hold permits. For diagnostics.
    owners: PermitOwners,
    /// The initial permits and all permits added since. Only for diagnostics, not part of the protocol,
    /// so models use std's atomic, too.
    total_permits: std::sync::atomic::AtomicU64,
}

type List<'a> = Locked<'a, ListState, Demand>;

/// The request of a waiter.
pub(super) struct Demand {
    requested: usize,
    /// The number of permits still missing; more than 0 while the waiter waits. Less than `requested`
    /// only for the first waiter (PERMIT-2).
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
        /// Creates a semaphore with `permits` permits, at most [`MAX`].
        pub(super) fn new(permits: usize) -> Self {
            Self {
                word: AtomicUsize::new(permits << SHIFT),
                waiters: Waiters::new(ListState::NEW),
                owners: PermitOwners::new(),
                total_permits: std::sync::atomic::AtomicU64::new(permits as u64),
            }
        }
    }

    /// Returns the number of permits that can be acquired now.
    pub(super) fn available(&self) -> usize {
        self.word.load(Acquire) >> SHIFT
    }

    pub(super) fn is_closed(&self) -> bool {
        self.word.load(Acquire) & CLOSED != 0
    }

    /// Acquires permits if they are available. Never overtakes a waiter (PERMIT-2), except for a request
    /// of 0 permits.
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

    /// The fast path: acquires permits together with the first owner slot.
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

    /// The slow path: acquires permits if they are available, with any owner slot.
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

    /// Permanently removes up to `most` available permits, and returns how many were removed.
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
        self.total_permits.fetch_add(permits as u64, Relaxed);
        self.release(permits, OwnerIndex::NONE);
        // A request queued before the release has written its note, ordered by the list's lock. A later
        // one has seen the new number, ordered by the word.
        if self.resource_record().is_some_and(|record| record.stall.is_set()) {
            self.update_recorded_request();
        }
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
}

/// Returns the word after taking `requested` permits, and whether that sets FIRST.
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

/// Checks that a semaphore can hold `permits` permits.
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

    /// An owner holds the first slot but has not yet written its name when a task enqueues itself.
    /// Neither of them acts after that.
    #[test]
    fn scan_sees_owner_recorded_late() {
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
