//! Reads and writes at an offset, which don't use the cursor and may run concurrently.

use super::super::fd_ops::{Position, Read, Write};
use super::super::op_future::OpFuture;
use super::super::page_cache::{self, Attempt};
use super::File;
use crate::task::coop;
use std::io;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

impl File {
    /// Reads at an offset and returns the number of bytes read.
    ///
    /// Returns 0 at the end of the file, or if `buf` is empty. A call reads at most
    /// [`max_buf_size`](Self::max_buf_size) bytes. The cursor does not move. Data written earlier
    /// through this `File` is visible, even if it was not flushed.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`FileExt::read_at`](std::os::unix::fs::FileExt::read_at).
    ///
    /// # Panics
    ///
    /// The future panics if polled outside of a runtime.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe: no cursor moves, and `buf` is changed only when the future
    /// completes.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::fs::File;
    ///
    /// # #[wakeful::main]
    /// # async fn main() -> std::io::Result<()> {
    /// # let path = std::env::temp_dir().join(format!("wakeful-doc-rat-{}", std::process::id()));
    /// # std::fs::write(&path, "hello, world")?;
    /// let file = File::open(&path).await?;
    /// let mut buf = [0; 100];
    /// let count = file.read_at(&mut buf, 7).await?;
    /// assert_eq!(&buf[..count], b"world");
    /// # std::fs::remove_file(&path)
    /// # }
    /// ```
    #[track_caller]
    #[inline]
    pub fn read_at<'a>(&'a self, buf: &'a mut [u8], offset: u64) -> ReadAt<'a> {
        ReadAt { file: self, buf, offset, reading: None, site: Location::caller() }
    }

    /// Reads at an offset until `buf` is full. The cursor does not move.
    ///
    /// # Errors
    ///
    /// Returns [`UnexpectedEof`](io::ErrorKind::UnexpectedEof) if the file ends before `buf` is
    /// full, and otherwise the same errors as [`read_at`](Self::read_at).
    ///
    /// # Panics
    ///
    /// The future panics if polled outside of a runtime.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe, since no cursor moves. If the future is dropped, part of `buf`
    /// may have been filled.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::fs::File;
    ///
    /// # #[wakeful::main]
    /// # async fn main() -> std::io::Result<()> {
    /// # let path = std::env::temp_dir().join(format!("wakeful-doc-rexat-{}", std::process::id()));
    /// # std::fs::write(&path, "hello, world")?;
    /// let file = File::open(&path).await?;
    /// let (mut first, mut second) = ([0; 5], [0; 5]);
    /// // Two reads of one file at the same time.
    /// let (a, b) =
    ///     wakeful::join!(file.read_exact_at(&mut first, 0), file.read_exact_at(&mut second, 7));
    /// a.and(b)?;
    /// assert_eq!((&first, &second), (b"hello", b"world"));
    /// # std::fs::remove_file(&path)
    /// # }
    /// ```
    #[track_caller]
    pub fn read_exact_at<'a>(&'a self, buf: &'a mut [u8], offset: u64) -> ReadExactAt<'a> {
        ReadExactAt { inner: self.read_at(buf, offset) }
    }

    /// Writes at an offset and returns the number of bytes written.
    ///
    /// The future completes when the bytes are in the file. A call writes at most
    /// [`max_buf_size`](Self::max_buf_size) bytes. The cursor does not move.
    ///
    /// If the file was opened with [`append`](crate::fs::OpenOptions::append), Linux writes at the
    /// end, regardless of the offset.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`FileExt::write_at`](std::os::unix::fs::FileExt::write_at).
    ///
    /// # Panics
    ///
    /// The future panics if polled outside of a runtime.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped after it was polled, the data may still be written. Later
    /// operations on the `File` wait for that.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::fs::File;
    ///
    /// # #[wakeful::main]
    /// # async fn main() -> std::io::Result<()> {
    /// # let path = std::env::temp_dir().join(format!("wakeful-doc-wat-{}", std::process::id()));
    /// let file = File::create(&path).await?;
    /// let count = file.write_at(b"x", 3).await?;
    /// assert_eq!(count, 1);
    /// assert_eq!(wakeful::fs::read(&path).await?, b"\0\0\0x");
    /// # std::fs::remove_file(&path)
    /// # }
    /// ```
    #[track_caller]
    pub fn write_at<'a>(&'a self, buf: &'a [u8], offset: u64) -> WriteAt<'a> {
        WriteAt { file: self, buf, offset, writing: None, site: Location::caller() }
    }

