//! [`Take`], which limits the number of bytes read from a reader.
#![allow(unsafe_code)]

use crate::io::{AsyncBufRead, AsyncRead, ReadBuf};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

pin_project_lite::pin_project! {
    /// A reader of the first bytes of another reader, created by
    /// [`take`](crate::io::AsyncReadExt::take).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::io::AsyncReadExt;
    ///
    /// let mut head = (&b"hello world"[..]).take(5);
    /// let mut text = String::new();
    /// head.read_to_string(&mut text).await?;
    /// assert_eq!((&*text, head.limit()), ("hello", 0));
    /// assert_eq!(head.into_inner(), b" world");
    /// # Ok(())
    /// # }
    /// ```
    #[derive(Debug)]
    #[must_use = "streams do nothing unless you `.await` or poll them"]
    pub struct Take<R> {
        #[pin]
        inner: R,
        limit: u64,
    }
}

impl<R: AsyncRead> Take<R> {
    pub(super) fn new(inner: R, limit: u64) -> Self {
        Self { inner, limit }
    }

    /// Returns the number of bytes that can still be read. The inner reader may have fewer.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::io::AsyncReadExt;
    ///
    /// let mut reader = (&b"hello"[..]).take(3);
    /// reader.read_u8().await?;
    /// assert_eq!(reader.limit(), 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Sets the number of bytes that can still be read, regardless of how many were read before.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::io::AsyncReadExt;
    ///
    /// let mut part = (&b"abcdef"[..]).take(1);
    /// let mut text = String::new();
    /// part.read_to_string(&mut text).await?;
    /// part.set_limit(2);
    /// part.read_to_string(&mut text).await?;
    /// assert_eq!(text, "abc");
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_limit(&mut self, limit: u64) {
        self.limit = limit;
    }

    /// Returns a reference to the inner reader.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::io::AsyncReadExt;
    ///
    /// let head = (&b"hello"[..]).take(2);
    /// assert_eq!(*head.get_ref(), b"hello");
    /// ```
    pub fn get_ref(&self) -> &R {
        &self.inner
    }

    /// Returns a mutable reference to the inner reader.
    ///
    /// Bytes read from it directly do not count towards the limit.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::io::AsyncReadExt;
    ///
    /// let mut head = (&b"hello"[..]).take(2);
    /// head.get_mut().read_exact(&mut [0; 3]).await?;
    /// assert_eq!(head.limit(), 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn get_mut(&mut self) -> &mut R {
        &mut self.inner
    }

    /// Returns a pinned reference to the inner reader.
    ///
    /// Bytes read from it directly do not count towards the limit.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::pin::pin;
    /// use wakeful::io::AsyncReadExt;
    ///
    /// let mut head = pin!((&b"hello"[..]).take(2));
    /// head.as_mut().get_pin_mut().set(b"other");
    /// assert_eq!(*head.get_ref(), b"other");
    /// ```
    pub fn get_pin_mut(self: Pin<&mut Self>) -> Pin<&mut R> {
        self.project().inner
    }

    /// Returns the inner reader.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::io::AsyncReadExt;
    ///
    /// assert_eq!((&b"hello"[..]).take(2).into_inner(), b"hello");
    /// ```
    pub fn into_inner(self) -> R {
        self.inner
    }
}

/// Returns the smaller of `len` and `limit`.
fn at_most(len: usize, limit: u64) -> usize {
    usize::try_from(limit).map_or(len, |limit| len.min(limit))
}

impl<R: AsyncRead> AsyncRead for Take<R> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let me = self.project();
        // At the limit, the inner reader is not polled: it might wait for more data.
        if *me.limit == 0 {
            return Poll::Ready(Ok(()));
        }
        let read = {
            let mut part = buf.take(at_most(usize::MAX, *me.limit));
            let start = part.filled().as_ptr();
            ready!(me.inner.poll_read(cx, &mut part))?;
            assert_eq!(start, part.filled().as_ptr(), "the reader replaced the buffer");
            part.filled().len()
        };
        // SAFETY: `part` begins at the first unfilled byte of `buf`. The assert above proves that
        // its first `read` bytes are filled.
        unsafe { buf.assume_init(read) };
        buf.advance(read);
        *me.limit -= read as u64;
        Poll::Ready(Ok(()))
    }
}

impl<R: AsyncBufRead> AsyncBufRead for Take<R> {
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        let me = self.project();
        if *me.limit == 0 {
            return Poll::Ready(Ok(&[]));
        }
        let available = ready!(me.inner.poll_fill_buf(cx))?;
        Poll::Ready(Ok(&available[..at_most(available.len(), *me.limit)]))
    }

    fn consume(self: Pin<&mut Self>, amt: usize) {
        let me = self.project();
        let amt = at_most(amt, *me.limit);
        *me.limit -= amt as u64;
        me.inner.consume(amt);
    }
}
