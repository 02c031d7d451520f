//! The unbounded channel.

mod receiver;
mod sender;

pub use receiver::UnboundedReceiver;
pub use sender::{UnboundedSender, WeakUnboundedSender};

use super::chan::{Chan, UNBOUNDED};
use super::rx::Rx;
use super::tx::Tx;

/// Creates an unbounded channel, in which sending never waits.
///
/// If the receiver is slower than the senders, messages accumulate in memory. Prefer
/// [`channel`](super::channel), unless the number of messages is limited by other means.
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() {
/// let (tx, mut rx) = wakeful::sync::mpsc::unbounded_channel();
/// tx.send("hello").unwrap();
/// drop(tx);
/// assert_eq!(rx.recv().await, Some("hello"));
/// assert_eq!(rx.recv().await, None);
/// # }
/// ```
#[track_caller]
pub fn unbounded_channel<T>() -> (UnboundedSender<T>, UnboundedReceiver<T>) {
    let (chan, reader) = Chan::new(UNBOUNDED);
    (UnboundedSender::new(Tx::first(chan.clone())), UnboundedReceiver::new(Rx::new(chan, reader)))
}
