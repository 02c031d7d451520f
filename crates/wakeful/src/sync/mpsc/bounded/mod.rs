//! The bounded channel.

mod receiver;
mod sender;
mod weak_sender;

pub use receiver::Receiver;
pub use sender::Sender;
pub use weak_sender::WeakSender;

use super::chan::Chan;
use super::rx::Rx;
use super::tx::Tx;
use crate::sync::Semaphore;

/// The largest capacity of a channel.
const MAX_CAPACITY: usize = Semaphore::MAX_PERMITS;

/// Creates a bounded channel, which holds up to `buffer` messages.
///
/// A sender waits while the channel is full. Memory is allocated as messages arrive, not up front
/// for `buffer` messages.
///
/// # Panics
///
/// Panics if `buffer` is 0, or more than [`Semaphore::MAX_PERMITS`].
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() {
/// use wakeful::sync::mpsc;
///
/// let (tx, mut rx) = mpsc::channel(2);
/// wakeful::spawn(async move {
///     for number in 0..5 {
///         tx.send(number).await.unwrap();
///     }
/// });
/// let mut sum = 0;
/// while let Some(number) = rx.recv().await {
///     sum += number;
/// }
/// assert_eq!(sum, 10);
/// # }
/// ```
#[track_caller]
pub fn channel<T>(buffer: usize) -> (Sender<T>, Receiver<T>) {
    assert!(buffer > 0, "mpsc bounded channel requires buffer > 0");
    assert!(
        buffer <= MAX_CAPACITY,
        "a semaphore may not have more than MAX_PERMITS permits ({MAX_CAPACITY})"
    );
    let (chan, reader) = Chan::new(buffer as u64);
    (Sender::new(Tx::first(chan.clone())), Receiver::new(Rx::new(chan, reader)))
}
