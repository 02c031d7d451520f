//! Whether somebody looks after the ring of a current-thread runtime that nobody
//! drives: the flags by which attendants come and go.
//!
//! Actors: *callers* need an attendant; the *attendant* stays while it is needed.
//!
//! Rules:
//! - A1. A caller first makes it so that one is needed (the ring has something, and
//!   the core is let go of or `is_waited_for` is set), and then exchanges `is_there`.
//! - A2. An attendant that wants to leave first exchanges `is_there`, and then looks
//!   once more whether it is needed.
//!
//! The race one fears: the caller relies on an attendant that has looked for the last
//! time. There is one order of the exchanges. If the caller's comes first, that of
//! the attendant finds it and acquires what the caller did before, so the attendant
//! sees that it is needed. If the attendant's comes first, the caller finds nobody
//! and sends another one. With a plain store instead of the attendant's exchange, its
//! look could miss what a caller did before.

use crate::sys::sync::atomic::{AtomicBool, Ordering::*};

pub(in crate::runtime) struct KeeperGate {
    /// There is an attendant, or there will be.
    is_there: AtomicBool,
    /// Somebody has waited outside: whoever drives may be waiting for him, so the
    /// attendant does not leave the ring to those who drive any more.
    is_waited_for: AtomicBool,
}

/// What a caller has to do.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(in crate::runtime) enum Called {
    /// Send an attendant: whoever does is spoken of by `is_there` from now on.
    Send,
    /// Nothing: there is one.
    IsThere,
}

/// What an attendant has to do that found itself not needed.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(in crate::runtime) enum Leaving {
    /// Go on: it is needed again.
    Stay,
    Go,
}

impl KeeperGate {
    pub(in crate::runtime) fn new() -> Self {
        Self { is_there: AtomicBool::new(false), is_waited_for: AtomicBool::new(false) }
    }

    /// Somebody waits outside of the runtime; a call follows.
    pub(in crate::runtime) fn wait_outside(&self) {
        self.is_waited_for.store(true, Relaxed);
    }

    pub(in crate::runtime) fn is_waited_for(&self) -> bool {
        self.is_waited_for.load(Relaxed)
    }

    /// One is needed (A1).
    pub(in crate::runtime) fn call(&self) -> Called {
        if self.is_there.swap(true, AcqRel) { Called::IsThere } else { Called::Send }
    }

    /// The attendant is not needed any more, as far as it knows (A2).
    pub(in crate::runtime) fn leave(&self, is_needed: impl FnOnce() -> bool) -> Leaving {
        self.resign();
        if is_needed() && self.call() == Called::Send { Leaving::Stay } else { Leaving::Go }
    }

    /// There is no attendant, although it may be needed.
    pub(in crate::runtime) fn resign(&self) {
        self.is_there.swap(false, AcqRel);
    }
}
