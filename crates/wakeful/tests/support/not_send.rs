//! A value that is not `Send`, a log of the threads that dropped such values, and a counting waker.
#![allow(dead_code, reason = "each test binary uses its own part of this")]

use std::cell::RefCell;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};
use std::thread::{self, ThreadId};

/// The threads on which the values of this log were dropped.
#[derive(Clone, Default)]
pub struct DropLog(Arc<Mutex<Vec<ThreadId>>>);

/// A value that is not `Send`, and logs the thread on which it is dropped.
pub struct NotSend {
    log: DropLog,
    _not_send: PhantomData<Rc<()>>,
}

impl DropLog {
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a value whose drop is logged here.
    pub fn not_send(&self) -> NotSend {
        NotSend { log: self.clone(), _not_send: PhantomData }
    }

    fn threads(&self) -> Vec<ThreadId> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Asserts that `count` values were dropped so far, all on this thread.
    #[track_caller]
    pub fn assert_dropped_here(&self, count: usize) {
        let threads = self.threads();
        assert_eq!(threads.len(), count, "the number of drops");
        let here = thread::current().id();
        assert!(threads.iter().all(|&at| at == here), "dropped on {threads:?}, not on {here:?}");
    }
}

impl Drop for NotSend {
    fn drop(&mut self) {
        let mut log = self.log.0.lock().unwrap_or_else(PoisonError::into_inner);
        log.push(thread::current().id());
    }
}

/// Records events of one thread in order.
#[derive(Clone, Default)]
pub struct Trace(Rc<RefCell<Vec<String>>>);

impl Trace {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn note(&self, event: impl Into<String>) {
        self.0.borrow_mut().push(event.into());
    }

    /// Removes and returns the events so far.
    pub fn take(&self) -> Vec<String> {
        self.0.take()
    }
}

/// A waker that counts how often it is woken.
#[derive(Default)]
pub struct CountingWaker {
    woken: AtomicUsize,
}

impl Wake for CountingWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.fetch_add(1, SeqCst);
    }
}

impl CountingWaker {
    pub fn new() -> (Arc<Self>, Waker) {
        let counting = Arc::new(Self::default());
        (counting.clone(), Waker::from(counting))
    }

    /// Returns the number of wakes since the last call, and resets it.
    pub fn take(&self) -> usize {
        self.woken.swap(0, SeqCst)
    }

    /// Returns the number of references besides the two that `new` returned.
    pub fn other_clones(self: &Arc<Self>) -> usize {
        Arc::strong_count(self) - 2
    }
}
