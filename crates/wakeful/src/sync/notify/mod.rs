//! A notification that wakes one waiting task, or all of them.
//!
//! Actors: *waiters* are [`Notified`] futures (`notified.rs`); *notifiers* call `notify_one`,
//! `notify_last` or `notify_waiters`.
//!
//! One word is the state. Its lower bits say whether a permit is stored, or a task waits. The bits
//! above count the calls of `notify_waiters`. A waiter remembers that count from its creation. Once
//! the counts differ, the waiter is notified, whether it was polled or not.
//!
//! ```text
//! diagram
//!              notify_one, notify_last             enqueue
//!   NOTIFIED ◄───────────────────────── EMPTY ─────────────► WAITING
//!       │          try_consume             ▲                    │
//!       └──────────────────────────────────┴────────────────────┘
//!                                 notify_locked, remove, notify_waiters: no waiter left
//! ```
//!
//! Rules:
//! - NOTIFY-1. The word says WAITING exactly while a *current* waiter is in the list: one whose
//!   count is the word's. Current waiters are behind all others, because the count only grows.
//! - NOTIFY-2. While the word says WAITING, only the holder of the list's lock changes it, by a
//!   plain store. Otherwise any thread may, by a compare-exchange.
//! - NOTIFY-3. The other waiters in the list were notified by a `notify_waiters` call that is still
//!   waking them, batch by batch. `notify_locked` skips them.
//!
//! The race to fear: a notifier finds no waiter and stores a permit, while a waiter finds no permit
//! and enqueues itself. It cannot happen: both confirm what they read by a compare-exchange of the
//! same word (NOTIFY-2), and one of them fails.
//!
//! Orderings: a notifier changes the word with Release, even if a permit is stored already. A
//! waiter that consumes the permit or reads the count does so with Acquire, so it sees everything
//! that earlier notifiers did. For a waiter in the list, the grant carries the ordering
//! (`wait::list`).

use crate::sys::sync::atomic::{AtomicUsize, Ordering::*};
use crate::sys::sync::const_unless_model;
use crate::task::context;
use crate::task::wait_target::TargetWord;
use crate::wait::list::{Grant, Locked, Waiter, WaiterState, Waiters};
use crate::wait::ownership::resource_record::RecordCell;
use crate::wait::ownership::stall_note::Stall;
use crate::wait::wake_batch::{PanicSink, PendingWake};
use std::fmt;
use std::panic::{Location, RefUnwindSafe, UnwindSafe};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Waker;

mod notified;

pub use notified::{Notified, OwnedNotified};

/// No permit is stored, and no task waits.
const EMPTY: usize = 0;
/// A task waits.
const WAITING: usize = 1;
/// A permit is stored.
const NOTIFIED: usize = 2;
/// The mask of the three states above.
const STATE: usize = 3;
/// One call of `notify_waiters`, in the count.
const CALL: usize = 4;

/// Returns the count of `notify_waiters` calls, as a multiple of [`CALL`].
#[inline]
fn calls(word: usize) -> usize {
    word & !STATE
}

#[inline]
fn state(word: usize) -> usize {
    word & STATE
}

/// Wakes tasks without sending them data.
///
/// A task waits by [`notified().await`](Self::notified). Another task calls
/// [`notify_one`](Self::notify_one) to wake the task that waits longest, or
/// [`notify_waiters`](Self::notify_waiters) to wake all. If no task waits, `notify_one` stores a
/// permit, and the next `notified().await` completes at once. At most one permit is stored.
///
/// Keep the data beside the `Notify`. The notifying task changes the data first and notifies
/// afterwards. The notified task reads the data after it was woken.
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
    /// See the rules in the module documentation.
    word: AtomicUsize,
    /// A waiter's entry has the count of calls at its creation.
    waiters: Waiters<(), usize>,
    /// A notification has reached a waiter. For diagnostics, and not part of the protocol, so it is
    /// std's atomic in models too.
    has_reached: std::sync::atomic::AtomicBool,
    /// For diagnostics. The list has none, so waits are not linked to it.
    record: RecordCell,
}

