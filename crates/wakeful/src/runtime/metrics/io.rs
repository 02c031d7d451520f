//! Metrics of the I/O driver.

use super::RuntimeMetrics;
use crate::driver::poller::PollerCounters;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Metrics of the I/O driver.
impl RuntimeMetrics {
    /// Returns the sum of a counter over all pollers.
    fn sum_of_pollers(&self, counter: fn(&PollerCounters) -> &AtomicU64) -> u64 {
        let pollers = self.handle.shared.existing_pollers();
        pollers.iter().map(|poller| counter(poller.counters()).load(Relaxed)).sum()
    }

    /// Returns how many descriptors have been registered for I/O.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::net::TcpListener;
    /// use wakeful::runtime::Handle;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let _listener = TcpListener::bind("127.0.0.1:0").await?;
    /// assert_eq!(Handle::current().metrics().io_driver_fd_registered_count(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn io_driver_fd_registered_count(&self) -> u64 {
        self.sum_of_pollers(|counters| &counters.registered)
    }

    /// Returns how many descriptors have been deregistered.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::net::TcpListener;
    /// use wakeful::runtime::Handle;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// drop(TcpListener::bind("127.0.0.1:0").await?);
    /// assert_eq!(Handle::current().metrics().io_driver_fd_deregistered_count(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn io_driver_fd_deregistered_count(&self) -> u64 {
        self.sum_of_pollers(|counters| &counters.deregistered)
    }

    /// Returns how many I/O events the kernel has reported.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Handle;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// println!("{}", Handle::current().metrics().io_driver_ready_count());
    /// # }
    /// ```
    pub fn io_driver_ready_count(&self) -> u64 {
        self.sum_of_pollers(|counters| &counters.events)
    }
}
