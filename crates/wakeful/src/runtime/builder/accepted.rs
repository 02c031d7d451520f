//! Settings of tokio that choose an implementation: wakeful has only one.

use super::Builder;

/// Settings that tokio programs may use, and that change little or nothing here.
impl Builder {
    /// Enables timers; pending timers elapse when the runtime shuts down.
    ///
    /// In tokio this selects per-worker timers, which elapse at shutdown. In wakeful each worker
    /// always has its own timers. A timer enabled with [`enable_time`](Self::enable_time) panics if
    /// it is polled after its runtime has shut down.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Builder;
    ///
    /// let runtime = Builder::new_multi_thread().enable_alt_timer().build()?;
    /// runtime.block_on(async { wakeful::time::sleep(std::time::Duration::ZERO).await });
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[cfg(feature = "time")]
    pub fn enable_alt_timer(&mut self) -> &mut Self {
        self.timers_elapse_at_shutdown = true;
        self.enable_time()
    }

    /// Changes nothing: a task that blocks its worker never blocks a shared driver.
    ///
    /// In tokio this makes a worker wake another one to take over the driver that all workers
    /// share. In wakeful each worker has its own driver, and other workers poll the driver of a
    /// worker that is busy.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Builder;
    ///
    /// let runtime = Builder::new_multi_thread().enable_eager_driver_handoff().build()?;
    /// # drop(runtime);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn enable_eager_driver_handoff(&mut self) -> &mut Self {
        self
    }

    /// Changes nothing: the blocking pool has one queue.
    ///
    /// In tokio this shards the pool's queue to reduce lock contention. In wakeful a queued closure
    /// wakes at most one thread, and a thread that finishes a closure takes the next one without a
    /// wake-up. The lock is therefore rarely contended, and held only briefly.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Builder;
    ///
    /// let runtime = Builder::new_multi_thread().enable_sharded_blocking_queue().build()?;
    /// # drop(runtime);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn enable_sharded_blocking_queue(&mut self) -> &mut Self {
        self
    }

    /// Enables I/O, as [`enable_io`](Self::enable_io) does.
    ///
    /// In tokio this makes file operations use io_uring. In wakeful they use it wherever the kernel
    /// supports it, unless [`file_backend`](Self::file_backend) says otherwise.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Builder;
    ///
    /// let runtime = Builder::new_multi_thread().enable_io_uring().build()?;
    /// # drop(runtime);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn enable_io_uring(&mut self) -> &mut Self {
        self.enable_io()
    }
}
