//! [`AsyncFd`]: readiness of any file descriptor, public as part of `io::unix`.

mod guard;
mod readiness;
mod register;

pub use guard::{AsyncFdReadyGuard, AsyncFdReadyMutGuard, TryIoError};
pub use register::AsyncFdRegisterError;
#[allow(deprecated, reason = "re-exports the old name of an error")]
#[doc(hidden)]
pub use register::AsyncFdTryNewError;

use crate::io::Interest;
use crate::net::stream_io::{readiness_mask, wait_kind};
use crate::runtime::registration::{OpSource, Registration};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::panic::Location;

/// A file descriptor registered with the runtime, so that tasks can wait for its readiness.
///
/// Use it for a pipe, a device, a timer, or a socket of another library.
///
/// An `AsyncFd` does not read or write. A task waits for readiness and then performs the I/O
/// itself, through the returned guard. The descriptor must be in non-blocking mode.
///
/// The kernel reports changes only (edge-triggered). So a descriptor counts as ready until its
/// readiness is [cleared](AsyncFdReadyGuard::clear_ready), which is allowed only after an operation
/// failed with `WouldBlock`. [`AsyncFdReadyGuard::try_io`] performs an operation and clears the
/// readiness if needed. [`async_io`](Self::async_io) performs the whole loop of waiting and trying.
///
/// Waiting spends the task's cooperative budget, even if the descriptor is always ready.
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use std::io::{Read, Write};
/// use std::os::unix::net::UnixStream;
/// use wakeful::io::unix::AsyncFd;
///
/// let (a, mut b) = UnixStream::pair()?;
/// a.set_nonblocking(true)?;
/// // SAFETY: a stream has one descriptor and keeps it open.
/// let a = unsafe { AsyncFd::register(a)? };
/// b.write_all(b"hello")?;
///
/// let mut text = [0; 5];
/// loop {
///     let mut guard = a.readable().await?;
///     match guard.try_io(|a| a.get_ref().read(&mut text)) {
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
    /// `None` once deregistered.
    inner: Option<T>,
}

impl<T: AsRawFd> AsyncFd<T> {
    /// Returns a reference to the inner value.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use std::os::unix::net::UnixStream;
    /// use wakeful::io::unix::AsyncFd;
    ///
    /// let (a, _b) = UnixStream::pair()?;
    /// a.set_nonblocking(true)?;
    /// // SAFETY: a stream has one descriptor and keeps it open.
    /// let a = unsafe { AsyncFd::register(a)? };
    /// assert!(a.get_ref().local_addr()?.is_unnamed());
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn get_ref(&self) -> &T {
        self.inner.as_ref().expect("registered until `into_inner` or `drop`")
    }

