//! [`BufStream`], which adds a buffer for each direction to a stream.

use super::{BUFFER_SIZE, buf_reader, buf_writer};
use super::{BufReader, BufWriter};
use crate::io::{AsyncBufRead, AsyncRead, AsyncSeek, AsyncWrite, ReadBuf, SeekFrom};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

pin_project_lite::pin_project! {
    /// Adds a read buffer and a write buffer to a stream.
    ///
    /// A [`BufReader`] and a [`BufWriter`] around one stream. Buffered bytes are lost when the
    /// `BufStream` is dropped, so finish with [`flush`](crate::io::AsyncWriteExt::flush) or
    /// [`shutdown`](crate::io::AsyncWriteExt::shutdown).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::io::{AsyncBufReadExt, AsyncWriteExt, BufStream, duplex};
    ///
    /// let (mut client, server) = duplex(64);
    /// client.write_all(b"ping\n").await?;
    ///
    /// let mut server = BufStream::new(server);
    /// let mut line = String::new();
    /// server.read_line(&mut line).await?;
    /// server.write_all(b"pong\n").await?;
    /// server.flush().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[derive(Debug)]
    pub struct BufStream<RW> {
        #[pin]
        inner: BufReader<BufWriter<RW>>,
    }
}

impl<RW: AsyncRead + AsyncWrite> BufStream<RW> {
    /// Creates a `BufStream` with buffers of 8 KiB.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::io::{AsyncBufReadExt, AsyncWriteExt, BufStream, duplex};
    ///
    /// let (client, server) = duplex(64);
    /// let (mut client, mut server) = (BufStream::new(client), BufStream::new(server));
    /// client.write_all(b"hello\n").await?;
    /// client.flush().await?;
    /// let mut line = String::new();
    /// server.read_line(&mut line).await?;
    /// assert_eq!(line, "hello\n");
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(stream: RW) -> BufStream<RW> {
        Self::with_capacity(BUFFER_SIZE, BUFFER_SIZE, stream)
    }

    /// Creates a `BufStream` with buffers of the given sizes.
    ///
    /// # Panics
    ///
    /// Panics if `reader_capacity` is 0.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::io::{AsyncBufReadExt, AsyncWriteExt, BufStream, duplex};
    ///
    /// let (client, mut server) = duplex(64);
    /// let mut client = BufStream::with_capacity(4, 4, client);
    /// server.write_all(b"hello").await?;
    /// assert_eq!(client.fill_buf().await?, b"hell");
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn with_capacity(
        reader_capacity: usize,
        writer_capacity: usize,
        stream: RW,
    ) -> BufStream<RW> {
        let writer = BufWriter::with_capacity(writer_capacity, stream);
        BufStream { inner: BufReader::with_capacity(reader_capacity, writer) }
    }

    /// Returns a reference to the inner stream.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io::Cursor;
    /// use wakeful::io::BufStream;
    ///
    /// let stream = BufStream::new(Cursor::new(vec![1, 2, 3]));
    /// assert_eq!(stream.get_ref().get_ref().len(), 3);
    /// ```
    pub fn get_ref(&self) -> &RW {
        self.inner.get_ref().get_ref()
    }

    /// Returns a mutable reference to the inner stream.
    ///
    /// Direct access bypasses the buffers.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io::Cursor;
    /// use wakeful::io::BufStream;
    ///
    /// let mut stream = BufStream::new(Cursor::new(vec![1, 2, 3]));
    /// stream.get_mut().set_position(2);
    /// assert_eq!(stream.get_ref().position(), 2);
    /// ```
    pub fn get_mut(&mut self) -> &mut RW {
        self.inner.get_mut().get_mut()
    }

    /// Returns a pinned reference to the inner stream.
    ///
    /// Direct access bypasses the buffers.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io::Cursor;
    /// use std::pin::pin;
    /// use wakeful::io::BufStream;
    ///
    /// let mut stream = pin!(BufStream::new(Cursor::new(vec![1, 2, 3])));
    /// stream.as_mut().get_pin_mut().set_position(2);
    /// assert_eq!(stream.get_ref().position(), 2);
    /// ```
    pub fn get_pin_mut(self: Pin<&mut Self>) -> Pin<&mut RW> {
        self.project().inner.get_pin_mut().get_pin_mut()
    }

    /// Returns the inner stream.
    ///
    /// Buffered bytes are lost. Call [`flush`](crate::io::AsyncWriteExt::flush) first to write the
    /// contents of the write buffer.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use std::io::Cursor;
    /// use wakeful::io::{AsyncWriteExt, BufStream};
    ///
    /// let mut stream = BufStream::new(Cursor::new(Vec::new()));
    /// stream.write_all(b"hello").await?;
    /// stream.flush().await?;
    /// assert_eq!(stream.into_inner().into_inner(), b"hello");
    /// # Ok(())
    /// # }
    /// ```
    pub fn into_inner(self) -> RW {
        self.inner.into_inner().into_inner()
    }
}

impl<RW> From<BufReader<BufWriter<RW>>> for BufStream<RW> {
    fn from(inner: BufReader<BufWriter<RW>>) -> Self {
        BufStream { inner }
    }
}

/// Keeps the contents of both buffers. A seek that was started is lost.
impl<RW> From<BufWriter<BufReader<RW>>> for BufStream<RW> {
    fn from(outside_in: BufWriter<BufReader<RW>>) -> Self {
        let BufWriter { inner: reader, buf: to_write, written, seek: _ } = outside_in;
        let BufReader { inner: stream, buf, start, end, seek: _ } = reader;
        let writer =
            BufWriter { inner: stream, buf: to_write, written, seek: buf_writer::Seek::None };
        let seek = buf_reader::Seek::None;
        BufStream { inner: BufReader { inner: writer, buf, start, end, seek } }
    }
}

impl<RW: AsyncRead + AsyncWrite> AsyncWrite for BufStream<RW> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.project().inner.poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.project().inner.poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.project().inner.poll_shutdown(cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.project().inner.poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

impl<RW: AsyncRead + AsyncWrite> AsyncRead for BufStream<RW> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.project().inner.poll_read(cx, buf)
    }
}

/// Every seek flushes the write buffer and discards the read buffer, even if the target lies inside
/// it. `SeekFrom::Current` counts from the next unread byte, not from the position of the inner
/// stream.
impl<RW: AsyncRead + AsyncWrite + AsyncSeek> AsyncSeek for BufStream<RW> {
    fn start_seek(self: Pin<&mut Self>, position: SeekFrom) -> io::Result<()> {
        self.project().inner.start_seek(position)
    }

    fn poll_complete(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<u64>> {
        self.project().inner.poll_complete(cx)
    }
}

impl<RW: AsyncRead + AsyncWrite> AsyncBufRead for BufStream<RW> {
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        self.project().inner.poll_fill_buf(cx)
    }

    fn consume(self: Pin<&mut Self>, amt: usize) {
        self.project().inner.consume(amt);
    }
}
