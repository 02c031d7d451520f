//! A snapshot of all runtimes, with the indexes that the API needs.

use crate::inspect::Histogram;
use crate::inspect::dump::TaskDump;
use crate::inspect::runtimes::{self, PoolCounts};
use crate::inspect::snapshot::RuntimeSnapshot;
use crate::task::block_on::is_block_on_id;
use crate::telemetry::histogram::Counts;
use std::collections::{BTreeMap, HashMap};
use std::panic::Location;
use std::time::Duration;

/// A snapshot of all runtimes.
pub(super) struct View {
    pub(super) runtimes: Vec<RuntimeView>,
}

/// One runtime of a view. It holds no reference to the runtime itself.
pub(super) struct RuntimeView {
    pub(super) snapshot: RuntimeSnapshot,
    pub(super) flavor: &'static str,
    pub(super) pool: PoolCounts,
    pub(super) spares: u64,
    /// The poll times and the waits of each spawn site.
    times: HashMap<&'static Location<'static>, (Histogram, Histogram)>,
    /// The positions in `snapshot.dump().tasks()` by id of the task.
    by_id: BTreeMap<u64, usize>,
    /// The positions of the tasks that each task has spawned.
    children: BTreeMap<u64, Vec<usize>>,
}

impl View {
    pub(super) fn take() -> Self {
        let view = |runtime: &dyn runtimes::InspectedRuntime| {
            let snapshot = RuntimeSnapshot::take(runtime);
            let mut by_id = BTreeMap::new();
            let mut children: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
            for (position, task) in snapshot.dump().tasks().iter().enumerate() {
                by_id.insert(task.info().id, position);
            }
            for (position, task) in snapshot.dump().tasks().iter().enumerate() {
                if let Some(parent) = task.parent_id().filter(|it| by_id.contains_key(it)) {
                    children.entry(parent).or_default().push(position);
                }
            }
            let (flavor, pool, spares) =
                (runtime.flavor(), runtime.pool_counts(), runtime.spare_threads());
            let times = times_by_site(runtime);
            RuntimeView { snapshot, flavor, pool, spares, times, by_id, children }
        };
        Self { runtimes: runtimes::map_each(view) }
    }

    /// Finds a task by its runtime and its key: `t7`, or `b1` for the future of a `block_on`.
    pub(super) fn find(&self, runtime: u64, key: &str) -> Option<(&RuntimeView, &TaskDump)> {
        let runtime = self.runtime(runtime)?;
        let (kind, id) = key.split_at_checked(1)?;
        let id: u64 = id.parse().ok()?;
        let is_wanted = |task: &&TaskDump| match kind {
            "t" => task.info().id == id && !task.info().is_block_on(),
            "b" => task.info().is_block_on() && u64::from(task.info().id as u32) == id,
            _ => false,
        };
        Some((runtime, runtime.tasks().iter().find(is_wanted)?))
    }

    pub(super) fn runtime(&self, id: u64) -> Option<&RuntimeView> {
        self.runtimes.iter().find(|runtime| runtime.id() == id)
    }

    /// Returns the runtimes that a request is about: all, or one.
    pub(super) fn selected(&self, id: Option<&str>) -> impl Iterator<Item = &RuntimeView> {
        let id = id.and_then(|id| id.parse::<u64>().ok());
        self.runtimes.iter().filter(move |runtime| id.is_none_or(|id| runtime.id() == id))
    }
}

fn times_by_site(
    runtime: &dyn runtimes::InspectedRuntime,
) -> HashMap<&'static Location<'static>, (Histogram, Histogram)> {
    let mut all: HashMap<_, (Vec<Counts>, Vec<Counts>)> = HashMap::new();
    runtime.inspectable().times_by_site(&mut |site, polls, waits| {
        let (all_polls, all_waits) = all.entry(site).or_default();
        all_polls.push(polls);
        all_waits.push(waits);
    });
    let sum = |(polls, waits): (Vec<Counts>, Vec<Counts>)| {
        (Histogram::sum_of(&polls), Histogram::sum_of(&waits))
    };
    all.into_iter().map(|(site, counts)| (site, sum(counts))).collect()
}

impl RuntimeView {
    /// Returns the poll times and the waits of the tasks that were spawned at a site.
    pub(super) fn times(
        &self,
        site: &'static Location<'static>,
    ) -> Option<&(Histogram, Histogram)> {
        self.times.get(site)
    }

    pub(super) fn id(&self) -> u64 {
        self.snapshot.id()
    }

    pub(super) fn tasks(&self) -> &[TaskDump] {
        self.snapshot.dump().tasks()
    }

    /// Returns the task with this id, if it is alive.
    pub(super) fn task(&self, id: u64) -> Option<&TaskDump> {
        self.by_id.get(&id).map(|position| &self.tasks()[*position])
    }

    /// Returns the tasks that the task with this id has spawned.
    pub(super) fn children(&self, id: u64) -> impl ExactSizeIterator<Item = &TaskDump> {
        let positions = self.children.get(&id).map_or(&[][..], Vec::as_slice);
        positions.iter().map(|position| &self.tasks()[*position])
    }

    /// Returns the tasks whose parent is not alive.
    pub(super) fn roots(&self) -> impl Iterator<Item = &TaskDump> {
        let has_parent =
            |task: &TaskDump| task.parent_id().is_some_and(|it| self.by_id.contains_key(&it));
        self.tasks().iter().filter(move |task| !has_parent(task))
    }

    /// Returns the time since the runtime was built.
    pub(super) fn uptime(&self) -> Duration {
        self.snapshot.dump().taken_at()
    }

    /// Returns how many tasks are alive, without the futures of `block_on`.
    pub(super) fn alive(&self) -> usize {
        self.snapshot.groups().iter().map(|group| group.alive()).sum()
    }
}

/// Returns the key of a task in a URL.
pub(super) fn key(id: u64) -> String {
    if is_block_on_id(id) { format!("b{}", id as u32) } else { format!("t{id}") }
}
