//! The guards returned by waits for an [`AsyncFd`].

use super::AsyncFd;
use crate::driver::io_readiness::{Readiness, ReadinessSnapshot};
use crate::io::Ready;
use std::fmt;
use std::io;
use std::os::fd::AsRawFd;

/// A guard of an [`AsyncFd`]'s readiness, returned by a wait.
///
/// Perform the I/O with [`try_io`](Self::try_io), which clears the readiness if the operation fails
/// with `WouldBlock`. Dropping the guard keeps the readiness.
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
/// b.write_all(b"x")?;
///
/// let mut guard = a.readable().await?;
/// let mut buf = [0; 8];
/// let read = guard.try_io(|a| a.get_ref().read(&mut buf));
/// assert_eq!(read.unwrap()?, 1);
/// // Nothing is left, so this clears the readiness.
/// assert!(guard.try_io(|a| a.get_ref().read(&mut buf)).is_err());
/// # Ok(())
/// # }
/// ```
#[must_use = "say whether it is still ready: with `try_io`, `clear_ready` or `retain_ready`"]
pub struct AsyncFdReadyGuard<'a, T: AsRawFd> {
    pub(super) async_fd: &'a AsyncFd<T>,
    /// `None` once the readiness is cleared.
    pub(super) seen: Option<ReadinessSnapshot>,
}

/// A guard of an [`AsyncFd`]'s readiness, with exclusive access to the `AsyncFd`.
///
/// Perform the I/O with [`try_io`](Self::try_io), which clears the readiness if the operation fails
/// with `WouldBlock`. Dropping the guard keeps the readiness.
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
/// let mut a = unsafe { AsyncFd::register(a)? };
/// b.write_all(b"x")?;
///
/// let mut guard = a.readable_mut().await?;
/// let mut buf = [0; 8];
/// assert_eq!(guard.try_io(|a| a.get_mut().read(&mut buf)).unwrap()?, 1);
/// # Ok(())
/// # }
/// ```
#[must_use = "say whether it is still ready: with `try_io`, `clear_ready` or `retain_ready`"]
pub struct AsyncFdReadyMutGuard<'a, T: AsRawFd> {
    pub(super) async_fd: &'a mut AsyncFd<T>,
    /// `None` once the readiness is cleared.
    pub(super) seen: Option<ReadinessSnapshot>,
}

fn would_block(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}

