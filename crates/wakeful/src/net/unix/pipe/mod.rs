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

pub use open_options::OpenOptions;

use crate::driver::io_readiness::Readiness;
use crate::io::{AsyncRead, AsyncWrite, Interest, ReadBuf, Ready};
use crate::net::stream_io::StreamIo;
use crate::runtime::poll_evented::PollEvented;
use crate::runtime::registration::OpSource;
use bytes::BufMut;
use rustix::fs::{FileType, OFlags};
use rustix::pipe::PipeFlags;
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Creates an anonymous pipe.
///
/// To give an end to a child process, convert it with [`Sender::into_blocking_fd`] or
/// [`Receiver::into_blocking_fd`].
///
/// # Errors
///
/// Returns the kernel's error.
///
/// # Panics
///
/// Panics outside of a runtime with I/O enabled; see
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

/// Uses `read` and `write`.
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

/// The write end of a pipe.
///
/// When the last sender of a pipe is dropped, its receiver reaches the end of the data. Write with
/// the methods of [`AsyncWriteExt`](crate::io::AsyncWriteExt).
#[derive(Debug)]
pub struct Sender {
    io: PollEvented<OwnedFd>,
}

/// The read end of a pipe.
///
/// Read with the methods of [`AsyncReadExt`](crate::io::AsyncReadExt).
#[derive(Debug)]
pub struct Receiver {
    io: PollEvented<OwnedFd>,
}

/// Implements the methods that both ends have.
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
            /// Panics outside of a runtime with I/O enabled; see
            /// [`enable_io`](crate::runtime::Builder::enable_io).
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
            /// Panics outside of a runtime with I/O enabled; see
            /// [`enable_io`](crate::runtime::Builder::enable_io).
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
            /// Panics outside of a runtime with I/O enabled; see
            /// [`enable_io`](crate::runtime::Builder::enable_io).
            #[track_caller]
            pub fn from_file_unchecked(file: File) -> io::Result<$end> {
                Self::from_owned_fd_unchecked(file.into())
            }

            /// Converts a file descriptor without checks.
            ///
            /// It must be a pipe, open for this direction, and in non-blocking mode.
            ///
            /// # Errors
            ///
            /// Returns the kernel's error if the descriptor cannot be registered.
            ///
            /// # Panics
            ///
            /// Panics outside of a runtime with I/O enabled; see
            /// [`enable_io`](crate::runtime::Builder::enable_io).
            #[track_caller]
            pub fn from_owned_fd_unchecked(owned_fd: OwnedFd) -> io::Result<$end> {
                Ok(Self { io: PollEvented::new(owned_fd, $interest)? })
            }

            /// Returns the descriptor, in blocking mode.
            ///
            /// # Errors
            ///
            /// Returns the kernel's error.
            pub fn into_blocking_fd(self) -> io::Result<OwnedFd> {
                let fd = self.into_nonblocking_fd()?;
                let flags = rustix::fs::fcntl_getfl(&fd)?;
                rustix::fs::fcntl_setfl(&fd, flags - OFlags::NONBLOCK)?;
                Ok(fd)
            }

            /// Returns the descriptor, in non-blocking mode.
            ///
            /// # Errors
            ///
            /// Returns the kernel's error.
            pub fn into_nonblocking_fd(self) -> io::Result<OwnedFd> {
                self.io.into_inner()
            }

            /// Waits until the pipe is ready for any of `interest`.
            ///
            /// The readiness may be stale: the operation that follows can still fail with
            /// `WouldBlock`. For a direction that this end is not open for, only closing is
            /// reported.
            ///
            /// # Errors
            ///
            /// Returns an error if the runtime has shut down.
            ///
            /// # Cancel safety
            ///
            /// Cancel safe. The pipe stays ready until an operation fails with `WouldBlock`.
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
ends!(
    Sender,
    mio::Interest::WRITABLE,
    Readiness::WRITE,
    OFlags::WRONLY,
    "not in O_WRONLY or O_RDWR access mode"
);
ends!(
    Receiver,
    mio::Interest::READABLE,
    Readiness::READ,
    OFlags::RDONLY,
    "not in O_RDONLY or O_RDWR access mode"
);

