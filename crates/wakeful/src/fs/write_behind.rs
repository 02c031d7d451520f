//! Write-behind: writes to a file return as soon as their data is queued.
//!
//! A [`WriteBehind`] operation takes and writes the whole queue, repeatedly, until the queue is
//! empty. So a task that writes small pieces does not wait for each of them. Queued data reaches
//! the file even if its `File` is dropped.
//!
//! - WRITE-1. While `running`, exactly one [`WriteBehind`] is in flight. It takes all queued data
//!   before it ends. In the critical section in which it finds the queue empty, it clears `running`
//!   and drops its reference to the file.
//!
//! The queue also counts *detached* operations: those whose future was dropped before they
//! finished. Later operations wait for detached ones that change the file.

use super::descriptor::Descriptor;
use super::fd_ops::{Position, Write, WriteProgress};
use super::in_flight::{ensure_ring_is_driven, start};
use super::op::{Operation, Step};
use crate::runtime::context::RuntimeRef;
use crate::sys::sync::ignore_poison;
use crate::task::wait_kind::WaitKind;
use crate::wait;
use crate::wait::wake_batch::wake_all;
use std::io::{self, IoSlice};
use std::panic::Location;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

/// The queue of data that has yet to be written to one file.
pub(super) struct WriteQueue {
    state: Mutex<State>,
    /// A copy of [`State::is_busy`], readable without the lock. Stored with Release under the lock
    /// and loaded with Acquire, so that a reader that sees false sees the finished operations.
    busy: AtomicBool,
}

#[derive(Default)]
struct State {
    /// Accepted data that the [`WriteBehind`] has not taken yet.
    queue: Vec<u8>,
    /// An empty buffer for the next queue.
    spare: Vec<u8>,
    /// Whether a [`WriteBehind`] is in flight (WRITE-1).
    running: bool,
    /// The number of detached operations that change the file.
    detached_changes: usize,
    /// The number of detached operations that don't change the file.
    detached_others: usize,
    /// The error of an earlier write, until a call returns it.
    error: Option<io::Error>,
    /// Tasks that wait for space in the queue, or for operations to finish.
    wakers: Vec<Waker>,
    /// The runtime that the [`WriteBehind`] was started on.
    running_on: Option<Arc<RuntimeRef>>,
    /// The runtimes that the detached operations were started on.
    detached_on: Vec<Arc<RuntimeRef>>,
}

/// The largest buffer that is kept for the next queue.
const MAX_SPARE_CAPACITY: usize = 64 * 1024;

impl WriteQueue {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), busy: AtomicBool::new(false) })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        ignore_poison(self.state.lock())
    }

    /// Returns whether data is still to be written, or a detached change is in flight.
    #[inline]
    pub(super) fn is_busy(&self) -> bool {
        self.busy.load(Acquire)
    }

    /// Takes the error of an earlier write.
    pub(super) fn take_error(&self) -> Option<io::Error> {
        self.lock().error.take()
    }

    /// Waits until all data is written, and no detached change is in flight.
    pub(super) fn poll_idle(
        &self,
        cx: &mut Context<'_>,
        site: &'static Location<'static>,
    ) -> Poll<()> {
        if !self.is_busy() {
            return Poll::Ready(());
        }
        self.wait_while(cx, site, State::is_busy)
    }

    /// Waits until no operation of this queue uses the file any more.
    pub(super) fn poll_unused(
        &self,
        cx: &mut Context<'_>,
        site: &'static Location<'static>,
    ) -> Poll<()> {
        self.wait_while(cx, site, |state| state.is_busy() || state.detached_others > 0)
    }

    /// Counts an unfinished operation whose future was dropped.
    ///
    /// If it changes the file, later operations wait for it.
    pub(super) fn add_detached_op(&self, changes_file: bool, runtime: &Arc<RuntimeRef>) {
        let mut state = self.lock();
        *state.detached(changes_file) += 1;
        state.detached_on.push(runtime.clone());
        self.busy.store(state.is_busy(), Release);
    }

    /// Removes a finished operation that [`add_detached_op`](Self::add_detached_op) added.
    pub(super) fn finish_detached_op(&self, changes_file: bool, runtime: &Arc<RuntimeRef>) {
        let wakers = {
            let mut state = self.lock();
            *state.detached(changes_file) -= 1;
            let index = state.detached_on.iter().position(|other| Arc::ptr_eq(other, runtime));
            // Not the last reference: the caller has one.
            state.detached_on.swap_remove(index.expect("the operation was added"));
            self.busy.store(state.is_busy(), Release);
            std::mem::take(&mut state.wakers)
        };
        wake_all(wakers);
    }

    /// Waits while `is_blocked` returns true.
    fn wait_while(
        &self,
        cx: &mut Context<'_>,
        site: &'static Location<'static>,
        is_blocked: impl FnOnce(&State) -> bool,
    ) -> Poll<()> {
        let waker = cx.waker().clone();
        let (running_on, detached_on) = {
            let mut state = self.lock();
            if !is_blocked(&state) {
                return Poll::Ready(());
            }
            if !state.wakers.iter().any(|other| other.will_wake(&waker)) {
                state.wakers.push(waker);
            }
            (state.running_on.clone(), state.detached_on.clone())
        };
        running_on.iter().chain(&detached_on).for_each(|runtime| ensure_ring_is_driven(runtime));
        wait::record_wait(WaitKind::FileWrite, self, site);
        Poll::Pending
    }

    /// Queues as much of `parts` as fits into a queue of `limit` bytes. Starts a [`WriteBehind`] if
    /// none is in flight.
    pub(super) fn poll_accept(
        self: &Arc<Self>,
        file: &Arc<Descriptor>,
        parts: &[IoSlice<'_>],
        limit: usize,
        cx: &mut Context<'_>,
        site: &'static Location<'static>,
    ) -> Poll<io::Result<usize>> {
        loop {
            let is_blocked = |state: &State| {
                state.detached_changes > 0 || state.error.is_none() && state.queue.len() >= limit
            };
            if self.wait_while(cx, site, is_blocked).is_pending() {
                return Poll::Pending;
            }
            let mut state = self.lock();
            if let Some(error) = state.error.take() {
                return Poll::Ready(Err(error));
            }
            let accepted = state.accept(parts, limit);
            if accepted == 0 && parts.iter().any(|part| !part.is_empty()) {
                continue; // another task has filled the queue meanwhile
            }
            if accepted > 0 && !state.running {
                state.running = true;
                self.busy.store(true, Release);
                let write_behind = WriteBehind {
                    write: Write::new(file.clone(), state.take_queue(), Position::Cursor),
                    queue: self.clone(),
                };
                drop(state);
                let in_flight = start(write_behind);
                let mut state = self.lock();
                if state.running {
                    state.running_on = Some(in_flight.runtime().clone());
                }
            }
            return Poll::Ready(Ok(accepted));
        }
    }

    /// Processes the end of a write. Returns the next data to write.
    ///
    /// `None` ends the [`WriteBehind`] (WRITE-1), whose reference to `file` is dropped.
    fn next(&self, file: &mut Option<Arc<Descriptor>>, written: Written) -> Option<Vec<u8>> {
        let (next, wakers, unneeded) = {
            let mut state = self.lock();
            state.keep_spare(written.buffer);
            if let Err(error) = written.result {
                // Data after the failed write would be at the wrong position.
                state.error = Some(error);
                state.queue.clear();
            }
            let next = (!state.queue.is_empty()).then(|| state.take_queue());
            let mut unneeded = None;
            if next.is_none() {
                // If this was the last reference, the file is closed after the lock is released.
                unneeded = Some((file.take().and_then(Arc::into_inner), state.running_on.take()));
                state.running = false;
                self.busy.store(state.is_busy(), Release);
            }
            (next, std::mem::take(&mut state.wakers), unneeded)
        };
        drop(unneeded);
        wake_all(wakers);
        next
    }
}

