//! Shared guards of a reader-writer lock.

use super::RwLock;
use super::raw::{OwnedRawGuard, RawGuard};
use crate::sync::guard_macros::guard_traits;
use std::marker::PhantomData;
use std::sync::Arc;

/// Shared guard of a [`RwLock`], for the whole value or a part of it; releases the lock when
/// dropped.
///
/// Returned by [`RwLock::read`] and [`RwLock::try_read`].
///
/// # Examples
///
/// ```
/// use wakeful::sync::RwLock;
///
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() {
/// let lock = RwLock::new(vec![1, 2]);
/// let first = lock.read().await;
/// let second = lock.read().await;
/// assert_eq!(first.len() + second.len(), 4);
/// # }
/// ```
#[must_use = "if unused the RwLock will immediately unlock"]
#[clippy::has_significant_drop]
pub struct RwLockReadGuard<'a, T: ?Sized> {
    data: *const T,
    raw_guard: RawGuard<'a>,
    _access: PhantomData<&'a T>,
}

// SAFETY: GUARD-2: the guard is shared access to a `T`, like `&T`.
unsafe impl<T: ?Sized + Sync> Send for RwLockReadGuard<'_, T> {}
// SAFETY: GUARD-2: a reference to the guard gives access like `&T`.
unsafe impl<T: ?Sized + Send + Sync> Sync for RwLockReadGuard<'_, T> {}

