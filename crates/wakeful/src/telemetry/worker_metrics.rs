//! Counters of one worker: parks, polls, steals, busy time.
//!
//! The worker writes them with a few plain stores when it parks and when a round of polls ends
//! (`scheduler::thread_core`). Any thread may read them.

use crate::driver::clock::clock_ns::ClockNs;
use crate::telemetry::histogram::Histogram;
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::time::Duration;

/// A poll of at least this duration is recorded by itself. It does not stand for other polls.
pub(crate) const LONG_POLL: Duration = Duration::from_millis(10);

/// The counters of one worker. Each has one writer, the thread that holds the worker's core.
#[derive(Debug)]
pub(crate) struct WorkerMetrics {
    /// Incremented when the worker falls asleep and when it wakes up. Odd means asleep.
    ///
    /// Stored with Release and read with Acquire: a thread that sees the sleep sees `busy_ns` up to
    /// it.
    sleeps: AtomicU64,
    /// Sleeps that the worker announced and then cancelled.
    cancelled_sleeps: AtomicU64,
    /// When the worker last fell asleep, on the runtime's clock.
    asleep_since_ns: AtomicU64,
    rounds: RoundCounters,
    /// Durations of polls. One poll of a round is timed and stands for the others. A long poll
    /// stands for itself.
    pub(crate) poll_times: Histogram,
    /// Sampled times from a wake-up to the poll that follows.
    pub(crate) wake_to_poll: Histogram,
}

/// Counters that are written once per round.
///
/// They have a cache line of their own. Other workers read in each of their rounds whether this
/// worker sleeps, and must not wait for the line that this worker writes.
#[derive(Debug)]
#[repr(align(64))]
struct RoundCounters {
    busy_ns: AtomicU64,
    polls: AtomicU64,
    /// How often the worker took tasks from another worker's ring.
    steals: AtomicU64,
}

impl WorkerMetrics {
    fn with_sleeps(sleeps: u64) -> Self {
        Self {
            sleeps: AtomicU64::new(sleeps),
            cancelled_sleeps: AtomicU64::new(0),
            asleep_since_ns: AtomicU64::new(0),
            rounds: RoundCounters {
                busy_ns: AtomicU64::new(0),
                polls: AtomicU64::new(0),
                steals: AtomicU64::new(0),
            },
            poll_times: Histogram::new(),
            wake_to_poll: Histogram::new(),
        }
    }

    /// Creates the counters of a worker that starts awake.
    pub(crate) fn awake() -> Self {
        Self::with_sleeps(0)
    }

    /// Creates the counters of a worker that has no thread yet. It counts as asleep.
    pub(crate) fn asleep() -> Self {
        Self::with_sleeps(1)
    }

    pub(crate) fn is_asleep(&self) -> bool {
        self.sleeps.load(Relaxed) % 2 == 1
    }

    /// Marks the worker as asleep since `now`. It must be awake.
    pub(crate) fn mark_asleep(&self, now: ClockNs) {
        debug_assert!(!self.is_asleep(), "a worker falls asleep once");
        self.asleep_since_ns.store(now.ns(), Relaxed);
        self.sleeps.store(self.sleeps.load(Relaxed) + 1, Release);
    }

    /// Marks the worker as asleep, for one that loses its thread in any state.
    pub(crate) fn mark_asleep_if_awake(&self, now: ClockNs) {
        if !self.is_asleep() {
            self.mark_asleep(now);
        }
    }

    /// Marks the worker as awake. Does nothing if it was not asleep.
    pub(crate) fn mark_awake(&self) {
        if self.is_asleep() {
            self.sleeps.store(self.sleeps.load(Relaxed) + 1, Release);
        }
    }

    /// Adds time in which the worker polled tasks.
    pub(crate) fn add_busy_ns(&self, ns: u64) {
        self.rounds.busy_ns.store(self.rounds.busy_ns.load(Relaxed) + ns, Relaxed);
    }

