//! Metrics of the blocking pool.

use super::RuntimeMetrics;

/// Metrics of the blocking pool.
impl RuntimeMetrics {
    /// Returns the number of threads in the blocking pool, including idle ones.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Handle;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// wakeful::task::spawn_blocking(|| ()).await.unwrap();
    /// assert_eq!(Handle::current().metrics().num_blocking_threads(), 1);
    /// # }
    /// ```
    pub fn num_blocking_threads(&self) -> usize {
        self.handle.shared.pool.threads()
    }

    /// Returns the number of idle threads in the blocking pool.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Handle;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// assert_eq!(Handle::current().metrics().num_idle_blocking_threads(), 0);
    /// # }
    /// ```
    pub fn num_idle_blocking_threads(&self) -> usize {
        let (_, idle, _) = self.handle.shared.pool.counts();
        idle
    }

    /// Returns the number of queued closures that wait for a thread of the blocking pool.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Handle;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// assert_eq!(Handle::current().metrics().blocking_queue_depth(), 0);
    /// # }
    /// ```
    pub fn blocking_queue_depth(&self) -> usize {
        let (_, _, queued) = self.handle.shared.pool.counts();
        queued
    }
}
