//! Access to a mutex's value together with a share in the mutex.

use super::Mutex;
use crate::sync::guard_macros::guard_traits;
use std::marker::PhantomData;
use std::sync::Arc;

/// The lock of a [`Mutex`]: access to its value. It keeps the mutex alive, and
/// unlocks when it is dropped.
#[clippy::has_significant_drop]
pub struct OwnedMutexGuard<T: ?Sized> {
    hold: Hold<T>,
    /// Its auto traits are those of exclusive access.
    _access: PhantomData<*mut T>,
}

// SAFETY: G2: it is exclusive access, and a share in the mutex.
unsafe impl<T: ?Sized + Send> Send for OwnedMutexGuard<T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Send + Sync> Sync for OwnedMutexGuard<T> {}

/// The lock of a [`Mutex`], with access to a part of its value only. From
/// [`OwnedMutexGuard::map`].
#[must_use = "if unused the Mutex will immediately unlock"]
#[clippy::has_significant_drop]
pub struct OwnedMappedMutexGuard<T: ?Sized, U: ?Sized = T> {
    data: *mut U,
    hold: Hold<T>,
}

// SAFETY: G2: it is exclusive access, and a share in the mutex.
unsafe impl<T: ?Sized + Send, U: ?Sized + Send> Send for OwnedMappedMutexGuard<T, U> {}
// SAFETY: as above.
unsafe impl<T, U> Sync for OwnedMappedMutexGuard<T, U>
where
    T: ?Sized + Send + Sync,
    U: ?Sized + Send + Sync,
{
}

/// A lock without access to anything.
struct Hold<T: ?Sized>(Arc<Mutex<T>>);

impl<T: ?Sized> Drop for Hold<T> {
    #[inline]
    fn drop(&mut self) {
        self.0.raw.unlock();
    }
}

impl<T: ?Sized> OwnedMutexGuard<T> {
    /// For whoever just got the lock.
    #[inline]
    pub(super) fn new(mutex: Arc<Mutex<T>>) -> Self {
        mutex.raw.waiters.record.mark_movable();
        Self { hold: Hold(mutex), _access: PhantomData }
    }

    fn pointer(&self) -> *const T {
        self.hold.0.value.with(|value| value)
    }

    fn pointer_mut(&mut self) -> *mut T {
        self.hold.0.value.with_mut(|value| value)
    }

    /// Keeps the lock, with access to a part of the value.
    ///
    /// A function and not a method, as the value may have a method of that name.
    #[inline]
    pub fn map<U, F>(mut this: Self, f: F) -> OwnedMappedMutexGuard<T, U>
    where
        U: ?Sized,
        F: FnOnce(&mut T) -> &mut U,
    {
        let data = &raw mut *f(&mut *this);
        OwnedMappedMutexGuard { data, hold: this.hold }
    }

    /// As [`map`](Self::map), if there is such a part.
    ///
    /// # Errors
    ///
    /// The guard as it was, if `f` answers None.
    #[inline]
    pub fn try_map<U, F>(mut this: Self, f: F) -> Result<OwnedMappedMutexGuard<T, U>, Self>
    where
        U: ?Sized,
        F: FnOnce(&mut T) -> Option<&mut U>,
    {
        let data = match f(&mut *this) {
            Some(data) => &raw mut *data,
            None => return Err(this),
        };
        Ok(OwnedMappedMutexGuard { data, hold: this.hold })
    }

    /// The mutex it is a lock of.
    ///
    /// A function and not a method, as the value may have a method of that name.
    #[inline]
    pub fn mutex(this: &Self) -> &Arc<Mutex<T>> {
        &this.hold.0
    }
}

guard_traits! { exclusive OwnedMutexGuard<T>, [T: ?Sized] => T }

impl<T: ?Sized, U: ?Sized> OwnedMappedMutexGuard<T, U> {
    fn pointer(&self) -> *const U {
        self.data
    }

    fn pointer_mut(&mut self) -> *mut U {
        self.data
    }

    /// Keeps the lock, with access to a part of the part.
    #[inline]
    pub fn map<S, F>(mut this: Self, f: F) -> OwnedMappedMutexGuard<T, S>
    where
        S: ?Sized,
        F: FnOnce(&mut U) -> &mut S,
    {
        let data = &raw mut *f(&mut *this);
        OwnedMappedMutexGuard { data, hold: this.hold }
    }

    /// As [`map`](Self::map), if there is such a part.
    ///
    /// # Errors
    ///
    /// The guard as it was, if `f` answers None.
    #[inline]
    pub fn try_map<S, F>(mut this: Self, f: F) -> Result<OwnedMappedMutexGuard<T, S>, Self>
    where
        S: ?Sized,
        F: FnOnce(&mut U) -> Option<&mut S>,
    {
        let data = match f(&mut *this) {
            Some(data) => &raw mut *data,
            None => return Err(this),
        };
        Ok(OwnedMappedMutexGuard { data, hold: this.hold })
    }
}

guard_traits! { exclusive OwnedMappedMutexGuard<T, U>, [T: ?Sized, U: ?Sized] => U }
