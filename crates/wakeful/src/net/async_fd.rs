//! Readiness of any descriptor; seen from outside as part of `io::unix`.

use crate::driver::io_readiness::{Direction, Readiness, ReadinessSnapshot};
use crate::io::{Interest, Ready};
use crate::net::stream_io::{kind_of, mask_of};
use crate::runtime::registration::{OpSource, Registration};
use crate::task::wait_kind::WaitKind;
use std::error::Error;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::panic::Location;
use std::task::{Context, Poll, ready};

/// Any descriptor that the system can tell about when it is ready: a pipe, a
/// device, a timer, a socket of another library.
///
/// It does not read or write; whoever has waited does that, and says through the
/// guard if there was nothing: [`AsyncFdReadyGuard::try_io`] does both. The system
/// tells of changes only, so what is ready counts as ready until it is
/// [cleared](AsyncFdReadyGuard::clear_ready), and must not be cleared before an
/// operation has failed with `WouldBlock`. For that, the descriptor has to be in
/// non-blocking mode, which the user sees to.
///
/// What reads all the time and never finds out that there is no more keeps its
/// budget by the waits in between.
///
/// ```
/// use std::io::{Read, Write};
/// use std::os::unix::net::UnixStream;
/// use wakeful::io::unix::AsyncFd;
///
/// # #[wakeful::main]
/// # async fn main() -> std::io::Result<()> {
/// let (near, mut far) = UnixStream::pair()?;
/// near.set_nonblocking(true)?;
/// // SAFETY: a stream has one descriptor, and keeps it open.
/// let near = unsafe { AsyncFd::register(near)? };
/// far.write_all(b"hello")?;
///
/// let mut text = [0; 5];
/// loop {
///     let mut guard = near.readable().await?;
///     match guard.try_io(|near| near.get_ref().read(&mut text)) {
///         Ok(result) => break assert_eq!(result?, 5),
///         Err(_would_block) => continue,
///     }
/// }
/// assert_eq!(&text, b"hello");
/// # Ok(())
/// # }
/// ```
pub struct AsyncFd<T: AsRawFd> {
    registration: Registration,
    /// There until it is taken out.
    inner: Option<T>,
}

/// What an [`AsyncFd`] was ready for when somebody had waited for it.
#[must_use = "say whether it is still ready: with `try_io`, `clear_ready` or `retain_ready`"]
pub struct AsyncFdReadyGuard<'a, T: AsRawFd> {
    async_fd: &'a AsyncFd<T>,
    /// There until it is cleared.
    seen: Option<ReadinessSnapshot>,
}

/// As [`AsyncFdReadyGuard`], with exclusive access to the [`AsyncFd`].
#[must_use = "say whether it is still ready: with `try_io`, `clear_ready` or `retain_ready`"]
pub struct AsyncFdReadyMutGuard<'a, T: AsRawFd> {
    async_fd: &'a mut AsyncFd<T>,
    /// There until it is cleared.
    seen: Option<ReadinessSnapshot>,
}

const BOTH: Interest = Interest::READABLE.add(Interest::WRITABLE);

impl<T: AsRawFd> AsyncFd<T> {
    /// Watches a descriptor for reading and writing. It must be in non-blocking
    /// mode.
    ///
    /// # Errors
    ///
    /// Those of the system; a regular file cannot be watched, for one.
    ///
    /// # Panics
    ///
    /// Outside of a runtime with I/O.
    ///
    /// # Safety
    ///
    /// `as_raw_fd` gives one and the same descriptor for as long as `inner` is in
    /// here, and nobody closes it in that time.
    #[track_caller]
    pub unsafe fn register(inner: T) -> Result<Self, AsyncFdRegisterError<T>> {
        Self::watch(inner, BOTH)
    }

    /// Watches a descriptor for what `interest` says; only that can be waited for.
    /// See [`register`](Self::register).
    ///
    /// # Panics
    ///
    /// Outside of a runtime with I/O.
    ///
    /// # Safety
    ///
    /// As [`register`](Self::register).
    #[track_caller]
    pub unsafe fn register_with_interest(
        inner: T,
        interest: Interest,
    ) -> Result<Self, AsyncFdRegisterError<T>> {
        Self::watch(inner, interest)
    }

    #[track_caller]
    fn watch(inner: T, interest: Interest) -> Result<Self, AsyncFdRegisterError<T>> {
        match Registration::new(inner.as_raw_fd(), interest.to_mio(), Location::caller()) {
            Ok(registration) => Ok(Self { registration, inner: Some(inner) }),
            Err(cause) => Err(AsyncFdRegisterError { inner, cause }),
        }
    }

