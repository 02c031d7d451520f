//! Mutex guards that keep the mutex alive through an `Arc`.

use super::Mutex;
use crate::sync::guard_macros::guard_traits;
use std::marker::PhantomData;
use std::sync::Arc;

/// Owned guard of a locked [`Mutex`]: keeps the mutex alive, and unlocks it when dropped.
///
/// Returned by [`Mutex::lock_owned`] and [`Mutex::try_lock_owned`]. The guard borrows nothing, so
/// it can be moved into a spawned task.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use wakeful::sync::Mutex;
///
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() {
/// let mutex = Arc::new(Mutex::new(1));
/// let mut guard = mutex.clone().lock_owned().await;
/// let task = wakeful::spawn(async move {
///     *guard += 1;
/// }); // the task unlocks
/// task.await.unwrap();
/// assert_eq!(*mutex.lock().await, 2);
/// # }
/// ```
#[clippy::has_significant_drop]
pub struct OwnedMutexGuard<T: ?Sized> {
    raw_guard: OwnedRawGuard<T>,
    /// Removes the auto traits of the `Arc`; the impls below add those of exclusive access.
    _access: PhantomData<*mut T>,
}

// SAFETY: GUARD-2: the guard is exclusive access to a `T`, and an `Arc<Mutex<T>>`, which is Send
// for `T: Send`.
unsafe impl<T: ?Sized + Send> Send for OwnedMutexGuard<T> {}
// SAFETY: GUARD-2: a reference to the guard gives access like `&T`, and shares an `Arc<Mutex<T>>`.
unsafe impl<T: ?Sized + Send + Sync> Sync for OwnedMutexGuard<T> {}

/// Owned guard of a locked [`Mutex`] that gives access to a part of the value; unlocks when
/// dropped.
///
/// Returned by [`OwnedMutexGuard::map`] and [`OwnedMutexGuard::try_map`]. The guard keeps the mutex
/// alive.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use wakeful::sync::{Mutex, OwnedMutexGuard};
///
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() {
/// let mutex = Arc::new(Mutex::new((1, "one")));
/// let mut number = OwnedMutexGuard::map(mutex.clone().lock_owned().await, |pair| &mut pair.0);
/// wakeful::spawn(async move { *number = 2 }).await.unwrap();
/// assert_eq!(mutex.lock().await.0, 2);
/// # }
/// ```
#[must_use = "if unused the Mutex will immediately unlock"]
#[clippy::has_significant_drop]
pub struct OwnedMappedMutexGuard<T: ?Sized, U: ?Sized = T> {
    data: *mut U,
    raw_guard: OwnedRawGuard<T>,
}

// SAFETY: GUARD-2: the guard is exclusive access to a `U`, and an `Arc<Mutex<T>>`, which is Send
// for `T: Send`.
unsafe impl<T: ?Sized + Send, U: ?Sized + Send> Send for OwnedMappedMutexGuard<T, U> {}
// SAFETY: GUARD-2: a reference to the guard gives access like `&U`, and shares an `Arc<Mutex<T>>`.
unsafe impl<T, U> Sync for OwnedMappedMutexGuard<T, U>
where
    T: ?Sized + Send + Sync,
    U: ?Sized + Send + Sync,
{
}

/// Unlocks a mutex when dropped; gives no access to its value.
struct OwnedRawGuard<T: ?Sized>(Arc<Mutex<T>>);

impl<T: ?Sized> Drop for OwnedRawGuard<T> {
    #[inline]
    fn drop(&mut self) {
        self.0.raw.unlock();
    }
}

impl<T: ?Sized> OwnedMutexGuard<T> {
    /// Creates the guard of a lock that the caller has just acquired.
    #[inline]
    pub(super) fn new(mutex: Arc<Mutex<T>>) -> Self {
        mutex.raw.waiters.record.mark_movable();
        Self { raw_guard: OwnedRawGuard(mutex), _access: PhantomData }
    }

    fn pointer(&self) -> *const T {
        self.raw_guard.0.value.with(|value| value)
    }

    fn pointer_mut(&mut self) -> *mut T {
        self.raw_guard.0.value.with_mut(|value| value)
    }

    /// Narrows the guard to a part of the value.
    ///
    /// The mutex stays locked. This is an associated function so that it does not shadow a method
    /// of the value: call it as `OwnedMutexGuard::map(guard, ..)`.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use wakeful::sync::{Mutex, OwnedMutexGuard};
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let pair = Arc::new(Mutex::new((1, "one")));
    /// let mut number = OwnedMutexGuard::map(pair.clone().lock_owned().await, |pair| &mut pair.0);
    /// *number = 2;
    /// drop(number);
    /// assert_eq!(*pair.lock().await, (2, "one"));
    /// # }
    /// ```
    #[inline]
    pub fn map<U, F>(mut this: Self, f: F) -> OwnedMappedMutexGuard<T, U>
    where
        U: ?Sized,
        F: FnOnce(&mut T) -> &mut U,
    {
        let data = &raw mut *f(&mut *this);
        OwnedMappedMutexGuard { data, raw_guard: this.raw_guard }
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
    /// use wakeful::sync::{Mutex, OwnedMutexGuard};
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let list = Arc::new(Mutex::new(vec![1, 2]));
    /// let guard = list.lock_owned().await;
    /// let guard = OwnedMutexGuard::try_map(guard, |list| list.get_mut(5)).unwrap_err();
    /// assert_eq!(guard.len(), 2);
    /// # }
    /// ```
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
        Ok(OwnedMappedMutexGuard { data, raw_guard: this.raw_guard })
    }

    /// Returns the mutex that this guard has locked.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use wakeful::sync::{Mutex, OwnedMutexGuard};
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let mutex = Arc::new(Mutex::new(1));
    /// let guard = mutex.clone().lock_owned().await;
    /// assert!(Arc::ptr_eq(OwnedMutexGuard::mutex(&guard), &mutex));
    /// # }
    /// ```
    #[inline]
    pub fn mutex(this: &Self) -> &Arc<Mutex<T>> {
        &this.raw_guard.0
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

    /// Narrows the guard further, to a part of what it refers to.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use wakeful::sync::{Mutex, OwnedMappedMutexGuard, OwnedMutexGuard};
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let mutex = Arc::new(Mutex::new(((1, 2), 3)));
    /// let pair = OwnedMutexGuard::map(mutex.lock_owned().await, |all| &mut all.0);
    /// let second = OwnedMappedMutexGuard::map(pair, |pair| &mut pair.1);
    /// assert_eq!(*second, 2);
    /// # }
    /// ```
    #[inline]
    pub fn map<S, F>(mut this: Self, f: F) -> OwnedMappedMutexGuard<T, S>
    where
        S: ?Sized,
        F: FnOnce(&mut U) -> &mut S,
    {
        let data = &raw mut *f(&mut *this);
        OwnedMappedMutexGuard { data, raw_guard: this.raw_guard }
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
    /// use wakeful::sync::{Mutex, OwnedMappedMutexGuard, OwnedMutexGuard};
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let mutex = Arc::new(Mutex::new((vec![1, 2], "list")));
    /// let list = OwnedMutexGuard::map(mutex.lock_owned().await, |pair| &mut pair.0);
    /// let first = OwnedMappedMutexGuard::try_map(list, |list| list.first_mut()).unwrap();
    /// assert_eq!(*first, 1);
    /// # }
    /// ```
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
        Ok(OwnedMappedMutexGuard { data, raw_guard: this.raw_guard })
    }
}

guard_traits! { exclusive OwnedMappedMutexGuard<T, U>, [T: ?Sized, U: ?Sized] => U }
