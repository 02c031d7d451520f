//! Reads, writes and seeks at the cursor.

use super::super::descriptor::Descriptor;
use super::super::fd_ops::{Position, Read, Seek};
use super::super::in_flight::start;
use super::super::op::Operation;
use super::super::page_cache::{self, Attempt};
use super::File;
use super::cursor::{CursorState, Seeking, Waiters};
use crate::io::{AsyncRead, AsyncSeek, AsyncWrite, ReadBuf};
use crate::runtime::context;
use crate::task::coop;
use crate::task::futile::{self, FutileKind};
use crate::task::wait_kind::WaitKind;
use crate::task::wait_target::TargetWord;
use crate::wait;
use std::io::{self, IoSlice, SeekFrom};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

impl File {
    /// Records a wait of a poll method, which has no call site of its own.
    fn record_polled_wait(&self, kind: WaitKind) {
        let target = TargetWord::of_address(&*self.descriptor);
        wait::record_wait_at_resource(kind, target, self.site);
    }

    /// Waits until no write is queued or in flight.
    fn poll_queue_idle(&self, cx: &mut Context<'_>) -> Poll<()> {
        let polled = self.queue.poll_idle(cx, self.site);
        if polled.is_pending() {
            self.record_polled_wait(WaitKind::FileWrite);
        }
        polled
    }

    /// Waits for a seek in flight and records the wait.
    fn poll_seeking(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = self.cursor_mut().poll_seek_finished(Waiters::One, cx);
        if polled.is_pending() {
            self.record_polled_wait(WaitKind::FileOp);
        }
        polled
    }

    /// Waits for a read in flight and records the wait.
    fn poll_reading(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let polled = self.cursor_mut().poll_read_finished(Waiters::One, cx);
        if polled.is_pending() {
            self.record_polled_wait(WaitKind::FileRead);
        }
        polled
    }

    /// Counts a repeated return of the end of the file.
    #[cold]
    fn count_eof(&mut self) {
        if std::mem::replace(&mut self.has_reached_eof, true) {
            let address = std::ptr::from_ref(&*self.descriptor).addr() as u64;
            futile::count(FutileKind::FileRead, address, None);
        }
    }

