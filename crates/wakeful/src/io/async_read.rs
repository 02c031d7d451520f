//! The trait of what bytes come from, and who in std has it.

use super::ReadBuf;
use std::io;
use std::ops::DerefMut;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Something that bytes can be read from without blocking.
///
/// This is [`std::io::Read`] for tasks. To read, use the methods of
/// [`AsyncReadExt`](super::AsyncReadExt); this trait is for those who make a
/// reader.
pub trait AsyncRead {
    /// Reads as much as is there into `buf`, up to its
    /// [`remaining`](ReadBuf::remaining).
    ///
    /// - `Ready(Ok(()))`: the bytes stand behind what was filled before. If none
    ///   were added although there was room, the end of the data is reached.
    /// - `Pending`: nothing is there yet and nothing was added to `buf`; the task
    ///   of `cx` is woken when it is worth trying again.
    /// - `Ready(Err(_))`: nothing was added to `buf`.
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>>;
}

/// A reader behind a pointer that may move: the pointee does not mind.
macro_rules! through_pointer {
    ($($pointer:ty),+) => {$(
        impl<T: ?Sized + AsyncRead + Unpin> AsyncRead for $pointer {
            #[inline]
            fn poll_read(
                mut self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                Pin::new(&mut **self).poll_read(cx, buf)
            }
        }
    )+};
}

through_pointer!(&mut T, Box<T>);

impl<P> AsyncRead for Pin<P>
where
    P: DerefMut,
    P::Target: AsyncRead,
{
    #[inline]
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.as_deref_mut().poll_read(cx, buf)
    }
}

/// Reading takes bytes off the front of the slice.
impl AsyncRead for &[u8] {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let (taken, rest) = self.split_at(self.len().min(buf.remaining()));
        buf.put_slice(taken);
        *self = rest;
        Poll::Ready(Ok(()))
    }
}

impl<T: AsRef<[u8]> + Unpin> AsyncRead for io::Cursor<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let position = self.position();
        let whole = (*self).get_ref().as_ref();
        // A position behind the end is allowed, and reads nothing.
        let start = usize::try_from(position).map_or(whole.len(), |at| at.min(whole.len()));
        let rest = &whole[start..];
        let taken = &rest[..rest.len().min(buf.remaining())];
        buf.put_slice(taken);
        let end = position + taken.len() as u64;
        self.set_position(end);
        Poll::Ready(Ok(()))
    }
}
