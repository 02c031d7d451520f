//! Station 6, counted: how often a worker fell asleep and how long it was at work.
//! Written by whoever is the worker, a few plain stores where it parks and turns;
//! read by anybody.

use std::sync::atomic::{AtomicU64, Ordering::*};
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Meter {
    /// Goes up when the worker falls asleep and when it wakes up: odd means asleep.
    /// Released and acquired, so that whoever sees the sleep sees `busy_ns` up to it.
    sleeps: AtomicU64,
    busy_ns: AtomicU64,
}

impl Meter {
    /// Of a worker that is awake from the start.
    pub(super) fn awake() -> Self {
        Self { sleeps: AtomicU64::new(0), busy_ns: AtomicU64::new(0) }
    }

    /// Of a worker that gets a thread only when there is work for it, and sleeps
    /// deeply until then.
    pub(super) fn asleep() -> Self {
        Self { sleeps: AtomicU64::new(1), busy_ns: AtomicU64::new(0) }
    }

    pub(super) fn is_asleep(&self) -> bool {
        self.sleeps.load(Relaxed) % 2 == 1
    }

    pub(super) fn fell_asleep(&self) {
        debug_assert!(!self.is_asleep(), "a worker falls asleep once");
        self.sleeps.store(self.sleeps.load(Relaxed) + 1, Release);
    }

    /// The worker is awake, from a sleep if it was in one.
    pub(super) fn woke_up(&self) {
        if self.is_asleep() {
            self.sleeps.store(self.sleeps.load(Relaxed) + 1, Release);
        }
    }

    pub(super) fn was_busy(&self, how_long: Duration) {
        let busy_ns = self.busy_ns.load(Relaxed) + how_long.as_nanos() as u64;
        self.busy_ns.store(busy_ns, Relaxed);
    }

    /// How often the worker fell asleep or woke up.
    pub(crate) fn parks_and_unparks(&self) -> u64 {
        self.sleeps.load(Acquire)
    }

    /// How often the worker fell asleep.
    pub(crate) fn parks(&self) -> u64 {
        self.parks_and_unparks().div_ceil(2)
    }

    pub(crate) fn busy(&self) -> Duration {
        Duration::from_nanos(self.busy_ns.load(Relaxed))
    }
}
