//! A cell for the waker of one task at a time, such as the receiver of a channel.
//!
//! Actors: the *waiter* registers its waker. It has exclusive access to its end of the primitive,
//! so there is one waiter at a time. *Notifiers* take the waker to wake it.
//!
//! ```text
//! diagram
//!           register()                        take()
//!   EMPTY ─────────────► REGISTERING   FULL ─────────► TAKING ──► EMPTY
//!                         │   │  ▲      │
//!                         │   │  └──────┘ register(), deregister()
//!                         │   └─► FULL: the waker is stored
//!                         └─► NOTIFIED: take() came meanwhile, back to EMPTY
//! ```
//!
//! # Rules
//!
//! - WAKER-1. The thread that moves `state` to REGISTERING or TAKING may access the waker until it
//!   moves `state` on. The waiter moves to REGISTERING from EMPTY or FULL, a notifier to TAKING
//!   from FULL.
//! - WAKER-2. A notifier that finds REGISTERING stores NOTIFIED. The waiter's next exchange then
//!   fails, and the waiter checks again instead of waiting. A notifier that finds TAKING waits for
//!   the other notifier, which needs only a few instructions.
//!
//! The race to fear: the waiter finds no value and registers, while a notifier stores a value and
//! finds no waker. The waiter registers and then checks again; the notifier stores and then takes.
//! The operations on `state` are SeqCst. If the primitive's operations are too, or are ordered by
//! its own protocol, at least one side sees the other.

use super::wake_batch::PendingWake;
use crate::sys::IS_MODEL;
use crate::sys::sync::atomic::{AtomicU32, Ordering, Ordering::*};
use crate::sys::sync::{UnsafeCell, const_unless_model, thread};
use std::task::Waker;

/// There is no waker.
const EMPTY: u32 = 0;
/// The waiter accesses the waker (WAKER-1).
const REGISTERING: u32 = 1;
/// A waker is stored.
const FULL: u32 = 2;
/// The waiter accesses the waker, and a notifier came meanwhile (WAKER-2).
const NOTIFIED: u32 = 3;
/// A notifier accesses the waker (WAKER-1).
const TAKING: u32 = 4;

/// The ordering of the store of EMPTY by a notifier that has taken the waker.
///
/// Release is enough. EMPTY says only that the cell is free, and the next waiter exchanges it. A
/// SeqCst load after that exchange no longer sees EMPTY. loom does not model the last rule.
const EMPTIED: Ordering = if IS_MODEL { SeqCst } else { Release };

/// The result of a registration.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Registered {
    /// The next notifier wakes the waiter.
    Waiting,
    /// A notifier came during the registration. The waiter must check again instead of waiting.
    Notified,
}

/// An atomic cell for one waker.
///
/// `state` comes last, next to the fields of the primitive, because without a waker only `state` is
/// read.
#[repr(C)]
pub(crate) struct AtomicWaker {
    /// Guarded by WAKER-1.
    waker: UnsafeCell<Option<Waker>>,
    state: AtomicU32,
}

// SAFETY: WAKER-1 gives one thread at a time access to the waker. Wakers are Send and Sync.
unsafe impl Send for AtomicWaker {}
// SAFETY: the reason for `Send` covers `Sync`.
unsafe impl Sync for AtomicWaker {}

/// A guard that resets REGISTERING if the clone or the drop of a foreign waker panics.
struct ResetOnPanic<'a>(&'a AtomicWaker);

impl Drop for ResetOnPanic<'_> {
    fn drop(&mut self) {
        self.0.reset();
    }
}

impl AtomicWaker {
    const_unless_model! {
        pub(crate) fn new() -> Self {
            Self { state: AtomicU32::new(EMPTY), waker: UnsafeCell::new(None) }
        }
    }

    /// Stores a clone of `waker`, to be woken by the next notifier.
    ///
    /// Only one thread at a time may register; a second one gets `Notified`.
    pub(crate) fn register(&self, waker: &Waker) -> Registered {
        let before = self.state.load(Relaxed);
        if before != EMPTY && before != FULL {
            return Registered::Notified;
        }
        if self.state.compare_exchange(before, REGISTERING, SeqCst, SeqCst).is_err() {
            // The state was FULL until now: a notifier has just taken the waker.
            return Registered::Notified;
        }
        // SAFETY: WAKER-1.
        let same = self
            .waker
            .with(|slot| unsafe { (*slot).as_ref().is_some_and(|own| own.will_wake(waker)) });
        if !same {
            // The clone is foreign code, but not under a lock: notifiers do not wait for it
            // (WAKER-2).
            let reset = ResetOnPanic(self);
            let new = Some(waker.clone());
            // SAFETY: WAKER-1.
            drop(self.waker.with_mut(|slot| unsafe { std::mem::replace(&mut *slot, new) }));
            std::mem::forget(reset);
        }
        match self.state.compare_exchange(REGISTERING, FULL, SeqCst, SeqCst) {
            Ok(_) => Registered::Waiting,
            Err(_) => {
                // WAKER-2: a notifier came during the registration.
                self.reset();
                Registered::Notified
            }
        }
    }

    /// Drops the stored waker, because the waiter no longer waits.
    pub(crate) fn deregister(&self) {
        if self.state.compare_exchange(FULL, REGISTERING, SeqCst, Relaxed).is_ok() {
            self.reset();
        }
    }

    /// Drops the waker and moves to EMPTY. The caller must have moved `state` to REGISTERING.
    fn reset(&self) {
        // SAFETY: WAKER-1.
        let waker = self.waker.with_mut(|slot| unsafe { (*slot).take() });
        // A notifier may have stored NOTIFIED. The swap acquires the notifier's earlier writes.
        self.state.swap(EMPTY, SeqCst);
        drop(waker);
    }

    /// Takes the waker, to be woken after any lock is released.
    #[inline]
    pub(crate) fn take(&self) -> PendingWake {
        loop {
            match self.state.load(SeqCst) {
                EMPTY | NOTIFIED => return PendingWake::NONE,
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
                    // WAKER-2: the waiter finds NOTIFIED.
                    if self.state.compare_exchange(REGISTERING, NOTIFIED, SeqCst, SeqCst).is_ok() {
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
    fn a_panic_in_clone_leaves_the_cell_usable() {
        const VTABLE: RawWakerVTable =
            RawWakerVTable::new(|_| panic!("cloned"), |_| {}, |_| {}, |_| {});
        // SAFETY: the functions of the vtable do not use the data pointer.
        let bad = unsafe { Waker::from_raw(RawWaker::new(std::ptr::null(), &VTABLE)) };
        let cell = AtomicWaker::new();
        for _ in 0..2 {
            let registers = || _ = cell.register(&bad);
            assert!(catch_unwind(AssertUnwindSafe(registers)).is_err());
            assert_eq!(cell.register(Waker::noop()), Registered::Waiting);
        }
    }
}
