//! A channel in which every receiver gets every value.
//!
//! [`channel`] makes a [`Sender`] and a [`Receiver`]; more of the former come by
//! cloning, more of the latter from [`Sender::subscribe`]. A value is kept once,
//! and each receiver gets a clone of it. A receiver gets what was sent after it
//! was made, in the order in which it was sent.
//!
//! ```
//! use wakeful::sync::broadcast;
//!
//! # #[wakeful::main(flavor = "current_thread")]
//! # async fn main() {
//! let (sender, mut one) = broadcast::channel(16);
//! let mut two = sender.subscribe();
//! assert_eq!(sender.send("hello").unwrap(), 2);
//! assert_eq!(one.recv().await, Ok("hello"));
//! assert_eq!(two.recv().await, Ok("hello"));
//! # }
//! ```
//!
//! # Receivers that lag behind
//!
//! Sending never waits. The channel keeps as many values as its capacity says,
//! rounded up to a power of two; one more takes the place of the oldest. A
//! receiver that had not seen that one learns with
//! [`Lagged`](error::RecvError::Lagged) how many it has missed, and goes on with
//! the oldest that is still there.
//!
//! A value that all receivers have seen is dropped at once, and so is one that is
//! overwritten. A receiver that goes away has seen everything.
//!
//! # The end
//!
//! When the last [`Sender`] goes, receivers get what is still there and then
//! [`Closed`](error::RecvError::Closed). A [`WeakSender`] does not count. When
//! the last receiver goes, sending fails until somebody subscribes.
//!
//! # Memory ordering
//!
//! What a sender did before it sent a value is seen by whoever received it.
//!
//! # How it is built
//!
//! `ring` holds the values, and tells who may touch them when. Where the next
//! value goes stands in the tail, behind the lock of those who wait for it: a
//! sender takes that lock and no other, and a receiver that finds its value takes
//! only the lock of that value.

pub mod error;
mod receiver;
mod ring;
mod sender;

pub use receiver::Receiver;
pub use sender::{Sender, WeakSender};

use crate::sys::sync::Arc;
use crate::sys::sync::atomic::AtomicUsize;
use crate::wait::list::{Grant, Waiters};
use crate::wait::wait_counter::{WaitCounter, Zero};
use ring::Ring;

/// What all senders and receivers share.
struct Shared<T> {
    ring: Ring<T>,
    /// The tail, and the receivers that wait for it to move on. Each asks for
    /// the value at a position, so they stand in the order of their positions.
    tail: Waiters<Tail, u64>,
    /// Changed under the tail's lock, so that it belongs to a position.
    receivers: WaitCounter<Zero>,
    senders: AtomicUsize,
    weak_senders: AtomicUsize,
}

/// Where the values end.
struct Tail {
    /// That of the next value; positions are never used twice.
    position: u64,
    /// All senders are gone.
    is_closed: bool,
}

/// No more receivers than this.
const MAX_RECEIVERS: u64 = (usize::MAX >> 2) as u64;

impl<T> Shared<T> {
    fn new(capacity: usize) -> Self {
        Self {
            ring: Ring::new(capacity),
            tail: Waiters::new(Tail { position: 0, is_closed: false }),
            receivers: WaitCounter::new(0),
            senders: AtomicUsize::new(1),
            weak_senders: AtomicUsize::new(0),
        }
    }

    fn position(&self) -> u64 {
        self.tail.with(|tail| tail.position)
    }

    /// Wakes the receivers that have something to look at.
    fn call_receivers(&self) {
        self.tail.grant_while(Grant::All, |tail, &next| tail.is_closed || next != tail.position);
    }
}

/// A channel that keeps `capacity` values, rounded up to a power of two.
///
/// # Panics
///
/// If `capacity` is 0 or above `usize::MAX / 2`. The memory for so many values
/// is taken at once.
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
