//! The ring of a current-thread runtime while nobody is in `block_on`: a thread of
//! the pool looks after it until it has nothing to do, so that what was accepted
//! goes on its way, and who waits outside of the runtime is told.
//! How it comes and goes is in `attendance`.

pub(crate) mod gate;

use crate::driver::uring::Ring;
use crate::runtime::inner::{Flavor, Shared};
use crate::runtime::task_api::blocking::spawn_blocking_on;
use crate::runtime::uring_keeper::gate::{Called, Leaving};
use crate::sys::unwind::catch_and_forget;
use std::sync::Arc;

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
            self.shared.files.attendance.resign();
        }
    }
}

impl Shared {
    /// For somebody who waits for the ring of a current-thread runtime that this
    /// thread does not drive: it may be that nobody does.
    pub(crate) fn attend_ring(self: &Arc<Self>) {
        let Flavor::Current(scheduler) = &self.flavor else { return };
        if !scheduler.is_held_here() {
            self.files.attendance.wait_outside();
            self.send_attendant();
        }
    }

    /// Sees to the ring when the guard is dropped: after `block_on`.
    pub(in crate::runtime) fn attend_ring_afterwards(self: &Arc<Self>) -> Afterwards<'_> {
        Afterwards(self)
    }

    fn send_attendant(self: &Arc<Self>) {
        let Flavor::Current(scheduler) = &self.flavor else { return };
        let Some(ring) = scheduler.poller.get().and_then(|poller| poller.existing_ring()) else {
            return;
        };
        if ring.is_busy() && self.files.attendance.call() == Called::Send {
            Attendant { shared: self.clone(), ring: ring.clone(), on_duty: true }.go_to_pool();
        }
    }
}

/// See [`Shared::attend_ring_afterwards`].
pub(in crate::runtime) struct Afterwards<'a>(&'a Arc<Shared>);

impl Drop for Afterwards<'_> {
    fn drop(&mut self) {
        // A pool that has no thread panics. Then it is done with the next `block_on`,
        // or the runtime's end.
        catch_and_forget(|| self.0.send_attendant());
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
        self.ring.is_busy() && (!is_driven || self.shared.files.attendance.is_waited_for())
    }

    /// Whether others wait for the thread that this one has.
    fn is_in_the_way(&self) -> bool {
        let (threads, idle, waiting) = self.shared.pool.look();
        waiting > idle && threads >= self.shared.config().max_blocking_threads
    }

    fn look_after(mut self) {
        loop {
            while self.is_needed() {
                if self.ring.process_completions() == 0 {
                    self.ring.wait_for_completion();
                }
                if self.is_in_the_way() {
                    return self.go_to_pool();
                }
            }
            // Of another one, if it goes.
            self.on_duty = false;
            if self.shared.files.attendance.leave(|| self.is_needed()) == Leaving::Go {
                return;
            }
            self.on_duty = true;
        }
    }
}
