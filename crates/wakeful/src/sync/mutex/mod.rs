//! A value that one task at a time can have.
//!
//! - [`raw`]: the lock itself, and the protocol of its word.
//! - [`guard`] and [`owned`]: access to the value, borrowed and with a share in the
//!   mutex, to the whole value and to a part of it.
#![allow(unsafe_code)]

mod guard;
mod owned;
mod raw;

pub use guard::{MappedMutexGuard, MutexGuard};
pub use owned::{OwnedMappedMutexGuard, OwnedMutexGuard};

use crate::sys::sync::{UnsafeCell, const_unless_model};
use crate::task::enter_guard;
use crate::wait::block_on;
pub(super) use raw::{Attempt, Locking, RawMutex};
use std::fmt;
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// A value that one task at a time can have, and keep across an `.await`.
///
/// For a value that nobody keeps across an `.await`, the mutex of the standard
/// library is simpler and cheaper.
///
/// It is not poisoned by a panic: a guard that is dropped while its task panics
/// unlocks like any other, and the value stays as it was left.
///
/// # Fairness
///
/// First come, first served: the lock goes to tasks in the order in which they
/// began to wait. It is handed from one to the next, so that nobody who comes later
/// gets in between, `try_lock` neither.
///
/// # Memory ordering
///
/// What a task does while it has the lock happens before what the next does with it.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use wakeful::sync::Mutex;
///
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() {
/// let sum = Arc::new(Mutex::new(0));
/// let tasks: Vec<_> = (1..=4)
///     .map(|number| {
///         let sum = sum.clone();
///         wakeful::spawn(async move {
///             let mut sum = sum.lock().await;
///             let before = *sum;
///             wakeful::task::yield_now().await;
///             *sum = before + number;
///         })
///     })
///     .collect();
/// for task in tasks {
///     task.await.unwrap();
/// }
/// assert_eq!(*sum.lock().await, 10);
/// # }
/// ```
pub struct Mutex<T: ?Sized> {
    raw: RawMutex,
    value: UnsafeCell<T>,
}

// SAFETY: owning the mutex is owning the value.
unsafe impl<T: ?Sized + Send> Send for Mutex<T> {}
// SAFETY: only the holder of the lock gets at the value (X1), and may take it out.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}

/// A lock could not be had at once: somebody else has it, or waits for it.
#[derive(Debug)]
pub struct TryLockError(pub(super) ());

impl fmt::Display for TryLockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("operation would block")
    }
}

impl std::error::Error for TryLockError {}

impl<T: ?Sized> Mutex<T> {
    /// Unlocked.
    #[track_caller]
    pub fn new(t: T) -> Self
    where
        T: Sized,
    {
        Self::const_new(t)
    }

    const_unless_model! {
        /// As [`new`](Self::new), for statics.
        pub fn const_new(t: T) -> Self
        where
            T: Sized,
        {
            Self { raw: RawMutex::new(), value: UnsafeCell::new(t) }
        }
    }

