//! Exclusive guards that borrow the reader-writer lock.

use super::raw::RawGuard;
use super::{RwLock, RwLockReadGuard};
use crate::sync::guard_macros::guard_traits;
use std::marker::PhantomData;

/// Exclusive guard of a [`RwLock`]; releases the lock when dropped.
///
/// Returned by [`RwLock::write`] and [`RwLock::try_write`].
///
/// # Examples
///
/// ```
/// use wakeful::sync::RwLock;
///
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() {
/// let lock = RwLock::new(vec![1]);
/// {
///     let mut writer = lock.write().await;
///     writer.push(2);
/// } // unlocks
/// assert_eq!(*lock.read().await, [1, 2]);
/// # }
/// ```
#[must_use = "if unused the RwLock will immediately unlock"]
#[clippy::has_significant_drop]
pub struct RwLockWriteGuard<'a, T: ?Sized> {
    data: *mut T,
    raw_guard: RawGuard<'a>,
    _access: PhantomData<&'a mut T>,
}

// SAFETY: GUARD-2: the guard is exclusive access to a `T`. `T: Sync` is needed because `downgrade`
// lets readers on other threads in.
unsafe impl<T: ?Sized + Send + Sync> Send for RwLockWriteGuard<'_, T> {}
// SAFETY: GUARD-2: a reference to the guard gives access like `&T`.
unsafe impl<T: ?Sized + Send + Sync> Sync for RwLockWriteGuard<'_, T> {}

/// Exclusive guard of a [`RwLock`] that gives access to a part of the value.
///
/// Returned by [`RwLockWriteGuard::map`]. The guard releases the lock when dropped. It can't be
/// downgraded: `f` may have reached its part through `&mut T`, for example with `Mutex::get_mut`.
/// Other readers could then change that part through `&T`.
///
/// # Examples
///
/// ```
/// use wakeful::sync::{RwLock, RwLockMappedWriteGuard, RwLockWriteGuard};
///
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() {
/// async fn first(pair: &RwLock<(u32, u32)>) -> RwLockMappedWriteGuard<'_, u32> {
///     RwLockWriteGuard::map(pair.write().await, |pair| &mut pair.0)
/// }
///
/// let pair = RwLock::new((1, 1));
/// *first(&pair).await = 2;
/// assert_eq!(*pair.read().await, (2, 1));
/// # }
/// ```
#[clippy::has_significant_drop]
pub struct RwLockMappedWriteGuard<'a, T: ?Sized> {
    data: *mut T,
    raw_guard: RawGuard<'a>,
    _access: PhantomData<&'a mut T>,
}

// SAFETY: GUARD-2: the guard is exclusive access to a `T`, like `&mut T`.
unsafe impl<T: ?Sized + Send + Sync> Send for RwLockMappedWriteGuard<'_, T> {}
// SAFETY: GUARD-2: a reference to the guard gives access like `&T`.
unsafe impl<T: ?Sized + Send + Sync> Sync for RwLockMappedWriteGuard<'_, T> {}

