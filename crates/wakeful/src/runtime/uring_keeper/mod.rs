//! The io_uring keeper: drives the ring of a current-thread runtime outside of `block_on`.
//!
//! Inside `block_on`, its thread drives the ring. Outside it, operations in flight would not
//! complete, and a thread outside the runtime that waits for one would wait forever. So a job of
//! the blocking pool drives the ring until it has no operations in flight. [`gate`] decides when
//! the keeper starts and ends.

pub(crate) mod gate;

use crate::driver::uring::Ring;
use crate::runtime::inner::{Flavor, RuntimeInner};
use crate::runtime::task_api::blocking::spawn_internal;
use crate::runtime::uring_keeper::gate::{KeeperExit, KeeperRequest};
use crate::sys::unwind::catch_and_forget;
use std::sync::Arc;

struct UringKeeper {
    shared: Arc<RuntimeInner>,
    ring: Arc<Ring>,
    /// Whether the gate's `is_running` is set on behalf of this keeper.
    is_registered: bool,
}

impl Drop for UringKeeper {
    fn drop(&mut self) {
        // The pool did not run the keeper, or the keeper panicked.
        if self.is_registered {
            self.shared.files.keeper_gate.end();
        }
    }
}

impl RuntimeInner {
    /// Ensures that a thread drives the ring that the calling thread waits for.
    ///
    /// Only a current-thread runtime whose tasks this thread does not drive needs a keeper.
    pub(crate) fn ensure_ring_driven(self: &Arc<Self>) {
        let Flavor::Current(scheduler) = &self.flavor else { return };
        if !scheduler.is_held_here() {
            self.files.keeper_gate.set_outside_waiter();
            self.start_uring_keeper();
        }
    }

    /// Returns a guard that starts a keeper, if needed, when `block_on` returns.
    pub(in crate::runtime) fn keep_ring_after_block_on(self: &Arc<Self>) -> KeepRingOnDrop<'_> {
        KeepRingOnDrop(self)
    }

    fn start_uring_keeper(self: &Arc<Self>) {
        let Flavor::Current(scheduler) = &self.flavor else { return };
        let Some(ring) = scheduler.poller.get().and_then(|poller| poller.existing_ring()) else {
            return;
        };
        if ring.is_busy() && self.files.keeper_gate.request() == KeeperRequest::Start {
            UringKeeper { shared: self.clone(), ring: ring.clone(), is_registered: true }
                .run_on_pool();
        }
    }
}

/// The guard of [`RuntimeInner::keep_ring_after_block_on`].
pub(in crate::runtime) struct KeepRingOnDrop<'a>(&'a Arc<RuntimeInner>);

impl Drop for KeepRingOnDrop<'_> {
    fn drop(&mut self) {
        // The pool panics if it cannot start a thread. Then the next `block_on` or the shutdown of
        // the runtime completes the operations.
        catch_and_forget(|| self.0.start_uring_keeper());
    }
}

impl UringKeeper {
    fn run_on_pool(self) {
        let shared = self.shared.clone();
        drop(spawn_internal(&shared, move || self.run(), Some("files"), true));
    }

    fn is_needed(&self) -> bool {
        let is_driven = match &self.shared.flavor {
            Flavor::Current(scheduler) => scheduler.is_held(),
            Flavor::Multi(_) => true,
        };
        self.ring.is_busy() && (!is_driven || self.shared.files.keeper_gate.has_outside_waiter())
    }

    /// Returns whether closures wait for the pool thread that this keeper occupies.
    fn blocks_other_closures(&self) -> bool {
        let (threads, idle, waiting) = self.shared.pool.counts();
        waiting > idle && threads >= self.shared.config().max_blocking_threads
    }

    fn run(mut self) {
        loop {
            while self.is_needed() {
                if self.ring.process_completions() == 0 {
                    self.ring.wait_for_completion();
                }
                if self.blocks_other_closures() {
                    return self.run_on_pool();
                }
            }
            // After `try_end`, `is_running` may belong to another keeper.
            self.is_registered = false;
            if self.shared.files.keeper_gate.try_end(|| self.is_needed()) == KeeperExit::End {
                return;
            }
            self.is_registered = true;
        }
    }
}
