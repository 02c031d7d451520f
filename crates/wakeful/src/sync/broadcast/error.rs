//! Error types of `broadcast` channels.

use std::fmt;

/// The error of `send`: there is no receiver. It contains the message.
#[derive(Debug)]
pub struct SendError<T>(pub T);

impl<T> fmt::Display for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("channel closed")
    }
}

impl<T: fmt::Debug> std::error::Error for SendError<T> {}

/// The error of [`recv`](super::Receiver::recv): there is no message.
#[derive(Debug, PartialEq, Eq, Clone)]
pub enum RecvError {
    /// All senders were dropped, and every message was received.
    Closed,
    /// The receiver was too slow: this number of messages was overwritten before it got them.
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

/// The error of [`try_recv`](super::Receiver::try_recv): there is no message.
#[derive(Debug, PartialEq, Eq, Clone)]
pub enum TryRecvError {
    /// No message was sent yet.
    Empty,
    /// All senders were dropped, and every message was received.
    Closed,
    /// The receiver was too slow: this number of messages was overwritten before it got them.
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
