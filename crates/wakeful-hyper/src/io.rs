//! The adapter between the I/O traits of hyper and of wakeful.
#![allow(unsafe_code)]

use hyper::rt;
use pin_project_lite::pin_project;
use std::io::{IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use wakeful::io::{AsyncRead, AsyncWrite, ReadBuf};

pin_project! {
    /// An adapter between the I/O traits of hyper and of wakeful.
    ///
    /// Around a stream of wakeful, such as `TcpStream`, it implements hyper's `Read` and `Write`.
    /// Around a stream of hyper, such as an upgraded connection, it implements [`AsyncRead`] and
    /// [`AsyncWrite`]. The adapter has no buffer, so it copies no bytes, and
    /// [`into_inner`](Io::into_inner) loses none.
    ///
    /// # Examples
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
    /// Wraps a stream of wakeful or of hyper.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful_hyper::Io;
    ///
    /// let (near, _far) = wakeful::io::duplex(1024);
    /// let stream = Io::new(near);
    /// # drop(stream);
    /// ```
    pub fn new(inner: T) -> Self {
        Self { inner }
    }

    /// Returns a reference to the stream.
    pub fn inner(&self) -> &T {
        &self.inner
    }

    /// Returns a mutable reference to the stream.
    pub fn inner_mut(&mut self) -> &mut T {
        &mut self.inner
    }

    /// Returns the stream.
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
        // SAFETY: a `ReadBuf` never makes an initialised byte uninitialised.
        let mut buf = ReadBuf::uninit(unsafe { cursor.as_mut() });
        let start = buf.filled().as_ptr();
        ready!(self.project().inner.poll_read(cx, &mut buf))?;
        let filled = buf.filled();
        assert_eq!(start, filled.as_ptr(), "poll_read replaced the buffer by another one");
        let count = filled.len();
        // SAFETY: the assertion shows that these bytes were filled in the memory of the cursor.
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
            // SAFETY: hyper's buffer never makes an initialised byte uninitialised.
            let mut inner = rt::ReadBuf::uninit(unsafe { buf.unfilled_mut() });
            ready!(self.project().inner.poll_read(cx, inner.unfilled()))?;
            inner.filled().len()
        };
        // SAFETY: hyper has filled this many bytes at the start of the unfilled part.
        unsafe { buf.assume_init(count) };
        buf.advance(count);
        Poll::Ready(Ok(()))
    }
}

/// The methods for writing have the same signatures in both traits.
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
