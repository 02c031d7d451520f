//! Reading and writing with an offset, without a cursor: from any number of tasks
//! at once.

use super::super::fd_ops::{At, Read, Write};
use super::super::operation::Perform;
use super::super::page_cache;
use super::File;
use crate::task::coop;
use std::io;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

impl File {
    /// Reads at an offset, at most as much as `buf` has room for and
    /// [`max_buf_size`](Self::max_buf_size) allows. The cursor stays where it is.
    /// Gives how much it was: zero at the end of the file.
    ///
    /// Writes that were accepted before are there to be read.
    ///
    /// # Errors
    ///
    /// As [`read_at`](std::os::unix::fs::FileExt::read_at) of std.
    ///
    /// # Panics
    ///
    /// When it is polled outside of a runtime.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: there is no cursor that would have moved. `buf` is touched only
    /// when the future is ready.
    #[track_caller]
    #[inline]
    pub fn read_at<'a>(&'a self, buf: &'a mut [u8], offset: u64) -> ReadAt<'a> {
        ReadAt { file: self, buf, offset, reading: None, site: Location::caller() }
    }

    /// Reads at an offset until `buf` is full.
    ///
    /// # Errors
    ///
    /// [`UnexpectedEof`](io::ErrorKind::UnexpectedEof) if the file ends before,
    /// and as [`read_at`](Self::read_at).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, as [`read_at`](Self::read_at); part of `buf` may have been
    /// filled.
    #[track_caller]
    pub fn read_exact_at<'a>(&'a self, buf: &'a mut [u8], offset: u64) -> ReadExactAt<'a> {
        ReadExactAt { inner: self.read_at(buf, offset) }
    }

    /// Writes at an offset, at most [`max_buf_size`](Self::max_buf_size) bytes, and
    /// waits until they are in the file. The cursor stays where it is. Gives how
    /// much it was. (To a file opened with
    /// [`append`](super::OpenOptions::append), Linux writes at the end, whatever
    /// the offset.)
    ///
    /// # Errors
    ///
    /// As [`write_at`](std::os::unix::fs::FileExt::write_at) of std.
    ///
    /// # Panics
    ///
    /// When it is polled outside of a runtime.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped after it was polled, the data is written all the
    /// same, before what is done with the `File` later.
    #[track_caller]
    pub fn write_at<'a>(&'a self, buf: &'a [u8], offset: u64) -> WriteAt<'a> {
        WriteAt { file: self, buf, offset, writing: None, site: Location::caller() }
    }

    /// Writes all of `buf` at an offset.
    ///
    /// # Errors
    ///
    /// As [`write_at`](Self::write_at).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, part of `buf` may have been written.
    #[track_caller]
    pub fn write_all_at<'a>(&'a self, buf: &'a [u8], offset: u64) -> WriteAllAt<'a> {
        WriteAllAt { inner: self.write_at(buf, offset) }
    }
}

/// Reads at an offset; from [`File::read_at`].
#[must_use = "futures do nothing unless polled"]
pub struct ReadAt<'a> {
    file: &'a File,
    buf: &'a mut [u8],
    offset: u64,
    reading: Option<Perform<Read>>,
    site: &'static Location<'static>,
}

impl ReadAt<'_> {
    /// Takes what is in memory, in chunks, as long as there is budget. None: what
    /// is needed is not there.
    #[inline]
    fn read_inline(&mut self) -> Option<io::Result<usize>> {
        use page_cache::Attempt;
        let want = self.buf.len().min(self.file.max_buf_size);
        let mut got = 0;
        loop {
            let len = (want - got).min(page_cache::CHUNK);
            let (room, offset) = (&mut self.buf[got..got + len], self.offset + got as u64);
            match page_cache::read(&*self.file.descriptor, room, offset) {
                Attempt::Done(Ok(count)) => {
                    got += count;
                    if count < len || got == want {
                        return Some(Ok(got));
                    }
                }
                Attempt::Done(Err(error)) if got == 0 => {
                    return Some(Err(error));
                }
                Attempt::Never if got == 0 => {
                    self.file.descriptor.never_read_inline();
                    return None;
                }
                _ if got == 0 => return None,
                _ => return Some(Ok(got)),
            }
            match coop::try_proceed() {
                Some(progress) => progress.made_progress(),
                None => return Some(Ok(got)),
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
            let may_inline = page_cache::is_allowed()?;
            let at = At::offset(this.offset)?;
            ready!(this.file.writer.poll_idle(cx, this.site));
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
            this.reading = Some(Perform::new(read, this.site).about(&this.file.writer));
        }
        let reading = this.reading.as_mut().expect("just begun, or before");
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

/// Reads at an offset until its buffer is full; from [`File::read_exact_at`].
#[must_use = "futures do nothing unless polled"]
pub struct ReadExactAt<'a> {
    /// `buf` is what is still to be filled.
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
                    let text = format!("the file ends {} bytes too early", self.inner.buf.len());
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

/// Writes at an offset; from [`File::write_at`].
#[must_use = "futures do nothing unless polled"]
pub struct WriteAt<'a> {
    file: &'a File,
    buf: &'a [u8],
    offset: u64,
    writing: Option<(usize, Perform<Write>)>,
    site: &'static Location<'static>,
}

impl WriteAt<'_> {
    /// Writes at once where the file system can do that.
    fn write_inline(&self, data: &[u8]) -> Option<io::Result<usize>> {
        use page_cache::Attempt;
        let descriptor = &self.file.descriptor;
        if !descriptor.may_write_inline() {
            return None;
        }
        match page_cache::write(&**descriptor, data, self.offset) {
            Attempt::Done(Ok(0)) | Attempt::MustWait => None,
            Attempt::Done(Ok(count)) => Some(Ok(count)),
            Attempt::Done(Err(error)) => Some(Err(error)),
            Attempt::Never => {
                descriptor.never_write_inline();
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
            let may_inline = page_cache::is_allowed()?;
            let at = At::offset(this.offset)?;
            if this.file.has_read_ahead() {
                ready!(this.file.poll_ready_to_change(cx, this.site))?;
            }
            ready!(this.file.writer.poll_idle(cx, this.site));
            let data = &this.buf[..this.buf.len().min(this.file.max_buf_size)];
            if data.is_empty() {
                return Poll::Ready(Ok(0));
            }
            if may_inline && let Some(written) = this.write_inline(data) {
                progress.made_progress();
                return Poll::Ready(written);
            }
            let write = Write::new(this.file.descriptor.clone(), data.to_vec(), at);
            let writing = Perform::new(write, this.site).about(&this.file.writer);
            this.writing = Some((data.len(), writing));
        }
        let (len, writing) = this.writing.as_mut().expect("just begun, or before");
        let (outcome, len) = (ready!(Pin::new(writing).poll(cx)), *len);
        this.writing = None;
        Poll::Ready(outcome.map(|()| len))
    }
}

/// Writes all of its buffer at an offset; from [`File::write_all_at`].
#[must_use = "futures do nothing unless polled"]
pub struct WriteAllAt<'a> {
    /// `buf` is what is still to be written.
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
