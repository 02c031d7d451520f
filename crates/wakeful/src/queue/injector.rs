//! Station 3, the shared queue: for tasks woken or spawned by threads that are
//! no workers, and for what overflows a worker's ring.
//!
//! Protocol. Pushers put a task on a [`Stack`] with one exchange and never wait
//! for anybody. Takers hold the lock of `ready`, a list in arrival order, and
//! refill it by taking the whole stack at once and turning it round. So order is
//! kept, pushers and takers meet only in one exchange, and a taker that goes to
//! sleep inside the lock holds up takers only.
//!
//! The race one fears: a worker that is about to sleep finds the injector empty
//! while a taker is carrying tasks from the stack to `ready`, and the taker
//! keeps only one of them. So `ready_len` is raised *before* the stack is
//! emptied, and who asks looks at the stack first, at `ready_len` second: all
//! four steps are SeqCst, so a task that has left the stack is counted by then.
//! A push in progress may be missed; whoever pushes looks for sleepers *after*
//! the push.

use crate::sys::sync::Mutex;
use crate::sys::sync::atomic::{AtomicUsize, Ordering::*};
use crate::task::runnable::Runnable;
use crate::task::stack::Stack;
use std::collections::VecDeque;

/// Apart by two cache lines from what workers only read.
#[repr(align(128))]
pub(crate) struct Injector {
    arrived: Stack,
    ready: Mutex<VecDeque<Runnable>>,
    /// Tasks in `ready`, so that takers can pass by without the lock; at least
    /// one while they are on their way there.
    ready_len: AtomicUsize,
}

impl Injector {
    pub(crate) fn new() -> Self {
        Self {
            arrived: Stack::new(),
            ready: Mutex::new(VecDeque::new()),
            ready_len: AtomicUsize::new(0),
        }
    }

    /// Appends a task; gives it back if the injector is closed.
    #[inline]
    pub(crate) fn push(&self, task: Runnable) -> Result<(), Runnable> {
        let cell = task.into_cell();
        // SAFETY: the runnable was the only entry of this cell, so the link is
        // ours, and the entry keeps the cell alive.
        match unsafe { self.arrived.push(cell) } {
            Ok(()) => Ok(()),
            // SAFETY: not pushed, so the entry is still ours.
            Err(_) => Err(unsafe { Runnable::from_cell(cell) }),
        }
    }

    /// Appends many with one lock; for a ring that overflowed.
    pub(crate) fn push_batch(&self, tasks: impl IntoIterator<Item = Runnable>) {
        let mut ready = self.ready.lock();
        debug_assert!(!self.arrived.is_closed(), "nobody would ever take these");
        // What arrived before goes first.
        self.refill(&mut ready);
        ready.extend(tasks);
        self.ready_len.store(ready.len(), SeqCst);
    }

    /// Whether there is nothing to take. Part of the sleep protocol: a worker
    /// asks this after it has said that it is about to sleep.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.arrived.is_empty() && self.ready_len.load(SeqCst) == 0
    }

    /// How many tasks there are. For metrics: it takes the lock to count them.
    pub(crate) fn len(&self) -> usize {
        let mut ready = self.ready.lock();
        self.refill(&mut ready);
        self.ready_len.store(ready.len(), SeqCst);
        ready.len()
    }

    pub(crate) fn pop(&self) -> Option<Runnable> {
        if self.is_empty() {
            return None;
        }
        self.take(|_| 1, |_| unreachable!("one was asked for"))
    }

    /// Takes up to `share(ready)` tasks: the first is returned, the others go
    /// to `rest`.
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

    /// Moves what arrived into `ready`, under its lock; the caller stores the
    /// new length when it is done.
    fn refill(&self, ready: &mut VecDeque<Runnable>) {
        if self.arrived.is_empty() {
            return;
        }
        self.ready_len.store(ready.len() + 1, SeqCst);
        for cell in self.arrived.take_all().reversed() {
            // SAFETY: pushed as a Runnable and taken once.
            ready.push_back(unsafe { Runnable::from_cell(cell) });
        }
    }

    /// Closes the injector and takes what is left.
    pub(crate) fn close(&self) -> Vec<Runnable> {
        let mut ready = self.ready.lock();
        let mut left: Vec<Runnable> = ready.drain(..).collect();
        for cell in self.arrived.close().reversed() {
            // SAFETY: pushed as a Runnable and taken once.
            left.push(unsafe { Runnable::from_cell(cell) });
        }
        self.ready_len.store(0, SeqCst);
        left
    }
}
