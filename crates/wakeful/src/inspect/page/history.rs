//! The history of the last ten minutes: one sample a second, in a ring of fixed size.

use crate::inspect::Histogram;
use crate::inspect::runtimes::{self, CURRENT_THREAD, InspectedRuntime};
use crate::sys::sort::sort_by_key;
use crate::sys::sync::ignore_poison;
use crate::task::state::COMPLETE;
use crate::telemetry::histogram::Counts;
use crate::watchdog::snapshot::{WorkerActivity, WorkerSnapshot};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::panic::Location;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// The number of samples of a runtime: ten minutes.
const SAMPLES: usize = 600;
/// The number of counts of a spawn site: one minute, with at most one a second.
const GROUP_SAMPLES: usize = 61;
const GROUP_TIME: Duration = Duration::from_secs(60);
/// The maximum number of spawn sites tracked.
const MAX_GROUPS: usize = 256;
/// The maximum number of runtimes tracked.
const MAX_RUNTIMES: usize = 16;
/// The share of the time that may be spent on counting tasks by site: 1/200.
const WALK_SHARE: u32 = 200;

/// Identifies the tasks of one runtime that were spawned at one site.
pub(super) type GroupKey = (u64, &'static Location<'static>);

/// The state of a runtime in one second.
#[derive(Clone, Debug, Default)]
pub(super) struct Sample {
    /// The time of the sample since the history began.
    pub(super) at: Duration,
    pub(super) alive: usize,
    /// Tasks spawned, and polls, since the last sample.
    pub(super) spawned: u64,
    pub(super) polls: u64,
    pub(super) queued: usize,
    pub(super) blocking: u64,
    /// The busy share of each worker.
    pub(super) busy: Vec<f64>,
    /// The 99th percentile of polls and of the time from wake-up to poll, of the last second.
    pub(super) poll_p99: Duration,
    pub(super) wake_p99: Duration,
}

/// The counters of a runtime at the last sample, from which the next one is computed.
struct Last {
    at: Instant,
    spawned: u64,
    workers: Vec<WorkerSnapshot>,
}

#[derive(Default)]
struct RuntimeHistory {
    samples: VecDeque<Sample>,
    last: Option<Last>,
    /// The number of tasks at the last walk.
    alive: usize,
    /// The number of tasks in workers' own queues at the last walk. Without a walk, only the queues of a
    /// multi-thread runtime can be read.
    queued: usize,
}

/// The counts of a walk over the tasks of all runtimes.
#[derive(Default)]
struct Walk {
    groups: HashMap<GroupKey, usize>,
    /// By runtime: tasks alive, and tasks in workers' own queues.
    runtimes: HashMap<u64, (usize, usize)>,
}

#[derive(Default)]
struct Samples {
    runtimes: HashMap<u64, RuntimeHistory>,
    /// The counts of each walk of the last minute, with its time since the history began.
    groups: HashMap<GroupKey, VecDeque<(Duration, usize)>>,
}

/// The samples of all runtimes.
pub(super) struct History {
    began: Instant,
    samples: Mutex<Samples>,
    /// Tasks are not counted again before this time.
    next_walk: Mutex<Instant>,
}

