//! Streams in memory: [`duplex`] with two ends, [`simplex`] in one direction.

use super::pipe::Pipe;
use super::split::{ReadHalf, WriteHalf, split};
use crate::io::{AsyncRead, AsyncWrite, ReadBuf};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// One end of a connection in memory; see [`duplex`].
///
/// When one end is dropped, the other reads what is still there and then comes to
/// the end; its writes, also one that waits for room, fail with `BrokenPipe`.
/// [`shutdown`](crate::io::AsyncWriteExt::shutdown) ends only the direction that
/// is written to.
#[derive(Debug)]
pub struct DuplexStream {
    /// From the other end.
    incoming: Arc<Pipe>,
    /// To the other end.
    outgoing: Arc<Pipe>,
}

/// A connection in memory: what is written to one of the two is read from the
/// other. In each direction up to `max_buf_size` bytes lie in between; then a
/// write waits for a read.
///
/// ```
/// use wakeful::io::{AsyncReadExt, AsyncWriteExt};
///
/// # #[wakeful::main]
/// # async fn main() -> std::io::Result<()> {
/// let (mut client, mut server) = wakeful::io::duplex(64);
/// client.write_all(b"question").await?;
/// let mut buffer = [0; 64];
/// let len = server.read(&mut buffer).await?;
/// assert_eq!(&buffer[..len], b"question");
/// # Ok(())
/// # }
/// ```
///
/// # Panics
///
/// If `max_buf_size` is 0.
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

/// A pipe in memory; see [`simplex`]. What is written to it is read from it.
#[derive(Debug)]
pub struct SimplexStream {
    pipe: Pipe,
}

/// A pipe in memory in two halves: what is written to the second is read from the
/// first. Up to `max_buf_size` bytes lie in between; then a write waits for a
/// read. [`ReadHalf::unsplit`] makes one stream of both.
///
/// The reader comes to the end after
/// [`shutdown`](crate::io::AsyncWriteExt::shutdown) of the writer; to drop a half
/// tells the other nothing.
///
/// ```
/// use wakeful::io::{AsyncReadExt, AsyncWriteExt};
///
/// # #[wakeful::main]
/// # async fn main() -> std::io::Result<()> {
/// let (mut reader, mut writer) = wakeful::io::simplex(64);
/// writer.write_all(b"news").await?;
/// writer.shutdown().await?;
/// let mut text = String::new();
/// reader.read_to_string(&mut text).await?;
/// assert_eq!(text, "news");
/// # Ok(())
/// # }
/// ```
///
/// # Panics
///
/// If `max_buf_size` is 0.
#[track_caller]
pub fn simplex(max_buf_size: usize) -> (ReadHalf<SimplexStream>, WriteHalf<SimplexStream>) {
    split(SimplexStream::new_unsplit(max_buf_size))
}

impl SimplexStream {
    /// As [`simplex`], but not in halves.
    ///
    /// # Panics
    ///
    /// If `max_buf_size` is 0.
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
