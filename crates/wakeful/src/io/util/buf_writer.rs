//! A writer with a buffer in front of it.

use super::{BUFFER_SIZE, retry_interrupted};
use crate::io::{AsyncBufRead, AsyncRead, AsyncSeek, AsyncWrite, ReadBuf, SeekFrom};
use std::fmt;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

pin_project_lite::pin_project! {
    /// Takes small pieces and writes large ones.
    ///
    /// Worth it for many small writes to something where each write costs, a
    /// socket or a file; not for something in memory, and not for few large
    /// writes. A write that is larger than the buffer goes past it once it is
    /// empty.
    ///
    /// What is in the buffer is lost when it is dropped: end with
    /// [`flush`](crate::io::AsyncWriteExt::flush) or
    /// [`shutdown`](crate::io::AsyncWriteExt::shutdown).
    ///
    /// What can be read from or moved to another position can be so through this
    /// as well; a seek writes the buffer out first.
    pub struct BufWriter<W> {
        #[pin]
        pub(super) inner: W,
        pub(super) buf: Vec<u8>,
        // How much of the front of `buf` the writer took already.
        pub(super) written: usize,
        pub(super) seek: Seek,
    }
}

/// ```text
/// diagram
///          start_seek          poll_complete
///   None ────────────► Asked ────────────────► Going ──► None
/// ```
#[derive(Clone, Copy, Debug)]
pub(super) enum Seek {
    None,
    Requested(SeekFrom),
    InProgress,
}

impl<W: AsyncWrite> BufWriter<W> {
    /// With a buffer of 8 KiB.
    pub fn new(inner: W) -> Self {
        Self::with_capacity(BUFFER_SIZE, inner)
    }

    /// With a buffer of `cap` bytes.
    pub fn with_capacity(cap: usize, inner: W) -> Self {
        Self { inner, buf: Vec::with_capacity(cap), written: 0, seek: Seek::None }
    }

    /// The writer.
    pub fn get_ref(&self) -> &W {
        &self.inner
    }

    /// The writer. What is written to it directly comes before what is in the
    /// buffer.
    pub fn get_mut(&mut self) -> &mut W {
        &mut self.inner
    }

    /// The writer, pinned. What is written to it directly comes before what is in
    /// the buffer.
    pub fn get_pin_mut(self: Pin<&mut Self>) -> Pin<&mut W> {
        self.project().inner
    }

    /// The writer back. What is in the buffer is lost.
    pub fn into_inner(self) -> W {
        self.inner
    }

    /// What is in the buffer, without what the writer took in a flush that is not done.
    pub fn buffer(&self) -> &[u8] {
        &self.buf[self.written..]
    }

    /// Writes the buffer out.
    fn poll_flush_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut me = self.project();
        let mut outcome = Ok(());
        while *me.written < me.buf.len() && outcome.is_ok() {
            let rest = &me.buf[*me.written..];
            match ready!(retry_interrupted(|| me.inner.as_mut().poll_write(cx, rest))) {
                Ok(0) => {
                    let what = "failed to write the buffered data";
                    outcome = Err(io::Error::new(io::ErrorKind::WriteZero, what));
                }
                Ok(written) => *me.written += written,
                Err(error) => outcome = Err(error),
            }
        }
        me.buf.drain(..*me.written);
        *me.written = 0;
        Poll::Ready(outcome)
    }

    /// Writes the buffer out unless there is room for `len` more.
    fn poll_reserve(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        len: usize,
    ) -> Poll<io::Result<()>> {
        if len <= self.buf.capacity() - self.buf.len() {
            return Poll::Ready(Ok(()));
        }
        self.poll_flush_buf(cx)
    }

    /// From several slices to a writer that can take several.
    fn poll_write_gathered(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let len = bufs.iter().fold(0, |len: usize, buf| len.saturating_add(buf.len()));
        ready!(self.as_mut().poll_reserve(cx, len))?;
        let me = self.project();
        if len >= me.buf.capacity() {
            return me.inner.poll_write_vectored(cx, bufs);
        }
        bufs.iter().for_each(|buf| me.buf.extend_from_slice(buf));
        Poll::Ready(Ok(len))
    }

    /// From several slices to a writer that takes one at a time: as many as there
    /// is room for.
    fn poll_write_buffered(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut bufs = bufs.iter().skip_while(|buf| buf.is_empty());
        let Some(first) = bufs.next() else { return Poll::Ready(Ok(0)) };
        ready!(self.as_mut().poll_reserve(cx, first.len()))?;
        let me = self.project();
        if first.len() >= me.buf.capacity() {
            return me.inner.poll_write(cx, first);
        }
        me.buf.extend_from_slice(first);
        let mut taken = first.len();
        for buf in bufs {
            if buf.len() > me.buf.capacity() - me.buf.len() {
                break;
            }
            me.buf.extend_from_slice(buf);
            taken += buf.len();
        }
        Poll::Ready(Ok(taken))
    }
}

impl<W: AsyncWrite> AsyncWrite for BufWriter<W> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.as_mut().poll_reserve(cx, buf.len()))?;
        let me = self.project();
        if buf.len() >= me.buf.capacity() {
            return me.inner.poll_write(cx, buf);
        }
        me.buf.extend_from_slice(buf);
        Poll::Ready(Ok(buf.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.as_mut().poll_flush_buf(cx))?;
        self.get_pin_mut().poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.as_mut().poll_flush_buf(cx))?;
        self.get_pin_mut().poll_shutdown(cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.inner.is_write_vectored() {
            self.poll_write_gathered(cx, bufs)
        } else {
            self.poll_write_buffered(cx, bufs)
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }
}

/// Every seek writes the buffer out first.
impl<W: AsyncWrite + AsyncSeek> AsyncSeek for BufWriter<W> {
    fn start_seek(self: Pin<&mut Self>, position: SeekFrom) -> io::Result<()> {
        // Waits for `poll_complete`: writing the buffer out may have to wait.
        *self.project().seek = Seek::Requested(position);
        Ok(())
    }

    fn poll_complete(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<u64>> {
        let position = match self.seek {
            Seek::None => return self.get_pin_mut().poll_complete(cx),
            Seek::Requested(position) => Some(position),
            Seek::InProgress => None,
        };
        ready!(self.as_mut().poll_flush_buf(cx))?;
        let mut me = self.project();
        if let Some(position) = position {
            // An earlier one may be under way.
            ready!(me.inner.as_mut().poll_complete(cx))?;
            *me.seek = Seek::None;
            me.inner.as_mut().start_seek(position)?;
            *me.seek = Seek::InProgress;
        }
        let position = ready!(me.inner.poll_complete(cx));
        *me.seek = Seek::None;
        Poll::Ready(position)
    }
}

impl<W: AsyncWrite + AsyncRead> AsyncRead for BufWriter<W> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.get_pin_mut().poll_read(cx, buf)
    }
}

impl<W: AsyncWrite + AsyncBufRead> AsyncBufRead for BufWriter<W> {
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        self.get_pin_mut().poll_fill_buf(cx)
    }

    fn consume(self: Pin<&mut Self>, amt: usize) {
        self.get_pin_mut().consume(amt);
    }
}

impl<W: fmt::Debug> fmt::Debug for BufWriter<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BufWriter")
            .field("writer", &self.inner)
            .field("buffer", &format_args!("{}/{}", self.buf.len(), self.buf.capacity()))
            .field("written", &self.written)
            .finish()
    }
}
