//! One kind of signal on one runtime: from the handler, which may do next to nothing,
//! to those who listen.
//!
//! Rules:
//! - G1. A handler sets `pending` before it rings, and the hub reads the bell empty
//!   before it looks at `pending`. So whatever the hub does not find rings once more.
//! - G2. A handler touches only its [`Slot`] and the bell, which live as long as it is
//!   enlisted, by atomic steps and one `write`: all that a handler may do.
//!
//! Several signals that come before the hub looks are delivered as one.

use crate::sys::sync::atomic::{AtomicBool, Ordering::SeqCst};
use crate::wait::wait_counter::{NotEqual, WaitCounter};

/// In a slot's number: nothing is delivered any more.
pub(super) const CLOSED: u64 = 1 << 62;

pub(super) struct Slot {
    /// A signal came that was not delivered yet (G1).
    pending: AtomicBool,
    /// How many were delivered, and [`CLOSED`].
    pub(super) deliveries: WaitCounter<NotEqual>,
}

impl Slot {
    pub(super) fn new() -> Self {
        Self { pending: AtomicBool::new(false), deliveries: WaitCounter::new(0) }
    }

    /// In a handler: a signal came (G2).
    pub(super) fn notice(&self, ring: impl FnOnce()) {
        self.pending.store(true, SeqCst);
        ring(); // G1: after that
    }

    /// The bell has rung and was silenced (G1): delivers what came.
    pub(super) fn pass_on(&self) {
        if self.pending.swap(false, SeqCst) {
            let moved = self.deliveries.add(1);
            self.deliveries.wake_waiters(moved);
        }
    }

    /// There will be no more signals.
    pub(super) fn close(&self) {
        let moved = self.deliveries.set(CLOSED);
        self.deliveries.wake_waiters(moved);
    }
}
