//! [`AsyncBufRead`]: the trait for readers with an internal buffer.

use super::AsyncRead;
use std::io;
use std::ops::DerefMut;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A reader with an internal buffer, which can be read without blocking the thread.
///
/// The asynchronous counterpart of [`std::io::BufRead`]. Call the methods of
/// [`AsyncBufReadExt`](super::AsyncBufReadExt); implement this trait for a new reader.
/// [`BufReader`](super::BufReader) adds a buffer to any reader.
///
/// # Examples
///
/// A function over any reader with a buffer:
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use wakeful::io::{AsyncBufRead, AsyncBufReadExt};
///
/// async fn count_lines(reader: impl AsyncBufRead + Unpin) -> std::io::Result<usize> {
///     let (mut lines, mut count) = (reader.lines(), 0);
///     while lines.next_line().await?.is_some() {
///         count += 1;
///     }
///     Ok(count)
/// }
///
/// assert_eq!(count_lines(&b"one\ntwo\n"[..]).await?, 2);
/// # Ok(())
/// # }
/// ```
pub trait AsyncBufRead: AsyncRead {
    /// Polls for the contents of the buffer, filling it first if it is empty.
    ///
    /// An empty slice means end of file. The same bytes are returned again until
    /// [`consume`](Self::consume) is called.
    ///
    /// On `Pending`, the task of `cx` is woken when data may be available.
    ///
    /// # Errors
    ///
    /// Returns the error of the underlying reader.
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>>;

    /// Marks the first `amt` bytes of the buffer as consumed.
    ///
    /// Call this after [`poll_fill_buf`](Self::poll_fill_buf), with at most the length of the
    /// returned slice. For a larger `amt`, the behavior is implementation-defined and may be a
    /// panic.
    fn consume(self: Pin<&mut Self>, amt: usize);
}

/// Implements the trait for a pointer to an `Unpin` reader.
macro_rules! through_pointer {
    ($($pointer:ty),+) => {$(
        impl<T: ?Sized + AsyncBufRead + Unpin> AsyncBufRead for $pointer {
            #[inline]
            fn poll_fill_buf(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
            ) -> Poll<io::Result<&[u8]>> {
                Pin::new(&mut **self.get_mut()).poll_fill_buf(cx)
            }

            #[inline]
            fn consume(mut self: Pin<&mut Self>, amt: usize) {
                Pin::new(&mut **self).consume(amt);
            }
        }
    )+};
}

through_pointer!(&mut T, Box<T>);

impl<P> AsyncBufRead for Pin<P>
where
    P: DerefMut,
    P::Target: AsyncBufRead,
{
    #[inline]
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        self.as_deref_mut().poll_fill_buf(cx)
    }

    #[inline]
    fn consume(self: Pin<&mut Self>, amt: usize) {
        self.as_deref_mut().consume(amt);
    }
}

impl AsyncBufRead for &[u8] {
    fn poll_fill_buf(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        Poll::Ready(Ok(*self))
    }

    fn consume(mut self: Pin<&mut Self>, amt: usize) {
        *self = &self[amt..];
    }
}

impl<T: AsRef<[u8]> + Unpin> AsyncBufRead for io::Cursor<T> {
    fn poll_fill_buf(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        Poll::Ready(io::BufRead::fill_buf(self.get_mut()))
    }

    fn consume(self: Pin<&mut Self>, amt: usize) {
        io::BufRead::consume(self.get_mut(), amt);
    }
}
