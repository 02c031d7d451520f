//! The slot for the waker of whoever awaits the task's end. TASK-2 of `state` says
//! who may touch it when; each method names the half of the rule it needs.

use crate::sys::sync::UnsafeCell;
use std::task::Waker;

pub(crate) struct JoinWaker(UnsafeCell<Option<Waker>>);

impl JoinWaker {
    pub(crate) fn empty() -> Self {
        Self(UnsafeCell::new(None))
    }

    /// Holds `waker`.
    ///
    /// # Safety
    ///
    /// TASK-2: JOIN_WAKER is clear, the caller is the JoinHandle, and no waker is in the slot.
    pub(crate) unsafe fn put(&self, waker: Waker) {
        self.0.with_mut(|slot| {
            // SAFETY: by contract.
            debug_assert!(unsafe { (*slot).is_none() }, "TASK-2: a waker would be lost");
            // SAFETY: by contract; there is nothing to drop.
            unsafe { slot.write(Some(waker)) };
        });
    }

    /// Holds a clone of `waker`, or keeps the waker it has if that wakes the same task. Returns the
    /// waker it replaced. The caller drops that last: its drop is foreign code and may panic.
    ///
    /// # Safety
    ///
    /// TASK-2: JOIN_WAKER is clear and the caller is the JoinHandle.
    #[must_use]
    pub(crate) unsafe fn keep(&self, waker: &Waker) -> Option<Waker> {
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

    /// # Safety
    ///
    /// TASK-2: the caller has cleared JOIN_WAKER, or never published it.
    pub(crate) unsafe fn take(&self) -> Option<Waker> {
        // SAFETY: by contract.
        self.0.with_mut(|slot| unsafe { (*slot).take() })
    }
}
