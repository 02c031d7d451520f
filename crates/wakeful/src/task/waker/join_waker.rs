//! The waker of the task that awaits a JoinHandle.

use crate::sys::sync::UnsafeCell;
use std::task::Waker;

/// A cell for the waker of the task that awaits a JoinHandle.
///
/// TASK-2 defines which thread may access the cell, and when. Each method states the part that it needs.
pub(crate) struct JoinWaker(UnsafeCell<Option<Waker>>);

impl JoinWaker {
    pub(crate) fn empty() -> Self {
        Self(UnsafeCell::new(None))
    }

    /// Stores `waker` in the empty cell.
    ///
    /// # Safety
    ///
    /// TASK-2: JOIN_WAKER must be clear, the caller must be the JoinHandle, and the cell must be
    /// empty.
    pub(crate) unsafe fn put(&self, waker: Waker) {
        self.0.with_mut(|slot| {
            // SAFETY: by contract.
            debug_assert!(unsafe { (*slot).is_none() }, "TASK-2: a waker would be lost");
            // SAFETY: by contract; there is nothing to drop.
            unsafe { slot.write(Some(waker)) };
        });
    }

    /// Stores a clone of `waker`, unless the stored waker wakes the same task.
    ///
    /// Returns the replaced waker. The caller must drop it last, because the drop is foreign code
    /// and may panic.
    ///
    /// # Safety
    ///
    /// TASK-2: JOIN_WAKER must be clear, and the caller must be the JoinHandle.
    #[must_use]
    pub(crate) unsafe fn replace(&self, waker: &Waker) -> Option<Waker> {
        // SAFETY: by contract.
        let same =
            self.0.with(|slot| unsafe { (*slot).as_ref().is_some_and(|own| own.will_wake(waker)) });
        if same {
            return None;
        }
        let new = Some(waker.clone());
        // SAFETY: by contract.
        self.0.with_mut(|slot| unsafe { std::mem::replace(&mut *slot, new) })
    }

    /// Removes and returns the waker.
    ///
    /// # Safety
    ///
    /// TASK-2: the caller must have cleared JOIN_WAKER, or never published the waker.
    pub(crate) unsafe fn take(&self) -> Option<Waker> {
        // SAFETY: by contract.
        self.0.with_mut(|slot| unsafe { (*slot).take() })
    }
}
