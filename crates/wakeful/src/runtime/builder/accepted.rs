//! Settings of tokio that choose an implementation: wakeful has only one, which needs no choice.

use super::Builder;

/// Settings that programs for tokio may make, and that change little or nothing.
impl Builder {
    /// Enables timers, of which those that wait elapse when the runtime shuts down.
    ///
    /// In tokio it chooses timers that each worker has for itself, with this effect. Here each worker
    /// always has its own. A timer of [`enable_time`](Self::enable_time) panics if it is polled after
    /// its runtime has shut down.
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

    /// Changes nothing: a task that blocks its worker never blocks a driver that others wait for.
    ///
    /// In tokio it makes a worker wake another one for the driver that all of them share. Here each
    /// worker has its own driver, and other workers poll that of a worker which does not.
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
    /// In tokio it divides the queue of the blocking pool, so that fewer threads wait for its lock.
    /// Here a queued closure wakes at most one thread, and a thread that ends a closure takes the
    /// next one without a wake-up. So few threads hold the lock, each for a short time.
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
    /// In tokio it makes file operations use io_uring. Here they use it wherever the kernel has it,
    /// unless [`file_backend`](Self::file_backend) says otherwise.
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
