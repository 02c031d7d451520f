//! Identifies a task in reports and dumps.

use crate::scheduler::block_on::BlockOnState;
use crate::task::Id;
use crate::task::block_on::{BlockOnRecord, is_block_on_id};
use crate::task::header::Header;
use std::fmt;
use std::panic::Location;

/// The id, name and spawn location of a task or of a `block_on` future.
///
/// Two of them are equal if they are of the same task. The `Display` is short, for example
/// `task 3 "mailer"`; `{:#}` adds the spawn site to a task without a name.
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
        // The name is that of the outermost future.
        let name = name.filter(|_| record.outer() == 0);
        Some(Self { number: record.id, name: name.map(str::to_owned), spawned_at: record.site()? })
    }

    /// Returns the task's id, or `None` for the future of a `block_on`, which is not a task.
    pub fn id(&self) -> Option<Id> {
        (!self.is_block_on()).then(|| Id::from_u64(self.number))
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
        is_block_on_id(self.number)
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
}

impl PartialEq for TaskInfo {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for TaskInfo {}

/// Writes the id and the name. The alternate form, `{:#}`, adds the site to a task without a name.
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
