//! Pipes: those without a name, and those in the file system (FIFOs).
//!
//! ```
//! # #[wakeful::main]
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
use std::os::unix::fs::OpenOptionsExt;
use std::panic::Location;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Makes a pipe without a name.
///
/// To hand an end to a child process, take its descriptor out with
/// [`Sender::into_blocking_fd`] or [`Receiver::into_blocking_fd`].
///
/// # Panics
///
/// Outside of a runtime with I/O.
#[track_caller]
pub fn pipe() -> io::Result<(Sender, Receiver)> {
    let (receiver, sender) = rustix::pipe::pipe_with(PipeFlags::NONBLOCK | PipeFlags::CLOEXEC)?;
    Ok((Sender::from_owned_fd_unchecked(sender)?, Receiver::from_owned_fd_unchecked(receiver)?))
}

/// By `read` and `write`.
impl StreamIo for OwnedFd {
    /// One in packet mode gives a packet at a time.
    const GIVES_ALL: bool = false;

    #[inline]
    fn recv(&self, buf: &mut [MaybeUninit<u8>]) -> rustix::io::Result<usize> {
        rustix::io::read(self, buf).map(|(filled, _)| filled.len())
    }

    #[inline]
    fn send(&self, buf: &[u8]) -> rustix::io::Result<usize> {
        rustix::io::write(self, buf)
    }
}

/// How to open a pipe that is in the file system.
///
/// ```no_run
/// # async fn open() -> std::io::Result<()> {
/// use wakeful::net::unix::pipe;
///
/// let receiver = pipe::OpenOptions::new().open_receiver("/run/log.pipe")?;
/// # drop(receiver);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    read_write: bool,
    unchecked: bool,
}

impl OpenOptions {
    /// Only what is asked for, and only pipes.
    pub fn new() -> OpenOptions {
        OpenOptions::default()
    }

    /// Opens the pipe for reading and writing, whichever end it is. Then it is
    /// never closed from the other side: a receiver waits for the next sender
    /// instead of ending, and a sender can be opened before there is a receiver.
    pub fn read_write(&mut self, value: bool) -> &mut Self {
        self.read_write = value;
        self
    }

    /// Whether it is not looked at if the file is a pipe. The poller cannot watch
    /// what is not one, or something like it.
    pub fn unchecked(&mut self, value: bool) -> &mut Self {
        self.unchecked = value;
        self
    }

    /// Opens the end that is read. There need not be a sender yet; until there was
    /// one, reading ends at once.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if it is not a pipe, and those of the system.
    ///
    /// # Panics
    ///
    /// Outside of a runtime with I/O.
    #[track_caller]
    pub fn open_receiver<P: AsRef<Path>>(&self, path: P) -> io::Result<Receiver> {
        let file = self.open(path.as_ref(), std::fs::OpenOptions::new().read(true))?;
        Receiver::from_file_unchecked(file)
    }

    /// Opens the end that is written.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if it is not a pipe, and those of the system: `ENXIO` if
    /// there is no receiver.
    ///
    /// # Panics
    ///
    /// Outside of a runtime with I/O.
    #[track_caller]
    pub fn open_sender<P: AsRef<Path>>(&self, path: P) -> io::Result<Sender> {
        let file = self.open(path.as_ref(), std::fs::OpenOptions::new().write(true))?;
        Sender::from_file_unchecked(file)
    }

    fn open(&self, path: &Path, options: &mut std::fs::OpenOptions) -> io::Result<File> {
        if self.read_write {
            options.read(true).write(true);
        }
        let file = options.custom_flags(OFlags::NONBLOCK.bits() as i32).open(path)?;
        if !self.unchecked {
            check_pipe(&file)?;
        }
        Ok(file)
    }
}

/// The end of a pipe that is written. Dropping it is the end of what the receiver
/// reads, if there is no other sender.
#[derive(Debug)]
pub struct Sender {
    io: PollEvented<OwnedFd>,
}

/// The end of a pipe that is read.
#[derive(Debug)]
pub struct Receiver {
    io: PollEvented<OwnedFd>,
}

