//! Writing behind: what was accepted for a file waits in a queue, and whoever
//! writes takes all of it at once, then what has come meanwhile, until there is no
//! more. So a task that writes small pieces does not wait for each of them, and
//! what was accepted reaches the file although the `File` is dropped.
//!
//! - Q1. While `running`, exactly one [`Behind`] is under way, and takes what is in
//!   the queue before it ends. It ends, and lets go of the file, under the lock
//!   under which it found the queue empty.
//!
//! Beside them, changes that were begun and that nobody waits for any more: what
//! comes later waits for those as well.

use super::descriptor::Descriptor;
use super::fd_ops::{self, At, Write};
use super::operation::Step;
use super::operation::{self, Operation};
use crate::runtime::context::RuntimeRef;
use crate::task::header::WaitKind;
use crate::wait;
use crate::wait::wake_batch::wake_all;
use std::io::{self, IoSlice};
use std::panic::Location;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

pub(super) struct Writer {
    state: Mutex<State>,
    /// As [`State::is_busy`], to be looked at without the lock.
    busy: AtomicBool,
}

#[derive(Default)]
struct State {
    /// Accepted, and not yet taken by whoever writes.
    queue: Vec<u8>,
    /// A buffer for the next queue.
    spare: Vec<u8>,
    running: bool,
    /// Changes under way that nobody waits for.
    changing: usize,
    /// Other operations under way that nobody waits for.
    lingering: usize,
    /// What whoever writes came upon, until somebody is told.
    error: Option<io::Error>,
    /// Those who wait for room or for the end.
    waiting: Vec<Waker>,
    /// Where the one who writes was begun.
    running_on: Option<Arc<RuntimeRef>>,
    /// Where those were begun that nobody waits for.
    left_on: Vec<Arc<RuntimeRef>>,
}

/// Buffers up to this size are kept for the next time.
const KEEP: usize = 64 * 1024;

impl Writer {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), busy: AtomicBool::new(false) })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether something is on its way to the file.
    #[inline]
    pub(super) fn is_busy(&self) -> bool {
        self.busy.load(Acquire)
    }

    /// The error of an earlier write, once.
    pub(super) fn take_error(&self) -> Option<io::Error> {
        self.lock().error.take()
    }

    /// Waits until nothing is on its way.
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

    /// Waits until nobody but its owner has the file.
    pub(super) fn poll_alone(
        &self,
        cx: &mut Context<'_>,
        site: &'static Location<'static>,
    ) -> Poll<()> {
        self.wait_while(cx, site, |state| state.is_busy() || state.lingering > 0)
    }

    /// Nobody waits for an operation any more that is under way. If it changes the
    /// file, what comes later waits for it.
    pub(super) fn is_left_with(&self, changes: bool, begun_on: &Arc<RuntimeRef>) {
        let mut state = self.lock();
        *state.left(changes) += 1;
        state.left_on.push(begun_on.clone());
        self.busy.store(state.is_busy(), Release);
    }

    /// Such an operation is over.
    pub(super) fn has_landed(&self, changes: bool, begun_on: &Arc<RuntimeRef>) {
        let wakers = {
            let mut state = self.lock();
            *state.left(changes) -= 1;
            let left = state.left_on.iter().position(|other| Arc::ptr_eq(other, begun_on));
            // The caller has another.
            state.left_on.swap_remove(left.expect("it was left on its runtime"));
            self.busy.store(state.is_busy(), Release);
            std::mem::take(&mut state.waiting)
        };
        wake_all(wakers);
    }

    fn wait_while(
        &self,
        cx: &mut Context<'_>,
        site: &'static Location<'static>,
        blocked: impl FnOnce(&State) -> bool,
    ) -> Poll<()> {
        let waker = cx.waker().clone();
        let (running_on, left_on) = {
            let mut state = self.lock();
            if !blocked(&state) {
                return Poll::Ready(());
            }
            if !state.waiting.iter().any(|other| other.will_wake(&waker)) {
                state.waiting.push(waker);
            }
            (state.running_on.clone(), state.left_on.clone())
        };
        running_on.iter().chain(&left_on).for_each(|keeper| operation::attend(keeper));
        wait::waiting_on(WaitKind::FileWrite, self, site);
        Poll::Pending
    }

    /// Accepts as much of `parts` as there is room for below `limit`, and sees to
    /// it that somebody writes.
    pub(super) fn poll_accept(
        self: &Arc<Self>,
        file: &Arc<Descriptor>,
        parts: &[IoSlice<'_>],
        limit: usize,
        cx: &mut Context<'_>,
        site: &'static Location<'static>,
    ) -> Poll<io::Result<usize>> {
        loop {
            let blocked = |state: &State| {
                state.changing > 0 || state.error.is_none() && state.queue.len() >= limit
            };
            if self.wait_while(cx, site, blocked).is_pending() {
                return Poll::Pending;
            }
            let mut state = self.lock();
            if let Some(error) = state.error.take() {
                return Poll::Ready(Err(error));
            }
            let accepted = state.accept(parts, limit);
            if accepted == 0 && parts.iter().any(|part| !part.is_empty()) {
                continue; // another was faster
            }
            if accepted > 0 && !state.running {
                state.running = true;
                self.busy.store(true, Release);
                let behind = Behind {
                    write: Write::new(file.clone(), state.take_queue(), At::Cursor),
                    writer: self.clone(),
                };
                drop(state);
                let flight = operation::start(behind);
                let mut state = self.lock();
                if state.running {
                    state.running_on = Some(flight.keeper().clone());
                }
            }
            return Poll::Ready(Ok(accepted));
        }
    }

    /// A write is over. What follows: more data, or the end (Q1), with which
    /// `file` is let go of.
    fn next(&self, file: &mut Option<Arc<Descriptor>>, written: Written) -> Option<Vec<u8>> {
        let (next, wakers, over) = {
            let mut state = self.lock();
            state.keep(written.buffer);
            if let Err(error) = written.result {
                // What came after it would be in the wrong place.
                state.error = Some(error);
                state.queue.clear();
            }
            let next = (!state.queue.is_empty()).then(|| state.take_queue());
            let mut over = None;
            if next.is_none() {
                // If nobody else has the file, it is closed outside of the lock.
                over = Some((file.take().and_then(Arc::into_inner), state.running_on.take()));
                state.running = false;
                self.busy.store(state.is_busy(), Release);
            }
            (next, std::mem::take(&mut state.waiting), over)
        };
        drop(over);
        wake_all(wakers);
        next
    }
}