    /// Records a long poll of a round that was not the timed one.
    ///
    /// The round took `round_ns`, and `timed_ns` of it were spent in its timed poll, if that was
    /// long. If the rest is long too, `observed_ns` tells whether the watchdog observed one poll in
    /// it over some time. If so, that poll, or several, took the rest, but not more than the value
    /// that `observed_ns` returns.
    #[inline]
    pub(crate) fn record_unsampled_poll(
        &self,
        round_ns: u64,
        timed_ns: u64,
        observed_ns: impl FnOnce() -> Option<u64>,
    ) {
        let rest_ns = round_ns.saturating_sub(timed_ns);
        if rest_ns >= LONG_POLL.as_nanos() as u64
            && let Some(max_ns) = observed_ns()
        {
            self.poll_times.count(Duration::from_nanos(rest_ns.min(max_ns)), 1);
        }
    }

    /// Adds the polls of a round.
    pub(crate) fn add_polls(&self, polls: u64) {
        self.rounds.polls.store(self.rounds.polls.load(Relaxed) + polls, Relaxed);
    }

    pub(crate) fn count_steal(&self) {
        self.rounds.steals.store(self.rounds.steals.load(Relaxed) + 1, Relaxed);
    }

    /// Returns the number of polls in rounds that have ended.
    pub(crate) fn polls(&self) -> u64 {
        self.rounds.polls.load(Relaxed)
    }

    pub(crate) fn steals(&self) -> u64 {
        self.rounds.steals.load(Relaxed)
    }

    /// Returns when the worker fell asleep, on the runtime's clock. `None` if it is awake.
    pub(crate) fn asleep_since(&self) -> Option<Duration> {
        let is_asleep = self.sleeps.load(Acquire) % 2 == 1;
        is_asleep.then(|| Duration::from_nanos(self.asleep_since_ns.load(Relaxed)))
    }

    /// Counts a sleep that the worker announced, and cancelled because it found work.
    pub(crate) fn count_cancelled_sleep(&self) {
        self.cancelled_sleeps.store(self.cancelled_sleeps.load(Relaxed) + 1, Release);
    }

    /// Returns how often the worker fell asleep, woke up, or cancelled a sleep.
    pub(crate) fn sleep_transitions(&self) -> u64 {
        self.parks_and_unparks() + self.cancelled_sleeps.load(Acquire)
    }

    /// Returns how often the worker fell asleep or woke up.
    pub(crate) fn parks_and_unparks(&self) -> u64 {
        self.sleeps.load(Acquire)
    }

    /// Returns how often the worker fell asleep.
    pub(crate) fn parks(&self) -> u64 {
        self.parks_and_unparks().div_ceil(2)
    }

    pub(crate) fn busy(&self) -> Duration {
        Duration::from_nanos(self.rounds.busy_ns.load(Relaxed))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{LONG_POLL, WorkerMetrics};
    use std::time::Duration;

    #[test]
    fn a_long_poll_is_counted_once() {
        let metrics = WorkerMetrics::awake();
        let long = LONG_POLL.as_nanos() as u64;
        let counted = |timed_ns, round_ns, observed| {
            let before = metrics.poll_times.read();
            metrics.record_unsampled_poll(round_ns, timed_ns, || observed);
            let after = metrics.poll_times.read();
            let counts = after.counts.iter().zip(before.counts).map(|(now, then)| now - then);
            (counts.sum::<u64>(), Duration::from_nanos(after.sum_ns - before.sum_ns))
        };
        let (all, nothing) = (Some(u64::MAX), (0, Duration::ZERO));
        assert_eq!(counted(0, long - 1, all), nothing, "a short round");
        assert_eq!(counted(0, long, all), (1, LONG_POLL), "a long poll that was not timed");
        assert_eq!(counted(0, long, None), nothing, "many short polls");
        assert_eq!(counted(0, 9 * long, Some(2 * long)), (1, 2 * LONG_POLL), "a part of the round");
        assert_eq!(counted(3 * long, 3 * long + 5, all), nothing, "the long poll was timed");
        assert_eq!(counted(long, 3 * long, all), (1, 2 * LONG_POLL), "a second long poll");
        assert_eq!(counted(long, 5, all), nothing, "the timed poll is longer than the round");
    }
}
