//! Access to a mutex's value for as long as the mutex is borrowed.

use super::Mutex;
use super::raw::RawMutex;
use crate::sync::guard_macros::guard_traits;
use std::marker::PhantomData;
use std::mem;

/// The lock of a [`Mutex`]: access to its value. Unlocks when it is dropped.
#[must_use = "if unused the Mutex will immediately unlock"]
#[clippy::has_significant_drop]
pub struct MutexGuard<'a, T: ?Sized> {
    mutex: &'a Mutex<T>,
    /// Its auto traits are those of exclusive access.
    _access: PhantomData<&'a mut T>,
}

/// The lock of a [`Mutex`], with access to a part of its value only. From
/// [`MutexGuard::map`].
#[must_use = "if unused the Mutex will immediately unlock"]
#[clippy::has_significant_drop]
pub struct MappedMutexGuard<'a, T: ?Sized> {
    data: *mut T,
    hold: Hold<'a>,
    _access: PhantomData<&'a mut T>,
}

// SAFETY: G2: it is exclusive access.
unsafe impl<T: ?Sized + Send> Send for MappedMutexGuard<'_, T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Sync> Sync for MappedMutexGuard<'_, T> {}

/// A lock without access to anything.
struct Hold<'a>(&'a RawMutex);

impl Drop for Hold<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.unlock();
    }
}

impl<'a, T: ?Sized> MutexGuard<'a, T> {
    /// For whoever just got the lock.
    #[inline]
    pub(super) fn new(mutex: &'a Mutex<T>) -> Self {
        Self { mutex, _access: PhantomData }
    }

    fn pointer(&self) -> *const T {
        self.mutex.value.with(|value| value)
    }

    fn pointer_mut(&mut self) -> *mut T {
        self.mutex.value.with_mut(|value| value)
    }

    fn into_hold(self) -> Hold<'a> {
        let hold = Hold(&self.mutex.raw);
        mem::forget(self);
        hold
    }

    /// Keeps the lock, with access to a part of the value.
    ///
    /// A function and not a method, as the value may have a method of that name.
    #[inline]
    pub fn map<U, F>(mut this: Self, f: F) -> MappedMutexGuard<'a, U>
    where
        U: ?Sized,
        F: FnOnce(&mut T) -> &mut U,
    {
        let data = &raw mut *f(&mut *this);
        MappedMutexGuard { data, hold: this.into_hold(), _access: PhantomData }
    }

    /// As [`map`](Self::map), if there is such a part.
    ///
    /// # Errors
    ///
    /// The guard as it was, if `f` answers None.
    #[inline]
    pub fn try_map<U, F>(mut this: Self, f: F) -> Result<MappedMutexGuard<'a, U>, Self>
    where
        U: ?Sized,
        F: FnOnce(&mut T) -> Option<&mut U>,
    {
        let data = match f(&mut *this) {
            Some(data) => &raw mut *data,
            None => return Err(this),
        };
        Ok(MappedMutexGuard { data, hold: this.into_hold(), _access: PhantomData })
    }

    /// The mutex it is a lock of.
    ///
    /// A function and not a method, as the value may have a method of that name.
    #[inline]
    pub fn mutex(this: &Self) -> &'a Mutex<T> {
        this.mutex
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.mutex.raw.unlock();
    }
}

guard_traits! { exclusive MutexGuard<'_, T>, [T: ?Sized] => T }

impl<'a, T: ?Sized> MappedMutexGuard<'a, T> {
    fn pointer(&self) -> *const T {
        self.data
    }

    fn pointer_mut(&mut self) -> *mut T {
        self.data
    }

    /// Keeps the lock, with access to a part of the part.
    #[inline]
    pub fn map<U, F>(mut this: Self, f: F) -> MappedMutexGuard<'a, U>
    where
        U: ?Sized,
        F: FnOnce(&mut T) -> &mut U,
    {
        let data = &raw mut *f(&mut *this);
        MappedMutexGuard { data, hold: this.hold, _access: PhantomData }
    }

    /// As [`map`](Self::map), if there is such a part.
    ///
    /// # Errors
    ///
    /// The guard as it was, if `f` answers None.
    #[inline]
    pub fn try_map<U, F>(mut this: Self, f: F) -> Result<MappedMutexGuard<'a, U>, Self>
    where
        U: ?Sized,
        F: FnOnce(&mut T) -> Option<&mut U>,
    {
        let data = match f(&mut *this) {
            Some(data) => &raw mut *data,
            None => return Err(this),
        };
        Ok(MappedMutexGuard { data, hold: this.hold, _access: PhantomData })
    }
}

guard_traits! { exclusive MappedMutexGuard<'_, T>, [T: ?Sized] => T }
