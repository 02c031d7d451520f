//! Decides when the watchdog may stop visiting a scheduler.
//!
//! The watchdog has to scan for deadlocks after anything that may have left a task stuck. What the
//! scheduler's own threads do, it sees when it visits them. It does not see what ends on other
//! threads: a `block_on`, a blocking closure, a poll on a thread that gave up its core. Those count
//! as *progress* here.
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

use crate::sys::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};

/// The handshake between a scheduler's threads and the watchdog.
pub(crate) struct ScanGate {
    asleep: AtomicBool,
    progress: CachePadded<AtomicU64>,
}

/// Keeps a word that other threads write away from words that workers read in every round.
#[repr(align(128))]
struct CachePadded<T>(T);

impl ScanGate {
    /// Creates a gate that is asleep: the watchdog does not know the scheduler yet.
    pub(crate) fn new() -> Self {
        Self { asleep: AtomicBool::new(true), progress: CachePadded(AtomicU64::new(0)) }
    }

    /// Returns whether the watchdog does not visit the scheduler, and would have to be woken.
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

    /// Puts the gate back to sleep, because no thread could be started for the watchdog. The next
    /// event tries again.
    pub(crate) fn cancel_wake(&self) {
        self.asleep.store(true, SeqCst);
    }
}
