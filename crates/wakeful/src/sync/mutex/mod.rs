//! A mutual exclusion lock whose guard may be held across an `.await`.
//!
//! - [`raw`]: the lock without the value, with the protocol of its state word.
//! - [`guard`]: guards that borrow the mutex, for the whole value or a part of it.
//! - [`owned`]: guards that keep the mutex alive through an `Arc`.
#![allow(unsafe_code)]

mod guard;
mod owned;
mod raw;

pub use guard::{MappedMutexGuard, MutexGuard};
pub use owned::{OwnedMappedMutexGuard, OwnedMutexGuard};

use crate::sys::sync::{UnsafeCell, const_unless_model};
use crate::task::enter_guard;
use crate::wait::block_on;
pub(super) use raw::{LockOutcome, LockRequest, RawMutex};
use std::fmt;
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// A mutual exclusion lock whose guard may be held across an `.await`.
///
/// For a value that is never locked across an `.await`, [`std::sync::Mutex`] is simpler and
/// cheaper. Use this type for a value that a task keeps locked across an `.await`, such as a
/// connection during a request and its response.
///
/// A panic does not poison the mutex. A guard that is dropped by a panic unlocks the mutex, and the
/// value stays as the panicking task left it.
///
/// # Fairness
///
/// Tasks get the lock in the order in which they began to wait (FIFO). An unlock hands the lock
/// directly to the first waiter. No later [`lock`](Self::lock) or [`try_lock`](Self::try_lock) can
/// overtake it.
///
/// # Memory ordering
///
/// Everything that a task does while it holds the lock happens before everything that the next
/// holder does.
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

// SAFETY: the mutex owns the value.
unsafe impl<T: ?Sized + Send> Send for Mutex<T> {}
// SAFETY: only the holder of the lock accesses the value (MUTEX-1). It may move the value out of
// the mutex, so `T: Send` is needed, and `T: Sync` is not.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}

/// Error returned by `try_lock`, `try_read` and `try_write` when the lock is not available.
///
/// Another task holds the lock, or waits for it.
///
/// # Examples
///
/// ```
/// use wakeful::sync::Mutex;
///
/// let mutex = Mutex::new(1);
/// let guard = mutex.try_lock().unwrap();
/// let error = mutex.try_lock().unwrap_err();
/// assert_eq!(error.to_string(), "operation would block");
/// # drop(guard);
/// ```
#[derive(Debug)]
pub struct TryLockError(pub(super) ());

impl fmt::Display for TryLockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("operation would block")
    }
}

impl std::error::Error for TryLockError {}

impl<T: ?Sized> Mutex<T> {
    /// Creates an unlocked mutex.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::Mutex;
    ///
    /// let mutex = Mutex::new(5);
    /// assert_eq!(mutex.into_inner(), 5);
    /// ```
    #[track_caller]
    pub fn new(t: T) -> Self
    where
        T: Sized,
    {
        Self::const_new(t)
    }

    const_unless_model! {
        /// Creates an unlocked mutex in a constant expression, for example for a `static`.
        ///
        /// # Examples
        ///
        /// ```
        /// use wakeful::sync::Mutex;
        ///
        /// static COUNTER: Mutex<u32> = Mutex::const_new(0);
        ///
        /// # #[wakeful::main(flavor = "current_thread")]
        /// # async fn main() {
        /// *COUNTER.lock().await += 1;
        /// assert_eq!(*COUNTER.lock().await, 1);
        /// # }
        /// ```
        pub fn const_new(t: T) -> Self
        where
            T: Sized,
        {
            Self { raw: RawMutex::new(), value: UnsafeCell::new(t) }
        }
    }

