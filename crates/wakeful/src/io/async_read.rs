//! [`AsyncRead`]: the trait for byte sources.

use super::ReadBuf;
use std::io;
use std::ops::DerefMut;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A source of bytes that can be read without blocking the thread.
///
/// The asynchronous counterpart of [`std::io::Read`]. Call the methods of
/// [`AsyncReadExt`](super::AsyncReadExt); implement this trait for a new reader.
///
/// # Examples
///
/// A reader that yields each byte of another reader twice:
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use std::pin::Pin;
/// use std::task::{Context, Poll, ready};
/// use wakeful::io::{self, AsyncRead, AsyncReadExt, ReadBuf};
///
/// struct Doubled<R>(R);
///
/// impl<R: AsyncRead + Unpin> AsyncRead for Doubled<R> {
///     fn poll_read(
///         mut self: Pin<&mut Self>,
///         cx: &mut Context<'_>,
///         buf: &mut ReadBuf<'_>,
///     ) -> Poll<io::Result<()>> {
///         if buf.remaining() < 2 {
///             return Poll::Ready(Err(io::ErrorKind::InvalidInput.into()));
///         }
///         let mut byte = [0];
///         let mut one = ReadBuf::new(&mut byte);
///         ready!(Pin::new(&mut self.0).poll_read(cx, &mut one))?;
///         for byte in one.filled() {
///             buf.put_slice(&[*byte, *byte]);
///         }
///         Poll::Ready(Ok(()))
///     }
/// }
///
/// let mut text = [0; 4];
/// Doubled(&b"abc"[..]).read(&mut text).await?;
/// assert_eq!(&text[..2], b"aa");
/// # Ok(())
/// # }
/// ```
pub trait AsyncRead {
    /// Polls a read of available bytes into `buf`, up to its [`remaining`](ReadBuf::remaining)
    /// capacity.
    ///
    /// - `Ready(Ok(()))`: the bytes were appended to the filled part of `buf`. If none were added
    ///   despite remaining capacity, the reader is at end of file.
    /// - `Pending`: no data is available, and `buf` is unchanged. The task of `cx` is woken when
    ///   data may be available.
    /// - `Ready(Err(_))`: the read failed, and `buf` is unchanged.
    ///
    /// # Errors
    ///
    /// Returns the reader's error.
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>>;
}

/// Implements the trait for a pointer to an `Unpin` reader.
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

/// Reads from the front of the slice, advancing it.
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
        // A position past the end is valid; nothing is read there.
        let start = usize::try_from(position).map_or(whole.len(), |at| at.min(whole.len()));
        let rest = &whole[start..];
        let taken = &rest[..rest.len().min(buf.remaining())];
        buf.put_slice(taken);
        let end = position + taken.len() as u64;
        self.set_position(end);
        Poll::Ready(Ok(()))
    }
}