/// Implements the methods common to both guards.
macro_rules! guards {
    ($guard:ident, $name:literal, $given:ty) => {
        impl<'a, Inner: AsRawFd> $guard<'a, Inner> {
            /// Clears the readiness for which the guard was returned.
            ///
            /// Call this only after an operation failed with `WouldBlock`. Readiness that was
            /// reported after the wait is kept, and so are closed sides.
            ///
            /// # Examples
            ///
            /// ```
            /// # #[wakeful::main(flavor = "current_thread")]
            /// # async fn main() -> std::io::Result<()> {
            /// use std::io::{ErrorKind, Read};
            /// use wakeful::io::Ready;
            /// # use std::os::unix::net::UnixStream;
            /// # use wakeful::io::unix::AsyncFd;
            /// # let (a, mut b) = UnixStream::pair()?;
            /// # a.set_nonblocking(true)?;
            /// # // SAFETY: a stream has one descriptor and keeps it open.
            /// # let a = unsafe { AsyncFd::register(a)? };
            /// # std::io::Write::write_all(&mut b, b"x")?;
            ///
            /// // `a` is an `AsyncFd` of a stream with one byte to read.
            /// let mut guard = a.readable().await?;
            /// let mut buf = [0; 8];
            /// assert_eq!(guard.get_inner().read(&mut buf)?, 1);
            /// let error = guard.get_inner().read(&mut buf).unwrap_err();
            /// assert_eq!(error.kind(), ErrorKind::WouldBlock);
            /// guard.clear_ready(); // the next wait is for more bytes
            /// assert_eq!(guard.ready(), Ready::EMPTY);
            /// # Ok(())
            /// # }
            /// ```
            pub fn clear_ready(&mut self) {
                if let Some(seen) = self.seen.take() {
                    self.async_fd.registration.clear(seen);
                }
            }

            /// Clears only the readiness in `ready`.
            ///
            /// Call this only after an operation for that readiness failed with `WouldBlock`.
            ///
            /// # Examples
            ///
            /// ```
            /// # #[wakeful::main(flavor = "current_thread")]
            /// # async fn main() -> std::io::Result<()> {
            /// use std::io::{ErrorKind, Read};
            /// use wakeful::io::{Interest, Ready};
            /// # use std::os::unix::net::UnixStream;
            /// # use wakeful::io::unix::AsyncFd;
            /// # let (a, mut b) = UnixStream::pair()?;
            /// # a.set_nonblocking(true)?;
            /// # // SAFETY: a stream has one descriptor and keeps it open.
            /// # let a = unsafe { AsyncFd::register(a)? };
            /// # std::io::Write::write_all(&mut b, b"x")?;
            /// # drop(a.readable().await?);
            ///
            /// // `a` is an `AsyncFd` of a stream with one byte to read.
            /// let mut guard = a.ready(Interest::READABLE | Interest::WRITABLE).await?;
            /// let mut buf = [0; 8];
            /// assert_eq!(guard.get_inner().read(&mut buf)?, 1);
            /// let error = guard.get_inner().read(&mut buf).unwrap_err();
            /// assert_eq!(error.kind(), ErrorKind::WouldBlock);
            /// guard.clear_ready_matching(Ready::READABLE);
            /// assert!(!guard.ready().is_readable());
            /// # Ok(())
            /// # }
            /// ```
            pub fn clear_ready_matching(&mut self, ready: Ready) {
                let Some(seen) = self.seen.take() else { return };
                let left = Ready::from_bits(seen.ready().0) - ready;
                self.async_fd.registration.clear(seen.with_ready(Readiness(ready.bits())));
                if !left.is_empty() {
                    self.seen = Some(seen.with_ready(Readiness(left.bits())));
                }
            }

            /// Keeps the readiness, as dropping the guard does.
            ///
            /// Call this to document in the code that the descriptor is still ready.
            ///
            /// # Examples
            ///
            /// ```
            /// # #[wakeful::main(flavor = "current_thread")]
            /// # async fn main() -> std::io::Result<()> {
            /// # use std::os::unix::net::UnixStream;
            /// # use wakeful::io::unix::AsyncFd;
            /// # let (a, _b) = UnixStream::pair()?;
            /// # a.set_nonblocking(true)?;
            /// # // SAFETY: a stream has one descriptor and keeps it open.
            /// # let a = unsafe { AsyncFd::register(a)? };
            /// // `a` is an `AsyncFd` of a stream.
            /// a.writable().await?.retain_ready();
            /// assert!(a.writable().await?.ready().is_writable()); // immediately
            /// # Ok(())
            /// # }
            /// ```
            pub fn retain_ready(&mut self) {}

            /// Returns the readiness that was waited for and has not been cleared.
            ///
            /// # Examples
            ///
            /// ```
            /// # #[wakeful::main(flavor = "current_thread")]
            /// # async fn main() -> std::io::Result<()> {
            /// # use std::os::unix::net::UnixStream;
            /// # use wakeful::io::unix::AsyncFd;
            /// # let (a, _b) = UnixStream::pair()?;
            /// # a.set_nonblocking(true)?;
            /// # // SAFETY: a stream has one descriptor and keeps it open.
            /// # let a = unsafe { AsyncFd::register(a)? };
            /// // `a` is an `AsyncFd` of a stream.
            /// let guard = a.writable().await?;
            /// assert!(guard.ready().is_writable());
            /// # Ok(())
            /// # }
            /// ```
            pub fn ready(&self) -> Ready {
                self.seen.map_or(Ready::EMPTY, |seen| Ready::from_bits(seen.ready().0))
            }

            /// Calls `f` and clears the readiness if it fails with `WouldBlock`.
            ///
            /// # Errors
            ///
            /// Returns [`TryIoError`] if `f` failed with `WouldBlock`; in this case, wait again.
            /// Any other result of `f` is returned inside `Ok`.
            ///
            /// # Examples
            ///
            /// ```
            /// # #[wakeful::main(flavor = "current_thread")]
            /// # async fn main() -> std::io::Result<()> {
            /// use std::io::Read;
            /// # use std::os::unix::net::UnixStream;
            /// # use wakeful::io::unix::AsyncFd;
            /// # let (a, mut b) = UnixStream::pair()?;
            /// # a.set_nonblocking(true)?;
            /// # // SAFETY: a stream has one descriptor and keeps it open.
            /// # let a = unsafe { AsyncFd::register(a)? };
            /// # std::io::Write::write_all(&mut b, b"x")?;
            ///
            /// // `a` is an `AsyncFd` of a stream with one byte to read.
            /// let mut buf = [0; 8];
            /// let len = loop {
            ///     let mut guard = a.readable().await?;
            ///     match guard.try_io(|a| a.get_ref().read(&mut buf)) {
            ///         Ok(result) => break result?,
            ///         Err(_would_block) => continue,
            ///     }
            /// };
            /// assert_eq!(len, 1);
            /// # Ok(())
            /// # }
            /// ```
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
    /// Returns a reference to the [`AsyncFd`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use std::os::fd::AsRawFd;
    /// # use std::os::unix::net::UnixStream;
    /// # use wakeful::io::unix::AsyncFd;
    /// # let (a, _b) = UnixStream::pair()?;
    /// # a.set_nonblocking(true)?;
    /// # // SAFETY: a stream has one descriptor and keeps it open.
    /// # let a = unsafe { AsyncFd::register(a)? };
    ///
    /// // `a` is an `AsyncFd`.
    /// let guard = a.writable().await?;
    /// assert_eq!(guard.get_ref().as_raw_fd(), a.as_raw_fd());
    /// # Ok(())
    /// # }
    /// ```
    pub fn get_ref(&self) -> &'a AsyncFd<Inner> {
        self.async_fd
    }

    /// Returns a reference to the inner value of the [`AsyncFd`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use std::io::Write;
    /// # use std::os::unix::net::UnixStream;
    /// # use wakeful::io::unix::AsyncFd;
    /// # let (a, _b) = UnixStream::pair()?;
    /// # a.set_nonblocking(true)?;
    /// # // SAFETY: a stream has one descriptor and keeps it open.
    /// # let a = unsafe { AsyncFd::register(a)? };
    ///
    /// // `a` is an `AsyncFd` of a stream.
    /// let guard = a.writable().await?;
    /// assert_eq!(guard.get_inner().write(b"hello")?, 5);
    /// # Ok(())
    /// # }
    /// ```
    pub fn get_inner(&self) -> &'a Inner {
        self.async_fd.get_ref()
    }
}

