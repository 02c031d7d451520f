//! The one switch between std's primitives and loom's.
//!
//! The models are unit tests, so the switch is `all(test, loom)`: a program that is built with
//! `--cfg loom` for its own models gets std's primitives in this crate.

#[cfg(all(test, loom))]
mod imp {
    pub(crate) use loom::sync::{Arc, Mutex as RawMutex, MutexGuard};
    pub(crate) use loom::sync::{RwLock as RawRwLock, RwLockReadGuard, RwLockWriteGuard};
    pub(crate) use loom::thread::{self, Thread};

    /// loom's atomics. It gives a SeqCst load the newest of the SeqCst stores,
    /// but takes the initial value for a weaker one that may always be read
    /// again; those that take part in a SeqCst protocol are therefore stored to
    /// once more, in that order, when they are made.
    pub(crate) mod atomic {
        use loom::sync::atomic as weak;
        pub(crate) use weak::{AtomicIsize, Ordering, fence};

        macro_rules! ordered {
            ($($name:ident $(<$param:ident>)?: $value:ty;)+) => {$(
                pub(crate) struct $name$(<$param>)?(weak::$name$(<$param>)?);

                impl$(<$param>)? $name$(<$param>)? {
                    pub(crate) fn new(value: $value) -> Self {
                        let atomic = weak::$name::new(value);
                        atomic.store(value, Ordering::SeqCst);
                        Self(atomic)
                    }
                }

                impl$(<$param>)? std::fmt::Debug for $name$(<$param>)? {
                    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        self.0.fmt(f)
                    }
                }

                impl$(<$param>)? std::ops::Deref for $name$(<$param>)? {
                    type Target = weak::$name$(<$param>)?;

                    fn deref(&self) -> &Self::Target {
                        &self.0
                    }
                }
            )+};
        }

        ordered! {
            AtomicBool: bool;
            AtomicPtr<T>: *mut T;
            AtomicU32: u32;
            AtomicU64: u64;
            AtomicUsize: usize;
        }
    }

    /// `thread_local!` for the threads of a model, which all live on one thread
    /// of the system.
    macro_rules! model_local {
        ($(static $name:ident: $value:ty = const $init:block;)+) => {
            loom::thread_local! { $(static $name: $value = $init;)+ }
        };
    }
    pub(crate) use model_local as thread_local;

    /// A constructor that is `const` where the atomics' are, which a model's are
    /// not.
    macro_rules! const_unless_model {
        ($(#[$attr:meta])* $vis:vis fn $($rest:tt)+) => { $(#[$attr])* $vis fn $($rest)+ };
    }
    pub(crate) use const_unless_model;

    /// loom's cell, which reports racing accesses.
    #[derive(Debug)]
    pub(crate) struct UnsafeCell<T: ?Sized>(loom::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(loom::cell::UnsafeCell::new(value))
        }

        pub(crate) fn into_inner(self) -> T {
            self.0.into_inner()
        }
    }

    impl<T: ?Sized> UnsafeCell<T> {
        pub(crate) fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
            self.0.with(f)
        }

        pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
            self.0.with_mut(f)
        }
    }
}

#[cfg(not(all(test, loom)))]
mod imp {
    pub(crate) use std::sync::atomic;
    pub(crate) use std::sync::{Arc, Mutex as RawMutex, MutexGuard};
    pub(crate) use std::sync::{RwLock as RawRwLock, RwLockReadGuard, RwLockWriteGuard};
    pub(crate) use std::thread::{self, Thread};
    pub(crate) use std::thread_local;

    /// A constructor that is `const` where the atomics' are.
    macro_rules! const_unless_model {
        ($(#[$attr:meta])* $vis:vis fn $($rest:tt)+) => { $(#[$attr])* $vis const fn $($rest)+ };
    }
    pub(crate) use const_unless_model;

    /// std's cell behind loom's interface, so that one text serves both.
    #[derive(Debug)]
    pub(crate) struct UnsafeCell<T: ?Sized>(std::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        pub(crate) const fn new(value: T) -> Self {
            Self(std::cell::UnsafeCell::new(value))
        }

        pub(crate) fn into_inner(self) -> T {
            self.0.into_inner()
        }
    }

    impl<T: ?Sized> UnsafeCell<T> {
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
use std::sync::{PoisonError, TryLockError};

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

    /// The guard, unless somebody has it.
    #[inline]
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// A lock that several may read under, and that a panic does not poison: whoever
/// has it alone may leave the value in whatever state it likes.
#[derive(Debug)]
pub(crate) struct RwLock<T>(RawRwLock<T>);

impl<T> RwLock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(RawRwLock::new(value))
    }

    #[inline]
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}
