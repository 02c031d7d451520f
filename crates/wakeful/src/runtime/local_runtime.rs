//! A runtime that may not leave its thread, and whose tasks need not be `Send`.

use super::handle::{EnterGuard, Handle};
use crate::runtime::inner::{Flavor, Shared};
use crate::runtime::task_api::spawn;
use crate::runtime::{Builder, Runtime, RuntimeMetrics};
use crate::task::JoinHandle;
use crate::task::cell::SpawnOptions;
use std::io;
use std::marker::PhantomData;
use std::time::Duration;

/// A current-thread runtime that stays on the thread that made it, so that any
/// future can be spawned on it, `Send` or not.
///
/// ```
/// use std::rc::Rc;
/// use wakeful::runtime::LocalRuntime;
///
/// let runtime = LocalRuntime::new()?;
/// let shared = Rc::new(5);
/// let sum = runtime.block_on(async {
///     let mine = shared.clone();
///     wakeful::task::spawn_local(async move { *mine + 1 }).await.unwrap()
/// });
/// assert_eq!(sum, 6);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct LocalRuntime {
    runtime: Runtime,
    _not_send: PhantomData<*const ()>,
}

/// Settings that only a [`LocalRuntime`] has; there are none yet.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct LocalOptions {
    /// Keeps the type from being sent, as what it configures is.
    _not_send: PhantomData<*const ()>,
}

impl LocalRuntime {
    pub(super) fn from_handle(handle: Handle) -> Self {
        Self { runtime: Runtime::from_handle(handle), _not_send: PhantomData }
    }

    /// A local runtime with everything enabled.
    ///
    /// # Errors
    ///
    /// If the operating system refuses what it needs.
    pub fn new() -> io::Result<LocalRuntime> {
        Builder::new_current_thread().enable_all().build_local(LocalOptions::default())
    }

    /// A handle; through it, `Send` tasks can be spawned from other threads.
    pub fn handle(&self) -> &Handle {
        self.runtime.handle()
    }

    /// Spawns a task, `Send` or not.
    #[track_caller]
    pub fn spawn_local<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        // SAFETY: a LocalRuntime is not Send, so this is its thread.
        unsafe { spawn_on_own_thread(&self.handle().shared, future, spawn::birth_here()) }
    }

    /// Runs a closure that may block on a thread of the blocking pool.
    #[track_caller]
    pub fn spawn_blocking<F, R>(&self, func: F) -> JoinHandle<R>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        self.runtime.spawn_blocking(func)
    }

    /// Runs a future, and the tasks, on this thread.
    ///
    /// # Panics
    ///
    /// From within a runtime, or if the future panics.
    #[track_caller]
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }

    /// Makes this runtime the thread's current one; see [`Handle::enter`].
    pub fn enter(&self) -> EnterGuard<'_> {
        self.runtime.enter()
    }

    /// MetricsSnapshot about the runtime.
    pub fn metrics(&self) -> RuntimeMetrics {
        self.runtime.metrics()
    }

    /// As [`Runtime::shutdown_timeout`].
    pub fn shutdown_timeout(self, duration: Duration) {
        self.runtime.shutdown_timeout(duration);
    }

    /// As [`Runtime::shutdown_background`].
    pub fn shutdown_background(self) {
        self.runtime.shutdown_background();
    }
}

/// Spawns a task that may not leave this thread on a local runtime.
///
/// # Safety
///
/// `shared` is a local runtime and this is its thread.
pub(crate) unsafe fn spawn_on_own_thread<F>(
    shared: &Shared,
    future: F,
    birth: SpawnOptions,
) -> JoinHandle<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    match &shared.flavor {
        // SAFETY: the scheduler runs tasks in `block_on` and drops them in
        // `close`, both through a LocalRuntime, which never leaves this thread.
        Flavor::Current(scheduler) => unsafe { scheduler.spawn(future, birth) },
        Flavor::Multi(_) => unreachable!("a local runtime is a current-thread one"),
    }
}
