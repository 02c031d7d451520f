//! Counters of one worker: parks, polls, steals, busy time.
//!
//! Only tasks that enter or leave a worker's queues on rare paths are counted: from or to the
//! injector or another worker. The number of tasks that the worker itself has scheduled is computed
//! from these counts, so no wake-up pays for a counter
//! ([`local_schedules`](WorkerMetrics::local_schedules)).
//!
//! The worker writes them with a few plain stores when it parks and when a round of polls ends
//! (`scheduler::thread_core`). Any thread may read them.

use crate::driver::clock::clock_ns::ClockNs;
use crate::telemetry::bucket_scale::BucketScale;
use crate::telemetry::exact_histogram::ExactHistogram;
use crate::telemetry::histogram::Histogram;
use crate::telemetry::site_times::SiteTimes;
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::time::Duration;

/// A poll of at least this duration is recorded individually, and does not represent other polls.
pub(crate) const LONG_POLL: Duration = Duration::from_millis(10);

/// The counters of one worker. The thread that holds the worker's core writes them. Other threads
/// also write `moved_out` and `seen_local_schedules`.
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
    /// Rounds that end in the driver without a poll since the round before. A worker that cancels its
    /// sleep counts too.
    idle_wakeups: AtomicU64,
    /// Tasks that left the worker's queues without a poll. Other threads write it too.
    moved_out: AtomicU64,
    /// The largest value of `local_schedules` that was read.
    seen_local_schedules: AtomicU64,
    rounds: RoundCounters,
    /// Durations of polls. One poll of a round is timed and represents the others. A long poll
    /// represents only itself.
    pub(crate) poll_times: Histogram,
    /// Sampled times from a wake-up to the poll that follows.
    pub(crate) wake_to_poll: Histogram,
    /// Poll times and waits by spawn site, while the live page is served.
    pub(crate) sites: SiteTimes,
    /// The duration of every poll, if the builder enabled that.
    pub(crate) exact_poll_times: Option<ExactHistogram>,
    /// The latency of every schedule, if the builder enabled that.
    pub(crate) schedule_latencies: Option<ExactHistogram>,
}

/// The buckets of a worker's exact histograms, for those that are enabled.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ExactBuckets {
    pub(crate) poll_times: Option<BucketScale>,
    pub(crate) schedule_latencies: Option<BucketScale>,
}

/// Counters that are written once per round.
///
/// The counters have a cache line of their own. In each of their rounds, other workers read whether
/// this worker sleeps, and must not wait for the line that this worker writes.
#[derive(Debug)]
#[repr(align(64))]
struct RoundCounters {
    busy_ns: AtomicU64,
    /// Time of rounds in which only the future of a `block_on` was polled.
    block_on_ns: AtomicU64,
    polls: AtomicU64,
    /// The number of times that the worker took tasks from another worker's ring.
    steals: AtomicU64,
    /// Tasks that the worker took from other workers' rings.
    stolen: AtomicU64,
    /// Tasks that the worker took from the injector.
    injected: AtomicU64,
    /// The number of times that the worker's ring was full.
    overflows: AtomicU64,
}

/// Adds to a value that only this thread writes.
fn add(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Relaxed) + n, Relaxed);
}

impl WorkerMetrics {
    #[inline(always)] // lets the caller build it in place
    fn new(sleeps: u64, exact: ExactBuckets) -> Self {
        Self {
            sleeps: AtomicU64::new(sleeps),
            cancelled_sleeps: AtomicU64::new(0),
            asleep_since_ns: AtomicU64::new(0),
            idle_wakeups: AtomicU64::new(sleeps),
            moved_out: AtomicU64::new(0),
            seen_local_schedules: AtomicU64::new(0),
            rounds: RoundCounters {
                busy_ns: AtomicU64::new(0),
                block_on_ns: AtomicU64::new(0),
                polls: AtomicU64::new(0),
                steals: AtomicU64::new(0),
                stolen: AtomicU64::new(0),
                injected: AtomicU64::new(0),
                overflows: AtomicU64::new(0),
            },
            poll_times: const { Histogram::new() },
            wake_to_poll: const { Histogram::new() },
            sites: SiteTimes::new(),
            exact_poll_times: exact.poll_times.map(ExactHistogram::new),
            schedule_latencies: exact.schedule_latencies.map(ExactHistogram::new),
        }
    }

