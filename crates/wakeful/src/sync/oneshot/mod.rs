//! A channel for one value: from one task to another.
//!
//! [`channel`] makes a [`Sender`] and a [`Receiver`]. The sender's
//! [`send`](Sender::send) never waits; the receiver is itself the future of the
//! value. Each end learns when the other goes away: the receiver gets an error,
//! the sender may ask with [`closed`](Sender::closed).
//!
//! ```
//! use wakeful::sync::oneshot;
//!
//! # #[wakeful::main(flavor = "current_thread")]
//! # async fn main() {
//! let (answer, question) = oneshot::channel();
//! wakeful::spawn(async move {
//!     answer.send(6 * 7).expect("somebody waits for it");
//! });
//! assert_eq!(question.await, Ok(42));
//! # }
//! ```
//!
//! The two ends share one small piece of memory; `shared` tells who may touch
//! what in it. What a sender did before `send` is seen by whoever received the
//! value.

mod receiver;
mod sender;
mod shared;

pub use receiver::Receiver;
pub use sender::Sender;

use std::panic::Location;

/// A channel for one value.
#[track_caller]
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let (sending, receiving) = shared::new();
    (Sender::new(sending), Receiver::new(receiving, Location::caller()))
}

pub mod error {
    //! What can go wrong with a oneshot channel.

    use std::fmt;

    /// The sender went away without sending.
    #[derive(Debug, Eq, PartialEq, Clone)]
    pub struct RecvError(pub(super) ());

    impl fmt::Display for RecvError {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("channel closed")
        }
    }

    impl std::error::Error for RecvError {}

    /// There was no value for [`try_recv`](super::Receiver::try_recv).
    #[derive(Debug, Eq, PartialEq, Clone)]
    pub enum TryRecvError {
        /// None was sent yet.
        Empty,
        /// None will come: the sender went away, the receiver is closed, or the
        /// value was received before.
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