/// Owned shared guard of a [`RwLock`]: keeps the lock alive, and releases it when dropped.
///
/// Returned by [`RwLock::read_owned`] and [`RwLock::try_read_owned`]. The guard borrows nothing, so
/// it can be moved into a spawned task. After [`map`](Self::map), it gives access to a part of the
/// value.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use wakeful::sync::RwLock;
///
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() {
/// let lock = Arc::new(RwLock::new(vec![1, 2]));
/// let reader = lock.clone().read_owned().await;
/// let sum = wakeful::spawn(async move { reader.iter().sum::<u32>() });
/// assert_eq!(sum.await.unwrap(), 3);
/// # }
/// ```
#[clippy::has_significant_drop]
pub struct OwnedRwLockReadGuard<T: ?Sized, U: ?Sized = T> {
    data: *const U,
    raw_guard: OwnedRawGuard<T>,
}

// SAFETY: GUARD-2: the guard is shared access to a `U`, and an `Arc<RwLock<T>>`, whose last owner
// drops the value (`T: Send`).
unsafe impl<T: ?Sized + Send + Sync, U: ?Sized + Sync> Send for OwnedRwLockReadGuard<T, U> {}
// SAFETY: GUARD-2: a reference to the guard gives access like `&U`, and shares an `Arc<RwLock<T>>`.
unsafe impl<T, U> Sync for OwnedRwLockReadGuard<T, U>
where
    T: ?Sized + Send + Sync,
    U: ?Sized + Send + Sync,
{
}

impl<'a, T: ?Sized> RwLockReadGuard<'a, T> {
    #[inline]
    pub(super) fn new(lock: &'a RwLock<T>, raw_guard: RawGuard<'a>) -> Self {
        Self::of_part(lock.pointer(), raw_guard)
    }

    /// Creates a guard of a part: `data` points into the value of the lock that `raw_guard` holds
    /// (GUARD-1).
    #[inline]
    pub(super) fn of_part(data: *const T, raw_guard: RawGuard<'a>) -> Self {
        Self { data, raw_guard, _access: PhantomData }
    }

    fn pointer(&self) -> *const T {
        self.data
    }

    /// Narrows the guard to a part of the value.
    ///
    /// The lock stays held for reading. This is an associated function so that it does not shadow a
    /// method of the value.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::{RwLock, RwLockReadGuard};
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let pair = RwLock::new((1, "one"));
    /// let name = RwLockReadGuard::map(pair.read().await, |pair| &pair.1);
    /// assert_eq!(*name, "one");
    /// # }
    /// ```
    #[inline]
    pub fn map<F, U: ?Sized>(this: Self, f: F) -> RwLockReadGuard<'a, U>
    where
        F: FnOnce(&T) -> &U,
    {
        let data = &raw const *f(&*this);
        RwLockReadGuard::of_part(data, this.raw_guard)
    }

    /// Narrows the guard to a part of the value that may be absent.
    ///
    /// # Errors
    ///
    /// Returns the unchanged guard if `f` returns `None`.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::{RwLock, RwLockReadGuard};
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let list = RwLock::new(vec![1, 2]);
    /// let guard = RwLockReadGuard::try_map(list.read().await, |list| list.get(5)).unwrap_err();
    /// let second = RwLockReadGuard::try_map(guard, |list| list.get(1)).unwrap();
    /// assert_eq!(*second, 2);
    /// # }
    /// ```
    #[inline]
    pub fn try_map<F, U: ?Sized>(this: Self, f: F) -> Result<RwLockReadGuard<'a, U>, Self>
    where
        F: FnOnce(&T) -> Option<&U>,
    {
        let data = match f(&*this) {
            Some(data) => &raw const *data,
            None => return Err(this),
        };
        Ok(RwLockReadGuard::of_part(data, this.raw_guard))
    }
}

guard_traits! { shared RwLockReadGuard<'_, T>, [T: ?Sized] => T }

impl<T: ?Sized> OwnedRwLockReadGuard<T> {
    #[inline]
    pub(super) fn new(raw_guard: OwnedRawGuard<T>) -> Self {
        Self { data: raw_guard.lock.pointer(), raw_guard }
    }
}

impl<T: ?Sized, U: ?Sized> OwnedRwLockReadGuard<T, U> {
    /// Creates a guard of a part: `data` points into the value of the lock that `raw_guard` holds
    /// (GUARD-1).
    #[inline]
    pub(super) fn of_part(data: *const U, raw_guard: OwnedRawGuard<T>) -> Self {
        Self { data, raw_guard }
    }

    fn pointer(&self) -> *const U {
        self.data
    }

    /// Narrows the guard to a part of the value.
    ///
    /// The lock stays held for reading. This is an associated function so that it does not shadow a
    /// method of the value.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use wakeful::sync::{OwnedRwLockReadGuard, RwLock};
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let pair = Arc::new(RwLock::new((1, "one")));
    /// let name = OwnedRwLockReadGuard::map(pair.read_owned().await, |pair| &pair.1);
    /// assert_eq!(*name, "one");
    /// # }
    /// ```
    #[inline]
    pub fn map<F, V: ?Sized>(this: Self, f: F) -> OwnedRwLockReadGuard<T, V>
    where
        F: FnOnce(&U) -> &V,
    {
        let data = &raw const *f(&*this);
        OwnedRwLockReadGuard::of_part(data, this.raw_guard)
    }

    /// Narrows the guard to a part of the value that may be absent.
    ///
    /// # Errors
    ///
    /// Returns the unchanged guard if `f` returns `None`.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use wakeful::sync::{OwnedRwLockReadGuard, RwLock};
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let list = Arc::new(RwLock::new(vec![1, 2]));
    /// let guard = list.read_owned().await;
    /// let guard = OwnedRwLockReadGuard::try_map(guard, |list| list.get(5)).unwrap_err();
    /// assert_eq!(guard.len(), 2);
    /// # }
    /// ```
    #[inline]
    pub fn try_map<F, V: ?Sized>(this: Self, f: F) -> Result<OwnedRwLockReadGuard<T, V>, Self>
    where
        F: FnOnce(&U) -> Option<&V>,
    {
        let data = match f(&*this) {
            Some(data) => &raw const *data,
            None => return Err(this),
        };
        Ok(OwnedRwLockReadGuard::of_part(data, this.raw_guard))
    }

    /// Returns the lock that this guard holds.
    ///
    /// This is an associated function so that it does not shadow a method of the value.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use wakeful::sync::{OwnedRwLockReadGuard, RwLock};
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let lock = Arc::new(RwLock::new(1));
    /// let reader = lock.clone().read_owned().await;
    /// assert!(Arc::ptr_eq(OwnedRwLockReadGuard::rwlock(&reader), &lock));
    /// # }
    /// ```
    #[inline]
    pub fn rwlock(this: &Self) -> &Arc<RwLock<T>> {
        &this.raw_guard.lock
    }
}

guard_traits! { shared OwnedRwLockReadGuard<T, U>, [T: ?Sized, U: ?Sized] => U }
