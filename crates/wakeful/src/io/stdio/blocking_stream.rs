//! [`BlockingStream`], which moves bytes between a task and threads of the blocking pool.
//!
//! At most one job is in flight, and owns the buffer while it runs. A read waits for its job. A
//! write is accepted as soon as the buffer is free; its result is returned by the next write or
//! flush.

use crate::io::ReadBuf;
use crate::runtime::context;
use crate::runtime::shutdown_error::shutting_down;
use crate::runtime::task_api::blocking;
use crate::sys::eintr::uninterrupted;
use crate::task::futile::{self, FutileKind};
use crate::task::wait_kind::WaitKind;
use crate::task::wait_target::TargetWord;
use crate::task::{JoinHandle, coop};
use crate::wait;
use std::io;
use std::panic::Location;
use std::task::{Context, Poll, ready};

/// The maximum number of bytes that one job reads or writes.
const MAX_CHUNK: usize = 2 * 1024 * 1024;

/// One direction of a standard stream.
#[derive(Debug)]
pub(super) struct BlockingStream {
    /// Between two reads, the bytes that were read, of which the first `consumed` are consumed.
    /// Otherwise kept only for its allocation.
    buf: Vec<u8>,
    consumed: usize,
    /// The submitted job that has not been joined yet.
    in_flight: Option<JoinHandle<JobOutput>>,
    /// Whether bytes were written since the last flush.
    needs_flush: bool,
    /// Whether the end of the data was returned.
    has_reached_eof: bool,
    name: &'static str,
    kind: WaitKind,
    /// The caller of `stdin`, `stdout` or `stderr`.
    site: &'static Location<'static>,
}

/// The result of a job.
struct JobOutput {
    buf: Vec<u8>,
    result: io::Result<()>,
}

/// A closure and its buffer, on the way to the pool.
struct Job<F: FnOnce(&mut Vec<u8>) -> io::Result<()>> {
    buf: Vec<u8>,
    work: Option<F>,
    mandatory: bool,
}

impl<F: FnOnce(&mut Vec<u8>) -> io::Result<()>> Job<F> {
    fn run(mut self) -> JobOutput {
        let result = self.work.take().map_or(Ok(()), |work| work(&mut self.buf));
        JobOutput { buf: std::mem::take(&mut self.buf), result }
    }
}

impl<F: FnOnce(&mut Vec<u8>) -> io::Result<()>> Drop for Job<F> {
    /// Runs a mandatory job that the pool dropped because it was being closed: its bytes were
    /// already accepted.
    fn drop(&mut self) {
        if let Some(work) = self.work.take()
            && self.mandatory
        {
            let _ = work(&mut self.buf);
        }
    }
}

impl BlockingStream {
    pub(super) fn new(
        name: &'static str,
        kind: WaitKind,
        site: &'static Location<'static>,
    ) -> Self {
        Self {
            buf: Vec::new(),
            consumed: 0,
            in_flight: None,
            needs_flush: false,
            has_reached_eof: false,
            name,
            kind,
            site,
        }
    }

    /// Submits a closure with the buffer to the pool.
    ///
    /// A `mandatory` closure runs even if the runtime shuts down first.
    ///
    /// # Panics
    ///
    /// Panics if called outside of a runtime.
    fn submit(
        &mut self,
        mandatory: bool,
        work: impl FnOnce(&mut Vec<u8>) -> io::Result<()> + Send + 'static,
    ) {
        let job = Job { buf: std::mem::take(&mut self.buf), work: Some(work), mandatory };
        let closure = move || job.run();
        let submitted = context::with_current(|shared| {
            blocking::spawn_internal(shared, closure, Some(self.name), mandatory)
        });
        match submitted {
            Some(handle) => self.in_flight = Some(handle),
            None => crate::runtime::task_api::spawn::no_runtime(),
        }
    }

    /// Polls until no job is in flight, and returns the result of the last one.
    fn poll_job(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(handle) = &mut self.in_flight else {
            ready!(coop::poll_proceed(cx)).made_progress();
            return Poll::Ready(Ok(()));
        };
        let Poll::Ready(joined) = handle.poll_unrecorded(cx) else {
            wait::record_wait_at_resource(self.kind, TargetWord::of_address(self), self.site);
            return Poll::Pending;
        };
        self.in_flight = None;
        Poll::Ready(match joined {
            Ok(done) => {
                self.buf = done.buf;
                self.consumed = 0;
                done.result
            }
            Err(error) if error.is_cancelled() => Err(shutting_down()),
            Err(error) => Err(io::Error::other(format!("{}: {error}", self.name))),
        })
    }

    /// Polls a read: moves buffered bytes to `out`, or submits a read job if the buffer is empty.
    pub(super) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
        read: fn(&mut [u8]) -> io::Result<usize>,
    ) -> Poll<io::Result<()>> {
        if out.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        if self.in_flight.is_none() && self.consumed == self.buf.len() {
            let max_len = out.remaining().min(MAX_CHUNK);
            self.submit(false, move |buf| {
                buf.resize(max_len, 0);
                let count = uninterrupted(|| read(buf));
                buf.truncate(*count.as_ref().unwrap_or(&0));
                count.map(drop)
            });
        }
        ready!(self.poll_job(cx))?;
        // An empty buffer is the end of the data.
        let unread = &self.buf[self.consumed..];
        if unread.is_empty() && std::mem::replace(&mut self.has_reached_eof, true) {
            futile::count(FutileKind::StdinRead, 0, None);
        }
        let count = unread.len().min(out.remaining());
        out.put_slice(&unread[..count]);
        self.consumed += count;
        Poll::Ready(Ok(()))
    }

    /// Polls until the previous bytes are written, then accepts up to [`MAX_CHUNK`] bytes.
    pub(super) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
        write: fn(&[u8]) -> io::Result<()>,
    ) -> Poll<io::Result<usize>> {
        if bytes.is_empty() {
            return Poll::Ready(Ok(0));
        }
        ready!(self.poll_job(cx))?;
        // Otherwise the bytes would be accepted and their error never reported.
        if context::with_current(|shared| shared.pool.is_closed()) == Some(true) {
            return Poll::Ready(Err(shutting_down()));
        }
        let bytes = &bytes[..bytes.len().min(MAX_CHUNK)];
        self.buf.clear();
        self.buf.extend_from_slice(bytes);
        self.needs_flush = true;
        self.submit(true, move |buf| write(buf));
        Poll::Ready(Ok(bytes.len()))
    }

    /// Polls until all accepted bytes are written and std's buffer is empty.
    pub(super) fn poll_flush(
        &mut self,
        cx: &mut Context<'_>,
        flush: fn() -> io::Result<()>,
    ) -> Poll<io::Result<()>> {
        loop {
            if self.in_flight.is_some() {
                ready!(self.poll_job(cx))?;
            }
            if !std::mem::take(&mut self.needs_flush) {
                return Poll::Ready(Ok(()));
            }
            self.submit(true, move |_| flush());
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[test]
    fn accepted_bytes_are_written_even_if_the_pool_is_closed() {
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
