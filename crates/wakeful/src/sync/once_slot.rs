//! A slot that is written once and then only read: the storage of `OnceCell` and `SetOnce`.
//!
//! ```text
//! diagram
//!            fill            fill: the value is written
//!   EMPTY ─────────► FILLING ─────────────────────────────► FULL
//! ```
//!
//! Rules:
//! - ONCE-1. The thread that moves the stage from EMPTY to FILLING may write the value, once, and
//!   then moves the stage to FULL.
//! - ONCE-2. In FULL, no thread writes, and any thread may read. Only `&mut self` leads back to
//!   EMPTY.
//!
//! Orderings: the Release store of FULL pairs with the Acquire load in `is_full`: a thread that
//! sees FULL sees the value.
#![allow(unsafe_code)]

use crate::sys::sync::atomic::{AtomicU32, Ordering::*};
use crate::sys::sync::{UnsafeCell, const_unless_model};

const EMPTY: u32 = 0;
const FILLING: u32 = 1;
const FULL: u32 = 2;

/// Storage for one value that is written at most once through `&self`.
pub(super) struct OnceSlot<T> {
    stage: AtomicU32,
    value: UnsafeCell<Option<T>>,
}

// SAFETY: `&OnceSlot` moves a value in from any thread (ONCE-1), hence `Send`, and lends it
// to any thread (ONCE-2), hence `Sync`.
unsafe impl<T: Send + Sync> Sync for OnceSlot<T> {}

impl<T> OnceSlot<T> {
    const_unless_model! {
        pub(super) fn new(value: Option<T>) -> Self {
            let stage = if value.is_some() { FULL } else { EMPTY };
            Self { stage: AtomicU32::new(stage), value: UnsafeCell::new(value) }
        }
    }

    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.stage.load(Acquire) == FULL
    }

    #[inline]
    pub(super) fn get(&self) -> Option<&T> {
        if !self.is_full() {
            return None;
        }
        // SAFETY: ONCE-2; the borrow of `self` keeps `&mut self` away.
        self.value.with(|value| unsafe { (*value).as_ref() })
    }

    pub(super) fn get_mut(&mut self) -> Option<&mut T> {
        // SAFETY: `&mut self`: no other thread reads or writes.
        self.value.with_mut(|value| unsafe { (*value).as_mut() })
    }

    /// Empties the slot and returns its value.
    pub(super) fn take(&mut self) -> Option<T> {
        self.stage.store(EMPTY, Relaxed);
        // SAFETY: `&mut self`: no other thread reads or writes.
        self.value.with_mut(|value| unsafe { (*value).take() })
    }

    /// Writes the value. Returns it if the slot is full, or is being filled.
    pub(super) fn fill(&self, value: T) -> Result<(), T> {
        if self.stage.compare_exchange(EMPTY, FILLING, Relaxed, Relaxed).is_err() {
            return Err(value);
        }
        // SAFETY: ONCE-1. The overwritten value is `None`, whose drop does nothing.
        self.value.with_mut(|slot| unsafe { *slot = Some(value) });
        self.stage.store(FULL, Release);
        Ok(())
    }
}
