//! A counting semaphore.
//!
//! [`Semaphore`] is the public type around `RawSemaphore`. [`permit`] contains the guards that it
//! returns, `owned` the methods of `Arc<Semaphore>`.

mod error;
mod owned;
mod permit;

pub use error::{AcquireError, TryAcquireError};
pub use permit::{OwnedSemaphorePermit, SemaphorePermit};

use super::acquire::PermitRequest;
use super::permit_owners::OwnerIndex;
use super::raw_semaphore::{self, AcquireOutcome, RawSemaphore, check_permits};
use crate::sys::sync::const_unless_model;
use crate::task::enter_guard;
use crate::task::wait_kind::WaitKind;
use crate::wait::block_on;
use std::fmt;
use std::panic::{Location, RefUnwindSafe, UnwindSafe};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// A counting semaphore, which limits how many tasks use a resource at the same time.
///
/// A task acquires a permit, and waits if none is available. Dropping the permit returns it to the
/// semaphore.
///
/// # Fairness
///
/// Tasks get permits in the order in which they began to wait (FIFO). A task that requests many
/// permits is not overtaken by tasks that request fewer. Returned permits are collected for it
/// until it has all of them. Collected permits are not [available](Self::available_permits).
/// [`try_acquire`](Self::try_acquire) does not overtake waiting tasks either.
///
/// # Memory ordering
///
/// Everything that a task does before it returns a permit happens before everything that another
/// task does after it acquired that permit.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use wakeful::sync::Semaphore;
///
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() {
/// let limit = Arc::new(Semaphore::new(2));
/// let tasks: Vec<_> = (0..10)
///     .map(|number| {
///         let limit = limit.clone();
///         wakeful::spawn(async move {
///             let _permit = limit.acquire().await.expect("never closed");
///             number // at most two tasks run this at the same time
///         })
///     })
///     .collect();
/// for task in tasks {
///     task.await.unwrap();
/// }
/// assert_eq!(limit.available_permits(), 2);
/// # }
/// ```
pub struct Semaphore {
    permits: RawSemaphore,
}

// A panic leaves the semaphore intact: no user code runs under its locks.
impl UnwindSafe for Semaphore {}
impl RefUnwindSafe for Semaphore {}

impl Semaphore {
    /// The largest number of permits of a semaphore: `usize::MAX >> 3`.
    pub const MAX_PERMITS: usize = raw_semaphore::MAX;

    /// Creates a semaphore with `permits` permits.
    ///
    /// # Panics
    ///
    /// Panics if `permits` is more than [`MAX_PERMITS`](Self::MAX_PERMITS).
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::Semaphore;
    ///
    /// let semaphore = Semaphore::new(3);
    /// assert_eq!(semaphore.available_permits(), 3);
    /// ```
    #[track_caller]
    pub fn new(permits: usize) -> Self {
        check_permits(permits);
        Self::const_new(permits)
    }

    const_unless_model! {
        /// Creates a semaphore in a constant expression, for example for a `static`.
        ///
        /// # Panics
        ///
        /// Panics if `permits` is more than [`MAX_PERMITS`](Self::MAX_PERMITS). In a `static`, this
        /// is a compile error.
        ///
        /// # Examples
        ///
        /// ```
        /// use wakeful::sync::Semaphore;
        ///
        /// static CONNECTIONS: Semaphore = Semaphore::const_new(100);
        /// assert_eq!(CONNECTIONS.available_permits(), 100);
        /// ```
        #[track_caller]
        pub fn const_new(permits: usize) -> Self {
            assert!(
                permits <= Self::MAX_PERMITS,
                "a semaphore may not have more than MAX_PERMITS permits"
            );
            Self { permits: RawSemaphore::new(permits) }
        }
    }

    /// Returns the number of permits that can be acquired without waiting.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::Semaphore;
    ///
    /// let semaphore = Semaphore::new(2);
    /// let permit = semaphore.try_acquire().unwrap();
    /// assert_eq!(semaphore.available_permits(), 1);
    /// drop(permit);
    /// assert_eq!(semaphore.available_permits(), 2);
    /// ```
    pub fn available_permits(&self) -> usize {
        self.permits.available()
    }

    /// Adds `n` permits to the semaphore.
    ///
    /// Waiting tasks get them first.
    ///
    /// # Panics
    ///
    /// Panics if the semaphore would have more than [`MAX_PERMITS`](Self::MAX_PERMITS).
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::Semaphore;
    ///
    /// let semaphore = Semaphore::new(0);
    /// semaphore.add_permits(2);
    /// assert_eq!(semaphore.available_permits(), 2);
    /// ```
    #[track_caller]
    pub fn add_permits(&self, n: usize) {
        if n > 0 {
            self.permits.add(n);
        }
    }

    /// Permanently removes up to `n` available permits, and returns how many were removed.
    ///
    /// Permits that are held, or collected for a waiting task, are not affected.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::Semaphore;
    ///
    /// let semaphore = Semaphore::new(2);
    /// assert_eq!(semaphore.forget_permits(5), 2);
    /// assert_eq!(semaphore.available_permits(), 0);
    /// ```
    pub fn forget_permits(&self, n: usize) -> usize {
        self.permits.remove_up_to(n)
    }

    /// Acquires one permit, waiting while none is available.
    ///
    /// # Errors
    ///
    /// Returns [`AcquireError`] if the semaphore is [closed](Self::close), before the call or while
    /// it waits.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe. Dropping the future removes it from the wait queue. A permit
    /// that was already granted to the dropped future goes to the next waiter.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::Semaphore;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let semaphore = Semaphore::new(1);
    /// let permit = semaphore.acquire().await.unwrap();
    /// assert_eq!(semaphore.available_permits(), 0);
    /// drop(permit);
    /// assert_eq!(semaphore.available_permits(), 1);
    /// # }
    /// ```
    #[track_caller]
    pub fn acquire(&self) -> impl Future<Output = Result<SemaphorePermit<'_>, AcquireError>> {
        Acquire { sem: self, request: PermitRequest::new(1, Location::caller()) }
    }

    /// Acquires `n` permits together, waiting until all of them are available.
    ///
    /// The permits are returned as one [`SemaphorePermit`]. A task that needs several permits
    /// should acquire them in one call: two tasks that each hold some and wait for more can
    /// deadlock.
    ///
    /// # Errors
    ///
    /// Returns [`AcquireError`] if the semaphore is [closed](Self::close), before the call or while
    /// it waits.
    ///
    /// # Panics
    ///
    /// Panics if `n` is more than [`MAX_PERMITS`](Self::MAX_PERMITS), which is possible only where
    /// `usize` has 32 bits.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe. Dropping the future removes it from the wait queue. Permits that
    /// were already collected for it go to the next waiter.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::Semaphore;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let semaphore = Semaphore::new(5);
    /// let permit = semaphore.acquire_many(3).await.unwrap();
    /// assert_eq!(permit.num_permits(), 3);
    /// assert_eq!(semaphore.available_permits(), 2);
    /// # }
    /// ```
    #[track_caller]
    pub fn acquire_many(
        &self,
        n: u32,
    ) -> impl Future<Output = Result<SemaphorePermit<'_>, AcquireError>> {
        Acquire { sem: self, request: PermitRequest::new(n as usize, Location::caller()) }
    }

    /// Acquires one permit if no waiting is needed.
    ///
    /// # Errors
    ///
    /// Returns [`TryAcquireError::NoPermits`] if none is available, and [`TryAcquireError::Closed`]
    /// if the semaphore is [closed](Self::close).
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::{Semaphore, TryAcquireError};
    ///
    /// let semaphore = Semaphore::new(1);
    /// let permit = semaphore.try_acquire().unwrap();
    /// assert_eq!(semaphore.try_acquire().unwrap_err(), TryAcquireError::NoPermits);
    /// # drop(permit);
    /// ```
    #[inline]
    #[track_caller]
    pub fn try_acquire(&self) -> Result<SemaphorePermit<'_>, TryAcquireError> {
        self.try_acquire_many(1)
    }

    /// Acquires `n` permits together if no waiting is needed.
    ///
    /// # Errors
    ///
    /// Returns [`TryAcquireError::NoPermits`] if fewer are available, and
    /// [`TryAcquireError::Closed`] if the semaphore is [closed](Self::close).
    ///
    /// # Panics
    ///
    /// Panics if `n` is more than [`MAX_PERMITS`](Self::MAX_PERMITS).
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::{Semaphore, TryAcquireError};
    ///
    /// let semaphore = Semaphore::new(4);
    /// let permit = semaphore.try_acquire_many(3).unwrap();
    /// assert_eq!(semaphore.try_acquire_many(2).unwrap_err(), TryAcquireError::NoPermits);
    /// # drop(permit);
    /// ```
    #[inline]
    #[track_caller]
    pub fn try_acquire_many(&self, n: u32) -> Result<SemaphorePermit<'_>, TryAcquireError> {
        let owner = self.try_acquire_raw(n)?;
        Ok(SemaphorePermit::new(self, n as usize, owner))
    }

    #[inline]
    #[track_caller]
    fn try_acquire_raw(&self, n: u32) -> Result<OwnerIndex, TryAcquireError> {
        check_permits(n as usize);
        match self.permits.try_acquire(n as usize, Location::caller()) {
            AcquireOutcome::Acquired(owner) => Ok(owner),
            AcquireOutcome::NoPermits => Err(TryAcquireError::NoPermits),
            AcquireOutcome::Closed => Err(TryAcquireError::Closed),
        }
    }

    /// Acquires one permit, blocking the calling thread while none is available.
    ///
    /// This is for code outside of tasks, for example a closure of
    /// [`spawn_blocking`](crate::task::spawn_blocking).
    ///
    /// # Errors
    ///
    /// Returns [`AcquireError`] if the semaphore is [closed](Self::close), before the call or while
    /// it waits.
    ///
    /// # Panics
    ///
    /// Panics if called on a thread that drives tasks, because blocking would stall those tasks.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::Semaphore;
    ///
    /// let semaphore = Semaphore::new(1);
    /// let permit = semaphore.blocking_acquire().unwrap();
    /// assert_eq!(semaphore.available_permits(), 0);
    /// # drop(permit);
    /// ```
    #[track_caller]
    pub fn blocking_acquire(&self) -> Result<SemaphorePermit<'_>, AcquireError> {
        self.blocking_acquire_many(1)
    }

    /// Acquires `n` permits together, blocking the calling thread until all are available.
    ///
    /// This is for code outside of tasks.
    ///
    /// # Errors
    ///
    /// Returns [`AcquireError`] if the semaphore is [closed](Self::close), before the call or while
    /// it waits.
    ///
    /// # Panics
    ///
    /// Panics if called on a thread that drives tasks, because blocking would stall those tasks,
    /// and if `n` is more than [`MAX_PERMITS`](Self::MAX_PERMITS).
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::Semaphore;
    ///
    /// let semaphore = Semaphore::new(3);
    /// let permit = semaphore.blocking_acquire_many(2).unwrap();
    /// assert_eq!(semaphore.available_permits(), 1);
    /// # drop(permit);
    /// ```
    #[track_caller]
    pub fn blocking_acquire_many(&self, n: u32) -> Result<SemaphorePermit<'_>, AcquireError> {
        enter_guard::check_may_block();
        match self.try_acquire_many(n) {
            Ok(permit) => Ok(permit),
            Err(_) => block_on::block_on(self.acquire_many(n)),
        }
    }

    /// Closes the semaphore: all waiting requests and all later ones fail.
    ///
    /// A request whose permit was granted, but whose future has not returned it yet, also fails.
    /// Permits that are held stay valid, and are returned to the semaphore as usual.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use wakeful::sync::Semaphore;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let semaphore = Arc::new(Semaphore::new(0));
    /// let waiter = wakeful::spawn({
    ///     let semaphore = semaphore.clone();
    ///     async move { semaphore.acquire().await.is_err() }
    /// });
    /// wakeful::task::yield_now().await;
    /// semaphore.close();
    /// assert!(waiter.await.unwrap());
    /// # }
    /// ```
    pub fn close(&self) {
        self.permits.close();
    }

    /// Returns whether the semaphore was [closed](Self::close).
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::Semaphore;
    ///
    /// let semaphore = Semaphore::new(1);
    /// assert!(!semaphore.is_closed());
    /// semaphore.close();
    /// assert!(semaphore.is_closed());
    /// ```
    pub fn is_closed(&self) -> bool {
        self.permits.is_closed()
    }

    /// Takes back the permits of a dropped [`SemaphorePermit`] or [`OwnedSemaphorePermit`].
    #[inline]
    fn release(&self, permits: usize, owner: OwnerIndex) {
        if permits == 0 {
            return self.permits.forget_owner(owner);
        }
        self.permits.release(permits, owner);
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore")
            .field("permits", &self.available_permits())
            .field("closed", &self.is_closed())
            .finish()
    }
}

pin_project_lite::pin_project! {
    /// Future returned by [`Semaphore::acquire`].
    struct Acquire<'a> {
        sem: &'a Semaphore,
        #[pin]
        request: PermitRequest,
    }

    impl PinnedDrop for Acquire<'_> {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            this.request.cancel(&this.sem.permits);
        }
    }
}

impl<'a> Future for Acquire<'a> {
    type Output = Result<SemaphorePermit<'a>, AcquireError>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let (sem, requested): (&'a Semaphore, _) = (this.sem, this.request.requested());
        let owner = ready!(this.request.poll(&sem.permits, WaitKind::Semaphore, cx))?;
        Poll::Ready(Ok(SemaphorePermit::new(sem, requested, owner)))
    }
}
