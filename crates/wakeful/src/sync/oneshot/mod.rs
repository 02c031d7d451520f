//! A channel for one message, from one sender to one receiver.
//!
//! [`channel`] creates a [`Sender`] and a [`Receiver`]. [`Sender::send`] never waits. The receiver
//! is itself the future of the message. Each end can observe that the other was dropped: the
//! receiver gets an error, and the sender can wait with [`closed`](Sender::closed). The common use
//! is a reply to a request:
//!
//! ```
//! use wakeful::sync::oneshot;
//!
//! # #[wakeful::main(flavor = "current_thread")]
//! # async fn main() {
//! let (reply, response) = oneshot::channel();
//! wakeful::spawn(async move {
//!     reply.send(6 * 7).expect("the receiver is alive");
//! });
//! assert_eq!(response.await, Ok(42));
//! # }
//! ```
//!
//! # Memory ordering
//!
//! Everything that a task does before [`send`](Sender::send) happens before everything that the
//! receiver does after it got the message.

// The two ends share one allocation; `shared` documents which end may access what in it.

mod receiver;
mod sender;
mod shared;

pub use receiver::Receiver;
pub use sender::Sender;

use std::panic::Location;

/// Creates a channel for one message.
///
/// # Examples
///
/// ```
/// use wakeful::sync::oneshot;
///
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() {
/// let (tx, rx) = oneshot::channel();
/// tx.send("hello").unwrap();
/// assert_eq!(rx.await, Ok("hello"));
/// # }
/// ```
#[track_caller]
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let (sender, receiver) = shared::new();
    (Sender::new(sender), Receiver::new(receiver, Location::caller()))
}

pub mod error {
    //! Error types of `oneshot` channels.

    use std::fmt;

    /// Error returned by an awaited [`Receiver`](super::Receiver) when the sender was dropped
    /// without sending.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::oneshot;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let (tx, rx) = oneshot::channel::<u32>();
    /// drop(tx);
    /// assert_eq!(rx.await.unwrap_err().to_string(), "channel closed");
    /// # }
    /// ```
    #[derive(Debug, Eq, PartialEq, Clone)]
    pub struct RecvError(pub(super) ());

    impl fmt::Display for RecvError {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("channel closed")
        }
    }

    impl std::error::Error for RecvError {}

    /// Error returned by [`try_recv`](super::Receiver::try_recv) when there is no message.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::oneshot::{self, error::TryRecvError};
    ///
    /// let (tx, mut rx) = oneshot::channel::<u32>();
    /// assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
    /// drop(tx);
    /// assert_eq!(rx.try_recv(), Err(TryRecvError::Closed));
    /// ```
    #[derive(Debug, Eq, PartialEq, Clone)]
    pub enum TryRecvError {
        /// The sender has not sent the message yet.
        Empty,
        /// No message will come: the sender was dropped, the receiver was closed, or the message
        /// was already received.
        Closed,
    }

    impl fmt::Display for TryRecvError {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(match self {
                TryRecvError::Empty => "channel empty",
                TryRecvError::Closed => "channel closed",
            })
        }
    }

    impl std::error::Error for TryRecvError {}
}