    /// Writes all of `buf` at an offset. The cursor does not move.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`write_at`](Self::write_at).
    ///
    /// # Panics
    ///
    /// The future panics if polled outside of a runtime.
    ///
    /// # Cancel safety
    ///
    /// This method is not cancel safe. If the future is dropped, part of `buf` may have been
    /// written.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::fs::File;
    ///
    /// # #[wakeful::main]
    /// # async fn main() -> std::io::Result<()> {
    /// # let path = std::env::temp_dir().join(format!("wakeful-doc-walat-{}", std::process::id()));
    /// let file = File::create(&path).await?;
    /// file.write_all_at(b"world", 7).await?;
    /// file.write_all_at(b"hello, ", 0).await?;
    /// assert_eq!(wakeful::fs::read(&path).await?, b"hello, world");
    /// # std::fs::remove_file(&path)
    /// # }
    /// ```
    #[track_caller]
    pub fn write_all_at<'a>(&'a self, buf: &'a [u8], offset: u64) -> WriteAllAt<'a> {
        WriteAllAt { inner: self.write_at(buf, offset) }
    }
}

/// Future returned by [`File::read_at`].
#[must_use = "futures do nothing unless polled"]
pub struct ReadAt<'a> {
    file: &'a File,
    buf: &'a mut [u8],
    offset: u64,
    reading: Option<OpFuture<Read>>,
    site: &'static Location<'static>,
}

impl ReadAt<'_> {
    /// Reads from the page cache, in chunks, while budget is left. `None` if the first chunk is not
    /// cached.
    #[inline]
    fn read_inline(&mut self) -> Option<io::Result<usize>> {
        let want = self.buf.len().min(self.file.max_buf_size);
        let mut done = 0;
        loop {
            let len = (want - done).min(page_cache::CHUNK);
            let (part, offset) = (&mut self.buf[done..done + len], self.offset + done as u64);
            match page_cache::read(&*self.file.descriptor, part, offset) {
                Attempt::Done(Ok(count)) => {
                    done += count;
                    if count < len || done == want {
                        return Some(Ok(done));
                    }
                }
                Attempt::Done(Err(error)) if done == 0 => {
                    return Some(Err(error));
                }
                Attempt::Unsupported if done == 0 => {
                    self.file.descriptor.disable_inline_reads();
                    return None;
                }
                _ if done == 0 => return None,
                _ => return Some(Ok(done)),
            }
            match coop::try_proceed() {
                Some(progress) => progress.made_progress(),
                None => return Some(Ok(done)),
            }
        }
    }
}

impl Future for ReadAt<'_> {
    type Output = io::Result<usize>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        if this.reading.is_none() {
            let progress = ready!(coop::poll_proceed(cx));
            let may_inline = page_cache::check_inline_allowed()?;
            let at = Position::offset(this.offset)?;
            ready!(this.file.queue.poll_idle(cx, this.site));
            if may_inline
                && this.file.descriptor.may_read_inline()
                && let Some(read) = this.read_inline()
            {
                progress.made_progress();
                return Poll::Ready(read);
            }
            let len = this.buf.len().min(this.file.max_buf_size);
            let file = this.file.descriptor.clone();
            let read = Read::new(file, vec![0; len], 0..len, at);
            this.reading = Some(OpFuture::new(read, this.site).on_file(&this.file.queue));
        }
        let reading = this.reading.as_mut().expect("started above, or in an earlier poll");
        let outcome = ready!(Pin::new(reading).poll(cx));
        this.reading = None;
        Poll::Ready(match outcome {
            Ok((count, buf)) => {
                this.buf[..count].copy_from_slice(&buf[..count]);
                Ok(count)
            }
            Err(error) => Err(error),
        })
    }
}

