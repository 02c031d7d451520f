//! Estimates how long a poll takes on one thread, from recent rounds of polls.
//!
//! A busy thread reads its clock and polls its driver once per *round* (`thread_core`). If polls
//! are short, a round has many of them. If polls are long, it has fewer, down to one: sockets and
//! timers then wait for one poll, not for sixty. The same estimate decides when a backlog of ready
//! tasks is worth waking another worker.

/// The assumed duration of a poll before any was measured.
const UNKNOWN_POLL_NS: u64 = 40_000;
/// The target duration of a round. It is several times the cost of reading the clock and polling the
/// driver. It is too short to matter for tasks that wait for a timer or a descriptor.
const ROUND_NS: u64 = 500_000;
/// The maximum time that a `block_on` future waits for tasks that were ready before it.
///
/// The future waits for at most one full round, and after this time only for polls that have begun.
/// Tasks that a program may expect to run first take far less time, even in a debug build on a busy
/// machine.
const MAX_BLOCK_ON_DELAY_NS: u64 = 5_000_000;
/// The duration of a backlog that is not worth waking another worker, because a wake-up takes about
/// as long.
const WORTH_WAKING_NS: u64 = 20_000;
/// [`WORTH_WAKING_NS`] for tasks that the driver woke, if polls are shorter than a wake-up.
///
/// Tasks that exchange data over sockets are faster and cheaper on one core; on two cores, the
/// sockets' cache lines bounce between them. Measured with 64 and 512 connections.
const WORTH_MIGRATING_NS: u64 = 1_000_000;
/// The maximum duration of a round. A clock that was advanced by hand may show any duration.
const MAX_ROUND_NS: u64 = 1_000_000_000;

/// The estimated poll duration of one thread.
///
/// A round in which the kernel preempted the thread looks like a round of long polls. So one long
/// round changes only the length of the next round. The wake thresholds change after two long
/// rounds in a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PollEstimator {
    /// The mean poll duration in the last round.
    last_ns: u64,
    /// The mean poll duration over several rounds.
    smoothed_ns: u64,
}

impl PollEstimator {
    pub(crate) const fn new() -> Self {
        Self { last_ns: UNKNOWN_POLL_NS, smoothed_ns: UNKNOWN_POLL_NS }
    }

    /// Updates the estimate with a round of `polls` polls that took `spent_ns`.
    ///
    /// The estimate rises at once and falls slowly. Mistaking long polls for short ones makes tasks
    /// wait; the reverse only polls the driver and wakes workers too often.
    pub(crate) fn learn(&mut self, polls: u32, spent_ns: u64) {
        let spent_ns = spent_ns.min(MAX_ROUND_NS);
        let new = match polls {
            0 => return,
            1 => spent_ns, // the usual case of a thread that parks after each poll: no division
            _ => u64::from(spent_ns as u32 / polls),
        };
        let lower = new.min(self.last_ns);
        self.last_ns = new;
        let old = self.smoothed_ns;
        self.smoothed_ns = if lower >= old { lower } else { (7 * old + lower) / 8 };
    }

    /// Updates the estimate, and returns the next round's limit if the estimate changed.
    ///
    /// `limit` is the limit of this round, and `max` the configured one. If `limit` is `max` and
    /// polls are as short as before, the estimate is unchanged.
    #[inline]
    pub(crate) fn learn_round(
        &mut self,
        polls: u32,
        spent_ns: u64,
        limit: u32,
        max: u32,
    ) -> Option<u32> {
        if limit == max && spent_ns <= self.smoothed_ns * u64::from(polls) {
            return None;
        }
        Some(self.relearn(polls, spent_ns, max))
    }

    #[inline(never)]
    fn relearn(&mut self, polls: u32, spent_ns: u64, max: u32) -> u32 {
        self.learn(polls, spent_ns);
        self.round_limit(max)
    }

    /// Returns the number of polls of the next round, at most `max`.
    pub(crate) fn round_limit(self, max: u32) -> u32 {
        polls_in(ROUND_NS, self.smoothed_ns.max(self.last_ns), max).max(1)
    }