/// The waiter that gets a notification for one task.
#[derive(Clone, Copy)]
enum Which {
    First,
    Last,
}

/// The result of `notify_locked`.
#[must_use]
enum NotifyOutcome {
    /// A waiter was granted the notification. The caller wakes it.
    Granted(PendingWake),
    /// No task waits: the notification is stored as the permit.
    Stored,
    /// Waiters that `notify_waiters` has yet to wake are in front (NOTIFY-3). The caller wakes
    /// them, and tries again.
    Blocked,
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
    /// If a permit is stored, the future consumes it and completes at once. Otherwise the future
    /// enqueues itself when it is first polled, or by [`enable`](Notified::enable). `notify_one`
    /// can reach it only after that. `notify_waiters` reaches it from the time this function
    /// returns.
    ///
    /// # Fairness
    ///
    /// `notify_one` wakes tasks in the order in which they began to wait.
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
    /// It behaves like [`notified`](Self::notified), and borrows nothing, so it can be spawned or
    /// stored.
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

    /// Notifies the task that waits longest.
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
    /// // One permit is stored, so this completes at once.
    /// notify.notified().await;
    /// # }
    /// ```
    #[inline]
    pub fn notify_one(&self) {
        self.notify(Which::First);
    }

    /// Notifies the task that began to wait last.
    ///
    /// If no task waits, a permit is stored, as by [`notify_one`](Self::notify_one). Use it where
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
    /// It stores no permit: a [`notified`](Self::notified) that is created afterwards waits for the
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

    /// Counts a call, which notifies all waiters in the list (NOTIFY-3). The caller holds the
    /// list's lock.
    fn count_call(&self) {
        let mut word = self.word.load(Relaxed);
        loop {
            if state(word) == WAITING {
                self.mark_reached();
                // NOTIFY-2.
                return self.word.store(calls(word).wrapping_add(CALL) | EMPTY, Release);
            }
            match self.word.compare_exchange(word, word.wrapping_add(CALL), AcqRel, Relaxed) {
                Ok(_) => return,
                Err(now) => word = now,
            }
        }
    }

    /// Wakes the waiters that a `notify_waiters` call has notified.
    fn wake_notified(&self) {
        // A stale word is good enough. If it says WAITING it is not stale (NOTIFY-2). Otherwise no
        // waiter in the list is current, and none becomes current (NOTIFY-1).
        self.waiters.grant_while(Grant::All, |(), &created_at| {
            created_at != calls(self.word.load(Relaxed))
        });
    }

    #[inline]
    fn notify(&self, which: Which) {
        let mut word = self.word.load(Relaxed);
        while state(word) != WAITING {
            // Also if a permit is stored: its consumer has to see what this thread did before.
            match self.word.compare_exchange(word, calls(word) | NOTIFIED, AcqRel, Relaxed) {
                Ok(_) => return,
                Err(now) => word = now,
            }
        }
        self.notify_waiting(which);
    }

    fn notify_waiting(&self, which: Which) {
        let mut panics = PanicSink::default();
        loop {
            match self.waiters.with(|list| self.notify_locked(list, which)) {
                NotifyOutcome::Granted(wake) => break wake.wake(),
                NotifyOutcome::Stored => break,
                NotifyOutcome::Blocked => {
                    // A panic of their wakers must not lose this notification.
                    panics.catch(|| self.wake_notified());
                }
            }
        }
        panics.resume();
    }

    /// Grants a notification to a waiter, or stores it. The caller holds the list's lock.
    fn notify_locked(&self, list: &mut Locked<'_, (), usize>, which: Which) -> NotifyOutcome {
        let mut word = self.word.load(Acquire);
        while state(word) != WAITING {
            match self.word.compare_exchange(word, calls(word) | NOTIFIED, AcqRel, Acquire) {
                Ok(_) => return NotifyOutcome::Stored,
                Err(now) => word = now,
            }
        }
        let wake = match which {
            Which::First if list.front().is_some_and(|created_at| *created_at != calls(word)) => {
                return NotifyOutcome::Blocked;
            }
            Which::First => list.pop_front(Grant::One),
            // NOTIFY-1: the last waiter is current, because a current one exists.
            Which::Last => list.pop_back(Grant::Last),
        };
        self.update_waiting(list, word);
        self.mark_reached();
        NotifyOutcome::Granted(wake.expect("NOTIFY-1: a task waits"))
    }