impl Sender {
    /// Waits until the pipe is writable, or all receivers are closed.
    ///
    /// # Errors
    ///
    /// Returns an error if the runtime has shut down.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. The pipe stays writable until an operation fails with `WouldBlock`.
    #[track_caller]
    pub fn writable(&self) -> impl Future<Output = io::Result<()>> + Send + Sync + '_ {
        let ready = self.io.ready_for(Interest::WRITABLE, Location::caller());
        async { ready.await.map(drop) }
    }

    /// Polls for write readiness.
    ///
    /// Only the task of the last call is woken. Any number of tasks may wait with
    /// [`writable`](Self::writable).
    ///
    /// # Errors
    ///
    /// Returns an error if the runtime has shut down.
    pub fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io.poll_write_ready(cx)
    }

    /// Writes bytes without waiting, and returns how many were accepted.
    ///
    /// A write of up to `PIPE_BUF` bytes (4096 on Linux) is atomic: all or nothing.
    ///
    /// # Errors
    ///
    /// Returns `WouldBlock` if the pipe is full, and the kernel's error otherwise.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::net::unix::pipe;
    ///
    /// let (sender, receiver) = pipe::pipe()?;
    /// sender.writable().await?;
    /// assert_eq!(sender.try_write(b"hello")?, 5);
    /// receiver.readable().await?;
    /// let mut buf = [0; 64];
    /// assert_eq!(receiver.try_read(&mut buf)?, 5);
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_write(&self, buf: &[u8]) -> io::Result<usize> {
        self.io.try_send(buf)
    }

    /// Writes bytes from several buffers without waiting, and returns how many were accepted.
    ///
    /// # Errors
    ///
    /// Returns `WouldBlock` if the pipe is full, and the kernel's error otherwise.
    pub fn try_write_vectored(&self, buf: &[IoSlice<'_>]) -> io::Result<usize> {
        self.io.try_send_vectored(buf)
    }
}

impl Receiver {
    /// Waits until the pipe is readable, or all senders are closed.
    ///
    /// # Errors
    ///
    /// Returns an error if the runtime has shut down.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. The pipe stays readable until an operation fails with `WouldBlock`.
    #[track_caller]
    pub fn readable(&self) -> impl Future<Output = io::Result<()>> + Send + Sync + '_ {
        let ready = self.io.ready_for(Interest::READABLE, Location::caller());
        async { ready.await.map(drop) }
    }

    /// Polls for read readiness.
    ///
    /// Only the task of the last call is woken. Any number of tasks may wait with
    /// [`readable`](Self::readable).
    ///
    /// # Errors
    ///
    /// Returns an error if the runtime has shut down.
    pub fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io.poll_read_ready(cx)
    }

    /// Reads available bytes without waiting, and returns how many.
    ///
    /// `Ok(0)` means that all senders are closed, or that `buf` is empty.
    ///
    /// # Errors
    ///
    /// Returns `WouldBlock` if there is nothing to read, and the kernel's error otherwise.
    #[track_caller]
    pub fn try_read(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.io.try_recv(buf)
    }

    /// Reads available bytes into several buffers without waiting, and returns how many.
    ///
    /// # Errors
    ///
    /// Returns `WouldBlock` if there is nothing to read, and the kernel's error otherwise.
    pub fn try_read_vectored(&self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.io.try_recv_vectored(bufs)
    }

    /// Reads available bytes into a [`BufMut`] without waiting, and returns how many.
    ///
    /// # Errors
    ///
    /// Returns `WouldBlock` if there is nothing to read, and the kernel's error otherwise.
    pub fn try_read_buf<B: BufMut>(&self, buf: &mut B) -> io::Result<usize> {
        self.io.try_recv_buf(buf)
    }
}

impl AsyncWrite for Sender {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.io.poll_send(cx, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.io.poll_send_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Does nothing: the pipe has no user-space buffer.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Does nothing: a pipe is closed by dropping it.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Receiver {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.io.poll_recv(cx, buf)
    }
}

fn check_pipe(file: impl AsFd) -> io::Result<()> {
    let stat = rustix::fs::fstat(file)?;
    if FileType::from_raw_mode(stat.st_mode).is_fifo() {
        Ok(())
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "not a pipe"))
    }
}
