//! One kind of signal on one runtime: from the signal handler to the listeners.
//!
//! Rules:
//! - SIGNAL-1. A handler sets `pending` before it writes to the wake_fd. The driver drains the
//!   wake_fd before it reads `pending`. So a signal that the driver does not see makes the wake_fd
//!   readable again.
//! - SIGNAL-2. A handler touches only its [`SignalEvent`] and the wake_fd, which outlive the
//!   handler's registration. It uses only atomic operations and one `write`, which are
//!   async-signal-safe.
//!
//! Several signals that arrive before the driver drains the wake_fd are delivered as one.

use crate::sys::sync::atomic::{AtomicBool, Ordering::SeqCst};
use crate::wait::wait_counter::{NotEqual, WaitCounter};

/// The bit of `deliveries` that marks the event as closed: no further signals are delivered.
pub(super) const CLOSED: u64 = 1 << 62;

/// The state of one kind of signal on one runtime.
pub(super) struct SignalEvent {
    /// Whether a signal has arrived that was not delivered yet (SIGNAL-1).
    pending: AtomicBool,
    /// The number of deliveries, and [`CLOSED`].
    pub(super) deliveries: WaitCounter<NotEqual>,
}

impl SignalEvent {
    pub(super) fn new() -> Self {
        Self { pending: AtomicBool::new(false), deliveries: WaitCounter::new(0) }
    }

    /// Records a signal. Called in the signal handler (SIGNAL-2).
    pub(super) fn notify(&self, signal_wake_fd: impl FnOnce()) {
        self.pending.store(true, SeqCst);
        signal_wake_fd(); // SIGNAL-1
    }

    /// Wakes the listeners if a signal arrived. Called after the wake_fd was drained (SIGNAL-1).
    pub(super) fn deliver(&self) {
        if self.pending.swap(false, SeqCst) {
            let moved = self.deliveries.add(1);
            self.deliveries.wake_waiters(moved);
        }
    }

    /// Closes the event and wakes the listeners: no further signals are delivered.
    pub(super) fn close(&self) {
        let moved = self.deliveries.set(CLOSED);
        self.deliveries.wake_waiters(moved);
    }
}