    /// Returns a mutable reference to the inner value.
    ///
    /// The descriptor of the value must stay the same.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use std::io::Write;
    /// use std::os::unix::net::UnixStream;
    /// use wakeful::io::unix::AsyncFd;
    ///
    /// let (a, _b) = UnixStream::pair()?;
    /// a.set_nonblocking(true)?;
    /// // SAFETY: a stream has one descriptor and keeps it open.
    /// let mut a = unsafe { AsyncFd::register(a)? };
    /// assert_eq!(a.get_mut().write(b"hello")?, 5);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn get_mut(&mut self) -> &mut T {
        self.inner.as_mut().expect("registered until `into_inner` or `drop`")
    }

    /// Deregisters the descriptor and returns the inner value.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use std::os::unix::net::UnixStream;
    /// use wakeful::io::unix::AsyncFd;
    ///
    /// let (a, _b) = UnixStream::pair()?;
    /// a.set_nonblocking(true)?;
    /// // SAFETY: a stream has one descriptor and keeps it open.
    /// let a = unsafe { AsyncFd::register(a)? };
    /// let _a: UnixStream = a.into_inner();
    /// # Ok(())
    /// # }
    /// ```
    pub fn into_inner(mut self) -> T {
        self.deregister().expect("only this call and `drop` deregister")
    }

    fn deregister(&mut self) -> Option<T> {
        let inner = self.inner.take()?;
        // Fails if the descriptor was closed before. The poller then keeps the source, because the
        // kernel may still report events for it.
        let _ = self.registration.deregister();
        Some(inner)
    }

    /// Calls `f` until it no longer fails with `WouldBlock`, waiting for readiness in between.
    ///
    /// # Errors
    ///
    /// Returns the error of `f`, or an error if the runtime has shut down.
    ///
    /// # Cancel safety
    ///
    /// As cancel safe as `f`: the future is only dropped between two calls of `f`.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use std::io::{Read, Write};
    /// use std::os::unix::net::UnixStream;
    /// use wakeful::io::Interest;
    /// use wakeful::io::unix::AsyncFd;
    ///
    /// let (a, mut b) = UnixStream::pair()?;
    /// a.set_nonblocking(true)?;
    /// // SAFETY: a stream has one descriptor and keeps it open.
    /// let a = unsafe { AsyncFd::register(a)? };
    /// b.write_all(b"hello")?;
    ///
    /// let mut text = [0; 5];
    /// let len = a.async_io(Interest::READABLE, |mut a| a.read(&mut text)).await?;
    /// assert_eq!(&text[..len], b"hello");
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn async_io<R>(
        &self,
        interest: Interest,
        mut f: impl FnMut(&T) -> io::Result<R>,
    ) -> impl Future<Output = io::Result<R>> {
        let (mask, kind, site) =
            (readiness_mask(interest), wait_kind(interest), Location::caller());
        self.registration.async_io(OpSource::User, mask, kind, site, move |_| f(self.get_ref()))
    }

    /// Calls `f` with exclusive access until it no longer fails with `WouldBlock`.
    ///
    /// Waits for readiness in between.
    ///
    /// # Errors
    ///
    /// Returns the error of `f`, or an error if the runtime has shut down.
    ///
    /// # Cancel safety
    ///
    /// As cancel safe as `f`: the future is only dropped between two calls of `f`.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use std::io::{Read, Write};
    /// use std::os::unix::net::UnixStream;
    /// use wakeful::io::Interest;
    /// use wakeful::io::unix::AsyncFd;
    ///
    /// let (a, mut b) = UnixStream::pair()?;
    /// a.set_nonblocking(true)?;
    /// // SAFETY: a stream has one descriptor and keeps it open.
    /// let mut a = unsafe { AsyncFd::register(a)? };
    /// b.write_all(b"hello")?;
    /// let mut text = [0; 5];
    /// let len = a.async_io_mut(Interest::READABLE, |a| a.read(&mut text)).await?;
    /// assert_eq!(&text[..len], b"hello");
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn async_io_mut<R>(
        &mut self,
        interest: Interest,
        mut f: impl FnMut(&mut T) -> io::Result<R>,
    ) -> impl Future<Output = io::Result<R>> {
        let (mask, kind, site) =
            (readiness_mask(interest), wait_kind(interest), Location::caller());
        let inner = self.inner.as_mut().expect("registered until `into_inner` or `drop`");
        self.registration.async_io(OpSource::User, mask, kind, site, move |_| f(inner))
    }

    /// Calls `f` once if the descriptor is ready for `interest`.
    ///
    /// If `f` fails with `WouldBlock`, the readiness is cleared.
    ///
    /// # Errors
    ///
    /// Returns `WouldBlock` without calling `f` if the descriptor is not known to be ready, and the
    /// error of `f` otherwise.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use std::io::Write;
    /// use std::os::unix::net::UnixStream;
    /// use wakeful::io::Interest;
    /// use wakeful::io::unix::AsyncFd;
    ///
    /// let (a, _b) = UnixStream::pair()?;
    /// a.set_nonblocking(true)?;
    /// // SAFETY: a stream has one descriptor and keeps it open.
    /// let a = unsafe { AsyncFd::register(a)? };
    /// a.writable().await?.retain_ready();
    /// assert_eq!(a.try_io(Interest::WRITABLE, |mut a| a.write(b"hello"))?, 5);
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_io<R>(
        &self,
        interest: Interest,
        f: impl FnOnce(&T) -> io::Result<R>,
    ) -> io::Result<R> {
        self.registration.try_io(OpSource::User, readiness_mask(interest), || f(self.get_ref()))
    }

    /// Calls `f` once, with exclusive access, if the descriptor is ready for `interest`.
    ///
    /// If `f` fails with `WouldBlock`, the readiness is cleared.
    ///
    /// # Errors
    ///
    /// Returns `WouldBlock` without calling `f` if the descriptor is not known to be ready, and the
    /// error of `f` otherwise.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use std::io::Write;
    /// use std::os::unix::net::UnixStream;
    /// use wakeful::io::Interest;
    /// use wakeful::io::unix::AsyncFd;
    ///
    /// let (a, _b) = UnixStream::pair()?;
    /// a.set_nonblocking(true)?;
    /// // SAFETY: a stream has one descriptor and keeps it open.
    /// let mut a = unsafe { AsyncFd::register(a)? };
    /// a.writable().await?.retain_ready();
    /// assert_eq!(a.try_io_mut(Interest::WRITABLE, |a| a.write(b"hello"))?, 5);
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_io_mut<R>(
        &mut self,
        interest: Interest,
        f: impl FnOnce(&mut T) -> io::Result<R>,
    ) -> io::Result<R> {
        let inner = self.inner.as_mut().expect("registered until `into_inner` or `drop`");
        self.registration.try_io(OpSource::User, readiness_mask(interest), || f(inner))
    }
}

impl<T: AsRawFd> AsRawFd for AsyncFd<T> {
    fn as_raw_fd(&self) -> RawFd {
        self.get_ref().as_raw_fd()
    }
}

impl<T: AsRawFd> AsFd for AsyncFd<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the caller of `register` promised that the descriptor stays open.
        unsafe { BorrowedFd::borrow_raw(self.as_raw_fd()) }
    }
}

impl<T: AsRawFd> Drop for AsyncFd<T> {
    fn drop(&mut self) {
        drop(self.deregister());
    }
}

impl<T: AsRawFd + fmt::Debug> fmt::Debug for AsyncFd<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncFd").field("inner", &self.inner).finish()
    }
}
