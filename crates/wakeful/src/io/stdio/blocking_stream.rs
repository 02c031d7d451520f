//! The way of bytes between a task and the threads of the blocking pool.
//!
//! One closure at a time is on its way, with the buffer in its hands. A read waits
//! for it. A write is accepted as soon as the buffer is free, and what becomes of it
//! is told to whoever writes or flushes next.

use crate::io::ReadBuf;
use crate::runtime::context;
use crate::runtime::shutdown_error::shutting_down;
use crate::runtime::task_api::blocking;
use crate::sys::eintr::uninterrupted;
use crate::task::wait_kind::WaitKind;
use crate::task::{JoinHandle, coop};
use crate::wait;
use std::io;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// The most that is read or written at once.
const MOST: usize = 2 * 1024 * 1024;

#[derive(Debug)]
pub(super) struct Lane {
    /// Between closures: what was read and nobody has taken yet, from `taken` on;
    /// otherwise of use for its memory only.
    buf: Vec<u8>,
    taken: usize,
    /// The closure that is on its way.
    on_its_way: Option<JoinHandle<Done>>,
    /// Something was written since the last flush.
    is_unflushed: bool,
    name: &'static str,
    kind: WaitKind,
    /// Where the stream was asked for.
    site: &'static Location<'static>,
}

/// What comes back from the pool.
struct Done {
    buf: Vec<u8>,
    result: io::Result<()>,
}

/// A closure with its buffer, on its way to the pool.
struct Job<F: FnOnce(&mut Vec<u8>) -> io::Result<()>> {
    buf: Vec<u8>,
    work: Option<F>,
    mandatory: bool,
}

impl<F: FnOnce(&mut Vec<u8>) -> io::Result<()>> Job<F> {
    fn run(mut self) -> Done {
        let result = self.work.take().map_or(Ok(()), |work| work(&mut self.buf));
        Done { buf: std::mem::take(&mut self.buf), result }
    }
}

impl<F: FnOnce(&mut Vec<u8>) -> io::Result<()>> Drop for Job<F> {
    /// Dropped instead of run: the pool was closed at this very moment. What was
    /// accepted is written here.
    fn drop(&mut self) {
        if let Some(work) = self.work.take()
            && self.mandatory
        {
            let _ = work(&mut self.buf);
        }
    }
}

impl Lane {
    pub(super) fn new(
        name: &'static str,
        kind: WaitKind,
        site: &'static Location<'static>,
    ) -> Self {
        Self { buf: Vec::new(), taken: 0, on_its_way: None, is_unflushed: false, name, kind, site }
    }

    /// Sends the buffer to the pool with a closure, which runs even if the runtime is
    /// shut down before, if it is `mandatory`.
    ///
    /// # Panics
    ///
    /// Outside of a runtime.
    fn send(
        &mut self,
        mandatory: bool,
        work: impl FnOnce(&mut Vec<u8>) -> io::Result<()> + Send + 'static,
    ) {
        let job = Job { buf: std::mem::take(&mut self.buf), work: Some(work), mandatory };
        let closure = move || job.run();
        let sent = context::with_current(|shared| {
            blocking::spawn_blocking_on(shared, closure, Some(self.name), mandatory)
        });
        match sent {
            Some(handle) => self.on_its_way = Some(handle),
            None => crate::runtime::task_api::spawn::no_runtime(),
        }
    }

    /// Waits until nothing is on its way; answers what became of what was.
    fn poll_back(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(handle) = &mut self.on_its_way else {
            ready!(coop::poll_proceed(cx)).made_progress();
            return Poll::Ready(Ok(()));
        };
        let Poll::Ready(joined) = Pin::new(handle).poll(cx) else {
            wait::record_wait(self.kind, self, self.site);
            return Poll::Pending;
        };
        self.on_its_way = None;
        Poll::Ready(match joined {
            Ok(done) => {
                self.buf = done.buf;
                self.taken = 0;
                done.result
            }
            Err(error) if error.is_cancelled() => Err(shutting_down()),
            Err(error) => Err(io::Error::other(format!("{}: {error}", self.name))),
        })
    }

    /// Fills `out` with what was read, reading more if there is nothing.
    pub(super) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
        read: fn(&mut [u8]) -> io::Result<usize>,
    ) -> Poll<io::Result<()>> {
        if out.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        if self.on_its_way.is_none() && self.taken == self.buf.len() {
            let room = out.remaining().min(MOST);
            self.send(false, move |buf| {
                buf.resize(room, 0);
                let count = uninterrupted(|| read(buf));
                buf.truncate(*count.as_ref().unwrap_or(&0));
                count.map(drop)
            });
        }
        ready!(self.poll_back(cx))?;
        // Nothing at all is the end.
        let there = &self.buf[self.taken..];
        let count = there.len().min(out.remaining());
        out.put_slice(&there[..count]);
        self.taken += count;
        Poll::Ready(Ok(()))
    }

    /// Accepts up to [`MOST`] bytes, once those before are written.
    pub(super) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
        write: fn(&[u8]) -> io::Result<()>,
    ) -> Poll<io::Result<usize>> {
        if bytes.is_empty() {
            return Poll::Ready(Ok(0));
        }
        ready!(self.poll_back(cx))?;
        // Otherwise it would be accepted, and nobody told.
        if context::with_current(|shared| shared.pool.is_closed()) == Some(true) {
            return Poll::Ready(Err(shutting_down()));
        }
        let bytes = &bytes[..bytes.len().min(MOST)];
        self.buf.clear();
        self.buf.extend_from_slice(bytes);
        self.is_unflushed = true;
        self.send(true, move |buf| write(buf));
        Poll::Ready(Ok(bytes.len()))
    }

    /// Waits until everything is written and out of std's buffer.
    pub(super) fn poll_flush(
        &mut self,
        cx: &mut Context<'_>,
        flush: fn() -> io::Result<()>,
    ) -> Poll<io::Result<()>> {
        loop {
            if self.on_its_way.is_some() {
                ready!(self.poll_back(cx))?;
            }
            if !std::mem::take(&mut self.is_unflushed) {
                return Poll::Ready(Ok(()));
            }
            self.send(true, move |_| flush());
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[test]
    fn what_was_accepted_is_written_even_if_the_pool_takes_nothing_any_more() {
        let written = Arc::new(Mutex::new(Vec::new()));
        for mandatory in [true, false] {
            let written = written.clone();
            let work = move |buf: &mut Vec<u8>| {
                written.lock().unwrap().extend_from_slice(buf);
                Ok(())
            };
            drop(Job { buf: vec![u8::from(mandatory)], work: Some(work), mandatory });
        }
        assert_eq!(*written.lock().unwrap(), [1]);
    }
}
