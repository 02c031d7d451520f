//! Tasks by name: whom a report or a dump is about.

use crate::scheduler::block_on::BlockOnState;
use crate::task::Id;
use crate::task::block_on::is_block_on_id;
use crate::task::header::Header;
use std::fmt;
use std::panic::Location;

/// A task, or the future of a `block_on`, which is no task and has no id.
#[derive(Clone, Debug)]
pub struct TaskInfo {
    /// A task's id, or a root's number.
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

    /// `name` is what the runtime calls the future of `block_on`.
    pub(crate) fn of_root(root: &BlockOnState, name: Option<&str>) -> Option<Self> {
        let note = &root.note;
        Some(Self { number: note.id, name: name.map(str::to_owned), spawned_at: note.site()? })
    }

    /// The task's id; `None` for the future of a `block_on`.
    pub fn id(&self) -> Option<Id> {
        (!self.is_root()).then(|| Id::from_u64(self.number))
    }

    /// Whether it is the future of a `block_on` and not a task.
    pub fn is_root(&self) -> bool {
        is_block_on_id(self.number)
    }

    /// Its name, if it was given one: by [`task::Builder::name`](crate::task::Builder::name),
    /// or by `#[wakeful::main]`, which calls its future as the function is called.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Where it was spawned, or `block_on` was called.
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

impl fmt::Display for TaskInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.id(), &self.name) {
            (Some(id), Some(name)) => write!(f, "task {id} {name:?}"),
            (Some(id), None) => write!(f, "task {id}"),
            (None, Some(name)) => write!(f, "block_on {name:?}"),
            (None, None) => f.write_str("block_on"),
        }
    }
}
