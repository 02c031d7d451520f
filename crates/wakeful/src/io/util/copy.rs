//! [`copy`], from a reader to a writer; and [`Transfer`], which `copy_bidirectional` shares.

use super::io_future::{IoFuture, IoOp};
use super::{BUFFER_SIZE, retry_interrupted};
use crate::io::{AsyncRead, AsyncWrite, ReadBuf};
use crate::task::coop;
use std::fmt;
use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// Copies all bytes from a reader to a writer, and finally flushes the writer.
///
/// Returns the number of bytes copied. Uses a buffer of 8 KiB; for an
/// [`AsyncBufRead`](crate::io::AsyncBufRead), [`copy_buf`] needs no extra buffer. When the reader
/// has no data, the writer is flushed, so that two peers waiting for each other's answers do not
/// deadlock.
///
/// # Errors
///
/// Returns the error of the reader or the writer, except `Interrupted`, and `WriteZero` if the
/// writer accepts no more bytes. Bytes that were read but not written are lost.
///
/// # Cancel safety
///
/// Not cancel safe. Bytes that were read but not written are lost.
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let mut reader: &[u8] = b"hello";
/// let mut writer = Vec::new();
/// assert_eq!(wakeful::io::copy(&mut reader, &mut writer).await?, 5);
/// assert_eq!(writer, b"hello");
/// # Ok(())
/// # }
/// ```
///
/// [`copy_buf`]: crate::io::copy_buf
#[track_caller]
pub fn copy<'a, R, W>(reader: &'a mut R, writer: &'a mut W) -> IoFuture<Copy<'a, R, W>>
where
    R: AsyncRead + Unpin + ?Sized,
    W: AsyncWrite + Unpin + ?Sized,
{
    IoFuture::new(Copy { reader, writer, transfer: Transfer::new(BUFFER_SIZE) })
}

/// The operation of [`copy`].
#[derive(Debug)]
pub struct Copy<'a, R: ?Sized, W: ?Sized> {
    reader: &'a mut R,
    writer: &'a mut W,
    transfer: Transfer,
}

impl<R, W> IoOp for Copy<'_, R, W>
where
    R: AsyncRead + Unpin + ?Sized,
    W: AsyncWrite + Unpin + ?Sized,
{
    type Output = io::Result<u64>;

    fn poll_op(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<u64>> {
        self.transfer.poll(cx, Pin::new(&mut *self.reader), Pin::new(&mut *self.writer))
    }
}

/// One direction of a copy, from the first byte to the last.
pub(super) struct Transfer {
    buf: Box<[u8]>,
    /// The part of `buf` that was read but not written.
    pending: Range<usize>,
    /// Bytes written so far.
    total: u64,
    /// Whether the reader has reached its end.
    read_done: bool,
    /// Whether the writer may have buffered bytes.
    needs_flush: bool,
}

impl Transfer {
    pub(super) fn new(buffer_size: usize) -> Self {
        Self {
            buf: vec![0; buffer_size].into_boxed_slice(),
            pending: 0..0,
            total: 0,
            read_done: false,
            needs_flush: false,
        }
    }

    /// Polls until all bytes are copied and flushed, or neither side makes progress.
    ///
    /// Each round spends one unit of budget, because reader and writer may spend none.
    pub(super) fn poll<R, W>(
        &mut self,
        cx: &mut Context<'_>,
        mut reader: Pin<&mut R>,
        mut writer: Pin<&mut W>,
    ) -> Poll<io::Result<u64>>
    where
        R: AsyncRead + ?Sized,
        W: AsyncWrite + ?Sized,
    {
        loop {
            let progress = ready!(coop::poll_proceed(cx));
            if self.can_fill() {
                match self.poll_fill(cx, reader.as_mut()) {
                    Poll::Ready(filled) => {
                        progress.made_progress();
                        filled?;
                    }
                    Poll::Pending if !self.pending.is_empty() => {}
                    Poll::Pending => {
                        if self.needs_flush {
                            ready!(writer.poll_flush(cx))?;
                            progress.made_progress();
                            self.needs_flush = false;
                        }
                        return Poll::Pending;
                    }
                }
            }
            while !self.pending.is_empty() {
                let Poll::Ready(written) = self.poll_drain(cx, writer.as_mut()) else {
                    // While waiting, read more for the next write.
                    if self.can_fill() {
                        ready!(self.poll_fill(cx, reader))?;
                    }
                    return Poll::Pending;
                };
                progress.made_progress();
                written?;
            }
            self.pending = 0..0;
            if self.read_done {
                ready!(writer.poll_flush(cx))?;
                progress.made_progress();
                return Poll::Ready(Ok(self.total));
            }
        }
    }

    /// Returns whether the buffer has space and the reader may have data.
    fn can_fill(&self) -> bool {
        !self.read_done && self.pending.end < self.buf.len()
    }

    /// Reads once.
    fn poll_fill<R: AsyncRead + ?Sized>(
        &mut self,
        cx: &mut Context<'_>,
        mut reader: Pin<&mut R>,
    ) -> Poll<io::Result<()>> {
        let mut buf = ReadBuf::new(&mut self.buf);
        buf.set_filled(self.pending.end);
        ready!(retry_interrupted(|| reader.as_mut().poll_read(cx, &mut buf)))?;
        let end = buf.filled().len();
        self.read_done = end == self.pending.end;
        self.pending.end = end;
        Poll::Ready(Ok(()))
    }

    /// Writes once.
    fn poll_drain<W: AsyncWrite + ?Sized>(
        &mut self,
        cx: &mut Context<'_>,
        mut writer: Pin<&mut W>,
    ) -> Poll<io::Result<()>> {
        let pending = &self.buf[self.pending.clone()];
        let written = ready!(retry_interrupted(|| writer.as_mut().poll_write(cx, pending)))?;
        if written == 0 {
            let what = "write zero byte into writer";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::WriteZero, what)));
        }
        assert!(written <= pending.len(), "the writer accepted more bytes than it was given");
        self.pending.start += written;
        self.total += written as u64;
        self.needs_flush = true;
        Poll::Ready(Ok(()))
    }
}

impl fmt::Debug for Transfer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transfer")
            .field("buffer", &format_args!("{}/{}", self.pending.len(), self.buf.len()))
            .field("total", &self.total)
            .field("read_done", &self.read_done)
            .field("needs_flush", &self.needs_flush)
            .finish()
    }
}
