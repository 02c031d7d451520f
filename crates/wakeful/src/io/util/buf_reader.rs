//! [`BufReader`], which adds a buffer to a reader.

use super::BUFFER_SIZE;
use crate::io::{AsyncBufRead, AsyncRead, AsyncSeek, AsyncWrite, ReadBuf, SeekFrom};
use std::fmt;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

pin_project_lite::pin_project! {
    /// Adds a buffer to a reader.
    ///
    /// Use a `BufReader` for many small reads from a socket or a file, and to read lines. It does
    /// not help with in-memory readers or a few large reads. If the buffer is empty, a read of at
    /// least the buffer's size bypasses it.
    ///
    /// Buffered bytes are lost when the `BufReader` is dropped, and with
    /// [`into_inner`](Self::into_inner).
    ///
    /// The `BufReader` is also [`AsyncWrite`] or [`AsyncSeek`] if the reader is. Writes are not
    /// buffered.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, duplex};
    ///
    /// let (mut client, server) = duplex(64);
    /// client.write_all(b"first\nsecond\n").await?;
    ///
    /// let mut lines = BufReader::new(server).lines();
    /// assert_eq!(lines.next_line().await?.as_deref(), Some("first"));
    /// # Ok(())
    /// # }
    /// ```
    pub struct BufReader<R> {
        #[pin]
        pub(super) inner: R,
        pub(super) buf: Box<[u8]>,
        // The unread bytes are `buf[start..end]`.
        pub(super) start: usize,
        pub(super) end: usize,
        pub(super) seek: Seek,
    }
}

/// The state of a seek.
///
/// ```text
/// diagram
///         start_seek()           poll_complete()
///   None ─────────────► Requested ────────────────► InProgress ──► None
///                           └──► Rewinding ────────────► InProgress
/// ```
#[derive(Clone, Copy, Debug)]
pub(super) enum Seek {
    None,
    Requested(SeekFrom),
    /// The inner reader seeks back over the unread bytes, and then by this offset.
    Rewinding(i64),
    InProgress,
}

impl<R: AsyncRead> BufReader<R> {
    /// Creates a `BufReader` with a buffer of 8 KiB.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::io::{AsyncBufReadExt, BufReader};
    ///
    /// let mut reader = BufReader::new(&b"one\ntwo\n"[..]);
    /// let mut line = String::new();
    /// reader.read_line(&mut line).await?;
    /// assert_eq!(line, "one\n");
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(inner: R) -> Self {
        Self::with_capacity(BUFFER_SIZE, inner)
    }

    /// Creates a `BufReader` with a buffer of `capacity` bytes.
    ///
    /// # Panics
    ///
    /// Panics if `capacity` is 0.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::io::BufReader;
    ///
    /// let reader = BufReader::with_capacity(64 * 1024, &b"hello"[..]);
    /// assert!(reader.buffer().is_empty());
    /// ```
    #[track_caller]
    pub fn with_capacity(capacity: usize, inner: R) -> Self {
        assert!(capacity > 0, "capacity must be greater than zero");
        let buf = vec![0; capacity].into_boxed_slice();
        Self { inner, buf, start: 0, end: 0, seek: Seek::None }
    }

    /// Returns a reference to the inner reader.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::io::BufReader;
    ///
    /// let reader = BufReader::new(&b"hello"[..]);
    /// assert_eq!(reader.get_ref().len(), 5);
    /// ```
    pub fn get_ref(&self) -> &R {
        &self.inner
    }

    /// Returns a mutable reference to the inner reader.
    ///
    /// Reading from it directly skips the buffered bytes.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io::Cursor;
    /// use wakeful::io::BufReader;
    ///
    /// let mut reader = BufReader::new(Cursor::new(b"hello"));
    /// reader.get_mut().set_position(2);
    /// assert_eq!(reader.get_ref().position(), 2);
    /// ```
    pub fn get_mut(&mut self) -> &mut R {
        &mut self.inner
    }

    /// Returns a pinned reference to the inner reader.
    ///
    /// Reading from it directly skips the buffered bytes.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io::Cursor;
    /// use std::pin::pin;
    /// use wakeful::io::BufReader;
    ///
    /// let mut reader = pin!(BufReader::new(Cursor::new(b"hello")));
    /// reader.as_mut().get_pin_mut().set_position(2);
    /// assert_eq!(reader.get_ref().position(), 2);
    /// ```
    pub fn get_pin_mut(self: Pin<&mut Self>) -> Pin<&mut R> {
        self.project().inner
    }

    /// Returns the inner reader.
    ///
    /// Bytes in the [`buffer`](Self::buffer) are lost.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::io::{AsyncBufReadExt, BufReader};
    ///
    /// let mut reader = BufReader::new(&b"one\ntwo\n"[..]);
    /// reader.read_line(&mut String::new()).await?;
    /// let rest = reader.buffer().to_vec();
    /// assert_eq!(rest, b"two\n");
    /// assert_eq!(reader.into_inner(), b""); // all of it was buffered
    /// # Ok(())
    /// # }
    /// ```
    pub fn into_inner(self) -> R {
        self.inner
    }

    /// Returns the buffered bytes.
    ///
    /// Unlike [`fill_buf`](crate::io::AsyncBufReadExt::fill_buf), this never fills the buffer.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::io::{AsyncBufReadExt, BufReader};
    ///
    /// let mut reader = BufReader::new(&b"hello"[..]);
    /// assert!(reader.buffer().is_empty());
    /// reader.fill_buf().await?;
    /// assert_eq!(reader.buffer(), b"hello");
    /// # Ok(())
    /// # }
    /// ```
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

/// Every seek discards the buffer, even if the target lies inside it. So the inner reader is at the
/// new position afterwards. `SeekFrom::Current` counts from the next unread byte, not from the
/// position of the inner reader.
///
/// If the offset from the inner reader's position does not fit into an `i64`, two seeks are made.
/// If the second fails, the inner reader is at the next unread byte.
impl<R: AsyncRead + AsyncSeek> AsyncSeek for BufReader<R> {
    fn start_seek(self: Pin<&mut Self>, position: SeekFrom) -> io::Result<()> {
        // Started in `poll_complete`: it may take two seeks, and only that method can wait.
        *self.project().seek = Seek::Requested(position);
        Ok(())
    }

    fn poll_complete(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<u64>> {
        let mut me = self.project();
        loop {
            // A failed seek is finished.
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
