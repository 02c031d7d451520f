//! A place for the waker of one task at a time: of whoever receives from a
//! channel, say.
//!
//! Actors: the *waiter* is the one who may wait (it has exclusive access to the
//! primitive's end that waits, so there is one at a time); *callers* wake it.
//!
//! ```text
//! diagram
//!             register                    call
//!   EMPTY ◄──────────────► BUSY       FULL ──► TAKING ──► EMPTY
//!     │                      ▲ │
//!     └──────────────────────┘ └─► FULL (the waker is in), or CALLED meanwhile
//! ```
//!
//! Rules:
//! - WAKER-1. Whoever moves `state` to BUSY or TAKING may touch the slot until it moves
//!   it on: the waiter to BUSY from EMPTY or FULL (`register`, `forget`), a caller
//!   to TAKING from FULL (`call`).
//! - WAKER-2. A caller that finds the waiter BUSY leaves CALLED; the waiter then finds
//!   its change of state refused, and wakes itself. One that finds another caller
//!   TAKING waits for the moment that this takes.
//!
//! The race one fears: the waiter sees nothing to take and registers, while the
//! giver puts something there and finds nobody registered. Both do two steps,
//! the waiter "register, then look again", the giver "put, then call"; the steps
//! on `state` are SeqCst, and so must the primitive's own be, or be ordered by
//! its own protocol: then at least one sees the other.

use super::wake_batch::PendingWake;
use crate::sys::IS_MODEL;
use crate::sys::sync::atomic::{AtomicU32, Ordering, Ordering::*};
use crate::sys::sync::{UnsafeCell, const_unless_model, thread};
use std::task::Waker;

/// Nobody waits.
const EMPTY: u32 = 0;
/// The waiter is at the slot (WAKER-1).
const BUSY: u32 = 1;
/// A waker is in the slot.
const FULL: u32 = 2;
/// The waiter is at the slot, and was called meanwhile (WAKER-2).
const CALLED: u32 = 3;
/// A caller is at the slot (WAKER-1).
const TAKING: u32 = 4;

/// How a caller that has taken the waker says so. A plain store is enough: nobody learns
/// more from EMPTY than that the slot is free, who waits next exchanges it, and a SeqCst
/// load that comes after that exchange does not see EMPTY any more. The models do not
/// know the last of these rules.
const EMPTIED: Ordering = if IS_MODEL { SeqCst } else { Release };

/// What came of a registration.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Registered {
    /// The next call wakes it.
    Waiting,
    /// A call came meanwhile: look again instead of waiting.
    Notified,
}

/// The state comes last: if nobody waits, it is all that is looked at.
#[repr(C)]
pub(crate) struct AtomicWaker {
    /// Guarded by WAKER-1.
    waker: UnsafeCell<Option<Waker>>,
    state: AtomicU32,
}

// SAFETY: WAKER-1 lets one thread at a time at the slot; wakers are Send and Sync.
unsafe impl Send for AtomicWaker {}
// SAFETY: as above.
unsafe impl Sync for AtomicWaker {}

/// The state is BUSY; if a foreign clone or drop panics, it does not stay so.
struct Busy<'a>(&'a AtomicWaker);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.empty_slot();
    }
}

impl AtomicWaker {
    const_unless_model! {
        pub(crate) fn new() -> Self {
            Self { state: AtomicU32::new(EMPTY), waker: UnsafeCell::new(None) }
        }
    }

    /// The waiter waits: the next call wakes `waker`. Not by two threads at a
    /// time; a second one gets `Called`.
    pub(crate) fn register(&self, waker: &Waker) -> Registered {
        let before = self.state.load(Relaxed);
        if before != EMPTY && before != FULL {
            return Registered::Notified;
        }
        if self.state.compare_exchange(before, BUSY, SeqCst, SeqCst).is_err() {
            // From FULL: called a moment ago.
            return Registered::Notified;
        }
        // SAFETY: WAKER-1.
        let same = self
            .waker
            .with(|slot| unsafe { (*slot).as_ref().is_some_and(|own| own.will_wake(waker)) });
        if !same {
            // Foreign code, but not under a lock: a caller goes by (WAKER-2).
            let busy = Busy(self);
            let new = Some(waker.clone());
            // SAFETY: WAKER-1.
            drop(self.waker.with_mut(|slot| unsafe { std::mem::replace(&mut *slot, new) }));
            std::mem::forget(busy);
        }
        match self.state.compare_exchange(BUSY, FULL, SeqCst, SeqCst) {
            Ok(_) => Registered::Waiting,
            Err(_) => {
                // WAKER-2: called meanwhile.
                self.empty_slot();
                Registered::Notified
            }
        }
    }

    /// The waiter no longer waits.
    pub(crate) fn deregister(&self) {
        if self.state.compare_exchange(FULL, BUSY, SeqCst, Relaxed).is_ok() {
            self.empty_slot();
        }
    }

    /// By whoever moved the state to BUSY.
    fn empty_slot(&self) {
        // SAFETY: WAKER-1.
        let waker = self.waker.with_mut(|slot| unsafe { (*slot).take() });
        // A caller may have left CALLED: what it came to tell is seen after this.
        self.state.swap(EMPTY, SeqCst);
        drop(waker);
    }

    /// Whoever waits is to be woken, after any lock.
    #[inline]
    pub(crate) fn take(&self) -> PendingWake {
        loop {
            match self.state.load(SeqCst) {
                EMPTY | CALLED => return PendingWake::NONE,
                FULL => {
                    if self.state.compare_exchange(FULL, TAKING, SeqCst, SeqCst).is_ok() {
                        // SAFETY: WAKER-1.
                        let waker = self.waker.with_mut(|slot| unsafe { (*slot).take() });
                        self.state.store(EMPTY, EMPTIED);
                        return PendingWake(waker);
                    }
                }
                TAKING => thread::yield_now(),
                _ => {
                    // The waiter who is at it finds this (WAKER-2).
                    if self.state.compare_exchange(BUSY, CALLED, SeqCst, SeqCst).is_ok() {
                        return PendingWake::NONE;
                    }
                }
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{AtomicWaker, Registered};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::task::{RawWaker, RawWakerVTable, Waker};

    #[test]
    fn a_waker_whose_clone_panics_leaves_the_place_free() {
        const VTABLE: RawWakerVTable =
            RawWakerVTable::new(|_| panic!("cloned"), |_| {}, |_| {}, |_| {});
        // SAFETY: there is nothing behind it, and its functions look at nothing.
        let bad = unsafe { Waker::from_raw(RawWaker::new(std::ptr::null(), &VTABLE)) };
        let single = AtomicWaker::new();
        for _ in 0..2 {
            let registers = || _ = single.register(&bad);
            assert!(catch_unwind(AssertUnwindSafe(registers)).is_err());
            assert_eq!(single.register(Waker::noop()), Registered::Waiting);
        }
    }
}