    fn cursor_mut(&mut self) -> &mut CursorState {
        self.cursor.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Reads from the page cache, as far as the budget allows. Returns whether the read is
    /// complete.
    fn read_inline(&mut self, dst: &mut ReadBuf<'_>) -> io::Result<bool> {
        if !self.descriptor.may_read_inline() {
            return Ok(false);
        }
        let want = dst.remaining().min(self.max_buf_size);
        let mut done = 0;
        while done < want {
            // The caller has spent the budget for the first chunk.
            let progress = if done == 0 { None } else { coop::try_proceed() };
            if done > 0 && progress.is_none() {
                break;
            }
            let len = (want - done).min(page_cache::CHUNK);
            let part = dst.initialize_unfilled_to(len);
            let read = |file: &Descriptor| page_cache::read(file, part, page_cache::CURSOR);
            match self.descriptor.try_with_cursor(read).unwrap_or(Attempt::WouldBlock) {
                Attempt::Done(Ok(count)) => {
                    dst.advance(count);
                    done += count;
                    progress.inspect(|progress| progress.made_progress());
                    if count < len {
                        return Ok(true);
                    }
                }
                Attempt::Done(Err(error)) if done == 0 => {
                    return Err(error);
                }
                Attempt::Unsupported if done == 0 => {
                    self.descriptor.disable_inline_reads();
                    return Ok(false);
                }
                Attempt::Done(Err(_)) | Attempt::WouldBlock | Attempt::Unsupported => break,
            }
        }
        Ok(done > 0)
    }

    /// Waits until a write may begin: no operation is in flight at the cursor, and no data was read
    /// ahead.
    fn poll_ready_to_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let cursor = self.cursor.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner());
        let polled = cursor.poll_cursor_settled(&self.descriptor, Waiters::One, cx);
        if polled.is_pending() {
            self.record_polled_wait(WaitKind::FileRead);
        }
        polled
    }

    fn poll_write_parts(
        &mut self,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let progress = ready!(coop::poll_proceed(cx));
        let may_inline = page_cache::check_inline_allowed()?;
        ready!(self.poll_ready_to_write(cx))?;
        if may_inline && let Some(written) = self.write_inline(parts) {
            progress.made_progress();
            return Poll::Ready(written);
        }
        let limit = self.max_buf_size;
        let accepted = self.queue.poll_accept(&self.descriptor, parts, limit, cx, self.site);
        match accepted {
            Poll::Ready(_) => progress.made_progress(),
            Poll::Pending => self.record_polled_wait(WaitKind::FileWrite),
        }
        accepted
    }

    /// Writes to the page cache, if the file system can do that without blocking.
    fn write_inline(&mut self, parts: &[IoSlice<'_>]) -> Option<io::Result<usize>> {
        if !self.descriptor.may_write_inline() || self.queue.is_busy() {
            return None;
        }
        if let Some(error) = self.queue.take_error() {
            return Some(Err(error));
        }
        let first = parts.iter().find(|part| !part.is_empty())?;
        let data = &first[..first.len().min(self.max_buf_size)];
        let write = |file: &Descriptor| page_cache::write(file, data, page_cache::CURSOR);
        match self.descriptor.try_with_cursor(write).unwrap_or(Attempt::WouldBlock) {
            Attempt::Done(Ok(0)) => None,
            Attempt::Done(Ok(count)) => Some(Ok(count)),
            Attempt::Done(Err(error)) => Some(Err(error)),
            Attempt::WouldBlock => None,
            Attempt::Unsupported => {
                self.descriptor.disable_inline_writes();
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
        // A read sees all data that was written before.
        ready!(this.poll_queue_idle(cx));
        if dst.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        let may_inline = page_cache::check_inline_allowed()?;
        ready!(this.poll_seeking(cx))?;
        if this.cursor_mut().is_idle() {
            let room = dst.remaining();
            if may_inline && this.read_inline(dst)? {
                progress.made_progress();
                if dst.remaining() == room {
                    this.count_eof();
                }
                return Poll::Ready(Ok(()));
            }
            let len = dst.remaining().min(this.max_buf_size);
            let mut buf = std::mem::take(&mut this.cursor_mut().buf);
            buf.resize(len, 0);
            let file = this.descriptor.clone();
            let read = Read::new(file, buf, 0..len, Position::Cursor);
            this.cursor_mut().reading = Some(start(read));
        }
        ready!(this.poll_reading(cx))?;
        let cursor = this.cursor_mut();
        let count = cursor.unread().min(dst.remaining());
        let is_end = count == 0;
        dst.put_slice(&cursor.buf[cursor.start..cursor.start + count]);
        cursor.start += count;
        progress.made_progress();
        if is_end {
            this.count_eof();
        }
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
        ready!(self.poll_queue_idle(cx));
        progress.made_progress();
        Poll::Ready(self.queue.take_error().map_or(Ok(()), Err))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }
}

impl AsyncSeek for File {
    fn start_seek(self: Pin<&mut Self>, position: SeekFrom) -> io::Result<()> {
        let this = self.get_mut();
        let cursor = this.cursor_mut();
        if cursor.reading.is_some() || cursor.seeking.is_some() || this.queue.is_busy() {
            return Err(io::Error::other(
                "other file operation is pending, call poll_complete before start_seek",
            ));
        }
        let ahead = match this.descriptor.has_cursor() {
            true => this.cursor_mut().discard(),
            false => 0,
        };
        let position = match position {
            SeekFrom::Current(by) => SeekFrom::Current(by - ahead),
            other => other,
        };
        let file = this.descriptor.clone();
        match this.descriptor.try_seek(position) {
            Some(result) => this.cursor_mut().seek_result = Some(result),
            None if context::with_current(|_| ()).is_some() => {
                let seeking = start(Seek { file, position });
                this.cursor_mut().seeking = Some(Seeking::Requested(seeking));
            }
            // Outside of a runtime the calling thread may block.
            None => this.cursor_mut().seek_result = Some(Seek { file, position }.run()),
        }
        Ok(())
    }

    fn poll_complete(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<u64>> {
        let progress = ready!(coop::poll_proceed(cx));
        let this = self.get_mut();
        ready!(this.poll_queue_idle(cx));
        ready!(this.poll_seeking(cx))?;
        let _ = ready!(this.poll_reading(cx));
        progress.made_progress();
        let cursor = this.cursor_mut();
        match cursor.seek_result.take() {
            Some(Ok(position)) => cursor.position = position,
            Some(Err(error)) => return Poll::Ready(Err(error)),
            None => {}
        }
        Poll::Ready(Ok(cursor.position))
    }
}
