//! Reading everything there is: `read_to_end`, `read_to_string`; and how a read
//! of text ends, for `read_line` too.
#![allow(unsafe_code)]

use super::io_future::IoOp;
use super::retry_interrupted;
use crate::io::{AsyncRead, ReadBuf};
use std::io;
use std::mem::{self, MaybeUninit};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// The least room there must be for a read.
const MIN_SPARE: usize = 32;

/// How a vector grows while a reader is read to its end.
///
/// Rules:
/// - G1. The first `spare` bytes behind the vector's length hold values. Nobody
///   else has the vector meanwhile.
#[derive(Debug)]
struct Growth {
    /// The vector's capacity before anything was read.
    initial_capacity: usize,
    /// How much of the room behind the vector's end holds values already, so that
    /// readers who want that need not clear it twice (G1).
    initialized_spare: usize,
}

impl Growth {
    fn for_vec(vec: &Vec<u8>) -> Self {
        Self { initial_capacity: vec.capacity(), initialized_spare: 0 }
    }

    /// Reads some more to the end of `vec`; 0 says that there is no more.
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
            // Grows to twice the size, so that all growth together costs no more
            // than the data does.
            vec.reserve(MIN_SPARE);
            self.initialized_spare = 0;
        }
        let mut buf = ReadBuf::uninit(vec.spare_capacity_mut());
        // SAFETY: G1.
        unsafe { buf.assume_init(self.initialized_spare) };
        let start = buf.filled().as_ptr();
        let polled = reader.poll_read(cx, &mut buf);
        assert_eq!(start, buf.filled().as_ptr(), "the reader put another buffer in its place");
        let (read, initialized) = match polled {
            Poll::Ready(Ok(())) => (buf.filled().len(), buf.initialized().len()),
            _ => (0, buf.initialized().len()),
        };
        // SAFETY: the first `read` bytes behind the end are filled.
        unsafe { vec.set_len(vec.len() + read) };
        self.initialized_spare = initialized - read;
        polled.map_ok(|()| read)
    }

    /// Whether the caller may have given a vector of just the right size.
    fn may_be_exact_fit(&self, vec: &Vec<u8>) -> bool {
        vec.capacity() == self.initial_capacity && self.initial_capacity >= MIN_SPARE
    }

    /// Looks whether there is more before growing for it.
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

    /// Reads until there is no more.
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

/// Everything, as bytes.
#[derive(Debug)]
pub struct ReadToEnd<'a, R: ?Sized> {
    reader: &'a mut R,
    vec: &'a mut Vec<u8>,
    growth: Growth,
    /// The length of `vec` before.
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
}

/// Everything, as text.
#[derive(Debug)]
pub struct ReadToString<'a, R: ?Sized> {
    reader: &'a mut R,
    text: &'a mut String,
    /// What was in `text`, and what is new.
    bytes: Vec<u8>,
    growth: Growth,
    /// The length of `text` before.
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
}

/// What happens to text that was read before an error came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnError {
    /// It is dropped.
    Drop,
    /// It is kept with the rest.
    Keep,
}

/// The end of a read of text. `bytes` are the `old_len` bytes that were in `text`
/// before, and what came to them; `text` gets them all if they are text, and
/// otherwise what it had before.
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
            *text = String::from_utf8(bytes).expect("it came out of a String");
            end.and(Err(io::Error::new(io::ErrorKind::InvalidData, error)))
        }
    }
}