    /// As [`register`](Self::register), for what is known to keep its descriptor.
    #[track_caller]
    #[deprecated = "nothing says that the descriptor stays open: use `AsyncFd::register`"]
    pub fn new(inner: T) -> io::Result<Self> {
        Ok(Self::watch(inner, BOTH)?)
    }

    /// As [`register_with_interest`](Self::register_with_interest), for what is
    /// known to keep its descriptor.
    #[track_caller]
    #[deprecated = "nothing says that the descriptor stays open: use \
                    `AsyncFd::register_with_interest`"]
    pub fn with_interest(inner: T, interest: Interest) -> io::Result<Self> {
        Ok(Self::watch(inner, interest)?)
    }

    /// As [`register`](Self::register), for what is known to keep its descriptor.
    #[track_caller]
    #[deprecated = "nothing says that the descriptor stays open: use `AsyncFd::register`"]
    pub fn try_new(inner: T) -> Result<Self, AsyncFdRegisterError<T>> {
        Self::watch(inner, BOTH)
    }

    /// As [`register_with_interest`](Self::register_with_interest), for what is
    /// known to keep its descriptor.
    #[track_caller]
    #[deprecated = "nothing says that the descriptor stays open: use \
                    `AsyncFd::register_with_interest`"]
    pub fn try_with_interest(
        inner: T,
        interest: Interest,
    ) -> Result<Self, AsyncFdRegisterError<T>> {
        Self::watch(inner, interest)
    }

    /// The thing itself.
    #[inline]
    pub fn get_ref(&self) -> &T {
        self.inner.as_ref().expect("there until it is taken out")
    }

    /// The thing itself, to be changed; but not its descriptor.
    #[inline]
    pub fn get_mut(&mut self) -> &mut T {
        self.inner.as_mut().expect("there until it is taken out")
    }

    /// Gives the thing back; nobody watches it any more.
    pub fn into_inner(mut self) -> T {
        self.take_out().expect("taken out once")
    }

    fn take_out(&mut self) -> Option<T> {
        let inner = self.inner.take()?;
        // It fails if the descriptor was closed before; the poller then keeps what the
        // system may still tell of.
        let _ = self.registration.deregister();
        Some(inner)
    }

    /// Waits until it can be read, for the task that asks last; any number of
    /// tasks may wait with [`readable`](Self::readable).
    pub fn poll_read_ready<'a>(
        &'a self,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<AsyncFdReadyGuard<'a, T>>> {
        let seen = ready!(self.registration.poll_ready(Direction::Read, cx, WaitKind::IoRead))?;
        Poll::Ready(Ok(self.guard(seen)))
    }

    /// As [`poll_read_ready`](Self::poll_read_ready), with exclusive access.
    pub fn poll_read_ready_mut<'a>(
        &'a mut self,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<AsyncFdReadyMutGuard<'a, T>>> {
        let seen = ready!(self.registration.poll_ready(Direction::Read, cx, WaitKind::IoRead))?;
        Poll::Ready(Ok(self.guard_mut(seen)))
    }

    /// Waits until it can be written, for the task that asks last; any number of
    /// tasks may wait with [`writable`](Self::writable).
    pub fn poll_write_ready<'a>(
        &'a self,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<AsyncFdReadyGuard<'a, T>>> {
        let seen = ready!(self.registration.poll_ready(Direction::Write, cx, WaitKind::IoWrite))?;
        Poll::Ready(Ok(self.guard(seen)))
    }

    /// As [`poll_write_ready`](Self::poll_write_ready), with exclusive access.
    pub fn poll_write_ready_mut<'a>(
        &'a mut self,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<AsyncFdReadyMutGuard<'a, T>>> {
        let seen = ready!(self.registration.poll_ready(Direction::Write, cx, WaitKind::IoWrite))?;
        Poll::Ready(Ok(self.guard_mut(seen)))
    }

