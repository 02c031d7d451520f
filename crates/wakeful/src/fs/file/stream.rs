//! Reading and writing from the cursor on, and moving it.

use super::super::descriptor::Descriptor;
use super::super::fd_ops::{At, Read, Seek};
use super::super::operation::Operation;
use super::super::{operation, page_cache};
use super::{File, Seeking, Waiting};
use crate::io::{AsyncRead, AsyncSeek, AsyncWrite, ReadBuf};
use crate::runtime::context;
use crate::task::coop;
use crate::task::header::WaitKind;
use crate::wait;
use std::io::{self, IoSlice, SeekFrom};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

impl File {
    /// Waits for a seek that is under way, and says so.
    fn poll_seeking(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = self.inner().poll_seek_over(Waiting::Alone, cx);
        if polled.is_pending() {
            wait::waiting_on(WaitKind::FileOp, &*self.descriptor, self.site);
        }
        polled
    }

    /// Waits for a read that is under way, and says so.
    fn poll_reading(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let polled = self.inner().poll_read_over(Waiting::Alone, cx);
        if polled.is_pending() {
            wait::waiting_on(WaitKind::FileRead, &*self.descriptor, self.site);
        }
        polled
    }

    fn inner(&mut self) -> &mut super::Inner {
        self.inner.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Takes what is in memory, as much as the budget allows. Gives back whether
    /// that is the answer.
    fn read_inline(&mut self, dst: &mut ReadBuf<'_>) -> io::Result<bool> {
        use page_cache::Attempt;
        if !self.descriptor.may_read_inline() {
            return Ok(false);
        }
        let want = dst.remaining().min(self.max_buf_size);
        let mut got = 0;
        while got < want {
            // The first chunk is paid for.
            let progress = if got == 0 { None } else { coop::try_proceed() };
            if got > 0 && progress.is_none() {
                break;
            }
            let len = (want - got).min(page_cache::CHUNK);
            let room = dst.initialize_unfilled_to(len);
            let read = |file: &Descriptor| page_cache::read(file, room, page_cache::CURSOR);
            match self.descriptor.try_at_cursor(read).unwrap_or(Attempt::MustWait) {
                Attempt::Done(Ok(count)) => {
                    dst.advance(count);
                    got += count;
                    progress.inspect(|progress| progress.made_progress());
                    if count < len {
                        return Ok(true);
                    }
                }
                Attempt::Done(Err(error)) if got == 0 => {
                    return Err(error);
                }
                Attempt::Never if got == 0 => {
                    self.descriptor.never_read_inline();
                    return Ok(false);
                }
                Attempt::Done(Err(_)) | Attempt::MustWait | Attempt::Never => break,
            }
        }
        Ok(got > 0)
    }

    /// Before a write or a seek: nothing may be read ahead.
    fn poll_ready_to_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let inner = self.inner.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner());
        let polled = inner.poll_at_rest(&self.descriptor, Waiting::Alone, cx);
        if polled.is_pending() {
            wait::waiting_on(WaitKind::FileRead, &*self.descriptor, self.site);
        }
        polled
    }

    fn poll_write_parts(
        &mut self,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let progress = ready!(coop::poll_proceed(cx));
        let may_inline = page_cache::is_allowed()?;
        ready!(self.poll_ready_to_write(cx))?;
        if may_inline && let Some(written) = self.write_inline(parts) {
            progress.made_progress();
            return Poll::Ready(written);
        }
        let accepted = ready!(self.writer.poll_accept(
            &self.descriptor,
            parts,
            self.max_buf_size,
            cx,
            self.site
        ));
        progress.made_progress();
        Poll::Ready(accepted)
    }

    /// Writes at once where the file system can do that.
    fn write_inline(&mut self, parts: &[IoSlice<'_>]) -> Option<io::Result<usize>> {
        use page_cache::Attempt;
        if !self.descriptor.may_write_inline() || self.writer.is_busy() {
            return None;
        }
        if let Some(error) = self.writer.take_error() {
            return Some(Err(error));
        }
        let first = parts.iter().find(|part| !part.is_empty())?;
        let data = &first[..first.len().min(self.max_buf_size)];
        let write = |file: &Descriptor| page_cache::write(file, data, page_cache::CURSOR);
        match self.descriptor.try_at_cursor(write).unwrap_or(Attempt::MustWait) {
            Attempt::Done(Ok(0)) => None,
            Attempt::Done(Ok(count)) => Some(Ok(count)),
            Attempt::Done(Err(error)) => Some(Err(error)),
            Attempt::MustWait => None,
            Attempt::Never => {
                self.descriptor.never_write_inline();
                None
            }
        }
    }
}

