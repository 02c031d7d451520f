//! The ends of a child's pipes that are ours.

use crate::io::{AsyncRead, AsyncWrite, ReadBuf};
use crate::net::unix::pipe;
use rustix::fs::OFlags;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::pin::Pin;
use std::process::Stdio;
use std::task::{Context, Poll};

/// The pipe to a child's standard input. Dropping it is the end, for the child.
#[derive(Debug)]
pub struct ChildStdin {
    pipe: pipe::Sender,
}

/// The pipe from a child's standard output.
#[derive(Debug)]
pub struct ChildStdout {
    pipe: pipe::Receiver,
}

/// The pipe from a child's standard error.
#[derive(Debug)]
pub struct ChildStderr {
    pipe: pipe::Receiver,
}

fn nonblocking(fd: OwnedFd) -> io::Result<OwnedFd> {
    let flags = rustix::fs::fcntl_getfl(&fd)?;
    rustix::fs::fcntl_setfl(&fd, flags | OFlags::NONBLOCK)?;
    Ok(fd)
}

/// What all three have in common.
macro_rules! ends {
    ($($end:ident: $pipe:ident;)+) => {$(
        impl $end {
            /// Takes over a pipe of std's.
            ///
            /// # Errors
            ///
            /// Those of the system.
            ///
            /// # Panics
            ///
            /// Outside of a runtime with I/O.
            #[track_caller]
            pub fn from_std(inner: std::process::$end) -> io::Result<Self> {
                let fd = nonblocking(inner.into())?;
                Ok(Self { pipe: pipe::$pipe::from_owned_fd_unchecked(fd)? })
            }

            /// Gives the descriptor back, in blocking mode.
            pub fn into_owned_fd(self) -> io::Result<OwnedFd> {
                self.pipe.into_blocking_fd()
            }
        }

        /// To hand it on to another child.
        impl TryFrom<$end> for Stdio {
            type Error = io::Error;

            fn try_from(end: $end) -> io::Result<Stdio> {
                Ok(end.into_owned_fd()?.into())
            }
        }

        impl AsFd for $end {
            fn as_fd(&self) -> BorrowedFd<'_> {
                self.pipe.as_fd()
            }
        }

        impl AsRawFd for $end {
            fn as_raw_fd(&self) -> RawFd {
                self.pipe.as_raw_fd()
            }
        }
    )+};
}
ends! {
    ChildStdin: Sender;
    ChildStdout: Receiver;
    ChildStderr: Receiver;
}

impl AsyncWrite for ChildStdin {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.pipe).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.pipe).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.pipe.is_write_vectored()
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

macro_rules! readers {
    ($($end:ident)+) => {$(
        impl AsyncRead for $end {
            fn poll_read(
                mut self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                Pin::new(&mut self.pipe).poll_read(cx, buf)
            }
        }
    )+};
}
readers!(ChildStdout ChildStderr);
