//! Decides when the watchdog may stop visiting a scheduler, or visit it later.
//!
//! The watchdog has to scan for deadlocks after anything that may have left a task stuck. A visit
//! shows what the scheduler's own threads do. It does not show the end of work on other threads: of
//! a `block_on`, a blocking closure, or a poll on a thread that gave up its core. These events
//! count as *progress* here.
//!
//! # Protocol
//!
//! 1. The watchdog reads `progress` and the activity of the scheduler's threads, and scans. It sets
//!    `asleep`, runs the heavy barrier ([`Barriers`](crate::sys::membarrier::Barriers)), and reads
//!    both again. If one has changed, or a thread is at work, it clears `asleep` and visits again.
//! 2. An event increments `progress`, then reads `asleep`. If it is set, the caller wakes the
//!    watchdog.
//! 3. A thread that begins to work stores that where the watchdog reads it, runs the light barrier,
//!    then reads `asleep`. If it is set, the thread wakes the watchdog.
//!
//! The race to fear: the watchdog misses an event or a thread that works, and the other side reads
//! `asleep` before it is set. It cannot happen. In 2 all four accesses are SeqCst. In 3 there is a
//! barrier between the store and the load of each side. So either the watchdog sees the change in
//! its second read, or the other side sees `asleep`. (Model: `models/scan_gate.rs`.)
//!
//! # Postponing
//!
//! A thread that parks may postpone a delayed visit (`watchdog::delayed_visit`). `ask_from_ns` is
//! the time from which asking for that pays off. The value is a hint: a thread that reads an old
//! one asks too early or too late, and the visit is not postponed. [`if_parked`] reads the time
//! from which the visit is postponed.

use crate::driver::clock::clock_ns::ClockNs;
use crate::sys::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::time::Duration;

/// The handshake between a scheduler's threads and the watchdog.
pub(crate) struct ScanGate {
    asleep: AtomicBool,
    /// The time on the runtime's clock from which parking threads ask to postpone the next visit. `MAX`:
    /// never.
    ask_from_ns: AtomicU64,
    progress: CachePadded<AtomicU64>,
}

/// Returns the time `now`, if all threads of a scheduler that poll tasks were parked at some time since.
///
/// The time is read first: a poll that begins after the check is no older than the result (POSTPONE-1 in
/// `watchdog::delayed_visit`).
pub(crate) fn if_parked<T>(
    now: impl FnOnce() -> T,
    are_all_parked: impl FnOnce() -> bool,
) -> Option<T> {
    let now = now();
    are_all_parked().then_some(now)
}

/// Keeps a word that other threads write away from words that workers read in every round.
#[repr(align(128))]
struct CachePadded<T>(T);

impl ScanGate {
    /// Creates a gate that is asleep: the watchdog does not know the scheduler yet.
    pub(crate) fn new() -> Self {
        Self {
            asleep: AtomicBool::new(true),
            ask_from_ns: AtomicU64::new(u64::MAX),
            progress: CachePadded(AtomicU64::new(0)),
        }
    }

    /// Returns whether the watchdog has stopped visiting the scheduler and would have to be woken.
    #[inline]
    pub(crate) fn is_asleep(&self) -> bool {
        self.asleep.load(SeqCst)
    }

    /// Returns the number of events so far, to be passed to [`try_sleep`](Self::try_sleep).
    pub(crate) fn progress(&self) -> u64 {
        self.progress.0.load(SeqCst)
    }

    /// Puts the gate to sleep, unless an event happened since `progress` was read.
    ///
    /// Returns false if the watchdog must scan again. An event may wake the gate right away.
    #[must_use]
    pub(crate) fn try_sleep(&self, progress: u64) -> bool {
        self.asleep.swap(true, SeqCst);
        let is_unchanged = self.progress() == progress;
        if !is_unchanged {
            self.wake();
        }
        is_unchanged
    }

    /// Counts an event. Returns true if the caller must wake the watchdog.
    #[must_use]
    pub(crate) fn notify_progress(&self) -> bool {
        self.progress.0.fetch_add(1, SeqCst);
        self.is_asleep()
    }

    /// Wakes the gate. Returns true to the one caller that must wake the watchdog.
    pub(crate) fn wake(&self) -> bool {
        self.asleep.swap(false, SeqCst)
    }

    /// Returns whether a thread that parks should ask to postpone the next visit. Costs one load.
    #[inline]
    pub(crate) fn should_ask(&self, now: ClockNs) -> bool {
        now.ns() >= self.ask_from_ns.load(Relaxed)
    }

    /// Sets the time after which parking threads ask to postpone the next visit. With `None`, they never
    /// ask.
    pub(crate) fn set_ask_after(&self, now: ClockNs, after: Option<Duration>) {
        let from = after.map_or(u64::MAX, |after| now.ns().saturating_add(after.as_nanos() as u64));
        self.ask_from_ns.store(from, Relaxed);
    }

    /// Puts the gate back to sleep, because no thread could be started for the watchdog. The next
    /// event tries again.
    pub(crate) fn cancel_wake(&self) {
        self.asleep.store(true, SeqCst);
    }
}
