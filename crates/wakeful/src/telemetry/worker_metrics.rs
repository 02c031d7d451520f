//! Station 6, counted: how often a worker fell asleep and how long it was at work.
//! Written by whoever is the worker, a few plain stores where it parks and turns;
//! read by anybody.

use crate::driver::clock::clock_ns::ClockNs;
use crate::telemetry::histogram::Histogram;
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::time::Duration;

/// A poll that lasts as long is no longer one of many like it.
pub(crate) const LONG: Duration = Duration::from_millis(10);

#[derive(Debug)]
pub(crate) struct WorkerMetrics {
    /// Goes up when the worker falls asleep and when it wakes up: odd means asleep.
    /// Released and acquired, so that whoever sees the sleep sees `busy_ns` up to it.
    sleeps: AtomicU64,
    /// How often it was about to fall asleep and did not.
    waivers: AtomicU64,
    /// When the worker fell asleep last, by the runtime's clock.
    asleep_since_ns: AtomicU64,
    turns: Turns,
    /// How long polls take: the first poll of a turn is timed, and stands for all; long
    /// ones stand for themselves.
    pub(crate) poll_times: Histogram,
    /// How long tasks wait between wake-up and poll, by samples as well.
    pub(crate) wake_to_poll: Histogram,
}

/// What is written with every turn, apart from what others look at with every turn of
/// theirs: whether the worker sleeps.
#[derive(Debug)]
#[repr(align(64))]
struct Turns {
    busy_ns: AtomicU64,
    /// Counted when a turn ends.
    polls: AtomicU64,
    /// How often it took tasks from another worker.
    steals: AtomicU64,
}

impl WorkerMetrics {
    fn starting_at(sleeps: u64) -> Self {
        Self {
            sleeps: AtomicU64::new(sleeps),
            waivers: AtomicU64::new(0),
            asleep_since_ns: AtomicU64::new(0),
            turns: Turns {
                busy_ns: AtomicU64::new(0),
                polls: AtomicU64::new(0),
                steals: AtomicU64::new(0),
            },
            poll_times: Histogram::new(),
            wake_to_poll: Histogram::new(),
        }
    }

    /// Of a worker that is awake from the start.
    pub(crate) fn awake() -> Self {
        Self::starting_at(0)
    }

    /// Of a worker that gets a thread only when there is work for it, and sleeps
    /// deeply until then.
    pub(crate) fn asleep() -> Self {
        Self::starting_at(1)
    }

    pub(crate) fn is_asleep(&self) -> bool {
        self.sleeps.load(Relaxed) % 2 == 1
    }

    pub(crate) fn fell_asleep(&self, now: ClockNs) {
        debug_assert!(!self.is_asleep(), "a worker falls asleep once");
        self.asleep_since_ns.store(now.ns(), Relaxed);
        self.sleeps.store(self.sleeps.load(Relaxed) + 1, Release);
    }

    /// As `fell_asleep`, for a worker that loses its thread wherever it is.
    pub(crate) fn fall_asleep_if_awake(&self, now: ClockNs) {
        if !self.is_asleep() {
            self.fell_asleep(now);
        }
    }

    /// The worker is awake, from a sleep if it was in one.
    pub(crate) fn woke_up(&self) {
        if self.is_asleep() {
            self.sleeps.store(self.sleeps.load(Relaxed) + 1, Release);
        }
    }

    pub(crate) fn was_busy(&self, ns: u64) {
        self.turns.busy_ns.store(self.turns.busy_ns.load(Relaxed) + ns, Relaxed);
    }

    /// A turn took so long, and its timed poll, if that was long, `timed_ns` of it. If the
    /// rest is long, and a poll was `seen` to last in it, that is a poll that nobody timed,
    /// or several; they took no more than `seen` answers.
    #[inline]
    pub(crate) fn turn_lasted(&self, ns: u64, timed_ns: u64, seen: impl FnOnce() -> Option<u64>) {
        let rest_ns = ns.saturating_sub(timed_ns);
        if rest_ns >= LONG.as_nanos() as u64
            && let Some(most_ns) = seen()
        {
            self.poll_times.count(Duration::from_nanos(rest_ns.min(most_ns)), 1);
        }
    }

    pub(crate) fn has_polled(&self, polls: u64) {
        self.turns.polls.store(self.turns.polls.load(Relaxed) + polls, Relaxed);
    }

    pub(crate) fn has_stolen(&self) {
        self.turns.steals.store(self.turns.steals.load(Relaxed) + 1, Relaxed);
    }

    pub(crate) fn polls(&self) -> u64 {
        self.turns.polls.load(Relaxed)
    }

    pub(crate) fn steals(&self) -> u64 {
        self.turns.steals.load(Relaxed)
    }

    /// When it fell asleep, if it sleeps.
    pub(crate) fn asleep_since(&self) -> Option<Duration> {
        let sleeps = self.sleeps.load(Acquire) % 2 == 1;
        sleeps.then(|| Duration::from_nanos(self.asleep_since_ns.load(Relaxed)))
    }

    /// The worker was about to fall asleep and found work.
    pub(crate) fn stayed_awake(&self) {
        self.waivers.store(self.waivers.load(Relaxed) + 1, Release);
    }

    /// How often the worker fell asleep, woke up, or did not fall asleep after all.
    pub(crate) fn moves(&self) -> u64 {
        self.parks_and_unparks() + self.waivers.load(Acquire)
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
        Duration::from_nanos(self.turns.busy_ns.load(Relaxed))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{LONG, WorkerMetrics};
    use std::time::Duration;

    #[test]
    fn a_long_poll_is_counted_once() {
        let meter = WorkerMetrics::awake();
        let long = LONG.as_nanos() as u64;
        let counted = |timed_ns, turn_ns, seen| {
            let before = meter.poll_times.read();
            meter.turn_lasted(turn_ns, timed_ns, || seen);
            let after = meter.poll_times.read();
            let counts = after.counts.iter().zip(before.counts).map(|(now, then)| now - then);
            (counts.sum::<u64>(), Duration::from_nanos(after.sum_ns - before.sum_ns))
        };
        let (all, nothing) = (Some(u64::MAX), (0, Duration::ZERO));
        assert_eq!(counted(0, long - 1, all), nothing, "a turn like others");
        assert_eq!(counted(0, long, all), (1, LONG), "one that nobody timed");
        assert_eq!(counted(0, long, None), nothing, "many short ones");
        assert_eq!(counted(0, 9 * long, Some(2 * long)), (1, 2 * LONG), "not all of it");
        assert_eq!(counted(3 * long, 3 * long + 5, all), nothing, "it was timed");
        assert_eq!(counted(long, 3 * long, all), (1, 2 * LONG), "there was another");
        assert_eq!(counted(long, 5, all), nothing, "more than there was");
    }
}
