//! In-memory streams: [`duplex`] in both directions, [`simplex`] in one.

use super::pipe::Pipe;
use super::split::{ReadHalf, WriteHalf, split};
use crate::io::{AsyncRead, AsyncWrite, ReadBuf};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// One end of an in-memory connection, created by [`duplex`].
///
/// When one end is dropped, the other reads the remaining bytes and then end of file. Writes to the
/// other end fail with `BrokenPipe`, including a write that is waiting for space.
/// [`shutdown`](crate::io::AsyncWriteExt::shutdown) closes only the write side.
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use wakeful::io::{AsyncWriteExt, duplex};
///
/// let (mut client, server) = duplex(64);
/// drop(server);
/// let error = client.write_all(b"hello").await.unwrap_err();
/// assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct DuplexStream {
    /// The pipe from the other end.
    incoming: Arc<Pipe>,
    /// The pipe to the other end.
    outgoing: Arc<Pipe>,
}

/// Creates an in-memory connection.
///
/// Bytes written to one end are read from the other. Each direction buffers up to `max_buf_size`
/// bytes; a write to a full buffer waits for a read. Use a `duplex` between tasks, and in tests in
/// place of a socket.
///
/// # Panics
///
/// Panics if `max_buf_size` is 0.
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use wakeful::io::{AsyncReadExt, AsyncWriteExt};
///
/// let (mut client, mut server) = wakeful::io::duplex(64);
/// client.write_all(b"question").await?;
/// let mut buf = [0; 64];
/// let len = server.read(&mut buf).await?;
/// assert_eq!(&buf[..len], b"question");
/// # Ok(())
/// # }
/// ```
#[track_caller]
pub fn duplex(max_buf_size: usize) -> (DuplexStream, DuplexStream) {
    let a_to_b = Arc::new(Pipe::new(max_buf_size));
    let b_to_a = Arc::new(Pipe::new(max_buf_size));
    (
        DuplexStream { incoming: b_to_a.clone(), outgoing: a_to_b.clone() },
        DuplexStream { incoming: a_to_b, outgoing: b_to_a },
    )
}

impl AsyncRead for DuplexStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.incoming.poll_read(cx, buf)
    }
}

impl AsyncWrite for DuplexStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.outgoing.poll_write(cx, &[IoSlice::new(buf)])
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.outgoing.close_writer();
        Poll::Ready(Ok(()))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.outgoing.poll_write(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }
}

impl Drop for DuplexStream {
    fn drop(&mut self) {
        self.outgoing.close_writer();
        self.incoming.close_reader();
    }
}

/// An in-memory pipe in one direction, created by [`simplex`].
///
/// Bytes written to it are read back from it.
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use wakeful::io::{AsyncReadExt, AsyncWriteExt, SimplexStream};
///
/// let mut pipe = SimplexStream::new_unsplit(64);
/// pipe.write_all(b"hello").await?;
/// let mut text = [0; 5];
/// pipe.read_exact(&mut text).await?;
/// assert_eq!(&text, b"hello");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct SimplexStream {
    pipe: Pipe,
}

/// Creates an in-memory pipe as a read half and a write half.
///
/// Bytes written to the write half are read from the read half. Up to `max_buf_size` bytes are
/// buffered; a write to a full buffer waits for a read. [`ReadHalf::unsplit`] recombines the
/// halves.
///
/// The reader reaches end of file after [`shutdown`](crate::io::AsyncWriteExt::shutdown) of the
/// write half. Dropping a half does not notify the other.
///
/// # Panics
///
/// Panics if `max_buf_size` is 0.
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use wakeful::io::{AsyncReadExt, AsyncWriteExt};
///
/// let (mut reader, mut writer) = wakeful::io::simplex(64);
/// writer.write_all(b"news").await?;
/// writer.shutdown().await?;
/// let mut text = String::new();
/// reader.read_to_string(&mut text).await?;
/// assert_eq!(text, "news");
/// # Ok(())
/// # }
/// ```
#[track_caller]
pub fn simplex(max_buf_size: usize) -> (ReadHalf<SimplexStream>, WriteHalf<SimplexStream>) {
    split(SimplexStream::new_unsplit(max_buf_size))
}

impl SimplexStream {
    /// Creates an in-memory pipe that is both reader and writer.
    ///
    /// See [`simplex`] for a pipe in two halves.
    ///
    /// # Panics
    ///
    /// Panics if `max_buf_size` is 0.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::io::{AsyncReadExt, AsyncWriteExt, SimplexStream};
    ///
    /// let mut pipe = SimplexStream::new_unsplit(64);
    /// pipe.write_u8(7).await?;
    /// assert_eq!(pipe.read_u8().await?, 7);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn new_unsplit(max_buf_size: usize) -> SimplexStream {
        SimplexStream { pipe: Pipe::new(max_buf_size) }
    }
}

impl AsyncRead for SimplexStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.pipe.poll_read(cx, buf)
    }
}

impl AsyncWrite for SimplexStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.pipe.poll_write(cx, &[IoSlice::new(buf)])
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.pipe.close_writer();
        Poll::Ready(Ok(()))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.pipe.poll_write(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }
}
