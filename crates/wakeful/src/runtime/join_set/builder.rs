//! The builder of tasks for a `JoinSet`.

use crate::runtime::Handle;
use crate::runtime::join_set::JoinSet;
use crate::runtime::task_api::builder::Builder as TaskBuilder;
use crate::runtime::task_api::local_set::LocalSet;
use crate::task::AbortHandle;
use std::fmt;
use std::io;

/// Configures a task before it is spawned on a [`JoinSet`]; returned by [`JoinSet::build_task`].
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
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::runtime::Handle;
    /// use wakeful::task::JoinSet;
    ///
    /// let mut set = JoinSet::new();
    /// let task = set.build_task().name("fetch").spawn(async {})?;
    /// let dump = Handle::current().dump();
    /// assert_eq!(dump.find_named("fetch").unwrap().id(), Some(task.id()));
    /// # Ok(())
    /// # }
    /// ```
    pub fn name(self, name: &'a str) -> Self {
        Self { task: self.task.name(name), ..self }
    }

    /// Allows the task to wait without any live waker until it is aborted.
    ///
    /// See [`task::Builder::forever`](crate::task::Builder::forever).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::task::JoinSet;
    ///
    /// let mut set = JoinSet::new();
    /// set.build_task().forever().spawn(std::future::pending::<()>())?;
    /// wakeful::task::yield_now().await; // no report
    /// set.shutdown().await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn forever(self) -> Self {
        Self { task: self.task.forever(), ..self }
    }

    /// Spawns the task on the current runtime, like [`JoinSet::spawn`].
    ///
    /// # Errors
    ///
    /// Currently none.
    ///
    /// # Panics
    ///
    /// If the thread has no current runtime.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::task::JoinSet;
    ///
    /// let mut set = JoinSet::new();
    /// set.build_task().spawn(async { 6 * 7 })?;
    /// assert_eq!(set.join_next().await.unwrap().unwrap(), 42);
    /// # Ok(())
    /// # }
    /// ```
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
    /// Currently none.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Builder;
    /// use wakeful::task::JoinSet;
    ///
    /// let rt = Builder::new_current_thread().build()?;
    /// let mut set = JoinSet::new();
    /// set.build_task().spawn_on(async { 6 * 7 }, rt.handle())?;
    /// assert_eq!(rt.block_on(set.join_all()), [42]);
    /// # Ok::<(), std::io::Error>(())
    /// ```
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
    /// Currently none.
    ///
    /// # Panics
    ///
    /// If the thread has no current runtime.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::task::JoinSet;
    ///
    /// let mut set = JoinSet::new();
    /// set.build_task().name("hash").spawn_blocking(|| (1..=10).product::<u32>())?;
    /// assert_eq!(set.join_all().await, [3_628_800]);
    /// # Ok(())
    /// # }
    /// ```
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
    /// Currently none.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Builder;
    /// use wakeful::task::JoinSet;
    ///
    /// let rt = Builder::new_current_thread().build()?;
    /// let mut set = JoinSet::new();
    /// set.build_task().spawn_blocking_on(|| "done", rt.handle())?;
    /// assert_eq!(rt.block_on(set.join_all()), ["done"]);
    /// # Ok::<(), std::io::Error>(())
    /// ```
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
    /// Currently none.
    ///
    /// # Panics
    ///
    /// If called outside a `LocalSet` or `LocalRuntime`.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::rc::Rc;
    /// use wakeful::runtime::LocalRuntime;
    /// use wakeful::task::JoinSet;
    ///
    /// let rt = LocalRuntime::new()?;
    /// let words = Rc::new(["stays", "here"]);
    /// let counts = rt.block_on(async {
    ///     let mut set = JoinSet::new();
    ///     set.build_task().spawn_local(async move { words.len() }).unwrap();
    ///     set.join_all().await
    /// });
    /// assert_eq!(counts, [2]);
    /// # Ok::<(), std::io::Error>(())
    /// ```
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
    /// Currently none.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use std::rc::Rc;
    /// use wakeful::task::{JoinSet, LocalSet};
    ///
    /// let (local, mut set) = (LocalSet::new(), JoinSet::new());
    /// let words = Rc::new(["stays", "here"]);
    /// set.build_task().spawn_local_on(async move { words.len() }, &local)?;
    /// assert_eq!(local.run_until(set.join_all()).await, [2]);
    /// # Ok(())
    /// # }
    /// ```
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
