//! A channel that keeps only the latest value: senders change it, receivers observe it.
//!
//! [`channel`] creates a [`Sender`] and a [`Receiver`] with an initial value. Both can be cloned.
//! Older values are not kept. Every receiver remembers the last value that it has *seen*:
//!
//! - [`borrow`](Receiver::borrow) gives access to the value.
//!   [`borrow_and_update`](Receiver::borrow_and_update) also marks it as seen. In a loop with
//!   `changed`, use the latter: with the former, a value that is sent between the two calls is
//!   handled twice.
//! - [`changed`](Receiver::changed) waits until there is a value that was not seen, and marks it as
//!   seen. It fails once all senders were dropped and the last value was seen.
//! - [`has_changed`](Receiver::has_changed) returns immediately and marks nothing. It fails as soon
//!   as all senders were dropped.
//!
//! The value that exists when a receiver is created counts as seen.
//!
//! ```
//! use wakeful::sync::watch;
//!
//! # #[wakeful::main(flavor = "current_thread")]
//! # async fn main() {
//! let (sender, mut receiver) = watch::channel("night");
//! let watcher = wakeful::spawn(async move {
//!     let mut seen = vec![*receiver.borrow_and_update()];
//!     while receiver.changed().await.is_ok() {
//!         seen.push(*receiver.borrow_and_update());
//!     }
//!     seen
//! });
//! # wakeful::task::yield_now().await;
//! sender.send("day").unwrap();
//! drop(sender);
//! assert_eq!(watcher.await.unwrap(), ["night", "day"]);
//! # }
//! ```
//!
//! # Memory ordering
//!
//! Everything that a task does before it sends a value happens before everything that a receiver
//! does after it has seen that value.

// The value is behind a reader-writer lock, and identified by a version number. The version changes
// under that lock, so a thread that reads the value knows its version. Tasks wait for the version
// alone, never for the lock. Receivers are counted separately; `Sender::closed` waits until the
// count is zero.

pub mod error;
mod receiver;
mod sender;

pub use receiver::{Receiver, Ref};
pub use sender::Sender;

use crate::sys::sync::atomic::AtomicUsize;
use crate::sys::sync::{Arc, RwLock};
use crate::wait::describe::senders_alive;
use crate::wait::wait_counter::{NotEqual, WaitCounter, Zero};
use std::fmt;
use std::panic::Location;
use std::sync::atomic::Ordering::Relaxed;

/// The lowest bit of a version, set once all senders were dropped.
const CLOSED: u64 = 1;
/// The difference between consecutive versions.
const STEP: u64 = 2;

/// The state that all senders and receivers share.
struct Shared<T> {
    value: RwLock<T>,
    /// Advanced by senders under the write lock. The last sender sets CLOSED.
    version: WaitCounter<NotEqual>,
    receivers: WaitCounter<Zero>,
    senders: AtomicUsize,
    /// The location where the channel was created.
    created_at: &'static Location<'static>,
}

impl<T> Shared<T> {
    /// Returns the current version, and whether all senders were dropped.
    #[inline]
    fn load_version(&self) -> (u64, bool) {
        let number = self.version.get();
        (number & !CLOSED, number & CLOSED != 0)
    }

    /// Describes the channel in the report of a receiver that waits forever.
    fn describe(&self) -> String {
        let senders = self.senders.load(Relaxed);
        format!("channel created at {}, {}", self.created_at, senders_alive(senders))
    }
}

impl<T: fmt::Debug> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (version, is_closed) = self.load_version();
        f.debug_struct("Shared")
            .field("value", &self.value)
            .field("version", &(version / STEP))
            .field("is_closed", &is_closed)
            .field("receivers", &self.receivers.get())
            .finish_non_exhaustive()
    }
}

/// Creates a channel with an initial value, which counts as seen.
///
/// # Examples
///
/// ```
/// use wakeful::sync::watch;
///
/// let (tx, rx) = watch::channel(1);
/// tx.send(2).unwrap();
/// assert_eq!(*rx.borrow(), 2);
/// ```
#[track_caller]
pub fn channel<T>(init: T) -> (Sender<T>, Receiver<T>) {
    let shared = Arc::new(Shared {
        value: RwLock::new(init),
        version: WaitCounter::new(0),
        receivers: WaitCounter::new(0),
        senders: AtomicUsize::new(1),
        created_at: Location::caller(),
    });
    let receiver = Receiver::new(shared.clone(), 0);
    (Sender::from_shared(shared), receiver)
}
