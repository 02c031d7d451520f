//! [`AsyncBufReadExt`]: the extension methods of buffered readers.

use super::io_future::IoFuture;
use super::lines::{Lines, Split};
use super::read_until::{FillBuf, ReadLine, ReadUntil};
use crate::io::AsyncBufRead;
use std::pin::Pin;

/// Extension methods for every [`AsyncBufRead`].
///
/// Import this trait to call them.
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use wakeful::io::{AsyncBufReadExt, BufReader};
///
/// let mut lines = BufReader::new(&b"first\nsecond\n"[..]).lines();
/// while let Some(line) = lines.next_line().await? {
///     println!("{line}");
/// }
/// # Ok(())
/// # }
/// ```
pub trait AsyncBufReadExt: AsyncBufRead {
    /// Reads up to and including the next `byte`, or to the end, and appends the bytes to `buf`.
    ///
    /// Returns the number of bytes read; 0 means end of file.
    ///
    /// # Errors
    ///
    /// Returns the reader's error, except `Interrupted`. Bytes read before the error are in `buf`.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe if called again with the same `buf`, which contains the bytes read so far.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::io::AsyncBufReadExt;
    ///
    /// let mut reader = &b"key=value"[..];
    /// let mut key = Vec::new();
    /// assert_eq!(reader.read_until(b'=', &mut key).await?, 4);
    /// assert_eq!(key, b"key=");
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    fn read_until<'a>(&'a mut self, byte: u8, buf: &'a mut Vec<u8>) -> IoFuture<ReadUntil<'a, Self>>
    where
        Self: Unpin,
    {
        IoFuture::new(ReadUntil::new(self, byte, buf))
    }

    /// Reads up to and including the next line feed (`\n`), or to the end, and appends the text to
    /// `buf`.
    ///
    /// Returns the number of bytes read; 0 means end of file.
    ///
    /// # Errors
    ///
    /// Returns `InvalidData` if the bytes are not UTF-8; in this case, `buf` is unchanged and the
    /// bytes are lost. Otherwise returns the reader's error, except `Interrupted`; in this case,
    /// `buf` contains the bytes read before, if they are UTF-8.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe. The bytes that were read and the contents of `buf` are lost. Use
    /// [`lines`](Self::lines), which is cancel safe.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::io::AsyncBufReadExt;
    ///
    /// let mut reader = &b"first\nsecond\n"[..];
    /// let mut line = String::new();
    /// reader.read_line(&mut line).await?;
    /// assert_eq!(line, "first\n");
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    fn read_line<'a>(&'a mut self, buf: &'a mut String) -> IoFuture<ReadLine<'a, Self>>
    where
        Self: Unpin,
    {
        IoFuture::new(ReadLine::new(self, buf))
    }

    /// Splits the data at every `byte` and returns the segments without it.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::io::{AsyncBufReadExt, BufReader};
    ///
    /// let mut cells = BufReader::new(&b"a,bc"[..]).split(b',');
    /// assert_eq!(cells.next_segment().await?, Some(b"a".to_vec()));
    /// assert_eq!(cells.next_segment().await?, Some(b"bc".to_vec()));
    /// assert_eq!(cells.next_segment().await?, None);
    /// # Ok(())
    /// # }
    /// ```
    fn split(self, byte: u8) -> Split<Self>
    where
        Self: Sized + Unpin,
    {
        Split::new(self, byte)
    }

    /// Returns the contents of the buffer, filling it first if it is empty.
    ///
    /// An empty slice means end of file. The same bytes are returned again until
    /// [`consume`](Self::consume) is called.
    ///
    /// # Errors
    ///
    /// Returns the reader's error.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. No bytes are removed from the buffer.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::io::{AsyncBufReadExt, BufReader};
    ///
    /// let mut reader = BufReader::new(&b"hello"[..]);
    /// assert_eq!(reader.fill_buf().await?, b"hello");
    /// reader.consume(2);
    /// assert_eq!(reader.fill_buf().await?, b"llo");
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    fn fill_buf(&mut self) -> IoFuture<FillBuf<'_, Self>>
    where
        Self: Unpin,
    {
        IoFuture::new(FillBuf::new(self))
    }

    /// Removes the first `amt` bytes that [`fill_buf`](Self::fill_buf) returned from the buffer.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::io::{AsyncBufReadExt, BufReader};
    ///
    /// let mut reader = BufReader::new(&b"hello"[..]);
    /// reader.fill_buf().await?;
    /// reader.consume(4);
    /// assert_eq!(reader.buffer(), b"o");
    /// # Ok(())
    /// # }
    /// ```
    fn consume(&mut self, amt: usize)
    where
        Self: Unpin,
    {
        Pin::new(self).consume(amt);
    }

    /// Returns the lines without their line breaks (`\n` or `\r\n`).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::io::AsyncBufReadExt;
    ///
    /// let mut lines = (&b"one\ntwo\r\n"[..]).lines();
    /// assert_eq!(lines.next_line().await?.as_deref(), Some("one"));
    /// assert_eq!(lines.next_line().await?.as_deref(), Some("two"));
    /// assert_eq!(lines.next_line().await?, None);
    /// # Ok(())
    /// # }
    /// ```
    fn lines(self) -> Lines<Self>
    where
        Self: Sized,
    {
        Lines::new(self)
    }
}

impl<R: AsyncBufRead + ?Sized> AsyncBufReadExt for R {}
