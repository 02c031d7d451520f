//! A value that is written once and then only read: what `OnceCell` and
//! `SetOnce` have inside.
//!
//! ```text
//! diagram
//!            fill                  fill: the value is in
//!   EMPTY ─────────► FILLING ─────────────────────────────► FULL
//! ```
//!
//! Rules:
//! - V1. Whoever moves the stage from EMPTY to FILLING may write the value, once,
//!   and then moves it to FULL.
//! - V2. In FULL nobody writes; everybody may read. Only `&mut self` leads back.
//!
//! Orderings: the Release store of FULL pairs with the Acquire load in `get`: who
//! sees FULL sees the value.
#![allow(unsafe_code)]

use crate::sys::sync::atomic::{AtomicU32, Ordering::*};
use crate::sys::sync::{UnsafeCell, const_unless_model};

const EMPTY: u32 = 0;
const FILLING: u32 = 1;
const FULL: u32 = 2;

pub(super) struct Slot<T> {
    stage: AtomicU32,
    value: UnsafeCell<Option<T>>,
}

// SAFETY: `&Slot` moves a value in from any thread (V1), hence Send, and lends it
// to any thread (V2), hence Sync.
unsafe impl<T: Send + Sync> Sync for Slot<T> {}

impl<T> Slot<T> {
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
        // SAFETY: V2; the loan of `self` keeps `&mut self` away.
        self.value.with(|value| unsafe { (*value).as_ref() })
    }

    pub(super) fn get_mut(&mut self) -> Option<&mut T> {
        // SAFETY: `&mut self`: nobody else reads or writes.
        self.value.with_mut(|value| unsafe { (*value).as_mut() })
    }

    /// Empties the slot.
    pub(super) fn take(&mut self) -> Option<T> {
        self.stage.store(EMPTY, Relaxed);
        // SAFETY: `&mut self`: nobody else reads or writes.
        self.value.with_mut(|value| unsafe { (*value).take() })
    }

    /// Writes the value, or gives it back if there is one, or is about to be.
    pub(super) fn fill(&self, value: T) -> Result<(), T> {
        if self.stage.compare_exchange(EMPTY, FILLING, Relaxed, Relaxed).is_err() {
            return Err(value);
        }
        // SAFETY: V1. What is overwritten is None, whose drop does nothing.
        self.value.with_mut(|slot| unsafe { *slot = Some(value) });
        self.stage.store(FULL, Release);
        Ok(())
    }
}
