//! Settings of the builder for hooks that are called at the events of tasks.

use super::Builder;
use crate::runtime::{SpawnMeta, TaskMeta};
use std::sync::Arc;

/// Hooks for the tasks of the runtime.
///
/// A hook sees the tasks that are spawned on the runtime, including a
/// [`LocalRuntime`](crate::runtime::LocalRuntime). It sees neither the futures of `block_on` nor,
/// except for [`on_spawn`](Builder::on_spawn), the tasks of a [`LocalSet`](crate::task::LocalSet).
/// Without hooks, spawns and polls execute no extra instruction. With a hook for spawns or polls,
/// each poll also reads the clock twice. A hook for the end of tasks adds a call whenever any task
/// of the process ends.
impl Builder {
    /// Sets a hook that is called when a task is spawned, and may attach data to the task.
    ///
    /// The data is a tag that dumps, reports and the live page show. It can also wrap the polls of
    /// the task; see [`TaskData`](crate::runtime::TaskData). The hook decides whether a task
    /// inherits the data of the task that spawns it ([`SpawnMeta::parent_data`]). It sees every
    /// task that is spawned while this runtime is the current one, or on this runtime explicitly:
    ///
    /// - tasks of the runtime, and of a [`LocalSet`](crate::task::LocalSet) that is used in it,
    /// - closures of [`spawn_blocking`](crate::task::spawn_blocking), but not those that `fs` and the
    ///   standard streams run on the blocking pool.
    ///
    /// The futures of `block_on` are not spawned, and have no data.
    ///
    /// The spawning thread calls the hook before the task is queued. If the hook panics, the task
    /// is dropped and the panic goes to the caller of `spawn`. A second call of `on_spawn` replaces
    /// the hook.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::fmt;
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    /// use wakeful::runtime::{Builder, Handle, TaskData};
    ///
    /// struct Request(u64);
    ///
    /// impl fmt::Display for Request {
    ///     fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    ///         write!(f, "request {}", self.0)
    ///     }
    /// }
    ///
    /// impl TaskData for Request {}
    ///
    /// let next = AtomicU64::new(1);
    /// let runtime = Builder::new_current_thread()
    ///     .on_spawn(move |task| {
    ///         let inherited = task.parent_data().cloned();
    ///         let new = || Arc::new(Request(next.fetch_add(1, Relaxed)));
    ///         task.set_data(inherited.unwrap_or_else(|| new()));
    ///     })
    ///     .build()?;
    /// runtime.block_on(runtime.spawn(async {
    ///     let child = wakeful::spawn(async {});
    ///     let dump = Handle::current().dump();
    ///     assert_eq!(dump.find(child.id()).unwrap().info().data::<Request>().unwrap().0, 1);
    /// })).unwrap();
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn on_spawn<F>(&mut self, f: F) -> &mut Self
    where
        F: Fn(&mut SpawnMeta<'_>) + Send + Sync + 'static,
    {
        self.task_hooks.attach = Some(Arc::new(f));
        self
    }

    /// Sets a hook that is called when a task is spawned, before its first poll.
    ///
    /// The spawning thread calls the hook. If the hook panics, the task is dropped and the panic goes
    /// to the caller of `spawn`. The hook is not called for closures of the blocking pool.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    /// use wakeful::runtime::Builder;
    ///
    /// let spawned = Arc::new(AtomicU32::new(0));
    /// let counter = spawned.clone();
    /// let runtime = Builder::new_current_thread()
    ///     .on_task_spawn(move |_task| _ = counter.fetch_add(1, Relaxed))
    ///     .build()?;
    /// runtime.block_on(async { wakeful::spawn(async {}).await }).unwrap();
    /// assert_eq!(spawned.load(Relaxed), 1);
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
    /// The polling thread calls the hook. A panic ends that thread's loop, and the task is
    /// dropped. On a multi-thread runtime another thread becomes the worker. On a current-thread
    /// runtime `block_on` panics.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    /// use wakeful::runtime::Builder;
    ///
    /// let polls = Arc::new(AtomicU32::new(0));
    /// let counter = polls.clone();
    /// let runtime = Builder::new_current_thread()
    ///     .on_before_task_poll(move |_task| _ = counter.fetch_add(1, Relaxed))
    ///     .build()?;
    /// runtime.block_on(runtime.spawn(wakeful::task::yield_now())).unwrap();
    /// assert_eq!(polls.load(Relaxed), 2);
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
    /// The polling thread calls the hook, even if the task completed or panicked in that
    /// poll. A panic of the hook ends that thread's loop. On a multi-thread runtime another thread
    /// becomes the worker. On a current-thread runtime `block_on` panics.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    /// use wakeful::runtime::Builder;
    ///
    /// let polls = Arc::new(AtomicU32::new(0));
    /// let counter = polls.clone();
    /// let runtime = Builder::new_current_thread()
    ///     .on_after_task_poll(move |_task| _ = counter.fetch_add(1, Relaxed))
    ///     .build()?;
    /// runtime.block_on(runtime.spawn(wakeful::task::yield_now())).unwrap();
    /// assert_eq!(polls.load(Relaxed), 2);
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
    /// The hook is called once for each task that returned, panicked or was dropped, and for each
    /// closure of the blocking pool. The JoinHandle is woken after the call. A panic of the hook is
    /// discarded after the program's panic hook has printed it.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    /// use wakeful::runtime::Builder;
    ///
    /// let ended = Arc::new(AtomicU32::new(0));
    /// let counter = ended.clone();
    /// let runtime = Builder::new_current_thread()
    ///     .on_task_terminate(move |_task| _ = counter.fetch_add(1, Relaxed))
    ///     .build()?;
    /// runtime.block_on(runtime.spawn(async {})).unwrap();
    /// assert_eq!(ended.load(Relaxed), 1);
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
