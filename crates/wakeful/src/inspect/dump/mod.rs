//! [`Dump`]: every task and worker of a runtime, as data.
//!
//! Any thread can take a dump. It stops and polls no task, and works while every worker is blocked:
//! it walks the task arenas cell by cell. It reads a cell only under a counted reference, which
//! `State::try_clone_handle` takes in one step if the cell holds a task. While the reference is held
//! the cell is not reused, and the fields written at spawn don't change (TASK-5). The other fields
//! are single words that the task's threads write with plain stores. So a line of a dump is exact for
//! a task that does not run, and approximate for one that does.

mod findings;
mod groups;
mod holder;
mod json;
mod task;
pub(super) mod text;
mod wait;
mod worker;

use super::report::Report;
use super::task_info::TaskInfo;
use crate::sys::sort::sort_by_key;
use crate::watchdog::snapshot::Inspectable;
pub(in crate::inspect) use json::{data as task_data, id as task_id};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "page")]
pub(in crate::inspect) use findings::headline;
pub use holder::HolderDump;
#[cfg(feature = "page")]
pub(in crate::inspect) use json::{holder_fields, task_state, wait_fields, worker_counts};
pub(in crate::inspect) use json::{millis, site};
pub(in crate::inspect) use task::since;
pub use task::{TaskDump, TaskState, TaskTrace};
pub use wait::WaitDump;
pub use worker::{WorkerDump, WorkerState};

/// A list of all tasks and workers of a runtime, with what each task waits for.
///
/// [`Handle::dump`](crate::runtime::Handle::dump) takes one. Its `Display` prints what is wrong,
/// then a table of the workers, then the tasks. Up to 20 tasks are printed as a tree, each below
/// its parent. More tasks are grouped by spawn site and by what they wait for. [`full`](Self::full)
/// lists each of them, and [`to_json`](Self::to_json) returns the same content for programs.
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use wakeful::runtime::Handle;
/// use wakeful::sync::Mutex;
/// use std::sync::Arc;
///
/// let lock = Arc::new(Mutex::new(()));
/// let guard = lock.lock().await;
/// let clone = lock.clone();
/// let waits = wakeful::task::Builder::new().name("patient").spawn(async move {
///     clone.lock().await;
/// })?;
/// wakeful::task::yield_now().await;
///
/// let dump = Handle::current().dump();
/// let task = dump.find(waits.id()).unwrap();
/// assert_eq!(task.info().name(), Some("patient"));
/// let wait = task.waiting_on().unwrap();
/// assert_eq!(wait.kind(), "Mutex::lock");
/// assert_eq!(wait.holders()[0].task().unwrap().name(), Some("main"));
/// # drop(guard);
/// # waits.await.unwrap();
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Dump {
    runtime: Option<String>,
    taken_at: Duration,
    tasks: Vec<TaskDump>,
    workers: Vec<WorkerDump>,
    queued: usize,
    /// The findings of a new scan, then recent reports with their ages.
    findings: Vec<(Option<Duration>, Arc<Report>)>,
    /// The duration after which a poll counts as blocked.
    blocked_after: Option<Duration>,
}

