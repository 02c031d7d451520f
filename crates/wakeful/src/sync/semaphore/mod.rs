//! A number of permits that tasks share.

mod permit;

pub use permit::{OwnedSemaphorePermit, SemaphorePermit};

use super::acquire::PermitRequest;
use super::permit_owners::OwnerIndex;
use super::raw_semaphore::{self, Closed, RawSemaphore, Taken, check_permits};
use crate::sys::sync::const_unless_model;
use crate::task::enter_guard;
use crate::task::wait_kind::WaitKind;
use crate::wait::block_on;
use std::fmt;
use std::panic::{Location, RefUnwindSafe, UnwindSafe};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// A number of permits. Whoever wants to do something that not all can do at
/// once takes one first, and waits while there is none.
///
/// # Fairness
///
/// Permits go to tasks in the order in which they began to wait. A task that asks
/// for many is not passed by tasks that ask for fewer: whatever comes back is put
/// aside for it until it has all, and does not count as
/// [available](Self::available_permits) meanwhile. `try_acquire` does not pass
/// waiting tasks either.
///
/// # Memory ordering
///
/// What a task does before it gives a permit back happens before what another does
/// after it got that permit.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use wakeful::sync::Semaphore;
///
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() {
/// let seats = Arc::new(Semaphore::new(2));
/// let guests: Vec<_> = (0..10)
///     .map(|guest| {
///         let seats = seats.clone();
///         wakeful::spawn(async move {
///             let _seat = seats.acquire().await.expect("never closed");
///             guest // at most two get here at a time
///         })
///     })
///     .collect();
/// for guest in guests {
///     guest.await.unwrap();
/// }
/// assert_eq!(seats.available_permits(), 2);
/// # }
/// ```
pub struct Semaphore {
    permits: RawSemaphore,
}

// A panic leaves the semaphore whole: no foreign code runs under its locks.
impl UnwindSafe for Semaphore {}
impl RefUnwindSafe for Semaphore {}

/// The semaphore was [closed](Semaphore::close): there will be no more permits.
#[derive(Debug)]
pub struct AcquireError(());

impl fmt::Display for AcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("semaphore closed")
    }
}

impl std::error::Error for AcquireError {}

impl From<Closed> for AcquireError {
    fn from(Closed: Closed) -> Self {
        Self(())
    }
}

/// Why no permit could be had at once.
#[derive(Debug, PartialEq, Eq)]
pub enum TryAcquireError {
    /// The semaphore was [closed](Semaphore::close).
    Closed,
    /// There are not enough permits at the moment.
    NoPermits,
}

impl fmt::Display for TryAcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TryAcquireError::Closed => "semaphore closed",
            TryAcquireError::NoPermits => "no permits available",
        })
    }
}

impl std::error::Error for TryAcquireError {}

impl Semaphore {
    /// The most permits a semaphore can have, `usize::MAX >> 3`.
    pub const MAX_PERMITS: usize = raw_semaphore::MAX;

    /// Starts with this many permits.
    ///
    /// # Panics
    ///
    /// If they are more than [`MAX_PERMITS`](Self::MAX_PERMITS).
    #[track_caller]
    pub fn new(permits: usize) -> Self {
        check_permits(permits);
        Self::const_new(permits)
    }

    const_unless_model! {
        /// As [`new`](Self::new), for statics.
        ///
        /// # Panics
        ///
        /// If they are more than [`MAX_PERMITS`](Self::MAX_PERMITS).
        #[track_caller]
        pub fn const_new(permits: usize) -> Self {
            assert!(
                permits <= Self::MAX_PERMITS,
                "a semaphore may not have more than MAX_PERMITS permits"
            );
            Self { permits: RawSemaphore::new(permits) }
        }
    }

    /// How many permits could be taken now.
    pub fn available_permits(&self) -> usize {
        self.permits.available()
    }

    /// Adds permits: to those who wait, and the rest for those who come.
    ///
    /// # Panics
    ///
    /// If there would be more than [`MAX_PERMITS`](Self::MAX_PERMITS).
    #[track_caller]
    pub fn add_permits(&self, n: usize) {
        if n > 0 {
            self.permits.put(n, OwnerIndex::NOWHERE);
        }
    }

    /// Takes up to `n` of the available permits away for good; answers how many
    /// they were. Permits that are held, or put aside for somebody who waits, are
    /// not affected.
    pub fn forget_permits(&self, n: usize) -> usize {
        self.permits.take_up_to(n)
    }

