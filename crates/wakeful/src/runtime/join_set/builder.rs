//! The builder of tasks for a `JoinSet`.

use crate::runtime::Handle;
use crate::runtime::join_set::JoinSet;
use crate::runtime::task_api::builder::Builder as TaskBuilder;
use crate::runtime::task_api::local_set::LocalSet;
use crate::task::AbortHandle;
use std::fmt;
use std::io;

/// Configures a task before it is spawned on a [`JoinSet`]; from [`JoinSet::build_task`].
///
/// The methods that spawn return an `io::Result`, which is always `Ok` at present.
///
/// # Examples
///
/// ```
/// # #[wakeful::main]
/// # async fn main() -> std::io::Result<()> {
/// let mut set = wakeful::task::JoinSet::new();
/// set.build_task().name("first").spawn(async { 1 })?;
/// set.build_task().name("second").spawn_blocking(|| 2)?;
/// assert_eq!(set.join_all().await.iter().sum::<i32>(), 3);
/// # Ok(())
/// # }
/// ```
#[must_use = "builders do nothing unless used to spawn a task"]
pub struct Builder<'a, T> {
    set: &'a mut JoinSet<T>,
    task: TaskBuilder<'a>,
}

impl<'a, T: 'static> Builder<'a, T> {
    pub(in crate::runtime) fn new(set: &'a mut JoinSet<T>) -> Self {
        Self { set, task: TaskBuilder::new() }
    }

    /// Names the task, for dumps and reports.
    pub fn name(self, name: &'a str) -> Self {
        Self { task: self.task.name(name), ..self }
    }

    /// Allows the task to wait until it is aborted, with no waker left.
    ///
    /// See [`task::Builder::forever`](crate::task::Builder::forever).
    pub fn forever(self) -> Self {
        Self { task: self.task.forever(), ..self }
    }

    /// Spawns the task on the current runtime, like [`JoinSet::spawn`].
    ///
    /// # Errors
    ///
    /// None at present.
    ///
    /// # Panics
    ///
    /// If the thread has no current runtime.
    #[track_caller]
    pub fn spawn<F>(self, future: F) -> io::Result<AbortHandle>
    where
        F: Future<Output = T>,
        F: Send + 'static,
        T: Send,
    {
        Ok(self.set.insert(self.task.spawn(future)?))
    }

    /// Spawns the task on the runtime of `handle`, like [`JoinSet::spawn_on`].
    ///
    /// # Errors
    ///
    /// None at present.
    #[track_caller]
    pub fn spawn_on<F>(self, future: F, handle: &Handle) -> io::Result<AbortHandle>
    where
        F: Future<Output = T>,
        F: Send + 'static,
        T: Send,
    {
        Ok(self.set.insert(self.task.spawn_on(future, handle)?))
    }

    /// Runs a closure on the blocking pool of the current runtime, like
    /// [`JoinSet::spawn_blocking`].
    ///
    /// # Errors
    ///
    /// None at present.
    ///
    /// # Panics
    ///
    /// If the thread has no current runtime.
    #[track_caller]
    pub fn spawn_blocking<F>(self, f: F) -> io::Result<AbortHandle>
    where
        F: FnOnce() -> T,
        F: Send + 'static,
        T: Send,
    {
        Ok(self.set.insert(self.task.spawn_blocking(f)?))
    }

    /// Runs a closure on the blocking pool of another runtime, like [`JoinSet::spawn_blocking_on`].
    ///
    /// # Errors
    ///
    /// None at present.
    #[track_caller]
    pub fn spawn_blocking_on<F>(self, f: F, handle: &Handle) -> io::Result<AbortHandle>
    where
        F: FnOnce() -> T,
        F: Send + 'static,
        T: Send,
    {
        Ok(self.set.insert(self.task.spawn_blocking_on(f, handle)?))
    }

    /// Spawns a task that need not be `Send`, like [`JoinSet::spawn_local`].
    ///
    /// # Errors
    ///
    /// None at present.
    ///
    /// # Panics
    ///
    /// Outside of a `LocalSet` and of a `LocalRuntime`.
    #[track_caller]
    pub fn spawn_local<F>(self, future: F) -> io::Result<AbortHandle>
    where
        F: Future<Output = T>,
        F: 'static,
    {
        Ok(self.set.insert(self.task.spawn_local(future)?))
    }

    /// Spawns the task on a [`LocalSet`], like [`JoinSet::spawn_local_on`].
    ///
    /// # Errors
    ///
    /// None at present.
    #[track_caller]
    pub fn spawn_local_on<F>(self, future: F, local_set: &LocalSet) -> io::Result<AbortHandle>
    where
        F: Future<Output = T>,
        F: 'static,
    {
        Ok(self.set.insert(self.task.spawn_local_on(future, local_set)?))
    }
}

impl<T> fmt::Debug for Builder<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("join_set::Builder")
            .field("set", &self.set)
            .field("task", &self.task)
            .finish()
    }
}
