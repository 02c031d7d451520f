//! Cores of their own for the load generator and for the servers.

use std::thread;

use rustix::thread::{CpuSet, sched_setaffinity};

/// The last core is the generator's, the others are the servers'.
pub struct Pinning {
    cores: usize,
}

impl Pinning {
    /// Moves this thread to the last core.
    ///
    /// # Errors
    ///
    /// If there is only one core.
    pub fn new() -> Result<Self, String> {
        let cores = thread::available_parallelism().map_or(1, |cores| cores.get());
        if cores < 2 {
            return Err("--pin needs two cores".into());
        }
        let pinning = Self { cores };
        pinning.move_to(cores - 1..cores)?;
        Ok(pinning)
    }

    /// Moves this thread to the servers' cores, which a process that it starts inherits, until the guard is dropped.
    pub fn servers(&self) -> Result<OnServerCores<'_>, String> {
        self.move_to(0..self.cores - 1)?;
        Ok(OnServerCores(self))
    }

    fn move_to(&self, cores: std::ops::Range<usize>) -> Result<(), String> {
        let mut set = CpuSet::new();
        cores.for_each(|core| set.set(core));
        sched_setaffinity(None, &set).map_err(|error| format!("--pin: {error}"))
    }
}

/// This thread is on the servers' cores until this is dropped.
pub struct OnServerCores<'a>(&'a Pinning);

impl Drop for OnServerCores<'_> {
    fn drop(&mut self) {
        // The same call has worked before.
        let _ = self.0.move_to(self.0.cores - 1..self.0.cores);
    }
}
