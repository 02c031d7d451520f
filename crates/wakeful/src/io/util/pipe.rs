//! [`Pipe`]: a bounded in-memory pipe for one direction between two tasks.
//!
//! A task waits in the pipe after a read that finds no data or a write that finds no space. The
//! next operation of the other end wakes it.
//!
//! Actors: the *reader*, the *writer*, one each at a time, and a thread that closes an end. Each
//! accesses the buffer under the lock, releases the lock, and then wakes the other end. No waker
//! runs under the lock.
//!
//! The race to fear: the reader finds no data and registers its waker, while the writer adds data
//! and finds no waker. It cannot happen, because the reader tries again after it has registered.
//! The lock orders that second try and the writer's access. If the try comes first, the waker is
//! registered before the writer wakes, and is found. Otherwise the try finds the data. The same
//! holds with the roles exchanged. (Model: `models/pipe.rs`.)

use crate::io::ReadBuf;
use crate::sys::sync::Mutex;
use crate::task::coop;
use crate::task::futile::{self, FutileKind};
use crate::task::wait_kind::WaitKind;
use crate::task::wait_target::TargetWord;
use crate::wait;
use crate::wait::atomic_waker::{AtomicWaker, Registered};
use std::collections::VecDeque;
use std::fmt;
use std::io::{self, IoSlice};
use std::panic::{Location, RefUnwindSafe, UnwindSafe};
use std::task::{Context, Poll, ready};

/// A bounded in-memory pipe.
pub(in crate::io) struct Pipe {
    buffer: Mutex<Buffer>,
    /// Wakes the reader when there is data, or at the end.
    reader: AtomicWaker,
    /// Wakes the writer when there is space, or when the pipe is closed.
    writer: AtomicWaker,
    /// The maximum number of buffered bytes.
    capacity: usize,
    /// Where the pipe was created, for diagnostics.
    site: &'static Location<'static>,
}

/// The buffered bytes and whether the pipe is closed.
struct Buffer {
    bytes: VecDeque<u8>,
    /// Whether an end is closed. Buffered bytes can still be read.
    is_closed: bool,
    /// Whether the end of the data was returned.
    has_reached_eof: bool,
}

// A panic leaves the bytes and the flag consistent. At worst a waker stays registered.
impl UnwindSafe for Pipe {}
impl RefUnwindSafe for Pipe {}

impl Pipe {
    /// Creates an empty pipe.
    ///
    /// # Panics
    ///
    /// Panics if `capacity` is 0.
    #[track_caller]
    pub(in crate::io) fn new(capacity: usize) -> Self {
        assert!(capacity > 0, "`max_buf_size` must be greater than 0");
        Self {
            buffer: Mutex::new(Buffer {
                bytes: VecDeque::new(),
                is_closed: false,
                has_reached_eof: false,
            }),
            reader: AtomicWaker::new(),
            writer: AtomicWaker::new(),
            capacity,
            site: Location::caller(),
        }
    }

    /// Polls a read and wakes the writer if bytes were removed.
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
            self.writer.take().wake();
        } else if buf.remaining() > 0 {
            self.count_eof();
        }
        Poll::Ready(Ok(()))
    }

    /// Counts a repeated return of the end of the data.
    #[cold]
    fn count_eof(&self) {
        if std::mem::replace(&mut self.buffer.lock().has_reached_eof, true) {
            futile::count(FutileKind::MemoryRead, std::ptr::from_ref(self).addr() as u64, None);
        }
    }

    /// Moves buffered bytes to `buf` and returns how many; `None` if the reader has to wait.
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

    /// Polls a write and wakes the reader if bytes were added.
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
            self.reader.take().wake();
        }
        Poll::Ready(moved)
    }

    /// Moves bytes from `bufs` to the buffer and returns how many; `None` if the writer has to
    /// wait.
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

    /// Calls `attempt` and registers the waker in `waker_cell` if it has no result.
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
        if waker_cell.register(cx.waker()) == Registered::Notified {
            // The other end woke this cell during the registration, which consumed the wake-up.
            // Wake again.
            cx.waker().wake_by_ref();
        } else if let Some(result) = attempt() {
            waker_cell.deregister();
            return Poll::Ready(result);
        }
        wait::record_wait_at_resource(kind, TargetWord::of_address(self), self.site);
        Poll::Pending
    }

    /// Closes the pipe from the write end and wakes the reader.
    pub(in crate::io) fn close_writer(&self) {
        self.buffer.lock().is_closed = true;
        self.writer.deregister();
        self.reader.take().wake();
    }

    /// Closes the pipe from the read end, discards buffered bytes and wakes the writer.
    pub(in crate::io) fn close_reader(&self) {
        let unread = {
            let mut buffer = self.buffer.lock();
            buffer.is_closed = true;
            std::mem::take(&mut buffer.bytes)
        };
        drop(unread);
        self.reader.deregister();
        self.writer.take().wake();
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
