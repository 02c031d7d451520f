//! What can go wrong with a broadcast.

use std::fmt;

/// There is no receiver: the value comes back.
#[derive(Debug)]
pub struct SendError<T>(pub T);

impl<T> fmt::Display for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("channel closed")
    }
}

impl<T: fmt::Debug> std::error::Error for SendError<T> {}

/// There was no value for [`recv`](super::Receiver::recv).
#[derive(Debug, PartialEq, Eq, Clone)]
pub enum RecvError {
    /// None will come: all senders are gone.
    Closed,
    /// The receiver was too slow, and so many values were overwritten before it
    /// saw them. The next call gets the oldest that is still there.
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

/// There was no value for [`try_recv`](super::Receiver::try_recv).
#[derive(Debug, PartialEq, Eq, Clone)]
pub enum TryRecvError {
    /// There is none yet.
    Empty,
    /// None will come: all senders are gone.
    Closed,
    /// The receiver was too slow, and so many values were overwritten before it
    /// saw them. The next call gets the oldest that is still there.
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
