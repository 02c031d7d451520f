//! Settings of the builder for functions that are called at the events of tasks.

use super::Builder;
use crate::runtime::TaskMeta;
use std::sync::Arc;

/// Hooks for the tasks of the runtime.
///
/// A hook sees the tasks that are spawned on the runtime, also those of a
/// [`LocalRuntime`](crate::runtime::LocalRuntime). It sees neither the futures of `block_on` nor the
/// tasks of a [`LocalSet`](crate::task::LocalSet). Without hooks, spawns and polls execute no
/// extra instruction. With a hook for spawns or polls, each poll also reads the clock twice. A hook for
/// the end of tasks adds a call to each end of a task in the process.
impl Builder {
    /// Sets a hook that is called when a task is spawned, before its first poll.
    ///
    /// The spawning thread calls it. If it panics, the task is dropped and the panic goes to the
    /// caller of `spawn`. Closures of the blocking pool are not reported.
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
    /// The thread that polls the task calls it. A panic ends that thread's loop, and the task is
    /// dropped: on a multi-thread runtime another thread becomes the worker, on a current-thread
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
    /// The thread that polled the task calls it, also if the task has ended or panicked in that
    /// poll. A panic of the hook ends that thread's loop: on a multi-thread runtime another thread
    /// becomes the worker, on a current-thread runtime `block_on` panics.
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
    /// It is called once for each task that returned, panicked or was dropped, and for each closure
    /// of the blocking pool, before the JoinHandle is woken. A panic of the hook is discarded after
    /// the panic hook of the program has printed it.
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