    /// Waits for the lock.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up its place among those who wait. If it was
    /// already handed the lock, that goes to the next.
    #[inline]
    #[track_caller]
    pub fn lock(&self) -> impl Future<Output = MutexGuard<'_, T>> {
        Lock { mutex: self, locking: Locking::new(Location::caller()) }
    }

    /// Blocks the thread until it has the lock: for code outside of tasks.
    ///
    /// # Panics
    ///
    /// If the thread drives tasks.
    #[track_caller]
    pub fn blocking_lock(&self) -> MutexGuard<'_, T> {
        enter_guard::check_may_block();
        match self.try_lock() {
            Ok(guard) => guard,
            Err(_) => block_on::block_on(self.lock()),
        }
    }

    /// As [`blocking_lock`](Self::blocking_lock), with a guard that keeps the mutex
    /// alive.
    ///
    /// # Panics
    ///
    /// If the thread drives tasks.
    #[track_caller]
    pub fn blocking_lock_owned(self: Arc<Self>) -> OwnedMutexGuard<T> {
        enter_guard::check_may_block();
        match self.raw.try_lock(Location::caller()) {
            Attempt::Locked => OwnedMutexGuard::new(self),
            Attempt::Busy => block_on::block_on(self.lock_owned()),
        }
    }

    /// As [`lock`](Self::lock), with a guard that keeps the mutex alive.
    ///
    /// # Cancel safety
    ///
    /// As [`lock`](Self::lock).
    #[inline]
    #[track_caller]
    pub fn lock_owned(self: Arc<Self>) -> impl Future<Output = OwnedMutexGuard<T>> {
        LockOwned { mutex: Some(self), locking: Locking::new(Location::caller()) }
    }

    /// Takes the lock if it is free.
    ///
    /// # Errors
    ///
    /// If it is not.
    #[inline]
    #[track_caller]
    pub fn try_lock(&self) -> Result<MutexGuard<'_, T>, TryLockError> {
        match self.raw.try_lock(Location::caller()) {
            Attempt::Locked => Ok(MutexGuard::new(self)),
            Attempt::Busy => Err(TryLockError(())),
        }
    }

    /// As [`try_lock`](Self::try_lock), with a guard that keeps the mutex alive.
    ///
    /// # Errors
    ///
    /// If the lock is not free.
    #[inline]
    #[track_caller]
    pub fn try_lock_owned(self: Arc<Self>) -> Result<OwnedMutexGuard<T>, TryLockError> {
        match self.raw.try_lock(Location::caller()) {
            Attempt::Locked => Ok(OwnedMutexGuard::new(self)),
            Attempt::Busy => Err(TryLockError(())),
        }
    }

    /// The value, without a lock: whoever has the mutex for itself needs none.
    pub fn get_mut(&mut self) -> &mut T {
        // SAFETY: nobody else has the mutex, so nobody has a hold of it (G2).
        self.value.with_mut(|value| unsafe { &mut *value })
    }

    /// The value, for good.
    pub fn into_inner(self) -> T
    where
        T: Sized,
    {
        self.value.into_inner()
    }
}

impl<T> From<T> for Mutex<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("Mutex");
        match self.try_lock() {
            Ok(value) => fields.field("data", &&*value),
            Err(_) => fields.field("data", &format_args!("<locked>")),
        };
        fields.finish()
    }
}

pin_project_lite::pin_project! {
    /// The future of [`Mutex::lock`].
    struct Lock<'a, T: ?Sized> {
        mutex: &'a Mutex<T>,
        #[pin]
        locking: Locking,
    }

    impl<T: ?Sized> PinnedDrop for Lock<'_, T> {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            this.locking.cancel(&this.mutex.raw);
        }
    }
}

impl<'a, T: ?Sized> Future for Lock<'a, T> {
    type Output = MutexGuard<'a, T>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        ready!(this.locking.poll(&this.mutex.raw, cx));
        Poll::Ready(MutexGuard::new(this.mutex))
    }
}

pin_project_lite::pin_project! {
    /// The future of [`Mutex::lock_owned`].
    struct LockOwned<T: ?Sized> {
        // There until the future is done.
        mutex: Option<Arc<Mutex<T>>>,
        #[pin]
        locking: Locking,
    }

    impl<T: ?Sized> PinnedDrop for LockOwned<T> {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            if let Some(mutex) = this.mutex {
                this.locking.cancel(&mutex.raw);
            }
        }
    }
}

impl<T: ?Sized> Future for LockOwned<T> {
    type Output = OwnedMutexGuard<T>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let mutex = this.mutex.as_ref().expect("polled after it was done");
        ready!(this.locking.poll(&mutex.raw, cx));
        Poll::Ready(OwnedMutexGuard::new(this.mutex.take().expect("it was there a moment ago")))
    }
}
