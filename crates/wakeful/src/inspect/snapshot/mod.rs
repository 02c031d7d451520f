//! Snapshots: all runtimes of the process as data, with tasks grouped by spawn site.

mod group;
mod json;

use super::dump::Dump;
use super::runtimes::{self, InspectedRuntime};
use std::collections::BTreeMap;
use std::panic::Location;

pub use group::{SpawnGroup, WaitGroup};
#[cfg(feature = "page")]
pub(in crate::inspect) use json::group_fields;

/// Takes a snapshot of all runtimes of the process.
///
/// Any thread may call this function at any time, even while all workers are blocked. It neither
/// stops a worker nor polls a task. The runtimes are read one after the other.
///
/// # Examples
///
/// ```
/// use wakeful::inspect;
///
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() {
/// for _ in 0..100 {
///     wakeful::spawn(wakeful::time::sleep(std::time::Duration::from_secs(60)));
/// }
/// wakeful::task::yield_now().await;
///
/// let snapshot = inspect::snapshot();
/// let group = &snapshot.runtimes()[0].groups()[0];
/// assert_eq!((group.alive(), group.started(), group.finished()), (100, 100, 0));
/// assert_eq!(group.waits()[0].kind(), "sleep");
/// # }
/// ```
pub fn snapshot() -> Snapshot {
    Snapshot { runtimes: runtimes::all().iter().map(|it| RuntimeSnapshot::take(&**it)).collect() }
}

/// All runtimes of the process at one moment. Returned by [`snapshot`].
///
/// [`to_json`](Self::to_json) returns the same content as JSON.
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() {
/// use wakeful::inspect;
/// use wakeful::runtime::Handle;
///
/// let snapshot = inspect::snapshot();
/// assert_eq!(snapshot.runtimes().len(), 1);
/// let id: u64 = Handle::current().id().to_string().parse().unwrap();
/// assert!(snapshot.find(id).is_some());
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Snapshot {
    runtimes: Vec<RuntimeSnapshot>,
}

impl Snapshot {
    /// Returns the runtimes that exist, in the order in which they were built.
    pub fn runtimes(&self) -> &[RuntimeSnapshot] {
        &self.runtimes
    }

    /// Finds a runtime by its id, the number that [`runtime::Id`](crate::runtime::Id) displays.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::inspect;
    /// use wakeful::runtime::Builder;
    ///
    /// let rt = Builder::new_current_thread().name("database").build()?;
    /// let id: u64 = rt.handle().id().to_string().parse().unwrap();
    /// let snapshot = inspect::snapshot();
    /// assert_eq!(snapshot.find(id).unwrap().name(), Some("database"));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn find(&self, id: u64) -> Option<&RuntimeSnapshot> {
        self.runtimes.iter().find(|runtime| runtime.id == id)
    }
}

/// One runtime in a [`Snapshot`]: its dump, and its tasks by spawn site.
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() {
/// use wakeful::inspect;
///
/// for _ in 0..10 {
///     wakeful::spawn(async {});
/// }
/// wakeful::task::yield_now().await;
/// let snapshot = inspect::snapshot();
/// let runtime = &snapshot.runtimes()[0];
/// assert_eq!((runtime.started(), runtime.finished()), (10, 10));
/// assert_eq!(runtime.groups().len(), 1);
/// assert_eq!(runtime.dump().workers().len(), 1);
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct RuntimeSnapshot {
    id: u64,
    dump: Dump,
    groups: Vec<SpawnGroup>,
    started: u64,
    finished: u64,
}

impl RuntimeSnapshot {
    /// Takes a snapshot of one runtime.
    pub(in crate::inspect) fn take(runtime: &dyn InspectedRuntime) -> Self {
        // The counts are read after the tasks, so every living task is counted as started.
        let dump = runtime.dump();
        let mut started: BTreeMap<&'static Location<'static>, u64> = BTreeMap::new();
        let count = &mut |site, count| *started.entry(site).or_default() += count;
        runtime.inspectable().spawns_by_site(count);
        let groups = group::by_site(&dump, &started);
        let alive = runtime.alive_tasks();
        let started = runtime.inspectable().spawned();
        Self { id: runtime.id(), dump, groups, started, finished: started.saturating_sub(alive) }
    }

    /// Returns the runtime's id, the number that [`runtime::Id`](crate::runtime::Id) displays.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Returns the runtime's name, if it has one.
    pub fn name(&self) -> Option<&str> {
        self.dump.runtime()
    }

    /// Returns the runtime's tasks and workers, and what is wrong with them.
    pub fn dump(&self) -> &Dump {
        &self.dump
    }

    /// Returns the runtime's tasks by spawn site, the site with the most tasks first.
    ///
    /// A site is listed if a task of it is alive or has finished. Beyond about a thousand sites,
    /// some are not listed and count only in [`started`](Self::started).
    pub fn groups(&self) -> &[SpawnGroup] {
        &self.groups
    }

    /// Finds the tasks that were spawned at this line.
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
    /// wakeful::task::yield_now().await;
    /// let snapshot = inspect::snapshot();
    /// let runtime = &snapshot.runtimes()[0];
    /// let at = runtime.groups()[0].spawned_at();
    /// assert_eq!(runtime.group_at(at.file(), at.line()).unwrap().alive(), 3);
    /// # }
    /// ```
    pub fn group_at(&self, file: &str, line: u32) -> Option<&SpawnGroup> {
        let is_there = |at: &Location<'_>| at.file() == file && at.line() == line;
        self.groups.iter().find(|group| is_there(group.spawned_at()))
    }

    /// Returns how many tasks were spawned so far, not counting tasks of a `LocalSet`.
    pub fn started(&self) -> u64 {
        self.started
    }

    /// Returns how many of the [`started`](Self::started) tasks have ended.
    pub fn finished(&self) -> u64 {
        self.finished
    }
}
