//! The read end of a pipe.

use super::{check_pipe, ends};
use crate::driver::io_readiness::Readiness;
use crate::io::{AsyncRead, Interest, ReadBuf, Ready};
use crate::runtime::poll_evented::PollEvented;
use crate::runtime::registration::OpSource;
use bytes::BufMut;
use rustix::fs::OFlags;
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The read end of a pipe.
///
/// Read with the methods of [`AsyncReadExt`](crate::io::AsyncReadExt).
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
/// sender.write_all(b"hello").await?;
/// let mut head = [0; 4];
/// receiver.read_exact(&mut head).await?;
/// receiver.readable().await?;
/// assert_eq!(receiver.try_read(&mut [0; 4])?, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Receiver {
    io: PollEvented<OwnedFd>,
}

ends!(
    Receiver,
    mio::Interest::READABLE,
    Readiness::READ,
    OFlags::RDONLY,
    "not in O_RDONLY or O_RDWR access mode"
);

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
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::net::unix::pipe;
    ///
    /// let (sender, receiver) = pipe::pipe()?;
    /// drop(sender);
    /// receiver.readable().await?;
    /// assert_eq!(receiver.try_read(&mut [0; 8])?, 0); // end of file
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn readable(&self) -> impl Future<Output = io::Result<()>> + Send + Sync + '_ {
        let ready = self.io.ready_for(Interest::READABLE, Location::caller());
        async { ready.await.map(drop) }
    }

    /// Polls for read readiness.
    ///
    /// Only the task of the most recent call is woken. Any number of tasks may wait with
    /// [`readable`](Self::readable).
    ///
    /// # Errors
    ///
    /// Returns an error if the runtime has shut down.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use std::future::poll_fn;
    /// use wakeful::io::AsyncWriteExt;
    /// use wakeful::net::unix::pipe;
    ///
    /// let (mut sender, receiver) = pipe::pipe()?;
    /// sender.write_all(b"hello").await?;
    /// poll_fn(|cx| receiver.poll_read_ready(cx)).await?;
    /// assert_eq!(receiver.try_read(&mut [0; 8])?, 5);
    /// # Ok(())
    /// # }
    /// ```
    pub fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io.poll_read_ready(cx)
    }

    /// Reads available bytes without waiting and returns their number.
    ///
    /// `Ok(0)` means that all senders are closed, or that `buf` is empty.
    ///
    /// # Errors
    ///
    /// Returns `WouldBlock` if there is nothing to read, and the kernel's error otherwise.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use std::io::ErrorKind;
    /// use wakeful::io::AsyncWriteExt;
    /// use wakeful::net::unix::pipe;
    ///
    /// let (mut sender, receiver) = pipe::pipe()?;
    /// let error = receiver.try_read(&mut [0; 8]).unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::WouldBlock);
    /// sender.write_all(b"hello").await?;
    /// receiver.readable().await?;
    /// assert_eq!(receiver.try_read(&mut [0; 8])?, 5);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn try_read(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.io.try_recv(buf)
    }

    /// Reads available bytes into several buffers without waiting and returns their number.
    ///
    /// # Errors
    ///
    /// Returns `WouldBlock` if there is nothing to read, and the kernel's error otherwise.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use std::io::IoSliceMut;
    /// use wakeful::io::AsyncWriteExt;
    /// use wakeful::net::unix::pipe;
    ///
    /// let (mut sender, receiver) = pipe::pipe()?;
    /// sender.write_all(b"hello").await?;
    /// receiver.readable().await?;
    /// let (mut head, mut rest) = ([0; 1], [0; 7]);
    /// let mut bufs = [IoSliceMut::new(&mut head), IoSliceMut::new(&mut rest)];
    /// assert_eq!(receiver.try_read_vectored(&mut bufs)?, 5);
    /// assert_eq!(&head, b"h");
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_read_vectored(&self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.io.try_recv_vectored(bufs)
    }

    /// Reads available bytes into a [`BufMut`] without waiting and returns their number.
    ///
    /// # Errors
    ///
    /// Returns `WouldBlock` if there is nothing to read, and the kernel's error otherwise.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::io::AsyncWriteExt;
    /// use wakeful::net::unix::pipe;
    ///
    /// let (mut sender, receiver) = pipe::pipe()?;
    /// sender.write_all(b"hello").await?;
    /// receiver.readable().await?;
    /// let mut buf = Vec::with_capacity(8);
    /// receiver.try_read_buf(&mut buf)?;
    /// assert_eq!(buf, b"hello");
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_read_buf<B: BufMut>(&self, buf: &mut B) -> io::Result<usize> {
        self.io.try_recv_buf(buf)
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