    /// Waits for a permit.
    ///
    /// # Errors
    ///
    /// If the semaphore is or gets [closed](Self::close).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up its place among those who wait. A permit that
    /// it was given and has not returned goes to the next.
    #[track_caller]
    pub fn acquire(&self) -> impl Future<Output = Result<SemaphorePermit<'_>, AcquireError>> {
        Acquire { sem: self, acquiring: PermitRequest::new(1, Location::caller()) }
    }

    /// Waits for `n` permits at once.
    ///
    /// # Errors
    ///
    /// If the semaphore is or gets [closed](Self::close).
    ///
    /// # Panics
    ///
    /// If `n` is more than [`MAX_PERMITS`](Self::MAX_PERMITS), where `usize` is
    /// small enough for that.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up its place among those who wait. Permits that
    /// it was given go to the next.
    #[track_caller]
    pub fn acquire_many(
        &self,
        n: u32,
    ) -> impl Future<Output = Result<SemaphorePermit<'_>, AcquireError>> {
        Acquire { sem: self, acquiring: PermitRequest::new(n as usize, Location::caller()) }
    }

    /// Takes a permit if there is one.
    ///
    /// # Errors
    ///
    /// If there is none, or the semaphore is [closed](Self::close).
    #[inline]
    #[track_caller]
    pub fn try_acquire(&self) -> Result<SemaphorePermit<'_>, TryAcquireError> {
        self.try_acquire_many(1)
    }

    /// Takes `n` permits if they are there.
    ///
    /// # Errors
    ///
    /// If there are fewer, or the semaphore is [closed](Self::close).
    ///
    /// # Panics
    ///
    /// If `n` is more than [`MAX_PERMITS`](Self::MAX_PERMITS).
    #[inline]
    #[track_caller]
    pub fn try_acquire_many(&self, n: u32) -> Result<SemaphorePermit<'_>, TryAcquireError> {
        let spot = self.try_take(n)?;
        Ok(SemaphorePermit::new(self, n as usize, spot))
    }

    #[inline]
    #[track_caller]
    fn try_take(&self, n: u32) -> Result<OwnerIndex, TryAcquireError> {
        check_permits(n as usize);
        match self.permits.try_take(n as usize, Location::caller()) {
            Taken::Yes(spot) => Ok(spot),
            Taken::Short => Err(TryAcquireError::NoPermits),
            Taken::Closed => Err(TryAcquireError::Closed),
        }
    }

    /// Blocks the thread until there is a permit: for code outside of tasks.
    ///
    /// # Errors
    ///
    /// If the semaphore is or gets [closed](Self::close).
    ///
    /// # Panics
    ///
    /// If the thread drives tasks.
    #[track_caller]
    pub fn blocking_acquire(&self) -> Result<SemaphorePermit<'_>, AcquireError> {
        self.blocking_acquire_many(1)
    }

    /// Blocks the thread until there are `n` permits: for code outside of tasks.
    ///
    /// # Errors
    ///
    /// If the semaphore is or gets [closed](Self::close).
    ///
    /// # Panics
    ///
    /// If the thread drives tasks, or if `n` is more than
    /// [`MAX_PERMITS`](Self::MAX_PERMITS).
    #[track_caller]
    pub fn blocking_acquire_many(&self, n: u32) -> Result<SemaphorePermit<'_>, AcquireError> {
        enter_guard::check_may_block();
        match self.try_acquire_many(n) {
            Ok(permit) => Ok(permit),
            Err(_) => block_on::block_on(self.acquire_many(n)),
        }
    }

    /// As [`acquire`](Self::acquire), with a permit that keeps the semaphore alive.
    ///
    /// # Errors
    ///
    /// If the semaphore is or gets [closed](Self::close).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    #[track_caller]
    pub fn acquire_owned(
        self: Arc<Self>,
    ) -> impl Future<Output = Result<OwnedSemaphorePermit, AcquireError>> {
        AcquireOwned { sem: Some(self), acquiring: PermitRequest::new(1, Location::caller()) }
    }

    /// As [`acquire_many`](Self::acquire_many), with a permit that keeps the
    /// semaphore alive.
    ///
    /// # Errors
    ///
    /// If the semaphore is or gets [closed](Self::close).
    ///
    /// # Panics
    ///
    /// As [`acquire_many`](Self::acquire_many).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire_many`](Self::acquire_many).
    #[track_caller]
    pub fn acquire_many_owned(
        self: Arc<Self>,
        n: u32,
    ) -> impl Future<Output = Result<OwnedSemaphorePermit, AcquireError>> {
        AcquireOwned {
            sem: Some(self),
            acquiring: PermitRequest::new(n as usize, Location::caller()),
        }
    }

    /// As [`try_acquire`](Self::try_acquire), with a permit that keeps the
    /// semaphore alive.
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Self::try_acquire).
    #[track_caller]
    pub fn try_acquire_owned(self: Arc<Self>) -> Result<OwnedSemaphorePermit, TryAcquireError> {
        self.try_acquire_many_owned(1)
    }

    /// As [`try_acquire_many`](Self::try_acquire_many), with a permit that keeps
    /// the semaphore alive.
    ///
    /// # Errors
    ///
    /// As [`try_acquire_many`](Self::try_acquire_many).
    ///
    /// # Panics
    ///
    /// As [`try_acquire_many`](Self::try_acquire_many).
    #[track_caller]
    pub fn try_acquire_many_owned(
        self: Arc<Self>,
        n: u32,
    ) -> Result<OwnedSemaphorePermit, TryAcquireError> {
        let spot = self.try_take(n)?;
        Ok(OwnedSemaphorePermit::new(self, n as usize, spot))
    }

    /// As [`blocking_acquire`](Self::blocking_acquire), with a permit that keeps
    /// the semaphore alive.
    ///
    /// # Errors
    ///
    /// If the semaphore is or gets [closed](Self::close).
    ///
    /// # Panics
    ///
    /// If the thread drives tasks.
    #[track_caller]
    pub fn blocking_acquire_owned(self: Arc<Self>) -> Result<OwnedSemaphorePermit, AcquireError> {
        self.blocking_acquire_many_owned(1)
    }

    /// As [`blocking_acquire_many`](Self::blocking_acquire_many), with a permit
    /// that keeps the semaphore alive.
    ///
    /// # Errors
    ///
    /// If the semaphore is or gets [closed](Self::close).
    ///
    /// # Panics
    ///
    /// As [`blocking_acquire_many`](Self::blocking_acquire_many).
    #[track_caller]
    pub fn blocking_acquire_many_owned(
        self: Arc<Self>,
        n: u32,
    ) -> Result<OwnedSemaphorePermit, AcquireError> {
        enter_guard::check_may_block();
        match self.try_take(n) {
            Ok(spot) => Ok(OwnedSemaphorePermit::new(self, n as usize, spot)),
            Err(_) => block_on::block_on(self.acquire_many_owned(n)),
        }
    }

    /// From here on nobody gets a permit: those who wait, also those whose future
    /// was given one but has not returned it yet, and those who come later get an
    /// error. Permits that are held stay valid and still come back.
    pub fn close(&self) {
        self.permits.close();
    }

    /// Whether it was [closed](Self::close).
    pub fn is_closed(&self) -> bool {
        self.permits.is_closed()
    }

    /// Takes back what a permit had.
    #[inline]
    fn give_back(&self, permits: usize, spot: OwnerIndex) {
        if permits == 0 {
            return self.permits.forget(spot);
        }
        self.permits.put(permits, spot);
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
    /// The future of [`Semaphore::acquire`].
    struct Acquire<'a> {
        sem: &'a Semaphore,
        #[pin]
        acquiring: PermitRequest,
    }

    impl PinnedDrop for Acquire<'_> {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            this.acquiring.cancel(&this.sem.permits);
        }
    }
}

