//! Station 7 for bytes in memory: one direction between two tasks, with a capacity on
//! what lies in it. A task comes here from a read that finds nothing or a write
//! that finds no room; the other end's next call leads it on to station 8.
//!
//! Actors: the *reader* and the *writer*, one each at a time, and whoever closes.
//! Each does its work on the buffer under the lock, lets go of it, and then
//! calls the other end. Wakers never meet the lock.
//!
//! The race one fears: the reader finds nothing and leaves its waker, while the
//! writer puts something there and finds no waker. The reader looks again after
//! it left its waker. If that look comes before the writer's put, in the order of
//! the lock, then the waker was there before the writer calls, and is found;
//! otherwise the look finds what was put. The same with the roles exchanged.

use crate::io::ReadBuf;
use crate::sys::sync::Mutex;
use crate::task::coop;
use crate::task::header::WaitKind;
use crate::wait;
use crate::wait::atomic_waker::{AtomicWaker, Registered};
use std::collections::VecDeque;
use std::fmt;
use std::io::{self, IoSlice};
use std::panic::{Location, RefUnwindSafe, UnwindSafe};
use std::task::{Context, Poll, ready};

pub(in crate::io) struct Pipe {
    buffer: Mutex<Buffer>,
    /// Waits for something to read, or the end.
    reader: AtomicWaker,
    /// Waits for room, or the end.
    writer: AtomicWaker,
    /// How many bytes may lie in it.
    capacity: usize,
    /// Where it was made, for those who ask what a task waits for.
    site: &'static Location<'static>,
}

struct Buffer {
    bytes: VecDeque<u8>,
    /// Nothing more comes in. What is there can still be read.
    is_closed: bool,
}

// A panic leaves the bytes and the flag whole, and a waker in its waker_cell at the worst.
impl UnwindSafe for Pipe {}
impl RefUnwindSafe for Pipe {}

impl Pipe {
    /// # Panics
    ///
    /// If nothing may lie in it.
    #[track_caller]
    pub(in crate::io) fn new(capacity: usize) -> Self {
        assert!(capacity > 0, "`max_buf_size` must be greater than 0");
        Self {
            buffer: Mutex::new(Buffer { bytes: VecDeque::new(), is_closed: false }),
            reader: AtomicWaker::new(),
            writer: AtomicWaker::new(),
            capacity,
            site: Location::caller(),
        }
    }

    /// By the reader.
    pub(in crate::io) fn poll_read(
        &self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let progress = ready!(coop::poll_proceed(cx));
        let moved =
            ready!(self.poll(&self.reader, WaitKind::MemoryRead, cx, || self.try_read(buf)));
        progress.made_progress();
        if moved > 0 {
            self.writer.call().wake();
        }
        Poll::Ready(Ok(()))
    }

    /// How many bytes were moved to `buf`; `None` if they are still to come.
    fn try_read(&self, buf: &mut ReadBuf<'_>) -> Option<usize> {
        if buf.remaining() == 0 {
            return Some(0);
        }
        let mut buffer = self.buffer.lock();
        let (front, back) = buffer.bytes.as_slices();
        let from_front = front.len().min(buf.remaining());
        buf.put_slice(&front[..from_front]);
        let from_back = back.len().min(buf.remaining());
        buf.put_slice(&back[..from_back]);
        let moved = from_front + from_back;
        buffer.bytes.drain(..moved);
        (moved > 0 || buffer.is_closed).then_some(moved)
    }

    /// By the writer.
    pub(in crate::io) fn poll_write(
        &self,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let progress = ready!(coop::poll_proceed(cx));
        let moved =
            ready!(self.poll(&self.writer, WaitKind::MemoryWrite, cx, || self.try_write(bufs)));
        progress.made_progress();
        if let Ok(1..) = moved {
            self.reader.call().wake();
        }
        Poll::Ready(moved)
    }

    /// How many bytes were moved from `bufs`; `None` if there is no room yet.
    fn try_write(&self, bufs: &[IoSlice<'_>]) -> Option<io::Result<usize>> {
        let mut buffer = self.buffer.lock();
        if buffer.is_closed {
            return Some(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let mut moved = 0;
        for buf in bufs {
            let space = self.capacity - buffer.bytes.len();
            let accepted = &buf[..buf.len().min(space)];
            buffer.bytes.extend(accepted);
            moved += accepted.len();
        }
        let all_empty = bufs.iter().all(|buf| buf.is_empty());
        (moved > 0 || all_empty).then_some(Ok(moved))
    }

    /// Tries, and if there is no answer leaves the waker in `waker_cell`.
    fn poll<T>(
        &self,
        waker_cell: &AtomicWaker,
        kind: WaitKind,
        cx: &mut Context<'_>,
        mut attempt: impl FnMut() -> Option<T>,
    ) -> Poll<T> {
        if let Some(result) = attempt() {
            return Poll::Ready(result);
        }
        if waker_cell.register(cx.waker()) == Registered::Called {
            // There was news meanwhile: as if it had come a moment later.
            cx.waker().wake_by_ref();
        } else if let Some(result) = attempt() {
            waker_cell.forget();
            return Poll::Ready(result);
        }
        wait::waiting_on(kind, self, self.site);
        Poll::Pending
    }

    /// The writer writes no more.
    pub(in crate::io) fn close_writer(&self) {
        self.buffer.lock().is_closed = true;
        self.writer.forget();
        self.reader.call().wake();
    }

    /// The reader reads no more: what is there is dropped.
    pub(in crate::io) fn close_reader(&self) {
        let unread = {
            let mut buffer = self.buffer.lock();
            buffer.is_closed = true;
            std::mem::take(&mut buffer.bytes)
        };
        drop(unread);
        self.reader.forget();
        self.writer.call().wake();
    }
}

impl fmt::Debug for Pipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (len, is_closed) = {
            let buffer = self.buffer.lock();
            (buffer.bytes.len(), buffer.is_closed)
        };
        f.debug_struct("Pipe")
            .field("len", &len)
            .field("max_buf_size", &self.capacity)
            .field("is_closed", &is_closed)
            .finish()
    }
}
