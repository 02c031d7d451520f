//! A value that many tasks can read, or one can change.
//!
//! - [`raw`]: the lock itself, made of permits.
//! - [`read`], [`write`](mod@write) and [`owned_write`]: access to the value or a part
//!   of it.
//! - [`futures`]: waiting for it.
#![allow(unsafe_code)]

mod futures;
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
use futures::{Acquire, AcquireOwned};
use raw::{Hold, OwnedHold, RawRwLock, Share};
use std::fmt;
use std::panic::Location;
use std::sync::Arc;

/// As many readers as there can be.
const MAX_READERS: u32 = u32::MAX >> 3;

/// A value that many tasks can read at a time, or one can change; both may keep
/// their access across an `.await`.
///
/// It is not poisoned by a panic.
///
/// # Fairness
///
/// First come, first served, for readers and writers alike: readers that come after a
/// writer that waits wait behind it, also while others still read. So a task that
/// reads must not wait to read once more: if a writer came in between, it waits
/// forever.
///
/// # Memory ordering
///
/// What a writer does happens before what those do that get the lock after it, and
/// what readers do happens before what the next writer does.
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

// SAFETY: owning the lock is owning the value.
unsafe impl<T: ?Sized + Send> Send for RwLock<T> {}
// SAFETY: readers share the value, and a writer may take it out (G2).
unsafe impl<T: ?Sized + Send + Sync> Sync for RwLock<T> {}

impl<T: ?Sized> RwLock<T> {
    /// Unlocked.
    #[track_caller]
    pub fn new(value: T) -> RwLock<T>
    where
        T: Sized,
    {
        Self::const_new(value)
    }

    /// Unlocked, for at most `max_reads` readers at a time.
    ///
    /// # Panics
    ///
    /// If they are none, or more than `u32::MAX >> 3`.
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
        /// As [`new`](Self::new), for statics.
        pub fn const_new(value: T) -> RwLock<T>
        where
            T: Sized,
        {
            Self { raw: RawRwLock::new(MAX_READERS), value: UnsafeCell::new(value) }
        }
    }

    const_unless_model! {
        /// As [`with_max_readers`](Self::with_max_readers), for statics.
        ///
        /// # Panics
        ///
        /// If they are none, or more than `u32::MAX >> 3`.
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

    /// Waits until it may read.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up its place among those who wait. Access that it was
    /// given and has not returned goes to the next.
    #[inline]
    #[track_caller]
    pub fn read(&self) -> impl Future<Output = RwLockReadGuard<'_, T>> {
        Acquire::new(self, Share::Read, Location::caller(), RwLockReadGuard::new)
    }

    /// Blocks the thread until it may read: for code outside of tasks.
    ///
    /// # Panics
    ///
    /// If the thread drives tasks.
    #[track_caller]
    pub fn blocking_read(&self) -> RwLockReadGuard<'_, T> {
        enter_guard::check_may_block();
        match self.try_read() {
            Ok(guard) => guard,
            Err(_) => block_on::block_on(self.read()),
        }
    }

    /// As [`read`](Self::read), with a guard that keeps the lock alive.
    ///
    /// # Cancel safety
    ///
    /// As [`read`](Self::read).
    #[inline]
    #[track_caller]
    pub fn read_owned(self: Arc<Self>) -> impl Future<Output = OwnedRwLockReadGuard<T>> {
        AcquireOwned::new(self, Share::Read, Location::caller(), OwnedRwLockReadGuard::new)
    }

    /// Reads, if that is possible at once.
    ///
    /// # Errors
    ///
    /// If somebody writes, or waits before us.
    #[inline]
    #[track_caller]
    pub fn try_read(&self) -> Result<RwLockReadGuard<'_, T>, TryLockError> {
        Ok(RwLockReadGuard::new(self, self.try_hold(Share::Read)?))
    }

    /// As [`try_read`](Self::try_read), with a guard that keeps the lock alive.
    ///
    /// # Errors
    ///
    /// As [`try_read`](Self::try_read).
    #[track_caller]
    pub fn try_read_owned(self: Arc<Self>) -> Result<OwnedRwLockReadGuard<T>, TryLockError> {
        Ok(OwnedRwLockReadGuard::new(self.try_owned_hold(Share::Read)?))
    }

    /// Waits until it may write.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up its place among those who wait, and readers behind
    /// it no longer wait for it. Access that it was given and has not returned goes to
    /// the next.
    #[inline]
    #[track_caller]
    pub fn write(&self) -> impl Future<Output = RwLockWriteGuard<'_, T>> {
        Acquire::new(self, Share::Write, Location::caller(), RwLockWriteGuard::new)
    }

    /// Blocks the thread until it may write: for code outside of tasks.
    ///
    /// # Panics
    ///
    /// If the thread drives tasks.
    #[track_caller]
    pub fn blocking_write(&self) -> RwLockWriteGuard<'_, T> {
        enter_guard::check_may_block();
        match self.try_write() {
            Ok(guard) => guard,
            Err(_) => block_on::block_on(self.write()),
        }
    }

    /// As [`write`](Self::write), with a guard that keeps the lock alive.
    ///
    /// # Cancel safety
    ///
    /// As [`write`](Self::write).
    #[inline]
    #[track_caller]
    pub fn write_owned(self: Arc<Self>) -> impl Future<Output = OwnedRwLockWriteGuard<T>> {
        AcquireOwned::new(self, Share::Write, Location::caller(), OwnedRwLockWriteGuard::new)
    }

    /// Writes, if that is possible at once.
    ///
    /// # Errors
    ///
    /// If somebody reads or writes.
    #[inline]
    #[track_caller]
    pub fn try_write(&self) -> Result<RwLockWriteGuard<'_, T>, TryLockError> {
        Ok(RwLockWriteGuard::new(self, self.try_hold(Share::Write)?))
    }

    /// As [`try_write`](Self::try_write), with a guard that keeps the lock alive.
    ///
    /// # Errors
    ///
    /// As [`try_write`](Self::try_write).
    #[track_caller]
    pub fn try_write_owned(self: Arc<Self>) -> Result<OwnedRwLockWriteGuard<T>, TryLockError> {
        Ok(OwnedRwLockWriteGuard::new(self.try_owned_hold(Share::Write)?))
    }

    #[inline]
    #[track_caller]
    fn try_hold(&self, share: Share) -> Result<Hold<'_>, TryLockError> {
        let portion = self.raw.try_acquire(share, Location::caller());
        Ok(Hold::new(&self.raw, portion.ok_or(TryLockError(()))?))
    }

    #[track_caller]
    fn try_owned_hold(self: Arc<Self>, share: Share) -> Result<OwnedHold<T>, TryLockError> {
        let portion = self.raw.try_acquire(share, Location::caller());
        Ok(OwnedHold::new(self, portion.ok_or(TryLockError(()))?))
    }

    /// The value, without a lock: whoever has the lock for itself needs none.
    pub fn get_mut(&mut self) -> &mut T {
        // SAFETY: nobody else has the lock, so nobody has a hold of it (G2).
        self.value.with_mut(|value| unsafe { &mut *value })
    }

    /// The value, for good.
    pub fn into_inner(self) -> T
    where
        T: Sized,
    {
        self.value.into_inner()
    }

    /// For a reader's guard (G1).
    #[inline]
    fn pointer(&self) -> *const T {
        self.value.with(|value| value)
    }

    /// For a writer's guard (G1).
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
