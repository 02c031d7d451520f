//! A place where tests keep the wakers of tasks that wait, to wake them or to lose them.
#![allow(dead_code, reason = "each test binary uses its own part of this")]

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Poll, Waker};

/// Holds wakers. Who waits does not keep the shelf alive: dropping it loses all wakers on it.
#[derive(Default)]
pub struct Shelf {
    shared: Arc<Mutex<Shelved>>,
}

#[derive(Default)]
struct Shelved {
    wakers: Vec<Waker>,
    open: bool,
}

fn lock(shared: &Mutex<Shelved>) -> MutexGuard<'_, Shelved> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shelf {
    /// Waits until [`open`](Self::open), or for ever if the shelf goes before.
    pub fn wait(&self) -> impl Future<Output = ()> + Send + use<> {
        let shared: Weak<Mutex<Shelved>> = Arc::downgrade(&self.shared);
        std::future::poll_fn(move |cx| {
            let Some(shared) = shared.upgrade() else { return Poll::Pending };
            let mut shelved = lock(&shared);
            if shelved.open {
                return Poll::Ready(());
            }
            shelved.wakers.push(cx.waker().clone());
            Poll::Pending
        })
    }

    /// Ends all waiting, now and in the future.
    pub fn open(&self) {
        let wakers = {
            let mut shelved = lock(&self.shared);
            shelved.open = true;
            std::mem::take(&mut shelved.wakers)
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Takes the wakers off the shelf.
    pub fn take(&self) -> Vec<Waker> {
        std::mem::take(&mut lock(&self.shared).wakers)
    }

    pub fn len(&self) -> usize {
        lock(&self.shared).wakers.len()
    }
}