impl History {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        Self { began: now, samples: Mutex::default(), next_walk: Mutex::new(now) }
    }

    fn lock(&self) -> MutexGuard<'_, Samples> {
        ignore_poison(self.samples.lock())
    }

    pub(super) fn began(&self) -> Instant {
        self.began
    }

    /// Takes a sample of every runtime.
    pub(super) fn sample(&self) {
        let mut runtimes = runtimes::all();
        runtimes.truncate(MAX_RUNTIMES);
        let walk = self.walk(&runtimes);
        let mut samples = self.lock();
        let ids: BTreeSet<u64> = runtimes.iter().map(|runtime| runtime.id()).collect();
        samples.runtimes.retain(|id, _| ids.contains(id));
        samples.groups.retain(|(id, _), _| ids.contains(id));
        for runtime in &runtimes {
            let history = samples.runtimes.entry(runtime.id()).or_default();
            let counts = walk.as_ref().and_then(|walk| walk.runtimes.get(&runtime.id()));
            if let Some((alive, queued)) = counts {
                (history.alive, history.queued) = (*alive, *queued);
            }
            history.add(&**runtime, self.began);
        }
        if let Some(walk) = walk {
            samples.add_groups(self.began.elapsed(), walk.groups);
        }
    }

    /// Counts the tasks, unless that would take too large a share of the time.
    fn walk(&self, all: &[std::sync::Arc<dyn InspectedRuntime>]) -> Option<Walk> {
        let began = Instant::now();
        let mut next_walk = ignore_poison(self.next_walk.lock());
        if began < *next_walk {
            return None;
        }
        let mut walk = Walk::default();
        for runtime in all {
            let mut alive = 0;
            runtime.inspectable().each_task(&mut |task| {
                if !task.state().has(COMPLETE) {
                    let site = task.header().origin.get().spawned_at();
                    *walk.groups.entry((runtime.id(), site)).or_default() += 1;
                    alive += 1;
                }
            });
            let workers = runtime.inspectable().workers_and_queues();
            walk.runtimes.insert(runtime.id(), (alive, workers.iter().map(|it| it.queued).sum()));
        }
        *next_walk = began + began.elapsed() * WALK_SHARE;
        Some(walk)
    }

    /// Makes the next sample count the tasks, as if enough time had passed.
    #[cfg(feature = "test-util")]
    pub(super) fn make_walk_due(&self) {
        *ignore_poison(self.next_walk.lock()) = Instant::now();
    }

    /// Calls `f` with the samples of each runtime.
    pub(super) fn each_runtime(&self, mut f: impl FnMut(u64, &VecDeque<Sample>)) {
        let samples = self.lock();
        let mut runtimes: Vec<_> = samples.runtimes.iter().collect();
        sort_by_key(&mut runtimes, |(id, _)| **id);
        runtimes.into_iter().for_each(|(id, history)| f(*id, &history.samples));
    }

    /// Returns the busy shares of a runtime's workers in the last second.
    pub(super) fn busy_shares(&self, runtime: u64) -> Vec<f64> {
        let samples = self.lock();
        let last = samples.runtimes.get(&runtime).and_then(|history| history.samples.back());
        last.map_or(Vec::new(), |sample| sample.busy.clone())
    }

    /// Returns how many tasks of a site were alive in the last minute, each with its time.
    pub(super) fn group(&self, key: GroupKey) -> Vec<(Duration, usize)> {
        self.lock().groups.get(&key).map_or(Vec::new(), |counts| counts.iter().copied().collect())
    }
}

impl Samples {
    fn add_groups(&mut self, at: Duration, mut counts: HashMap<GroupKey, usize>) {
        for (key, history) in &mut self.groups {
            push(history, GROUP_SAMPLES, (at, counts.remove(key).unwrap_or(0)));
            while history.front().is_some_and(|(old, _)| at.saturating_sub(*old) > GROUP_TIME) {
                history.pop_front();
            }
        }
        // A site whose tasks all ended a minute ago makes room for another.
        self.groups.retain(|_, history| history.iter().any(|(_, count)| *count > 0));
        let mut new: Vec<_> = counts.into_iter().collect();
        sort_by_key(&mut new, |(key, count)| (std::cmp::Reverse(*count), *key));
        for (key, count) in new.into_iter().take(MAX_GROUPS.saturating_sub(self.groups.len())) {
            self.groups.insert(key, VecDeque::from([(at, count)]));
        }
    }
}

fn push<T>(ring: &mut VecDeque<T>, most: usize, value: T) {
    if ring.len() == most {
        ring.pop_front();
    }
    ring.push_back(value);
}