/// Future returned by [`File::read_exact_at`].
#[must_use = "futures do nothing unless polled"]
pub struct ReadExactAt<'a> {
    /// The inner `buf` is the part that is not filled yet.
    inner: ReadAt<'a>,
}

impl Future for ReadExactAt<'_> {
    type Output = io::Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            if self.inner.buf.is_empty() {
                return Poll::Ready(Ok(()));
            }
            match ready!(Pin::new(&mut self.inner).poll(cx)) {
                Ok(0) => {
                    let text = format!(
                        "the file ends {} bytes before the buffer is full",
                        self.inner.buf.len()
                    );
                    return Poll::Ready(Err(io::Error::new(io::ErrorKind::UnexpectedEof, text)));
                }
                Ok(count) => {
                    let buf = std::mem::take(&mut self.inner.buf);
                    self.inner.buf = &mut buf[count..];
                    self.inner.offset += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

/// Future returned by [`File::write_at`].
#[must_use = "futures do nothing unless polled"]
pub struct WriteAt<'a> {
    file: &'a File,
    buf: &'a [u8],
    offset: u64,
    writing: Option<(usize, OpFuture<Write>)>,
    site: &'static Location<'static>,
}

impl WriteAt<'_> {
    /// Writes to the page cache, if the file system can do that without blocking.
    fn write_inline(&self, data: &[u8]) -> Option<io::Result<usize>> {
        let descriptor = &self.file.descriptor;
        if !descriptor.may_write_inline() {
            return None;
        }
        match page_cache::write(&**descriptor, data, self.offset) {
            Attempt::Done(Ok(0)) | Attempt::WouldBlock => None,
            Attempt::Done(Ok(count)) => Some(Ok(count)),
            Attempt::Done(Err(error)) => Some(Err(error)),
            Attempt::Unsupported => {
                descriptor.disable_inline_writes();
                None
            }
        }
    }
}

impl Future for WriteAt<'_> {
    type Output = io::Result<usize>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        if this.writing.is_none() {
            let progress = ready!(coop::poll_proceed(cx));
            let may_inline = page_cache::check_inline_allowed()?;
            let at = Position::offset(this.offset)?;
            if this.file.has_read_ahead() {
                ready!(this.file.poll_ready_to_change(cx, this.site))?;
            }
            ready!(this.file.queue.poll_idle(cx, this.site));
            let data = &this.buf[..this.buf.len().min(this.file.max_buf_size)];
            if data.is_empty() {
                return Poll::Ready(Ok(0));
            }
            if may_inline && let Some(written) = this.write_inline(data) {
                progress.made_progress();
                return Poll::Ready(written);
            }
            let write = Write::new(this.file.descriptor.clone(), data.to_vec(), at);
            let writing = OpFuture::new(write, this.site).on_file(&this.file.queue);
            this.writing = Some((data.len(), writing));
        }
        let (len, writing) = this.writing.as_mut().expect("started above, or in an earlier poll");
        let (outcome, len) = (ready!(Pin::new(writing).poll(cx)), *len);
        this.writing = None;
        Poll::Ready(outcome.map(|()| len))
    }
}

/// Future returned by [`File::write_all_at`].
#[must_use = "futures do nothing unless polled"]
pub struct WriteAllAt<'a> {
    /// The inner `buf` is the part that is not written yet.
    inner: WriteAt<'a>,
}

impl Future for WriteAllAt<'_> {
    type Output = io::Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.inner.buf.is_empty() {
            let count = ready!(Pin::new(&mut self.inner).poll(cx))?;
            self.inner.buf = &self.inner.buf[count..];
            self.inner.offset += count as u64;
        }
        Poll::Ready(Ok(()))
    }
}
