//! Findings about situations that last, such as a lock that is not released.
//!
//! Others are panics that no task observes, closures that run after an abort, spawn sites whose
//! number of tasks only grows, and waits that may never end.
//!
//! None of these is a bug at first sight: a lock may be held for a moment, and a handle may be
//! awaited later. So a single scan reports nothing. [`Findings`] remembers when it saw a situation,
//! and reports one that has lasted for
//! [`report_lasting_after`](crate::runtime::Builder::report_lasting_after).
//!
//! ```text
//! diagram
//!   Walk::take() ──► Findings::observe() ──► record() each situation ──► due: report it once
//!   (all tasks)          ▲                            │ not due
//!                        └──── schedule_recheck() ────┘
//! ```
//!
//! - [`walk`]: one walk over all tasks collects the candidates.
//! - [`holders`]: locks and permits that are not released.
//! - [`growth`]: spawn sites whose number of tasks only grows.
//! - [`stalls`]: waits whose amounts or history suggest that they may never end.
//!
//! The watchdog observes after each deadlock scan, within the CPU budget of the scan. A situation
//! that is not observed again is forgotten. A paused clock does not measure how long a situation
//! lasts, so only `Handle::diagnose` observes such a runtime.

mod growth;
mod holders;
mod stalls;
mod walk;

use super::report::{AbortedClosure, Report, Stalled, UnawaitedPanic};
use crate::sys::sort::sort_by_key;
use crate::watchdog::snapshot::Inspectable;
use growth::Growth;
use holders::Tasks;
use stalls::{StallGroup, StallKey};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::panic::Location;
use std::time::Duration;
use walk::{Contended, Walk};

/// The lasting situations of one runtime, with the times at which they were seen.
#[derive(Default)]
pub(crate) struct Findings {
    lasting: HashMap<Key, Lasting>,
    /// Slow holders that were reported, until no task waits for the resource.
    reported_holders: HashSet<ReportedHolder>,
    /// Stalled waits that were reported, until no task waits for that reason.
    reported_stalls: HashSet<StallKey>,
    growth: Growth,
}

/// The id of a resource, and where it was acquired. Tasks that take turns at one site make the same
/// mistake, so they are reported once.
type ReportedHolder = (u64, Vec<Option<&'static Location<'static>>>);

/// Identifies a situation across observations.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    /// The id of a contended resource, and the ids of its owners.
    Held(u64, Vec<u64>),
    /// The id of a task.
    Panic(u64),
    /// The id of a closure.
    Aborted(u64),
    /// A stalled wait, and the id of the task that has waited longest.
    Stalled(StallKey, u64),
}

/// The times at which a situation was seen, on the runtime's clock.
#[derive(Default)]
struct Lasting {
    /// Ascending. The first time is never discarded.
    seen_at: Vec<Duration>,
    is_reported: bool,
}

/// The maximum number of times remembered for one situation.
const MAX_SEEN: usize = 64;
/// The maximum number of slow holders, and of stalls, that one observation reports.
const MAX_REPORTS: usize = 8;
/// A lock with one waiter is reported after this multiple of the time for several waiters.
const ONE_WAITER_FACTOR: u32 = 3;
/// A stalled wait is reported after this multiple of the time for other situations.
const STALL_FACTOR: u32 = 3;

impl Lasting {
    fn see(&mut self, now: Duration) {
        if self.seen_at.len() == MAX_SEEN {
            self.seen_at.remove(1);
        }
        self.seen_at.push(now);
    }

    /// Returns the time since the situation was first seen, within the last `window`.
    fn lasted(&self, now: Duration, window: Duration) -> Duration {
        let age = |at: &Duration| now.saturating_sub(*at);
        self.seen_at.iter().map(age).find(|age| *age <= window).unwrap_or_default()
    }
}

/// The receiver of the findings of an observation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Audience {
    /// The report hook: each situation once.
    Hook,
    /// The caller of `Handle::diagnose`: every situation that lasts now.
    Diagnose,
}

/// The result of an observation.
#[derive(Default)]
pub(crate) struct Observed {
    pub(crate) reports: Vec<Report>,
    /// The time after which the next situation may be due.
    pub(crate) again_after: Option<Duration>,
}

