//! Station 1 with settings: the name of a task, and whether the task may wait forever.

use crate::runtime::Handle;
use crate::runtime::task_api::blocking::spawn_blocking_on;
use crate::runtime::task_api::local_set::{LocalSet, spawn_local_with};
use crate::runtime::task_api::spawn;
use crate::task::JoinHandle;
use crate::task::cell::SpawnOptions;
use crate::task::origin::Origin;
use crate::task::state::FOREVER;
use std::io;
use std::panic::Location;

/// Configures a task before it is spawned.
///
/// A name appears in dumps and reports. The methods that spawn return an `io::Result`, which is
/// always `Ok` at present.
///
/// # Examples
///
/// ```
/// use wakeful::task;
///
/// # #[wakeful::main]
/// # async fn main() -> std::io::Result<()> {
/// let task = task::Builder::new().name("accountant").spawn(async { 40 + 2 })?;
/// assert_eq!(task.await.unwrap(), 42);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[must_use = "builders do nothing unless used to spawn a task"]
pub struct Builder<'a> {
    name: Option<&'a str>,
    forever: bool,
}

impl<'a> Builder<'a> {
    /// Creates a builder without a name.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::task;
    ///
    /// # #[wakeful::main]
    /// # async fn main() -> std::io::Result<()> {
    /// let task = task::Builder::new().spawn(async { 42 })?;
    /// assert_eq!(task.await.unwrap(), 42);
    /// # Ok(())
    /// # }
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// Names the task, for dumps and reports.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Handle;
    /// use wakeful::task;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let task = task::Builder::new().name("accountant").spawn(async {})?;
    /// assert!(Handle::current().dump().find_named("accountant").is_some());
    /// # task.await.unwrap();
    /// # Ok(())
    /// # }
    /// ```
    pub fn name(&self, name: &'a str) -> Self {
        Self { name: Some(name), ..*self }
    }

    /// Allows the task to wait without any live waker until it is aborted.
    ///
    /// Such a task is never reported as an orphan. To allow this for only a part of a task, use
    /// [`may_wait_forever`](crate::task::may_wait_forever).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let task = wakeful::task::Builder::new().forever().spawn(std::future::pending::<()>())?;
    /// # wakeful::task::yield_now().await;
    /// task.abort();
    /// # Ok(())
    /// # }
    /// ```
    pub fn forever(&self) -> Self {
        Self { forever: true, ..*self }
    }

    #[track_caller]
    fn options(self) -> SpawnOptions {
        self.options_at(Location::caller())
    }

    fn options_at(self, site: &'static Location<'static>) -> SpawnOptions {
        let flags = if self.forever { FOREVER } else { 0 };
        SpawnOptions { origin: Origin::at(site, self.name), flags }
    }

    /// Spawns the task on the current runtime, like [`task::spawn`](crate::task::spawn).
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
    /// use wakeful::task;
    ///
    /// # #[wakeful::main]
    /// # async fn main() -> std::io::Result<()> {
    /// let task = task::Builder::new().name("accountant").spawn(async { 40 + 2 })?;
    /// assert_eq!(task.await.unwrap(), 42);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn spawn<Fut>(self, future: Fut) -> io::Result<JoinHandle<Fut::Output>>
    where
        Fut: Future + Send + 'static,
        Fut::Output: Send + 'static,
    {
        self.spawn_on(future, &Handle::current())
    }

    /// Spawns the task on the runtime of `handle`.
    ///
    /// # Errors
    ///
    /// Currently none.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::task;
    ///
    /// # #[wakeful::main]
    /// # async fn main() -> std::io::Result<()> {
    /// let other = wakeful::runtime::Runtime::new()?;
    /// let builder = task::Builder::new().name("accountant");
    /// let task = builder.spawn_on(async { 40 + 2 }, other.handle())?;
    /// assert_eq!(task.await.unwrap(), 42);
    /// other.shutdown_background();
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn spawn_on<Fut>(self, future: Fut, handle: &Handle) -> io::Result<JoinHandle<Fut::Output>>
    where
        Fut: Future + Send + 'static,
        Fut::Output: Send + 'static,
    {
        Ok(spawn::spawn_on(&handle.shared, future, self.options()))
    }

    /// Spawns the task on the current `LocalSet` or `LocalRuntime`, like
    /// [`task::spawn_local`](crate::task::spawn_local).
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
    /// use wakeful::task;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let set = task::LocalSet::new();
    /// let task = set.run_until(async {
    ///     let builder = task::Builder::new().name("local");
    ///     builder.spawn_local(async { 40 + 2 })?.await.map_err(std::io::Error::other)
    /// });
    /// assert_eq!(task.await?, 42);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn spawn_local<Fut>(self, future: Fut) -> io::Result<JoinHandle<Fut::Output>>
    where
        Fut: Future + 'static,
        Fut::Output: 'static,
    {
        let site = Location::caller();
        Ok(spawn_local_with(future, || self.options_at(site)))
    }

    /// Spawns the task on a [`LocalSet`]; the task runs when the set is polled.
    ///
    /// # Errors
    ///
    /// Currently none.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::task;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let set = task::LocalSet::new();
    /// let task = task::Builder::new().name("local").spawn_local_on(async { 40 + 2 }, &set)?;
    /// set.await;
    /// assert_eq!(task.await.unwrap(), 42);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn spawn_local_on<Fut>(
        self,
        future: Fut,
        local_set: &LocalSet,
    ) -> io::Result<JoinHandle<Fut::Output>>
    where
        Fut: Future + 'static,
        Fut::Output: 'static,
    {
        Ok(local_set.spawn(future, self.options()))
    }

    /// Runs a closure on the blocking pool of the current runtime, like
    /// [`task::spawn_blocking`](crate::task::spawn_blocking).
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
    /// use wakeful::task;
    ///
    /// # #[wakeful::main]
    /// # async fn main() -> std::io::Result<()> {
    /// let task = task::Builder::new().name("sum").spawn_blocking(|| (1..=9).sum::<u32>())?;
    /// assert_eq!(task.await.unwrap(), 45);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn spawn_blocking<Function, Output>(
        self,
        function: Function,
    ) -> io::Result<JoinHandle<Output>>
    where
        Function: FnOnce() -> Output + Send + 'static,
        Output: Send + 'static,
    {
        self.spawn_blocking_on(function, &Handle::current())
    }

    /// Runs a closure on the blocking pool of the runtime of `handle`.
    ///
    /// # Errors
    ///
    /// Currently none.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::task;
    ///
    /// # #[wakeful::main]
    /// # async fn main() -> std::io::Result<()> {
    /// let handle = wakeful::runtime::Handle::current();
    /// let task = task::Builder::new().name("sum").spawn_blocking_on(|| 40 + 2, &handle)?;
    /// assert_eq!(task.await.unwrap(), 42);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn spawn_blocking_on<Function, Output>(
        self,
        function: Function,
        handle: &Handle,
    ) -> io::Result<JoinHandle<Output>>
    where
        Function: FnOnce() -> Output + Send + 'static,
        Output: Send + 'static,
    {
        Ok(spawn_blocking_on(&handle.shared, function, self.name, true))
    }
}
