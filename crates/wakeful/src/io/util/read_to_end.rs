//! Operations that read to the end: `read_to_end`, `read_to_string`; and the UTF-8 check of text.
#![allow(unsafe_code)]

use super::io_future::IoOp;
use super::retry_interrupted;
use crate::io::{AsyncRead, ReadBuf};
use std::io;
use std::mem::{self, MaybeUninit};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// The minimum spare capacity for a read.
const MIN_SPARE: usize = 32;

/// Grows a vector while a reader is read to its end.
///
/// Rules:
/// - GROWTH-1. The first `initialized_spare` bytes after the vector's length are initialized. No
///   other code changes the vector in between.
#[derive(Debug)]
struct Growth {
    /// The vector's capacity before the first read.
    initial_capacity: usize,
    /// The number of initialized bytes after the vector's length, so that a reader does not zero
    /// them again (GROWTH-1).
    initialized_spare: usize,
}

impl Growth {
    fn for_vec(vec: &Vec<u8>) -> Self {
        Self { initial_capacity: vec.capacity(), initialized_spare: 0 }
    }

    /// Reads more bytes to the end of `vec`; 0 means end of file.
    fn poll_more<R: AsyncRead + ?Sized>(
        &mut self,
        reader: Pin<&mut R>,
        cx: &mut Context<'_>,
        vec: &mut Vec<u8>,
    ) -> Poll<io::Result<usize>> {
        if vec.capacity() - vec.len() < MIN_SPARE {
            if self.may_be_exact_fit(vec) {
                return self.poll_probe(reader, cx, vec);
            }
            // `reserve` at least doubles the capacity, so the copies cost amortized O(1) per byte.
            vec.reserve(MIN_SPARE);
            self.initialized_spare = 0;
        }
        let mut buf = ReadBuf::uninit(vec.spare_capacity_mut());
        // SAFETY: GROWTH-1.
        unsafe { buf.assume_init(self.initialized_spare) };
        let start = buf.filled().as_ptr();
        let polled = reader.poll_read(cx, &mut buf);
        assert_eq!(start, buf.filled().as_ptr(), "the reader replaced the buffer");
        let (read, initialized) = match polled {
            Poll::Ready(Ok(())) => (buf.filled().len(), buf.initialized().len()),
            _ => (0, buf.initialized().len()),
        };
        // SAFETY: the first `read` bytes after the vector's length are filled.
        unsafe { vec.set_len(vec.len() + read) };
        self.initialized_spare = initialized - read;
        polled.map_ok(|()| read)
    }

    /// Returns whether the caller may have passed a vector of exactly the right capacity.
    fn may_be_exact_fit(&self, vec: &Vec<u8>) -> bool {
        vec.capacity() == self.initial_capacity && self.initial_capacity >= MIN_SPARE
    }

    /// Reads into a small buffer first, to see whether the vector has to grow at all.
    fn poll_probe<R: AsyncRead + ?Sized>(
        &mut self,
        reader: Pin<&mut R>,
        cx: &mut Context<'_>,
        vec: &mut Vec<u8>,
    ) -> Poll<io::Result<usize>> {
        let mut probe = [MaybeUninit::uninit(); MIN_SPARE];
        let mut probe = ReadBuf::uninit(&mut probe);
        ready!(reader.poll_read(cx, &mut probe))?;
        vec.extend_from_slice(probe.filled());
        self.initialized_spare = 0;
        Poll::Ready(Ok(probe.filled().len()))
    }

    /// Reads until the end of the data.
    fn poll_rest<R: AsyncRead + ?Sized>(
        &mut self,
        mut reader: Pin<&mut R>,
        cx: &mut Context<'_>,
        vec: &mut Vec<u8>,
    ) -> Poll<io::Result<()>> {
        loop {
            let read = ready!(retry_interrupted(|| self.poll_more(reader.as_mut(), cx, vec)))?;
            if read == 0 {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

/// An operation that reads all bytes.
#[derive(Debug)]
pub struct ReadToEnd<'a, R: ?Sized> {
    reader: &'a mut R,
    vec: &'a mut Vec<u8>,
    growth: Growth,
    /// The length of `vec` before the operation.
    old_len: usize,
}

impl<'a, R: ?Sized> ReadToEnd<'a, R> {
    pub(super) fn new(reader: &'a mut R, vec: &'a mut Vec<u8>) -> Self {
        Self { growth: Growth::for_vec(vec), old_len: vec.len(), reader, vec }
    }
}

impl<R: AsyncRead + Unpin + ?Sized> IoOp for ReadToEnd<'_, R> {
    type Output = io::Result<usize>;

    fn poll_op(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        ready!(self.growth.poll_rest(Pin::new(&mut *self.reader), cx, self.vec))?;
        Poll::Ready(Ok(self.vec.len() - self.old_len))
    }

    #[inline]
    fn is_end(output: &Self::Output) -> bool {
        matches!(output, Ok(0))
    }
}

/// An operation that reads all bytes as text.
#[derive(Debug)]
pub struct ReadToString<'a, R: ?Sized> {
    reader: &'a mut R,
    text: &'a mut String,
    /// The old contents of `text`, and the new bytes.
    bytes: Vec<u8>,
    growth: Growth,
    /// The length of `text` before the operation.
    old_len: usize,
}

impl<'a, R: ?Sized> ReadToString<'a, R> {
    pub(super) fn new(reader: &'a mut R, text: &'a mut String) -> Self {
        let bytes = mem::take(text).into_bytes();
        Self { growth: Growth::for_vec(&bytes), old_len: bytes.len(), reader, text, bytes }
    }
}

impl<R: AsyncRead + Unpin + ?Sized> IoOp for ReadToString<'_, R> {
    type Output = io::Result<usize>;

    fn poll_op(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let rest = self.growth.poll_rest(Pin::new(&mut *self.reader), cx, &mut self.bytes);
        let end = ready!(rest);
        let bytes = mem::take(&mut self.bytes);
        Poll::Ready(finish_text(self.text, bytes, self.old_len, end, OnError::Drop))
    }

    #[inline]
    fn is_end(output: &Self::Output) -> bool {
        matches!(output, Ok(0))
    }
}

/// The treatment of text that was read before an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnError {
    /// The text is discarded.
    Drop,
    /// The text is kept.
    Keep,
}

/// Finishes a read of text.
///
/// `bytes` contains the `old_len` bytes that were in `text` before, and the new bytes. `text` gets
/// all of them if they are UTF-8; otherwise it gets back its old contents.
pub(super) fn finish_text(
    text: &mut String,
    bytes: Vec<u8>,
    old_len: usize,
    end: io::Result<()>,
    on_error: OnError,
) -> io::Result<usize> {
    let read = bytes.len() - old_len;
    match String::from_utf8(bytes) {
        Ok(mut whole) => {
            if end.is_err() && on_error == OnError::Drop {
                whole.truncate(old_len);
            }
            *text = whole;
            end.map(|()| read)
        }
        Err(not_text) => {
            let error = not_text.utf8_error();
            let mut bytes = not_text.into_bytes();
            bytes.truncate(old_len);
            *text = String::from_utf8(bytes).expect("the bytes came from a String");
            end.and(Err(io::Error::new(io::ErrorKind::InvalidData, error)))
        }
    }
}