impl State {
    fn is_busy(&self) -> bool {
        self.running || self.changing > 0
    }

    fn left(&mut self, changes: bool) -> &mut usize {
        if changes { &mut self.changing } else { &mut self.lingering }
    }

    fn accept(&mut self, parts: &[IoSlice<'_>], limit: usize) -> usize {
        let before = self.queue.len();
        for part in parts {
            let room = limit.saturating_sub(self.queue.len());
            self.queue.extend_from_slice(&part[..part.len().min(room)]);
        }
        self.queue.len() - before
    }

    fn take_queue(&mut self) -> Vec<u8> {
        let spare = std::mem::take(&mut self.spare);
        std::mem::replace(&mut self.queue, spare)
    }

    fn keep(&mut self, mut buffer: Vec<u8>) {
        if buffer.capacity() <= KEEP {
            buffer.clear();
            self.spare = buffer;
        }
    }
}

/// One write of the queue's.
struct Written {
    buffer: Vec<u8>,
    result: io::Result<()>,
}

/// Writes what is in the queue, until there is nothing.
pub(super) struct Behind {
    write: Write,
    writer: Arc<Writer>,
}

impl Behind {
    /// The data at hand is written, or cannot be: the next, if there is more.
    fn next(self, result: io::Result<()>) -> Option<Self> {
        let Self { write: Write { file, data, .. }, writer } = self;
        let (mut file, written) = (Some(file), Written { buffer: data, result });
        let data = writer.next(&mut file, written)?;
        let file = file.expect("let go of at the end only");
        Some(Self { write: Write::new(file, data, At::Cursor), writer })
    }
}

impl Operation for Behind {
    type Output = ();
    const KIND: WaitKind = WaitKind::FileWrite;
    const MUST_FINISH: bool = true;
    const CODE: u8 = Write::CODE;

    fn entry(&mut self) -> Option<io_uring::squeue::Entry> {
        self.write.as_entry()
    }

    fn may_wait(&self) -> bool {
        self.write.may_wait()
    }

    fn landed(mut self, result: Result<u32, rustix::io::Errno>) -> Step<Self> {
        let result = match result {
            Ok(count) => match self.write.advance(count as usize) {
                fd_ops::Written::All => Ok(()),
                fd_ops::Written::Part => return Step::Again(self),
                fd_ops::Written::RestInPool => return Step::Elsewhere(self),
            },
            Err(error) => Err(error.into()),
        };
        match self.next(result) {
            Some(behind) => Step::Again(behind),
            None => Step::Done(Ok(())),
        }
    }

    fn run(mut self) -> io::Result<()> {
        loop {
            let result = self.write.write_rest();
            match self.next(result) {
                Some(behind) => self = behind,
                None => return Ok(()),
            }
        }
    }
}
