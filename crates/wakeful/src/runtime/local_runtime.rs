//! A runtime that stays on one thread, so that its tasks need not be `Send`.

use super::enter::EnterGuard;
use super::handle::Handle;
use crate::inspect::ShutdownReport;
use crate::runtime::inner::{Flavor, RuntimeInner};
use crate::runtime::task_api::spawn;
use crate::runtime::{Builder, Runtime, RuntimeMetrics, TaskMeta};
use crate::scheduler::task_hooks::TaskHooks;
use crate::task::JoinHandle;
use crate::task::cell::SpawnOptions;
use crate::task::origin::Origin;
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

/// A current-thread runtime that stays on its thread, so that its tasks need not be `Send`.
///
/// [`spawn_local`](crate::task::spawn_local) works anywhere inside this runtime, without a
/// [`LocalSet`](crate::task::LocalSet). Dropping the runtime shuts it down, as for a [`Runtime`].
///
/// # Examples
///
/// ```
/// use std::rc::Rc;
/// use wakeful::runtime::LocalRuntime;
///
/// let runtime = LocalRuntime::new()?;
/// let shared = Rc::new(5);
/// let sum = runtime.block_on(async {
///     let shared = shared.clone();
///     wakeful::task::spawn_local(async move { *shared + 1 }).await.unwrap()
/// });
/// assert_eq!(sum, 6);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct LocalRuntime {
    runtime: Runtime,
    _not_send: PhantomData<*const ()>,
}

/// Settings specific to a [`LocalRuntime`]: hooks for its tasks.
///
/// Pass it to [`Builder::build_local`]. Hooks must be `Send` and `Sync`, because other threads can
/// spawn tasks through the runtime's [`Handle`].
///
/// # Examples
///
/// ```
/// use wakeful::runtime::{Builder, LocalOptions};
///
/// let runtime = Builder::new_current_thread().build_local(LocalOptions::default())?;
/// assert_eq!(runtime.block_on(async { 1 + 1 }), 2);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Default)]
#[non_exhaustive]
pub struct LocalOptions {
    pub(super) task_hooks: TaskHooks,
    /// Makes the type `!Send`, like the runtime that it configures.
    _not_send: PhantomData<*const ()>,
}

impl LocalOptions {
    /// Sets a hook that is called when a task is spawned.
    ///
    /// See [`Builder::on_task_spawn`], whose hook it replaces.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::{Builder, LocalOptions};
    ///
    /// let mut options = LocalOptions::default();
    /// options.on_task_spawn(|task| println!("task {}", task.id()));
    /// let runtime = Builder::new_current_thread().build_local(options)?;
    /// runtime.block_on(runtime.spawn_local(async {})).unwrap();
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn on_task_spawn<F>(&mut self, f: F) -> &mut Self
    where
        F: Fn(&TaskMeta<'_>) + Send + Sync + 'static,
    {
        self.task_hooks.on_spawn = Some(Arc::new(f));
        self
    }

    /// Sets a hook that is called before each poll of a task.
    ///
    /// See [`Builder::on_before_task_poll`], whose hook it replaces.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::{Builder, LocalOptions};
    ///
    /// let mut options = LocalOptions::default();
    /// options.on_before_task_poll(|task| println!("task {}", task.id()));
    /// let runtime = Builder::new_current_thread().build_local(options)?;
    /// runtime.block_on(runtime.spawn_local(async {})).unwrap();
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn on_before_task_poll<F>(&mut self, f: F) -> &mut Self
    where
        F: Fn(&TaskMeta<'_>) + Send + Sync + 'static,
    {
        self.task_hooks.before_poll = Some(Arc::new(f));
        self
    }

    /// Sets a hook that is called after each poll of a task.
    ///
    /// See [`Builder::on_after_task_poll`], whose hook it replaces.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::{Builder, LocalOptions};
    ///
    /// let mut options = LocalOptions::default();
    /// options.on_after_task_poll(|task| println!("task {}", task.id()));
    /// let runtime = Builder::new_current_thread().build_local(options)?;
    /// runtime.block_on(runtime.spawn_local(async {})).unwrap();
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn on_after_task_poll<F>(&mut self, f: F) -> &mut Self
    where
        F: Fn(&TaskMeta<'_>) + Send + Sync + 'static,
    {
        self.task_hooks.after_poll = Some(Arc::new(f));
        self
    }

    /// Sets a hook that is called when a task ends.
    ///
    /// See [`Builder::on_task_terminate`], whose hook it replaces.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::{Builder, LocalOptions};
    ///
    /// let mut options = LocalOptions::default();
    /// options.on_task_terminate(|task| println!("task {}", task.id()));
    /// let runtime = Builder::new_current_thread().build_local(options)?;
    /// runtime.block_on(runtime.spawn_local(async {})).unwrap();
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn on_task_terminate<F>(&mut self, f: F) -> &mut Self
    where
        F: Fn(&TaskMeta<'_>) + Send + Sync + 'static,
    {
        self.task_hooks.on_terminate = Some(Arc::new(f));
        self
    }
}

impl fmt::Debug for LocalOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalOptions").finish_non_exhaustive()
    }
}

impl LocalRuntime {
    pub(super) fn from_handle(handle: Handle) -> Self {
        Self { runtime: Runtime::from_handle(handle), _not_send: PhantomData }
    }

    /// Creates a local runtime with timers and I/O.
    ///
    /// # Errors
    ///
    /// Currently none: a local runtime starts no thread.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::LocalRuntime;
    ///
    /// let runtime = LocalRuntime::new()?;
    /// assert_eq!(runtime.block_on(async { 1 + 1 }), 2);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn new() -> io::Result<LocalRuntime> {
        Builder::new_current_thread().enable_all().build_local(LocalOptions::default())
    }

    /// Returns a handle, through which other threads can spawn `Send` tasks.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::LocalRuntime;
    ///
    /// let runtime = LocalRuntime::new()?;
    /// let handle = runtime.handle().clone();
    /// let task = std::thread::spawn(move || handle.spawn(async { 42 })).join().unwrap();
    /// assert_eq!(runtime.block_on(task).unwrap(), 42);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn handle(&self) -> &Handle {
        self.runtime.handle()
    }