impl AsyncRead for File {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        dst: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let progress = ready!(coop::poll_proceed(cx));
        let this = self.get_mut();
        // What was written before is there before it is read.
        ready!(this.writer.poll_idle(cx, this.site));
        if dst.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        let may_inline = page_cache::is_allowed()?;
        ready!(this.poll_seeking(cx))?;
        if this.inner().is_at_rest() {
            if may_inline && this.read_inline(dst)? {
                progress.made_progress();
                return Poll::Ready(Ok(()));
            }
            let len = dst.remaining().min(this.max_buf_size);
            let mut buf = std::mem::take(&mut this.inner().buf);
            buf.resize(len, 0);
            let file = this.descriptor.clone();
            let read = Read::new(file, buf, 0..len, At::Cursor);
            this.inner().reading = Some(operation::start(read));
        }
        ready!(this.poll_reading(cx))?;
        let inner = this.inner();
        let count = inner.unread().min(dst.remaining());
        dst.put_slice(&inner.buf[inner.start..inner.start + count]);
        inner.start += count;
        progress.made_progress();
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for File {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        src: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().poll_write_parts(cx, &[IoSlice::new(src)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().poll_write_parts(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let progress = ready!(coop::poll_proceed(cx));
        ready!(self.writer.poll_idle(cx, self.site));
        progress.made_progress();
        Poll::Ready(self.writer.take_error().map_or(Ok(()), Err))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }
}

impl AsyncSeek for File {
    fn start_seek(self: Pin<&mut Self>, position: SeekFrom) -> io::Result<()> {
        let this = self.get_mut();
        let inner = this.inner();
        if inner.reading.is_some() || inner.seeking.is_some() || this.writer.is_busy() {
            return Err(io::Error::other(
                "other file operation is pending, call poll_complete before start_seek",
            ));
        }
        let ahead = match this.descriptor.has_cursor() {
            true => this.inner().discard(),
            false => 0,
        };
        let position = match position {
            SeekFrom::Current(by) => SeekFrom::Current(by - ahead),
            other => other,
        };
        let file = this.descriptor.clone();
        match this.descriptor.try_seek(position) {
            Some(sought) => this.inner().sought = Some(sought),
            None if context::with_current(|_| ()).is_some() => {
                let seeking = operation::start(Seek { file, position });
                this.inner().seeking = Some(Seeking::Asked(seeking));
            }
            // No worker waits for it.
            None => this.inner().sought = Some(Seek { file, position }.run()),
        }
        Ok(())
    }

    fn poll_complete(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<u64>> {
        let progress = ready!(coop::poll_proceed(cx));
        let this = self.get_mut();
        ready!(this.writer.poll_idle(cx, this.site));
        ready!(this.poll_seeking(cx))?;
        let _ = ready!(this.poll_reading(cx));
        progress.made_progress();
        let inner = this.inner();
        match inner.sought.take() {
            Some(Ok(position)) => inner.position = position,
            Some(Err(error)) => return Poll::Ready(Err(error)),
            None => {}
        }
        Poll::Ready(Ok(inner.position))
    }
}
