//! Channels from many senders to one receiver.
//!
//! [`channel`] has a limit: whoever sends into a full one waits, so a slow
//! receiver slows its senders down. [`unbounded_channel`] has none: sending never
//! waits, and works outside of tasks too.
//!
//! Messages arrive in the order in which they were sent, each once. What was done
//! before a message was sent is seen by who receives it.
//!
//! # The end
//!
//! When all senders are gone, the receiver gets what is left and then `None`. When
//! the receiver is dropped, what is left is dropped with it, and sending fails. A
//! receiver that wants to lose nothing calls `close` first and goes on until it
//! gets `None`.
//!
//! # Between threads and tasks
//!
//! Any executor will do, and none: `blocking_send` and `blocking_recv` are for
//! threads that run no tasks. In tasks of wakeful, sending and receiving spend
//! budget (see [`task::coop`](crate::task::coop)).
//!
//! # Memory
//!
//! Messages lie in blocks of 32 that are linked, taken as they are needed, and
//! used again. A channel starts with one block, whatever its capacity.

// What is where: `word` is what senders race for, `block` where messages lie,
// `chan` what both ends share and the receiver's waker, `room` who waits for a
// slot. `tx` and `rx` are the ends of both kinds of channels, `bounded`, `permit`
// and `unbounded` their faces, `futures` what one awaits. Control enters by a
// sender's exchange in `chan` and leaves through the receiver's waker; with a
// full channel it enters by a receiver's store and leaves through `room`.

mod block;
mod bounded;
mod capacity;
mod chan;
pub mod error;
mod futures;
mod permit;
mod rx;
mod tail;
mod tx;
mod unbounded;

pub use bounded::{Receiver, Sender, WeakSender, channel};
pub use permit::{OwnedPermit, Permit, PermitIterator};
pub use unbounded::{UnboundedReceiver, UnboundedSender, WeakUnboundedSender, unbounded_channel};
