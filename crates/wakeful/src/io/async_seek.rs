//! The trait of what has a position that can be moved, and who in std has it.

use std::io::{self, SeekFrom};
use std::ops::DerefMut;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Something with a position, at which it is read or written next.
///
/// This is [`std::io::Seek`] for tasks, in two steps: one starts to seek, and
/// then waits for the end of it. [`AsyncSeekExt`](super::AsyncSeekExt) does both.
pub trait AsyncSeek {
    /// Starts to move to `position`. A position behind the end is allowed, and
    /// what it means is the implementation's to say.
    ///
    /// An `Ok` says only that it started: call
    /// [`poll_complete`](Self::poll_complete) until it is ready.
    ///
    /// # Errors
    ///
    /// May fail if an earlier seek is not complete; wait for it first.
    fn start_seek(self: Pin<&mut Self>, position: SeekFrom) -> io::Result<()>;

    /// Waits until the seek that was started last is complete, and gives the new
    /// position, counted from the start.
    ///
    /// Without one, it is ready at once, or when the thing is idle; the position
    /// that it gives is then not to be relied on.
    fn poll_complete(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<u64>>;
}

/// Something behind a pointer that may move: the pointee does not mind.
macro_rules! through_pointer {
    ($($pointer:ty),+) => {$(
        impl<T: ?Sized + AsyncSeek + Unpin> AsyncSeek for $pointer {
            #[inline]
            fn start_seek(mut self: Pin<&mut Self>, position: SeekFrom) -> io::Result<()> {
                Pin::new(&mut **self).start_seek(position)
            }

            #[inline]
            fn poll_complete(
                mut self: Pin<&mut Self>,
                cx: &mut Context<'_>,
            ) -> Poll<io::Result<u64>> {
                Pin::new(&mut **self).poll_complete(cx)
            }
        }
    )+};
}

through_pointer!(&mut T, Box<T>);

impl<P> AsyncSeek for Pin<P>
where
    P: DerefMut,
    P::Target: AsyncSeek,
{
    #[inline]
    fn start_seek(self: Pin<&mut Self>, position: SeekFrom) -> io::Result<()> {
        self.as_deref_mut().start_seek(position)
    }

    #[inline]
    fn poll_complete(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<u64>> {
        self.as_deref_mut().poll_complete(cx)
    }
}

impl<T: AsRef<[u8]> + Unpin> AsyncSeek for io::Cursor<T> {
    fn start_seek(mut self: Pin<&mut Self>, position: SeekFrom) -> io::Result<()> {
        io::Seek::seek(&mut *self, position).map(drop)
    }

    fn poll_complete(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<u64>> {
        Poll::Ready(Ok(self.position()))
    }
}
