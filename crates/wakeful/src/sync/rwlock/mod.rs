//! A reader-writer lock whose guards may be held across an `.await`.
//!
//! - [`raw`]: the lock without the value, built on a semaphore.
//! - [`read`]: shared guards.
//! - [`write`](mod@write) and [`owned_write`]: exclusive guards that borrow the lock, and that keep
//!   it alive.
//! - [`owned`]: methods whose guards keep the lock alive.
//! - [`futures`]: the futures that wait for the lock.
#![allow(unsafe_code)]

mod futures;
mod owned;
mod owned_write;
mod raw;
mod read;
mod write;

pub use owned_write::{OwnedRwLockMappedWriteGuard, OwnedRwLockWriteGuard};
pub use read::{OwnedRwLockReadGuard, RwLockReadGuard};
pub use write::{RwLockMappedWriteGuard, RwLockWriteGuard};

use super::TryLockError;
use crate::sys::sync::{UnsafeCell, const_unless_model};
use crate::task::enter_guard;
use crate::wait::block_on;
use futures::Acquire;
use raw::{Access, RawGuard, RawRwLock};
use std::fmt;
use std::panic::Location;

/// The default and largest limit of concurrent readers.
const MAX_READERS: u32 = u32::MAX >> 3;

/// A reader-writer lock whose guards may be held across an `.await`.
///
/// Any number of tasks can read the value at the same time, or one task can change it. Use it for a
/// value that is read far more often than it is changed. If no guard is held across an `.await`,
/// [`std::sync::RwLock`] is cheaper.
///
/// A panic does not poison the lock.
///
/// # Fairness
///
/// Readers and writers get the lock in the order in which they began to wait (FIFO). A reader that
/// comes after a waiting writer waits behind it, even while other tasks are reading. So a task that
/// holds a read guard must not wait for a second one. If a writer began to wait in between, the
/// task deadlocks.
///
/// # Memory ordering
///
/// Everything that a writer does happens before everything that later holders do. Everything that
/// readers do happens before everything that the next writer does.
///
/// # Examples
///
/// ```
/// use wakeful::sync::RwLock;
///
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() {
/// let lock = RwLock::new(5);
/// {
///     let one = lock.read().await;
///     let another = lock.read().await;
///     assert_eq!((*one, *another), (5, 5));
/// }
/// *lock.write().await += 1;
/// assert_eq!(*lock.read().await, 6);
/// # }
/// ```
pub struct RwLock<T: ?Sized> {
    raw: RawRwLock,
    value: UnsafeCell<T>,
}

// SAFETY: the lock owns the value.
unsafe impl<T: ?Sized + Send> Send for RwLock<T> {}
// SAFETY: readers share the value (`T: Sync`), and a writer may move it out (`T: Send`); GUARD-2.
unsafe impl<T: ?Sized + Send + Sync> Sync for RwLock<T> {}

impl<T: ?Sized> RwLock<T> {
    /// Creates an unlocked lock.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::RwLock;
    ///
    /// let lock = RwLock::new(5);
    /// assert_eq!(lock.into_inner(), 5);
    /// ```
    #[track_caller]
    pub fn new(value: T) -> RwLock<T>
    where
        T: Sized,
    {
        Self::const_new(value)
    }

    /// Creates an unlocked lock with at most `max_reads` concurrent readers.
    ///
    /// # Panics
    ///
    /// Panics if `max_reads` is 0 or more than `u32::MAX >> 3`.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::RwLock;
    ///
    /// let lock = RwLock::with_max_readers(5, 1);
    /// let reader = lock.try_read().unwrap();
    /// assert!(lock.try_read().is_err(), "one reader is the limit");
    /// # drop(reader);
    /// ```
    #[track_caller]
    pub fn with_max_readers(value: T, max_reads: u32) -> RwLock<T>
    where
        T: Sized,
    {
        assert!(
            max_reads <= MAX_READERS,
            "a RwLock may not be created with more than {MAX_READERS} readers"
        );
        Self::const_with_max_readers(value, max_reads)
    }

    const_unless_model! {
        /// Creates an unlocked lock in a constant expression, for example for a `static`.
        ///
        /// # Examples
        ///
        /// ```
        /// use wakeful::sync::RwLock;
        ///
        /// static SETTING: RwLock<u32> = RwLock::const_new(1);
        ///
        /// # #[wakeful::main(flavor = "current_thread")]
        /// # async fn main() {
        /// *SETTING.write().await = 2;
        /// assert_eq!(*SETTING.read().await, 2);
        /// # }
        /// ```
        pub fn const_new(value: T) -> RwLock<T>
        where
            T: Sized,
        {
            Self { raw: RawRwLock::new(MAX_READERS), value: UnsafeCell::new(value) }
        }
    }

    const_unless_model! {
        /// Creates a lock with a limit of concurrent readers, in a constant expression.
        ///
        /// # Panics
        ///
        /// Panics if `max_reads` is 0 or more than `u32::MAX >> 3`. In a `static`, this is a
        /// compile error.
        ///
        /// # Examples
        ///
        /// ```
        /// use wakeful::sync::RwLock;
        ///
        /// static SETTING: RwLock<u32> = RwLock::const_with_max_readers(1, 64);
        /// assert_eq!(*SETTING.try_read().unwrap(), 1);
        /// ```
        #[track_caller]
        pub fn const_with_max_readers(value: T, max_reads: u32) -> RwLock<T>
        where
            T: Sized,
        {
            assert!(max_reads != 0, "a RwLock may not be created with 0 readers");
            assert!(
                max_reads <= MAX_READERS,
                "a RwLock may not be created with more than u32::MAX >> 3 readers"
            );
            Self { raw: RawRwLock::new(max_reads), value: UnsafeCell::new(value) }
        }
    }

    /// Locks for reading, waiting while a writer holds the lock or waits for it.
    ///
    /// The access ends when the returned guard is dropped. A task that holds a read guard must not
    /// call this again: see [fairness](RwLock#fairness).
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe. Dropping the future removes it from the wait queue. Access that
    /// was already granted to the dropped future goes to the next waiter.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::RwLock;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let lock = RwLock::new(vec![1, 2, 3]);
    /// let values = lock.read().await;
    /// assert_eq!(values.len(), 3);
    /// # }
    /// ```
    #[inline]
    #[track_caller]
    pub fn read(&self) -> impl Future<Output = RwLockReadGuard<'_, T>> {
        Acquire::new(self, Access::Read, Location::caller(), RwLockReadGuard::new)
    }

    /// Locks for reading, blocking the calling thread until access is granted.
    ///
    /// This is for code outside of tasks, for example a closure of
    /// [`spawn_blocking`](crate::task::spawn_blocking).
    ///
    /// # Panics
    ///
    /// Panics if called on a thread that drives tasks, because blocking would stall those tasks.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::RwLock;
    ///
    /// let lock = RwLock::new(1);
    /// assert_eq!(*lock.blocking_read(), 1);
    /// ```
    #[track_caller]
    pub fn blocking_read(&self) -> RwLockReadGuard<'_, T> {
        enter_guard::check_may_block();
        match self.try_read() {
            Ok(guard) => guard,
            Err(_) => block_on::block_on(self.read()),
        }
    }

    /// Locks for reading if no waiting is needed.
    ///
    /// # Errors
    ///
    /// Returns [`TryLockError`] if a writer holds the lock, if a task waits for it, or if the limit
    /// of readers is reached.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::RwLock;
    ///
    /// let lock = RwLock::new(1);
    /// let first = lock.try_read().unwrap();
    /// let second = lock.try_read().unwrap();
    /// assert_eq!(*first, *second);
    /// assert!(lock.try_write().is_err());
    /// ```
    #[inline]
    #[track_caller]
    pub fn try_read(&self) -> Result<RwLockReadGuard<'_, T>, TryLockError> {
        Ok(RwLockReadGuard::new(self, self.try_raw_guard(Access::Read)?))
    }

    /// Locks for writing, waiting while other tasks hold the lock.
    ///
    /// The access ends when the returned guard is dropped.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe. Dropping the future removes it from the wait queue, so readers
    /// behind it need not wait for it. Access that was already granted to the dropped future goes
    /// to the next waiter.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::RwLock;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let lock = RwLock::new(vec![1]);
    /// lock.write().await.push(2);
    /// assert_eq!(*lock.read().await, [1, 2]);
    /// # }
    /// ```
    #[inline]
    #[track_caller]
    pub fn write(&self) -> impl Future<Output = RwLockWriteGuard<'_, T>> {
        Acquire::new(self, Access::Write, Location::caller(), RwLockWriteGuard::new)
    }

    /// Locks for writing, blocking the calling thread until access is granted.
    ///
    /// This is for code outside of tasks, for example a closure of
    /// [`spawn_blocking`](crate::task::spawn_blocking).
    ///
    /// # Panics
    ///
    /// Panics if called on a thread that drives tasks, because blocking would stall those tasks.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::RwLock;
    ///
    /// let lock = RwLock::new(1);
    /// *lock.blocking_write() += 1;
    /// assert_eq!(*lock.blocking_read(), 2);
    /// ```
    #[track_caller]
    pub fn blocking_write(&self) -> RwLockWriteGuard<'_, T> {
        enter_guard::check_may_block();
        match self.try_write() {
            Ok(guard) => guard,
            Err(_) => block_on::block_on(self.write()),
        }
    }

    /// Locks for writing if the lock is free.
    ///
    /// # Errors
    ///
    /// Returns [`TryLockError`] if another task holds the lock or waits for it.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::RwLock;
    ///
    /// let lock = RwLock::new(1);
    /// let mut writer = lock.try_write().unwrap();
    /// *writer = 2;
    /// assert!(lock.try_read().is_err(), "the writer's guard is still alive");
    /// # drop(writer);
    /// ```
    #[inline]
    #[track_caller]
    pub fn try_write(&self) -> Result<RwLockWriteGuard<'_, T>, TryLockError> {
        Ok(RwLockWriteGuard::new(self, self.try_raw_guard(Access::Write)?))
    }

    #[inline]
    #[track_caller]
    fn try_raw_guard(&self, access: Access) -> Result<RawGuard<'_>, TryLockError> {
        let held = self.raw.try_acquire(access, Location::caller());
        Ok(RawGuard::new(&self.raw, held.ok_or(TryLockError(()))?))
    }

    /// Returns a mutable reference to the value, without locking.
    ///
    /// The `&mut self` proves that no guard exists.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::RwLock;
    ///
    /// let mut lock = RwLock::new(1);
    /// *lock.get_mut() += 1;
    /// assert_eq!(lock.into_inner(), 2);
    /// ```
    pub fn get_mut(&mut self) -> &mut T {
        // SAFETY: `&mut self` excludes guards, which borrow or share the lock (GUARD-2).
        self.value.with_mut(|value| unsafe { &mut *value })
    }

    /// Consumes the lock and returns the value.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::RwLock;
    ///
    /// let lock = RwLock::new(String::from("done"));
    /// assert_eq!(lock.into_inner(), "done");
    /// ```
    pub fn into_inner(self) -> T
    where
        T: Sized,
    {
        self.value.into_inner()
    }

    /// Returns the pointer of a reader's guard (GUARD-1).
    #[inline]
    fn pointer(&self) -> *const T {
        self.value.with(|value| value)
    }

    /// Returns the pointer of a writer's guard (GUARD-1).
    #[inline]
    fn pointer_mut(&self) -> *mut T {
        self.value.with_mut(|value| value)
    }
}

impl<T> From<T> for RwLock<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

impl<T: Default> Default for RwLock<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("RwLock");
        match self.try_read() {
            Ok(value) => fields.field("data", &&*value),
            Err(_) => fields.field("data", &format_args!("<locked>")),
        };
        fields.finish()
    }
}
