//! Error types of `watch` channels.

use std::error::Error;
use std::fmt;

/// Error returned by `send` when there is no receiver; contains the value.
///
/// # Examples
///
/// ```
/// use wakeful::sync::watch;
///
/// let (tx, rx) = watch::channel(1);
/// drop(rx);
/// assert_eq!(tx.send(2).unwrap_err().0, 2);
/// ```
#[derive(PartialEq, Eq, Clone, Copy)]
pub struct SendError<T>(pub T);

impl<T> fmt::Debug for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendError").finish_non_exhaustive()
    }
}

impl<T> fmt::Display for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("channel closed")
    }
}

impl<T> Error for SendError<T> {}

/// Error returned by a [`Receiver`](super::Receiver) when all senders were dropped.
///
/// # Examples
///
/// ```
/// use wakeful::sync::watch;
///
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() {
/// let (tx, mut rx) = watch::channel(1);
/// drop(tx);
/// assert_eq!(rx.changed().await.unwrap_err().to_string(), "channel closed");
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct RecvError(pub(super) ());

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("channel closed")
    }
}

impl Error for RecvError {}