    /// Locks the mutex, waiting while another task holds it.
    ///
    /// The mutex is unlocked when the returned guard is dropped.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe. Dropping the future removes it from the wait queue, so a new
    /// call waits at the end of the queue. A lock that was already handed to the dropped future
    /// goes to the next waiter.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::Mutex;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let names = Mutex::new(vec!["first"]);
    /// let mut guard = names.lock().await;
    /// guard.push("second");
    /// drop(guard);
    /// assert_eq!(names.lock().await.len(), 2);
    /// # }
    /// ```
    #[inline]
    #[track_caller]
    pub fn lock(&self) -> impl Future<Output = MutexGuard<'_, T>> {
        Lock { mutex: self, request: LockRequest::new(Location::caller()) }
    }

    /// Locks the mutex, blocking the calling thread while another task holds it.
    ///
    /// This is for code outside of tasks, for example a closure of
    /// [`spawn_blocking`](crate::task::spawn_blocking) or a plain thread.
    ///
    /// # Panics
    ///
    /// Panics if called on a thread that drives tasks, because blocking would stall those tasks.
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
    /// let closure = wakeful::task::spawn_blocking({
    ///     let sum = sum.clone();
    ///     move || *sum.blocking_lock() += 1
    /// });
    /// closure.await.unwrap();
    /// assert_eq!(*sum.lock().await, 1);
    /// # }
    /// ```
    #[track_caller]
    pub fn blocking_lock(&self) -> MutexGuard<'_, T> {
        enter_guard::check_may_block();
        match self.try_lock() {
            Ok(guard) => guard,
            Err(_) => block_on::block_on(self.lock()),
        }
    }

    /// Locks the mutex, blocking the calling thread; the guard keeps the mutex alive.
    ///
    /// Blocks like [`blocking_lock`](Self::blocking_lock). The guard owns an `Arc` of the mutex
    /// instead of borrowing it.
    ///
    /// # Panics
    ///
    /// Panics if called on a thread that drives tasks, because blocking would stall those tasks.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use wakeful::sync::Mutex;
    ///
    /// let mutex = Arc::new(Mutex::new(1));
    /// let mut guard = mutex.clone().blocking_lock_owned();
    /// *guard += 1;
    /// drop(guard);
    /// assert_eq!(*mutex.blocking_lock(), 2);
    /// ```
    #[track_caller]
    pub fn blocking_lock_owned(self: Arc<Self>) -> OwnedMutexGuard<T> {
        enter_guard::check_may_block();
        match self.raw.try_lock(Location::caller()) {
            LockOutcome::Locked => OwnedMutexGuard::new(self),
            LockOutcome::Busy => block_on::block_on(self.lock_owned()),
        }
    }

    /// Locks the mutex; the guard keeps the mutex alive.
    ///
    /// Waits like [`lock`](Self::lock). The guard owns an `Arc` of the mutex instead of borrowing
    /// it, so it can be moved into a spawned task.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe. Dropping the future removes it from the wait queue. A lock that
    /// was already handed to the dropped future goes to the next waiter.
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
    /// wakeful::spawn(async move { *guard += 1 }).await.unwrap();
    /// assert_eq!(*mutex.lock().await, 2);
    /// # }
    /// ```
    #[inline]
    #[track_caller]
    pub fn lock_owned(self: Arc<Self>) -> impl Future<Output = OwnedMutexGuard<T>> {
        LockOwned { mutex: Some(self), request: LockRequest::new(Location::caller()) }
    }

    /// Locks the mutex if it is free, without waiting.
    ///
    /// # Errors
    ///
    /// Returns [`TryLockError`] if another task holds the lock.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::Mutex;
    ///
    /// let mutex = Mutex::new(1);
    /// let guard = mutex.try_lock().unwrap();
    /// assert!(mutex.try_lock().is_err(), "the guard is still alive");
    /// drop(guard);
    /// assert!(mutex.try_lock().is_ok());
    /// ```
    #[inline]
    #[track_caller]
    pub fn try_lock(&self) -> Result<MutexGuard<'_, T>, TryLockError> {
        match self.raw.try_lock(Location::caller()) {
            LockOutcome::Locked => Ok(MutexGuard::new(self)),
            LockOutcome::Busy => Err(TryLockError(())),
        }
    }

    /// Locks the mutex if it is free, without waiting; the guard keeps the mutex alive.
    ///
    /// # Errors
    ///
    /// Returns [`TryLockError`] if another task holds the lock.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use wakeful::sync::Mutex;
    ///
    /// let mutex = Arc::new(Mutex::new(1));
    /// let guard = mutex.clone().try_lock_owned().unwrap();
    /// assert!(mutex.try_lock().is_err());
    /// # drop(guard);
    /// ```
    #[inline]
    #[track_caller]
    pub fn try_lock_owned(self: Arc<Self>) -> Result<OwnedMutexGuard<T>, TryLockError> {
        match self.raw.try_lock(Location::caller()) {
            LockOutcome::Locked => Ok(OwnedMutexGuard::new(self)),
            LockOutcome::Busy => Err(TryLockError(())),
        }
    }

    /// Returns a mutable reference to the value, without locking.
    ///
    /// The `&mut self` proves that no guard exists.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::Mutex;
    ///
    /// let mut mutex = Mutex::new(1);
    /// *mutex.get_mut() += 1;
    /// assert_eq!(mutex.into_inner(), 2);
    /// ```
    pub fn get_mut(&mut self) -> &mut T {
        // SAFETY: `&mut self` excludes guards, which borrow or share the mutex (GUARD-2).
        self.value.with_mut(|value| unsafe { &mut *value })
    }

    /// Consumes the mutex and returns the value.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::Mutex;
    ///
    /// let mutex = Mutex::new(String::from("done"));
    /// assert_eq!(mutex.into_inner(), "done");
    /// ```
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
    /// Future returned by [`Mutex::lock`].
    struct Lock<'a, T: ?Sized> {
        mutex: &'a Mutex<T>,
        #[pin]
        request: LockRequest,
    }

    impl<T: ?Sized> PinnedDrop for Lock<'_, T> {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            this.request.cancel(&this.mutex.raw);
        }
    }
}

impl<'a, T: ?Sized> Future for Lock<'a, T> {
    type Output = MutexGuard<'a, T>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        ready!(this.request.poll(&this.mutex.raw, cx));
        Poll::Ready(MutexGuard::new(this.mutex))
    }
}

pin_project_lite::pin_project! {
    /// Future returned by [`Mutex::lock_owned`].
    struct LockOwned<T: ?Sized> {
        // `Some` until the future has completed.
        mutex: Option<Arc<Mutex<T>>>,
        #[pin]
        request: LockRequest,
    }

    impl<T: ?Sized> PinnedDrop for LockOwned<T> {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            if let Some(mutex) = this.mutex {
                this.request.cancel(&mutex.raw);
            }
        }
    }
}

impl<T: ?Sized> Future for LockOwned<T> {
    type Output = OwnedMutexGuard<T>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let mutex = this.mutex.as_ref().expect("`Mutex::lock_owned` polled after completion");
        ready!(this.request.poll(&mutex.raw, cx));
        Poll::Ready(OwnedMutexGuard::new(this.mutex.take().expect("checked above")))
    }
}