    fn guard(&self, seen: ReadinessSnapshot) -> AsyncFdReadyGuard<'_, T> {
        AsyncFdReadyGuard { async_fd: self, seen: Some(seen) }
    }

    fn guard_mut(&mut self, seen: ReadinessSnapshot) -> AsyncFdReadyMutGuard<'_, T> {
        AsyncFdReadyMutGuard { async_fd: self, seen: Some(seen) }
    }

    /// Waits until it is ready for any of `interest`, which must be part of what
    /// it was registered for.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing: what is ready stays so until it is
    /// cleared.
    #[track_caller]
    pub fn ready(
        &self,
        interest: Interest,
    ) -> impl Future<Output = io::Result<AsyncFdReadyGuard<'_, T>>> {
        let site = Location::caller();
        let ready = self.registration.ready(mask_of(interest), kind_of(interest), site);
        async move { Ok(self.guard(ready.await?)) }
    }

    /// As [`ready`](Self::ready), with exclusive access.
    #[track_caller]
    pub fn ready_mut(
        &mut self,
        interest: Interest,
    ) -> impl Future<Output = io::Result<AsyncFdReadyMutGuard<'_, T>>> {
        let site = Location::caller();
        async move {
            let ready = self.registration.ready(mask_of(interest), kind_of(interest), site);
            let seen = ready.await?;
            Ok(self.guard_mut(seen))
        }
    }

    /// Waits until it can be read.
    ///
    /// # Cancel safety
    ///
    /// As [`ready`](Self::ready).
    #[track_caller]
    pub fn readable(&self) -> impl Future<Output = io::Result<AsyncFdReadyGuard<'_, T>>> {
        self.ready(Interest::READABLE)
    }

    /// As [`readable`](Self::readable), with exclusive access.
    #[track_caller]
    pub fn readable_mut(
        &mut self,
    ) -> impl Future<Output = io::Result<AsyncFdReadyMutGuard<'_, T>>> {
        self.ready_mut(Interest::READABLE)
    }

    /// Waits until it can be written.
    ///
    /// # Cancel safety
    ///
    /// As [`ready`](Self::ready).
    #[track_caller]
    pub fn writable(&self) -> impl Future<Output = io::Result<AsyncFdReadyGuard<'_, T>>> {
        self.ready(Interest::WRITABLE)
    }

    /// As [`writable`](Self::writable), with exclusive access.
    #[track_caller]
    pub fn writable_mut(
        &mut self,
    ) -> impl Future<Output = io::Result<AsyncFdReadyMutGuard<'_, T>>> {
        self.ready_mut(Interest::WRITABLE)
    }

    /// Repeats an operation until it does not fail with `WouldBlock`, waiting in
    /// between.
    ///
    /// # Cancel safety
    ///
    /// As `f` is: nothing else is lost.
    #[track_caller]
    pub fn async_io<R>(
        &self,
        interest: Interest,
        mut f: impl FnMut(&T) -> io::Result<R>,
    ) -> impl Future<Output = io::Result<R>> {
        let (mask, kind, site) = (mask_of(interest), kind_of(interest), Location::caller());
        self.registration.async_io(OpSource::TheUsers, mask, kind, site, move |_| f(self.get_ref()))
    }

    /// As [`async_io`](Self::async_io), with exclusive access.
    #[track_caller]
    pub fn async_io_mut<R>(
        &mut self,
        interest: Interest,
        mut f: impl FnMut(&mut T) -> io::Result<R>,
    ) -> impl Future<Output = io::Result<R>> {
        let (mask, kind, site) = (mask_of(interest), kind_of(interest), Location::caller());
        let inner = self.inner.as_mut().expect("there until it is taken out");
        self.registration.async_io(OpSource::TheUsers, mask, kind, site, move |_| f(inner))
    }

    /// Tries an operation once, if it is known to be ready; if that fails with
    /// `WouldBlock`, it is known not to be.
    pub fn try_io<R>(
        &self,
        interest: Interest,
        f: impl FnOnce(&T) -> io::Result<R>,
    ) -> io::Result<R> {
        self.registration.try_io(OpSource::TheUsers, mask_of(interest), || f(self.get_ref()))
    }

    /// As [`try_io`](Self::try_io), with exclusive access.
    pub fn try_io_mut<R>(
        &mut self,
        interest: Interest,
        f: impl FnOnce(&mut T) -> io::Result<R>,
    ) -> io::Result<R> {
        let inner = self.inner.as_mut().expect("there until it is taken out");
        self.registration.try_io(OpSource::TheUsers, mask_of(interest), || f(inner))
    }
}

fn would_block(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}