/// Lets code written for tokio await the result of [`Handle::dump`](crate::runtime::Handle::dump).
///
/// In tokio `Handle::dump` returns a future, and programs wrap it in a `timeout`. In wakeful the
/// dump is complete when the call returns, so the future is ready at once.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use wakeful::runtime::Handle;
/// use wakeful::time::timeout;
///
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() {
/// let dump = timeout(Duration::from_secs(2), Handle::current().dump()).await.unwrap();
/// for task in dump.tasks().iter() {
///     println!("{}", task.trace());
/// }
/// # }
/// ```
impl IntoFuture for Dump {
    type Output = Dump;
    type IntoFuture = std::future::Ready<Dump>;

    fn into_future(self) -> Self::IntoFuture {
        std::future::ready(self)
    }
}

/// A `Display` of a dump that lists each task. Returned by [`Dump::full`].
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() {
/// let dump = wakeful::runtime::Handle::current().dump();
/// let text = format!("{}", dump.full());
/// assert!(text.contains("block_on \"main\""), "{text}");
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct FullDump<'a> {
    dump: &'a Dump,
}

impl Dump {
    /// Takes a dump of a scheduler.
    pub(crate) fn take(scheduler: &dyn Inspectable, runtime: Option<&str>) -> Self {
        let config = &scheduler.base().config;
        let now = config.env.clock.elapsed();
        let workers = scheduler.workers_and_queues();
        let off_workers = scheduler.running_off_workers();
        let mut tasks = Vec::new();
        for block_on in scheduler.block_ons() {
            tasks.extend(TaskDump::of_block_on(&block_on, config.block_on_name.as_deref(), now));
        }
        scheduler.each_task(&mut |task| {
            tasks.push(TaskDump::of_task(&task, &workers, &off_workers, now))
        });
        sort_by_key(&mut tasks, |task| (!task.info().is_block_on(), task.info().id));
        name_holders(&mut tasks);
        find_parents(&mut tasks);
        let workers = workers
            .iter()
            .enumerate()
            .map(|(index, worker)| WorkerDump::new(index, worker, now, &tasks))
            .collect();
        Self {
            runtime: runtime.map(str::to_owned),
            taken_at: now,
            tasks,
            workers,
            queued: scheduler.injected(),
            findings: Vec::new(),
            blocked_after: config.report_blocked_after,
        }
    }

    /// Adds the findings of a scan and the recent reports.
    ///
    /// A report about a spinning or looping task is added only while the task is alive.
    pub(crate) fn with_findings(
        self,
        found: Vec<Report>,
        recent: Vec<(Duration, Arc<Report>)>,
    ) -> Self {
        let is_alive = |id| self.tasks.iter().any(|task| task.info().id == id);
        let is_over = |report: &Report| match report {
            Report::Spinning(spinning) => !is_alive(spinning.task().id),
            Report::FutileLoop(futile) => !is_alive(futile.task().id),
            _ => false,
        };
        // The report of a stuck `block_on` is left out: it consists of a dump like this one.
        let found = found.into_iter().filter(|it| !matches!(it, Report::StuckBlockOn(_)));
        let recent = recent.into_iter().filter(|(_, report)| !is_over(report));
        let recent = recent.map(|(age, report)| (Some(age), report));
        let findings = found.map(|report| (None, Arc::new(report))).chain(recent).collect();
        Self { findings, ..self }
    }

    /// Returns the runtime's name, if it has one.
    ///
    /// [`Builder::name`](crate::runtime::Builder::name) names a runtime.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Builder;
    ///
    /// let rt = Builder::new_current_thread().name("database").build()?;
    /// assert_eq!(rt.handle().dump().runtime(), Some("database"));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn runtime(&self) -> Option<&str> {
        self.runtime.as_deref()
    }

    /// Returns the time from the start of the runtime to the dump.
    ///
    /// The time is that of the runtime's clock, so it does not advance while the clock is paused.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::time::Duration;
    /// use wakeful::runtime::Handle;
    ///
    /// let before = Handle::current().dump().taken_at();
    /// wakeful::time::advance(Duration::from_secs(5)).await;
    /// let after = Handle::current().dump().taken_at();
    /// assert_eq!(after - before, Duration::from_secs(5));
    /// # }
    /// ```
    pub fn taken_at(&self) -> Duration {
        self.taken_at
    }

    /// Returns the futures of `block_on`, then the tasks by id.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use wakeful::runtime::Handle;
    ///
    /// let task = wakeful::spawn(async {});
    /// let dump = Handle::current().dump();
    /// let ids: Vec<_> = dump.tasks().iter().map(|task| task.id()).collect();
    /// assert_eq!(ids, [None, Some(task.id())]);
    /// # }
    /// ```
    pub fn tasks(&self) -> &[TaskDump] {
        &self.tasks
    }

    /// Returns the workers by index.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Builder;
    ///
    /// let rt = Builder::new_multi_thread().worker_threads(2).build()?;
    /// assert_eq!(rt.handle().dump().workers().len(), 2);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn workers(&self) -> &[WorkerDump] {
        &self.workers
    }

    /// Returns the number of tasks in the injector, the queue that all workers share.
    ///
    /// Tasks in a worker's own queue are in [`WorkerDump::queued`].
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Builder;
    ///
    /// let rt = Builder::new_current_thread().build()?;
    /// // A thread outside the runtime puts tasks into the injector.
    /// let task = rt.spawn(async { 7 });
    /// assert_eq!(rt.handle().dump().queued(), 1);
    /// assert_eq!(rt.block_on(task).unwrap(), 7);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn queued(&self) -> usize {
        self.queued
    }

    /// Returns the findings of a deadlock scan, then the reports of the last minute.
    ///
    /// Orphans and blocked polls are not included: [`tasks`](Self::tasks) and
    /// [`workers`](Self::workers) show them. The `Display` begins with all of these.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use std::sync::Arc;
    /// use wakeful::runtime::Handle;
    /// use wakeful::sync::Mutex;
    ///
    /// let lock = Arc::new(Mutex::new(()));
    /// let twice = wakeful::spawn(async move {
    ///     let _first = lock.lock().await;
    ///     let _second = lock.lock().await;
    /// });
    /// wakeful::task::yield_now().await;
    /// let dump = Handle::current().dump();
    /// assert_eq!(dump.findings().next().unwrap().kind(), "deadlock");
    /// twice.abort();
    /// # }
    /// ```
    pub fn findings(&self) -> impl Iterator<Item = &Report> {
        self.findings.iter().map(|(_, report)| &**report)
    }

    /// Returns the findings with the time since they were reported, or `None` for findings of the
    /// scan.
    #[cfg(feature = "page")]
    pub(in crate::inspect) fn findings_with_age(
        &self,
    ) -> impl Iterator<Item = (Option<Duration>, &Report)> {
        self.findings.iter().map(|(age, report)| (*age, &**report))
    }

    /// Returns the workers whose poll has lasted long enough to count as blocked.
    pub(in crate::inspect) fn blocked_workers(&self) -> impl Iterator<Item = &WorkerDump> {
        let polling = self.workers.iter().filter(|it| it.state() == WorkerState::Polling);
        polling.filter(|it| {
            it.duration().zip(self.blocked_after).is_some_and(|(it, limit)| it >= limit)
        })
    }

    /// Returns a `Display` of the dump that lists each task below its parent.
    ///
    /// With the environment variable `WAKEFUL_DUMP=full`, every dump is displayed in this form.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// for _ in 0..100 {
    ///     wakeful::spawn(wakeful::time::sleep(std::time::Duration::from_secs(60)));
    /// }
    /// let dump = wakeful::runtime::Handle::current().dump();
    /// assert!(dump.to_string().lines().count() < 30);
    /// assert!(dump.full().to_string().lines().count() > 100);
    /// # }
    /// ```
    pub fn full(&self) -> FullDump<'_> {
        FullDump { dump: self }
    }

    /// Finds a task by id.
    ///
    /// A task that has ended is still found while its `JoinHandle` or a waker refers to it.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use wakeful::inspect::TaskState;
    /// use wakeful::runtime::Handle;
    ///
    /// let task = wakeful::spawn(async {});
    /// let dump = Handle::current().dump();
    /// assert_eq!(dump.find(task.id()).unwrap().state(), TaskState::Queued);
    /// # }
    /// ```
    pub fn find(&self, id: crate::task::Id) -> Option<&TaskDump> {
        self.tasks.iter().find(|task| task.info().id() == Some(id))
    }

    /// Finds the first task with this name.
    ///
    /// Futures of `block_on` come before tasks.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::runtime::Handle;
    ///
    /// let task = wakeful::task::Builder::new().name("mailer").spawn(async {})?;
    /// let dump = Handle::current().dump();
    /// assert_eq!(dump.find_named("mailer").unwrap().id(), Some(task.id()));
    /// assert!(dump.find_named("printer").is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn find_named(&self, name: &str) -> Option<&TaskDump> {
        self.tasks.iter().find(|task| task.info().name() == Some(name))
    }
}

impl<'a> IntoIterator for &'a Dump {
    type Item = &'a TaskDump;
    type IntoIter = std::slice::Iter<'a, TaskDump>;

    fn into_iter(self) -> Self::IntoIter {
        self.tasks.iter()
    }
}

/// Fills in the tasks that the holders' ids refer to.
fn name_holders(tasks: &mut [TaskDump]) {
    let named: HashMap<u64, TaskInfo> =
        tasks.iter().map(|task| (task.info().id, task.info().clone())).collect();
    for holder in tasks.iter_mut().flat_map(|task| &mut task.waiting).flat_map(|w| &mut w.holders) {
        holder.task = named.get(&holder.id).cloned();
    }
}

/// Finds each task's parent. A task stores the lower half of its parent's id, which is unique
/// among the tasks that are alive.
fn find_parents(tasks: &mut [TaskDump]) {
    let ids: HashMap<u32, u64> =
        tasks.iter().map(|task| (task.info().id as u32, task.info().id)).collect();
    for task in tasks {
        let half = task.parent_half;
        task.parent = ids.get(&half).copied().filter(|_| half != 0);
    }
}
