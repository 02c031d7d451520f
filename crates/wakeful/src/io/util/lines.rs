//! A reader in pieces: [`Lines`], and [`Split`] at a byte.

use super::io_future::{IoFuture, IoOp};
use super::read_until::poll_until;
use crate::io::AsyncBufRead;
use std::io;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

pin_project_lite::pin_project! {
    /// The lines of a reader; see [`lines`](crate::io::AsyncBufReadExt::lines).
    ///
    /// ```
    /// use wakeful::io::{AsyncBufReadExt, BufReader};
    ///
    /// # #[wakeful::main]
    /// # async fn main() -> std::io::Result<()> {
    /// let mut lines = BufReader::new(&b"one\ntwo\r\nthree"[..]).lines();
    /// while let Some(line) = lines.next_line().await? {
    ///     println!("{line}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[derive(Debug)]
    #[must_use = "streams do nothing unless polled"]
    pub struct Lines<R> {
        #[pin]
        reader: R,
        // The part of the next line that was read already.
        line: Vec<u8>,
    }
}

impl<R> Lines<R> {
    pub(super) fn new(reader: R) -> Self {
        Self { reader, line: Vec::new() }
    }
}

impl<R> Lines<R>
where
    R: AsyncBufRead + Unpin,
{
    /// The next line, without the line break; `None` after the last.
    ///
    /// # Errors
    ///
    /// Of kind `InvalidData` if the line is not UTF-8; the one after it can be
    /// read nevertheless. Otherwise those of the reader.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: what was read of a line stays in here until the rest comes.
    #[track_caller]
    pub fn next_line(&mut self) -> IoFuture<NextLine<'_, R>> {
        IoFuture::new(NextLine { lines: self })
    }

    /// The reader. Reading from it directly takes from the lines.
    pub fn get_mut(&mut self) -> &mut R {
        &mut self.reader
    }

    /// The reader.
    pub fn get_ref(&mut self) -> &R {
        &self.reader
    }

    /// The reader back. What was read of the next line is lost.
    pub fn into_inner(self) -> R {
        self.reader
    }
}

impl<R> Lines<R>
where
    R: AsyncBufRead,
{
    /// Polls for the next line, as [`next_line`](Self::next_line).
    ///
    /// `Pending` says that none is complete yet; the task of the last call is
    /// woken when there is more to read. It may be woken for less than a line.
    pub fn poll_next_line(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<Option<String>>> {
        let me = self.project();
        ready!(poll_until(me.reader, cx, b'\n', me.line))?;
        let mut line = mem::take(me.line);
        if line.is_empty() {
            return Poll::Ready(Ok(None));
        }
        if line.pop_if(|last| *last == b'\n').is_some() {
            line.pop_if(|last| *last == b'\r');
        }
        let text = String::from_utf8(line)
            .map_err(|not_text| io::Error::new(io::ErrorKind::InvalidData, not_text))?;
        Poll::Ready(Ok(Some(text)))
    }
}

/// See [`Lines::next_line`].
#[derive(Debug)]
pub struct NextLine<'a, R> {
    lines: &'a mut Lines<R>,
}

impl<R: AsyncBufRead + Unpin> IoOp for NextLine<'_, R> {
    type Output = io::Result<Option<String>>;

    fn poll_op(&mut self, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut *self.lines).poll_next_line(cx)
    }
}

pin_project_lite::pin_project! {
    /// The pieces of a reader between bytes of one kind; see
    /// [`split`](crate::io::AsyncBufReadExt::split).
    #[derive(Debug)]
    #[must_use = "streams do nothing unless polled"]
    pub struct Split<R> {
        #[pin]
        reader: R,
        delimiter: u8,
        // The part of the next segment that was read already.
        segment: Vec<u8>,
    }
}

impl<R> Split<R> {
    pub(super) fn new(reader: R, delimiter: u8) -> Self {
        Self { reader, delimiter, segment: Vec::new() }
    }
}

impl<R> Split<R>
where
    R: AsyncBufRead + Unpin,
{
    /// The next piece, without the byte at its end; `None` after the last.
    ///
    /// ```
    /// use wakeful::io::{AsyncBufReadExt, BufReader};
    ///
    /// # #[wakeful::main]
    /// # async fn main() -> std::io::Result<()> {
    /// let mut cells = BufReader::new(&b"a,bc,"[..]).split(b',');
    /// assert_eq!(cells.next_segment().await?, Some(b"a".to_vec()));
    /// assert_eq!(cells.next_segment().await?, Some(b"bc".to_vec()));
    /// assert_eq!(cells.next_segment().await?, None);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: what was read of a piece stays in here until the rest comes.
    #[track_caller]
    pub fn next_segment(&mut self) -> IoFuture<NextSegment<'_, R>> {
        IoFuture::new(NextSegment { split: self })
    }
}

impl<R> Split<R>
where
    R: AsyncBufRead,
{
    /// Polls for the next piece, as [`next_segment`](Self::next_segment).
    ///
    /// `Pending` says that none is complete yet; the task of the last call is
    /// woken when there is more to read. It may be woken for less than a piece.
    pub fn poll_next_segment(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<Option<Vec<u8>>>> {
        let me = self.project();
        ready!(poll_until(me.reader, cx, *me.delimiter, me.segment))?;
        let mut segment = mem::take(me.segment);
        if segment.is_empty() {
            return Poll::Ready(Ok(None));
        }
        segment.pop_if(|last| last == me.delimiter);
        Poll::Ready(Ok(Some(segment)))
    }
}

/// See [`Split::next_segment`].
#[derive(Debug)]
pub struct NextSegment<'a, R> {
    split: &'a mut Split<R>,
}

impl<R: AsyncBufRead + Unpin> IoOp for NextSegment<'_, R> {
    type Output = io::Result<Option<Vec<u8>>>;

    fn poll_op(&mut self, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut *self.split).poll_next_segment(cx)
    }
}
