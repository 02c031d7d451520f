//! Station 3, the injector: the queue that all workers share.
//!
//! Threads other than the workers push the tasks that they wake or spawn. A worker pushes the
//! overflow of its ring. The tasks of a stuck or lost worker are also moved to the injector.
//!
//! # Protocol
//!
//! A pusher of one task puts it on a [`Stack`] with one compare-exchange and never blocks. A pusher
//! of a batch and a taker take the lock of `ready`, a list in arrival order. They refill `ready` by
//! taking the whole stack and reversing it. So the order is kept, and a pusher of one task shares
//! only one atomic word with takers. A taker that is preempted inside the lock delays other takers
//! and batches, but no pusher of one task.
//!
//! The race to fear: a taker moves tasks from the stack to `ready` and keeps only one of them.
//! Meanwhile a worker that is about to sleep finds the injector empty. It cannot happen:
//! `ready_len` is raised *before* the stack is emptied, and `is_empty` reads the stack first and
//! `ready_len` second. All four operations are SeqCst, so a task that has left the stack is
//! counted. A push in progress may be missed, but its pusher checks for sleeping workers *after*
//! the push.

use crate::sys::sync::Mutex;
use crate::sys::sync::atomic::{AtomicUsize, Ordering::*};
use crate::task::runnable::Runnable;
use crate::task::stack::Stack;
use std::collections::VecDeque;
use std::mem;
// std's atomic even in models, because it is not part of a protocol.
use std::sync::atomic::AtomicU64;

/// The queue that all workers share, aligned to two cache lines against false sharing.
#[repr(align(128))]
pub(crate) struct Injector {
    arrived: Stack,
    ready: Mutex<VecDeque<Runnable>>,
    /// The length of `ready`, readable without the lock. At least 1 while tasks move from the stack
    /// to `ready`.
    ready_len: AtomicUsize,
    /// The number of tasks that were pushed singly and have left the stack. Written under the lock
    /// of `ready` when the stack is emptied, so that a push does not pay for it.
    arrived_total: AtomicU64,
}

impl Injector {
    pub(crate) fn new() -> Self {
        Self {
            arrived: Stack::new(),
            ready: Mutex::new(VecDeque::new()),
            ready_len: AtomicUsize::new(0),
            arrived_total: AtomicU64::new(0),
        }
    }

    /// Appends a task, or returns it if the injector is closed.
    #[inline]
    pub(crate) fn push(&self, task: Runnable) -> Result<(), Runnable> {
        let cell = task.into_cell();
        // SAFETY: the runnable was the only entry of this cell (TASK-4), so the caller owns the
        // link, and the entry keeps the cell alive.
        match unsafe { self.arrived.push(cell) } {
            Ok(()) => Ok(()),
            // SAFETY: the entry was not pushed, so the caller still owns it.
            Err(_) => Err(unsafe { Runnable::from_cell(cell) }),
        }
    }

    /// Appends many tasks under one lock. The injector must be open.
    pub(crate) fn push_batch(&self, tasks: impl IntoIterator<Item = Runnable>) {
        let mut ready = self.ready.lock();
        debug_assert!(!self.arrived.is_closed(), "no worker takes from a closed injector");
        // Tasks that arrived earlier go first.
        self.refill(&mut ready);
        ready.extend(tasks);
        self.ready_len.store(ready.len(), SeqCst);
    }

    /// Returns whether the injector has no tasks.
    ///
    /// Part of the sleep protocol: a worker calls this after it has announced that it is about to
    /// sleep.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.arrived.is_empty() && self.ready_len.load(SeqCst) == 0
    }

    /// Returns the number of tasks, for metrics. Takes the lock and refills `ready` to count them.
    pub(crate) fn len(&self) -> usize {
        let mut ready = self.ready.lock();
        self.refill(&mut ready);
        self.ready_len.store(ready.len(), SeqCst);
        ready.len()
    }

    /// Returns how many tasks were pushed singly and how many were taken, for metrics.
    ///
    /// Takes the lock to count the tasks. Tasks of a batch do not count, but those in the queue
    /// reduce the second number, which is therefore exact only for an injector without batches.
    pub(crate) fn arrived_and_taken(&self) -> (u64, u64) {
        let mut ready = self.ready.lock();
        if !self.arrived.is_closed() {
            self.refill(&mut ready);
            self.ready_len.store(ready.len(), SeqCst);
        }
        let arrived = self.arrived_total.load(Relaxed);
        (arrived, arrived.saturating_sub(ready.len() as u64))
    }

    fn count_arrived(&self, tasks: usize) {
        self.arrived_total.store(self.arrived_total.load(Relaxed) + tasks as u64, Relaxed);
    }

    pub(crate) fn pop(&self) -> Option<Runnable> {
        if self.is_empty() {
            return None;
        }
        self.take(|_| 1, |_| unreachable!("one task was requested"))
    }

    /// Takes up to `share(ready)` tasks. Returns the first, and passes the others to `rest`.
    #[inline]
    pub(crate) fn take(
        &self,
        share: impl FnOnce(usize) -> usize,
        rest: impl FnMut(Runnable),
    ) -> Option<Runnable> {
        if self.is_empty() { None } else { self.take_some(share, rest) }
    }

    #[inline(never)]
    fn take_some(
        &self,
        share: impl FnOnce(usize) -> usize,
        rest: impl FnMut(Runnable),
    ) -> Option<Runnable> {
        let mut ready = self.ready.lock();
        self.refill(&mut ready);
        let count = share(ready.len()).clamp(1, ready.len().max(1)) - 1;
        let first = ready.pop_front();
        let count = count.min(ready.len());
        ready.drain(..count).for_each(rest);
        self.ready_len.store(ready.len(), SeqCst);
        first
    }

    /// Moves the tasks of the stack to `ready`, whose lock the caller holds. The caller must then
    /// store the new length.
    fn refill(&self, ready: &mut VecDeque<Runnable>) {
        if self.arrived.is_empty() {
            return;
        }
        let before = ready.len();
        self.ready_len.store(before + 1, SeqCst);
        for cell in self.arrived.take_all().reversed() {
            // SAFETY: pushed as a Runnable, and taken out once.
            ready.push_back(unsafe { Runnable::from_cell(cell) });
        }
        self.count_arrived(ready.len() - before);
    }

    /// Closes the injector and takes all tasks.
    pub(crate) fn close(&self) -> Vec<Runnable> {
        let mut ready = self.ready.lock();
        let mut left = Vec::from(mem::take(&mut *ready));
        let before = left.len();
        for cell in self.arrived.close().reversed() {
            // SAFETY: pushed as a Runnable, and taken out once.
            left.push(unsafe { Runnable::from_cell(cell) });
        }
        self.count_arrived(left.len() - before);
        self.ready_len.store(0, SeqCst);
        left
    }
}