    /// Keeps NOTIFY-1 true after a waiter has left the list. The caller holds the list's lock.
    fn update_waiting(&self, list: &Locked<'_, (), usize>, word: usize) {
        let waiting = list.back().is_some_and(|created_at| *created_at == calls(word));
        if !waiting && state(word) == WAITING {
            // NOTIFY-2.
            self.word.store(calls(word) | EMPTY, Release);
        }
    }

    /// Returns true if a waiter created at count `created_at` is notified without waiting.
    ///
    /// That is the case if `notify_waiters` was called since, or if a permit is stored, which is
    /// consumed.
    #[inline]
    fn try_consume(&self, created_at: usize) -> bool {
        let mut word = self.word.load(Acquire);
        loop {
            if calls(word) != created_at {
                self.has_reached.store(true, Relaxed);
                return true;
            }
            if state(word) != NOTIFIED {
                return false;
            }
            match self.word.compare_exchange(word, calls(word) | EMPTY, AcqRel, Acquire) {
                Ok(_) => {
                    self.has_reached.store(true, Relaxed);
                    return true;
                }
                Err(now) => word = now,
            }
        }
    }

    /// Notes that a notification has reached a waiter, or that a waiter has given up. The caller holds the
    /// list's lock.
    fn mark_reached(&self) {
        self.has_reached.store(true, Relaxed);
        if let Some(record) = self.record.get() {
            record.stall.clear();
        }
    }

    /// Adds a waiter to the list, unless it is notified meanwhile. Then it returns the waker.
    fn enqueue(
        &self,
        waiter: Pin<&Waiter<usize>>,
        created_at: usize,
        waker: Option<Waker>,
    ) -> Result<(), Option<Waker>> {
        self.waiters.with(|list| {
            loop {
                if self.try_consume(created_at) {
                    // The caller drops the waker after the list's lock is released.
                    return Err(waker);
                }
                let word = created_at | EMPTY;
                match self.word.compare_exchange(word, created_at | WAITING, AcqRel, Acquire) {
                    Ok(_) => break,
                    // NOTIFY-2: it stays WAITING.
                    Err(now) if now == created_at | WAITING => break,
                    Err(_) => {}
                }
            }
            if created_at == CALL {
                self.note_earlier_call();
            }
            list.push_back(waiter, created_at, waker);
            Ok(())
        })
    }

    /// Notes that `notify_waiters` was called once before a waiter was created, unless a notification has
    /// reached a waiter. The caller holds the list's lock.
    ///
    /// A program that calls it more often announces each change, whether tasks wait or not.
    #[cold]
    fn note_earlier_call(&self) {
        if !self.has_reached.load(Relaxed) {
            self.record.obtain().stall.set(Stall { task: 0, count: 1, of: 0, made_at: None });
        }
    }

    /// Returns the target of a wait that began at this count of calls.
    #[inline]
    fn target(&self, created_at: usize, waker: &Waker) -> TargetWord {
        match created_at {
            CALL if context::is_own_waker(waker) => self.record.target(self),
            _ => TargetWord::of_address(self),
        }
    }

    /// Removes a waiter from the list if it is in there. Returns its state before.
    fn remove(&self, waiter: Pin<&Waiter<usize>>) -> WaiterState {
        let (waiter_state, unneeded) = self.waiters.with(|list| {
            let waiter_state = waiter.state();
            if waiter_state != WaiterState::Waiting {
                return (waiter_state, PendingWake::NONE);
            }
            let unneeded = list.remove(waiter);
            // The wait record of the task may still name the resource.
            self.mark_reached();
            self.update_waiting(list, self.word.load(Relaxed));
            (waiter_state, unneeded)
        });
        // Dropped after the list's lock is released, and not woken.
        drop(unneeded);
        waiter_state
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
