//! Decides when a runtime is scanned for deadlocks, and when the watchdog may stop visiting it.
//!
//! A scan is due
//! - once nothing has happened in an idle runtime for [`QUIET_PERIOD`],
//! - every [`BUSY_INTERVAL`] while the runtime works,
//! - after [`MIN_PATIENCE`], doubling up to [`MAX_PATIENCE`], while a thread outside of the runtime
//!   may still help, or a `block_on` is polled, since no thread announces their end,
//! - when a wait or another situation that a scan found becomes old enough to be reported.
//!
//! Scans take at most one part in [`SCAN_SHARE`] of a CPU.

use super::target::Watched;
use crate::scheduler::external_block_on::BlockOnPolls;
use std::time::{Duration, Instant};

/// The time without progress after which an idle runtime is scanned, and may then be left alone.
const QUIET_PERIOD: Duration = Duration::from_millis(100);
/// The interval between scans of a runtime at work.
const BUSY_INTERVAL: Duration = Duration::from_secs(1);
const MIN_PATIENCE: Duration = Duration::from_secs(1);
const MAX_PATIENCE: Duration = Duration::from_secs(60);
/// The minimum time to the next scan, as a multiple of the CPU time of the last one.
const SCAN_SHARE: u32 = 100;

/// A fingerprint of the progress of a scheduler. Two equal ones mean that nothing happened in
/// between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProgressSnapshot {
    /// Progress of its own threads: [`Watched::activity`](super::Watched::activity).
    pub(super) activity: u64,
    /// Work that ended on other threads: `ScanGate::progress`.
    pub(super) events: u64,
}

impl ProgressSnapshot {
    pub(super) fn of(scheduler: &dyn Watched) -> Self {
        Self { activity: scheduler.activity(), events: scheduler.base().gate.progress() }
    }
}

/// The scan schedule of one runtime, in real time rather than on the runtime's clock.
pub(super) struct ScanSchedule {
    progress: Option<ProgressSnapshot>,
    /// The time at which the last progress was seen.
    quiet_since: Instant,
    /// The `block_on` polls before the scan, if the runtime has been scanned since `quiet_since`.
    scanned: Option<BlockOnPolls>,
    /// The time of the next scan even without progress.
    next: Option<Instant>,
    /// No scan is due before this time.
    earliest: Instant,
    /// How long to wait for a thread outside of the runtime.
    patience: Duration,
    /// The CPU time of the last scan.
    pub(super) last_cost: Duration,
}

