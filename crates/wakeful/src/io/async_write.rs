//! [`AsyncWrite`]: the trait for byte sinks.

use std::io::{self, IoSlice};
use std::ops::DerefMut;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A sink of bytes that can be written without blocking the thread.
///
/// The asynchronous counterpart of [`std::io::Write`]. Call the methods of
/// [`AsyncWriteExt`](super::AsyncWriteExt); implement this trait for a new writer.
///
/// A method that cannot make progress returns `Pending`, and arranges for the task of `cx` to be
/// woken when it can. No method returns an error of kind `WouldBlock`. Callers may treat
/// `Interrupted` as a request to retry.
///
/// # Examples
///
/// A writer that counts bytes:
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use std::pin::Pin;
/// use std::task::{Context, Poll};
/// use wakeful::io::{self, AsyncWrite, AsyncWriteExt};
///
/// struct Count(usize);
///
/// impl AsyncWrite for Count {
///     fn poll_write(
///         mut self: Pin<&mut Self>,
///         _cx: &mut Context<'_>,
///         buf: &[u8],
///     ) -> Poll<io::Result<usize>> {
///         self.0 += buf.len();
///         Poll::Ready(Ok(buf.len()))
///     }
///
///     fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
///         Poll::Ready(Ok(()))
///     }
///
///     fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
///         Poll::Ready(Ok(()))
///     }
/// }
///
/// let mut count = Count(0);
/// count.write_all(b"hello").await?;
/// assert_eq!(count.0, 5);
/// # Ok(())
/// # }
/// ```
pub trait AsyncWrite {
    /// Polls a write from the front of `buf` and returns the number of accepted bytes.
    ///
    /// Accepted bytes may still be in a buffer of the writer; [`poll_flush`](Self::poll_flush)
    /// waits until they have left it. A result of 0 for a nonempty `buf` means that the writer
    /// accepts no more bytes.
    ///
    /// # Errors
    ///
    /// Returns the writer's error. In this case, no bytes were accepted.
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>>;

    /// Polls until all accepted bytes have left the writer's buffers.
    ///
    /// # Errors
    ///
    /// Returns the writer's error.
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Polls until the writer is flushed and shut down, so that its peer sees the end of the data.
    ///
    /// A shutdown can be the last message of a protocol, or the half-close of a socket. Once it
    /// completes, the writer can be dropped without losing data. A later write is usually an error.
    /// A wrapper flushes its own buffer, then shuts down the inner writer.
    ///
    /// # Errors
    ///
    /// Returns the writer's error.
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Polls a write from several buffers, in order, and returns the number of accepted bytes.
    ///
    /// The default implementation writes from the first nonempty buffer.
    ///
    /// # Errors
    ///
    /// Returns the writer's error. In this case, no bytes were accepted.
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let first = bufs.iter().find(|buf| !buf.is_empty());
        self.poll_write(cx, first.map_or(&[], |buf| buf))
    }

    /// Returns whether [`poll_write_vectored`](Self::poll_write_vectored) is more efficient than
    /// copying the buffers into one.
    ///
    /// The default implementation returns false.
    fn is_write_vectored(&self) -> bool {
        false
    }
}

/// The methods of the trait for a pointer to a writer; `$to` projects to a pinned writer.
macro_rules! through_pointer {
    (|$pointer:ident| $to:expr) => {
        #[inline]
        fn poll_write(
            self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            buf: &[u8],
        ) -> Poll<io::Result<usize>> {
            let $pointer = self;
            $to.poll_write(cx, buf)
        }

        #[inline]
        fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            let $pointer = self;
            $to.poll_flush(cx)
        }

        #[inline]
        fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            let $pointer = self;
            $to.poll_shutdown(cx)
        }

        #[inline]
        fn poll_write_vectored(
            self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            bufs: &[IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            let $pointer = self;
            $to.poll_write_vectored(cx, bufs)
        }

        #[inline]
        fn is_write_vectored(&self) -> bool {
            (**self).is_write_vectored()
        }
    };
}

impl<T: ?Sized + AsyncWrite + Unpin> AsyncWrite for Box<T> {
    through_pointer!(|pointer| Pin::new(&mut **pointer.get_mut()));
}

impl<T: ?Sized + AsyncWrite + Unpin> AsyncWrite for &mut T {
    through_pointer!(|pointer| Pin::new(&mut **pointer.get_mut()));
}

impl<P> AsyncWrite for Pin<P>
where
    P: DerefMut,
    P::Target: AsyncWrite,
{
    through_pointer!(|pointer| pointer.as_deref_mut());
}

/// Implements the trait for in-memory writers, which never wait, by std's methods.
macro_rules! in_memory {
    ($($writer:ty),+) => {$(
        impl AsyncWrite for $writer {
            #[inline]
            fn poll_write(
                mut self: Pin<&mut Self>,
                _cx: &mut Context<'_>,
                buf: &[u8],
            ) -> Poll<io::Result<usize>> {
                Poll::Ready(io::Write::write(&mut *self, buf))
            }

            #[inline]
            fn poll_write_vectored(
                mut self: Pin<&mut Self>,
                _cx: &mut Context<'_>,
                bufs: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                Poll::Ready(io::Write::write_vectored(&mut *self, bufs))
            }

            #[inline]
            fn is_write_vectored(&self) -> bool {
                true
            }

            #[inline]
            fn poll_flush(
                mut self: Pin<&mut Self>,
                _cx: &mut Context<'_>,
            ) -> Poll<io::Result<()>> {
                Poll::Ready(io::Write::flush(&mut *self))
            }

            #[inline]
            fn poll_shutdown(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
            ) -> Poll<io::Result<()>> {
                self.poll_flush(cx)
            }
        }
    )+};
}

in_memory!(
    Vec<u8>,
    io::Cursor<&mut [u8]>,
    io::Cursor<&mut Vec<u8>>,
    io::Cursor<Vec<u8>>,
    io::Cursor<Box<[u8]>>
);