    /// Spawns a task that need not be `Send`; the task runs while this thread is in `block_on`.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::rc::Rc;
    /// use wakeful::runtime::LocalRuntime;
    ///
    /// let runtime = LocalRuntime::new()?;
    /// let words = Rc::new(["stays", "here"]);
    /// let task = runtime.spawn_local(async move { words.len() });
    /// assert_eq!(runtime.block_on(task).unwrap(), 2);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[track_caller]
    pub fn spawn_local<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        // SAFETY: a `LocalRuntime` is not `Send`, so this is its thread.
        unsafe { spawn_on_own_thread(&self.handle().shared, future, spawn::options_here()) }
    }

    /// Spawns a task on this runtime, with `site` as its spawn site in diagnostics.
    pub(crate) fn spawn_local_at<F>(
        &self,
        site: &'static Location<'static>,
        future: F,
    ) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        let options = SpawnOptions { origin: Origin::at(site, None), flags: 0 };
        // SAFETY: a `LocalRuntime` is not `Send`, so this is its thread.
        unsafe { spawn_on_own_thread(&self.handle().shared, future, options) }
    }

    /// Runs a closure that may block on a thread of the blocking pool.
    ///
    /// See [`task::spawn_blocking`](crate::task::spawn_blocking).
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::LocalRuntime;
    ///
    /// let rt = LocalRuntime::new()?;
    /// let sum = rt.spawn_blocking(|| (1..=100).sum::<u32>());
    /// assert_eq!(rt.block_on(sum).unwrap(), 5050);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[track_caller]
    pub fn spawn_blocking<F, R>(&self, func: F) -> JoinHandle<R>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        self.runtime.spawn_blocking(func)
    }

    /// Runs a future to completion on this thread, together with the runtime's tasks.
    ///
    /// # Panics
    ///
    /// See [`Runtime::block_on`].
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::LocalRuntime;
    ///
    /// let runtime = LocalRuntime::new()?;
    /// assert_eq!(runtime.block_on(async { 1 + 1 }), 2);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[track_caller]
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }

    /// Makes this runtime the thread's current one until the guard is dropped.
    ///
    /// See [`Handle::enter`].
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::{Handle, LocalRuntime};
    ///
    /// let rt = LocalRuntime::new()?;
    /// let guard = rt.enter();
    /// assert_eq!(Handle::current().id(), rt.handle().id());
    /// drop(guard);
    /// assert!(Handle::try_current().is_err());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn enter(&self) -> EnterGuard<'_> {
        self.runtime.enter()
    }

    /// Returns the metrics of the runtime.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::LocalRuntime;
    ///
    /// let rt = LocalRuntime::new()?;
    /// assert_eq!(rt.metrics().num_workers(), 1);
    /// assert_eq!(rt.metrics().num_alive_tasks(), 0);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn metrics(&self) -> RuntimeMetrics {
        self.runtime.metrics()
    }

    /// Shuts the runtime down, and waits at most `duration`.
    ///
    /// See [`Runtime::shutdown_timeout`].
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use wakeful::runtime::LocalRuntime;
    ///
    /// let rt = LocalRuntime::new()?;
    /// rt.block_on(async { println!("work") });
    /// rt.shutdown_timeout(Duration::from_secs(5));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn shutdown_timeout(self, duration: Duration) {
        self.runtime.shutdown_timeout(duration);
    }

    /// Shuts the runtime down within `limit`, and reports what was alive before and after.
    ///
    /// See [`Runtime::shutdown_with_report`].
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use wakeful::runtime::LocalRuntime;
    ///
    /// let rt = LocalRuntime::new()?;
    /// rt.block_on(async { println!("work") });
    /// assert!(rt.shutdown_with_report(Duration::from_secs(60)).is_complete());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn shutdown_with_report(self, limit: Duration) -> ShutdownReport {
        self.runtime.shutdown_with_report(limit)
    }

    /// Shuts the runtime down without waiting.
    ///
    /// See [`Runtime::shutdown_background`].
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use wakeful::runtime::LocalRuntime;
    ///
    /// let rt = LocalRuntime::new()?;
    /// let (tx, rx) = mpsc::channel::<()>();
    /// rt.spawn_blocking(move || rx.recv());
    /// rt.shutdown_background(); // the closure still runs
    /// drop(tx);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn shutdown_background(self) {
        self.runtime.shutdown_background();
    }
}

/// Spawns a task that need not be `Send` on a local runtime.
///
/// # Safety
///
/// `shared` must belong to a local runtime, and the caller must run on its thread.
pub(crate) unsafe fn spawn_on_own_thread<F>(
    shared: &RuntimeInner,
    future: F,
    options: SpawnOptions,
) -> JoinHandle<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    match &shared.flavor {
        // SAFETY: the scheduler polls tasks in `block_on` and drops them in `close`. Both run
        // through the `LocalRuntime`, which never leaves this thread.
        Flavor::Current(scheduler) => unsafe { scheduler.spawn(future, options) },
        Flavor::Multi(_) => unreachable!("a local runtime is a current-thread one"),
    }
}
