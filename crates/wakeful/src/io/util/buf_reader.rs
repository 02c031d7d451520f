//! A reader with a buffer in front of it.

use super::BUFFER_SIZE;
use crate::io::{AsyncBufRead, AsyncRead, AsyncSeek, AsyncWrite, ReadBuf, SeekFrom};
use std::fmt;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

pin_project_lite::pin_project! {
    /// Reads in large pieces and hands out small ones.
    ///
    /// Worth it for many small reads from something where each read costs, a
    /// socket or a file; not for something in memory, and not for few large
    /// reads. With it, any reader is [`AsyncBufRead`] and has lines. A read that
    /// asks for more than the buffer holds goes past it if it is empty.
    ///
    /// What is in the buffer is lost when it is dropped, or with
    /// [`into_inner`](Self::into_inner).
    ///
    /// What can be written to or moved to another position can be so through this
    /// as well. A write goes straight through.
    pub struct BufReader<R> {
        #[pin]
        pub(super) inner: R,
        pub(super) buf: Box<[u8]>,
        // What is in `buf` and was not handed out yet: from `start` to `end`.
        pub(super) start: usize,
        pub(super) end: usize,
        pub(super) seek: Seek,
    }
}

/// ```text
/// diagram
///          start_seek              poll_complete
///   None ────────────► Asked ────────────────────────► Going ──► None
///                        └──► GoingBack: to a place from which it is not too far
///                                 └────────────────────► Going
/// ```
#[derive(Clone, Copy, Debug)]
pub(super) enum Seek {
    None,
    Requested(SeekFrom),
    /// To where the next byte of the buffer comes from; then so far on.
    Rewinding(i64),
    InProgress,
}

impl<R: AsyncRead> BufReader<R> {
    /// With a buffer of 8 KiB.
    pub fn new(inner: R) -> Self {
        Self::with_capacity(BUFFER_SIZE, inner)
    }

    /// With a buffer of `capacity` bytes.
    ///
    /// # Panics
    ///
    /// If that is 0: nothing could ever be read.
    #[track_caller]
    pub fn with_capacity(capacity: usize, inner: R) -> Self {
        assert!(capacity > 0, "capacity must be greater than zero");
        let buf = vec![0; capacity].into_boxed_slice();
        Self { inner, buf, start: 0, end: 0, seek: Seek::None }
    }

    /// The reader.
    pub fn get_ref(&self) -> &R {
        &self.inner
    }

    /// The reader. What is read from it directly comes after what is in the
    /// buffer.
    pub fn get_mut(&mut self) -> &mut R {
        &mut self.inner
    }

    /// The reader, pinned. What is read from it directly comes after what is in
    /// the buffer.
    pub fn get_pin_mut(self: Pin<&mut Self>) -> Pin<&mut R> {
        self.project().inner
    }

    /// The reader back. What is in the buffer is lost.
    pub fn into_inner(self) -> R {
        self.inner
    }

    /// What is in the buffer. Unlike
    /// [`fill_buf`](crate::io::AsyncBufReadExt::fill_buf), this never fills it.
    pub fn buffer(&self) -> &[u8] {
        &self.buf[self.start..self.end]
    }
}

impl<R: AsyncRead> AsyncRead for BufReader<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.start == self.end && buf.remaining() >= self.buf.len() {
            return self.project().inner.poll_read(cx, buf);
        }
        let available = ready!(self.as_mut().poll_fill_buf(cx))?;
        let taken = available.len().min(buf.remaining());
        buf.put_slice(&available[..taken]);
        self.consume(taken);
        Poll::Ready(Ok(()))
    }
}

impl<R: AsyncRead> AsyncBufRead for BufReader<R> {
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        let me = self.project();
        if *me.start == *me.end {
            let mut buf = ReadBuf::new(me.buf);
            ready!(me.inner.poll_read(cx, &mut buf))?;
            *me.end = buf.filled().len();
            *me.start = 0;
        }
        Poll::Ready(Ok(&me.buf[*me.start..*me.end]))
    }

    fn consume(self: Pin<&mut Self>, amt: usize) {
        let me = self.project();
        *me.start = me.start.saturating_add(amt).min(*me.end);
    }
}

/// Every seek empties the buffer, also one to a place within it, so that the
/// reader itself is at the new position afterwards. `SeekFrom::Current` counts
/// from the next byte that would be read from this, not from the reader.
///
/// If that is further away than an `i64` can say, two seeks are made; should the
/// second fail, the reader stands where the next byte would have come from.
impl<R: AsyncRead + AsyncSeek> AsyncSeek for BufReader<R> {
    fn start_seek(self: Pin<&mut Self>, position: SeekFrom) -> io::Result<()> {
        // Waits for `poll_complete`: it may take two, and only that can wait.
        *self.project().seek = Seek::Requested(position);
        Ok(())
    }

    fn poll_complete(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<u64>> {
        let mut me = self.project();
        loop {
            // What fails is over.
            match std::mem::replace(me.seek, Seek::None) {
                Seek::None => return me.inner.poll_complete(cx),
                Seek::Requested(SeekFrom::Current(offset)) => {
                    let unread = (*me.end - *me.start) as i64;
                    let (target, next) = match offset.checked_sub(unread) {
                        Some(offset) => (offset, Seek::InProgress),
                        None => (-unread, Seek::Rewinding(offset)),
                    };
                    me.inner.as_mut().start_seek(SeekFrom::Current(target))?;
                    *me.seek = next;
                }
                Seek::Requested(position) => {
                    me.inner.as_mut().start_seek(position)?;
                    *me.seek = Seek::InProgress;
                }
                Seek::Rewinding(offset) => {
                    let Poll::Ready(rewound) = me.inner.as_mut().poll_complete(cx) else {
                        *me.seek = Seek::Rewinding(offset);
                        return Poll::Pending;
                    };
                    rewound?;
                    (*me.start, *me.end) = (0, 0);
                    me.inner.as_mut().start_seek(SeekFrom::Current(offset))?;
                    *me.seek = Seek::InProgress;
                }
                Seek::InProgress => {
                    let Poll::Ready(position) = me.inner.as_mut().poll_complete(cx) else {
                        *me.seek = Seek::InProgress;
                        return Poll::Pending;
                    };
                    if position.is_ok() {
                        (*me.start, *me.end) = (0, 0);
                    }
                    return Poll::Ready(position);
                }
            }
        }
    }
}

impl<R: AsyncRead + AsyncWrite> AsyncWrite for BufReader<R> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.get_pin_mut().poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_pin_mut().poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_pin_mut().poll_shutdown(cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.get_pin_mut().poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

impl<R: fmt::Debug> fmt::Debug for BufReader<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fill = format_args!("{}/{}", self.end - self.start, self.buf.len());
        f.debug_struct("BufReader").field("reader", &self.inner).field("buffer", &fill).finish()
    }
}
