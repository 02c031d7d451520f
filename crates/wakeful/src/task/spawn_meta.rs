//! The description of a new task that the spawn hook receives, and to which it can attach data.

use super::Id;
use super::context;
use super::data::TaskData;
use super::header::Header;
use super::runnable::Runnable;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;

/// A task that is being spawned, as passed to the hook of [`Builder::on_spawn`].
///
/// [`Builder::on_spawn`]: crate::runtime::Builder::on_spawn
///
/// # Examples
///
/// A task inherits the data of the task that spawns it:
///
/// ```
/// use wakeful::runtime::{Builder, SpawnMeta};
///
/// fn inherit(task: &mut SpawnMeta<'_>) {
///     if let Some(data) = task.parent_data().cloned() {
///         task.set_data(data);
///     }
/// }
///
/// let runtime = Builder::new_current_thread().on_spawn(inherit).build()?;
/// runtime.block_on(async { wakeful::spawn(async {}).await }).unwrap();
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct SpawnMeta<'a> {
    id: Id,
    name: Option<&'a str>,
    spawned_at: &'static Location<'static>,
    parent_data: Option<Arc<dyn TaskData>>,
    data: Option<Arc<dyn TaskData>>,
}

impl SpawnMeta<'_> {
    /// Calls `hook` with a task that was just spawned, and attaches the data that it sets.
    pub(crate) fn call(task: &Runnable, hook: &dyn Fn(&mut SpawnMeta<'_>)) {
        // SAFETY: the entry keeps the cell alive.
        let header: &Header = unsafe { &*task.cell() };
        let origin = header.origin.get();
        let mut meta = SpawnMeta {
            id: header.id(),
            name: origin.name(),
            spawned_at: origin.spawned_at(),
            parent_data: context::current_data(),
            data: None,
        };
        hook(&mut meta);
        if let Some(data) = meta.data.take() {
            task.attach(data);
        }
    }

    /// Returns the id of the task.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Builder;
    ///
    /// let runtime = Builder::new_current_thread()
    ///     .on_spawn(|task| println!("task {} from {}", task.id(), task.spawned_at()))
    ///     .build()?;
    /// runtime.block_on(runtime.spawn(async {})).unwrap();
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn id(&self) -> Id {
        self.id
    }

    /// Returns the name of the task, if [`task::Builder`](crate::task::Builder) gave it one.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Builder;
    ///
    /// let runtime = Builder::new_current_thread()
    ///     .on_spawn(|task| assert_eq!(task.name(), Some("mailer")))
    ///     .build()?;
    /// let task = wakeful::task::Builder::new().name("mailer").spawn_on(async {}, runtime.handle())?;
    /// runtime.block_on(task).unwrap();
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn name(&self) -> Option<&str> {
        self.name
    }

    /// Returns where the task was spawned.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Builder;
    ///
    /// let runtime = Builder::new_current_thread()
    ///     .on_spawn(|task| assert!(task.spawned_at().line() > 0))
    ///     .build()?;
    /// runtime.block_on(runtime.spawn(async {})).unwrap();
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn spawned_at(&self) -> &'static Location<'static> {
        self.spawned_at
    }

    /// Returns the data of the parent: the task or blocking closure that calls `spawn`.
    ///
    /// Returns `None` if the parent has no data, or if `spawn` is called outside a task: in the
    /// future of a `block_on`, or on another thread. [`SpawnMeta`] has an example.
    pub fn parent_data(&self) -> Option<&Arc<dyn TaskData>> {
        self.parent_data.as_ref()
    }

    /// Attaches data to the task; a second call replaces the data of the first.
    ///
    /// See [`TaskData`] for an example.
    pub fn set_data(&mut self, data: Arc<dyn TaskData>) {
        self.data = Some(data);
    }
}

impl fmt::Debug for SpawnMeta<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpawnMeta")
            .field("id", &self.id)
            .field("name", &self.name)
            .field("spawned_at", &self.spawned_at)
            .finish_non_exhaustive()
    }
}
