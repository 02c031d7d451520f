//! Error types of `broadcast` channels.

use std::fmt;

/// Error returned by `send` when there is no receiver; contains the message.
///
/// # Examples
///
/// ```
/// use wakeful::sync::broadcast;
///
/// let (tx, rx) = broadcast::channel(4);
/// drop(rx);
/// assert_eq!(tx.send("hello").unwrap_err().0, "hello");
/// ```
#[derive(Debug)]
pub struct SendError<T>(pub T);

impl<T> fmt::Display for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("channel closed")
    }
}

impl<T: fmt::Debug> std::error::Error for SendError<T> {}

/// Error returned by [`recv`](super::Receiver::recv) when no message can be returned.
///
/// # Examples
///
/// ```
/// use wakeful::sync::broadcast::{self, error::RecvError};
///
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() {
/// let (tx, mut rx) = broadcast::channel(1);
/// tx.send(1).unwrap();
/// tx.send(2).unwrap();
/// assert_eq!(rx.recv().await, Err(RecvError::Lagged(1)));
/// assert_eq!(rx.recv().await, Ok(2));
/// drop(tx);
/// assert_eq!(rx.recv().await, Err(RecvError::Closed));
/// # }
/// ```
#[derive(Debug, PartialEq, Eq, Clone)]
pub enum RecvError {
    /// All senders were dropped, and every message was received.
    Closed,
    /// The receiver was too slow: this number of messages was overwritten before it received them.
    ///
    /// The next call returns the oldest message that is still there.
    Lagged(u64),
}

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecvError::Closed => f.write_str("channel closed"),
            RecvError::Lagged(missed) => write!(f, "channel lagged by {missed}"),
        }
    }
}

impl std::error::Error for RecvError {}

/// Error returned by [`try_recv`](super::Receiver::try_recv) when no message can be returned.
///
/// # Examples
///
/// ```
/// use wakeful::sync::broadcast::{self, error::TryRecvError};
///
/// let (tx, mut rx) = broadcast::channel::<u32>(1);
/// assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
/// drop(tx);
/// assert_eq!(rx.try_recv(), Err(TryRecvError::Closed));
/// ```
#[derive(Debug, PartialEq, Eq, Clone)]
pub enum TryRecvError {
    /// No message was sent yet.
    Empty,
    /// All senders were dropped, and every message was received.
    Closed,
    /// The receiver was too slow: this number of messages was overwritten before it received them.
    ///
    /// The next call returns the oldest message that is still there.
    Lagged(u64),
}

impl fmt::Display for TryRecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TryRecvError::Empty => f.write_str("channel empty"),
            TryRecvError::Closed => f.write_str("channel closed"),
            TryRecvError::Lagged(missed) => write!(f, "channel lagged by {missed}"),
        }
    }
}

impl std::error::Error for TryRecvError {}
