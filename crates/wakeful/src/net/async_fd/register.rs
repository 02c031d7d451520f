//! Constructors of [`AsyncFd`], which register a descriptor; and their error.

use super::AsyncFd;
use crate::io::Interest;
use crate::runtime::registration::Registration;
use std::error::Error;
use std::fmt;
use std::io;
use std::os::fd::AsRawFd;
use std::panic::Location;

const BOTH: Interest = Interest::READABLE.add(Interest::WRITABLE);

impl<T: AsRawFd> AsyncFd<T> {
    /// Registers a file descriptor for reading and writing with the current runtime.
    ///
    /// The descriptor must be in non-blocking mode.
    ///
    /// # Errors
    ///
    /// Returns the kernel's error and `inner`, for example if `inner` is a regular file, which
    /// cannot be polled.
    ///
    /// # Panics
    ///
    /// Panics if called outside of a runtime with I/O enabled; see
    /// [`enable_io`](crate::runtime::Builder::enable_io).
    ///
    /// # Safety
    ///
    /// While `inner` is in the `AsyncFd`, `inner.as_raw_fd()` must always return the same
    /// descriptor, and the descriptor must stay open.
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
    /// let _guard = a.writable().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub unsafe fn register(inner: T) -> Result<Self, AsyncFdRegisterError<T>> {
        Self::register_inner(inner, BOTH)
    }

    /// Registers a file descriptor for `interest` only with the current runtime.
    ///
    /// Tasks can wait only for subsets of `interest`. The descriptor must be in non-blocking mode.
    ///
    /// # Errors
    ///
    /// Returns the kernel's error and `inner`, for example if `inner` is a regular file, which
    /// cannot be polled.
    ///
    /// # Panics
    ///
    /// Panics if called outside of a runtime with I/O enabled; see
    /// [`enable_io`](crate::runtime::Builder::enable_io).
    ///
    /// # Safety
    ///
    /// While `inner` is in the `AsyncFd`, `inner.as_raw_fd()` must always return the same
    /// descriptor, and the descriptor must stay open.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use std::os::unix::net::UnixStream;
    /// use wakeful::io::Interest;
    /// use wakeful::io::unix::AsyncFd;
    ///
    /// let (a, _b) = UnixStream::pair()?;
    /// a.set_nonblocking(true)?;
    /// // SAFETY: a stream has one descriptor and keeps it open.
    /// let a = unsafe { AsyncFd::register_with_interest(a, Interest::WRITABLE)? };
    /// let _guard = a.writable().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub unsafe fn register_with_interest(
        inner: T,
        interest: Interest,
    ) -> Result<Self, AsyncFdRegisterError<T>> {
        Self::register_inner(inner, interest)
    }

    #[track_caller]
    fn register_inner(inner: T, interest: Interest) -> Result<Self, AsyncFdRegisterError<T>> {
        match Registration::new(inner.as_raw_fd(), interest.to_mio(), Location::caller()) {
            Ok(registration) => Ok(Self { registration, inner: Some(inner) }),
            Err(cause) => Err(AsyncFdRegisterError { inner, cause }),
        }
    }

    /// Registers a file descriptor for reading and writing, without a promise that it stays open.
    ///
    /// # Errors
    ///
    /// Returns the kernel's error.
    ///
    /// # Panics
    ///
    /// Panics if called outside of a runtime with I/O enabled; see
    /// [`enable_io`](crate::runtime::Builder::enable_io).
    #[track_caller]
    #[deprecated = "nothing guarantees that the descriptor stays open: use `AsyncFd::register`"]
    pub fn new(inner: T) -> io::Result<Self> {
        Ok(Self::register_inner(inner, BOTH)?)
    }

    /// Registers a file descriptor for `interest`, without a promise that it stays open.
    ///
    /// # Errors
    ///
    /// Returns the kernel's error.
    ///
    /// # Panics
    ///
    /// Panics if called outside of a runtime with I/O enabled; see
    /// [`enable_io`](crate::runtime::Builder::enable_io).
    #[track_caller]
    #[deprecated = "nothing guarantees that the descriptor stays open: use \
                    `AsyncFd::register_with_interest`"]
    pub fn with_interest(inner: T, interest: Interest) -> io::Result<Self> {
        Ok(Self::register_inner(inner, interest)?)
    }

    /// Registers a file descriptor for reading and writing, without a promise that it stays open.
    ///
    /// # Errors
    ///
    /// Returns the kernel's error and `inner`.
    ///
    /// # Panics
    ///
    /// Panics if called outside of a runtime with I/O enabled; see
    /// [`enable_io`](crate::runtime::Builder::enable_io).
    #[track_caller]
    #[deprecated = "nothing guarantees that the descriptor stays open: use `AsyncFd::register`"]
    pub fn try_new(inner: T) -> Result<Self, AsyncFdRegisterError<T>> {
        Self::register_inner(inner, BOTH)
    }

    /// Registers a file descriptor for `interest`, without a promise that it stays open.
    ///
    /// # Errors
    ///
    /// Returns the kernel's error and `inner`.
    ///
    /// # Panics
    ///
    /// Panics if called outside of a runtime with I/O enabled; see
    /// [`enable_io`](crate::runtime::Builder::enable_io).
    #[track_caller]
    #[deprecated = "nothing guarantees that the descriptor stays open: use \
                    `AsyncFd::register_with_interest`"]
    pub fn try_with_interest(
        inner: T,
        interest: Interest,
    ) -> Result<Self, AsyncFdRegisterError<T>> {
        Self::register_inner(inner, interest)
    }
}

/// Error returned by [`AsyncFd::register`]; contains the value that could not be registered.
///
/// Converts into the kernel's [`io::Error`].
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use std::fs::File;
/// use std::io::ErrorKind;
/// use wakeful::io::unix::AsyncFd;
///
/// let file = File::open("/proc/self/exe")?;
/// // SAFETY: a file has one descriptor and keeps it open.
/// let error = unsafe { AsyncFd::register(file) }.unwrap_err();
/// let (_file, error) = error.into_parts(); // regular files cannot be polled
/// assert_eq!(error.kind(), ErrorKind::PermissionDenied);
/// # Ok(())
/// # }
/// ```
pub struct AsyncFdRegisterError<T> {
    inner: T,
    cause: io::Error,
}

/// The former name of [`AsyncFdRegisterError`].
#[doc(hidden)]
#[deprecated = "renamed to `AsyncFdRegisterError`"]
pub type AsyncFdTryNewError<T> = AsyncFdRegisterError<T>;

impl<T> AsyncFdRegisterError<T> {
    /// Returns the value and the kernel's error.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use std::fs::File;
    /// use wakeful::io::unix::AsyncFd;
    ///
    /// let file = File::open("/proc/self/exe")?;
    /// // SAFETY: a file has one descriptor and keeps it open.
    /// let error = unsafe { AsyncFd::register(file) }.unwrap_err();
    /// let (file, _error) = error.into_parts();
    /// assert!(file.metadata()?.is_file());
    /// # Ok(())
    /// # }
    /// ```
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
