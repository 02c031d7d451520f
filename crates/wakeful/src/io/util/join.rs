//! [`join`], which combines a reader and a writer into one stream.

use crate::io::{AsyncBufRead, AsyncRead, AsyncWrite, ReadBuf};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

/// Combines a reader and a writer into one stream.
///
/// Use it for functions that need one type that is both. The opposite of [`split`](super::split()).
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use wakeful::io::{self, AsyncReadExt, AsyncWriteExt};
///
/// let mut stream = io::join(&b"input"[..], Vec::new());
/// let mut text = String::new();
/// stream.read_to_string(&mut text).await?;
/// stream.write_all(b"output").await?;
/// assert_eq!((text.as_str(), stream.writer().as_slice()), ("input", &b"output"[..]));
/// # Ok(())
/// # }
/// ```
pub fn join<R, W>(reader: R, writer: W) -> Join<R, W>
where
    R: AsyncRead,
    W: AsyncWrite,
{
    Join { reader, writer }
}

pin_project_lite::pin_project! {
    /// A reader and a writer as one stream, created by [`join`](crate::io::join()).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::io::{AsyncReadExt, AsyncWriteExt, join};
    ///
    /// let mut stream = join(&b"question"[..], Vec::new());
    /// let mut text = String::new();
    /// stream.read_to_string(&mut text).await?;
    /// stream.write_all(b"answer").await?;
    /// assert_eq!(text, "question");
    /// assert_eq!(stream.writer(), b"answer");
    /// # Ok(())
    /// # }
    /// ```
    #[derive(Debug)]
    pub struct Join<R, W> {
        #[pin]
        reader: R,
        #[pin]
        writer: W,
    }
}

impl<R, W> Join<R, W>
where
    R: AsyncRead,
    W: AsyncWrite,
{
    /// Returns the reader and the writer.
    ///
    /// # Examples
    ///
    /// ```
    /// let stream = wakeful::io::join(&b"in"[..], b"out".to_vec());
    /// let (reader, writer) = stream.into_inner();
    /// assert_eq!((reader, &*writer), (&b"in"[..], &b"out"[..]));
    /// ```
    pub fn into_inner(self) -> (R, W) {
        (self.reader, self.writer)
    }

    /// Returns a reference to the reader.
    ///
    /// # Examples
    ///
    /// ```
    /// let stream = wakeful::io::join(&b"in"[..], Vec::<u8>::new());
    /// assert_eq!(*stream.reader(), b"in");
    /// ```
    pub fn reader(&self) -> &R {
        &self.reader
    }

    /// Returns a reference to the writer.
    ///
    /// # Examples
    ///
    /// ```
    /// let stream = wakeful::io::join(&b"in"[..], b"out".to_vec());
    /// assert_eq!(stream.writer(), b"out");
    /// ```
    pub fn writer(&self) -> &W {
        &self.writer
    }

    /// Returns a mutable reference to the reader.
    ///
    /// # Examples
    ///
    /// ```
    /// let mut stream = wakeful::io::join(&b"in"[..], Vec::<u8>::new());
    /// *stream.reader_mut() = b"other";
    /// assert_eq!(*stream.reader(), b"other");
    /// ```
    pub fn reader_mut(&mut self) -> &mut R {
        &mut self.reader
    }

    /// Returns a mutable reference to the writer.
    ///
    /// # Examples
    ///
    /// ```
    /// let mut stream = wakeful::io::join(&b"in"[..], b"out".to_vec());
    /// stream.writer_mut().clear();
    /// assert!(stream.writer().is_empty());
    /// ```
    pub fn writer_mut(&mut self) -> &mut W {
        &mut self.writer
    }

    /// Returns a pinned reference to the reader.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::pin::pin;
    ///
    /// let mut stream = pin!(wakeful::io::join(&b"in"[..], Vec::<u8>::new()));
    /// stream.as_mut().reader_pin_mut().set(b"other");
    /// assert_eq!(*stream.reader(), b"other");
    /// ```
    pub fn reader_pin_mut(self: Pin<&mut Self>) -> Pin<&mut R> {
        self.project().reader
    }

    /// Returns a pinned reference to the writer.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::pin::pin;
    ///
    /// let mut stream = pin!(wakeful::io::join(&b"in"[..], b"out".to_vec()));
    /// stream.as_mut().writer_pin_mut().clear();
    /// assert!(stream.writer().is_empty());
    /// ```
    pub fn writer_pin_mut(self: Pin<&mut Self>) -> Pin<&mut W> {
        self.project().writer
    }
}

impl<R, W> AsyncRead for Join<R, W>
where
    R: AsyncRead,
{
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.project().reader.poll_read(cx, buf)
    }
}

impl<R, W> AsyncWrite for Join<R, W>
where
    W: AsyncWrite,
{
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.project().writer.poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.project().writer.poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.project().writer.poll_shutdown(cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.project().writer.poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.writer.is_write_vectored()
    }
}

impl<R, W> AsyncBufRead for Join<R, W>
where
    R: AsyncBufRead,
{
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        self.project().reader.poll_fill_buf(cx)
    }

    fn consume(self: Pin<&mut Self>, amt: usize) {
        self.project().reader.consume(amt);
    }
}
