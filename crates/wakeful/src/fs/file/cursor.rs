//! State of a file's cursor: reads and seeks in flight, and their results.

use super::super::descriptor::Descriptor;
use super::super::fd_ops::{Read, Seek};
use super::super::in_flight::{InFlightOp, start};
use super::super::op::Operation;
use std::io::{self, SeekFrom};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// Reads and seeks of a [`File`](super::File) that are in flight, and their results.
#[derive(Default)]
pub(super) struct CursorState {
    /// Data that was read but not yet returned, starting at `start`. Only reads that could not be
    /// done inline leave data here.
    pub(super) buf: Vec<u8>,
    pub(super) start: usize,
    pub(super) reading: Option<Arc<InFlightOp<Read>>>,
    pub(super) seeking: Option<Seeking>,
    /// The position after the last seek.
    pub(super) position: u64,
    /// The result of a seek that `poll_complete` has not returned yet.
    pub(super) seek_result: Option<io::Result<u64>>,
}

/// A seek in flight.
pub(super) enum Seeking {
    /// Requested by the program.
    Requested(Arc<InFlightOp<Seek>>),
    /// Moves the cursor back over data that was read ahead.
    Rewind(Arc<InFlightOp<Seek>>),
}

/// The number of tasks that may wait for an operation at the cursor.
#[derive(Clone, Copy)]
pub(super) enum Waiters {
    /// One, which has exclusive access to the file.
    One,
    /// Several, which share the file.
    Many,
}

impl Waiters {
    fn poll<T: Operation>(
        self,
        in_flight: &InFlightOp<T>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<T::Output>> {
        match self {
            Waiters::One => in_flight.poll(cx),
            Waiters::Many => in_flight.poll_shared(cx),
        }
    }
}

impl CursorState {
    /// Returns the number of bytes that were read but not yet returned.
    pub(super) fn unread(&self) -> usize {
        self.buf.len() - self.start
    }

    /// Returns whether no read is in flight and no data was read ahead.
    pub(super) fn is_idle(&self) -> bool {
        self.reading.is_none() && self.unread() == 0
    }

    /// Discards data that was read ahead, and returns the number of bytes by which the cursor is
    /// ahead.
    pub(super) fn discard(&mut self) -> i64 {
        let ahead = self.unread() as i64;
        self.buf.clear();
        self.start = 0;
        ahead
    }

    /// Waits for a seek in flight. Returns its error only if the program did not request the seek.
    pub(super) fn poll_seek_finished(
        &mut self,
        waiters: Waiters,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let Some(seeking) = &self.seeking else { return Poll::Ready(Ok(())) };
        let result = match seeking {
            Seeking::Requested(in_flight) => {
                self.seek_result = Some(ready!(waiters.poll(in_flight, cx)));
                Ok(())
            }
            Seeking::Rewind(in_flight) => ready!(waiters.poll(in_flight, cx)).map(drop),
        };
        self.seeking = None;
        Poll::Ready(result)
    }

    /// Waits for a read in flight, keeping its data.
    pub(super) fn poll_read_finished(
        &mut self,
        waiters: Waiters,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let Some(reading) = &self.reading else { return Poll::Ready(Ok(self.unread())) };
        let outcome = ready!(waiters.poll(reading, cx));
        self.reading = None;
        self.start = 0;
        Poll::Ready(outcome.map(|(count, buf)| {
            self.buf = buf;
            self.buf.truncate(count);
            count
        }))
    }

    /// Waits until the cursor is where the program expects it: no operation is in flight there, and
    /// no data was read ahead. A file without a cursor keeps its data.
    pub(super) fn poll_cursor_settled(
        &mut self,
        file: &Arc<Descriptor>,
        waiters: Waiters,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.poll_seek_finished(waiters, cx))?;
        // The read's future was dropped, so no caller needs its error.
        let _ = ready!(self.poll_read_finished(waiters, cx));
        if self.unread() == 0 || !file.has_cursor() {
            return Poll::Ready(Ok(()));
        }
        let back = SeekFrom::Current(-self.discard());
        match file.try_seek(back) {
            Some(result) => Poll::Ready(result.map(drop)),
            None => {
                let seek = Seek { file: file.clone(), position: back };
                self.seeking = Some(Seeking::Rewind(start(seek)));
                self.poll_seek_finished(waiters, cx)
            }
        }
    }
}

impl Drop for CursorState {
    fn drop(&mut self) {
        if let Some(reading) = &self.reading {
            reading.abandon();
        }
        if let Some(Seeking::Requested(seeking) | Seeking::Rewind(seeking)) = &self.seeking {
            seeking.abandon();
        }
    }
}
