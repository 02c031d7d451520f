//! Station 1 with settings: a task's name, and that it may wait for ever.

use crate::runtime::Handle;
use crate::runtime::task_api::blocking::spawn_blocking_on;
use crate::runtime::task_api::local_set::{LocalSet, spawn_local_born};
use crate::runtime::task_api::spawn;
use crate::task::JoinHandle;
use crate::task::cell::SpawnOptions;
use crate::task::origin::Origin;
use crate::task::state::FOREVER;
use std::io;
use std::panic::Location;

/// Configures a task before it is spawned.
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
    /// A task like any other.
    pub fn new() -> Self {
        Self::default()
    }

    /// Names the task, for reports.
    pub fn name(&self, name: &'a str) -> Self {
        Self { name: Some(name), ..*self }
    }

    /// The task may wait until it is aborted, with nothing left that could wake
    /// it: it is never taken for an orphan. To say so of one part of a task, use
    /// [`may_wait_forever`](crate::task::may_wait_forever).
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let keeper = wakeful::task::Builder::new().forever().spawn(std::future::pending::<()>())?;
    /// # wakeful::task::yield_now().await;
    /// keeper.abort();
    /// # Ok(())
    /// # }
    /// ```
    pub fn forever(&self) -> Self {
        Self { forever: true, ..*self }
    }

    #[track_caller]
    fn birth(self) -> SpawnOptions {
        self.birth_at(Location::caller())
    }

    fn birth_at(self, site: &'static Location<'static>) -> SpawnOptions {
        let flags = if self.forever { FOREVER } else { 0 };
        SpawnOptions { origin: Origin::at(site, self.name), flags }
    }

    /// As [`task::spawn`](crate::task::spawn).
    ///
    /// # Errors
    ///
    /// None at present.
    ///
    /// # Panics
    ///
    /// Outside of a runtime.
    #[track_caller]
    pub fn spawn<Fut>(self, future: Fut) -> io::Result<JoinHandle<Fut::Output>>
    where
        Fut: Future + Send + 'static,
        Fut::Output: Send + 'static,
    {
        self.spawn_on(future, &Handle::current())
    }

    /// Spawns on another runtime.
    ///
    /// # Errors
    ///
    /// None at present.
    #[track_caller]
    pub fn spawn_on<Fut>(self, future: Fut, handle: &Handle) -> io::Result<JoinHandle<Fut::Output>>
    where
        Fut: Future + Send + 'static,
        Fut::Output: Send + 'static,
    {
        Ok(spawn::spawn_on(&handle.shared, future, self.birth()))
    }

    /// As [`task::spawn_local`](crate::task::spawn_local).
    ///
    /// # Errors
    ///
    /// None at present.
    ///
    /// # Panics
    ///
    /// Outside of a `LocalSet` and of a `LocalRuntime`.
    #[track_caller]
    pub fn spawn_local<Fut>(self, future: Fut) -> io::Result<JoinHandle<Fut::Output>>
    where
        Fut: Future + 'static,
        Fut::Output: 'static,
    {
        let site = Location::caller();
        Ok(spawn_local_born(future, || self.birth_at(site)))
    }

    /// Spawns on a [`LocalSet`]. The task runs when that is polled.
    ///
    /// # Errors
    ///
    /// None at present.
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
        Ok(local_set.spawn(future, self.birth()))
    }

    /// As [`task::spawn_blocking`](crate::task::spawn_blocking).
    ///
    /// # Errors
    ///
    /// None at present.
    ///
    /// # Panics
    ///
    /// Outside of a runtime.
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

    /// Runs a closure on the blocking pool of another runtime.
    ///
    /// # Errors
    ///
    /// None at present.
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