impl Observed {
    fn schedule_recheck(&mut self, after: Duration) {
        self.again_after = Some(self.again_after.map_or(after, |other| other.min(after)));
    }
}

impl Findings {
    /// Observes the runtime, and returns what has lasted long enough.
    pub(crate) fn observe(&mut self, scheduler: &dyn Inspectable, audience: Audience) -> Observed {
        let config = &scheduler.base().config;
        let Some(after) = config.report_lasting_after else { return Observed::default() };
        let now = config.env.clock.elapsed();
        let mut walk = Walk::take(scheduler, now, &self.growth);
        let mut round = Round {
            before: std::mem::take(&mut self.lasting),
            now: HashMap::new(),
            at: now,
            audience,
            observed: Observed::default(),
        };
        let stalls = stalls::group(std::mem::take(&mut walk.stalls), |record| walk.waiters(record));
        self.record_stalls(&mut round, scheduler, stalls, after.saturating_mul(STALL_FACTOR));
        self.record_holders(&mut round, scheduler, walk.take_contended(), after);
        for (task, is_closure) in walk.panicked {
            round.record(Key::Panic(task.id), Duration::MAX, after, |since| {
                Some(Report::UnawaitedPanic(UnawaitedPanic::new(task, is_closure, since)))
            });
        }
        for task in walk.aborted {
            round.record(Key::Aborted(task.id), Duration::MAX, after, |since| {
                Some(Report::AbortedClosure(AbortedClosure::new(task, since)))
            });
        }
        let Round { now: lasting, mut observed, .. } = round;
        self.lasting = lasting;
        for growing in self.growth.update(walk.sites, now, after, audience) {
            let wait = walk::common_wait(scheduler, growing.spawned_at());
            observed.reports.push(Report::GrowingTasks(growing.with_wait(wait)));
        }
        observed
    }

    /// Records waits that may never end. Each reason is reported once, with the oldest wait.
    fn record_stalls(
        &mut self,
        round: &mut Round,
        scheduler: &dyn Inspectable,
        groups: BTreeMap<StallKey, StallGroup>,
        patience: Duration,
    ) {
        self.reported_stalls.retain(|key| groups.contains_key(key));
        let is_for_hook = round.audience == Audience::Hook;
        let (tasks, mut reported) = (Tasks::new(scheduler), 0);
        for (key, group) in groups {
            if is_for_hook && self.reported_stalls.contains(&key) {
                continue;
            }
            let mut is_put_off = false;
            let oldest = group.oldest.wait.task.id;
            round.record(Key::Stalled(key, oldest), group.oldest.wait.waited, patience, |_| {
                is_put_off = reported == MAX_REPORTS;
                let cause = (!is_put_off).then(|| group.oldest.cause(&tasks)).flatten()?;
                reported += 1;
                if is_for_hook {
                    self.reported_stalls.insert(key);
                }
                Some(Report::Stalled(Stalled::new(group.oldest.wait, cause, group.others)))
            });
            if is_put_off {
                round.observed.schedule_recheck(patience);
            }
        }
    }

    /// Records the holders of all resources that tasks wait for.
    fn record_holders(
        &mut self,
        round: &mut Round,
        scheduler: &dyn Inspectable,
        contended: Vec<Contended>,
        after: Duration,
    ) {
        let ids: BTreeSet<u64> = contended.iter().map(Contended::resource_id).collect();
        self.reported_holders.retain(|(resource, _)| ids.contains(resource));
        let (tasks, mut reported) = (Tasks::new(scheduler), 0);
        for contended in contended {
            let Some(owners) = contended.owned_by() else { continue };
            let key = owners.key(contended.resource_id());
            let patience =
                if contended.waiters > 1 { after } else { after.saturating_mul(ONE_WAITER_FACTOR) };
            let mut sites: Vec<_> = owners.named.iter().map(|owner| owner.site).collect();
            sort_by_key(&mut sites, |site| *site);
            let holder = (contended.resource_id(), sites);
            let is_for_hook = round.audience == Audience::Hook;
            let is_repeated = is_for_hook && self.reported_holders.contains(&holder);
            // A release hands the resource to the waiter that is queued first. So no owner can
            // release it and acquire it again while a waiter stays. Observations from before that
            // wait do not count.
            let mut is_put_off = false;
            round.record(key, contended.oldest.waited, patience, |held| {
                is_put_off = reported == MAX_REPORTS && !is_repeated;
                if is_put_off || is_repeated {
                    return None;
                }
                let slow = holders::slow_holder(&tasks, &contended, &owners, held)?;
                reported += 1;
                if is_for_hook {
                    self.reported_holders.insert(holder);
                }
                Some(Report::SlowHolder(slow))
            });
            if is_put_off {
                round.observed.schedule_recheck(after);
            }
        }
    }
}

