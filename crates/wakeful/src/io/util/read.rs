//! Operations that read into the caller's memory: `read`, `read_buf`, `read_exact`.
#![allow(unsafe_code)]

use super::io_future::IoOp;
use super::retry_interrupted;
use crate::io::{AsyncRead, ReadBuf};
use bytes::BufMut;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// An operation that reads available bytes once.
#[derive(Debug)]
pub struct Read<'a, R: ?Sized> {
    pub(super) reader: &'a mut R,
    pub(super) buf: &'a mut [u8],
}

impl<R: AsyncRead + Unpin + ?Sized> IoOp for Read<'_, R> {
    type Output = io::Result<usize>;

    #[inline]
    fn poll_op(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut buf = ReadBuf::new(self.buf);
        ready!(Pin::new(&mut *self.reader).poll_read(cx, &mut buf))?;
        Poll::Ready(Ok(buf.filled().len()))
    }

    #[inline]
    fn is_end(output: &Self::Output) -> bool {
        matches!(output, Ok(0))
    }
}

/// An operation that reads available bytes once into a `BufMut`.
#[derive(Debug)]
pub struct ReadToBuf<'a, R: ?Sized, B: ?Sized> {
    pub(super) reader: &'a mut R,
    pub(super) buf: &'a mut B,
}

impl<R, B> IoOp for ReadToBuf<'_, R, B>
where
    R: AsyncRead + Unpin + ?Sized,
    B: BufMut + ?Sized,
{
    type Output = io::Result<usize>;

    fn poll_op(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if !self.buf.has_remaining_mut() {
            return Poll::Ready(Ok(0));
        }
        let read = {
            // SAFETY: safe code can write only initialized bytes through a `ReadBuf`.
            let spare = unsafe { self.buf.chunk_mut().as_uninit_slice_mut() };
            let mut buf = ReadBuf::uninit(spare);
            let start = buf.filled().as_ptr();
            ready!(Pin::new(&mut *self.reader).poll_read(cx, &mut buf))?;
            assert_eq!(start, buf.filled().as_ptr(), "the reader replaced the buffer");
            buf.filled().len()
        };
        // SAFETY: the assert above proves that the first `read` bytes of the chunk are filled.
        unsafe { self.buf.advance_mut(read) };
        Poll::Ready(Ok(read))
    }

    #[inline]
    fn is_end(output: &Self::Output) -> bool {
        matches!(output, Ok(0))
    }
}

/// An operation that reads until the buffer is full.
#[derive(Debug)]
pub struct ReadExact<'a, R: ?Sized> {
    pub(super) reader: &'a mut R,
    pub(super) buf: ReadBuf<'a>,
}

impl<R: AsyncRead + Unpin + ?Sized> IoOp for ReadExact<'_, R> {
    type Output = io::Result<usize>;

    #[inline]
    fn poll_op(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        ready!(fill(self.reader, cx, &mut self.buf, || io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "early eof"
        )))?;
        Poll::Ready(Ok(self.buf.capacity()))
    }

    #[inline]
    fn is_end(output: &Self::Output) -> bool {
        output.is_err()
    }
}

/// Reads until `buf` is full. Fails with `early_end` if the data ends first.
#[inline]
pub(super) fn fill<R: AsyncRead + Unpin + ?Sized>(
    reader: &mut R,
    cx: &mut Context<'_>,
    buf: &mut ReadBuf<'_>,
    early_end: impl FnOnce() -> io::Error,
) -> Poll<io::Result<()>> {
    while buf.remaining() > 0 {
        let before = buf.remaining();
        ready!(retry_interrupted(|| Pin::new(&mut *reader).poll_read(cx, buf)))?;
        if buf.remaining() == before {
            return Poll::Ready(Err(early_end()));
        }
    }
    Poll::Ready(Ok(()))
}
