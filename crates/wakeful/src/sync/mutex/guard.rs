//! Mutex guards that borrow the mutex.

use super::Mutex;
use super::raw::RawMutex;
use crate::sync::guard_macros::guard_traits;
use std::marker::PhantomData;
use std::mem;

/// Guard of a locked [`Mutex`]: gives access to the value, and unlocks when dropped.
///
/// Returned by [`Mutex::lock`] and [`Mutex::try_lock`]. The guard may be held across an `.await`,
/// and moved to another task.
///
/// # Examples
///
/// ```
/// use wakeful::sync::Mutex;
///
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() {
/// let mutex = Mutex::new(vec![1]);
/// {
///     let mut guard = mutex.lock().await;
///     guard.push(2);
/// } // unlocks
/// assert_eq!(*mutex.lock().await, [1, 2]);
/// # }
/// ```
#[must_use = "if unused the Mutex will immediately unlock"]
#[clippy::has_significant_drop]
pub struct MutexGuard<'a, T: ?Sized> {
    mutex: &'a Mutex<T>,
    /// Restricts the guard's auto traits to those of `&mut T`.
    _access: PhantomData<&'a mut T>,
}

/// Guard of a locked [`Mutex`] that gives access to a part of the value; unlocks when dropped.
///
/// Returned by [`MutexGuard::map`] and [`MutexGuard::try_map`].
///
/// # Examples
///
/// ```
/// use wakeful::sync::{MappedMutexGuard, Mutex, MutexGuard};
///
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() {
/// struct Account {
///     owner: String,
///     balance: u32,
/// }
///
/// async fn balance(account: &Mutex<Account>) -> MappedMutexGuard<'_, u32> {
///     MutexGuard::map(account.lock().await, |account| &mut account.balance)
/// }
///
/// let account = Mutex::new(Account { owner: String::from("ada"), balance: 1 });
/// *balance(&account).await += 1;
/// assert_eq!(account.lock().await.balance, 2);
/// # assert_eq!(account.lock().await.owner, "ada");
/// # }
/// ```
#[must_use = "if unused the Mutex will immediately unlock"]
#[clippy::has_significant_drop]
pub struct MappedMutexGuard<'a, T: ?Sized> {
    data: *mut T,
    raw_guard: RawGuard<'a>,
    _access: PhantomData<&'a mut T>,
}

// SAFETY: GUARD-2: the guard is exclusive access to a `T`, like `&mut T`.
unsafe impl<T: ?Sized + Send> Send for MappedMutexGuard<'_, T> {}
// SAFETY: GUARD-2: a `&MappedMutexGuard` gives access like `&T`.
unsafe impl<T: ?Sized + Sync> Sync for MappedMutexGuard<'_, T> {}

/// Unlocks a mutex when dropped; gives no access to its value.
struct RawGuard<'a>(&'a RawMutex);

impl Drop for RawGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.unlock();
    }
}

impl<'a, T: ?Sized> MutexGuard<'a, T> {
    /// Creates the guard of a lock that the caller has just acquired.
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

    fn into_raw_guard(self) -> RawGuard<'a> {
        let raw_guard = RawGuard(&self.mutex.raw);
        mem::forget(self);
        raw_guard
    }

    /// Narrows the guard to a part of the value.
    ///
    /// The mutex stays locked. This is an associated function so that it does not shadow a method
    /// of the value: call it as `MutexGuard::map(guard, ..)`.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::{Mutex, MutexGuard};
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let pair = Mutex::new((1, "one"));
    /// let mut number = MutexGuard::map(pair.lock().await, |pair| &mut pair.0);
    /// *number = 2;
    /// drop(number);
    /// assert_eq!(*pair.lock().await, (2, "one"));
    /// # }
    /// ```
    #[inline]
    pub fn map<U, F>(mut this: Self, f: F) -> MappedMutexGuard<'a, U>
    where
        U: ?Sized,
        F: FnOnce(&mut T) -> &mut U,
    {
        let data = &raw mut *f(&mut *this);
        MappedMutexGuard { data, raw_guard: this.into_raw_guard(), _access: PhantomData }
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
    /// use wakeful::sync::{Mutex, MutexGuard};
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let list = Mutex::new(vec![1, 2]);
    /// let guard = MutexGuard::try_map(list.lock().await, |list| list.get_mut(5)).unwrap_err();
    /// let second = MutexGuard::try_map(guard, |list| list.get_mut(1)).unwrap();
    /// assert_eq!(*second, 2);
    /// # }
    /// ```
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
        Ok(MappedMutexGuard { data, raw_guard: this.into_raw_guard(), _access: PhantomData })
    }

    /// Returns the mutex that this guard has locked.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::{Mutex, MutexGuard};
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let mutex = Mutex::new(1);
    /// let guard = mutex.lock().await;
    /// assert!(MutexGuard::mutex(&guard).try_lock().is_err());
    /// # }
    /// ```
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

    /// Narrows the guard further, to a part of what it refers to.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::{MappedMutexGuard, Mutex, MutexGuard};
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let mutex = Mutex::new(((1, 2), 3));
    /// let pair = MutexGuard::map(mutex.lock().await, |all| &mut all.0);
    /// let second = MappedMutexGuard::map(pair, |pair| &mut pair.1);
    /// assert_eq!(*second, 2);
    /// # }
    /// ```
    #[inline]
    pub fn map<U, F>(mut this: Self, f: F) -> MappedMutexGuard<'a, U>
    where
        U: ?Sized,
        F: FnOnce(&mut T) -> &mut U,
    {
        let data = &raw mut *f(&mut *this);
        MappedMutexGuard { data, raw_guard: this.raw_guard, _access: PhantomData }
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
    /// use wakeful::sync::{MappedMutexGuard, Mutex, MutexGuard};
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let mutex = Mutex::new((vec![1, 2], "list"));
    /// let list = MutexGuard::map(mutex.lock().await, |pair| &mut pair.0);
    /// let first = MappedMutexGuard::try_map(list, |list| list.first_mut()).unwrap();
    /// assert_eq!(*first, 1);
    /// # }
    /// ```
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
        Ok(MappedMutexGuard { data, raw_guard: this.raw_guard, _access: PhantomData })
    }
}

guard_traits! { exclusive MappedMutexGuard<'_, T>, [T: ?Sized] => T }
