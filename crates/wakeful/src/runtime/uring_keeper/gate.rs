//! The gate of the io_uring keeper: decides when a keeper starts and when it may end.
//!
//! The ring of a current-thread runtime needs a keeper, a job of the blocking pool, while no thread
//! is in `block_on`. At most one keeper runs.
//!
//! # Protocol
//!
//! Actors: *callers* need a keeper; the *keeper* runs while it is needed.
//!
//! - KEEPER-1. A caller first makes the keeper necessary: the ring has operations, and the caller
//!   has released the core or set `has_outside_waiter`. Then the caller exchanges `is_running`.
//! - KEEPER-2. A keeper that wants to end first exchanges `is_running`, and then checks once more
//!   whether it is needed.
//!
//! The race to fear: a caller relies on a keeper that has made its last check. It cannot happen,
//! because all exchanges of `is_running` have one order. If the caller's exchange comes first, the
//! keeper's exchange reads its value and acquires the caller's earlier writes, so the keeper sees
//! that it is needed. If the keeper's exchange comes first, the caller finds no keeper and starts
//! one. With a plain store instead of the keeper's exchange, the last check could miss the caller's
//! earlier writes. (Model: `models/uring_keeper.rs`.)

use crate::sys::sync::atomic::{AtomicBool, Ordering::*};

pub(in crate::runtime) struct KeeperGate {
    /// Whether a keeper runs, or a caller is about to start one.
    is_running: AtomicBool,
    /// Whether a thread outside the runtime has ever waited for an operation. The thread in
    /// `block_on` may in turn wait for that thread, so from then on the keeper also runs during
    /// `block_on`.
    has_outside_waiter: AtomicBool,
}

/// The duty of a caller that needs a keeper.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(in crate::runtime) enum KeeperRequest {
    /// Start a keeper; `is_running` is already set on its behalf.
    Start,
    /// Nothing: a keeper runs.
    AlreadyRunning,
}

/// The duty of a keeper that found itself not needed.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(in crate::runtime) enum KeeperExit {
    /// Continue: the keeper is needed again.
    Continue,
    /// End: the keeper is not needed, or another one has started.
    End,
}

impl KeeperGate {
    pub(in crate::runtime) fn new() -> Self {
        Self { is_running: AtomicBool::new(false), has_outside_waiter: AtomicBool::new(false) }
    }

    /// Records that a thread outside the runtime waits. The caller must call
    /// [`request`](Self::request) next.
    pub(in crate::runtime) fn set_outside_waiter(&self) {
        self.has_outside_waiter.store(true, Relaxed);
    }

    pub(in crate::runtime) fn has_outside_waiter(&self) -> bool {
        self.has_outside_waiter.load(Relaxed)
    }

    /// Requests a keeper, after the caller has made one necessary (KEEPER-1).
    pub(in crate::runtime) fn request(&self) -> KeeperRequest {
        if self.is_running.swap(true, AcqRel) {
            KeeperRequest::AlreadyRunning
        } else {
            KeeperRequest::Start
        }
    }

    /// Ends the keeper, unless the second check finds that it is needed again (KEEPER-2).
    pub(in crate::runtime) fn try_end(&self, is_needed: impl FnOnce() -> bool) -> KeeperExit {
        self.end();
        if is_needed() && self.request() == KeeperRequest::Start {
            KeeperExit::Continue
        } else {
            KeeperExit::End
        }
    }

    /// Ends a keeper that may still be needed: the pool did not run it, or it panicked.
    pub(in crate::runtime) fn end(&self) {
        self.is_running.swap(false, AcqRel);
    }
}
