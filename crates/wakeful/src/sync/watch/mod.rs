//! A value that one changes and many watch: the latest is kept, the others are
//! not.
//!
//! [`channel`] makes a [`Sender`] and a [`Receiver`], and takes the first value.
//! Either can be cloned. Every receiver remembers which value it has *seen*:
//!
//! - [`borrow`](Receiver::borrow) looks at the value,
//!   [`borrow_and_update`](Receiver::borrow_and_update) also marks it as seen.
//!   In a loop with `changed` take the latter: with the former, a value that
//!   comes between the two is looked at twice.
//! - [`changed`](Receiver::changed) waits until there is a value that was not
//!   seen, and marks it as seen. It fails once all senders are gone and the last
//!   value was seen.
//! - [`has_changed`](Receiver::has_changed) answers at once and marks nothing. It
//!   fails as soon as all senders are gone.
//!
//! What was there when a receiver was made counts as seen.
//!
//! ```
//! use wakeful::sync::watch;
//!
//! # #[wakeful::main(flavor = "current_thread")]
//! # async fn main() {
//! let (sender, mut receiver) = watch::channel("night");
//! let watching = wakeful::spawn(async move {
//!     let mut seen = vec![*receiver.borrow_and_update()];
//!     while receiver.changed().await.is_ok() {
//!         seen.push(*receiver.borrow_and_update());
//!     }
//!     seen
//! });
//! # wakeful::task::yield_now().await;
//! sender.send("day").unwrap();
//! drop(sender);
//! assert_eq!(watching.await.unwrap(), ["night", "day"]);
//! # }
//! ```
//!
//! # How it is built
//!
//! The value lies under a lock that many can read under. Which value it is says
//! a version, which moves on under that lock, so that whoever reads the value
//! knows its version; waiting is done on the version alone, never on the lock. The
//! number of receivers is a word of its own, on which senders wait for it to be
//! zero.
//!
//! # Memory ordering
//!
//! What a sender did before it sent is seen by whoever has seen that value.

pub mod error;
mod receiver;
mod sender;

pub use receiver::{Receiver, Ref};
pub use sender::Sender;

use crate::sys::sync::atomic::AtomicUsize;
use crate::sys::sync::{Arc, RwLock};
use crate::wait::wait_counter::{NotEqual, WaitCounter, Zero};
use std::fmt;

/// The lowest bit of a version: all senders are gone.
const CLOSED: u64 = 1;
/// From one version to the next.
const STEP: u64 = 2;

/// What all senders and receivers share.
struct Shared<T> {
    value: RwLock<T>,
    /// Moved on by senders, under the write lock; with CLOSED by the last of
    /// them.
    version: WaitCounter<NotEqual>,
    receivers: WaitCounter<Zero>,
    senders: AtomicUsize,
}

impl<T> Shared<T> {
    /// The current version, and whether all senders are gone.
    #[inline]
    fn look(&self) -> (u64, bool) {
        let number = self.version.get();
        (number & !CLOSED, number & CLOSED != 0)
    }
}

impl<T: fmt::Debug> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (version, is_closed) = self.look();
        f.debug_struct("Shared")
            .field("value", &self.value)
            .field("version", &(version / STEP))
            .field("is_closed", &is_closed)
            .field("receivers", &self.receivers.get())
            .finish_non_exhaustive()
    }
}

/// A channel whose first value is `init`, which counts as seen.
pub fn channel<T>(init: T) -> (Sender<T>, Receiver<T>) {
    let shared = Arc::new(Shared {
        value: RwLock::new(init),
        version: WaitCounter::new(0),
        receivers: WaitCounter::new(0),
        senders: AtomicUsize::new(1),
    });
    let receiver = Receiver::new(shared.clone(), 0);
    (Sender::from_shared(shared), receiver)
}
