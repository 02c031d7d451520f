//! The tasks of one spawn site.

use super::super::dump::{Dump, TaskDump, TaskState, WaitDump};
use crate::sys::sort::sort_by_key;
use std::collections::BTreeMap;
use std::panic::Location;
use std::time::Duration;

type Site = &'static Location<'static>;
/// The waits of a group, by site and kind.
type Waits = BTreeMap<(Site, &'static str), WaitGroup>;

/// The tasks of a runtime that were spawned at one site.
///
/// Closures of [`spawn_blocking`](crate::task::spawn_blocking) count as tasks.
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() {
/// use std::time::Duration;
/// use wakeful::{inspect, time};
///
/// for _ in 0..3 {
///     wakeful::spawn(time::sleep(Duration::from_secs(60)));
/// }
/// let group = || inspect::snapshot().runtimes()[0].groups()[0].clone();
/// assert_eq!((group().queued(), group().polls()), (3, 0));
/// wakeful::task::yield_now().await;
/// let group = group();
/// assert_eq!((group.waiting(), group.polls()), (3, 3));
/// assert_eq!((group.started(), group.finished(), group.orphans()), (3, 0, 0));
/// assert!(group.newest() <= group.oldest());
/// assert_eq!(group.waits()[0].count(), 3);
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct SpawnGroup {
    spawned_at: Site,
    started: u64,
    running: usize,
    queued: usize,
    waiting: usize,
    orphans: usize,
    oldest: Duration,
    newest: Duration,
    polls: u64,
    busy: Duration,
    waits: Vec<WaitGroup>,
}

/// The tasks of a [`SpawnGroup`] that wait at one site.
///
/// A task that waits for several resources, in a `select!` for example, is counted for each.
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use std::time::Duration;
/// use wakeful::{inspect, time};
///
/// for _ in 0..3 {
///     wakeful::spawn(time::sleep(Duration::from_secs(60)));
/// }
/// time::advance(Duration::from_secs(2)).await;
/// let snapshot = inspect::snapshot();
/// let wait = &snapshot.runtimes()[0].groups()[0].waits()[0];
/// assert_eq!((wait.kind(), wait.site_label(), wait.count()), ("sleep", "created at", 3));
/// assert_eq!(wait.waited(1.0), Duration::from_secs(2));
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct WaitGroup {
    kind: &'static str,
    site_label: &'static str,
    site: Site,
    /// How long each task has waited, ascending.
    durations: Vec<Duration>,
}

/// Groups the tasks of a dump. `started` maps each site to its number of spawns.
pub(super) fn by_site(dump: &Dump, started: &BTreeMap<Site, u64>) -> Vec<SpawnGroup> {
    let mut groups: BTreeMap<Site, (SpawnGroup, Waits)> = BTreeMap::new();
    for (site, started) in started {
        groups.insert(site, (SpawnGroup::new(site, *started), BTreeMap::new()));
    }
    for task in dump.tasks().iter().filter(|task| !task.info().is_block_on()) {
        let site = task.info().spawned_at();
        let new = || (SpawnGroup::new(site, 0), BTreeMap::new());
        let (group, waits) = groups.entry(site).or_insert_with(new);
        group.add(task);
        for wait in task.waits().iter().filter(|wait| !wait.is_earlier()) {
            let group =
                waits.entry((wait.site(), wait.kind())).or_insert_with(|| WaitGroup::new(wait));
            group.durations.push(wait.duration());
        }
    }
    let mut groups: Vec<SpawnGroup> = groups.into_values().map(SpawnGroup::with_waits).collect();
    sort_by_key(&mut groups, |group| std::cmp::Reverse((group.alive(), group.started)));
    groups
}

impl SpawnGroup {
    fn new(spawned_at: Site, started: u64) -> Self {
        Self {
            spawned_at,
            started,
            running: 0,
            queued: 0,
            waiting: 0,
            orphans: 0,
            oldest: Duration::ZERO,
            newest: Duration::MAX,
            polls: 0,
            busy: Duration::ZERO,
            waits: Vec::new(),
        }
    }

    fn add(&mut self, task: &TaskDump) {
        match task.state() {
            TaskState::Running(_) => self.running += 1,
            TaskState::Queued => self.queued += 1,
            TaskState::Waiting => self.waiting += 1,
            TaskState::Done => return,
        }
        self.orphans += usize::from(task.is_orphan());
        self.oldest = self.oldest.max(task.age());
        self.newest = self.newest.min(task.age());
        self.polls += u64::from(task.polls());
        self.busy += task.busy();
    }

    fn with_waits((mut group, waits): (Self, Waits)) -> Self {
        group.waits = waits.into_values().collect();
        for wait in &mut group.waits {
            sort_by_key(&mut wait.durations, |duration| *duration);
        }
        sort_by_key(&mut group.waits, |wait| std::cmp::Reverse(wait.durations.len()));
        // A task may be spawned while the counts are read.
        group.started = group.started.max(group.alive() as u64);
        group.newest = group.newest.min(group.oldest);
        group
    }

    /// Returns where the tasks were spawned.
    pub fn spawned_at(&self) -> &'static Location<'static> {
        self.spawned_at
    }

    /// Returns how many of the tasks have not ended.
    pub fn alive(&self) -> usize {
        self.running + self.queued + self.waiting
    }

    /// Returns how many tasks were spawned here so far.
    ///
    /// Tasks of a `LocalSet` count while the set exists.
    pub fn started(&self) -> u64 {
        self.started
    }

    /// Returns how many of the started tasks have ended.
    pub fn finished(&self) -> u64 {
        self.started - self.alive() as u64
    }

    /// Returns the growth of the number of living tasks since an earlier snapshot.
    ///
    /// `earlier` is the group of the same site, or `None` if that snapshot had none.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::time::Duration;
    /// use wakeful::{inspect, time};
    ///
    /// let start = |seconds| wakeful::spawn(time::sleep(Duration::from_secs(seconds)));
    /// [60, 70].map(start);
    /// let earlier = inspect::snapshot();
    /// [60, 70, 80].map(start);
    /// let later = inspect::snapshot();
    /// let (earlier, later) = (&earlier.runtimes()[0].groups()[0], &later.runtimes()[0].groups()[0]);
    /// assert_eq!(later.growth_since(Some(earlier)), 3);
    /// assert_eq!(later.growth_since(None), 5);
    /// # }
    /// ```
    pub fn growth_since(&self, earlier: Option<&Self>) -> i64 {
        self.alive() as i64 - earlier.map_or(0, |earlier| earlier.alive() as i64)
    }

    /// Returns how many of the tasks are being polled.
    pub fn running(&self) -> usize {
        self.running
    }

    /// Returns how many of the tasks are in a run queue.
    pub fn queued(&self) -> usize {
        self.queued
    }

    /// Returns how many of the tasks wait.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Returns how many of the tasks wait although no waker for them exists.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::inspect;
    /// use wakeful::runtime::Builder;
    ///
    /// let rt = Builder::new_current_thread().on_report(|_| {}).build()?;
    /// rt.block_on(async {
    ///     wakeful::spawn(std::future::pending::<()>());
    ///     wakeful::task::yield_now().await;
    ///     let snapshot = inspect::snapshot();
    ///     assert_eq!(snapshot.runtimes()[0].groups()[0].orphans(), 1);
    /// });
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn orphans(&self) -> usize {
        self.orphans
    }

    /// Returns the age of the oldest task that is alive.
    pub fn oldest(&self) -> Duration {
        self.oldest
    }

    /// Returns the age of the newest task that is alive.
    pub fn newest(&self) -> Duration {
        self.newest
    }

    /// Returns the number of polls of the tasks that are alive.
    pub fn polls(&self) -> u64 {
        self.polls
    }

    /// Returns the poll time of the tasks that are alive, estimated from samples.
    pub fn busy(&self) -> Duration {
        self.busy
    }

    /// Returns what the tasks wait for, the wait with the most tasks first.
    pub fn waits(&self) -> &[WaitGroup] {
        &self.waits
    }
}

impl WaitGroup {
    fn new(wait: &WaitDump) -> Self {
        let (kind, site_label, site) = (wait.kind(), wait.site_label(), wait.site());
        Self { kind, site_label, site, durations: Vec::new() }
    }

    /// Returns the call in which the tasks wait, for example `"Mutex::lock"`.
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// Returns the words that say what the [`site`](Self::site) is, for example `"awaited at"`.
    pub fn site_label(&self) -> &'static str {
        self.site_label
    }

    /// Returns the site of the wait.
    pub fn site(&self) -> &'static Location<'static> {
        self.site
    }

    /// Returns how many tasks wait there.
    pub fn count(&self) -> usize {
        self.durations.len()
    }

    /// Returns a quantile of the times that the tasks have waited: `0.5` is the median, `1.0` the
    /// maximum.
    ///
    /// # Panics
    ///
    /// Panics if `quantile` is not between 0 and 1.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::time::Duration;
    /// use wakeful::{inspect, time};
    ///
    /// for _ in 0..3 {
    ///     wakeful::spawn(time::sleep(Duration::from_secs(60)));
    ///     time::advance(Duration::from_secs(1)).await;
    /// }
    /// let snapshot = inspect::snapshot();
    /// let wait = &snapshot.runtimes()[0].groups()[0].waits()[0];
    /// assert_eq!(wait.waited(0.5), Duration::from_secs(2));
    /// assert_eq!(wait.waited(1.0), Duration::from_secs(3));
    /// # }
    /// ```
    pub fn waited(&self, quantile: f64) -> Duration {
        assert!(
            (0.0..=1.0).contains(&quantile),
            "a quantile must be between 0 and 1, not {quantile}"
        );
        let last = self.durations.len().saturating_sub(1);
        self.durations.get((last as f64 * quantile).ceil() as usize).copied().unwrap_or_default()
    }
}