    /// Creates the counters of a worker that starts awake. `exact` are the buckets of exact
    /// histograms.
    pub(crate) fn awake(exact: ExactBuckets) -> Self {
        Self::new(0, exact)
    }

    /// Creates the counters of a worker that has no thread yet. It counts as asleep, after a start
    /// without work.
    pub(crate) fn asleep(exact: ExactBuckets) -> Self {
        Self::new(1, exact)
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

    /// Adds time in which the worker polled the future of a `block_on` and no task.
    pub(crate) fn add_block_on_ns(&self, ns: u64) {
        self.rounds.block_on_ns.store(self.rounds.block_on_ns.load(Relaxed) + ns, Relaxed);
    }

    /// Records a long poll of a round that was not the timed one.
    ///
    /// The round took `round_ns`, and `timed_ns` of it were spent in its timed poll, if that was
    /// long. If the rest is long too, `observed_ns` returns for how long the watchdog observed one
    /// poll in it, if it did. The rest, limited to that time, is then recorded as one poll.
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

    /// Counts a steal of this number of tasks from the worker with the counters `victim`.
    pub(crate) fn count_steal(&self, tasks: u32, victim: &WorkerMetrics) {
        add(&self.rounds.steals, 1);
        add(&self.rounds.stolen, tasks.into());
        victim.add_moved_out(tasks as usize);
    }

    /// Adds tasks that the worker took from the injector.
    pub(crate) fn add_injected(&self, tasks: u64) {
        add(&self.rounds.injected, tasks);
    }

    /// Counts an overflow of the worker's ring, which moved this number of tasks to the injector.
    pub(crate) fn count_overflow(&self, tasks: usize) {
        add(&self.rounds.overflows, 1);
        self.add_moved_out(tasks);
    }

    /// Adds tasks that leave the worker's queues without a poll. Any thread may call it.
    pub(crate) fn add_moved_out(&self, tasks: usize) {
        self.moved_out.fetch_add(tasks as u64, Relaxed);
    }

    /// Counts a wake-up of the worker that brought no task.
    pub(crate) fn count_idle_wakeup(&self) {
        add(&self.idle_wakeups, 1);
    }

    /// Returns the number of polls in rounds that have ended.
    pub(crate) fn polls(&self) -> u64 {
        self.rounds.polls.load(Relaxed)
    }

    /// Returns how often the worker took tasks from another worker's ring.
    pub(crate) fn steals(&self) -> u64 {
        self.rounds.steals.load(Relaxed)
    }

    /// Returns how many tasks the worker took from other workers' rings.
    pub(crate) fn stolen(&self) -> u64 {
        self.rounds.stolen.load(Relaxed)
    }

    pub(crate) fn overflows(&self) -> u64 {
        self.rounds.overflows.load(Relaxed)
    }

    pub(crate) fn idle_wakeups(&self) -> u64 {
        self.idle_wakeups.load(Relaxed)
    }

    /// Returns how many tasks the worker has put into its own queues that have since left them.
    ///
    /// Each task that leaves the queues is polled or moved, and each that comes is scheduled by the
    /// worker itself, injected or stolen. `injected` is the number of tasks from the injector, if
    /// the worker does not count them. Polls are counted later than the others, so the difference
    /// may shrink for a while; the result never does.
    pub(crate) fn local_schedules(&self, injected: u64) -> u64 {
        let came = injected + self.rounds.injected.load(Relaxed) + self.stolen();
        let left = self.polls() + self.moved_out.load(Relaxed);
        let now = left.saturating_sub(came);
        self.seen_local_schedules.fetch_max(now, Relaxed).max(now)
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

    /// Returns the time in which the worker polled the future of a `block_on` and no task.
    pub(crate) fn in_block_on(&self) -> Duration {
        Duration::from_nanos(self.rounds.block_on_ns.load(Relaxed))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{ExactBuckets, LONG_POLL, WorkerMetrics};
    use std::time::Duration;

    #[test]
    fn a_long_poll_is_counted_once() {
        let metrics = WorkerMetrics::awake(ExactBuckets::default());
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
