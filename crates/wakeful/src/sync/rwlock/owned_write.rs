//! Exclusive access to a read-write lock's value, or to a part of it, together with a
//! share in the lock.

use super::raw::OwnedHold;
use super::{OwnedRwLockReadGuard, RwLock};
use crate::sync::guard_macros::guard_traits;
use std::sync::Arc;

/// Exclusive access to the value of a [`RwLock`]. It keeps the lock alive, and is let go
/// when it is dropped.
#[clippy::has_significant_drop]
pub struct OwnedRwLockWriteGuard<T: ?Sized> {
    data: *mut T,
    hold: OwnedHold<T>,
}

// SAFETY: G2: it is exclusive access, and a share in the lock. T is Sync as well because
// readers may follow by `downgrade`.
unsafe impl<T: ?Sized + Send + Sync> Send for OwnedRwLockWriteGuard<T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Send + Sync> Sync for OwnedRwLockWriteGuard<T> {}

/// Exclusive access to a part of the value of a [`RwLock`]. From
/// [`OwnedRwLockWriteGuard::map`].
///
/// It can't be downgraded: what is reached through a `&mut` may not be fit to be shared.
#[clippy::has_significant_drop]
pub struct OwnedRwLockMappedWriteGuard<T: ?Sized, U: ?Sized = T> {
    data: *mut U,
    hold: OwnedHold<T>,
}

// SAFETY: G2: it is exclusive access, and a share in the lock.
unsafe impl<T, U> Send for OwnedRwLockMappedWriteGuard<T, U>
where
    T: ?Sized + Send + Sync,
    U: ?Sized + Send + Sync,
{
}
// SAFETY: as above.
unsafe impl<T, U> Sync for OwnedRwLockMappedWriteGuard<T, U>
where
    T: ?Sized + Send + Sync,
    U: ?Sized + Send + Sync,
{
}

impl<T: ?Sized> OwnedRwLockWriteGuard<T> {
    #[inline]
    pub(super) fn new(hold: OwnedHold<T>) -> Self {
        Self { data: hold.lock.pointer_mut(), hold }
    }

    fn pointer(&self) -> *const T {
        self.data
    }

    fn pointer_mut(&mut self) -> *mut T {
        self.data
    }

    /// Keeps the access to a part of the value.
    ///
    /// A function and not a method, as the value may have a method of that name.
    #[inline]
    pub fn map<F, U: ?Sized>(mut this: Self, f: F) -> OwnedRwLockMappedWriteGuard<T, U>
    where
        F: FnOnce(&mut T) -> &mut U,
    {
        let data = &raw mut *f(&mut *this);
        OwnedRwLockMappedWriteGuard { data, hold: this.hold }
    }

    /// As [`downgrade`](Self::downgrade), to a part of the value. `f` runs while the
    /// access is still exclusive.
    #[inline]
    pub fn downgrade_map<F, U: ?Sized>(this: Self, f: F) -> OwnedRwLockReadGuard<T, U>
    where
        F: FnOnce(&T) -> &U,
    {
        let data = &raw const *f(&*this);
        OwnedRwLockReadGuard::of_part(data, this.hold.downgrade())
    }

    /// As [`map`](Self::map), if there is such a part.
    ///
    /// # Errors
    ///
    /// The guard as it was, if `f` answers None.
    #[inline]
    pub fn try_map<F, U: ?Sized>(
        mut this: Self,
        f: F,
    ) -> Result<OwnedRwLockMappedWriteGuard<T, U>, Self>
    where
        F: FnOnce(&mut T) -> Option<&mut U>,
    {
        let data = match f(&mut *this) {
            Some(data) => &raw mut *data,
            None => return Err(this),
        };
        Ok(OwnedRwLockMappedWriteGuard { data, hold: this.hold })
    }

    /// As [`downgrade_map`](Self::downgrade_map), if there is such a part.
    ///
    /// # Errors
    ///
    /// The guard as it was, if `f` answers None.
    #[inline]
    pub fn try_downgrade_map<F, U: ?Sized>(
        this: Self,
        f: F,
    ) -> Result<OwnedRwLockReadGuard<T, U>, Self>
    where
        F: FnOnce(&T) -> Option<&U>,
    {
        let data = match f(&*this) {
            Some(data) => &raw const *data,
            None => return Err(this),
        };
        Ok(OwnedRwLockReadGuard::of_part(data, this.hold.downgrade()))
    }

    /// As a guard for a part that is the whole value: for code that takes both.
    #[inline]
    pub fn into_mapped(this: Self) -> OwnedRwLockMappedWriteGuard<T> {
        OwnedRwLockMappedWriteGuard { data: this.data, hold: this.hold }
    }

    /// From exclusive to shared access, without anybody writing in between. Readers in
    /// front of those who wait come in as well.
    pub fn downgrade(self) -> OwnedRwLockReadGuard<T> {
        OwnedRwLockReadGuard::of_part(self.data, self.hold.downgrade())
    }

    /// The lock it is access to.
    ///
    /// A function and not a method, as the value may have a method of that name.
    #[inline]
    pub fn rwlock(this: &Self) -> &Arc<RwLock<T>> {
        &this.hold.lock
    }
}

guard_traits! { exclusive OwnedRwLockWriteGuard<T>, [T: ?Sized] => T }

impl<T: ?Sized, U: ?Sized> OwnedRwLockMappedWriteGuard<T, U> {
    fn pointer(&self) -> *const U {
        self.data
    }

    fn pointer_mut(&mut self) -> *mut U {
        self.data
    }

    /// Keeps the access to a part of the part.
    #[inline]
    pub fn map<F, V: ?Sized>(mut this: Self, f: F) -> OwnedRwLockMappedWriteGuard<T, V>
    where
        F: FnOnce(&mut U) -> &mut V,
    {
        let data = &raw mut *f(&mut *this);
        OwnedRwLockMappedWriteGuard { data, hold: this.hold }
    }

    /// As [`map`](Self::map), if there is such a part.
    ///
    /// # Errors
    ///
    /// The guard as it was, if `f` answers None.
    #[inline]
    pub fn try_map<F, V: ?Sized>(
        mut this: Self,
        f: F,
    ) -> Result<OwnedRwLockMappedWriteGuard<T, V>, Self>
    where
        F: FnOnce(&mut U) -> Option<&mut V>,
    {
        let data = match f(&mut *this) {
            Some(data) => &raw mut *data,
            None => return Err(this),
        };
        Ok(OwnedRwLockMappedWriteGuard { data, hold: this.hold })
    }

    /// The lock it is access to.
    ///
    /// A function and not a method, as the value may have a method of that name.
    #[inline]
    pub fn rwlock(this: &Self) -> &Arc<RwLock<T>> {
        &this.hold.lock
    }
}

guard_traits! { exclusive OwnedRwLockMappedWriteGuard<T, U>, [T: ?Sized, U: ?Sized] => U }