/// What the two guards have in common.
macro_rules! guards {
    ($guard:ident, $name:literal, $given:ty) => {
        impl<'a, Inner: AsRawFd> $guard<'a, Inner> {
            /// Says that an operation failed with `WouldBlock`, so that what the
            /// guard was given for is no longer so. What came after the guard, and
            /// the end of a stream, stay.
            pub fn clear_ready(&mut self) {
                if let Some(seen) = self.seen.take() {
                    self.async_fd.registration.clear(seen);
                }
            }

            /// As [`clear_ready`](Self::clear_ready), for just these: a part of what
            /// the guard was given for, or something else.
            pub fn clear_ready_matching(&mut self, ready: Ready) {
                let Some(mut seen) = self.seen.take() else { return };
                let left = Ready::from_bits(seen.ready.0) - ready;
                seen.ready = Readiness(ready.bits());
                self.async_fd.registration.clear(seen);
                if !left.is_empty() {
                    seen.ready = Readiness(left.bits());
                    self.seen = Some(seen);
                }
            }

            /// Says that it is still ready. Dropping the guard does the same.
            pub fn retain_ready(&mut self) {}

            /// What it was ready for, of what was waited for and has not been
            /// cleared.
            pub fn ready(&self) -> Ready {
                self.seen.map_or(Ready::EMPTY, |seen| Ready::from_bits(seen.ready.0))
            }

            /// Tries an operation; if it fails with `WouldBlock`, says so with
            /// [`clear_ready`](Self::clear_ready), and the wait is to be repeated.
            pub fn try_io<R>(
                &mut self,
                f: impl FnOnce($given) -> io::Result<R>,
            ) -> Result<io::Result<R>, TryIoError> {
                match f(self.async_fd) {
                    Err(error) if would_block(&error) => {
                        self.clear_ready();
                        Err(TryIoError(()))
                    }
                    result => Ok(result),
                }
            }
        }

        impl<T: AsRawFd + fmt::Debug> fmt::Debug for $guard<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct($name).field("async_fd", &self.async_fd).finish()
            }
        }
    };
}
guards!(AsyncFdReadyGuard, "ReadyGuard", &'a AsyncFd<Inner>);
guards!(AsyncFdReadyMutGuard, "MutReadyGuard", &mut AsyncFd<Inner>);

impl<'a, Inner: AsRawFd> AsyncFdReadyGuard<'a, Inner> {
    /// The [`AsyncFd`] that it is about.
    pub fn get_ref(&self) -> &'a AsyncFd<Inner> {
        self.async_fd
    }

    /// The thing in it.
    pub fn get_inner(&self) -> &'a Inner {
        self.async_fd.get_ref()
    }
}

impl<Inner: AsRawFd> AsyncFdReadyMutGuard<'_, Inner> {
    /// The [`AsyncFd`] that it is about.
    pub fn get_ref(&self) -> &AsyncFd<Inner> {
        self.async_fd
    }

    /// The [`AsyncFd`] that it is about, to be changed.
    pub fn get_mut(&mut self) -> &mut AsyncFd<Inner> {
        self.async_fd
    }

    /// The thing in it.
    pub fn get_inner(&self) -> &Inner {
        self.async_fd.get_ref()
    }

    /// The thing in it, to be changed; but not its descriptor.
    pub fn get_inner_mut(&mut self) -> &mut Inner {
        self.async_fd.get_mut()
    }
}

impl<T: AsRawFd> AsRawFd for AsyncFd<T> {
    fn as_raw_fd(&self) -> RawFd {
        self.get_ref().as_raw_fd()
    }
}

impl<T: AsRawFd> AsFd for AsyncFd<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: who registered it said that it stays open while it is in here.
        unsafe { BorrowedFd::borrow_raw(self.as_raw_fd()) }
    }
}

impl<T: AsRawFd> Drop for AsyncFd<T> {
    fn drop(&mut self) {
        drop(self.take_out());
    }
}

impl<T: AsRawFd + fmt::Debug> fmt::Debug for AsyncFd<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncFd").field("inner", &self.inner).finish()
    }
}

/// An operation failed with `WouldBlock`: wait and try again.
#[derive(Debug)]
pub struct TryIoError(());

/// A thing whose descriptor could not be watched, and why.
pub struct AsyncFdRegisterError<T> {
    inner: T,
    cause: io::Error,
}

/// See [`AsyncFdRegisterError`].
#[doc(hidden)]
#[deprecated = "it is called `AsyncFdRegisterError`"]
pub type AsyncFdTryNewError<T> = AsyncFdRegisterError<T>;

impl<T> AsyncFdRegisterError<T> {
    /// The thing, and why it could not be watched.
    pub fn into_parts(self) -> (T, io::Error) {
        (self.inner, self.cause)
    }
}

impl<T> fmt::Display for AsyncFdRegisterError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cause.fmt(f)
    }
}

impl<T> fmt::Debug for AsyncFdRegisterError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.cause, f)
    }
}

impl<T> Error for AsyncFdRegisterError<T> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.cause)
    }
}

impl<T> From<AsyncFdRegisterError<T>> for io::Error {
    fn from(error: AsyncFdRegisterError<T>) -> Self {
        error.cause
    }
}
