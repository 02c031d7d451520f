//! The guards that a wait for an [`AsyncFd`] returns.

use super::AsyncFd;
use crate::driver::io_readiness::{Readiness, ReadinessSnapshot};
use crate::io::Ready;
use std::fmt;
use std::io;
use std::os::fd::AsRawFd;

/// The readiness of an [`AsyncFd`], returned by a wait.
///
/// Do the I/O through [`try_io`](Self::try_io), which clears the readiness if the operation fails
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
    /// `None` once all of it was cleared.
    pub(super) seen: Option<ReadinessSnapshot>,
}

/// The readiness of an [`AsyncFd`], with exclusive access to it.
///
/// Do the I/O through [`try_io`](Self::try_io), which clears the readiness if the operation fails
/// with `WouldBlock`. Dropping the guard keeps the readiness.
#[must_use = "say whether it is still ready: with `try_io`, `clear_ready` or `retain_ready`"]
pub struct AsyncFdReadyMutGuard<'a, T: AsRawFd> {
    pub(super) async_fd: &'a mut AsyncFd<T>,
    /// `None` once all of it was cleared.
    pub(super) seen: Option<ReadinessSnapshot>,
}

fn would_block(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}

/// Implements the methods that both guards have.
macro_rules! guards {
    ($guard:ident, $name:literal, $given:ty) => {
        impl<'a, Inner: AsRawFd> $guard<'a, Inner> {
            /// Clears the readiness that the guard was returned for.
            ///
            /// Call this only after an operation failed with `WouldBlock`. Readiness that was
            /// reported after the wait is kept, and so are closed sides.
            pub fn clear_ready(&mut self) {
                if let Some(seen) = self.seen.take() {
                    self.async_fd.registration.clear(seen);
                }
            }

            /// Clears only the readiness in `ready`.
            ///
            /// Call this only after an operation for that readiness failed with `WouldBlock`.
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

            /// Keeps the readiness. Dropping the guard does the same.
            pub fn retain_ready(&mut self) {}

            /// Returns the readiness that was waited for and has not been cleared.
            pub fn ready(&self) -> Ready {
                self.seen.map_or(Ready::EMPTY, |seen| Ready::from_bits(seen.ready.0))
            }

            /// Calls `f`, and clears the readiness if it fails with `WouldBlock`.
            ///
            /// # Errors
            ///
            /// Returns [`TryIoError`] if `f` failed with `WouldBlock`; wait again then. Any other
            /// result of `f` is returned inside of `Ok`.
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
    pub fn get_ref(&self) -> &'a AsyncFd<Inner> {
        self.async_fd
    }

    /// Returns a reference to the inner value of the [`AsyncFd`].
    pub fn get_inner(&self) -> &'a Inner {
        self.async_fd.get_ref()
    }
}

impl<Inner: AsRawFd> AsyncFdReadyMutGuard<'_, Inner> {
    /// Returns a reference to the [`AsyncFd`].
    pub fn get_ref(&self) -> &AsyncFd<Inner> {
        self.async_fd
    }

    /// Returns a mutable reference to the [`AsyncFd`].
    pub fn get_mut(&mut self) -> &mut AsyncFd<Inner> {
        self.async_fd
    }

    /// Returns a reference to the inner value of the [`AsyncFd`].
    pub fn get_inner(&self) -> &Inner {
        self.async_fd.get_ref()
    }

    /// Returns a mutable reference to the inner value. Its descriptor must stay the same.
    pub fn get_inner_mut(&mut self) -> &mut Inner {
        self.async_fd.get_mut()
    }
}

/// Error of [`AsyncFdReadyGuard::try_io`]: the operation failed with `WouldBlock`. Wait again.
#[derive(Debug)]
pub struct TryIoError(());
