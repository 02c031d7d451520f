//! Operations that read up to a byte: `read_until`, `read_line`; and `fill_buf`.
#![allow(unsafe_code)]

use super::io_future::IoOp;
use super::read_to_end::{OnError, finish_text};
use crate::io::AsyncBufRead;
use std::io::{self, BufRead};
use std::mem;
use std::pin::Pin;
use std::ptr;
use std::task::{Context, Poll, ready};

/// Returns the position of the first `byte`.
///
/// std has a faster search than a loop, but exposes it only through `skip_until`.
fn find(byte: u8, bytes: &[u8]) -> Option<usize> {
    let mut rest = bytes;
    let passed = rest.skip_until(byte).expect("a slice has no errors");
    let last = passed.checked_sub(1)?;
    (bytes[last] == byte).then_some(last)
}

/// Moves bytes to the end of `vec`, up to and including the next `byte`, or all bytes to the end.
///
/// Bytes that were moved stay in `vec` if the result is `Pending`.
pub(super) fn poll_until<R: AsyncBufRead + ?Sized>(
    mut reader: Pin<&mut R>,
    cx: &mut Context<'_>,
    byte: u8,
    vec: &mut Vec<u8>,
) -> Poll<io::Result<()>> {
    loop {
        let available = match ready!(reader.as_mut().poll_fill_buf(cx)) {
            Ok(available) => available,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Poll::Ready(Err(error)),
        };
        let found = find(byte, available);
        let is_done = found.is_some() || available.is_empty();
        let used = found.map_or(available.len(), |at| at + 1);
        vec.extend_from_slice(&available[..used]);
        reader.as_mut().consume(used);
        if is_done {
            return Poll::Ready(Ok(()));
        }
    }
}

/// An operation that reads up to a byte.
#[derive(Debug)]
pub struct ReadUntil<'a, R: ?Sized> {
    reader: &'a mut R,
    byte: u8,
    vec: &'a mut Vec<u8>,
    /// The length of `vec` before the operation.
    old_len: usize,
}

impl<'a, R: ?Sized> ReadUntil<'a, R> {
    pub(super) fn new(reader: &'a mut R, byte: u8, vec: &'a mut Vec<u8>) -> Self {
        Self { reader, byte, old_len: vec.len(), vec }
    }
}

impl<R: AsyncBufRead + Unpin + ?Sized> IoOp for ReadUntil<'_, R> {
    type Output = io::Result<usize>;

    fn poll_op(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        ready!(poll_until(Pin::new(&mut *self.reader), cx, self.byte, self.vec))?;
        Poll::Ready(Ok(self.vec.len() - self.old_len))
    }

    #[inline]
    fn is_end(output: &Self::Output) -> bool {
        matches!(output, Ok(0))
    }
}

/// An operation that reads a line of text.
#[derive(Debug)]
pub struct ReadLine<'a, R: ?Sized> {
    reader: &'a mut R,
    text: &'a mut String,
    /// The old contents of `text`, and the new bytes.
    bytes: Vec<u8>,
    /// The length of `text` before the operation.
    old_len: usize,
}

impl<'a, R: ?Sized> ReadLine<'a, R> {
    pub(super) fn new(reader: &'a mut R, text: &'a mut String) -> Self {
        let bytes = mem::take(text).into_bytes();
        Self { reader, text, old_len: bytes.len(), bytes }
    }
}

impl<R: AsyncBufRead + Unpin + ?Sized> IoOp for ReadLine<'_, R> {
    type Output = io::Result<usize>;

    fn poll_op(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let end = ready!(poll_until(Pin::new(&mut *self.reader), cx, b'\n', &mut self.bytes));
        let bytes = mem::take(&mut self.bytes);
        Poll::Ready(finish_text(self.text, bytes, self.old_len, end, OnError::Keep))
    }

    #[inline]
    fn is_end(output: &Self::Output) -> bool {
        matches!(output, Ok(0))
    }
}

/// An operation that returns the contents of the reader's buffer.
#[derive(Debug)]
pub struct FillBuf<'a, R: ?Sized> {
    /// `None` once the operation is complete.
    reader: Option<&'a mut R>,
}

impl<'a, R: ?Sized> FillBuf<'a, R> {
    pub(super) fn new(reader: &'a mut R) -> Self {
        Self { reader: Some(reader) }
    }
}

impl<'a, R: AsyncBufRead + Unpin + ?Sized> IoOp for FillBuf<'a, R> {
    type Output = io::Result<&'a [u8]>;

    fn poll_op(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<&'a [u8]>> {
        let reader = self.reader.take().expect("Polled after completion.");
        match Pin::new(&mut *reader).poll_fill_buf(cx) {
            Poll::Ready(Ok(available)) => {
                // SAFETY: `available` borrows from `*reader`, which is exclusively borrowed for 'a.
                // The reference was taken out of `self` and is not put back on this path, so no
                // other code can use it. The compiler rejects this only because the pending path
                // puts it back.
                Poll::Ready(Ok(unsafe { &*ptr::from_ref(available) }))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => {
                self.reader = Some(reader);
                Poll::Pending
            }
        }
    }

    fn is_end(output: &Self::Output) -> bool {
        matches!(output, Ok([]))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::find;

    #[test]
    fn find_returns_the_first_match() {
        assert_eq!(find(b'x', b""), None);
        assert_eq!(find(b'x', b"abc"), None);
        assert_eq!(find(b'a', b"abc"), Some(0));
        assert_eq!(find(b'c', b"abcc"), Some(2));
        assert_eq!(find(0, &[1; 1000]), None);
    }
}