/// What both ends have in common.
macro_rules! ends {
    ($end:ident, $interest:expr, $mask:expr, $access:expr, $complaint:literal) => {
        impl $end {
            /// Takes a file over, which is set to non-blocking mode.
            ///
            /// # Errors
            ///
            /// `InvalidInput` if it is not a pipe, or not open for this, and those
            /// of the system.
            ///
            /// # Panics
            ///
            /// Outside of a runtime with I/O.
            #[track_caller]
            pub fn from_file(file: File) -> io::Result<$end> {
                Self::from_owned_fd(file.into())
            }

            /// As [`from_file`](Self::from_file).
            #[track_caller]
            pub fn from_owned_fd(owned_fd: OwnedFd) -> io::Result<$end> {
                check_pipe(&owned_fd)?;
                let flags = rustix::fs::fcntl_getfl(&owned_fd)?;
                if ![$access, OFlags::RDWR].contains(&(flags & OFlags::ACCMODE)) {
                    return Err(io::Error::new(io::ErrorKind::InvalidInput, $complaint));
                }
                rustix::fs::fcntl_setfl(&owned_fd, flags | OFlags::NONBLOCK)?;
                Self::from_owned_fd_unchecked(owned_fd)
            }

            /// Takes a file over without looking at it: it must be a pipe, open for
            /// this, and in non-blocking mode.
            ///
            /// # Panics
            ///
            /// Outside of a runtime with I/O.
            #[track_caller]
            pub fn from_file_unchecked(file: File) -> io::Result<$end> {
                Self::from_owned_fd_unchecked(file.into())
            }

            /// As [`from_file_unchecked`](Self::from_file_unchecked).
            #[track_caller]
            pub fn from_owned_fd_unchecked(owned_fd: OwnedFd) -> io::Result<$end> {
                Ok(Self { io: PollEvented::new(owned_fd, $interest)? })
            }

            /// Gives the descriptor back, in blocking mode.
            pub fn into_blocking_fd(self) -> io::Result<OwnedFd> {
                let fd = self.into_nonblocking_fd()?;
                let flags = rustix::fs::fcntl_getfl(&fd)?;
                rustix::fs::fcntl_setfl(&fd, flags - OFlags::NONBLOCK)?;
                Ok(fd)
            }

            /// Gives the descriptor back, in non-blocking mode.
            pub fn into_nonblocking_fd(self) -> io::Result<OwnedFd> {
                self.io.into_inner()
            }

            /// Waits for any of `interest`. It may be wrong about it: the
            /// operation that follows may still have to wait. What this end is not
            /// open for never comes, except for its end.
            ///
            /// # Cancel safety
            ///
            /// Dropping the future loses nothing: what is ready stays so until an
            /// operation fails with `WouldBlock`.
            #[track_caller]
            pub fn ready(
                &self,
                interest: Interest,
            ) -> impl Future<Output = io::Result<Ready>> + Send + Sync + '_ {
                self.io.ready_for(interest, Location::caller())
            }

            /// Tries an operation of the user's own on the pipe, if it is known to
            /// be ready; if that fails with `WouldBlock`, it is known not to be.
            pub fn try_io<R>(&self, f: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
                self.io.try_io(OpSource::TheUsers, $mask, |_| f())
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
    /// Waits until there is room to write, or no receiver is left.
    ///
    /// # Cancel safety
    ///
    /// As [`ready`](Self::ready).
    #[track_caller]
    pub fn writable(&self) -> impl Future<Output = io::Result<()>> + Send + Sync + '_ {
        let ready = self.io.ready_for(Interest::WRITABLE, Location::caller());
        async { ready.await.map(drop) }
    }

    /// As [`writable`](Self::writable), for the task that asks last.
    pub fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io.poll_write_ready(cx)
    }

    /// Writes without waiting. Up to the system's `PIPE_BUF` (4096 on Linux), it
    /// is all or nothing.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if there is no room.
    pub fn try_write(&self, buf: &[u8]) -> io::Result<usize> {
        self.io.try_send(buf)
    }

    /// As [`try_write`](Self::try_write), from several buffers.
    pub fn try_write_vectored(&self, buf: &[IoSlice<'_>]) -> io::Result<usize> {
        self.io.try_send_vectored(buf)
    }
}

impl Receiver {
    /// Waits until there is something to read, or no sender is left.
    ///
    /// # Cancel safety
    ///
    /// As [`ready`](Self::ready).
    #[track_caller]
    pub fn readable(&self) -> impl Future<Output = io::Result<()>> + Send + Sync + '_ {
        let ready = self.io.ready_for(Interest::READABLE, Location::caller());
        async { ready.await.map(drop) }
    }

    /// As [`readable`](Self::readable), for the task that asks last.
    pub fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io.poll_read_ready(cx)
    }

    /// Reads without waiting.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if there is nothing to read.
    pub fn try_read(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.io.try_recv(buf)
    }

    /// As [`try_read`](Self::try_read), into several buffers.
    pub fn try_read_vectored(&self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.io.try_recv_vectored(bufs)
    }

    /// As [`try_read`](Self::try_read), into a buffer that grows.
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

    /// Nothing is kept back.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// A pipe is closed by dropping it: this does nothing.
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
