//! [`AsyncSeek`]: the trait for streams with a movable position.

use std::io::{self, SeekFrom};
use std::ops::DerefMut;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A stream whose position can be moved without blocking the thread.
///
/// The asynchronous counterpart of [`std::io::Seek`], in two steps: start a seek, then wait until
/// it completes. [`AsyncSeekExt`](super::AsyncSeekExt) does both.
///
/// # Examples
///
/// A function over any stream with a position:
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use std::io::{Cursor, SeekFrom};
/// use wakeful::io::{AsyncSeek, AsyncSeekExt};
///
/// async fn len(mut stream: impl AsyncSeek + Unpin) -> std::io::Result<u64> {
///     stream.seek(SeekFrom::End(0)).await
/// }
///
/// assert_eq!(len(Cursor::new(b"hello")).await?, 5);
/// # Ok(())
/// # }
/// ```
pub trait AsyncSeek {
    /// Starts a seek to `position`.
    ///
    /// `Ok` means only that the seek has started: poll [`poll_complete`](Self::poll_complete) until
    /// it is ready. A position past the end is valid; its meaning is implementation-defined.
    ///
    /// # Errors
    ///
    /// May fail if an earlier seek has not completed. Wait for the earlier seek first.
    fn start_seek(self: Pin<&mut Self>, position: SeekFrom) -> io::Result<()>;

    /// Polls until the last seek completes, and returns the new position, relative to the start.
    ///
    /// If no seek was started, the result is ready immediately, or when the stream becomes idle;
    /// the returned position is then unspecified.
    ///
    /// # Errors
    ///
    /// Returns the error of the seek.
    fn poll_complete(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<u64>>;
}

/// Implements the trait for a pointer to an `Unpin` stream.
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
