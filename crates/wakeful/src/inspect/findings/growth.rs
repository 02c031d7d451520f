//! Spawn sites whose number of tasks only grows.
//!
//! A site with many tasks is watched. The watch restarts when the number of tasks falls, or when the tasks that it
//! began with run or end, because then they are not a leak. Tasks of a busy server run all the time, and a burst stops
//! growing, so neither is reported. Nor are tasks that wait for descriptors: a server has one for each idle
//! connection.

use super::Audience;
use crate::inspect::report::GrowingTasks;
use std::collections::HashMap;
use std::panic::Location;
use std::time::Duration;

/// The minimum number of tasks of a watched site.
const MIN_TASKS: usize = 1000;
/// The minimum number of samples in which the number of tasks has grown.
const MIN_RISES: u32 = 3;
/// The minimum length of a watch, in intervals between two samples.
const MIN_SAMPLES: u32 = 3;
/// The reciprocal of the tolerated share of exceptions.
///
/// One in this many tasks that the watch began with may have run, and one in this many living tasks
/// may wait for a descriptor.
const EXCEPTION_RATIO: usize = 20;

/// The tasks of one site in one walk.
#[derive(Clone, Copy, Default)]
pub(super) struct SiteCount {
    pub(super) alive: usize,
    /// Tasks that have not run since the watch began.
    pub(super) unmoved: usize,
    /// Tasks that wait for a descriptor, possibly among other waits.
    pub(super) for_descriptors: usize,
}

/// All sites that are watched.
#[derive(Default)]
pub(super) struct Growth(HashMap<&'static Location<'static>, SiteWatch>);

/// The watch of one site.
struct SiteWatch {
    since: Duration,
    /// The number of tasks that the watch began with.
    alive: usize,
    rises: u32,
    last_at: Duration,
    last_alive: usize,
    /// The number of tasks in the last report.
    reported_alive: usize,
}

impl SiteWatch {
    fn new(now: Duration, alive: usize, reported_alive: usize) -> Self {
        Self { since: now, alive, rises: 0, last_at: now, last_alive: alive, reported_alive }
    }

    /// Adds a sample. Returns whether the number of tasks only grows.
    fn add(&mut self, count: SiteCount, now: Duration, spacing: Duration) -> bool {
        let has_run = self.alive.saturating_sub(count.unmoved);
        let have_run = has_run * EXCEPTION_RATIO > self.alive;
        let are_connections = count.for_descriptors * EXCEPTION_RATIO > count.alive;
        if have_run || are_connections || count.alive < self.last_alive {
            *self = Self::new(now, count.alive, self.reported_alive);
            return false;
        }
        if now.saturating_sub(self.last_at) >= spacing {
            self.rises += u32::from(count.alive > self.last_alive);
            (self.last_at, self.last_alive) = (now, count.alive);
        }
        self.rises >= MIN_RISES
            && now.saturating_sub(self.since) >= spacing.saturating_mul(MIN_SAMPLES)
            && count.alive >= self.alive + self.alive / 2
    }
}

impl Growth {
    /// Returns the start of the watch of this site, in milliseconds of the runtime's clock.
    pub(super) fn watched_ms(&self, site: &'static Location<'static>) -> Option<u32> {
        self.0.get(site).map(|watch| watch.since.as_millis() as u32)
    }

