//! The identity of a task in reports and dumps.

use super::task_data::DataRef;
use crate::scheduler::block_on::BlockOnState;
use crate::task::Id;
use crate::task::block_on::{BlockOnRecord, is_block_on_id};
use crate::task::data::TaskData;
use crate::task::header::Header;
use std::fmt;
use std::panic::Location;

/// The id, name and spawn location of a task or of a `block_on` future.
///
/// Two values are equal if they identify the same task. The `Display` is short, for example `task 3
/// "mailer"`; `{:#}` adds the spawn site to a task without a name. A task with [data](Self::data)
/// shows it in brackets, for example `task 3 "mailer" [tenant 7]`.
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
/// let info = dump.find(task.id()).unwrap().info();
/// assert_eq!((info.id(), info.name()), (Some(task.id()), Some("mailer")));
/// assert!(info.spawned_at().line() > 0 && !info.is_block_on());
/// assert_eq!(info.to_string(), format!("task {} \"mailer\"", task.id()));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct TaskInfo {
    /// The id of the task or `block_on` future.
    pub(crate) id: u64,
    name: Option<String>,
    spawned_at: &'static Location<'static>,
    data: Option<DataRef>,
}

impl TaskInfo {
    pub(crate) fn of_task(header: &Header) -> Self {
        let origin = header.origin.get();
        Self {
            id: header.id.get(),
            name: origin.name().map(str::to_owned),
            spawned_at: origin.spawned_at(),
            data: DataRef::of_task(header),
        }
    }

    /// Identifies the future of a `block_on`. `name` is the runtime's name for it.
    ///
    /// Returns `None` if the `block_on` has not started to poll.
    pub(crate) fn of_block_on(block_on: &BlockOnState, name: Option<&str>) -> Option<Self> {
        Self::of_block_on_record(&block_on.record, name)
    }

    /// Identifies the future of a `block_on` by its record, for the thread in that `block_on`.
    ///
    /// Returns `None` if the `block_on` has not started to poll. `name` is the runtime's name for it.
    pub(crate) fn of_block_on_record(record: &BlockOnRecord, name: Option<&str>) -> Option<Self> {
        // The name belongs to the outermost future.
        let name = name.filter(|_| record.outer() == 0);
        let (id, name, spawned_at) = (record.id, name.map(str::to_owned), record.site()?);
        Some(Self { id, name, spawned_at, data: None })
    }

    /// Returns the task's id, or `None` for the future of a `block_on`, which is not a task.
    pub fn id(&self) -> Option<Id> {
        (!self.is_block_on()).then(|| Id::from_u64(self.id))
    }

    /// Returns whether this is the future of a `block_on`, which is not a task.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use wakeful::runtime::Handle;
    ///
    /// let dump = Handle::current().dump();
    /// let info = dump.tasks()[0].info();
    /// assert!(info.is_block_on());
    /// assert_eq!((info.id(), info.name()), (None, Some("main")));
    /// # }
    /// ```
    pub fn is_block_on(&self) -> bool {
        is_block_on_id(self.id)
    }

    /// Returns the task's name, if it has one.
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

    /// Returns the word that precedes [`spawned_at`](Self::spawned_at): a `block_on` is not spawned.
    pub(crate) fn verb(&self) -> &'static str {
        if self.is_block_on() { "called" } else { "spawned" }
    }

    /// Returns the data of the task, if a spawn hook has attached data of type `T`.
    ///
    /// Returns `None` for a task that had ended when the dump or report was made, unless it
    /// panicked. The future of a `block_on` has no data. [`TaskData`] has an example.
    pub fn data<T: TaskData>(&self) -> Option<&T> {
        self.data.as_ref()?.downcast()
    }

    /// Returns the text of the task's data, on one line. It does not change after the first call.
    pub(crate) fn data_text(&self) -> Option<&str> {
        self.data.as_ref()?.text()
    }
}

impl PartialEq for TaskInfo {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for TaskInfo {}

/// Writes the id, the name and the data. The alternate form, `{:#}`, adds the site to a task without a name.
impl fmt::Display for TaskInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.id() {
            Some(id) => write!(f, "task {id}")?,
            None => f.write_str("block_on")?,
        }
        if let Some(name) = &self.name {
            write!(f, " {name:?}")?;
        }
        if let Some(data) = self.data_text() {
            write!(f, " [{data}]")?;
        }
        if f.alternate() && self.name.is_none() {
            write!(f, " ({} at {})", self.verb(), self.spawned_at)?;
        }
        Ok(())
    }
}
