//! The trait of readers that have a buffer inside, and who in std has it.

use super::AsyncRead;
use std::io;
use std::ops::DerefMut;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A reader with a buffer of its own, in which one can look at bytes before
/// taking them.
///
/// This is [`std::io::BufRead`] for tasks; its methods are in
/// [`AsyncBufReadExt`](super::AsyncBufReadExt). [`BufReader`](super::BufReader)
/// makes one of any reader.
pub trait AsyncBufRead: AsyncRead {
    /// The bytes that are in the buffer; if there are none, it is filled first.
    /// An empty slice says that the end of the data is reached.
    ///
    /// The bytes come again with the next call, until
    /// [`consume`](Self::consume) is told that they were used.
    ///
    /// `Pending` says that nothing is there yet; the task of `cx` is woken when
    /// it is worth trying again.
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>>;

    /// The first `amt` bytes of the buffer were used, and are not to come again.
    ///
    /// To be called after [`poll_fill_buf`](Self::poll_fill_buf), with at most as
    /// many bytes as that gave; what happens otherwise is the reader's to say,
    /// and may be a panic.
    fn consume(self: Pin<&mut Self>, amt: usize);
}

/// A reader behind a pointer that may move: the pointee does not mind.
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
