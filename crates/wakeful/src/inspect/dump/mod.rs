//! Every task and worker of a runtime at one moment, as data: [`Dump`].
//!
//! Taken by any thread, without stopping or polling anything, also while every
//! worker is blocked: the memory of tasks is walked cell by cell. A cell is read only
//! under a counted reference, which `State::try_clone_handle` takes in one step if
//! there is a task in it; while that is held the cell is not used again, and the
//! fields written at spawn stay (TASK-5). All else is single words that the
//! task's threads write with plain stores, so a line of a dump is approximate where
//! the task runs at that very moment, and exact where it does not.

mod json;
mod task;
mod text;
mod worker;

use super::task_info::TaskInfo;
use crate::watchdog::snapshot::Inspectable;
use std::collections::BTreeMap;
use std::time::Duration;

pub(in crate::inspect) use task::since;
pub use task::{HolderDump, TaskDump, TaskState, WaitDump};
pub use worker::{WorkerDump, WorkerState};

/// All tasks and workers of a runtime, at one moment; from
/// [`Handle::dump`](crate::runtime::Handle::dump).
///
/// Its `Display` is a table of workers and a tree of tasks, each under the one that
/// spawned it; [`to_json`](Self::to_json) is the same for programs.
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
/// assert_eq!(task.who().name(), Some("patient"));
/// let wait = task.waiting_on().unwrap();
/// assert_eq!(wait.kind(), "Mutex::lock");
/// assert_eq!(wait.holders()[0].who().unwrap().name(), Some("main"));
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
}

impl Dump {
    /// Looks at everything once. `root_name` is what the future of `block_on` is
    /// called.
    pub(crate) fn take(looks: &dyn Inspectable, runtime: Option<&str>) -> Self {
        let config = &looks.estate().config;
        let now = config.seam.clock.elapsed();
        let looked = looks.workers_and_queues();
        let elsewhere = looks.running_elsewhere();
        let mut tasks = Vec::new();
        for root in looks.roots() {
            tasks.extend(TaskDump::of_root(&root, config.root_name.as_deref(), now));
        }
        looks.each_task(&mut |task| tasks.push(TaskDump::of_task(&task, &looked, &elsewhere, now)));
        tasks.sort_by_key(|task| (!task.who().is_root(), task.who().number));
        name_holders(&mut tasks);
        find_parents(&mut tasks);
        let workers = looked
            .iter()
            .enumerate()
            .map(|(index, look)| WorkerDump::new(index, look, now, &tasks))
            .collect();
        Self {
            runtime: runtime.map(str::to_owned),
            taken_at: now,
            tasks,
            workers,
            queued: looks.injected(),
        }
    }

    /// The runtime's name, if it was given one.
    pub fn runtime(&self) -> Option<&str> {
        self.runtime.as_deref()
    }

    /// When it was taken, from the start of the runtime.
    pub fn taken_at(&self) -> Duration {
        self.taken_at
    }

    /// The tasks, in the order of their ids; before them the futures of `block_on`.
    pub fn tasks(&self) -> &[TaskDump] {
        &self.tasks
    }

    /// The workers, in their order.
    pub fn workers(&self) -> &[WorkerDump] {
        &self.workers
    }

    /// How many tasks wait in the queue that all workers share.
    pub fn queued(&self) -> usize {
        self.queued
    }

    /// The task with this id, if it is there.
    pub fn find(&self, id: crate::task::Id) -> Option<&TaskDump> {
        self.tasks.iter().find(|task| task.who().id() == Some(id))
    }

    /// The first task of this name, if there is one.
    pub fn find_named(&self, name: &str) -> Option<&TaskDump> {
        self.tasks.iter().find(|task| task.who().name() == Some(name))
    }
}

impl<'a> IntoIterator for &'a Dump {
    type Item = &'a TaskDump;
    type IntoIter = std::slice::Iter<'a, TaskDump>;

    fn into_iter(self) -> Self::IntoIter {
        self.tasks.iter()
    }
}

/// Puts names to the numbers of holders.
fn name_holders(tasks: &mut [TaskDump]) {
    let named: BTreeMap<u64, TaskInfo> =
        tasks.iter().map(|task| (task.who().number, task.who().clone())).collect();
    for holder in
        tasks.iter_mut().filter_map(|task| task.waiting.as_mut()).flat_map(|w| &mut w.holders)
    {
        holder.who = named.get(&holder.number).cloned();
    }
}

/// A task remembers half of its parent's number; if the parent is there, that is
/// enough.
fn find_parents(tasks: &mut [TaskDump]) {
    let numbers: BTreeMap<u32, u64> =
        tasks.iter().map(|task| (task.who().number as u32, task.who().number)).collect();
    for task in tasks {
        let half = task.parent_half;
        task.parent = numbers.get(&half).copied().filter(|_| half != 0);
    }
}
