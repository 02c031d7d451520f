//! The description of a task that runtime hooks receive.

use super::Id;
use super::header::Header;
use std::marker::PhantomData;
use std::panic::Location;
use std::time::Duration;

/// A task, as passed to the hooks of a runtime.
///
/// See [`Builder::on_task_spawn`](crate::runtime::Builder::on_task_spawn).
///
/// # Examples
///
/// ```
/// use wakeful::runtime::{Builder, TaskMeta};
///
/// fn log(task: &TaskMeta<'_>) {
///     println!("task {} from {}", task.id(), task.spawned_at());
/// }
///
/// let runtime = Builder::new_current_thread().on_task_spawn(log).build()?;
/// runtime.block_on(async { wakeful::spawn(async {}).await }).unwrap();
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct TaskMeta<'a> {
    id: Id,
    spawned_at: &'static Location<'static>,
    pub(crate) schedule_latency: Option<Duration>,
    _task: PhantomData<&'a ()>,
}

impl TaskMeta<'_> {
    pub(crate) fn new(header: &Header) -> TaskMeta<'static> {
        let (id, spawned_at) = (header.id(), header.origin.get().spawned_at());
        TaskMeta { id, spawned_at, schedule_latency: None, _task: PhantomData }
    }

    /// Returns the id of the task.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::Mutex;
    /// use wakeful::runtime::Builder;
    ///
    /// let ended = Arc::new(Mutex::new(Vec::new()));
    /// let hook = ended.clone();
    /// let runtime = Builder::new_current_thread()
    ///     .on_task_terminate(move |task| hook.lock().unwrap().push(task.id()))
    ///     .build()?;
    /// let task = runtime.spawn(async {});
    /// let id = task.id();
    /// runtime.block_on(task).unwrap();
    /// assert_eq!(*ended.lock().unwrap(), [id]);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn id(&self) -> Id {
        self.id
    }

    /// Returns where the task was spawned.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Builder;
    ///
    /// let runtime = Builder::new_current_thread()
    ///     .on_task_spawn(|task| println!("{}", task.spawned_at()))
    ///     .build()?;
    /// runtime.block_on(runtime.spawn(async {})).unwrap();
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn spawned_at(&self) -> &'static Location<'static> {
        self.spawned_at
    }

    /// Returns the time from the task's last schedule to the poll that the hook is called for.
    ///
    /// Hooks for polls get this value if the builder enabled
    /// [`track_task_schedule_latency`](crate::runtime::Builder::track_task_schedule_latency);
    /// otherwise it is `None`. The hooks before and after a poll get the same value.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Builder;
    ///
    /// let runtime = Builder::new_current_thread()
    ///     .track_task_schedule_latency()
    ///     .on_before_task_poll(|task| println!("{:?}", task.schedule_latency().unwrap()))
    ///     .build()?;
    /// runtime.block_on(runtime.spawn(async {})).unwrap();
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn schedule_latency(&self) -> Option<Duration> {
        self.schedule_latency
    }
}
