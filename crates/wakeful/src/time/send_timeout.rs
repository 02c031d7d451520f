//! `mpsc::Sender::send_timeout`, which is here because `sync` does not depend on `time`.

use super::{Duration, timeout};
use crate::sync::mpsc::Sender;
use crate::sync::mpsc::error::SendTimeoutError;

impl<T> Sender<T> {
    /// Sends a message, waiting for capacity for at most `timeout`.
    ///
    /// The time counts from the first poll of the returned future.
    ///
    /// # Errors
    ///
    /// Returns [`SendTimeoutError::Timeout`] if the channel had no capacity in time, and
    /// [`SendTimeoutError::Closed`] if the receiver was closed or dropped. Both contain the
    /// message.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before it completes, the message was not sent and is dropped.
    ///
    /// # Panics
    ///
    /// The future panics if polled outside of a runtime with timers enabled; see
    /// [`enable_time`](crate::runtime::Builder::enable_time).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use wakeful::sync::mpsc;
    /// use wakeful::time::Duration;
    ///
    /// let (sender, mut receiver) = mpsc::channel(1);
    /// sender.send_timeout("first", Duration::from_millis(10)).await.unwrap();
    /// // The channel is full, and no task receives.
    /// assert!(sender.send_timeout("second", Duration::from_millis(10)).await.is_err());
    /// assert_eq!(receiver.recv().await, Some("first"));
    /// # }
    /// ```
    #[track_caller]
    pub fn send_timeout(
        &self,
        value: T,
        timeout: Duration,
    ) -> impl Future<Output = Result<(), SendTimeoutError<T>>> {
        // Created outside of the `async` block, so that `#[track_caller]` sees the caller.
        let reserve = self.reserve();
        async move {
            match self::timeout(timeout, reserve).await {
                Ok(Ok(permit)) => {
                    permit.send(value);
                    Ok(())
                }
                Ok(Err(_)) => Err(SendTimeoutError::Closed(value)),
                Err(_) => Err(SendTimeoutError::Timeout(value)),
            }
        }
    }
}
