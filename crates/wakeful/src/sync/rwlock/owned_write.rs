//! Exclusive guards that keep the reader-writer lock alive through an `Arc`.

use super::raw::OwnedRawGuard;
use super::{OwnedRwLockReadGuard, RwLock};
use crate::sync::guard_macros::guard_traits;
use std::sync::Arc;

/// Owned exclusive guard of a [`RwLock`]: keeps the lock alive, and releases it when dropped.
///
/// Returned by [`RwLock::write_owned`] and [`RwLock::try_write_owned`]. The guard borrows nothing,
/// so it can be moved into a spawned task.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use wakeful::sync::RwLock;
///
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() {
/// let lock = Arc::new(RwLock::new(1));
/// let mut writer = lock.clone().write_owned().await;
/// wakeful::spawn(async move { *writer += 1 }).await.unwrap();
/// assert_eq!(*lock.read().await, 2);
/// # }
/// ```
#[clippy::has_significant_drop]
pub struct OwnedRwLockWriteGuard<T: ?Sized> {
    data: *mut T,
    raw_guard: OwnedRawGuard<T>,
}

// SAFETY: GUARD-2: the guard is exclusive access to a `T`, and an `Arc<RwLock<T>>`. `T: Sync` is
// needed because `downgrade` lets readers on other threads in.
unsafe impl<T: ?Sized + Send + Sync> Send for OwnedRwLockWriteGuard<T> {}
// SAFETY: GUARD-2: a reference to the guard gives access like `&T`, and shares an `Arc<RwLock<T>>`.
unsafe impl<T: ?Sized + Send + Sync> Sync for OwnedRwLockWriteGuard<T> {}

/// Owned exclusive guard of a [`RwLock`] that gives access to a part of the value.
///
/// Returned by [`OwnedRwLockWriteGuard::map`]. The guard releases the lock when dropped. It can't
/// be downgraded: `f` may have reached its part through `&mut T`, for example with
/// `Mutex::get_mut`. Other readers could then change that part through `&T`.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use wakeful::sync::{OwnedRwLockWriteGuard, RwLock};
///
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() {
/// let lock = Arc::new(RwLock::new((1, "one")));
/// let writer = lock.clone().write_owned().await;
/// let mut number = OwnedRwLockWriteGuard::map(writer, |pair| &mut pair.0);
/// wakeful::spawn(async move { *number = 2 }).await.unwrap();
/// assert_eq!(lock.read().await.0, 2);
/// # }
/// ```
#[clippy::has_significant_drop]
pub struct OwnedRwLockMappedWriteGuard<T: ?Sized, U: ?Sized = T> {
    data: *mut U,
    raw_guard: OwnedRawGuard<T>,
}

// SAFETY: GUARD-2: the guard is exclusive access to a `U`, and an `Arc<RwLock<T>>`.
unsafe impl<T, U> Send for OwnedRwLockMappedWriteGuard<T, U>
where
    T: ?Sized + Send + Sync,
    U: ?Sized + Send + Sync,
{
}
// SAFETY: GUARD-2: a reference to the guard gives access like `&U`, and shares an `Arc<RwLock<T>>`.
unsafe impl<T, U> Sync for OwnedRwLockMappedWriteGuard<T, U>
where
    T: ?Sized + Send + Sync,
    U: ?Sized + Send + Sync,
{
}

impl<T: ?Sized> OwnedRwLockWriteGuard<T> {
    #[inline]
    pub(super) fn new(raw_guard: OwnedRawGuard<T>) -> Self {
        Self { data: raw_guard.lock.pointer_mut(), raw_guard }
    }

    fn pointer(&self) -> *const T {
        self.data
    }

    fn pointer_mut(&mut self) -> *mut T {
        self.data
    }

    /// Narrows the guard to a part of the value.
    ///
    /// The lock stays held for writing. This is an associated function so that it does not shadow a
    /// method of the value.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use wakeful::sync::{OwnedRwLockWriteGuard, RwLock};
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let pair = Arc::new(RwLock::new((1, "one")));
    /// let writer = pair.clone().write_owned().await;
    /// let mut number = OwnedRwLockWriteGuard::map(writer, |pair| &mut pair.0);
    /// *number = 2;
    /// drop(number);
    /// assert_eq!(*pair.read().await, (2, "one"));
    /// # }
    /// ```
    #[inline]
    pub fn map<F, U: ?Sized>(mut this: Self, f: F) -> OwnedRwLockMappedWriteGuard<T, U>
    where
        F: FnOnce(&mut T) -> &mut U,
    {
        let data = &raw mut *f(&mut *this);
        OwnedRwLockMappedWriteGuard { data, raw_guard: this.raw_guard }
    }

    /// Downgrades to a shared guard of a part of the value.
    ///
    /// `f` runs while the access is still exclusive. No writer can acquire the lock in between.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use wakeful::sync::{OwnedRwLockWriteGuard, RwLock};
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let pair = Arc::new(RwLock::new((1, "one")));
    /// let writer = pair.clone().write_owned().await;
    /// let name = OwnedRwLockWriteGuard::downgrade_map(writer, |pair| &pair.1);
    /// assert_eq!(*name, "one");
    /// assert!(pair.try_read().is_ok());
    /// # }
    /// ```
    #[inline]
    pub fn downgrade_map<F, U: ?Sized>(this: Self, f: F) -> OwnedRwLockReadGuard<T, U>
    where
        F: FnOnce(&T) -> &U,
    {
        let data = &raw const *f(&*this);
        OwnedRwLockReadGuard::of_part(data, this.raw_guard.downgrade())
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
    /// use wakeful::sync::{OwnedRwLockWriteGuard, RwLock};
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let list = Arc::new(RwLock::new(vec![1, 2]));
    /// let writer = list.write_owned().await;
    /// let writer = OwnedRwLockWriteGuard::try_map(writer, |list| list.get_mut(5)).unwrap_err();
    /// assert_eq!(writer.len(), 2);
    /// # }
    /// ```
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
        Ok(OwnedRwLockMappedWriteGuard { data, raw_guard: this.raw_guard })
    }

    /// Downgrades to a shared guard of a part of the value that may be absent.
    ///
    /// # Errors
    ///
    /// Returns the unchanged exclusive guard if `f` returns `None`.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use wakeful::sync::{OwnedRwLockWriteGuard, RwLock};
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let list = Arc::new(RwLock::new(vec![1, 2]));
    /// let writer = list.clone().write_owned().await;
    /// let writer = OwnedRwLockWriteGuard::try_downgrade_map(writer, |list| list.get(5)).unwrap_err();
    /// let first = OwnedRwLockWriteGuard::try_downgrade_map(writer, |list| list.first()).unwrap();
    /// assert_eq!(*first, 1);
    /// assert!(list.try_read().is_ok());
    /// # }
    /// ```
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
        Ok(OwnedRwLockReadGuard::of_part(data, this.raw_guard.downgrade()))
    }

    /// Converts the guard into a mapped guard of the whole value.
    ///
    /// This is for code that handles both kinds of guards as one type.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use wakeful::sync::{OwnedRwLockMappedWriteGuard, OwnedRwLockWriteGuard, RwLock};
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let lock = Arc::new(RwLock::new(1));
    /// let writer = lock.clone().write_owned().await;
    /// let mut mapped: OwnedRwLockMappedWriteGuard<u32> = OwnedRwLockWriteGuard::into_mapped(writer);
    /// *mapped = 2;
    /// drop(mapped);
    /// assert_eq!(*lock.read().await, 2);
    /// # }
    /// ```
    #[inline]
    pub fn into_mapped(this: Self) -> OwnedRwLockMappedWriteGuard<T> {
        OwnedRwLockMappedWriteGuard { data: this.data, raw_guard: this.raw_guard }
    }

    /// Atomically downgrades to a shared guard.
    ///
    /// No writer can acquire the lock in between. Readers at the front of the wait queue are
    /// granted access together with this guard.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use wakeful::sync::RwLock;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let lock = Arc::new(RwLock::new(1));
    /// let mut writer = lock.clone().write_owned().await;
    /// *writer += 1;
    /// let reader = writer.downgrade();
    /// assert_eq!((*reader, *lock.read().await), (2, 2));
    /// # }
    /// ```
    pub fn downgrade(self) -> OwnedRwLockReadGuard<T> {
        OwnedRwLockReadGuard::of_part(self.data, self.raw_guard.downgrade())
    }

    /// Returns the lock that this guard holds.
    ///
    /// This is an associated function so that it does not shadow a method of the value.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use wakeful::sync::{OwnedRwLockWriteGuard, RwLock};
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let lock = Arc::new(RwLock::new(1));
    /// let writer = lock.clone().write_owned().await;
    /// assert!(Arc::ptr_eq(OwnedRwLockWriteGuard::rwlock(&writer), &lock));
    /// # }
    /// ```
    #[inline]
    pub fn rwlock(this: &Self) -> &Arc<RwLock<T>> {
        &this.raw_guard.lock
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

    /// Narrows the guard further, to a part of what it refers to.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use wakeful::sync::{OwnedRwLockMappedWriteGuard, OwnedRwLockWriteGuard, RwLock};
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let lock = Arc::new(RwLock::new(((1, 2), 3)));
    /// let pair = OwnedRwLockWriteGuard::map(lock.write_owned().await, |all| &mut all.0);
    /// let second = OwnedRwLockMappedWriteGuard::map(pair, |pair| &mut pair.1);
    /// assert_eq!(*second, 2);
    /// # }
    /// ```
    #[inline]
    pub fn map<F, V: ?Sized>(mut this: Self, f: F) -> OwnedRwLockMappedWriteGuard<T, V>
    where
        F: FnOnce(&mut U) -> &mut V,
    {
        let data = &raw mut *f(&mut *this);
        OwnedRwLockMappedWriteGuard { data, raw_guard: this.raw_guard }
    }

    /// Narrows the guard to a part that may be absent.
    ///
    /// # Errors
    ///
    /// Returns the unchanged guard if `f` returns `None`.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use wakeful::sync::{OwnedRwLockMappedWriteGuard, OwnedRwLockWriteGuard, RwLock};
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let lock = Arc::new(RwLock::new((vec![1, 2], "list")));
    /// let list = OwnedRwLockWriteGuard::map(lock.write_owned().await, |pair| &mut pair.0);
    /// let first = OwnedRwLockMappedWriteGuard::try_map(list, |list| list.first_mut()).unwrap();
    /// assert_eq!(*first, 1);
    /// # }
    /// ```
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
        Ok(OwnedRwLockMappedWriteGuard { data, raw_guard: this.raw_guard })
    }

    /// Returns the lock that this guard holds.
    ///
    /// This is an associated function so that it does not shadow a method of the value.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use wakeful::sync::{OwnedRwLockMappedWriteGuard, OwnedRwLockWriteGuard, RwLock};
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let lock = Arc::new(RwLock::new((1, 2)));
    /// let writer = lock.clone().write_owned().await;
    /// let first = OwnedRwLockWriteGuard::map(writer, |pair| &mut pair.0);
    /// assert!(Arc::ptr_eq(OwnedRwLockMappedWriteGuard::rwlock(&first), &lock));
    /// # }
    /// ```
    #[inline]
    pub fn rwlock(this: &Self) -> &Arc<RwLock<T>> {
        &this.raw_guard.lock
    }
}

guard_traits! { exclusive OwnedRwLockMappedWriteGuard<T, U>, [T: ?Sized, U: ?Sized] => U }
