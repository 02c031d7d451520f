//! What everybody can do with something that has a position.

use super::io_future::{IoFuture, IoOp};
use crate::io::{AsyncSeek, SeekFrom};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// Seeking, for everything that is [`AsyncSeek`].
///
/// ```
/// use wakeful::io::{AsyncReadExt, AsyncSeekExt, SeekFrom};
///
/// # #[wakeful::main]
/// # async fn main() -> std::io::Result<()> {
/// let mut file = std::io::Cursor::new(b"0123456789");
/// file.seek(SeekFrom::Start(7)).await?;
/// assert_eq!(file.read_u8().await?, b'7');
/// assert_eq!(file.stream_position().await?, 8);
/// # Ok(())
/// # }
/// ```
pub trait AsyncSeekExt: AsyncSeek {
    /// Moves to `pos`, and gives the new position, counted from the start. An
    /// earlier seek that was not waited for is waited for first.
    ///
    /// # Errors
    ///
    /// Those of the thing itself; a position before the start is one.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: whether it moved is not said.
    #[track_caller]
    fn seek(&mut self, pos: SeekFrom) -> IoFuture<Seek<'_, Self>>
    where
        Self: Unpin,
    {
        IoFuture::new(Seek { seeker: self, target: Some(pos) })
    }

    /// Moves to the start; short for `seek(SeekFrom::Start(0))`.
    #[track_caller]
    fn rewind(&mut self) -> IoFuture<Seek<'_, Self>>
    where
        Self: Unpin,
    {
        self.seek(SeekFrom::Start(0))
    }

    /// The position, counted from the start; short for
    /// `seek(SeekFrom::Current(0))`.
    #[track_caller]
    fn stream_position(&mut self) -> IoFuture<Seek<'_, Self>>
    where
        Self: Unpin,
    {
        self.seek(SeekFrom::Current(0))
    }
}

impl<S: AsyncSeek + ?Sized> AsyncSeekExt for S {}

/// A move to another position.
#[derive(Debug)]
pub struct Seek<'a, S: ?Sized> {
    seeker: &'a mut S,
    /// None once it started.
    target: Option<SeekFrom>,
}

impl<S: AsyncSeek + Unpin + ?Sized> IoOp for Seek<'_, S> {
    type Output = io::Result<u64>;

    fn poll_op(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<u64>> {
        let mut seeker = Pin::new(&mut *self.seeker);
        if let Some(target) = self.target {
            // An earlier one may be under way.
            ready!(seeker.as_mut().poll_complete(cx))?;
            seeker.as_mut().start_seek(target)?;
            self.target = None;
        }
        seeker.poll_complete(cx)
    }
}