impl ScanSchedule {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            progress: None,
            quiet_since: now,
            scanned: None,
            next: Some(now + BUSY_INTERVAL),
            earliest: now,
            patience: MIN_PATIENCE,
            last_cost: Duration::ZERO,
        }
    }

    /// Compares the progress seen by this visit with that of the last visit.
    pub(super) fn update(&mut self, now: Instant, progress: ProgressSnapshot, is_idle: bool) {
        if !is_idle || self.progress != Some(progress) {
            self.progress = Some(progress);
            self.restart(now);
        }
    }

    /// Begins a new quiet period, after progress.
    pub(super) fn restart(&mut self, now: Instant) {
        self.quiet_since = now;
        self.patience = MIN_PATIENCE;
        if self.scanned.take().is_some() {
            self.next = Some(now + BUSY_INTERVAL);
        }
    }

    fn is_quiet(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.quiet_since) >= QUIET_PERIOD
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        let is_new = self.is_quiet(now) && self.scanned.is_none();
        now >= self.earliest && (is_new || self.next.is_some_and(|next| now >= next))
    }

    /// Records a scan that began at `now` and took `cost` of CPU time. `polls` were read before it.
    ///
    /// `again_in` is set if an event that no thread announces may change the result, but not before
    /// that time.
    pub(super) fn add_scan(
        &mut self,
        now: Instant,
        cost: Duration,
        polls: BlockOnPolls,
        again_in: Option<Duration>,
    ) {
        let pause = cost * SCAN_SHARE;
        self.last_cost = cost;
        self.earliest = now + pause;
        if self.is_quiet(now) {
            self.next = again_in.map(|again_in| now + again_in.max(self.patience).max(pause));
            self.patience = MAX_PATIENCE.min(self.patience * 2);
            self.scanned = Some(polls);
        } else {
            self.next = Some(now + BUSY_INTERVAL.max(pause));
        }
    }

    /// Returns the state that the last scan saw, if there has been no progress since.
    ///
    /// The watchdog then need not visit the runtime before `next_in`.
    pub(super) fn scanned(&self) -> Option<(ProgressSnapshot, &BlockOnPolls)> {
        Some((self.progress?, self.scanned.as_ref()?))
    }

    /// Returns the time until the next scan that is due without progress.
    pub(super) fn next_in(&self, now: Instant) -> Option<Duration> {
        self.next.map(|next| next.max(self.earliest).saturating_duration_since(now))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{
        BUSY_INTERVAL, BlockOnPolls, MAX_PATIENCE, ProgressSnapshot, QUIET_PERIOD, SCAN_SHARE,
        ScanSchedule,
    };
    use std::time::{Duration, Instant};

    const MOMENT: Duration = Duration::from_millis(1);

    fn progress(events: u64) -> ProgressSnapshot {
        ProgressSnapshot { activity: 0, events }
    }

    /// A schedule that has seen an idle runtime at `now`.
    fn idle(now: Instant) -> ScanSchedule {
        let mut schedule = ScanSchedule::new(now);
        schedule.update(now, progress(0), true);
        schedule
    }

    fn scan(schedule: &mut ScanSchedule, now: Instant, may_change: bool) {
        let again_in = may_change.then_some(Duration::ZERO);
        schedule.add_scan(now, Duration::ZERO, BlockOnPolls::default(), again_in);
    }

    #[test]
    fn a_quiet_runtime_is_scanned_once() {
        let now = Instant::now();
        let mut schedule = idle(now);
        schedule.update(now + MOMENT, progress(0), true);
        assert!(!schedule.is_due(now + QUIET_PERIOD - MOMENT));
        let now = now + QUIET_PERIOD;
        assert!(schedule.is_due(now) && schedule.scanned().is_none());
        scan(&mut schedule, now, false);
        assert!(schedule.scanned().is_some());
        assert!(!schedule.is_due(now + MAX_PATIENCE) && schedule.next_in(now).is_none());
    }

    #[test]
    fn progress_begins_a_new_quiet_period() {
        let now = Instant::now() + QUIET_PERIOD;
        let mut schedule = idle(now - QUIET_PERIOD);
        schedule.update(now, progress(1), true);
        assert!(!schedule.is_due(now), "an event has happened");
        let now = now + QUIET_PERIOD;
        scan(&mut schedule, now, false);
        schedule.update(now, progress(1), false);
        assert!(schedule.scanned().is_none(), "a thread is at work");
        assert!(!schedule.is_due(now) && schedule.is_due(now + QUIET_PERIOD));
    }

    #[test]
    fn a_busy_runtime_is_scanned_now_and_then() {
        let start = Instant::now();
        let mut schedule = ScanSchedule::new(start);
        let mut scans = Vec::new();
        for ms in 0..3500 {
            let now = start + Duration::from_millis(ms);
            schedule.update(now, progress(ms), true);
            if schedule.is_due(now) {
                scan(&mut schedule, now, true);
                scans.push(ms);
            }
        }
        let interval = BUSY_INTERVAL.as_millis() as u64;
        assert_eq!(scans, [interval, 2 * interval, 3 * interval]);
    }

    #[test]
    fn a_scan_that_another_thread_may_change_is_repeated_after_longer_and_longer() {
        let mut now = Instant::now();
        let mut schedule = idle(now);
        now += QUIET_PERIOD;
        for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
            scan(&mut schedule, now, true);
            let next = schedule.next_in(now).unwrap();
            assert_eq!(next.as_secs(), seconds);
            now += next;
            assert!(schedule.is_due(now) && !schedule.is_due(now - MOMENT));
            schedule.update(now, progress(0), true);
        }
        schedule.restart(now);
        now += QUIET_PERIOD;
        scan(&mut schedule, now, true);
        assert_eq!(schedule.next_in(now).unwrap().as_secs(), 1, "from the start");
    }

    /// A wait that is too young is found as soon as it is old enough. If the runtime's clock is
    /// paused, the watchdog does not scan for it repeatedly.
    #[test]
    fn a_young_wait_is_scanned_again_when_it_is_old_enough() {
        let mut now = Instant::now();
        let mut schedule = idle(now);
        now += QUIET_PERIOD;
        let young = Some(Duration::from_millis(1900));
        for ms in [1900, 2000, 4000] {
            schedule.add_scan(now, Duration::ZERO, BlockOnPolls::default(), young);
            let next = schedule.next_in(now).unwrap();
            assert_eq!(next.as_millis(), ms);
            now += next;
        }
    }

    #[test]
    fn scans_take_a_small_share_of_the_time() {
        let now = Instant::now() + QUIET_PERIOD;
        let mut schedule = idle(now - QUIET_PERIOD);
        let cost = Duration::from_millis(50);
        schedule.add_scan(now, cost, BlockOnPolls::default(), None);
        schedule.update(now, progress(1), true);
        let pause = cost * SCAN_SHARE;
        assert_eq!(schedule.next_in(now), Some(pause), "not after the busy interval");
        assert!(!schedule.is_due(now + pause - MOMENT) && schedule.is_due(now + pause));
    }
}
