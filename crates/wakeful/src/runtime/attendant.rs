//! The ring of a current-thread runtime while nobody is in `block_on`: a thread of
//! the pool looks after it until it has nothing to do, so that what was accepted
//! goes on its way, and who waits outside of the runtime is told.
//!
//! Protocol, all SeqCst: whoever needs an attendant makes it so (the ring is busy;
//! the core is let go of, or `is_waited_for` is set), then swaps `is_there`. The
//! attendant clears `is_there`, then looks once more whether it is needed. At least
//! one sees the other.

use super::blocking::spawn_blocking_on;
use super::shared::{Flavor, Shared};
use crate::driver::uring::Ring;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

#[derive(Default)]
pub(super) struct Attendance {
    /// There is an attendant, or there will be.
    is_there: AtomicBool,
    /// Somebody has waited outside: whoever drives may be waiting for him, so the
    /// attendant does not leave the ring to those who drive any more.
    is_waited_for: AtomicBool,
}

struct Attendant {
    shared: Arc<Shared>,
    ring: Arc<Ring>,
    /// `is_there` speaks of this one.
    on_duty: bool,
}

impl Drop for Attendant {
    fn drop(&mut self) {
        // The pool did not take it, or it panicked.
        if self.on_duty {
            self.shared.files.attendance.is_there.store(false, SeqCst);
        }
    }
}

impl Shared {
    /// For somebody who waits for the ring of a current-thread runtime that this
    /// thread does not drive: it may be that nobody does.
    pub(crate) fn attend_ring(self: &Arc<Self>) {
        let Flavor::Current(scheduler) = &self.flavor else { return };
        if !scheduler.is_held_here() {
            self.files.attendance.is_waited_for.store(true, SeqCst);
            self.send_attendant();
        }
    }

    /// Sees to the ring when the guard is dropped: after `block_on`.
    pub(super) fn attend_ring_afterwards(self: &Arc<Self>) -> Afterwards<'_> {
        Afterwards(self)
    }

    fn send_attendant(self: &Arc<Self>) {
        let Flavor::Current(scheduler) = &self.flavor else { return };
        let Some(ring) = scheduler.poller.get().and_then(|poller| poller.made_ring()) else {
            return;
        };
        let attendance = &self.files.attendance;
        if ring.is_busy() && !attendance.is_there.swap(true, SeqCst) {
            Attendant { shared: self.clone(), ring: ring.clone(), on_duty: true }.go_to_pool();
        }
    }
}

/// See [`Shared::attend_ring_afterwards`].
pub(super) struct Afterwards<'a>(&'a Arc<Shared>);

impl Drop for Afterwards<'_> {
    fn drop(&mut self) {
        // A pool that has no thread panics. Then it is done with the next `block_on`,
        // or the runtime's end.
        let _ = catch_unwind(AssertUnwindSafe(|| self.0.send_attendant()));
    }
}

impl Attendant {
    fn go_to_pool(self) {
        let shared = self.shared.clone();
        drop(spawn_blocking_on(&shared, move || self.look_after(), Some("files"), true));
    }

    fn is_needed(&self) -> bool {
        let is_driven = match &self.shared.flavor {
            Flavor::Current(scheduler) => scheduler.is_held(),
            Flavor::Multi(_) => true,
        };
        let waited_for = &self.shared.files.attendance.is_waited_for;
        self.ring.is_busy() && (!is_driven || waited_for.load(SeqCst))
    }

    /// Whether others wait for the thread that this one has.
    fn is_in_the_way(&self) -> bool {
        let (threads, idle, waiting) = self.shared.pool.look();
        waiting > idle && threads >= self.shared.config().max_blocking_threads
    }

    fn look_after(mut self) {
        loop {
            while self.is_needed() {
                if self.ring.turn() == 0 {
                    self.ring.wait();
                }
                if self.is_in_the_way() {
                    return self.go_to_pool();
                }
            }
            self.on_duty = false;
            let is_there = &self.shared.files.attendance.is_there;
            is_there.store(false, SeqCst);
            // Whoever came in between relied on this thread.
            if !self.is_needed() || is_there.swap(true, SeqCst) {
                return;
            }
            self.on_duty = true;
        }
    }
}