    /// Returns how many tasks may wait in a worker's ring before another worker is woken.
    pub(crate) fn wake_threshold(self, max: u32) -> u32 {
        polls_in(WORTH_WAKING_NS, self.smoothed_ns, max)
    }

    /// Returns how many tasks that the driver woke may wait before another worker is woken.
    pub(crate) fn io_wake_threshold(self, max: u32) -> u32 {
        let are_short = self.smoothed_ns < WORTH_WAKING_NS;
        let span_ns = if are_short { WORTH_MIGRATING_NS } else { WORTH_WAKING_NS };
        polls_in(span_ns, self.smoothed_ns, max)
    }
}

/// Returns whether the future of `block_on` has waited for too long for other tasks.
pub(crate) fn is_block_on_overdue(spent_ns: u64) -> bool {
    spent_ns >= MAX_BLOCK_ON_DELAY_NS
}

fn polls_in(span_ns: u64, poll_ns: u64, max: u32) -> u32 {
    // The usual result is `max`, which needs no division.
    if poll_ns.saturating_mul(max.into()) <= span_ns { max } else { (span_ns / poll_ns) as u32 }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::PollEstimator;

    #[test]
    fn rounds_shrink_at_once_and_grow_slowly() {
        let mut estimator = PollEstimator::new();
        for _ in 0..100 {
            estimator.learn(61, 61_000);
        }
        assert_eq!(
            (estimator.round_limit(61), estimator.round_limit(7), estimator.wake_threshold(128)),
            (61, 7, 20)
        );
        assert_eq!(
            (estimator.io_wake_threshold(256), estimator.io_wake_threshold(5000)),
            (256, 1000)
        );
        estimator.learn(2, 2_000_000);
        assert_eq!(
            (estimator.round_limit(61), estimator.wake_threshold(128)),
            (1, 20),
            "one long round is enough"
        );
        estimator.learn(1, 900_000);
        assert_eq!(
            (estimator.round_limit(61), estimator.wake_threshold(128)),
            (1, 0),
            "two long rounds are not a coincidence"
        );
        assert_eq!(estimator.io_wake_threshold(256), 0, "each long poll is worth a wake-up");
        let limits = (0..100).map(|_| {
            estimator.learn(1, 1_000);
            estimator.round_limit(61)
        });
        let limits: Vec<u32> = limits.collect();
        assert!(limits.is_sorted() && limits[3] < 3 && limits[99] == 61, "{limits:?}");
    }

    #[test]
    fn a_single_preemption_is_ignored() {
        let mut estimator = PollEstimator::new();
        for _ in 0..100 {
            estimator.learn(61, 61_000);
        }
        let before = (
            estimator.round_limit(61),
            estimator.wake_threshold(128),
            estimator.io_wake_threshold(256),
        );
        for _ in 0..10 {
            estimator.learn(61, 3_000_000);
            assert_eq!((estimator.round_limit(61), estimator.wake_threshold(128)), (10, before.1));
            estimator.learn(10, 10_000);
            assert_eq!(
                (
                    estimator.round_limit(61),
                    estimator.wake_threshold(128),
                    estimator.io_wake_threshold(256)
                ),
                before
            );
        }
    }

    #[test]
    fn full_rounds_are_shortened() {
        let (mut estimator, mut limit) = (PollEstimator::new(), 1);
        let mut learn = |polls, spent_ns| {
            limit = estimator.learn_round(polls, spent_ns, limit, 61).unwrap_or(limit);
            limit
        };
        let short = |_| learn(61, 61_000);
        assert_eq!((0..100).map(short).last(), Some(61));
        assert_eq!(learn(61, 61 * 2_000_000), 1, "one long round is enough");
        let single = |_| learn(1, 1_000);
        assert_eq!((0..100).map(single).last(), Some(61));
        assert_eq!(learn(61, 61 * 20_000), 25, "longer polls, which are not long");
    }

    #[test]
    fn a_round_without_polls_changes_nothing() {
        let mut estimator = PollEstimator::new();
        let before = estimator.round_limit(61);
        estimator.learn(0, 1_000_000_000);
        assert_eq!(estimator.round_limit(61), before);
    }
}
