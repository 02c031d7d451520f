//! Methods of `Arc<Semaphore>`, whose permits keep the semaphore alive.

use super::{AcquireError, OwnedSemaphorePermit, Semaphore, TryAcquireError};
use crate::sync::acquire::PermitRequest;
use crate::task::enter_guard;
use crate::task::wait_kind::WaitKind;
use crate::wait::block_on;
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

impl Semaphore {
    /// Acquires an owned permit, waiting while none is available.
    ///
    /// The permit owns an `Arc` of the semaphore, so it can be moved into a spawned task.
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
    /// Acquiring the permit before the spawn limits how many tasks exist:
    ///
    /// ```
    /// use std::sync::Arc;
    /// use wakeful::sync::Semaphore;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let limit = Arc::new(Semaphore::new(2));
    /// let mut tasks = Vec::new();
    /// for number in 0..4 {
    ///     let permit = limit.clone().acquire_owned().await.unwrap();
    ///     tasks.push(wakeful::spawn(async move {
    ///         let square = number * number;
    ///         drop(permit);
    ///         square
    ///     }));
    /// }
    /// let mut sum = 0;
    /// for task in tasks {
    ///     sum += task.await.unwrap();
    /// }
    /// assert_eq!(sum, 14);
    /// # }
    /// ```
    #[track_caller]
    pub fn acquire_owned(
        self: Arc<Self>,
    ) -> impl Future<Output = Result<OwnedSemaphorePermit, AcquireError>> {
        AcquireOwned { sem: Some(self), request: PermitRequest::new(1, Location::caller()) }
    }

    /// Acquires `n` owned permits together, waiting until all are available.
    ///
    /// The permits are returned as one [`OwnedSemaphorePermit`].
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
    /// use std::sync::Arc;
    /// use wakeful::sync::Semaphore;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let semaphore = Arc::new(Semaphore::new(5));
    /// let permit = semaphore.clone().acquire_many_owned(3).await.unwrap();
    /// assert_eq!(semaphore.available_permits(), 2);
    /// # drop(permit);
    /// # }
    /// ```
    #[track_caller]
    pub fn acquire_many_owned(
        self: Arc<Self>,
        n: u32,
    ) -> impl Future<Output = Result<OwnedSemaphorePermit, AcquireError>> {
        AcquireOwned {
            sem: Some(self),
            request: PermitRequest::new(n as usize, Location::caller()),
        }
    }

    /// Acquires an owned permit if one is available.
    ///
    /// # Errors
    ///
    /// Returns [`TryAcquireError::NoPermits`] if none is available, and [`TryAcquireError::Closed`]
    /// if the semaphore is [closed](Self::close).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use wakeful::sync::Semaphore;
    ///
    /// let semaphore = Arc::new(Semaphore::new(1));
    /// let permit = semaphore.clone().try_acquire_owned().unwrap();
    /// assert!(semaphore.try_acquire().is_err());
    /// # drop(permit);
    /// ```
    #[track_caller]
    pub fn try_acquire_owned(self: Arc<Self>) -> Result<OwnedSemaphorePermit, TryAcquireError> {
        self.try_acquire_many_owned(1)
    }

    /// Acquires `n` owned permits together if they are available.
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
    /// use std::sync::Arc;
    /// use wakeful::sync::Semaphore;
    ///
    /// let semaphore = Arc::new(Semaphore::new(3));
    /// let permit = semaphore.clone().try_acquire_many_owned(2).unwrap();
    /// assert_eq!(semaphore.available_permits(), 1);
    /// # drop(permit);
    /// ```
    #[track_caller]
    pub fn try_acquire_many_owned(
        self: Arc<Self>,
        n: u32,
    ) -> Result<OwnedSemaphorePermit, TryAcquireError> {
        let owner = self.try_acquire_raw(n)?;
        Ok(OwnedSemaphorePermit::new(self, n as usize, owner))
    }

    /// Acquires an owned permit, blocking the calling thread until one is available.
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
    /// Panics if called on a thread that drives tasks, because blocking would stall those tasks.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use wakeful::sync::Semaphore;
    ///
    /// let semaphore = Arc::new(Semaphore::new(1));
    /// let permit = semaphore.clone().blocking_acquire_owned().unwrap();
    /// assert_eq!(semaphore.available_permits(), 0);
    /// # drop(permit);
    /// ```
    #[track_caller]
    pub fn blocking_acquire_owned(self: Arc<Self>) -> Result<OwnedSemaphorePermit, AcquireError> {
        self.blocking_acquire_many_owned(1)
    }

    /// Acquires `n` owned permits, blocking the calling thread until all are available.
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
    /// use std::sync::Arc;
    /// use wakeful::sync::Semaphore;
    ///
    /// let semaphore = Arc::new(Semaphore::new(3));
    /// let permit = semaphore.clone().blocking_acquire_many_owned(2).unwrap();
    /// assert_eq!(semaphore.available_permits(), 1);
    /// # drop(permit);
    /// ```
    #[track_caller]
    pub fn blocking_acquire_many_owned(
        self: Arc<Self>,
        n: u32,
    ) -> Result<OwnedSemaphorePermit, AcquireError> {
        enter_guard::check_may_block();
        match self.try_acquire_raw(n) {
            Ok(owner) => Ok(OwnedSemaphorePermit::new(self, n as usize, owner)),
            Err(_) => block_on::block_on(self.acquire_many_owned(n)),
        }
    }
}

pin_project_lite::pin_project! {
    /// Future returned by [`Semaphore::acquire_owned`].
    struct AcquireOwned {
        // `Some` until the future has completed.
        sem: Option<Arc<Semaphore>>,
        #[pin]
        request: PermitRequest,
    }

    impl PinnedDrop for AcquireOwned {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            if let Some(sem) = this.sem {
                this.request.cancel(&sem.permits);
            }
        }
    }
}

impl Future for AcquireOwned {
    type Output = Result<OwnedSemaphorePermit, AcquireError>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let sem = this.sem.as_ref().expect("`Semaphore::acquire_owned` polled after completion");
        let permits = &sem.permits;
        let requested = this.request.requested();
        let acquired = ready!(this.request.poll(permits, WaitKind::Semaphore, cx));
        let sem = this.sem.take().expect("checked above");
        Poll::Ready(Ok(OwnedSemaphorePermit::new(sem, requested, acquired?)))
    }
}