impl State {
    fn is_busy(&self) -> bool {
        self.running || self.detached_changes > 0
    }

    fn detached(&mut self, changes_file: bool) -> &mut usize {
        if changes_file { &mut self.detached_changes } else { &mut self.detached_others }
    }

    fn accept(&mut self, parts: &[IoSlice<'_>], limit: usize) -> usize {
        let before = self.queue.len();
        for part in parts {
            let space = limit.saturating_sub(self.queue.len());
            self.queue.extend_from_slice(&part[..part.len().min(space)]);
        }
        self.queue.len() - before
    }

    fn take_queue(&mut self) -> Vec<u8> {
        let spare = std::mem::take(&mut self.spare);
        std::mem::replace(&mut self.queue, spare)
    }

    fn keep_spare(&mut self, mut buffer: Vec<u8>) {
        if buffer.capacity() <= MAX_SPARE_CAPACITY {
            buffer.clear();
            self.spare = buffer;
        }
    }
}

/// A finished write: its buffer, and its result.
struct Written {
    buffer: Vec<u8>,
    result: io::Result<()>,
}

/// Writes queued data until the queue is empty.
pub(super) struct WriteBehind {
    write: Write,
    queue: Arc<WriteQueue>,
}

impl WriteBehind {
    /// Processes the result of the current write. Returns the next one, if there is more data.
    fn next(self, result: io::Result<()>) -> Option<Self> {
        let Self { write: Write { file, data, .. }, queue } = self;
        let (mut file, written) = (Some(file), Written { buffer: data, result });
        let data = queue.next(&mut file, written)?;
        let file = file.expect("taken only at the end");
        Some(Self { write: Write::new(file, data, Position::Cursor), queue })
    }
}

impl Operation for WriteBehind {
    type Output = ();
    const WAIT_KIND: WaitKind = WaitKind::FileWrite;
    const MUST_FINISH: bool = true;
    const OPCODE: u8 = Write::OPCODE;

    fn submission_entry(&mut self) -> Option<io_uring::squeue::Entry> {
        self.write.entry()
    }

    fn may_block(&self) -> bool {
        self.write.may_block()
    }

    fn completed(mut self, result: Result<u32, rustix::io::Errno>) -> Step<Self> {
        let result = match result {
            Ok(count) => match self.write.advance(count as usize) {
                WriteProgress::All => Ok(()),
                WriteProgress::Part => return Step::Resubmit(self),
                WriteProgress::RestOnPool => return Step::RunOnPool(self),
            },
            Err(error) => Err(error.into()),
        };
        match self.next(result) {
            Some(next) => Step::Resubmit(next),
            None => Step::Done(Ok(())),
        }
    }

    fn run(mut self) -> io::Result<()> {
        loop {
            let result = self.write.write_rest();
            match self.next(result) {
                Some(next) => self = next,
                None => return Ok(()),
            }
        }
    }
}
