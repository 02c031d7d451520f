//! Methods of `Arc<RwLock>`, whose guards keep the lock alive.

use super::futures::AcquireOwned;
use super::raw::{Access, OwnedRawGuard};
use super::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};
use crate::sync::TryLockError;
use std::panic::Location;
use std::sync::Arc;

impl<T: ?Sized> RwLock<T> {
    /// Locks for reading; the guard keeps the lock alive.
    ///
    /// Waits like [`read`](Self::read). The guard owns an `Arc` of the lock instead of borrowing
    /// it.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe. Dropping the future removes it from the wait queue. Access that
    /// was already granted to the dropped future goes to the next waiter.
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
    /// let reader = lock.clone().read_owned().await;
    /// let task = wakeful::spawn(async move { *reader });
    /// assert_eq!(task.await.unwrap(), 1);
    /// # }
    /// ```
    #[inline]
    #[track_caller]
    pub fn read_owned(self: Arc<Self>) -> impl Future<Output = OwnedRwLockReadGuard<T>> {
        AcquireOwned::new(self, Access::Read, Location::caller(), OwnedRwLockReadGuard::new)
    }

    /// Locks for reading if no waiting is needed; the guard keeps the lock alive.
    ///
    /// # Errors
    ///
    /// Returns [`TryLockError`] if a writer holds the lock, if a task waits for it, or if the limit
    /// of readers is reached.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use wakeful::sync::RwLock;
    ///
    /// let lock = Arc::new(RwLock::new(1));
    /// let reader = lock.clone().try_read_owned().unwrap();
    /// assert_eq!(*reader, 1);
    /// ```
    #[track_caller]
    pub fn try_read_owned(self: Arc<Self>) -> Result<OwnedRwLockReadGuard<T>, TryLockError> {
        Ok(OwnedRwLockReadGuard::new(self.try_owned_raw_guard(Access::Read)?))
    }

    /// Locks for writing; the guard keeps the lock alive.
    ///
    /// Waits like [`write`](Self::write). The guard owns an `Arc` of the lock instead of borrowing
    /// it.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe. Dropping the future removes it from the wait queue. Access that
    /// was already granted to the dropped future goes to the next waiter.
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
    /// wakeful::spawn(async move { *writer = 2 }).await.unwrap();
    /// assert_eq!(*lock.read().await, 2);
    /// # }
    /// ```
    #[inline]
    #[track_caller]
    pub fn write_owned(self: Arc<Self>) -> impl Future<Output = OwnedRwLockWriteGuard<T>> {
        AcquireOwned::new(self, Access::Write, Location::caller(), OwnedRwLockWriteGuard::new)
    }

    /// Locks for writing if the lock is free; the guard keeps the lock alive.
    ///
    /// # Errors
    ///
    /// Returns [`TryLockError`] if another task holds the lock or waits for it.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use wakeful::sync::RwLock;
    ///
    /// let lock = Arc::new(RwLock::new(1));
    /// *lock.clone().try_write_owned().unwrap() = 2;
    /// assert_eq!(*lock.try_read().unwrap(), 2);
    /// ```
    #[track_caller]
    pub fn try_write_owned(self: Arc<Self>) -> Result<OwnedRwLockWriteGuard<T>, TryLockError> {
        Ok(OwnedRwLockWriteGuard::new(self.try_owned_raw_guard(Access::Write)?))
    }

    #[track_caller]
    fn try_owned_raw_guard(
        self: Arc<Self>,
        access: Access,
    ) -> Result<OwnedRawGuard<T>, TryLockError> {
        let held = self.raw.try_acquire(access, Location::caller());
        Ok(OwnedRawGuard::new(self, held.ok_or(TryLockError(()))?))
    }
}
