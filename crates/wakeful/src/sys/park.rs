//! A parking spot for one thread: station 6 of a task's walk, seen from the
//! thread that finds nothing to do.
//!
//! Protocol. `state` moves between three values:
//!
//! ```text
//! diagram
//!             park()                unpark()
//!   EMPTY ────────────► PARKED ──────────────► NOTIFIED
//!     ▲                   │ time-out, spurious     │
//!     └───────────────────┴──────── park() ◄───────┘
//! ```
//!
//! A thread that waits in a poller does not move the state, it says so in `inside`, and
//! looks for a token after that. Whoever leaves a token looks at `inside` after that: one
//! of them sees the other. Sleeping there takes one exchange.
//!
//! A token left by [`Parker::unpark`] makes the next [`Parker::park`] return at
//! once, so "set a flag, then unpark" never loses the flag. The swap in
//! `unpark` releases and the swap in `park` acquires: what was written before
//! the former is seen after the latter.

use crate::sys::membarrier;
use crate::sys::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};
use crate::sys::sync::{Mutex, Thread, thread};
use std::sync::Arc;
use std::time::Duration;

const EMPTY: u32 = 0;
const PARKED: u32 = 1;
const NOTIFIED: u32 = 2;

/// What a thread can wait inside of, instead of a plain park.
pub(crate) trait Interrupt: Send + Sync {
    /// Ends the wait that is going on, or the next one.
    fn interrupt(&self);
}

/// Parks the thread that made it; any thread unparks it.
pub(crate) struct Parker {
    state: AtomicU32,
    /// The thread waits inside of something that is to be kicked, or is about to, or has
    /// done so a moment ago.
    inside: AtomicBool,
    thread: Thread,
    /// What that is.
    interrupt: Mutex<Option<Arc<dyn Interrupt>>>,
}

impl Parker {
    /// A spot for the calling thread.
    pub(crate) fn for_current_thread() -> Self {
        let (state, inside) = (AtomicU32::new(EMPTY), AtomicBool::new(false));
        Self { state, inside, thread: thread::current(), interrupt: Mutex::new(None) }
    }

    /// Whether the calling thread is the one that parks here.
    pub(crate) fn belongs_to_current_thread(&self) -> bool {
        self.thread.id() == thread::current().id()
    }

    /// Waits for a token, at most `limit` if there is one. With a limit it may
    /// also return early without a token (std's `park_timeout` may): whoever
    /// waits for a moment looks at the clock.
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

    /// Says what `park_in` waits inside of from now on; gives back what it
    /// was before.
    pub(crate) fn set_interrupt(
        &self,
        interrupt: Option<Arc<dyn Interrupt>>,
    ) -> Option<Arc<dyn Interrupt>> {
        std::mem::replace(&mut *self.interrupt.lock(), interrupt)
    }

    /// As `park`, but by calling `wait`, which a kick ends. Not called if there
    /// is a token already.
    pub(crate) fn park_in(&self, wait: impl FnOnce()) {
        self.inside.store(true, SeqCst);
        membarrier::fence_in_models();
        if self.state.load(SeqCst) == EMPTY {
            wait();
        }
        // Whoever sees this late kicks in vain, and the next wait ends early.
        self.inside.store(false, Release);
        // A token that comes later is there for the next time.
        if self.state.load(Relaxed) != EMPTY {
            self.state.swap(EMPTY, SeqCst);
        }
    }

    /// Whether there is a token. For the thread itself, once it has the right to wait where
    /// others may wait, too: a kick that one of them has got came after its token.
    pub(crate) fn has_token(&self) -> bool {
        self.state.load(SeqCst) != EMPTY
    }

    /// Leaves a token and wakes the thread if it is parked. Answers whether a
    /// system call was made.
    pub(crate) fn unpark(&self) -> bool {
        match self.state.swap(NOTIFIED, SeqCst) {
            PARKED => self.thread.unpark(),
            EMPTY => {
                membarrier::fence_in_models();
                if !self.inside.load(SeqCst) {
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

// A model has no clock: a time-out may happen at any moment, so it happens now.
#[cfg(all(test, loom))]
fn park_timeout(_limit: Duration) {
    thread::yield_now();
}