impl<'a, T: ?Sized> RwLockWriteGuard<'a, T> {
    #[inline]
    pub(super) fn new(lock: &'a RwLock<T>, raw_guard: RawGuard<'a>) -> Self {
        Self { data: lock.pointer_mut(), raw_guard, _access: PhantomData }
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
    /// use wakeful::sync::{RwLock, RwLockWriteGuard};
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let pair = RwLock::new((1, "one"));
    /// let mut number = RwLockWriteGuard::map(pair.write().await, |pair| &mut pair.0);
    /// *number = 2;
    /// drop(number);
    /// assert_eq!(*pair.read().await, (2, "one"));
    /// # }
    /// ```
    #[inline]
    pub fn map<F, U: ?Sized>(mut this: Self, f: F) -> RwLockMappedWriteGuard<'a, U>
    where
        F: FnOnce(&mut T) -> &mut U,
    {
        let data = &raw mut *f(&mut *this);
        RwLockMappedWriteGuard { data, raw_guard: this.raw_guard, _access: PhantomData }
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
    /// use wakeful::sync::{RwLock, RwLockWriteGuard};
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let list = RwLock::new(vec![1, 2]);
    /// let guard = list.write().await;
    /// let guard = RwLockWriteGuard::try_map(guard, |list| list.get_mut(5)).unwrap_err();
    /// assert_eq!(guard.len(), 2);
    /// # }
    /// ```
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
        Ok(RwLockMappedWriteGuard { data, raw_guard: this.raw_guard, _access: PhantomData })
    }

    /// Downgrades to a shared guard of a part of the value.
    ///
    /// `f` runs while the access is still exclusive. No writer can acquire the lock in between.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::{RwLock, RwLockWriteGuard};
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let pair = RwLock::new((1, "one"));
    /// let name = RwLockWriteGuard::downgrade_map(pair.write().await, |pair| &pair.1);
    /// assert_eq!(*name, "one");
    /// assert!(pair.try_read().is_ok());
    /// # }
    /// ```
    #[inline]
    pub fn downgrade_map<F, U: ?Sized>(this: Self, f: F) -> RwLockReadGuard<'a, U>
    where
        F: FnOnce(&T) -> &U,
    {
        let data = &raw const *f(&*this);
        RwLockReadGuard::of_part(data, this.raw_guard.downgrade())
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
    /// use wakeful::sync::{RwLock, RwLockWriteGuard};
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let list = RwLock::new(vec![1, 2]);
    /// let writer = list.write().await;
    /// let writer = RwLockWriteGuard::try_downgrade_map(writer, |list| list.get(5)).unwrap_err();
    /// let first = RwLockWriteGuard::try_downgrade_map(writer, |list| list.first()).unwrap();
    /// assert_eq!(*first, 1);
    /// assert!(list.try_read().is_ok());
    /// # }
    /// ```
    #[inline]
    pub fn try_downgrade_map<F, U: ?Sized>(this: Self, f: F) -> Result<RwLockReadGuard<'a, U>, Self>
    where
        F: FnOnce(&T) -> Option<&U>,
    {
        let data = match f(&*this) {
            Some(data) => &raw const *data,
            None => return Err(this),
        };
        Ok(RwLockReadGuard::of_part(data, this.raw_guard.downgrade()))
    }

    /// Converts the guard into a mapped guard of the whole value.
    ///
    /// This is for code that handles both kinds of guards as one type.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::{RwLock, RwLockMappedWriteGuard, RwLockWriteGuard};
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let lock = RwLock::new(1);
    /// let mut mapped: RwLockMappedWriteGuard<'_, u32> =
    ///     RwLockWriteGuard::into_mapped(lock.write().await);
    /// *mapped = 2;
    /// drop(mapped);
    /// assert_eq!(*lock.read().await, 2);
    /// # }
    /// ```
    #[inline]
    pub fn into_mapped(this: Self) -> RwLockMappedWriteGuard<'a, T> {
        RwLockMappedWriteGuard { data: this.data, raw_guard: this.raw_guard, _access: PhantomData }
    }

    /// Atomically downgrades to a shared guard.
    ///
    /// No writer can acquire the lock in between. Readers at the front of the wait queue are
    /// granted access together with this guard.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::RwLock;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let lock = RwLock::new(1);
    /// let mut writer = lock.write().await;
    /// *writer += 1;
    /// let reader = writer.downgrade();
    /// assert_eq!((*reader, *lock.read().await), (2, 2));
    /// # }
    /// ```
    pub fn downgrade(self) -> RwLockReadGuard<'a, T> {
        RwLockReadGuard::of_part(self.data, self.raw_guard.downgrade())
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

    /// Narrows the guard further, to a part of what it refers to.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::{RwLock, RwLockMappedWriteGuard, RwLockWriteGuard};
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let lock = RwLock::new(((1, 2), 3));
    /// let pair = RwLockWriteGuard::map(lock.write().await, |all| &mut all.0);
    /// let second = RwLockMappedWriteGuard::map(pair, |pair| &mut pair.1);
    /// assert_eq!(*second, 2);
    /// # }
    /// ```
    #[inline]
    pub fn map<F, U: ?Sized>(mut this: Self, f: F) -> RwLockMappedWriteGuard<'a, U>
    where
        F: FnOnce(&mut T) -> &mut U,
    {
        let data = &raw mut *f(&mut *this);
        RwLockMappedWriteGuard { data, raw_guard: this.raw_guard, _access: PhantomData }
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
    /// use wakeful::sync::{RwLock, RwLockMappedWriteGuard, RwLockWriteGuard};
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let lock = RwLock::new((vec![1, 2], "list"));
    /// let list = RwLockWriteGuard::map(lock.write().await, |pair| &mut pair.0);
    /// let first = RwLockMappedWriteGuard::try_map(list, |list| list.first_mut()).unwrap();
    /// assert_eq!(*first, 1);
    /// # }
    /// ```
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
        Ok(RwLockMappedWriteGuard { data, raw_guard: this.raw_guard, _access: PhantomData })
    }
}

guard_traits! { exclusive RwLockMappedWriteGuard<'_, T>, [T: ?Sized] => T }
