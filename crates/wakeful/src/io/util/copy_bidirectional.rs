//! [`copy_bidirectional`], between two streams in both directions.

use super::BUFFER_SIZE;
use super::copy::Transfer;
use super::io_future::{IoFuture, IoOp};
use crate::io::{AsyncRead, AsyncWrite};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// Copies bytes between two streams in both directions, as a proxy does.
///
/// Returns the number of bytes copied from `a` to `b`, and from `b` to `a`.
///
/// When one stream reaches its end, the other is [shut down](crate::io::AsyncWriteExt::shutdown),
/// and the opposite direction continues. Returns when both directions have reached their end. Each
/// direction has a buffer of 8 KiB.
///
/// # Errors
///
/// Returns the first error of either stream, except `Interrupted`. Both directions stop, and bytes
/// that were read but not written are lost.
///
/// # Cancel safety
///
/// Not cancel safe. Bytes that were read but not written are lost.
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use wakeful::io::{self, AsyncReadExt, AsyncWriteExt};
///
/// let (mut client, mut proxy_in) = io::duplex(64);
/// let (mut proxy_out, mut server) = io::duplex(64);
/// let proxy = wakeful::spawn(async move {
///     io::copy_bidirectional(&mut proxy_in, &mut proxy_out).await
/// });
///
/// client.write_all(b"ping").await?;
/// let mut buf = [0; 4];
/// server.read_exact(&mut buf).await?;
/// assert_eq!(&buf, b"ping");
/// drop((client, server));
/// assert_eq!(proxy.await.unwrap()?, (4, 0));
/// # Ok(())
/// # }
/// ```
#[track_caller]
pub fn copy_bidirectional<'a, A, B>(
    a: &'a mut A,
    b: &'a mut B,
) -> IoFuture<CopyBidirectional<'a, A, B>>
where
    A: AsyncRead + AsyncWrite + Unpin + ?Sized,
    B: AsyncRead + AsyncWrite + Unpin + ?Sized,
{
    copy_bidirectional_with_sizes(a, b, BUFFER_SIZE, BUFFER_SIZE)
}

/// Copies bytes between two streams in both directions, with buffers of the given sizes.
///
/// See [`copy_bidirectional`].
///
/// # Errors
///
/// Returns the first error of either stream, except `Interrupted`. Both directions stop, and bytes
/// that were read but not written are lost.
///
/// # Panics
///
/// Panics if either size is 0.
///
/// # Cancel safety
///
/// Not cancel safe. Bytes that were read but not written are lost.
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use wakeful::io::{self, AsyncWriteExt};
///
/// let (mut client, mut proxy_in) = io::duplex(64);
/// let (mut proxy_out, mut server) = io::duplex(64);
/// client.write_all(b"ping").await?;
/// client.shutdown().await?;
/// server.shutdown().await?;
/// let sizes = (64 * 1024, 4 * 1024);
/// let copied =
///     io::copy_bidirectional_with_sizes(&mut proxy_in, &mut proxy_out, sizes.0, sizes.1).await?;
/// assert_eq!(copied, (4, 0));
/// # Ok(())
/// # }
/// ```
#[track_caller]
pub fn copy_bidirectional_with_sizes<'a, A, B>(
    a: &'a mut A,
    b: &'a mut B,
    a_to_b_buf_size: usize,
    b_to_a_buf_size: usize,
) -> IoFuture<CopyBidirectional<'a, A, B>>
where
    A: AsyncRead + AsyncWrite + Unpin + ?Sized,
    B: AsyncRead + AsyncWrite + Unpin + ?Sized,
{
    assert!(a_to_b_buf_size > 0, "`a_to_b_buf_size` must be greater than 0");
    assert!(b_to_a_buf_size > 0, "`b_to_a_buf_size` must be greater than 0");
    IoFuture::new(CopyBidirectional {
        a,
        b,
        a_to_b: Direction::Copying(Transfer::new(a_to_b_buf_size)),
        b_to_a: Direction::Copying(Transfer::new(b_to_a_buf_size)),
    })
}

/// The operation of [`copy_bidirectional`].
#[derive(Debug)]
pub struct CopyBidirectional<'a, A: ?Sized, B: ?Sized> {
    a: &'a mut A,
    b: &'a mut B,
    a_to_b: Direction,
    b_to_a: Direction,
}

impl<A, B> IoOp for CopyBidirectional<'_, A, B>
where
    A: AsyncRead + AsyncWrite + Unpin + ?Sized,
    B: AsyncRead + AsyncWrite + Unpin + ?Sized,
{
    type Output = io::Result<(u64, u64)>;

    fn poll_op(&mut self, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // Poll both directions before either can complete the operation.
        let a_to_b = self.a_to_b.poll(cx, self.a, self.b)?;
        let b_to_a = self.b_to_a.poll(cx, self.b, self.a)?;
        Poll::Ready(Ok((ready!(a_to_b), ready!(b_to_a))))
    }
}

/// The state of one direction, with the number of bytes copied.
#[derive(Debug)]
enum Direction {
    Copying(Transfer),
    ShuttingDown(u64),
    Done(u64),
}

impl Direction {
    /// Polls the direction; once done, every later call is ready, too.
    fn poll<R, W>(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut R,
        to: &mut W,
    ) -> Poll<io::Result<u64>>
    where
        R: AsyncRead + Unpin + ?Sized,
        W: AsyncWrite + Unpin + ?Sized,
    {
        loop {
            *self = match self {
                Direction::Copying(transfer) => {
                    let total = ready!(transfer.poll(cx, Pin::new(from), Pin::new(to)))?;
                    Direction::ShuttingDown(total)
                }
                Direction::ShuttingDown(total) => {
                    ready!(Pin::new(&mut *to).poll_shutdown(cx))?;
                    Direction::Done(*total)
                }
                Direction::Done(total) => return Poll::Ready(Ok(*total)),
            }
        }
    }
}