impl<'a> Future for Acquire<'a> {
    type Output = Result<SemaphorePermit<'a>, AcquireError>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let (sem, wanted): (&'a Semaphore, _) = (this.sem, this.acquiring.wanted());
        let spot = ready!(this.acquiring.poll(&sem.permits, WaitKind::Semaphore, cx))?;
        Poll::Ready(Ok(SemaphorePermit::new(sem, wanted, spot)))
    }
}

pin_project_lite::pin_project! {
    /// The future of [`Semaphore::acquire_owned`].
    struct AcquireOwned {
        // There until the future is done.
        sem: Option<Arc<Semaphore>>,
        #[pin]
        acquiring: PermitRequest,
    }

    impl PinnedDrop for AcquireOwned {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            if let Some(sem) = this.sem {
                this.acquiring.cancel(&sem.permits);
            }
        }
    }
}

impl Future for AcquireOwned {
    type Output = Result<OwnedSemaphorePermit, AcquireError>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let permits = &this.sem.as_ref().expect("polled after it was done").permits;
        let wanted = this.acquiring.wanted();
        let acquired = ready!(this.acquiring.poll(permits, WaitKind::Semaphore, cx));
        let sem = this.sem.take().expect("it was there a moment ago");
        Poll::Ready(Ok(OwnedSemaphorePermit::new(sem, wanted, acquired?)))
    }
}
