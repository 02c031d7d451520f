//! The one switch between std's primitives and loom's.

#[cfg(loom)]
mod imp {
    pub(crate) use loom::sync::atomic;
    pub(crate) use loom::sync::{Arc, Mutex as RawMutex, MutexGuard};
    pub(crate) use loom::thread::{self, Thread};

    /// loom's cell, which reports racing accesses.
    #[derive(Debug)]
    pub(crate) struct UnsafeCell<T>(loom::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(loom::cell::UnsafeCell::new(value))
        }

        pub(crate) fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
            self.0.with(f)
        }

        pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
            self.0.with_mut(f)
        }
    }
}

#[cfg(not(loom))]
mod imp {
    pub(crate) use std::sync::atomic;
    pub(crate) use std::sync::{Arc, Mutex as RawMutex, MutexGuard};
    pub(crate) use std::thread::{self, Thread};

    /// std's cell behind loom's interface, so that one text serves both.
    #[derive(Debug)]
    pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        pub(crate) const fn new(value: T) -> Self {
            Self(std::cell::UnsafeCell::new(value))
        }

        #[inline(always)]
        pub(crate) fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
            f(self.0.get())
        }

        #[inline(always)]
        pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
            f(self.0.get())
        }
    }
}

pub(crate) use imp::*;

/// A mutex that a panic does not poison: what it guards in this crate is
/// always left whole before anything that can panic is called.
#[derive(Debug)]
pub(crate) struct Mutex<T>(RawMutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(RawMutex::new(value))
    }

    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        match self.0.lock() {
            Ok(guard) => guard,
            Err(poisoned) => poisoned.into_inner(),
        }
    }
}
