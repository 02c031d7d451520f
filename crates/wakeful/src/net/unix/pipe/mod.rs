//! Pipes: anonymous pipes, and named pipes in the file system (FIFOs).
//!
//! [`pipe`] creates an anonymous pipe. [`OpenOptions`] opens a FIFO.
//!
//! # Examples
//!
//! ```
//! # #[wakeful::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! use wakeful::io::{AsyncReadExt, AsyncWriteExt};
//! use wakeful::net::unix::pipe;
//!
//! let (mut sender, mut receiver) = pipe::pipe()?;
//! sender.write_all(b"hello").await?;
//! drop(sender);
//! let mut text = String::new();
//! receiver.read_to_string(&mut text).await?;
//! assert_eq!(text, "hello");
//! # Ok(())
//! # }
//! ```

mod open_options;
mod receiver;
mod sender;

pub use open_options::OpenOptions;
pub use receiver::Receiver;
pub use sender::Sender;

use crate::net::stream_io::StreamIo;
use rustix::fs::FileType;
use rustix::pipe::PipeFlags;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

/// Creates an anonymous pipe.
///
/// To pass an end to a child process, convert it with [`Sender::into_blocking_fd`] or
/// [`Receiver::into_blocking_fd`].
///
/// # Errors
///
/// Returns the kernel's error.
///
/// # Panics
///
/// Panics if called outside of a runtime with I/O enabled; see
/// [`enable_io`](crate::runtime::Builder::enable_io).
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use wakeful::io::{AsyncReadExt, AsyncWriteExt};
/// use wakeful::net::unix::pipe;
///
/// let (mut sender, mut receiver) = pipe::pipe()?;
/// sender.write_u8(7).await?;
/// assert_eq!(receiver.read_u8().await?, 7);
/// # Ok(())
/// # }
/// ```
#[track_caller]
pub fn pipe() -> io::Result<(Sender, Receiver)> {
    let (receiver, sender) = rustix::pipe::pipe_with(PipeFlags::NONBLOCK | PipeFlags::CLOEXEC)?;
    Ok((Sender::from_owned_fd_unchecked(sender)?, Receiver::from_owned_fd_unchecked(receiver)?))
}

/// Implements [`StreamIo`] with `read` and `write`.
impl StreamIo for OwnedFd {
    /// False: a pipe in packet mode returns one packet at a time.
    const SHORT_READ_DRAINS: bool = false;

    #[inline]
    fn recv(&self, buf: &mut [MaybeUninit<u8>]) -> rustix::io::Result<usize> {
        rustix::io::read(self, buf).map(|(filled, _)| filled.len())
    }

    #[inline]
    fn send(&self, buf: &[u8]) -> rustix::io::Result<usize> {
        rustix::io::write(self, buf)
    }
}

