//! One trait of reading and writing in terms of the other.
#![allow(unsafe_code)]

use hyper::rt;
use pin_project_lite::pin_project;
use std::io::{IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use wakeful::io::{AsyncRead, AsyncWrite, ReadBuf};

pin_project! {
    /// A stream of one side in the shape of the other's.
    ///
    /// Around a `TcpStream` of wakeful's it is what hyper reads from and writes to.
    /// Around something of hyper's, an upgraded connection, say, it is an
    /// [`AsyncRead`] and [`AsyncWrite`] of wakeful's. It holds nothing back: bytes
    /// go through without a copy, and [`into_inner`](Io::into_inner) loses none.
    ///
    /// ```
    /// # #[wakeful::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use wakeful_hyper::Io;
    ///
    /// let (near, _far) = wakeful::io::duplex(1024);
    /// let (_sender, connection) =
    ///     hyper::client::conn::http1::handshake::<_, String>(Io::new(near)).await?;
    /// # drop(connection);
    /// # Ok(())
    /// # }
    /// ```
    #[derive(Clone, Copy, Debug, Default)]
    pub struct Io<T> {
        #[pin]
        inner: T,
    }
}

impl<T> Io<T> {
    /// Wraps a stream of either side.
    pub fn new(inner: T) -> Self {
        Self { inner }
    }

    /// What is inside.
    pub fn inner(&self) -> &T {
        &self.inner
    }

    /// What is inside, to be changed.
    pub fn inner_mut(&mut self) -> &mut T {
        &mut self.inner
    }

    /// Takes it out again.
    pub fn into_inner(self) -> T {
        self.inner
    }
}

impl<T: AsyncRead> rt::Read for Io<T> {
    #[inline]
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut cursor: rt::ReadBufCursor<'_>,
    ) -> Poll<Result<()>> {
        // SAFETY: a `ReadBuf` takes back no byte that is initialised.
        let mut buf = ReadBuf::uninit(unsafe { cursor.as_mut() });
        let start = buf.filled().as_ptr();
        ready!(self.project().inner.poll_read(cx, &mut buf))?;
        let filled = buf.filled();
        assert_eq!(start, filled.as_ptr(), "poll_read put another buffer in the place of its own");
        let count = filled.len();
        // SAFETY: filled, in the very memory that the cursor stands for: see above.
        unsafe { cursor.advance(count) };
        Poll::Ready(Ok(()))
    }
}

impl<T: rt::Read> AsyncRead for Io<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        let count = {
            // SAFETY: hyper's buffer takes back no byte that is initialised.
            let mut inner = rt::ReadBuf::uninit(unsafe { buf.unfilled_mut() });
            ready!(self.project().inner.poll_read(cx, inner.unfilled()))?;
            inner.filled().len()
        };
        // SAFETY: so many were filled at the start of what was unfilled.
        unsafe { buf.assume_init(count) };
        buf.advance(count);
        Poll::Ready(Ok(()))
    }
}

/// Writing is the same on both sides, word for word.
macro_rules! write_through {
    ($there:path as $here:path) => {
        impl<T: $there> $here for Io<T> {
            #[inline]
            fn poll_write(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &[u8],
            ) -> Poll<Result<usize>> {
                self.project().inner.poll_write(cx, buf)
            }

            #[inline]
            fn poll_write_vectored(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                bufs: &[IoSlice<'_>],
            ) -> Poll<Result<usize>> {
                self.project().inner.poll_write_vectored(cx, bufs)
            }

            #[inline]
            fn is_write_vectored(&self) -> bool {
                self.inner.is_write_vectored()
            }

            #[inline]
            fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
                self.project().inner.poll_flush(cx)
            }

            fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
                self.project().inner.poll_shutdown(cx)
            }
        }
    };
}
write_through!(AsyncWrite as rt::Write);
write_through!(rt::Write as AsyncWrite);
