//! Identifies a task in reports and dumps.

use crate::scheduler::block_on::BlockOnState;
use crate::task::Id;
use crate::task::block_on::{BlockOnRecord, is_block_on_id};
use crate::task::header::Header;
use std::fmt;
use std::panic::Location;

/// The id, name and spawn location of a task or of a `block_on` future.
#[derive(Clone, Debug)]
pub struct TaskInfo {
    /// The task's id, or the number of the `block_on` future.
    pub(crate) number: u64,
    name: Option<String>,
    spawned_at: &'static Location<'static>,
}

impl TaskInfo {
    pub(crate) fn of_task(header: &Header) -> Self {
        let origin = header.origin.get();
        Self {
            number: header.id.get(),
            name: origin.name().map(str::to_owned),
            spawned_at: origin.spawned_at(),
        }
    }

    /// Returns `None` if the `block_on` has not started to poll. `name` is the runtime's name for it.
    pub(crate) fn of_block_on(root: &BlockOnState, name: Option<&str>) -> Option<Self> {
        Self::of_block_on_record(&root.record, name)
    }

    /// Like [`of_block_on`](Self::of_block_on), for the thread in `block_on`.
    pub(crate) fn of_block_on_record(note: &BlockOnRecord, name: Option<&str>) -> Option<Self> {
        // The name is that of the outermost future.
        let name = name.filter(|_| note.outer() == 0);
        Some(Self { number: note.id, name: name.map(str::to_owned), spawned_at: note.site()? })
    }

    /// Returns the task's id, or `None` for the future of a `block_on`, which is no task.
    pub fn id(&self) -> Option<Id> {
        (!self.is_block_on()).then(|| Id::from_u64(self.number))
    }

    /// Returns whether it is the future of a `block_on`.
    pub fn is_block_on(&self) -> bool {
        is_block_on_id(self.number)
    }

    /// Returns its name, if it has one.
    ///
    /// [`task::Builder::name`](crate::task::Builder::name) names a task. `#[wakeful::main]` and
    /// `#[wakeful::test]` name their future after the function.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns where the task was spawned, or where `block_on` was called.
    pub fn spawned_at(&self) -> &'static Location<'static> {
        self.spawned_at
    }
}

impl PartialEq for TaskInfo {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for TaskInfo {}

/// Writes the id and the name. The alternate form, `{:#}`, adds the place to a task without a name.
impl fmt::Display for TaskInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.id(), &self.name) {
            (Some(id), Some(name)) => write!(f, "task {id} {name:?}"),
            (Some(id), None) if f.alternate() => {
                write!(f, "task {id} (spawned at {})", self.spawned_at)
            }
            (Some(id), None) => write!(f, "task {id}"),
            (None, Some(name)) => write!(f, "block_on {name:?}"),
            (None, None) if f.alternate() => write!(f, "block_on (called at {})", self.spawned_at),
            (None, None) => f.write_str("block_on"),
        }
    }
}
