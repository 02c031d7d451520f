//! A channel in which every receiver gets every message.
//!
//! [`channel`] creates a [`Sender`] and a [`Receiver`]. Senders can be cloned;
//! [`Sender::subscribe`] creates further receivers. A message is stored once, and each receiver
//! gets a clone of it. A receiver gets the messages that are sent after its creation, in the order
//! in which they are sent.
//!
//! ```
//! use wakeful::sync::broadcast;
//!
//! # #[wakeful::main(flavor = "current_thread")]
//! # async fn main() {
//! let (sender, mut first) = broadcast::channel(16);
//! let mut second = sender.subscribe();
//! assert_eq!(sender.send("hello").unwrap(), 2);
//! assert_eq!(first.recv().await, Ok("hello"));
//! assert_eq!(second.recv().await, Ok("hello"));
//! # }
//! ```
//!
//! # Lagging receivers
//!
//! Sending never waits for receivers. The channel keeps the last messages, up to its capacity,
//! rounded up to a power of two. A further message overwrites the oldest. A receiver that has not
//! received the overwritten message gets [`Lagged`](error::RecvError::Lagged) with the number of
//! messages that it missed. Then it continues with the oldest message that is still there.
//!
//! A message is dropped as soon as all receivers have received it, or when it is overwritten. A
//! dropped receiver counts as having received everything.
//!
//! # Closing
//!
//! After the last [`Sender`] was dropped, receivers get the remaining messages and then
//! [`Closed`](error::RecvError::Closed). A [`WeakSender`] does not count. After the last receiver
//! was dropped, sending fails until a new receiver subscribes.
//!
//! # Memory ordering
//!
//! Everything that a task does before it sends a message happens before everything that a receiver
//! does after it got the message.

// `ring` stores the messages, and documents which thread may access them when. The tail is the
// position of the next message. It is under the lock of the receivers' wait list. A sender takes
// that lock and no other. A receiver that finds its message takes only the lock of that message's
// slot.

pub mod error;
mod receiver;
mod ring;
mod sender;

pub use receiver::Receiver;
pub use sender::{Sender, WeakSender};

use crate::sys::sync::Arc;
use crate::sys::sync::atomic::AtomicUsize;
use crate::wait::describe::senders_alive;
use crate::wait::list::{Grant, Waiters};
use crate::wait::wait_counter::{WaitCounter, Zero};
use ring::Ring;
use std::panic::Location;
use std::sync::atomic::Ordering::Relaxed;

/// The state that all senders and receivers share.
struct Shared<T> {
    ring: Ring<T>,
    /// The tail, and the receivers that wait for it to advance. A waiter's entry is the position it
    /// waits for, so the list is in the order of positions.
    tail: Waiters<Tail, u64>,
    /// Changed under the tail's lock, so that each count belongs to one position.
    receivers: WaitCounter<Zero>,
    senders: AtomicUsize,
    weak_senders: AtomicUsize,
    /// The location where the channel was created.
    created_at: &'static Location<'static>,
}

/// The end of the ring.
struct Tail {
    /// The position of the next message. Positions are never reused.
    position: u64,
    /// Whether all senders were dropped.
    is_closed: bool,
}

/// The largest number of receivers.
const MAX_RECEIVERS: u64 = (usize::MAX >> 2) as u64;

impl<T> Shared<T> {
    #[track_caller]
    fn new(capacity: usize) -> Self {
        Self {
            ring: Ring::new(capacity),
            tail: Waiters::new(Tail { position: 0, is_closed: false }),
            receivers: WaitCounter::new(0),
            senders: AtomicUsize::new(1),
            weak_senders: AtomicUsize::new(0),
            created_at: Location::caller(),
        }
    }

    /// Describes the channel in the report of a receiver that waits forever.
    fn describe(&self) -> String {
        let senders = self.senders.load(Relaxed);
        format!("channel created at {}, {}", self.created_at, senders_alive(senders))
    }

    fn position(&self) -> u64 {
        self.tail.with(|tail| tail.position)
    }

    /// Wakes the receivers whose message was sent, or all if the channel is closed.
    fn wake_receivers(&self) {
        self.tail.grant_while(Grant::All, |tail, &next| tail.is_closed || next != tail.position);
    }
}

/// Creates a channel that keeps up to `capacity` messages, rounded up to a power of two.
///
/// The memory for that number of messages is allocated up front.
///
/// # Panics
///
/// Panics if `capacity` is 0 or more than `usize::MAX / 2`.
///
/// # Examples
///
/// ```
/// use wakeful::sync::broadcast::{self, error::TryRecvError};
///
/// let (tx, mut rx) = broadcast::channel(2);
/// for number in 0..3 {
///     tx.send(number).unwrap();
/// }
/// assert_eq!(rx.try_recv(), Err(TryRecvError::Lagged(1)), "0 was overwritten");
/// assert_eq!(rx.try_recv(), Ok(1));
/// assert_eq!(rx.try_recv(), Ok(2));
/// ```
#[track_caller]
pub fn channel<T: Clone>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let sender = Sender::new(capacity);
    let receiver = sender.subscribe();
    (sender, receiver)
}

#[track_caller]
fn new_shared<T>(capacity: usize) -> Arc<Shared<T>> {
    assert!(capacity > 0, "broadcast channel capacity cannot be zero");
    assert!(capacity <= usize::MAX >> 1, "broadcast channel capacity exceeded `usize::MAX / 2`");
    Arc::new(Shared::new(capacity.next_power_of_two()))
}
