//! Things that may not leave their thread, and a log of where they were dropped.
#![allow(dead_code, reason = "each test binary uses its own part of this")]

use std::cell::RefCell;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};
use std::thread::{self, ThreadId};

/// Where and how often things of one kind were dropped.
#[derive(Clone, Default)]
pub struct DropLog(Arc<Mutex<Vec<ThreadId>>>);

/// Not `Send`; notes in its log on which thread it was dropped.
pub struct Stays {
    log: DropLog,
    _not_send: PhantomData<Rc<()>>,
}

impl DropLog {
    pub fn new() -> Self {
        Self::default()
    }

    /// A thing whose drop is logged here.
    pub fn stays(&self) -> Stays {
        Stays { log: self.clone(), _not_send: PhantomData }
    }

    fn threads(&self) -> Vec<ThreadId> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Asserts that so many were dropped until now, all of them on this thread.
    #[track_caller]
    pub fn assert_dropped_here(&self, count: usize) {
        let threads = self.threads();
        assert_eq!(threads.len(), count, "dropped so often");
        let here = thread::current().id();
        assert!(threads.iter().all(|&at| at == here), "dropped on {threads:?}, not on {here:?}");
    }
}

impl Drop for Stays {
    fn drop(&mut self) {
        let mut log = self.log.0.lock().unwrap_or_else(PoisonError::into_inner);
        log.push(thread::current().id());
    }
}

/// Events in the order in which they came, on one thread.
#[derive(Clone, Default)]
pub struct Trace(Rc<RefCell<Vec<String>>>);

impl Trace {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn note(&self, event: impl Into<String>) {
        self.0.borrow_mut().push(event.into());
    }

    /// The events so far; the trace starts anew.
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

    /// How often it was woken since this was asked last.
    pub fn take(&self) -> usize {
        self.woken.swap(0, SeqCst)
    }

    /// How many references there are besides the two that `new` gave out.
    pub fn kept_elsewhere(self: &Arc<Self>) -> usize {
        Arc::strong_count(self) - 2
    }
}