/// Implements the methods common to both ends.
macro_rules! ends {
    ($end:ident, $interest:expr, $mask:expr, $access:expr, $message:literal) => {
        impl $end {
            /// Converts a file and switches it to non-blocking mode.
            ///
            /// # Errors
            ///
            /// Returns `InvalidInput` if the file is not a pipe or not open for this direction, and
            /// the kernel's error otherwise.
            ///
            /// # Panics
            ///
            /// Panics if called outside of a runtime with I/O enabled; see
            /// [`enable_io`](crate::runtime::Builder::enable_io).
            ///
            /// # Examples
            ///
            /// ```
            /// # #[wakeful::main(flavor = "current_thread")]
            /// # async fn main() -> std::io::Result<()> {
            /// use std::fs::File;
            /// use std::os::fd::OwnedFd;
            /// use wakeful::net::unix::pipe;
            ///
            /// let (reader, writer) = std::io::pipe()?;
            /// let _receiver = pipe::Receiver::from_file(File::from(OwnedFd::from(reader)))?;
            /// let _sender = pipe::Sender::from_file(File::from(OwnedFd::from(writer)))?;
            /// # Ok(())
            /// # }
            /// ```
            #[track_caller]
            pub fn from_file(file: File) -> io::Result<$end> {
                Self::from_owned_fd(file.into())
            }

            /// Converts a file descriptor and switches it to non-blocking mode.
            ///
            /// # Errors
            ///
            /// Returns `InvalidInput` if the file is not a pipe or not open for this direction, and
            /// the kernel's error otherwise.
            ///
            /// # Panics
            ///
            /// Panics if called outside of a runtime with I/O enabled; see
            /// [`enable_io`](crate::runtime::Builder::enable_io).
            ///
            /// # Examples
            ///
            /// ```
            /// # #[wakeful::main(flavor = "current_thread")]
            /// # async fn main() -> std::io::Result<()> {
            /// use wakeful::net::unix::pipe;
            ///
            /// let (reader, writer) = std::io::pipe()?;
            /// let _receiver = pipe::Receiver::from_owned_fd(reader.into())?;
            /// let _sender = pipe::Sender::from_owned_fd(writer.into())?;
            /// # Ok(())
            /// # }
            /// ```
            #[track_caller]
            pub fn from_owned_fd(owned_fd: OwnedFd) -> io::Result<$end> {
                check_pipe(&owned_fd)?;
                let flags = rustix::fs::fcntl_getfl(&owned_fd)?;
                if ![$access, OFlags::RDWR].contains(&(flags & OFlags::ACCMODE)) {
                    return Err(io::Error::new(io::ErrorKind::InvalidInput, $message));
                }
                rustix::fs::fcntl_setfl(&owned_fd, flags | OFlags::NONBLOCK)?;
                Self::from_owned_fd_unchecked(owned_fd)
            }

            /// Converts a file without checks.
            ///
            /// The file must be a pipe, open for this direction, and in non-blocking mode.
            ///
            /// # Errors
            ///
            /// Returns the kernel's error if the file cannot be registered.
            ///
            /// # Panics
            ///
            /// Panics if called outside of a runtime with I/O enabled; see
            /// [`enable_io`](crate::runtime::Builder::enable_io).
            ///
            /// # Examples
            ///
            /// ```
            /// # #[wakeful::main(flavor = "current_thread")]
            /// # async fn main() -> std::io::Result<()> {
            /// use std::fs::File;
            /// use wakeful::net::unix::pipe;
            ///
            /// let (sender, receiver) = pipe::pipe()?;
            /// let (sender, receiver) = (sender.into_nonblocking_fd()?, receiver.into_nonblocking_fd()?);
            /// let _sender = pipe::Sender::from_file_unchecked(File::from(sender))?;
            /// let _receiver = pipe::Receiver::from_file_unchecked(File::from(receiver))?;
            /// # Ok(())
            /// # }
            /// ```
            #[track_caller]
            pub fn from_file_unchecked(file: File) -> io::Result<$end> {
                Self::from_owned_fd_unchecked(file.into())
            }

            /// Converts a file descriptor without checks.
            ///
            /// The descriptor must be a pipe, open for this direction, and in non-blocking mode.
            ///
            /// # Errors
            ///
            /// Returns the kernel's error if the descriptor cannot be registered.
            ///
            /// # Panics
            ///
            /// Panics if called outside of a runtime with I/O enabled; see
            /// [`enable_io`](crate::runtime::Builder::enable_io).
            ///
            /// # Examples
            ///
            /// ```
            /// # #[wakeful::main(flavor = "current_thread")]
            /// # async fn main() -> std::io::Result<()> {
            /// use wakeful::net::unix::pipe;
            ///
            /// let (sender, receiver) = pipe::pipe()?;
            /// let (sender, receiver) = (sender.into_nonblocking_fd()?, receiver.into_nonblocking_fd()?);
            /// let _sender = pipe::Sender::from_owned_fd_unchecked(sender)?;
            /// let _receiver = pipe::Receiver::from_owned_fd_unchecked(receiver)?;
            /// # Ok(())
            /// # }
            /// ```
            #[track_caller]
            pub fn from_owned_fd_unchecked(owned_fd: OwnedFd) -> io::Result<$end> {
                Ok(Self { io: PollEvented::new(owned_fd, $interest)? })
            }

            /// Converts into an owned descriptor, in blocking mode.
            ///
            /// # Errors
            ///
            /// Returns the kernel's error.
            ///
            /// # Examples
            ///
            /// ```
            /// # #[wakeful::main(flavor = "current_thread")]
            /// # async fn main() -> std::io::Result<()> {
            /// use std::io::{Read, Write};
            /// use wakeful::net::unix::pipe;
            ///
            /// let (sender, receiver) = pipe::pipe()?;
            /// let mut writer = std::io::PipeWriter::from(sender.into_blocking_fd()?);
            /// let mut reader = std::io::PipeReader::from(receiver.into_blocking_fd()?);
            /// writer.write_all(b"x")?;
            /// reader.read_exact(&mut [0; 1])?;
            /// # Ok(())
            /// # }
            /// ```
            pub fn into_blocking_fd(self) -> io::Result<OwnedFd> {
                let fd = self.into_nonblocking_fd()?;
                let flags = rustix::fs::fcntl_getfl(&fd)?;
                rustix::fs::fcntl_setfl(&fd, flags - OFlags::NONBLOCK)?;
                Ok(fd)
            }

            /// Converts into an owned descriptor, in non-blocking mode.
            ///
            /// # Errors
            ///
            /// Returns the kernel's error.
            ///
            /// # Examples
            ///
            /// ```
            /// # #[wakeful::main(flavor = "current_thread")]
            /// # async fn main() -> std::io::Result<()> {
            /// use std::io::{ErrorKind, Read};
            /// use wakeful::net::unix::pipe;
            ///
            /// let (_sender, receiver) = pipe::pipe()?;
            /// let mut reader = std::io::PipeReader::from(receiver.into_nonblocking_fd()?);
            /// let error = reader.read(&mut [0; 1]).unwrap_err();
            /// assert_eq!(error.kind(), ErrorKind::WouldBlock);
            /// # Ok(())
            /// # }
            /// ```
            pub fn into_nonblocking_fd(self) -> io::Result<OwnedFd> {
                self.io.into_inner()
            }

            /// Waits until the pipe is ready for any of `interest`.
            ///
            /// The readiness may be stale: the operation that follows can still fail with
            /// `WouldBlock`. For the direction for which this end is not open, only closing is
            /// reported.
            ///
            /// # Errors
            ///
            /// Returns an error if the runtime has shut down.
            ///
            /// # Cancel safety
            ///
            /// Cancel safe. The pipe stays ready until an operation fails with `WouldBlock`.
            ///
            /// # Examples
            ///
            /// ```
            /// # #[wakeful::main(flavor = "current_thread")]
            /// # async fn main() -> std::io::Result<()> {
            /// use wakeful::io::Interest;
            /// use wakeful::net::unix::pipe;
            ///
            /// let (sender, receiver) = pipe::pipe()?;
            /// assert!(sender.ready(Interest::WRITABLE).await?.is_writable());
            /// drop(sender);
            /// assert!(receiver.ready(Interest::READABLE).await?.is_read_closed());
            /// # Ok(())
            /// # }
            /// ```
            #[track_caller]
            pub fn ready(
                &self,
                interest: Interest,
            ) -> impl Future<Output = io::Result<Ready>> + Send + Sync + '_ {
                self.io.ready_for(interest, Location::caller())
            }

            /// Calls `f` once if the pipe is ready.
            ///
            /// If `f` fails with `WouldBlock`, the readiness is cleared. `f` must operate on this
            /// pipe.
            ///
            /// # Errors
            ///
            /// Returns `WouldBlock` without calling `f` if the pipe is not known to be ready, and
            /// the error of `f` otherwise.
            ///
            /// # Examples
            ///
            /// ```
            /// # #[wakeful::main(flavor = "current_thread")]
            /// # async fn main() -> std::io::Result<()> {
            /// use std::io::{Error, ErrorKind};
            /// use wakeful::net::unix::pipe;
            ///
            /// let (sender, _receiver) = pipe::pipe()?;
            /// sender.writable().await?;
            /// // An operation of another library that finds the pipe full.
            /// let full = || Err::<(), _>(Error::from(ErrorKind::WouldBlock));
            /// assert_eq!(sender.try_io(full).unwrap_err().kind(), ErrorKind::WouldBlock);
            /// # Ok(())
            /// # }
            /// ```
            pub fn try_io<R>(&self, f: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
                self.io.try_io(OpSource::User, $mask, |_| f())
            }
        }

        impl AsRawFd for $end {
            fn as_raw_fd(&self) -> RawFd {
                self.io.as_raw_fd()
            }
        }

        impl AsFd for $end {
            fn as_fd(&self) -> BorrowedFd<'_> {
                self.io.as_fd()
            }
        }
    };
}
pub(super) use ends;

fn check_pipe(file: impl AsFd) -> io::Result<()> {
    let stat = rustix::fs::fstat(file)?;
    if FileType::from_raw_mode(stat.st_mode).is_fifo() {
        Ok(())
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "not a pipe"))
    }
}
