//! [`Lines`] and [`Split`]: readers that yield pieces of another reader.

use super::io_future::{IoFuture, IoOp};
use super::read_until::poll_until;
use crate::io::AsyncBufRead;
use std::io;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

pin_project_lite::pin_project! {
    /// A reader of lines, created by [`lines`](crate::io::AsyncBufReadExt::lines).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::io::{AsyncBufReadExt, BufReader};
    ///
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
        // The part of the next line that was already read.
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
    /// Returns the next line without its line break, or `None` at the end.
    ///
    /// # Errors
    ///
    /// Returns `InvalidData` if the line is not UTF-8; the next call returns the following line.
    /// Otherwise returns the reader's error.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. A partial line is kept until the rest arrives.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::io::AsyncBufReadExt;
    ///
    /// let mut lines = (&b"one\ntwo"[..]).lines();
    /// assert_eq!(lines.next_line().await?.as_deref(), Some("one"));
    /// assert_eq!(lines.next_line().await?.as_deref(), Some("two"));
    /// assert_eq!(lines.next_line().await?, None);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn next_line(&mut self) -> IoFuture<NextLine<'_, R>> {
        IoFuture::new(NextLine { lines: self })
    }

    /// Returns a mutable reference to the reader.
    ///
    /// Bytes read from it directly are missing from the lines.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::io::{AsyncBufReadExt, AsyncReadExt};
    ///
    /// let mut lines = (&b"head\nrest\n"[..]).lines();
    /// lines.next_line().await?;
    /// let mut rest = String::new();
    /// lines.get_mut().read_to_string(&mut rest).await?;
    /// assert_eq!(rest, "rest\n");
    /// # Ok(())
    /// # }
    /// ```
    pub fn get_mut(&mut self) -> &mut R {
        &mut self.reader
    }

    /// Returns a reference to the reader.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::io::AsyncBufReadExt;
    ///
    /// let mut lines = (&b"one\n"[..]).lines();
    /// assert_eq!(*lines.get_ref(), b"one\n");
    /// ```
    pub fn get_ref(&mut self) -> &R {
        &self.reader
    }

    /// Returns the reader.
    ///
    /// A partially read line is lost.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::io::AsyncBufReadExt;
    ///
    /// let mut lines = (&b"head\nrest\n"[..]).lines();
    /// assert_eq!(lines.next_line().await?.as_deref(), Some("head"));
    /// assert_eq!(lines.into_inner(), b"rest\n");
    /// # Ok(())
    /// # }
    /// ```
    pub fn into_inner(self) -> R {
        self.reader
    }
}

impl<R> Lines<R>
where
    R: AsyncBufRead,
{
    /// Polls for the next line; see [`next_line`](Self::next_line).
    ///
    /// On `Pending`, the task of the most recent call is woken when more data is available, which
    /// may be less than a line.
    ///
    /// # Errors
    ///
    /// Returns `InvalidData` if the line is not UTF-8, and the reader's error otherwise.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use std::future::poll_fn;
    /// use std::pin::Pin;
    /// use wakeful::io::AsyncBufReadExt;
    ///
    /// let mut lines = (&b"one\n"[..]).lines();
    /// let line = poll_fn(|cx| Pin::new(&mut lines).poll_next_line(cx)).await?;
    /// assert_eq!(line.as_deref(), Some("one"));
    /// # Ok(())
    /// # }
    /// ```
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

/// The operation of [`Lines::next_line`].
#[derive(Debug)]
pub struct NextLine<'a, R> {
    lines: &'a mut Lines<R>,
}

impl<R: AsyncBufRead + Unpin> IoOp for NextLine<'_, R> {
    type Output = io::Result<Option<String>>;

    fn poll_op(&mut self, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut *self.lines).poll_next_line(cx)
    }

    #[inline]
    fn is_end(output: &Self::Output) -> bool {
        matches!(output, Ok(None))
    }
}

pin_project_lite::pin_project! {
    /// A reader of segments between delimiter bytes, created by [`split`].
    ///
    /// [`split`]: crate::io::AsyncBufReadExt::split
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::io::AsyncBufReadExt;
    ///
    /// let mut segments = AsyncBufReadExt::split(&b"a,b"[..], b',');
    /// assert_eq!(segments.next_segment().await?, Some(b"a".to_vec()));
    /// assert_eq!(segments.next_segment().await?, Some(b"b".to_vec()));
    /// assert_eq!(segments.next_segment().await?, None);
    /// # Ok(())
    /// # }
    /// ```
    #[derive(Debug)]
    #[must_use = "streams do nothing unless polled"]
    pub struct Split<R> {
        #[pin]
        reader: R,
        delimiter: u8,
        // The part of the next segment that was already read.
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
    /// Returns the next segment without its delimiter, or `None` at the end.
    ///
    /// # Errors
    ///
    /// Returns the reader's error.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. A partial segment is kept until the rest arrives.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::io::{AsyncBufReadExt, BufReader};
    ///
    /// let mut cells = BufReader::new(&b"a,bc,"[..]).split(b',');
    /// assert_eq!(cells.next_segment().await?, Some(b"a".to_vec()));
    /// assert_eq!(cells.next_segment().await?, Some(b"bc".to_vec()));
    /// assert_eq!(cells.next_segment().await?, None);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn next_segment(&mut self) -> IoFuture<NextSegment<'_, R>> {
        IoFuture::new(NextSegment { split: self })
    }
}

impl<R> Split<R>
where
    R: AsyncBufRead,
{
    /// Polls for the next segment; see [`next_segment`](Self::next_segment).
    ///
    /// On `Pending`, the task of the most recent call is woken when more data is available, which
    /// may be less than a segment.
    ///
    /// # Errors
    ///
    /// Returns the reader's error.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use std::future::poll_fn;
    /// use std::pin::pin;
    /// use wakeful::io::AsyncBufReadExt;
    ///
    /// let mut segments = pin!(AsyncBufReadExt::split(&b"a,b"[..], b','));
    /// let first = poll_fn(|cx| segments.as_mut().poll_next_segment(cx)).await?;
    /// assert_eq!(first, Some(b"a".to_vec()));
    /// # Ok(())
    /// # }
    /// ```
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

/// The operation of [`Split::next_segment`].
#[derive(Debug)]
pub struct NextSegment<'a, R> {
    split: &'a mut Split<R>,
}

impl<R: AsyncBufRead + Unpin> IoOp for NextSegment<'_, R> {
    type Output = io::Result<Option<Vec<u8>>>;

    fn poll_op(&mut self, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut *self.split).poll_next_segment(cx)
    }

    #[inline]
    fn is_end(output: &Self::Output) -> bool {
        matches!(output, Ok(None))
    }
}
