//! Operations that write: `write`, `write_vectored`, `write_buf`, `write_all`, `write_all_buf`,
//! `flush` and `shutdown`.

use super::io_future::IoOp;
use super::retry_interrupted;
use crate::io::AsyncWrite;
use bytes::Buf;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// An operation that writes once.
#[derive(Debug)]
pub struct Write<'a, W: ?Sized> {
    pub(super) writer: &'a mut W,
    pub(super) buf: &'a [u8],
}

impl<W: AsyncWrite + Unpin + ?Sized> IoOp for Write<'_, W> {
    type Output = io::Result<usize>;

    #[inline]
    fn poll_op(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.writer).poll_write(cx, self.buf)
    }
}

/// An operation that writes once, from several slices.
#[derive(Debug)]
pub struct WriteVectored<'a, 'b, W: ?Sized> {
    pub(super) writer: &'a mut W,
    pub(super) bufs: &'a [IoSlice<'b>],
}

impl<W: AsyncWrite + Unpin + ?Sized> IoOp for WriteVectored<'_, '_, W> {
    type Output = io::Result<usize>;

    #[inline]
    fn poll_op(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.writer).poll_write_vectored(cx, self.bufs)
    }
}

/// An operation that writes once, from the front of a `Buf`.
#[derive(Debug)]
pub struct WriteBuf<'a, W, B> {
    pub(super) writer: &'a mut W,
    pub(super) buf: &'a mut B,
}

impl<W: AsyncWrite + Unpin, B: Buf> IoOp for WriteBuf<'_, W, B> {
    type Output = io::Result<usize>;

    #[inline]
    fn poll_op(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if !self.buf.has_remaining() {
            return Poll::Ready(Ok(0));
        }
        write_front(self.writer, cx, self.buf)
    }
}

/// An operation that writes all of a `Buf`.
#[derive(Debug)]
pub struct WriteAllBuf<'a, W, B> {
    pub(super) writer: &'a mut W,
    pub(super) buf: &'a mut B,
}

impl<W: AsyncWrite + Unpin, B: Buf> IoOp for WriteAllBuf<'_, W, B> {
    type Output = io::Result<()>;

    #[inline]
    fn poll_op(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.buf.has_remaining() {
            let written = ready!(retry_interrupted(|| write_front(self.writer, cx, self.buf)))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// The maximum number of chunks of a `Buf` in one write.
const MAX_SLICES: usize = 64;

/// Writes once from the front of `buf` and advances it by the accepted bytes.
#[inline]
fn write_front<W: AsyncWrite + Unpin, B: Buf>(
    writer: &mut W,
    cx: &mut Context<'_>,
    buf: &mut B,
) -> Poll<io::Result<usize>> {
    let writer = Pin::new(writer);
    let written = if writer.is_write_vectored() {
        let mut slices = [IoSlice::new(&[]); MAX_SLICES];
        let parts = buf.chunks_vectored(&mut slices);
        ready!(writer.poll_write_vectored(cx, &slices[..parts]))?
    } else {
        ready!(writer.poll_write(cx, buf.chunk()))?
    };
    buf.advance(written);
    Poll::Ready(Ok(written))
}

/// An operation that writes all of a slice.
#[derive(Debug)]
pub struct WriteAll<'a, W: ?Sized> {
    pub(super) writer: &'a mut W,
    /// The bytes that were not written yet.
    pub(super) buf: &'a [u8],
}

impl<W: AsyncWrite + Unpin + ?Sized> IoOp for WriteAll<'_, W> {
    type Output = io::Result<()>;

    #[inline]
    fn poll_op(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        drain(self.writer, cx, &mut self.buf)
    }
}

/// Writes until `rest` is empty. Accepted bytes are always removed from its front.
#[inline]
pub(super) fn drain<W: AsyncWrite + Unpin + ?Sized>(
    writer: &mut W,
    cx: &mut Context<'_>,
    rest: &mut &[u8],
) -> Poll<io::Result<()>> {
    while !rest.is_empty() {
        let written = ready!(retry_interrupted(|| Pin::new(&mut *writer).poll_write(cx, rest)))?;
        *rest = &rest[written..];
        if written == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
    }
    Poll::Ready(Ok(()))
}

/// An operation that flushes the writer.
#[derive(Debug)]
pub struct Flush<'a, W: ?Sized> {
    pub(super) writer: &'a mut W,
}

impl<W: AsyncWrite + Unpin + ?Sized> IoOp for Flush<'_, W> {
    type Output = io::Result<()>;

    #[inline]
    fn poll_op(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.writer).poll_flush(cx)
    }
}

/// An operation that shuts the writer down.
#[derive(Debug)]
pub struct Shutdown<'a, W: ?Sized> {
    pub(super) writer: &'a mut W,
}

impl<W: AsyncWrite + Unpin + ?Sized> IoOp for Shutdown<'_, W> {
    type Output = io::Result<()>;

    #[inline]
    fn poll_op(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.writer).poll_shutdown(cx)
    }
}
