//! The write end of a pipe.

use super::{check_pipe, ends};
use crate::driver::io_readiness::Readiness;
use crate::io::{AsyncWrite, Interest, Ready};
use crate::runtime::poll_evented::PollEvented;
use crate::runtime::registration::OpSource;
use rustix::fs::OFlags;
use std::fs::File;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The write end of a pipe.
///
/// When the last sender of a pipe is dropped, the receiver reaches end of file. Write with the
/// methods of [`AsyncWriteExt`](crate::io::AsyncWriteExt).
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
/// drop(sender); // end of file
/// let mut text = String::new();
/// receiver.read_to_string(&mut text).await?;
/// assert_eq!(text, "hello");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Sender {
    io: PollEvented<OwnedFd>,
}

ends!(
    Sender,
    mio::Interest::WRITABLE,
    Readiness::WRITE,
    OFlags::WRONLY,
    "not in O_WRONLY or O_RDWR access mode"
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
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::net::unix::pipe;
    ///
    /// let (sender, _receiver) = pipe::pipe()?;
    /// sender.writable().await?;
    /// assert_eq!(sender.try_write(b"hello")?, 5);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn writable(&self) -> impl Future<Output = io::Result<()>> + Send + Sync + '_ {
        let ready = self.io.ready_for(Interest::WRITABLE, Location::caller());
        async { ready.await.map(drop) }
    }

    /// Polls for write readiness.
    ///
    /// Only the task of the most recent call is woken. Any number of tasks may wait with
    /// [`writable`](Self::writable).
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
    /// use wakeful::net::unix::pipe;
    ///
    /// let (sender, _receiver) = pipe::pipe()?;
    /// poll_fn(|cx| sender.poll_write_ready(cx)).await?;
    /// assert_eq!(sender.try_write(b"hello")?, 5);
    /// # Ok(())
    /// # }
    /// ```
    pub fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io.poll_write_ready(cx)
    }

    /// Writes bytes without waiting and returns the number of accepted bytes.
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

    /// Writes bytes from several buffers without waiting and returns the number of accepted bytes.
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
    /// use std::io::IoSlice;
    /// use wakeful::net::unix::pipe;
    ///
    /// let (sender, _receiver) = pipe::pipe()?;
    /// sender.writable().await?;
    /// let len = sender.try_write_vectored(&[IoSlice::new(b"hello "), IoSlice::new(b"world")])?;
    /// assert_eq!(len, 11);
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_write_vectored(&self, buf: &[IoSlice<'_>]) -> io::Result<usize> {
        self.io.try_send_vectored(buf)
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
