//! Stores the wakers of waiting tasks, so that a test can wake or lose them.
#![allow(dead_code, reason = "each test binary uses its own part of this")]

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Poll, Waker};

/// A list of wakers. Waiting tasks do not keep the list alive: dropping it drops all its
/// wakers.
#[derive(Default)]
pub struct WakerStore {
    shared: Arc<Mutex<Stored>>,
}

#[derive(Default)]
struct Stored {
    wakers: Vec<Waker>,
    open: bool,
}

fn lock(shared: &Mutex<Stored>) -> MutexGuard<'_, Stored> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl WakerStore {
    /// Waits until [`open`](Self::open), or forever if the store is dropped before.
    pub fn wait(&self) -> impl Future<Output = ()> + Send + use<> {
        let shared: Weak<Mutex<Stored>> = Arc::downgrade(&self.shared);
        std::future::poll_fn(move |cx| {
            let Some(shared) = shared.upgrade() else { return Poll::Pending };
            let mut stored = lock(&shared);
            if stored.open {
                return Poll::Ready(());
            }
            stored.wakers.push(cx.waker().clone());
            Poll::Pending
        })
    }

    /// Wakes all waiting tasks; later waits are ready at once.
    pub fn open(&self) {
        let wakers = {
            let mut stored = lock(&self.shared);
            stored.open = true;
            std::mem::take(&mut stored.wakers)
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Removes and returns the wakers.
    pub fn take(&self) -> Vec<Waker> {
        std::mem::take(&mut lock(&self.shared).wakers)
    }

    pub fn len(&self) -> usize {
        lock(&self.shared).wakers.len()
    }
}
