//! Visits that threads postpone when they park, so that an almost idle runtime costs almost nothing.
//!
//! A service with a hundred short requests per second is never quiet for long, so the watchdog must keep
//! visiting it. But nearly every visit finds all threads parked, and costs more than a request: the
//! kernel has to switch to the watchdog's thread. So if a visit finds all threads parked, the next one
//! is *delayed*. Threads that park later postpone it, by one system call and without waking the
//! watchdog.
//!
//! # Rules
//!
//! - POSTPONE-1. A delayed visit is due at a time `parked_at` plus its delay, and at some time since
//!   `parked_at` all threads that poll tasks of the scheduler were parked. So a long poll had not begun
//!   at that time, and is observed after at most the delay.
//! - POSTPONE-2. After [`MAX_POSTPONED`] there is a visit in any case: for scans, and for events that
//!   are only counted.
//! - POSTPONE-3. The watchdog's timer is set under the lock of its list, and only while its thread
//!   waits for the timer (`timer_due_at`). Unparking the thread ends that under the same lock.
//!
//! # Races to fear
//!
//! - *A worker checks that all are parked, and is preempted. Another one begins a poll that blocks. The
//!   first one postpones the visit.* It reads the time before it checks (`scan_gate::if_parked`), so the
//!   visit is due no later than the delay after the poll began. (Model: `models/delayed_visit.rs`.)
//! - *Two workers postpone at once, and the older time is stored last.* [`DelayedVisit::postpone`]
//!   keeps the later time. Both are right by POSTPONE-1.
//! - *The watchdog is unparked by expiring its timer, and a worker that parks sets the timer again.* It
//!   does not: POSTPONE-3.
//! - *The target leaves the list, or its visit begins.* The visit takes the delay out before it observes
//!   the scheduler. After that, there is nothing to postpone until it puts a new delay in.
//! - *A forked child sets the timer that it shares with its parent.* The child has no timer and waits
//!   for none. Every thread that postpones calls `forget_parent` first, which discards the timer.

use std::time::{Duration, Instant};

/// The longest delay of a visit.
const MAX_DELAY: Duration = Duration::from_millis(50);
/// The longest time for which a visit may be postponed.
pub(super) const MAX_POSTPONED: Duration = Duration::from_secs(1);

/// A visit that parking threads postpone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DelayedVisit {
    pub(super) due_at: Instant,
    delay: Duration,
}

impl DelayedVisit {
    /// Creates a visit that is due `delay` after `parked_at` (POSTPONE-1).
    pub(super) fn new(parked_at: Instant, delay: Duration) -> Self {
        Self { due_at: parked_at + delay, delay }
    }

    /// Postpones the visit: all threads were parked at a time since `parked_at`.
    pub(super) fn postpone(&mut self, parked_at: Instant) {
        self.due_at = self.due_at.max(parked_at + self.delay);
    }

    /// Returns the time after which postponing the visit again pays off.
    pub(super) fn ask_after(&self) -> Duration {
        self.delay / 2
    }
}

/// The result of a visit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VisitOutcome {
    /// The gate sleeps: a thread that begins to work wakes the watchdog.
    Asleep,
    /// Since `parked_at`, there was a time when every thread that polls tasks was parked.
    AllParked { parked_at: Instant },
    /// A thread may be in a poll.
    AtWork,
}

/// When the watchdog visits a target again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct NextVisit {
    /// The longest time until the visit. `None`: not before the target is woken.
    pub(super) after: Option<Duration>,
    /// An earlier visit, unless parking threads postpone it.
    pub(super) delayed: Option<DelayedVisit>,
}

impl NextVisit {
    /// Decides when a target is visited again.
    ///
    /// A scheduler at work is visited every `tick`. The next scan is due after `scan_after`, and a
    /// poll may block for `report_after` before it is reported.
    pub(super) fn new(
        outcome: VisitOutcome,
        tick: Duration,
        scan_after: Option<Duration>,
        report_after: Option<Duration>,
    ) -> Self {
        match outcome {
            VisitOutcome::Asleep => Self { after: scan_after, delayed: None },
            VisitOutcome::AtWork => Self { after: Some(tick), delayed: None },
            VisitOutcome::AllParked { parked_at } => Self {
                after: Some(scan_after.map_or(MAX_POSTPONED, |after| after.min(MAX_POSTPONED))),
                delayed: Some(DelayedVisit::new(parked_at, delay(tick, report_after))),
            },
        }
    }
}

/// Returns the delay of a visit after the time at which all threads were parked.
///
/// A poll has to be observed several times before it is reported, so the first time comes early enough.
fn delay(tick: Duration, report_after: Option<Duration>) -> Duration {
    let early_enough = report_after.map_or(MAX_DELAY, |after| after / 2);
    early_enough.min(MAX_DELAY).max(tick)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{DelayedVisit, MAX_POSTPONED, NextVisit, VisitOutcome, delay};
    use std::time::{Duration, Instant};

    const TICK: Duration = ms(25);
    const REPORT: Option<Duration> = Some(ms(100));

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_scheduler_at_work_is_visited_at_every_tick() {
        let next = NextVisit::new(VisitOutcome::AtWork, TICK, Some(ms(1)), REPORT);
        assert_eq!(next, NextVisit { after: Some(TICK), delayed: None });
    }

    #[test]
    fn a_gate_that_sleeps_is_visited_only_for_scans() {
        for scan_after in [None, Some(ms(7_000))] {
            let next = NextVisit::new(VisitOutcome::Asleep, TICK, scan_after, REPORT);
            assert_eq!(next, NextVisit { after: scan_after, delayed: None });
        }
    }

    #[test]
    fn a_visit_of_parked_threads_is_delayed_until_the_next_scan_at_the_latest() {
        let parked_at = Instant::now();
        let delayed = Some(DelayedVisit::new(parked_at, ms(50)));
        for (scan_ms, latest) in
            [(Some(300), ms(300)), (Some(9_000), MAX_POSTPONED), (None, MAX_POSTPONED)]
        {
            let outcome = VisitOutcome::AllParked { parked_at };
            let next = NextVisit::new(outcome, TICK, scan_ms.map(ms), REPORT);
            assert_eq!(next, NextVisit { after: Some(latest), delayed });
        }
    }

    #[test]
    fn the_delay_leaves_time_for_the_report_and_is_no_shorter_than_a_tick() {
        let delays = [None, Some(2_000), Some(100), Some(70), Some(20)]
            .map(|report_ms| delay(TICK, report_ms.map(ms)).as_millis());
        assert_eq!(delays, [50, 50, 50, 35, 25]);
        assert_eq!(delay(ms(5), Some(ms(20))), ms(10), "a short tick allows a short delay");
    }

    /// Returns the time of the visit, in milliseconds, if threads park at these times.
    fn visited_at(parks: &[u64]) -> u64 {
        let start = Instant::now();
        let mut visit = DelayedVisit::new(start, ms(50));
        for park in parks {
            let now = start + ms(*park);
            if now >= visit.due_at {
                break;
            }
            visit.postpone(now);
        }
        visit.due_at.duration_since(start).as_millis() as u64
    }

    #[test]
    fn a_visit_takes_place_a_delay_after_the_last_park_before_it() {
        assert_eq!(visited_at(&[]), 50);
        assert_eq!(visited_at(&[20, 40, 85]), 135);
        assert_eq!(visited_at(&[20, 71]), 70, "a thread at work since 20 is seen at 70");
        assert_eq!(visited_at(&[40, 30]), 90, "the older time came last");
    }
}
