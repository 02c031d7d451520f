//! What everybody can do with a reader that has a buffer.

use super::io_future::IoFuture;
use super::lines::{Lines, Split};
use super::read_until::{FillBuf, ReadLine, ReadUntil};
use crate::io::AsyncBufRead;
use std::pin::Pin;

/// Reading from a buffer, for everything that is [`AsyncBufRead`].
///
/// ```
/// use wakeful::io::{AsyncBufReadExt, BufReader};
///
/// # #[wakeful::main]
/// # async fn main() -> std::io::Result<()> {
/// let mut reader = BufReader::new(&b"first\nsecond\n"[..]);
/// let mut line = String::new();
/// reader.read_line(&mut line).await?;
/// assert_eq!(line, "first\n");
/// # Ok(())
/// # }
/// ```
pub trait AsyncBufReadExt: AsyncBufRead {
    /// Reads up to and with the next `byte`, or to the end if it does not come;
    /// adds what was read to `buf`, and gives the number of bytes. 0 says that
    /// the data has come to its end.
    ///
    /// # Errors
    ///
    /// Those of the reader, except `Interrupted`. What was read before is in
    /// `buf`.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe in this sense: what was read is in `buf`, so calling it again
    /// with the same `buf` goes on where it stopped.
    #[track_caller]
    fn read_until<'a>(&'a mut self, byte: u8, buf: &'a mut Vec<u8>) -> IoFuture<ReadUntil<'a, Self>>
    where
        Self: Unpin,
    {
        IoFuture::new(ReadUntil::new(self, byte, buf))
    }

    /// Reads up to and with the next line break (`\n`), or to the end if none
    /// comes; adds what was read to `buf`, and gives the number of bytes. 0 says
    /// that the data has come to its end.
    ///
    /// # Errors
    ///
    /// Of kind `InvalidData` if what was read is not UTF-8; then `buf` is as it
    /// was before, and what was read is lost. Otherwise those of the reader,
    /// except `Interrupted`; what was read before is in `buf` then, if it is
    /// UTF-8.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: what was read is lost, and what was in `buf` too. With
    /// [`lines`](Self::lines) it is.
    #[track_caller]
    fn read_line<'a>(&'a mut self, buf: &'a mut String) -> IoFuture<ReadLine<'a, Self>>
    where
        Self: Unpin,
    {
        IoFuture::new(ReadLine::new(self, buf))
    }

    /// The pieces between bytes that are `byte`, one by one, without it.
    fn split(self, byte: u8) -> Split<Self>
    where
        Self: Sized + Unpin,
    {
        Split::new(self, byte)
    }

    /// What is in the buffer; waits until it is filled if there is nothing. An
    /// empty slice says that the data has come to its end.
    ///
    /// The same bytes come again until [`consume`](Self::consume) is told that
    /// they were used.
    ///
    /// # Errors
    ///
    /// Those of the reader.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: nothing is taken out of the buffer.
    #[track_caller]
    fn fill_buf(&mut self) -> IoFuture<FillBuf<'_, Self>>
    where
        Self: Unpin,
    {
        IoFuture::new(FillBuf::new(self))
    }

    /// The first `amt` bytes that [`fill_buf`](Self::fill_buf) gave were used,
    /// and are not to come again.
    fn consume(&mut self, amt: usize)
    where
        Self: Unpin,
    {
        Pin::new(self).consume(amt);
    }

    /// The lines, one by one, without their line breaks (`\n` or `\r\n`).
    fn lines(self) -> Lines<Self>
    where
        Self: Sized,
    {
        Lines::new(self)
    }
}

impl<R: AsyncBufRead + ?Sized> AsyncBufReadExt for R {}
