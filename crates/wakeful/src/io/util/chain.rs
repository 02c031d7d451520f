//! [`Chain`], which reads one reader after another.

use crate::io::{AsyncBufRead, AsyncRead, ReadBuf};
use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

pin_project_lite::pin_project! {
    /// A reader that reads one reader after another, created by
    /// [`chain`](crate::io::AsyncReadExt::chain).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::io::AsyncReadExt;
    ///
    /// let mut both = (&b"hello "[..]).chain(&b"world"[..]);
    /// let mut text = String::new();
    /// both.read_to_string(&mut text).await?;
    /// assert_eq!(text, "hello world");
    /// let (first, second) = both.into_inner();
    /// assert!(first.is_empty() && second.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use = "streams do nothing unless polled"]
    pub struct Chain<T, U> {
        #[pin]
        first: T,
        #[pin]
        second: U,
        // Whether `first` has reached its end.
        is_first_done: bool,
    }
}

impl<T, U> Chain<T, U>
where
    T: AsyncRead,
    U: AsyncRead,
{
    pub(super) fn new(first: T, second: U) -> Self {
        Self { first, second, is_first_done: false }
    }

    /// Returns references to both readers.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::io::AsyncReadExt;
    ///
    /// let both = (&b"one"[..]).chain(&b"three"[..]);
    /// let (first, second) = both.get_ref();
    /// assert_eq!((first.len(), second.len()), (3, 5));
    /// ```
    pub fn get_ref(&self) -> (&T, &U) {
        (&self.first, &self.second)
    }

    /// Returns mutable references to both readers.
    ///
    /// Reading from them directly can change the order of bytes.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::io::AsyncReadExt;
    ///
    /// let mut both = (&b"one"[..]).chain(&b"two"[..]);
    /// *both.get_mut().0 = b""; // skips the first reader
    /// let mut text = String::new();
    /// both.read_to_string(&mut text).await?;
    /// assert_eq!(text, "two");
    /// # Ok(())
    /// # }
    /// ```
    pub fn get_mut(&mut self) -> (&mut T, &mut U) {
        (&mut self.first, &mut self.second)
    }

    /// Returns pinned references to both readers.
    ///
    /// Reading from them directly can change the order of bytes.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::pin::pin;
    /// use wakeful::io::AsyncReadExt;
    ///
    /// let mut both = pin!((&b"one"[..]).chain(&b"two"[..]));
    /// let (mut first, _) = both.as_mut().get_pin_mut();
    /// first.set(b"");
    /// assert!(both.get_ref().0.is_empty());
    /// ```
    pub fn get_pin_mut(self: Pin<&mut Self>) -> (Pin<&mut T>, Pin<&mut U>) {
        let me = self.project();
        (me.first, me.second)
    }

    /// Returns both readers.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::io::AsyncReadExt;
    ///
    /// let mut both = (&b"one"[..]).chain(&b"two"[..]);
    /// both.read_exact(&mut [0; 4]).await?;
    /// assert_eq!(both.into_inner(), (&b""[..], &b"wo"[..]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn into_inner(self) -> (T, U) {
        (self.first, self.second)
    }
}

impl<T, U> fmt::Debug for Chain<T, U>
where
    T: fmt::Debug,
    U: fmt::Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chain").field("t", &self.first).field("u", &self.second).finish()
    }
}

impl<T, U> AsyncRead for Chain<T, U>
where
    T: AsyncRead,
    U: AsyncRead,
{
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let me = self.project();
        if !*me.is_first_done {
            let remaining = buf.remaining();
            ready!(me.first.poll_read(cx, buf))?;
            // If `buf` is full, reading nothing does not mean end of file.
            if buf.remaining() < remaining || remaining == 0 {
                return Poll::Ready(Ok(()));
            }
            *me.is_first_done = true;
        }
        me.second.poll_read(cx, buf)
    }
}

impl<T, U> AsyncBufRead for Chain<T, U>
where
    T: AsyncBufRead,
    U: AsyncBufRead,
{
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        let me = self.project();
        if !*me.is_first_done {
            let available = ready!(me.first.poll_fill_buf(cx))?;
            if !available.is_empty() {
                return Poll::Ready(Ok(available));
            }
            *me.is_first_done = true;
        }
        me.second.poll_fill_buf(cx)
    }

    fn consume(self: Pin<&mut Self>, amt: usize) {
        let me = self.project();
        if *me.is_first_done { me.second.consume(amt) } else { me.first.consume(amt) }
    }
}
