//! [`Notify`]: a notification that wakes one waiting task, or all of them.
//!
//! - [`Notified`] and [`OwnedNotified`] (`notified.rs`) are the futures that wait.
//! - `protocol.rs` documents the state word, and how waiters and notifiers change it.

use crate::sys::sync::atomic::{AtomicUsize, Ordering::*};
use crate::sys::sync::const_unless_model;
use crate::wait::list::Waiters;
use crate::wait::ownership::resource_record::RecordCell;
use protocol::{CALL, EMPTY, NOTIFIED, WAITING, Which, state};
use std::fmt;
use std::panic::{Location, RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

mod notified;
mod protocol;

pub use notified::{Notified, OwnedNotified};

/// Notifies one or all waiting tasks of an event, without sending data.
///
/// A task waits with [`notified().await`](Self::notified). Another task calls
/// [`notify_one`](Self::notify_one) to wake the longest-waiting task, or
/// [`notify_waiters`](Self::notify_waiters) to wake all. If no task waits, `notify_one` stores a
/// permit, and the next `notified().await` completes immediately. At most one permit is stored.
///
/// A `Notify` carries no data. The notifying task first changes data that both tasks share, and
/// then notifies. The notified task reads the data after it wakes.
///
/// # Memory ordering
///
/// Everything that a task does before it notifies happens before everything that the notified task
/// does afterwards.
///
/// # Examples
///
/// A delay that another task can cut short:
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use wakeful::sync::Notify;
///
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() {
/// let hurry = Arc::new(Notify::new());
/// let delay = wakeful::spawn({
///     let hurry = hurry.clone();
///     async move {
///         let minute = Duration::from_secs(60);
///         wakeful::time::timeout(minute, hurry.notified()).await.is_ok()
///     }
/// });
/// hurry.notify_one();
/// assert!(delay.await.unwrap(), "it did not take a minute");
/// # }
/// ```
pub struct Notify {
    /// See the rules in `protocol`.
    word: AtomicUsize,
    /// Each entry holds the call count at the creation of its waiter.
    waiters: Waiters<(), usize>,
    /// Whether a notification has ever reached a waiter. Only for diagnostics, not part of the
    /// protocol, so models use std's atomic, too.
    has_reached: std::sync::atomic::AtomicBool,
    /// For diagnostics. Kept apart from the list, so waits are not linked to the record.
    record: RecordCell,
}

impl Notify {
    const_unless_model! {
        /// Creates a `Notify` without a permit in a constant expression, for example for a
        /// `static`.
        ///
        /// # Examples
        ///
        /// ```
        /// use wakeful::sync::Notify;
        ///
        /// static SHUTDOWN: Notify = Notify::const_new();
        ///
        /// # #[wakeful::main(flavor = "current_thread")]
        /// # async fn main() {
        /// SHUTDOWN.notify_one();
        /// SHUTDOWN.notified().await;
        /// # }
        /// ```
        pub fn const_new() -> Notify {
            Notify {
                word: AtomicUsize::new(EMPTY),
                waiters: Waiters::new(()),
                has_reached: std::sync::atomic::AtomicBool::new(false),
                record: RecordCell::none(),
            }
        }
    }

    /// Creates a `Notify` without a permit.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::Notify;
    ///
    /// let notify = Notify::new();
    /// # drop(notify);
    /// ```
    pub fn new() -> Notify {
        Notify::const_new()
    }

    /// Waits for a notification.
    ///
    /// If a permit is stored, the future consumes it and completes immediately. Otherwise the
    /// future enqueues itself when it is first polled, or by [`enable`](Notified::enable).
    /// `notify_one` can reach the future only after that. `notify_waiters` reaches it as soon as
    /// this function has returned.
    ///
    /// # Fairness
    ///
    /// `notify_one` wakes tasks in the order in which they began to wait (FIFO).
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe. A notification that was granted to the dropped future goes to
    /// the next waiter, or is stored as the permit. A new call waits at the end of the queue.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use wakeful::sync::Notify;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let notify = Arc::new(Notify::new());
    /// let waiter = wakeful::spawn({
    ///     let notify = notify.clone();
    ///     async move {
    ///         notify.notified().await;
    ///         "notified"
    ///     }
    /// });
    /// notify.notify_one();
    /// assert_eq!(waiter.await.unwrap(), "notified");
    /// # }
    /// ```
    #[track_caller]
    #[inline]
    pub fn notified(&self) -> Notified<'_> {
        Notified::new(self, Location::caller())
    }

    /// Waits for a notification; the future keeps the `Notify` alive.
    ///
    /// Behaves like [`notified`](Self::notified). The future borrows nothing, so it can be spawned
    /// or stored.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe. A notification that was granted to the dropped future goes to
    /// the next waiter, or is stored as the permit.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use wakeful::sync::Notify;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let notify = Arc::new(Notify::new());
    /// let task = wakeful::spawn(notify.clone().notified_owned());
    /// notify.notify_waiters();
    /// task.await.unwrap();
    /// # }
    /// ```
    #[track_caller]
    pub fn notified_owned(self: Arc<Self>) -> OwnedNotified {
        OwnedNotified::new(self, Location::caller())
    }

    /// Notifies the longest-waiting task.
    ///
    /// If no task waits, a permit is stored for the next [`notified`](Self::notified). At most one
    /// permit is stored: ten calls while no task waits let one task pass.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::Notify;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let notify = Notify::new();
    /// notify.notify_one();
    /// notify.notify_one();
    /// // One permit is stored, so this completes immediately.
    /// notify.notified().await;
    /// # }
    /// ```
    #[inline]
    pub fn notify_one(&self) {
        self.notify(Which::First);
    }

    /// Notifies the task that began to wait last.
    ///
    /// If no task waits, a permit is stored, as by [`notify_one`](Self::notify_one). Use this if
    /// the most recently active task should continue, for example because its data is still in the
    /// cache.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::Notify;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let notify = Notify::new();
    /// notify.notify_last();
    /// notify.notified().await;
    /// # }
    /// ```
    #[inline]
    pub fn notify_last(&self) {
        self.notify(Which::Last);
    }

    /// Notifies every [`Notified`] that exists, polled or not.
    ///
    /// Stores no permit: a [`notified`](Self::notified) future created afterwards waits for the
    /// next notification. A permit that is already stored stays.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::Notify;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let notify = Notify::new();
    /// let (first, second) = (notify.notified(), notify.notified());
    /// notify.notify_waiters();
    /// first.await;
    /// second.await;
    /// # }
    /// ```
    pub fn notify_waiters(&self) {
        let mut word = self.word.load(Relaxed);
        while state(word) != WAITING {
            match self.word.compare_exchange(word, word.wrapping_add(CALL), AcqRel, Relaxed) {
                Ok(_) => return,
                Err(now) => word = now,
            }
        }
        self.waiters.with(|_| self.count_call());
        self.wake_notified();
    }
}

impl Default for Notify {
    fn default() -> Notify {
        Notify::new()
    }
}

impl UnwindSafe for Notify {}
impl RefUnwindSafe for Notify {}

impl fmt::Debug for Notify {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = self.word.load(Relaxed);
        f.debug_struct("Notify")
            .field("permit", &(state(word) == NOTIFIED))
            .field("waiting", &(state(word) == WAITING))
            .finish()
    }
}
