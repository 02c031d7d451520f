//! Station 7 for a set of local tasks: the wakers of whoever polls the set, woken
//! when one of its tasks is woken from outside of such a poll.
//!
//! Usually there is one poller. There may be several (two `run_until` futures of
//! one set in different tasks); then all of them are woken, since any of them may
//! be gone or stuck, and each that is polled lists itself again.
//!
//! Protocol, all SeqCst. Whoever hands a task over pushes it first and then looks
//! at `any`. The poller lists itself, which sets `any`, and then looks at the
//! queues once more before it returns `Pending`. At least one sees the other.
//!
//! Wakers are foreign code: they are cloned, woken and dropped outside of the
//! lock.

use crate::sys::sync::Mutex;
use crate::sys::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::Waker;

pub(super) struct Pollers {
    list: Mutex<List>,
    /// The list is not empty; written under its lock.
    any: AtomicBool,
}

/// Room for the usual one without an allocation.
#[derive(Default)]
struct List {
    first: Option<Waker>,
    others: Vec<Waker>,
}

impl List {
    fn has(&self, waker: &Waker) -> bool {
        self.first.iter().chain(&self.others).any(|listed| listed.will_wake(waker))
    }
}

impl Pollers {
    pub(super) fn new() -> Self {
        Self { list: Mutex::new(List::default()), any: AtomicBool::new(false) }
    }

    /// Lists a waker, unless it is there already. Only the thread of the set
    /// does this.
    pub(super) fn add(&self, waker: &Waker) {
        // Only this thread ever sets `any`, so "none" is not out of date.
        if self.any.load(SeqCst) && self.list.lock().has(waker) {
            return;
        }
        let waker = waker.clone();
        let mut list = self.list.lock();
        match &list.first {
            None => list.first = Some(waker),
            Some(_) => list.others.push(waker),
        }
        self.any.store(true, SeqCst);
    }

    fn take(&self) -> List {
        let mut list = self.list.lock();
        self.any.store(false, SeqCst);
        std::mem::take(&mut *list)
    }

    /// Wakes everybody on the list and empties it.
    ///
    /// Touches nothing of the set after the first waker was woken: that may be
    /// the end of the set.
    pub(super) fn wake(&self) {
        if !self.any.load(SeqCst) {
            return;
        }
        let List { first, others } = self.take();
        for waker in first.into_iter().chain(others) {
            waker.wake();
        }
    }

    /// Empties the list: nobody polls the set any more.
    pub(super) fn forget(&self) {
        if self.any.load(SeqCst) {
            drop(self.take());
        }
    }
}
