//! Station 4, measured: how long polls last on one thread, and what follows from it.
//!
//! A thread at work looks at its clock and its driver once per *turn*, some polls
//! long. Short polls make many; where polls are long, a turn is fewer of them, down to
//! one, so that sockets and timers wait for a poll, not for sixty. In the same way a
//! backlog is as long as its polls are.

/// What a poll is taken to last before any was measured.
const UNKNOWN_POLL_NS: u64 = 40_000;
/// A turn should not last longer. That is several times what the look at clock and
/// driver costs when sixty short polls are in it, and nothing one would wait for.
const TURN_NS: u64 = 500_000;
/// The future of `block_on` waits for tasks that were ready before it, as many as a turn has at
/// most; for longer than this, only for those that have begun. It is much more than tasks take
/// that some program may count on to run first, in a debug build on a busy machine.
const LONG_NS: u64 = 5_000_000;
/// A backlog that its worker gets through in this time is not worth waking another
/// for: the wake alone takes about as long.
const WORTH_WAKING_NS: u64 = 20_000;
/// What a poller told of at once is worth more: where polls are shorter than a wake, those
/// who wait for each other on one core are served faster, and for less, than on two that
/// pass the sockets' memory to and fro. Measured with 64 and 512 connections.
const WORTH_CARRYING_NS: u64 = 1_000_000;
/// Longer turns are all the same: a clock that was moved by hand may say anything.
const ENOUGH_NS: u64 = 1_000_000_000;

/// What one thread has learnt of its polls.
///
/// A turn in which the system gave the core to somebody else looks like one of long polls.
/// So what one turn says counts for the length of the next, and only what two in a row say
/// for more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PollEstimator {
    /// A poll of the last turn.
    last_ns: u64,
    /// A poll of several.
    sure_ns: u64,
}

impl PollEstimator {
    pub(crate) const fn new() -> Self {
        Self { last_ns: UNKNOWN_POLL_NS, sure_ns: UNKNOWN_POLL_NS }
    }

    /// A turn of so many polls took so long. A rise counts at once, a fall slowly:
    /// taking long polls for short ones keeps tasks waiting, the reverse only looks
    /// and wakes too often.
    pub(crate) fn learn(&mut self, polls: u32, spent_ns: u64) {
        let spent_ns = spent_ns.min(ENOUGH_NS);
        let new = match polls {
            0 => return,
            1 => spent_ns, // as most often where a thread sleeps after each: no division
            _ => u64::from(spent_ns as u32 / polls),
        };
        let of_two = new.min(self.last_ns);
        self.last_ns = new;
        let old = self.sure_ns;
        self.sure_ns = if of_two >= old { of_two } else { (7 * old + of_two) / 8 };
    }

    /// The same where turns have `turn` polls, and `at_most` as many: answers how many the
    /// next one has, if there is something new. There is not if polls are as short as those
    /// before, and there may be no more of them.
    #[inline]
    pub(crate) fn learn_turn(
        &mut self,
        polls: u32,
        spent_ns: u64,
        turn: u32,
        at_most: u32,
    ) -> Option<u32> {
        if turn == at_most && spent_ns <= self.sure_ns * u64::from(polls) {
            return None;
        }
        Some(self.relearn(polls, spent_ns, at_most))
    }

    #[inline(never)]
    fn relearn(&mut self, polls: u32, spent_ns: u64, at_most: u32) -> u32 {
        self.learn(polls, spent_ns);
        self.turn(at_most)
    }

    /// How many polls the next turn has, by the runtime's configuration `at_most`.
    pub(crate) fn turn(self, at_most: u32) -> u32 {
        polls_in(TURN_NS, self.sure_ns.max(self.last_ns), at_most).max(1)
    }

    /// How many tasks may wait before another worker is woken.
    pub(crate) fn tolerance(self, at_most: u32) -> u32 {
        polls_in(WORTH_WAKING_NS, self.sure_ns, at_most)
    }

    /// The same if a poller told of them.
    pub(crate) fn io_tolerance(self, at_most: u32) -> u32 {
        let are_short = self.sure_ns < WORTH_WAKING_NS;
        let span_ns = if are_short { WORTH_CARRYING_NS } else { WORTH_WAKING_NS };
        polls_in(span_ns, self.sure_ns, at_most)
    }
}

/// Whether the future of `block_on` has been kept waiting for too long.
pub(crate) fn is_long(spent_ns: u64) -> bool {
    spent_ns >= LONG_NS
}

fn polls_in(span_ns: u64, poll_ns: u64, at_most: u32) -> u32 {
    // Most often it is as many as there may be; that is known without a division.
    if poll_ns.saturating_mul(at_most.into()) <= span_ns {
        at_most
    } else {
        (span_ns / poll_ns) as u32
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::PollEstimator;

    #[test]
    fn long_polls_make_short_turns_at_once_and_long_ones_by_and_by() {
        let mut pace = PollEstimator::new();
        for _ in 0..100 {
            pace.learn(61, 61_000);
        }
        assert_eq!((pace.turn(61), pace.turn(7), pace.tolerance(128)), (61, 7, 20));
        assert_eq!((pace.io_tolerance(256), pace.io_tolerance(5000)), (256, 1000));
        pace.learn(2, 2_000_000);
        assert_eq!((pace.turn(61), pace.tolerance(128)), (1, 20), "one long turn is enough");
        pace.learn(1, 900_000);
        assert_eq!((pace.turn(61), pace.tolerance(128)), (1, 0), "two are no accident");
        assert_eq!(pace.io_tolerance(256), 0, "long polls are worth a wake each");
        let turns = (0..100).map(|_| {
            pace.learn(1, 1_000);
            pace.turn(61)
        });
        let turns: Vec<u32> = turns.collect();
        assert!(turns.is_sorted() && turns[3] < 3 && turns[99] == 61, "{turns:?}");
    }

    #[test]
    fn a_thread_that_was_put_aside_for_once_learns_nothing_from_it() {
        let mut pace = PollEstimator::new();
        for _ in 0..100 {
            pace.learn(61, 61_000);
        }
        let before = (pace.turn(61), pace.tolerance(128), pace.io_tolerance(256));
        for _ in 0..10 {
            pace.learn(61, 3_000_000);
            assert_eq!((pace.turn(61), pace.tolerance(128)), (10, before.1));
            pace.learn(10, 10_000);
            assert_eq!((pace.turn(61), pace.tolerance(128), pace.io_tolerance(256)), before);
        }
    }

    #[test]
    fn turns_that_are_as_long_as_they_can_be_are_shortened() {
        let (mut pace, mut turn) = (PollEstimator::new(), 1);
        let mut learn = |polls, spent_ns| {
            turn = pace.learn_turn(polls, spent_ns, turn, 61).unwrap_or(turn);
            turn
        };
        let short = |_| learn(61, 61_000);
        assert_eq!((0..100).map(short).last(), Some(61));
        assert_eq!(learn(61, 61 * 2_000_000), 1, "one long turn is enough");
        let single = |_| learn(1, 1_000);
        assert_eq!((0..100).map(single).last(), Some(61));
        assert_eq!(learn(61, 61 * 20_000), 25, "longer ones, which are not long");
    }

    #[test]
    fn a_turn_without_polls_teaches_nothing() {
        let mut pace = PollEstimator::new();
        let before = pace.turn(61);
        pace.learn(0, 1_000_000_000);
        assert_eq!(pace.turn(61), before);
    }
}
