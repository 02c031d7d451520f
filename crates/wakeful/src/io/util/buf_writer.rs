//! [`BufWriter`], which adds a buffer to a writer.

use super::{BUFFER_SIZE, retry_interrupted};
use crate::io::{AsyncBufRead, AsyncRead, AsyncSeek, AsyncWrite, ReadBuf, SeekFrom};
use std::fmt;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

pin_project_lite::pin_project! {
    /// Adds a buffer to a writer.
    ///
    /// Use a `BufWriter` for many small writes to a socket or a file. It does not help with
    /// in-memory writers or a few large writes. If the buffer is empty, a write of at least the
    /// buffer's size bypasses it.
    ///
    /// Buffered bytes are lost when the `BufWriter` is dropped. So finish with
    /// [`flush`](crate::io::AsyncWriteExt::flush) or
    /// [`shutdown`](crate::io::AsyncWriteExt::shutdown).
    ///
    /// The `BufWriter` is also [`AsyncRead`] or [`AsyncSeek`] if the writer is. A seek flushes the
    /// buffer first.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::io::{AsyncWriteExt, BufWriter};
    ///
    /// let mut writer = BufWriter::new(Vec::new());
    /// for n in 0..3 {
    ///     writer.write_u8(n).await?; // goes to the buffer
    /// }
    /// writer.flush().await?; // one write
    /// assert_eq!(writer.into_inner(), [0, 1, 2]);
    /// # Ok(())
    /// # }
    /// ```
    pub struct BufWriter<W> {
        #[pin]
        pub(super) inner: W,
        pub(super) buf: Vec<u8>,
        // The inner writer has accepted `buf[..written]`.
        pub(super) written: usize,
        pub(super) seek: Seek,
    }
}

/// The state of a seek.
///
/// ```text
/// diagram
///         start_seek()           poll_complete()
///   None ─────────────► Requested ────────────────► InProgress ──► None
/// ```
#[derive(Clone, Copy, Debug)]
pub(super) enum Seek {
    None,
    Requested(SeekFrom),
    InProgress,
}

impl<W: AsyncWrite> BufWriter<W> {
    /// Creates a `BufWriter` with a buffer of 8 KiB.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::io::{AsyncWriteExt, BufWriter};
    ///
    /// let mut writer = BufWriter::new(Vec::new());
    /// for word in ["a", "b", "c"] {
    ///     writer.write_all(word.as_bytes()).await?;
    /// }
    /// assert_eq!(writer.get_ref(), b"");
    /// writer.flush().await?; // one write
    /// assert_eq!(writer.get_ref(), b"abc");
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(inner: W) -> Self {
        Self::with_capacity(BUFFER_SIZE, inner)
    }

    /// Creates a `BufWriter` with a buffer of `cap` bytes.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::io::{AsyncWriteExt, BufWriter};
    ///
    /// let mut writer = BufWriter::with_capacity(64 * 1024, Vec::new());
    /// writer.write_all(b"hello").await?;
    /// assert_eq!(writer.buffer(), b"hello");
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_capacity(cap: usize, inner: W) -> Self {
        Self { inner, buf: Vec::with_capacity(cap), written: 0, seek: Seek::None }
    }

    /// Returns a reference to the inner writer.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::io::BufWriter;
    ///
    /// let writer = BufWriter::new(vec![1, 2, 3]);
    /// assert_eq!(writer.get_ref(), &[1, 2, 3]);
    /// ```
    pub fn get_ref(&self) -> &W {
        &self.inner
    }

    /// Returns a mutable reference to the inner writer.
    ///
    /// Bytes written to it directly overtake the buffered bytes.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::io::BufWriter;
    ///
    /// let mut writer = BufWriter::new(vec![1, 2, 3]);
    /// writer.get_mut().clear();
    /// assert!(writer.get_ref().is_empty());
    /// ```
    pub fn get_mut(&mut self) -> &mut W {
        &mut self.inner
    }

    /// Returns a pinned reference to the inner writer.
    ///
    /// Bytes written to it directly overtake the buffered bytes.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::pin::pin;
    /// use wakeful::io::BufWriter;
    ///
    /// let mut writer = pin!(BufWriter::new(vec![1, 2, 3]));
    /// writer.as_mut().get_pin_mut().clear();
    /// assert!(writer.get_ref().is_empty());
    /// ```
    pub fn get_pin_mut(self: Pin<&mut Self>) -> Pin<&mut W> {
        self.project().inner
    }

    /// Returns the inner writer.
    ///
    /// Buffered bytes are lost. Call [`flush`](crate::io::AsyncWriteExt::flush) first to write
    /// them.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::io::{AsyncWriteExt, BufWriter};
    ///
    /// let mut writer = BufWriter::new(Vec::new());
    /// writer.write_all(b"hello").await?;
    /// writer.flush().await?;
    /// assert_eq!(writer.into_inner(), b"hello");
    /// # Ok(())
    /// # }
    /// ```
    pub fn into_inner(self) -> W {
        self.inner
    }

    /// Returns the buffered bytes that the inner writer has not accepted yet.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::io::{AsyncWriteExt, BufWriter};
    ///
    /// let mut writer = BufWriter::new(Vec::new());
    /// writer.write_all(b"hello").await?;
    /// assert_eq!(writer.buffer(), b"hello");
    /// writer.flush().await?;
    /// assert_eq!(writer.buffer(), b"");
    /// # Ok(())
    /// # }
    /// ```
    pub fn buffer(&self) -> &[u8] {
        &self.buf[self.written..]
    }

    /// Writes the buffer to the inner writer.
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

    /// Writes the buffer to the inner writer, unless the buffer has space for `len` more bytes.
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

    /// Writes several slices to an inner writer that supports vectored writes.
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

    /// Writes several slices to an inner writer without vectored writes, as many as fit into the
    /// buffer.
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

/// Every seek flushes the buffer first.
impl<W: AsyncWrite + AsyncSeek> AsyncSeek for BufWriter<W> {
    fn start_seek(self: Pin<&mut Self>, position: SeekFrom) -> io::Result<()> {
        // Started in `poll_complete`: flushing the buffer may have to wait.
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
            // An earlier seek may be in progress.
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
