//! The monitor: a thread that watches for workers stuck in one poll.
//!
//! It ticks while the runtime works and sleeps while every worker does. A worker
//! that is inside the same poll on two looks in a row is stuck: what waits in
//! its run-next slot and its ring is moved to the injector, where any other
//! worker finds it.
//!
//! Protocol of its sleep: the monitor sets `asleep`, then looks whether all
//! workers sleep; a worker that wakes up has left the sleepers first, then looks
//! at `asleep`. Both are SeqCst, so at least one of them sees the other.
//!
//! While it looks, the monitor may hold tasks that it moves, so it counts as
//! inside of the scheduler: whoever closes up finds them in the injector.

use super::config::Role;
use super::multi::{Leaving, MultiThread};
use crate::sys::park::Parker;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

const TICK: Duration = Duration::from_millis(10);
/// Looks without anybody awake before the monitor goes to sleep.
const QUIET_TICKS: u32 = 10;

pub(crate) struct Monitor {
    /// Also true before the thread is started.
    asleep: AtomicBool,
    stopped: AtomicBool,
    parker: OnceLock<Arc<Parker>>,
    started: AtomicBool,
}

impl Monitor {
    pub(crate) fn new() -> Self {
        Self {
            asleep: AtomicBool::new(true),
            stopped: AtomicBool::new(false),
            parker: OnceLock::new(),
            started: AtomicBool::new(false),
        }
    }

    #[inline]
    pub(crate) fn is_asleep(&self) -> bool {
        self.asleep.load(SeqCst)
    }

    /// Wakes the monitor, or starts its thread and gives its handle back. One
    /// caller at a time.
    pub(crate) fn wake(
        &self,
        shared: impl FnOnce() -> Arc<MultiThread>,
    ) -> Option<thread::JoinHandle<()>> {
        if !self.asleep.swap(false, SeqCst) {
            return None;
        }
        if self.started.swap(true, AcqRel) {
            if let Some(parker) = self.parker.get() {
                parker.unpark();
            }
            return None;
        }
        let shared = shared();
        let builder = thread::Builder::new().name("wakeful-monitor".to_owned());
        let spawned = builder.spawn(move || {
            let leaving = Leaving(shared);
            let shared = &*leaving.0;
            // Not as a worker: it drives no tasks. But it may drop some.
            let witness = &shared.estate.config.witness;
            witness.in_context(Role::Blocking, &mut || shared.monitor().run(shared));
        });
        if spawned.is_err() {
            // Without a thread nobody is rescued; the next worker to wake up
            // tries again.
            self.started.store(false, Release);
            self.asleep.store(true, SeqCst);
        }
        spawned.ok()
    }

    pub(crate) fn stop(&self) {
        self.stopped.store(true, SeqCst);
        if let Some(parker) = self.parker.get() {
            parker.unpark();
        }
    }

    fn run(&self, shared: &MultiThread) {
        let parker = self.parker.get_or_init(|| Arc::new(Parker::for_current_thread()));
        let mut seen = vec![0u32; shared.remotes.len()];
        let mut quiet = 0;
        while !self.stopped.load(SeqCst) {
            parker.park(Some(TICK));
            if !shared.try_enter() {
                return;
            }
            // A foreign waker that panics does not end the watch.
            let _ = catch_unwind(AssertUnwindSafe(|| look(shared, &mut seen)));
            shared.leave();
            quiet = if shared.idle.all_asleep() { quiet + 1 } else { 0 };
            if quiet >= QUIET_TICKS {
                self.sleep(shared, parker);
                quiet = 0;
            }
        }
    }

    fn sleep(&self, shared: &MultiThread, parker: &Parker) {
        self.asleep.store(true, SeqCst);
        if !shared.idle.all_asleep() {
            self.asleep.store(false, SeqCst);
        }
        while self.asleep.load(SeqCst) && !self.stopped.load(SeqCst) {
            parker.park(None);
        }
    }
}

/// Compares every worker with the last look and empties the queues of those
/// that have not moved.
fn look(shared: &MultiThread, seen: &mut [u32]) {
    for (remote, seen) in shared.remotes.iter().zip(seen) {
        let now = remote.activity.load(Relaxed);
        let stuck = now % 2 == 1 && now == *seen;
        *seen = now;
        if !stuck {
            continue;
        }
        // Its timers go off for it, and its descriptors, on this thread.
        remote.timers.turn(shared.estate.config.seam.clock.tick());
        if let Some(poller) = remote.poller.get() {
            poller.turn(Some(Duration::ZERO));
        }
        let mut moved = Vec::new();
        moved.extend(remote.next.take());
        remote.ring.drain(|task| moved.push(task));
        if !moved.is_empty() {
            shared.injector.push_batch(moved);
            shared.notify();
        }
    }
    // Workers put off waking others for what they take to be short work; it may
    // turn out to be long.
    if shared.idle.may_wake() && shared.remotes.iter().any(|remote| !remote.ring.is_empty()) {
        shared.notify();
    }
}
