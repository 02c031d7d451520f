//! The waker of the task that awaits a JoinHandle.

use crate::sys::sync::UnsafeCell;
use std::task::Waker;

/// The cell for the waker of a JoinHandle's awaiter.
///
/// TASK-2 says which thread may access it, and when. Each method names the part that it needs.
pub(crate) struct JoinWaker(UnsafeCell<Option<Waker>>);

impl JoinWaker {
    pub(crate) fn empty() -> Self {
        Self(UnsafeCell::new(None))
    }

    /// Stores `waker` in the empty cell.
    ///
    /// # Safety
    ///
    /// TASK-2: JOIN_WAKER is clear, the caller is the JoinHandle, and the cell is empty.
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
    /// Returns the waker that was replaced. The caller drops it last: the drop is foreign code and
    /// may panic.
    ///
    /// # Safety
    ///
    /// TASK-2: JOIN_WAKER is clear and the caller is the JoinHandle.
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

    /// Takes the waker out.
    ///
    /// # Safety
    ///
    /// TASK-2: the caller has cleared JOIN_WAKER, or never published it.
    pub(crate) unsafe fn take(&self) -> Option<Waker> {
        // SAFETY: by contract.
        self.0.with_mut(|slot| unsafe { (*slot).take() })
    }
}
