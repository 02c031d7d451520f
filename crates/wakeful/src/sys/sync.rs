//! Synchronization primitives: std's, or loom's in models. A panic does not poison the locks.
//!
//! The models are unit tests, so the switch is `all(test, loom)`. A program that is built with
//! `--cfg loom` for its own models gets std's primitives in this crate.

#[cfg(all(test, loom))]
mod imp {
    pub(crate) use loom::sync::{Arc, Mutex as RawMutex, MutexGuard};
    pub(crate) use loom::sync::{RwLock as RawRwLock, RwLockReadGuard, RwLockWriteGuard};
    pub(crate) use loom::thread::{self, Thread};

    /// loom's atomics, with an initial value that SeqCst loads order correctly.
    ///
    /// In loom, a SeqCst load returns the newest SeqCst store. But the initial value counts as a
    /// weaker store, which a load may always return. So `new` also makes a SeqCst store of the
    /// initial value.
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

    /// `thread_local!` for the threads of a model, which all run on one OS thread.
    macro_rules! model_local {
        ($($(#[$attr:meta])* static $name:ident: $value:ty = const $init:block;)+) => {
            loom::thread_local! { $(static $name: $value = $init;)+ }
        };
    }
    pub(crate) use model_local as thread_local;

    /// A constructor that is `const` in builds without loom, whose atomics have no `const`
    /// constructors.
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

    /// A constructor that is `const` in builds without loom.
    macro_rules! const_unless_model {
        ($(#[$attr:meta])* $vis:vis fn $($rest:tt)+) => { $(#[$attr])* $vis const fn $($rest)+ };
    }
    pub(crate) use const_unless_model;

    /// std's cell with loom's interface, so that both builds share their code.
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
use std::sync::{LockResult, PoisonError, TryLockError};

/// Returns the guard even if a thread panicked while it held the lock.
///
/// In this crate, guarded values stay valid if that happens.
#[inline]
pub(crate) fn ignore_poison<G>(result: LockResult<G>) -> G {
    result.unwrap_or_else(PoisonError::into_inner)
}

/// A mutex that a panic does not poison.
///
/// In this crate, guarded values are consistent before any call that can panic.
#[derive(Debug)]
pub(crate) struct Mutex<T>(RawMutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(RawMutex::new(value))
    }

    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        ignore_poison(self.0.lock())
    }

    /// Locks the mutex, unless another thread holds it.
    #[inline]
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// A read-write lock that a panic does not poison.
///
/// A writer that panics may leave the value only in a state that its readers accept.
#[derive(Debug)]
pub(crate) struct RwLock<T>(RawRwLock<T>);

impl<T> RwLock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(RawRwLock::new(value))
    }

    #[inline]
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, T> {
        ignore_poison(self.0.read())
    }

    #[inline]
    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
        ignore_poison(self.0.write())
    }
}
