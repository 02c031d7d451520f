//! Exclusive access to a read-write lock's value, or to a part of it.

use super::raw::Hold;
use super::{RwLock, RwLockReadGuard};
use crate::sync::guard_macros::guard_traits;
use std::marker::PhantomData;

/// Exclusive access to the value of a [`RwLock`]. Let go when it is dropped.
#[must_use = "if unused the RwLock will immediately unlock"]
#[clippy::has_significant_drop]
pub struct RwLockWriteGuard<'a, T: ?Sized> {
    data: *mut T,
    hold: Hold<'a>,
    _access: PhantomData<&'a mut T>,
}

// SAFETY: G2: it is exclusive access. T is Sync as well because readers may follow by
// `downgrade`.
unsafe impl<T: ?Sized + Send + Sync> Send for RwLockWriteGuard<'_, T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Send + Sync> Sync for RwLockWriteGuard<'_, T> {}

/// Exclusive access to a part of the value of a [`RwLock`]. From
/// [`RwLockWriteGuard::map`].
///
/// It can't be downgraded: what is reached through a `&mut` may not be fit to be shared.
#[clippy::has_significant_drop]
pub struct RwLockMappedWriteGuard<'a, T: ?Sized> {
    data: *mut T,
    hold: Hold<'a>,
    _access: PhantomData<&'a mut T>,
}

// SAFETY: G2: it is exclusive access.
unsafe impl<T: ?Sized + Send + Sync> Send for RwLockMappedWriteGuard<'_, T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Send + Sync> Sync for RwLockMappedWriteGuard<'_, T> {}

impl<'a, T: ?Sized> RwLockWriteGuard<'a, T> {
    #[inline]
    pub(super) fn new(lock: &'a RwLock<T>, hold: Hold<'a>) -> Self {
        Self { data: lock.pointer_mut(), hold, _access: PhantomData }
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
    pub fn map<F, U: ?Sized>(mut this: Self, f: F) -> RwLockMappedWriteGuard<'a, U>
    where
        F: FnOnce(&mut T) -> &mut U,
    {
        let data = &raw mut *f(&mut *this);
        RwLockMappedWriteGuard { data, hold: this.hold, _access: PhantomData }
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
    ) -> Result<RwLockMappedWriteGuard<'a, U>, Self>
    where
        F: FnOnce(&mut T) -> Option<&mut U>,
    {
        let data = match f(&mut *this) {
            Some(data) => &raw mut *data,
            None => return Err(this),
        };
        Ok(RwLockMappedWriteGuard { data, hold: this.hold, _access: PhantomData })
    }

    /// As [`downgrade`](Self::downgrade), to a part of the value. `f` runs while the
    /// access is still exclusive.
    #[inline]
    pub fn downgrade_map<F, U: ?Sized>(this: Self, f: F) -> RwLockReadGuard<'a, U>
    where
        F: FnOnce(&T) -> &U,
    {
        let data = &raw const *f(&*this);
        RwLockReadGuard::of_part(data, this.hold.downgrade())
    }

    /// As [`downgrade_map`](Self::downgrade_map), if there is such a part.
    ///
    /// # Errors
    ///
    /// The guard as it was, if `f` answers None.
    #[inline]
    pub fn try_downgrade_map<F, U: ?Sized>(this: Self, f: F) -> Result<RwLockReadGuard<'a, U>, Self>
    where
        F: FnOnce(&T) -> Option<&U>,
    {
        let data = match f(&*this) {
            Some(data) => &raw const *data,
            None => return Err(this),
        };
        Ok(RwLockReadGuard::of_part(data, this.hold.downgrade()))
    }

    /// As a guard for a part that is the whole value: for code that takes both.
    #[inline]
    pub fn into_mapped(this: Self) -> RwLockMappedWriteGuard<'a, T> {
        RwLockMappedWriteGuard { data: this.data, hold: this.hold, _access: PhantomData }
    }

    /// From exclusive to shared access, without anybody writing in between. Readers in
    /// front of those who wait come in as well.
    pub fn downgrade(self) -> RwLockReadGuard<'a, T> {
        RwLockReadGuard::of_part(self.data, self.hold.downgrade())
    }
}

guard_traits! { exclusive RwLockWriteGuard<'_, T>, [T: ?Sized] => T }

impl<'a, T: ?Sized> RwLockMappedWriteGuard<'a, T> {
    fn pointer(&self) -> *const T {
        self.data
    }

    fn pointer_mut(&mut self) -> *mut T {
        self.data
    }

    /// Keeps the access to a part of the part.
    #[inline]
    pub fn map<F, U: ?Sized>(mut this: Self, f: F) -> RwLockMappedWriteGuard<'a, U>
    where
        F: FnOnce(&mut T) -> &mut U,
    {
        let data = &raw mut *f(&mut *this);
        RwLockMappedWriteGuard { data, hold: this.hold, _access: PhantomData }
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
    ) -> Result<RwLockMappedWriteGuard<'a, U>, Self>
    where
        F: FnOnce(&mut T) -> Option<&mut U>,
    {
        let data = match f(&mut *this) {
            Some(data) => &raw mut *data,
            None => return Err(this),
        };
        Ok(RwLockMappedWriteGuard { data, hold: this.hold, _access: PhantomData })
    }
}

guard_traits! { exclusive RwLockMappedWriteGuard<'_, T>, [T: ?Sized] => T }