/// An observation in progress.
struct Round {
    /// Situations of the previous observation that have not been noted again yet.
    before: HashMap<Key, Lasting>,
    now: HashMap<Key, Lasting>,
    at: Duration,
    audience: Audience,
    observed: Observed,
}

impl Round {
    /// Records a situation. If it has lasted for `patience` within `window`, `make_report` is called.
    fn record(
        &mut self,
        key: Key,
        window: Duration,
        patience: Duration,
        make_report: impl FnOnce(Duration) -> Option<Report>,
    ) {
        let mut lasting = self.before.remove(&key).unwrap_or_default();
        lasting.see(self.at);
        let lasted = lasting.lasted(self.at, window);
        let is_new = !lasting.is_reported || self.audience == Audience::Diagnose;
        if lasted < patience {
            if !lasting.is_reported {
                self.observed.schedule_recheck(patience - lasted);
            }
        } else if is_new && let Some(report) = make_report(lasted) {
            lasting.is_reported |= self.audience == Audience::Hook;
            self.observed.reports.push(report);
        }
        self.now.insert(key, lasting);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Records a panic of task 7 at this second. Returns how long it had lasted if it was reported.
    fn record(lasting: &mut HashMap<Key, Lasting>, at: u32, window: u32) -> Option<Duration> {
        let before = std::mem::take(lasting);
        let (now, observed) = (HashMap::new(), Observed::default());
        let mut round = Round { before, now, at: at * SECOND, audience: Audience::Hook, observed };
        let mut reported = None;
        round.record(Key::Panic(7), window * SECOND, 3 * SECOND, |lasted| {
            reported = Some(lasted);
            let dropped = crate::inspect::NeverPolled::new(Vec::new());
            Some(Report::NeverPolled(dropped))
        });
        assert_eq!(round.observed.reports.len(), usize::from(reported.is_some()));
        *lasting = round.now;
        reported
    }

    #[test]
    fn a_situation_is_reported_once_after_it_has_lasted() {
        let mut lasting = HashMap::new();
        let reported: Vec<_> =
            [10, 11, 12, 14, 15, 30].map(|at| record(&mut lasting, at, 1000)).into_iter().collect();
        assert_eq!(reported, [None, None, None, Some(4 * SECOND), None, None]);
    }

    #[test]
    fn a_situation_that_was_not_seen_in_between_starts_again() {
        let mut lasting = HashMap::new();
        assert_eq!(record(&mut lasting, 10, 1000), None);
        lasting.clear();
        assert_eq!(record(&mut lasting, 20, 1000), None);
        assert_eq!(record(&mut lasting, 24, 1000), Some(4 * SECOND));
    }

    #[test]
    fn what_was_seen_before_the_window_does_not_count() {
        let mut lasting = HashMap::new();
        for at in 0..20 {
            assert_eq!(record(&mut lasting, at, 2), None, "{at}");
        }
        assert_eq!(record(&mut lasting, 20, 5), Some(5 * SECOND));
    }

    #[test]
    fn the_first_time_is_never_forgotten() {
        let mut lasting = Lasting::default();
        for at in 0..1000 {
            lasting.see(at * SECOND);
        }
        assert_eq!(lasting.seen_at.len(), MAX_SEEN);
        assert_eq!(lasting.lasted(1000 * SECOND, Duration::MAX), 1000 * SECOND);
    }
}
