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
//! A token left by [`Parker::unpark`] makes the next [`Parker::park`] return at
//! once, so "set a flag, then unpark" never loses the flag. The swap in
//! `unpark` releases and the swap in `park` acquires: what was written before
//! the former is seen after the latter.

use crate::sys::sync::atomic::{AtomicU32, Ordering::SeqCst};
use crate::sys::sync::{Thread, thread};
use std::time::Duration;

const EMPTY: u32 = 0;
const PARKED: u32 = 1;
const NOTIFIED: u32 = 2;

/// Parks the thread that made it; any thread unparks it.
#[derive(Debug)]
pub(crate) struct Parker {
    state: AtomicU32,
    thread: Thread,
}

impl Parker {
    /// A spot for the calling thread.
    pub(crate) fn for_current_thread() -> Self {
        Self { state: AtomicU32::new(EMPTY), thread: thread::current() }
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

    /// Leaves a token and wakes the thread if it is parked. Answers whether a
    /// system call was made.
    pub(crate) fn unpark(&self) -> bool {
        if self.state.swap(NOTIFIED, SeqCst) == PARKED {
            self.thread.unpark();
            return true;
        }
        false
    }
}

#[cfg(not(loom))]
fn park_timeout(limit: Duration) {
    thread::park_timeout(limit);
}

// A model has no clock: a time-out may happen at any moment, so it happens now.
#[cfg(loom)]
fn park_timeout(_limit: Duration) {
    thread::yield_now();
}
