//! Readers and writers that are always ready: [`empty`], [`repeat`] and [`sink`].
//!
//! Each call spends one unit of budget, so that a loop over them does not starve other tasks.

use crate::io::{AsyncBufRead, AsyncRead, AsyncSeek, AsyncWrite, ReadBuf, SeekFrom};
use crate::task::coop;
use std::fmt;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// Spends one unit of budget.
fn poll_budget(cx: &mut Context<'_>) -> Poll<()> {
    coop::poll_proceed(cx).map(|progress| progress.made_progress())
}

/// Returns the total length of the slices.
fn total_len(bufs: &[IoSlice<'_>]) -> usize {
    bufs.iter().map(|buf| buf.len()).sum()
}

/// Implements [`AsyncWrite`] for a writer that accepts and discards all bytes.
macro_rules! impl_discarding_writer {
    ($writer:ty) => {
        impl AsyncWrite for $writer {
            fn poll_write(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &[u8],
            ) -> Poll<io::Result<usize>> {
                poll_budget(cx).map(|()| Ok(buf.len()))
            }

            fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                poll_budget(cx).map(Ok)
            }

            fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                poll_budget(cx).map(Ok)
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                bufs: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                poll_budget(cx).map(|()| Ok(total_len(bufs)))
            }

            fn is_write_vectored(&self) -> bool {
                true
            }
        }
    };
}

/// A reader at end of file, and a writer that discards all bytes; created by [`empty`].
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use wakeful::io::{AsyncReadExt, empty};
///
/// let mut text = String::new();
/// assert_eq!(empty().read_to_string(&mut text).await?, 0);
/// # Ok(())
/// # }
/// ```
#[non_exhaustive]
pub struct Empty;

/// Returns a reader that is always at end of file. Bytes written to it are discarded.
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use wakeful::io::AsyncReadExt;
///
/// let mut text = String::new();
/// assert_eq!(wakeful::io::empty().read_to_string(&mut text).await?, 0);
/// # Ok(())
/// # }
/// ```
pub fn empty() -> Empty {
    Empty
}

impl AsyncRead for Empty {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        _buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        poll_budget(cx).map(Ok)
    }
}

impl AsyncBufRead for Empty {
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        poll_budget(cx).map(|()| Ok(&[][..]))
    }

    fn consume(self: Pin<&mut Self>, _amt: usize) {}
}

impl_discarding_writer!(Empty);

impl AsyncSeek for Empty {
    fn start_seek(self: Pin<&mut Self>, _position: SeekFrom) -> io::Result<()> {
        Ok(())
    }

    fn poll_complete(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<u64>> {
        poll_budget(cx).map(|()| Ok(0))
    }
}

impl fmt::Debug for Empty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("Empty { .. }")
    }
}

/// A reader that repeats one byte forever; created by [`repeat`].
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use wakeful::io::{AsyncReadExt, repeat};
///
/// let mut buf = [0; 3];
/// repeat(7).read_exact(&mut buf).await?;
/// assert_eq!(buf, [7; 3]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Repeat {
    byte: u8,
}

/// Returns a reader that repeats one byte forever.
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use wakeful::io::AsyncReadExt;
///
/// let mut buf = [0; 3];
/// wakeful::io::repeat(7).read_exact(&mut buf).await?;
/// assert_eq!(buf, [7, 7, 7]);
/// # Ok(())
/// # }
/// ```
pub fn repeat(byte: u8) -> Repeat {
    Repeat { byte }
}

impl AsyncRead for Repeat {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(poll_budget(cx));
        bytes::BufMut::put_bytes(buf, self.byte, buf.remaining());
        Poll::Ready(Ok(()))
    }
}

/// A writer that discards all bytes; created by [`sink`].
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use wakeful::io::{copy, sink};
///
/// let len = copy(&mut &b"hello"[..], &mut sink()).await?;
/// assert_eq!(len, 5);
/// # Ok(())
/// # }
/// ```
#[non_exhaustive]
pub struct Sink;

/// Returns a writer that accepts and discards all bytes.
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use wakeful::io::AsyncWriteExt;
///
/// assert_eq!(wakeful::io::sink().write(b"discarded").await?, 9);
/// # Ok(())
/// # }
/// ```
pub fn sink() -> Sink {
    Sink
}

impl_discarding_writer!(Sink);

impl fmt::Debug for Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("Sink { .. }")
    }
}
