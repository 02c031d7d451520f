//! A spin lock of one byte, for critical sections of a few instructions.
//!
//! Acquiring is one exchange and releasing is one store, half the cost of a lock that can put its
//! waiters to sleep. In return, a waiter spins, and then yields its time slice until the lock is
//! free. So a critical section must not block, allocate much or call foreign code, unless no
//! thread ever waits ([`SpinLock::try_with`]).

#![allow(unsafe_code)]

use crate::sys::sync::atomic::{AtomicBool, Ordering::*};
use crate::sys::sync::{UnsafeCell, const_unless_model, thread};

/// The spin hints before the first and the last load of a waiter. They double in between.
///
/// The guarded value is in the same cache line as the lock, so each load of a waiter takes that
/// line away from the holder.
const FIRST_PAUSES: u32 = 8;
const MOST_PAUSES: u32 = 64;

/// A spin lock around a value.
#[derive(Debug)]
pub(crate) struct SpinLock<T> {
    locked: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: `with` and `try_with` give one thread at a time access to the value.
unsafe impl<T: Send> Send for SpinLock<T> {}
// SAFETY: the reason for `Send` covers `Sync`.
unsafe impl<T: Send> Sync for SpinLock<T> {}

impl<T> SpinLock<T> {
    const_unless_model! {
        pub(crate) fn new(value: T) -> Self {
            Self { locked: AtomicBool::new(false), value: UnsafeCell::new(value) }
        }
    }

    /// Runs `f` with the value, under the lock.
    #[inline]
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        if self.locked.compare_exchange(false, true, Acquire, Relaxed).is_err() {
            self.acquire_contended();
        }
        // SAFETY: the exchange succeeded.
        unsafe { self.locked(f) }
    }

    /// Runs `f` with the value, unless another thread holds the lock.
    ///
    /// If all threads use `try_with`, none ever waits, and `f` may take long.
    #[inline]
    pub(crate) fn try_with<R>(&self, f: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.locked.compare_exchange(false, true, Acquire, Relaxed).ok()?;
        // SAFETY: the exchange succeeded.
        Some(unsafe { self.locked(f) })
    }

    /// # Safety
    ///
    /// The caller must have set `locked`. This function clears it.
    #[inline]
    unsafe fn locked<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        /// Unlocks, even if `f` panics.
        struct Unlock<'a>(&'a AtomicBool);
        impl Drop for Unlock<'_> {
            fn drop(&mut self) {
                self.0.store(false, Release);
            }
        }
        let _unlock = Unlock(&self.locked);
        // SAFETY: by contract, the caller holds the lock until the store in `Unlock`.
        self.value.with_mut(|value| f(unsafe { &mut *value }))
    }

    /// Runs `f` with the value, without locking.
    ///
    /// # Safety
    ///
    /// No other thread may access the value during the call.
    #[inline]
    pub(crate) unsafe fn with_exclusive<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: by contract.
        self.value.with_mut(|value| f(unsafe { &mut *value }))
    }

    /// Returns the value without locking: `&mut self` excludes other threads.
    pub(crate) fn get_mut(&mut self) -> &mut T {
        // SAFETY: `&mut self` is exclusive.
        self.value.with_mut(|value| unsafe { &mut *value })
    }

    #[cold]
    fn acquire_contended(&self) {
        let mut pauses = FIRST_PAUSES;
        loop {
            if pauses <= MOST_PAUSES && !crate::sys::IS_MODEL {
                (0..pauses).for_each(|_| std::hint::spin_loop());
                pauses *= 2;
            } else {
                thread::yield_now();
            }
            if !self.locked.load(Relaxed)
                && self.locked.compare_exchange(false, true, Acquire, Relaxed).is_ok()
            {
                return;
            }
        }
    }
}

/// A [`SpinLock`], or a mutex in models.
///
/// Models of many spinning threads have too many executions to explore.
#[cfg(not(all(test, loom)))]
pub(crate) type SpinUnlessModel<T> = SpinLock<T>;

#[cfg(all(test, loom))]
pub(crate) struct SpinUnlessModel<T>(crate::sys::sync::Mutex<T>);

#[cfg(all(test, loom))]
impl<T> SpinUnlessModel<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(crate::sys::sync::Mutex::new(value))
    }

    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        f(&mut self.0.lock())
    }
}
