//! Shared access to a read-write lock's value or to a part of it.

use super::RwLock;
use super::raw::{Hold, OwnedHold};
use crate::sync::guard_macros::guard_traits;
use std::marker::PhantomData;
use std::sync::Arc;

/// Shared access to the value of a [`RwLock`] or to a part of it. Let go when it is
/// dropped.
#[must_use = "if unused the RwLock will immediately unlock"]
#[clippy::has_significant_drop]
pub struct RwLockReadGuard<'a, T: ?Sized> {
    data: *const T,
    hold: Hold<'a>,
    _access: PhantomData<&'a T>,
}

// SAFETY: G2: it is shared access.
unsafe impl<T: ?Sized + Sync> Send for RwLockReadGuard<'_, T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Send + Sync> Sync for RwLockReadGuard<'_, T> {}

/// Shared access to the value of a [`RwLock`] or to a part of it. It keeps the lock
/// alive, and is let go when it is dropped.
#[clippy::has_significant_drop]
pub struct OwnedRwLockReadGuard<T: ?Sized, U: ?Sized = T> {
    data: *const U,
    hold: OwnedHold<T>,
}

// SAFETY: G2: it is shared access, and a share in the lock: whoever has the last one
// drops the value.
unsafe impl<T: ?Sized + Send + Sync, U: ?Sized + Sync> Send for OwnedRwLockReadGuard<T, U> {}
// SAFETY: as above.
unsafe impl<T, U> Sync for OwnedRwLockReadGuard<T, U>
where
    T: ?Sized + Send + Sync,
    U: ?Sized + Send + Sync,
{
}

impl<'a, T: ?Sized> RwLockReadGuard<'a, T> {
    #[inline]
    pub(super) fn new(lock: &'a RwLock<T>, hold: Hold<'a>) -> Self {
        Self::of_part(lock.pointer(), hold)
    }

    /// `data` leads into the value that `hold` is a share of (G1).
    #[inline]
    pub(super) fn of_part(data: *const T, hold: Hold<'a>) -> Self {
        Self { data, hold, _access: PhantomData }
    }

    fn pointer(&self) -> *const T {
        self.data
    }

    /// Keeps the access to a part of the value.
    ///
    /// A function and not a method, as the value may have a method of that name.
    #[inline]
    pub fn map<F, U: ?Sized>(this: Self, f: F) -> RwLockReadGuard<'a, U>
    where
        F: FnOnce(&T) -> &U,
    {
        let data = &raw const *f(&*this);
        RwLockReadGuard::of_part(data, this.hold)
    }

    /// As [`map`](Self::map), if there is such a part.
    ///
    /// # Errors
    ///
    /// The guard as it was, if `f` answers None.
    #[inline]
    pub fn try_map<F, U: ?Sized>(this: Self, f: F) -> Result<RwLockReadGuard<'a, U>, Self>
    where
        F: FnOnce(&T) -> Option<&U>,
    {
        let data = match f(&*this) {
            Some(data) => &raw const *data,
            None => return Err(this),
        };
        Ok(RwLockReadGuard::of_part(data, this.hold))
    }
}

guard_traits! { shared RwLockReadGuard<'_, T>, [T: ?Sized] => T }

impl<T: ?Sized> OwnedRwLockReadGuard<T> {
    #[inline]
    pub(super) fn new(hold: OwnedHold<T>) -> Self {
        Self { data: hold.lock.pointer(), hold }
    }
}

impl<T: ?Sized, U: ?Sized> OwnedRwLockReadGuard<T, U> {
    /// `data` leads into the value that `hold` is a share of (G1).
    #[inline]
    pub(super) fn of_part(data: *const U, hold: OwnedHold<T>) -> Self {
        Self { data, hold }
    }

    fn pointer(&self) -> *const U {
        self.data
    }

    /// Keeps the access to a part of the value.
    ///
    /// A function and not a method, as the value may have a method of that name.
    #[inline]
    pub fn map<F, V: ?Sized>(this: Self, f: F) -> OwnedRwLockReadGuard<T, V>
    where
        F: FnOnce(&U) -> &V,
    {
        let data = &raw const *f(&*this);
        OwnedRwLockReadGuard::of_part(data, this.hold)
    }

    /// As [`map`](Self::map), if there is such a part.
    ///
    /// # Errors
    ///
    /// The guard as it was, if `f` answers None.
    #[inline]
    pub fn try_map<F, V: ?Sized>(this: Self, f: F) -> Result<OwnedRwLockReadGuard<T, V>, Self>
    where
        F: FnOnce(&U) -> Option<&V>,
    {
        let data = match f(&*this) {
            Some(data) => &raw const *data,
            None => return Err(this),
        };
        Ok(OwnedRwLockReadGuard::of_part(data, this.hold))
    }

    /// The lock it is access to.
    ///
    /// A function and not a method, as the value may have a method of that name.
    #[inline]
    pub fn rwlock(this: &Self) -> &Arc<RwLock<T>> {
        &this.hold.lock
    }
}

guard_traits! { shared OwnedRwLockReadGuard<T, U>, [T: ?Sized, U: ?Sized] => U }
