//! A lock of one byte for critical sections of a few instructions.
//!
//! Taking it is one exchange and releasing it one store, half of what a lock
//! costs that can put its waiters to sleep. The price: a waiter spins, and then
//! gives its time slice away until the holder is done. So nothing that can block,
//! allocate much or call foreign code belongs inside, unless nobody ever waits
//! ([`SpinLock::try_with`]).

#![allow(unsafe_code)]

use crate::sys::sync::atomic::{AtomicBool, Ordering::*};
use crate::sys::sync::{UnsafeCell, const_unless_model, thread};

/// A waiter does not look at once, and then ever more rarely: what the lock guards lies
/// beside it, and with each look the holder loses its hold of that memory.
const FIRST_PAUSES: u32 = 8;
const MOST_PAUSES: u32 = 64;

#[derive(Debug)]
pub(crate) struct SpinLock<T> {
    locked: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: `with` lets one thread at a time at the value.
unsafe impl<T: Send> Send for SpinLock<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for SpinLock<T> {}

impl<T> SpinLock<T> {
    const_unless_model! {
        pub(crate) fn new(value: T) -> Self {
            Self { locked: AtomicBool::new(false), value: UnsafeCell::new(value) }
        }
    }

    /// Runs `f` with the value, alone.
    #[inline]
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        if self.locked.compare_exchange(false, true, Acquire, Relaxed).is_err() {
            self.wait();
        }
        // SAFETY: the exchange succeeded.
        unsafe { self.locked(f) }
    }

    /// Runs `f` with the value, if nobody is at it. Where everybody comes this way, `f`
    /// may take its time.
    #[inline]
    pub(crate) fn try_with<R>(&self, f: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.locked.compare_exchange(false, true, Acquire, Relaxed).ok()?;
        // SAFETY: the exchange succeeded.
        Some(unsafe { self.locked(f) })
    }

    /// # Safety
    ///
    /// The caller has set `locked`, which is cleared in here.
    #[inline]
    unsafe fn locked<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        /// Unlocks also when `f` panics.
        struct Unlock<'a>(&'a AtomicBool);
        impl Drop for Unlock<'_> {
            fn drop(&mut self) {
                self.0.store(false, Release);
            }
        }
        let _unlock = Unlock(&self.locked);
        // SAFETY: by contract, nobody else is between here and the store in `Unlock`.
        self.value.with_mut(|value| f(unsafe { &mut *value }))
    }

    /// Runs `f` with the value, without locking.
    ///
    /// # Safety
    ///
    /// Nobody else comes to the value meanwhile.
    #[inline]
    pub(crate) unsafe fn with_exclusive<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: by contract.
        self.value.with_mut(|value| f(unsafe { &mut *value }))
    }

    /// The value, without locking: nobody else can be at it.
    pub(crate) fn get_mut(&mut self) -> &mut T {
        // SAFETY: `&mut self`.
        self.value.with_mut(|value| unsafe { &mut *value })
    }

    #[cold]
    fn wait(&self) {
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

/// A [`SpinLock`], but not in models: those of many threads that spin have more orders
/// than can be gone through, so there waiters sleep.
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
