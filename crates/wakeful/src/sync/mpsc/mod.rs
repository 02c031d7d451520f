//! A channel with many senders and one receiver.
//!
//! [`channel`] creates a bounded channel: a sender waits while it is full, so a slow receiver slows
//! its senders down (back-pressure). [`unbounded_channel`] has no limit: sending never waits, and
//! works outside of tasks too.
//!
//! Each message is received once, and messages are received in the order in which they were sent.
//! Everything that a task does before it sends a message happens before everything that the receiver
//! does after it got the message.
//!
//! # Disconnection
//!
//! After the last sender was dropped, the receiver gets the remaining messages and then `None`.
//! After the receiver was dropped, the remaining messages are dropped, and sending fails. For a
//! shutdown that loses no message, the receiver calls `close` and receives until it gets `None`:
//!
//! ```
//! use wakeful::sync::mpsc;
//!
//! # #[wakeful::main(flavor = "current_thread")]
//! # async fn main() {
//! let (tx, mut rx) = mpsc::channel(8);
//! tx.send("first").await.unwrap();
//! tx.send("second").await.unwrap();
//! rx.close();
//! assert!(tx.send("too late").await.is_err());
//! let mut received = Vec::new();
//! while let Some(message) = rx.recv().await {
//!     received.push(message);
//! }
//! assert_eq!(received, ["first", "second"]);
//! # }
//! ```
//!
//! # Tasks and threads
//!
//! The channels work on any executor. `blocking_send` and `blocking_recv` are for threads that
//! drive no tasks. In tasks of wakeful, sending and receiving spend cooperative budget (see
//! [`task::coop`](crate::task::coop)).
//!
//! # Memory
//!
//! Messages are stored in linked blocks of 32, which are allocated as needed and reused. A channel
//! starts with one block, regardless of its capacity.

// Modules: `tail` is the word that senders race for, and `block` stores the messages. `chan` is the
// state that both ends share, with the receiver's waker. `capacity` queues the senders that wait for
// a slot. `tx` and `rx` are the ends of both kinds of channels; `bounded`, `permit` and `unbounded`
// are their public types, `futures` the futures they return. `first_sender` detects a sender that is
// kept by mistake. Control enters by a sender's compare-exchange in `chan` and leaves through the
// receiver's waker. In a full channel it enters by a receiver's store of its position and leaves
// through `capacity`.

mod block;
mod bounded;
mod capacity;
mod chan;
pub mod error;
mod first_sender;
mod futures;
mod permit;
mod rx;
mod tail;
mod tx;
mod unbounded;

pub use bounded::{Receiver, Sender, WeakSender, channel};
pub use permit::{OwnedPermit, Permit, PermitIterator};
pub use unbounded::{UnboundedReceiver, UnboundedSender, WeakUnboundedSender, unbounded_channel};
