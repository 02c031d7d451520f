//! The trait of what bytes go to, and who in std has it.

use std::io::{self, IoSlice};
use std::ops::DerefMut;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Something that bytes can be written to without blocking.
///
/// This is [`std::io::Write`] for tasks. To write, use the methods of
/// [`AsyncWriteExt`](super::AsyncWriteExt); this trait is for those who make a
/// writer.
///
/// Each method answers `Pending` if it cannot go on now, after it saw to it that
/// the task of `cx` is woken when it can. No error of kind `WouldBlock` comes
/// out of it, and callers may take one of kind `Interrupted` as a request to try
/// again.
pub trait AsyncWrite {
    /// Writes from the front of `buf`, and says how many bytes were taken.
    ///
    /// Taken means that the writer has them; whether they went on is known after
    /// a flush. If none of a `buf` that is not empty were taken, the writer takes
    /// no more.
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>>;

    /// Waits until everything that was taken has left the writer's buffers.
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Ends the writing: flushes, and tells the other side that nothing more
    /// comes, whatever that takes (the last message of a protocol, the half-close
    /// of a socket).
    ///
    /// When it is ready, the writer can be dropped without losing anything. What
    /// a write does afterwards is the writer's to say, mostly an error. Wrappers
    /// flush what they hold, and then shut down what they wrap.
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// As [`poll_write`](Self::poll_write), from several slices as if they were
    /// one.
    ///
    /// Unless it is overridden, it writes from the first slice that is not empty.
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let first = bufs.iter().find(|buf| !buf.is_empty());
        self.poll_write(cx, first.map_or(&[], |buf| buf))
    }

    /// Whether [`poll_write_vectored`](Self::poll_write_vectored) is better than
    /// to collect the slices in one buffer first. Unless it is overridden, it is
    /// not.
    fn is_write_vectored(&self) -> bool {
        false
    }
}

/// The methods of a writer behind a pointer; `$to` makes a pinned pointer to it.
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

/// Writers in memory are never busy: std's methods do.
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
