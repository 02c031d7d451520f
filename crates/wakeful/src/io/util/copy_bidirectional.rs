//! Between two streams, in both directions.

use super::BUFFER_SIZE;
use super::copy::Transfer;
use super::io_future::{IoFuture, IoOp};
use crate::io::{AsyncRead, AsyncWrite};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// Copies what comes from `a` to `b` and what comes from `b` to `a`, at the same
/// time, as a proxy does. Gives the number of bytes from `a` to `b`, and from `b`
/// to `a`.
///
/// When one has come to its end, the other is
/// [shut down](crate::io::AsyncWriteExt::shutdown), while the other direction goes
/// on. It returns when both directions have come to their ends. Each direction has
/// a buffer of 8 KiB.
///
/// # Errors
///
/// Those of either, except `Interrupted`. Both directions stop then, and what was
/// read and not yet written is lost.
///
/// # Cancel safety
///
/// Not cancel safe: what was read and not yet written is lost.
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

/// As [`copy_bidirectional`], with buffers of these sizes.
///
/// # Panics
///
/// If either size is 0.
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

/// See [`copy_bidirectional`].
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
        // Both go on before either may end this.
        let a_to_b = self.a_to_b.poll(cx, self.a, self.b)?;
        let b_to_a = self.b_to_a.poll(cx, self.b, self.a)?;
        Poll::Ready(Ok((ready!(a_to_b), ready!(b_to_a))))
    }
}

/// One direction; the numbers are bytes copied.
#[derive(Debug)]
enum Direction {
    Copying(Transfer),
    ShuttingDown(u64),
    Done(u64),
}

impl Direction {
    /// Ready from its end on.
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