impl RuntimeHistory {
    /// Returns the number of tasks in workers' own queues.
    fn own_queues(&self, runtime: &dyn InspectedRuntime, workers: &[WorkerSnapshot]) -> usize {
        match runtime.flavor() {
            CURRENT_THREAD => self.queued,
            _ => workers.iter().map(|worker| worker.queued).sum(),
        }
    }

    fn add(&mut self, runtime: &dyn InspectedRuntime, began: Instant) {
        let (now, inspectable) = (Instant::now(), runtime.inspectable());
        let (workers, spawned) = (inspectable.workers(), inspectable.spawned());
        if let Some(last) = &self.last {
            let passed = now.saturating_duration_since(last.at).as_secs_f64().max(0.001);
            let pairs = || workers.iter().zip(&last.workers);
            let share = |(now, then)| busy_share(now, then, passed);
            let p99 = |counts: fn(&WorkerSnapshot) -> &Counts| {
                let new = pairs().map(|(now, then)| difference(counts(now), counts(then)));
                Histogram::sum_of(&new.collect::<Vec<_>>()).p99()
            };
            let sample = Sample {
                at: now.saturating_duration_since(began),
                alive: self.alive,
                spawned: spawned.saturating_sub(last.spawned),
                polls: pairs().map(|(now, then)| now.polls.saturating_sub(then.polls)).sum(),
                queued: inspectable.injected() + self.own_queues(runtime, &workers),
                blocking: runtime.pool_counts().threads,
                busy: pairs().map(share).collect(),
                poll_p99: p99(|worker| &worker.poll_times),
                wake_p99: p99(|worker| &worker.wake_to_poll),
            };
            push(&mut self.samples, SAMPLES, sample);
        }
        self.last = Some(Last { at: now, spawned, workers });
    }
}

/// Returns the share of the time `passed`, in seconds, that a worker was in polls.
fn busy_share(now: &WorkerSnapshot, then: &WorkerSnapshot, passed: f64) -> f64 {
    // A poll of a `block_on` future is counted when it ends. This poll has lasted since the last
    // sample.
    if matches!(now.doing, WorkerActivity::PollingBlockOn(..)) && now.doing == then.doing {
        return 1.0;
    }
    let total = |worker: &WorkerSnapshot| worker.busy + worker.in_block_on;
    (total(now).saturating_sub(total(then)).as_secs_f64() / passed).min(1.0)
}

/// Returns the counts that a histogram gained between two samples.
fn difference(now: &Counts, then: &Counts) -> Counts {
    let mut new = *now;
    for (new, then) in new.counts.iter_mut().zip(then.counts) {
        *new = new.saturating_sub(then);
    }
    new.sum_ns = new.sum_ns.saturating_sub(then.sum_ns);
    new
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn sites_are_followed_for_a_minute_and_then_forgotten() {
        let (mut samples, site) = (Samples::default(), Location::caller());
        let (key, second) = ((1, site), Duration::from_secs(1));
        samples.add_groups(Duration::ZERO, HashMap::from([(key, 3)]));
        for passed in 1..=60 {
            samples.add_groups(passed * second, HashMap::new());
            assert_eq!(samples.groups[&key][0], (Duration::ZERO, 3));
        }
        samples.add_groups(61 * second, HashMap::new());
        assert!(samples.groups.is_empty());
    }

    #[test]
    fn the_number_of_sites_is_bounded_and_the_largest_are_kept() {
        let sites: Vec<Location<'static>> = vec![*Location::caller(); 2 * MAX_GROUPS];
        let sites: &'static [_] = sites.leak();
        let mut samples = Samples::default();
        // Locations compare by value, so the runtime's id distinguishes them.
        let counts = sites.iter().enumerate().map(|(n, site)| ((n as u64, site), n + 1));
        samples.add_groups(Duration::ZERO, counts.collect());
        assert_eq!(samples.groups.len(), MAX_GROUPS);
        let smallest = samples.groups.values().map(|history| history[0].1).min();
        assert_eq!(smallest, Some(MAX_GROUPS + 1));
    }
}
