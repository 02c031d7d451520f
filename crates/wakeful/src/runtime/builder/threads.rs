//! Settings of the builder for worker threads and the blocking pool.

use super::Builder;
use crate::scheduler::config::ThreadName;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

/// Settings of the runtime's threads.
impl Builder {
    /// Sets the number of worker threads of a multi-thread runtime.
    ///
    /// Without this setting, the environment variable `WAKEFUL_WORKER_THREADS` decides, then
    /// `TOKIO_WORKER_THREADS`. Without either, the number is that of the CPUs that the process may
    /// use. A current-thread runtime ignores the setting.
    ///
    /// # Panics
    ///
    /// If `val` is 0.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Builder;
    ///
    /// let runtime = Builder::new_multi_thread().worker_threads(2).build()?;
    /// assert_eq!(runtime.metrics().num_workers(), 2);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[track_caller]
    pub fn worker_threads(&mut self, val: usize) -> &mut Self {
        assert!(val > 0, "Worker threads cannot be set to 0");
        self.worker_threads = Some(val);
        self
    }

    /// Sets how many threads the blocking pool may have; 512 by default.
    ///
    /// The pool starts a thread when a closure needs one. If all threads are busy and the limit is
    /// reached, closures wait in the pool's queue.
    ///
    /// # Panics
    ///
    /// If `val` is 0.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Builder;
    ///
    /// let runtime = Builder::new_multi_thread().max_blocking_threads(4).build()?;
    /// let sum = runtime.spawn_blocking(|| (1..=10).sum::<u32>());
    /// assert_eq!(runtime.block_on(sum).unwrap(), 55);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[track_caller]
    pub fn max_blocking_threads(&mut self, val: usize) -> &mut Self {
        assert!(val > 0, "Max blocking threads cannot be set to 0");
        self.max_blocking_threads = val;
        self
    }

    /// Names all threads of the runtime; `wakeful-worker` by default.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Builder;
    ///
    /// let runtime = Builder::new_multi_thread().thread_name("database").build()?;
    /// let name = runtime.spawn(async { std::thread::current().name().map(str::to_owned) });
    /// assert_eq!(runtime.block_on(name).unwrap().as_deref(), Some("database"));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn thread_name(&mut self, val: impl Into<String>) -> &mut Self {
        self.thread_name = ThreadName::Fixed(Cow::Owned(val.into()));
        self
    }

    /// Sets a function that is called for the name of each new thread of the runtime.
    ///
    /// Locks of the runtime are held during the call. The function must not use the runtime. It can
    /// deadlock if it spawns a closure, takes a dump, or reads the number of threads from the
    /// metrics.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    /// use wakeful::runtime::Builder;
    ///
    /// let count = AtomicUsize::new(0);
    /// let runtime = Builder::new_multi_thread()
    ///     .thread_name_fn(move || format!("database-{}", count.fetch_add(1, Relaxed)))
    ///     .build()?;
    /// let name = runtime.spawn(async { std::thread::current().name().map(str::to_owned) });
    /// assert!(runtime.block_on(name).unwrap().unwrap().starts_with("database-"));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn thread_name_fn<F>(&mut self, f: F) -> &mut Self
    where
        F: Fn() -> String + Send + Sync + 'static,
    {
        self.thread_name = ThreadName::Function(Arc::new(f));
        self
    }

    /// Sets the stack size of the runtime's threads, in bytes.
    ///
    /// The default is the standard library's default.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Builder;
    ///
    /// let runtime = Builder::new_multi_thread().thread_stack_size(4 << 20).build()?;
    /// # drop(runtime);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn thread_stack_size(&mut self, val: usize) -> &mut Self {
        self.thread_stack_size = Some(val);
        self
    }

    /// Sets how long an idle thread of the blocking pool waits before it exits; 10 s by default.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use wakeful::runtime::Builder;
    ///
    /// let runtime =
    ///     Builder::new_multi_thread().thread_keep_alive(Duration::from_secs(60)).build()?;
    /// # drop(runtime);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn thread_keep_alive(&mut self, duration: Duration) -> &mut Self {
        self.thread_keep_alive = duration;
        self
    }

    /// Sets a callback that each thread of the runtime runs when it starts.
    ///
    /// These are the worker threads, spare threads and the threads of the blocking pool. The thread
    /// that calls `block_on` is not one of them.
    ///
    /// The blocking pool starts one thread at a time. The callback must therefore not wait for a
    /// closure of the same pool, or for an operation that uses the pool, such as a DNS lookup.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Builder;
    ///
    /// let runtime =
    ///     Builder::new_multi_thread().on_thread_start(|| println!("a thread starts")).build()?;
    /// # drop(runtime);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn on_thread_start<F>(&mut self, f: F) -> &mut Self
    where
        F: Fn() + Send + Sync + 'static,
    {
        self.on_thread_start = Some(Arc::new(f));
        self
    }

    /// Sets a callback that each thread of the runtime runs before it exits.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Builder;
    ///
    /// let runtime =
    ///     Builder::new_multi_thread().on_thread_stop(|| println!("a thread ends")).build()?;
    /// # drop(runtime);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn on_thread_stop<F>(&mut self, f: F) -> &mut Self
    where
        F: Fn() + Send + Sync + 'static,
    {
        self.on_thread_stop = Some(Arc::new(f));
        self
    }

    /// Sets a callback that a thread runs when it has no tasks and is about to park.
    ///
    /// While a worker runs the callback, new tasks go to other workers. If work arrives meanwhile,
    /// the thread does not park, but still runs the callback of
    /// [`on_thread_unpark`](Self::on_thread_unpark).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use wakeful::runtime::Builder;
    /// use wakeful::sync::Notify;
    ///
    /// let parked = Arc::new(Notify::new());
    /// let notify = parked.clone();
    /// let runtime =
    ///     Builder::new_current_thread().on_thread_park(move || notify.notify_one()).build()?;
    /// // Waits until the thread has no tasks, and calls the callback.
    /// runtime.block_on(parked.notified());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn on_thread_park<F>(&mut self, f: F) -> &mut Self
    where
        F: Fn() + Send + Sync + 'static,
    {
        self.on_thread_park = Some(Arc::new(f));
        self
    }

    /// Sets a callback that a thread runs after it is unparked.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Builder;
    ///
    /// let runtime =
    ///     Builder::new_multi_thread().on_thread_unpark(|| println!("a thread wakes up")).build()?;
    /// # drop(runtime);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn on_thread_unpark<F>(&mut self, f: F) -> &mut Self
    where
        F: Fn() + Send + Sync + 'static,
    {
        self.on_thread_unpark = Some(Arc::new(f));
        self
    }
}
