//! Parks and unparks one thread: station 6, a worker without tasks.
//!
//! # Protocol
//!
//! `state` has three values:
//!
//! ```text
//! diagram
//!             park()                unpark()
//!   EMPTY ────────────► PARKED ──────────────► NOTIFIED
//!     ▲                   │ timeout, spurious      │
//!     └───────────────────┴──────── park() ◄───────┘
//! ```
//!
//! NOTIFIED is a token: [`Parker::unpark`] sets it, and the next [`Parker::park`] returns at once.
//! So "set a flag, then unpark" never loses the flag: the swap in `unpark` releases, and the swap
//! in `park` acquires.
//!
//! A thread that waits in a poller does not change `state`. It stores `in_wait`, and then checks
//! for a token. A thread that sets a token checks `in_wait` afterwards. All four accesses are
//! SeqCst, so at least one of the two threads sees the other's store. Such a wait costs one SeqCst
//! store.

use crate::sys::membarrier;
use crate::sys::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};
use crate::sys::sync::{Mutex, Thread, thread};
use std::sync::Arc;
use std::time::Duration;

const EMPTY: u32 = 0;
const PARKED: u32 = 1;
const NOTIFIED: u32 = 2;

/// A wait other than a plain park, such as `epoll_wait`, that other threads can end.
pub(crate) trait Interrupt: Send + Sync {
    /// Ends the current wait, or the next one.
    fn interrupt(&self);
}

/// Parks the thread that created it. Any thread can unpark that thread.
pub(crate) struct Parker {
    state: AtomicU32,
    /// The thread is in an interruptible wait, is about to enter one, or has just left it.
    in_wait: AtomicBool,
    thread: Thread,
    /// Ends the interruptible wait.
    interrupt: Mutex<Option<Arc<dyn Interrupt>>>,
}

impl Parker {
    /// Creates a parker for the calling thread.
    pub(crate) fn for_current_thread() -> Self {
        let (state, in_wait) = (AtomicU32::new(EMPTY), AtomicBool::new(false));
        Self { state, in_wait, thread: thread::current(), interrupt: Mutex::new(None) }
    }

    /// Blocks until there is a token, at most for `limit`, and consumes the token.
    ///
    /// With a limit, this may return early without a token, like std's `park_timeout`. A caller
    /// that waits for a deadline must check the clock.
    pub(crate) fn park(&self, limit: Option<Duration>) {
        if self.state.compare_exchange(EMPTY, PARKED, SeqCst, SeqCst).is_err() {
            self.state.swap(EMPTY, SeqCst);
            return;
        }
        match limit {
            None => {
                while self.state.load(SeqCst) == PARKED {
                    thread::park();
                }
            }
            Some(limit) => park_timeout(limit),
        }
        self.state.swap(EMPTY, SeqCst);
    }

    /// Sets the interrupt that ends the waits of `park_in`. Returns the old one.
    pub(crate) fn set_interrupt(
        &self,
        interrupt: Option<Arc<dyn Interrupt>>,
    ) -> Option<Arc<dyn Interrupt>> {
        std::mem::replace(&mut *self.interrupt.lock(), interrupt)
    }

    /// Parks by calling `wait`, which `unpark` interrupts. Does not call it if there is a token.
    pub(crate) fn park_in(&self, wait: impl FnOnce()) {
        self.in_wait.store(true, SeqCst);
        membarrier::fence_in_models();
        if self.state.load(SeqCst) == EMPTY {
            wait();
        }
        // A thread that still sees true interrupts for nothing, and the next wait ends early.
        self.in_wait.store(false, Release);
        // A token that arrives later is for the next park.
        if self.state.load(Relaxed) != EMPTY {
            self.state.swap(EMPTY, SeqCst);
        }
    }

    /// Returns whether there is a token.
    ///
    /// The thread calls this after it got the right to wait in a poller that other threads also
    /// wait in. An interrupt that one of those threads consumed came after the token.
    pub(crate) fn has_token(&self) -> bool {
        self.state.load(SeqCst) != EMPTY
    }

    /// Sets a token, and wakes the thread if it is parked. Returns whether this made a system call.
    pub(crate) fn unpark(&self) -> bool {
        match self.state.swap(NOTIFIED, SeqCst) {
            PARKED => self.thread.unpark(),
            EMPTY => {
                membarrier::fence_in_models();
                if !self.in_wait.load(SeqCst) {
                    return false;
                }
                let interrupt = self.interrupt.lock().clone();
                if let Some(interrupt) = interrupt {
                    interrupt.interrupt();
                }
            }
            _ => return false,
        }
        true
    }
}

#[cfg(not(all(test, loom)))]
fn park_timeout(limit: Duration) {
    thread::park_timeout(limit);
}

// A model has no clock. A timeout may come at any time, so it comes now.
#[cfg(all(test, loom))]
fn park_timeout(_limit: Duration) {
    thread::yield_now();
}