    /// Adds the counts of a walk. Returns the sites that only grow, without their common waits.
    ///
    /// A site is reported to the hook again when its number of tasks has doubled.
    pub(super) fn update(
        &mut self,
        sites: HashMap<&'static Location<'static>, SiteCount>,
        now: Duration,
        spacing: Duration,
        audience: Audience,
    ) -> Vec<GrowingTasks> {
        let is_many = |count: &SiteCount| count.alive >= MIN_TASKS;
        self.0.retain(|site, _| sites.get(site).is_some_and(is_many));
        let mut growing = Vec::new();
        for (spawned_at, count) in sites.into_iter().filter(|(_, count)| is_many(count)) {
            let new = || SiteWatch::new(now, count.alive, 0);
            let Some(watch) = self.0.get_mut(spawned_at) else {
                self.0.insert(spawned_at, new());
                continue;
            };
            let grows = watch.add(count, now, spacing);
            let is_new = count.alive >= 2 * watch.reported_alive || audience == Audience::Diagnose;
            if !grows || !is_new {
                continue;
            }
            if audience == Audience::Hook {
                watch.reported_alive = count.alive;
            }
            // The times of tasks are rounded: some may be younger than the watch.
            let unmoved = count.unmoved.min(watch.alive);
            let within = now.saturating_sub(watch.since);
            let (alive, before) = (count.alive, watch.alive);
            growing.push(GrowingTasks::new(spawned_at, alive, before, unmoved, within));
        }
        growing
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const SPACING: Duration = Duration::from_secs(3);

    /// Feeds one site with samples of (second, alive, unmoved). Returns what is reported at each.
    fn reports(samples: &[(u64, usize, usize)]) -> Vec<Option<usize>> {
        reports_of(samples, |_| 0)
    }

    /// Like [`reports`], with a function that says how many of the tasks wait for descriptors.
    fn reports_of(
        samples: &[(u64, usize, usize)],
        for_descriptors: fn(usize) -> usize,
    ) -> Vec<Option<usize>> {
        let (mut growth, site) = (Growth::default(), Location::caller());
        let sample = |(second, alive, unmoved): &(u64, usize, usize)| {
            let count = SiteCount {
                alive: *alive,
                unmoved: *unmoved,
                for_descriptors: for_descriptors(*alive),
            };
            let now = Duration::from_secs(*second);
            let reported = growth.update([(site, count)].into(), now, SPACING, Audience::Hook);
            reported.first().map(GrowingTasks::alive)
        };
        samples.iter().map(sample).collect()
    }

    #[test]
    fn tasks_that_only_grow_in_number_are_reported_at_each_doubling() {
        let reported = reports(&[
            (0, 1000, 0),
            (3, 1200, 1000),
            (6, 1400, 1000),
            (9, 1600, 1000),
            (12, 2000, 1000),
            (15, 3200, 1000),
        ]);
        assert_eq!(reported, [None, None, None, Some(1600), None, Some(3200)]);
    }

    #[test]
    fn tasks_of_idle_connections_are_not_reported() {
        let ramp = [0, 3, 6, 9, 12].map(|at| (at, 1000 + 200 * at as usize, 1000));
        assert_eq!(reports_of(&ramp, |alive| alive / 10), [None; 5]);
        assert_eq!(reports_of(&ramp, |alive| alive / 20), reports(&ramp));
        assert!(reports(&ramp).iter().any(Option::is_some));
    }

    #[test]
    fn few_tasks_a_burst_and_slow_growth_are_not_reported() {
        assert_eq!(reports(&[(0, 100, 0), (3, 300, 100), (6, 600, 100), (9, 999, 100)]), [None; 4]);
        assert_eq!(reports(&[0, 3, 6, 9, 12].map(|at| (at, 50_000, 50_000))), [None; 5]);
        let slow = [0, 3, 6, 9, 12, 15].map(|at| (at, 1000 + at as usize, 1000));
        assert_eq!(reports(&slow), [None; 6]);
    }

    #[test]
    fn tasks_that_run_or_end_are_not_reported() {
        let samples = [0, 3, 6, 9, 12, 15, 18].map(|at| (at, 1000 + 200 * at as usize, 900));
        assert_eq!(reports(&samples), [None; 7]);
        let ends =
            [(0, 1000, 0), (3, 2000, 1000), (6, 1900, 1000), (9, 2500, 1000), (12, 2900, 1900)];
        assert_eq!(reports(&ends), [None; 5]);
    }

    #[test]
    fn samples_in_quick_succession_count_as_one() {
        let quick = [0, 1, 2, 3, 4].map(|at| (at, 1000 + 500 * at as usize, 1000));
        assert_eq!(reports(&quick), [None; 5]);
    }
}
