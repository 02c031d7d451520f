//! [`copy_buf`], from a buffered reader to a writer without another buffer.

use super::io_future::{IoFuture, IoOp};
use crate::io::{AsyncBufRead, AsyncWrite};
use crate::task::coop;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// Copies all bytes from a buffered reader to a writer, and finally flushes the writer.
///
/// Returns the number of bytes copied. Writes directly from the reader's buffer, in which bytes
/// stay until the writer accepts them.
///
/// # Errors
///
/// Returns the error of the reader or the writer, except `Interrupted`, and `WriteZero` if the
/// writer accepts no more bytes.
///
/// # Cancel safety
///
/// Cancel safe, except that the count of copied bytes is lost. Bytes that were not written are
/// still in the reader.
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use wakeful::io::{BufReader, copy_buf};
///
/// let mut reader = BufReader::new(&b"hello"[..]);
/// let mut writer = Vec::new();
/// assert_eq!(copy_buf(&mut reader, &mut writer).await?, 5);
/// assert_eq!(writer, b"hello");
/// # Ok(())
/// # }
/// ```
#[track_caller]
pub fn copy_buf<'a, R, W>(reader: &'a mut R, writer: &'a mut W) -> IoFuture<CopyBuf<'a, R, W>>
where
    R: AsyncBufRead + Unpin + ?Sized,
    W: AsyncWrite + Unpin + ?Sized,
{
    IoFuture::new(CopyBuf { reader, writer, total: 0, needs_flush: false })
}

/// The operation of [`copy_buf`].
#[derive(Debug)]
pub struct CopyBuf<'a, R: ?Sized, W: ?Sized> {
    reader: &'a mut R,
    writer: &'a mut W,
    /// Bytes written so far.
    total: u64,
    /// Whether the writer may have buffered bytes.
    needs_flush: bool,
}

impl<R, W> IoOp for CopyBuf<'_, R, W>
where
    R: AsyncBufRead + Unpin + ?Sized,
    W: AsyncWrite + Unpin + ?Sized,
{
    type Output = io::Result<u64>;

    fn poll_op(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<u64>> {
        let mut reader = Pin::new(&mut *self.reader);
        let mut writer = Pin::new(&mut *self.writer);
        loop {
            let progress = ready!(coop::poll_proceed(cx));
            let available = match reader.as_mut().poll_fill_buf(cx) {
                Poll::Ready(Ok(available)) => available,
                Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::Interrupted => continue,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {
                    // The peer may wait for these bytes before it sends more.
                    if self.needs_flush {
                        ready!(writer.as_mut().poll_flush(cx))?;
                        progress.made_progress();
                        self.needs_flush = false;
                    }
                    return Poll::Pending;
                }
            };
            if available.is_empty() {
                ready!(writer.poll_flush(cx))?;
                progress.made_progress();
                return Poll::Ready(Ok(self.total));
            }
            let written = match ready!(writer.as_mut().poll_write(cx, available)) {
                Ok(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Ok(written) => written,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Poll::Ready(Err(error)),
            };
            progress.made_progress();
            self.total += written as u64;
            self.needs_flush = true;
            reader.as_mut().consume(written);
        }
    }
}
