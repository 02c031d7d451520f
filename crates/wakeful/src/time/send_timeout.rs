//! Sending to a channel for so long and no longer. It lives here because `sync`
//! knows nothing of time.

use super::{Duration, timeout};
use crate::sync::mpsc::Sender;
use crate::sync::mpsc::error::SendTimeoutError;

impl<T> Sender<T> {
    /// Sends a message, waiting for room for at most `timeout`.
    ///
    /// The time counts from the first poll.
    ///
    /// # Errors
    ///
    /// If there was no room in time, or the receiver was closed or dropped; the
    /// message comes back.
    ///
    /// # Cancel safety
    ///
    /// As [`send`](Self::send): dropped before it is ready, the message was not
    /// sent and is dropped with it.
    ///
    /// # Panics
    ///
    /// When it is polled outside of a runtime, or on one without timers (see
    /// [`enable_time`](crate::runtime::Builder::enable_time)).
    #[track_caller]
    pub fn send_timeout(
        &self,
        value: T,
        timeout: Duration,
    ) -> impl Future<Output = Result<(), SendTimeoutError<T>>> {
        // Made here, where the caller is known.
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