impl<Inner: AsRawFd> AsyncFdReadyMutGuard<'_, Inner> {
    /// Returns a reference to the [`AsyncFd`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use std::os::fd::AsRawFd;
    /// # use std::os::unix::net::UnixStream;
    /// # use wakeful::io::unix::AsyncFd;
    /// # let (a, _b) = UnixStream::pair()?;
    /// # a.set_nonblocking(true)?;
    /// # // SAFETY: a stream has one descriptor and keeps it open.
    /// # let mut a = unsafe { AsyncFd::register(a)? };
    ///
    /// // `a` is an `AsyncFd`.
    /// let descriptor = a.as_raw_fd();
    /// let guard = a.writable_mut().await?;
    /// assert_eq!(guard.get_ref().as_raw_fd(), descriptor);
    /// # Ok(())
    /// # }
    /// ```
    pub fn get_ref(&self) -> &AsyncFd<Inner> {
        self.async_fd
    }

    /// Returns a mutable reference to the [`AsyncFd`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use std::io::Write;
    /// # use std::os::unix::net::UnixStream;
    /// # use wakeful::io::unix::AsyncFd;
    /// # let (a, _b) = UnixStream::pair()?;
    /// # a.set_nonblocking(true)?;
    /// # // SAFETY: a stream has one descriptor and keeps it open.
    /// # let mut a = unsafe { AsyncFd::register(a)? };
    ///
    /// // `a` is an `AsyncFd` of a stream.
    /// let mut guard = a.writable_mut().await?;
    /// assert_eq!(guard.get_mut().get_mut().write(b"hello")?, 5);
    /// # Ok(())
    /// # }
    /// ```
    pub fn get_mut(&mut self) -> &mut AsyncFd<Inner> {
        self.async_fd
    }

    /// Returns a reference to the inner value of the [`AsyncFd`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// # use std::os::unix::net::UnixStream;
    /// # use wakeful::io::unix::AsyncFd;
    /// # let (a, _b) = UnixStream::pair()?;
    /// # a.set_nonblocking(true)?;
    /// # // SAFETY: a stream has one descriptor and keeps it open.
    /// # let mut a = unsafe { AsyncFd::register(a)? };
    /// // `a` is an `AsyncFd` of a stream.
    /// let guard = a.writable_mut().await?;
    /// assert!(guard.get_inner().local_addr()?.is_unnamed());
    /// # Ok(())
    /// # }
    /// ```
    pub fn get_inner(&self) -> &Inner {
        self.async_fd.get_ref()
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
    /// # use std::os::unix::net::UnixStream;
    /// # use wakeful::io::unix::AsyncFd;
    /// # let (a, _b) = UnixStream::pair()?;
    /// # a.set_nonblocking(true)?;
    /// # // SAFETY: a stream has one descriptor and keeps it open.
    /// # let mut a = unsafe { AsyncFd::register(a)? };
    ///
    /// // `a` is an `AsyncFd` of a stream.
    /// let mut guard = a.writable_mut().await?;
    /// assert_eq!(guard.get_inner_mut().write(b"hello")?, 5);
    /// # Ok(())
    /// # }
    /// ```
    pub fn get_inner_mut(&mut self) -> &mut Inner {
        self.async_fd.get_mut()
    }
}

/// Error returned by [`AsyncFdReadyGuard::try_io`] when the operation failed with `WouldBlock`.
///
/// The readiness was cleared, so the task can wait again.
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use std::io::{Error, ErrorKind};
/// # use std::os::unix::net::UnixStream;
/// # use wakeful::io::unix::{AsyncFd, TryIoError};
/// # let (a, _b) = UnixStream::pair()?;
/// # a.set_nonblocking(true)?;
/// # // SAFETY: a stream has one descriptor and keeps it open.
/// # let a = unsafe { AsyncFd::register(a)? };
///
/// // `a` is an `AsyncFd` of a stream.
/// let mut guard = a.writable().await?;
/// let result = guard.try_io(|_| Err::<(), _>(Error::from(ErrorKind::WouldBlock)));
/// let _error: TryIoError = result.unwrap_err();
/// assert!(guard.ready().is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct TryIoError(());
