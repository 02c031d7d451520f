//! [`AsyncSeekExt`]: the extension methods of streams with a movable position.

use super::io_future::{IoFuture, IoOp};
use crate::io::{AsyncSeek, SeekFrom};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// Extension methods for every [`AsyncSeek`].
///
/// Import this trait to call them.
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use wakeful::io::{AsyncReadExt, AsyncSeekExt, SeekFrom};
///
/// let mut file = std::io::Cursor::new(b"0123456789");
/// file.seek(SeekFrom::Start(7)).await?;
/// assert_eq!(file.read_u8().await?, b'7');
/// assert_eq!(file.stream_position().await?, 8);
/// # Ok(())
/// # }
/// ```
pub trait AsyncSeekExt: AsyncSeek {
    /// Seeks to a position, and returns the new position, relative to the start.
    ///
    /// First waits until an earlier seek is complete.
    ///
    /// # Errors
    ///
    /// Returns the stream's error, for example for a position before the start.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe. The position may or may not have moved.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::io::{AsyncSeekExt, SeekFrom};
    ///
    /// let mut file = std::io::Cursor::new(b"0123456789");
    /// assert_eq!(file.seek(SeekFrom::End(-2)).await?, 8);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    fn seek(&mut self, pos: SeekFrom) -> IoFuture<Seek<'_, Self>>
    where
        Self: Unpin,
    {
        IoFuture::new(Seek { seeker: self, target: Some(pos) })
    }

    /// Seeks to the start.
    ///
    /// # Errors
    ///
    /// Returns the stream's error.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe. The position may or may not have moved.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::io::{AsyncReadExt, AsyncSeekExt};
    ///
    /// let mut file = std::io::Cursor::new(b"ab");
    /// file.read_u8().await?;
    /// file.rewind().await?;
    /// assert_eq!(file.read_u8().await?, b'a');
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    fn rewind(&mut self) -> IoFuture<Seek<'_, Self>>
    where
        Self: Unpin,
    {
        self.seek(SeekFrom::Start(0))
    }

    /// Returns the current position, relative to the start.
    ///
    /// # Errors
    ///
    /// Returns the stream's error.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::io::{AsyncReadExt, AsyncSeekExt};
    ///
    /// let mut file = std::io::Cursor::new(b"ab");
    /// file.read_u8().await?;
    /// assert_eq!(file.stream_position().await?, 1);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    fn stream_position(&mut self) -> IoFuture<Seek<'_, Self>>
    where
        Self: Unpin,
    {
        self.seek(SeekFrom::Current(0))
    }
}

impl<S: AsyncSeek + ?Sized> AsyncSeekExt for S {}

/// An operation that seeks.
#[derive(Debug)]
pub struct Seek<'a, S: ?Sized> {
    seeker: &'a mut S,
    /// `None` once the seek has started.
    target: Option<SeekFrom>,
}

impl<S: AsyncSeek + Unpin + ?Sized> IoOp for Seek<'_, S> {
    type Output = io::Result<u64>;

    fn poll_op(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<u64>> {
        let mut seeker = Pin::new(&mut *self.seeker);
        if let Some(target) = self.target {
            // An earlier seek may be in progress.
            ready!(seeker.as_mut().poll_complete(cx))?;
            seeker.as_mut().start_seek(target)?;
            self.target = None;
        }
        seeker.poll_complete(cx)
    }
}
