//! A notification for one task, or for all that wait.
//!
//! Actors: *waiters* are [`Notified`] futures (`notified.rs`); *callers* notify.
//!
//! One word says what there is: in its lower bits whether a permit is stored or
//! somebody waits, above them how often `notify_waiters` was called. A waiter
//! remembers that count from when it was made; once it differs, the waiter was
//! notified, whether it was polled or not.
//!
//! ```text
//! diagram
//!              notify_one, notify_last            queue_up
//!   NOTIFIED ◄───────────────────────── EMPTY ─────────────► WAITING
//!       │              take                ▲                    │
//!       └──────────────────────────────────┴────────────────────┘
//!                                 hand_over, leave, notify_waiters: nobody left
//! ```
//!
//! Rules:
//! - N1. The word says WAITING exactly while a waiter is in the list that is
//!   *current*: what it asks for, its count, is the word's. Current ones stand
//!   behind all others, for the count only grows.
//! - N2. While the word says WAITING, only the list's lock holder changes it, with
//!   a plain store. Otherwise anybody may, with an exchange.
//! - N3. The others in the list were notified by a `notify_waiters` that still
//!   wakes them, batch by batch; `hand_over` passes them by.
//!
//! The race one fears: a caller finds nobody and stores a permit, while a waiter
//! finds no permit and queues up. Both confirm what they saw by an exchange of
//! the same word (N2), and one of them fails.
//!
//! Orderings: a caller's change of the word is Release, also when a permit was
//! there already; whoever takes the permit or reads the count does so with
//! Acquire, and sees what all callers before did. Through the list it is the
//! answer that carries it (`wait::list`).

use crate::sys::sync::atomic::{AtomicUsize, Ordering::*};
use crate::sys::sync::const_unless_model;
use crate::wait::list::{Grant, Locked, Waiter, WaiterState, Waiters};
use crate::wait::wake_batch::PendingWake;
use std::fmt;
use std::panic::{self, AssertUnwindSafe, Location, RefUnwindSafe, UnwindSafe};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Waker;

mod notified;

pub use notified::{Notified, OwnedNotified};

/// No permit, and nobody waits.
const EMPTY: usize = 0;
/// Somebody waits.
const WAITING: usize = 1;
/// A permit is stored.
const NOTIFIED: usize = 2;
/// The bits of the three above.
const STATE: usize = 3;
/// One call of `notify_waiters`.
const CALL: usize = 4;

/// How often `notify_waiters` was called, as a multiple of [`CALL`].
#[inline]
fn calls(word: usize) -> usize {
    word & !STATE
}

#[inline]
fn state(word: usize) -> usize {
    word & STATE
}

/// Tells tasks that something happened, without saying what.
///
/// A task waits with [`notified().await`](Self::notified). Others call
/// [`notify_one`](Self::notify_one) to wake the one that waits longest, or
/// [`notify_waiters`](Self::notify_waiters) to wake all. If nobody waits,
/// `notify_one` stores a permit, and the next `notified().await` is ready at
/// once; there is never more than one permit.
///
/// A notification carries no data. What changed belongs beside it: change it,
/// then notify; be notified, then look.
///
/// # Memory ordering
///
/// What a task did before it notified is seen by whoever gets the notification.
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
    /// See the rules above.
    word: AtomicUsize,
    /// A waiter asks with the count it was made at.
    waiters: Waiters<(), usize>,
}

/// Which waiter gets a notification for one.
#[derive(Clone, Copy)]
enum Which {
    First,
    Last,
}

/// What became of a notification for one.
#[must_use]
enum Handed {
    /// A waiter has it, and is to be woken.
    To(PendingWake),
    /// Nobody waits: it is stored as the permit.
    Stored,
    /// In front of whom it is for stand some that `notify_waiters` has yet to
    /// wake (N3): help with that, and try again.
    Behind,
}

impl Notify {
    const_unless_model! {
        /// Nobody is notified yet.
        pub fn const_new() -> Notify {
            Notify { word: AtomicUsize::new(EMPTY), waiters: Waiters::new(()) }
        }
    }

    /// Nobody is notified yet.
    pub fn new() -> Notify {
        Notify::const_new()
    }

    /// Waits for a notification.
    ///
    /// Ready at once if a permit is stored, which it takes. Otherwise it queues
    /// up when it is first polled, or by [`enable`](Notified::enable); only then
    /// can `notify_one` reach it. `notify_waiters` reaches it from the moment
    /// this function returns.
    ///
    /// # Fairness
    ///
    /// First come, first served.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a notification that the dropped future was given goes to the
    /// next one that waits, or is stored. It loses its place in the queue.
    #[track_caller]
    #[inline]
    pub fn notified(&self) -> Notified<'_> {
        Notified::new(self, Location::caller())
    }

    /// As [`notified`](Self::notified), with a future that keeps the `Notify`
    /// alive and borrows nothing.
    ///
    /// # Cancel safety
    ///
    /// As for [`notified`](Self::notified).
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
    /// If none waits, a permit is stored for the next [`notified`](Self::notified).
    /// More than one is never stored: ten calls while nobody waits let one task
    /// pass.
    #[inline]
    pub fn notify_one(&self) {
        self.notify(Which::First);
    }

    /// Notifies the task that came last.
    ///
    /// If none waits, a permit is stored, as by [`notify_one`](Self::notify_one).
    #[inline]
    pub fn notify_last(&self) {
        self.notify(Which::Last);
    }

    /// Notifies every [`Notified`] that exists, polled or not.
    ///
    /// No permit is stored: a [`notified`](Self::notified) from here on waits for
    /// the next notification. A permit that is stored already stays.
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

    /// Under the lock: whoever is in the list is notified from here on (N3).
    fn count_call(&self) {
        let mut word = self.word.load(Relaxed);
        loop {
            if state(word) == WAITING {
                // N2.
                return self.word.store(calls(word).wrapping_add(CALL) | EMPTY, Release);
            }
            match self.word.compare_exchange(word, word.wrapping_add(CALL), AcqRel, Relaxed) {
                Ok(_) => return,
                Err(now) => word = now,
            }
        }
    }

    /// Wakes those that a `notify_waiters` notified.
    fn wake_notified(&self) {
        // An old word will do: if it says WAITING it is not old (N2), otherwise
        // nobody in the list is current, and nobody becomes so (N1).
        self.waiters
            .grant_while(Grant::All, |(), &made_at| made_at != calls(self.word.load(Relaxed)));
    }

    #[inline]
    fn notify(&self, which: Which) {
        let mut word = self.word.load(Relaxed);
        while state(word) != WAITING {
            // Also if there is a permit: its taker has to see what we did.
            match self.word.compare_exchange(word, calls(word) | NOTIFIED, AcqRel, Relaxed) {
                Ok(_) => return,
                Err(now) => word = now,
            }
        }
        self.notify_waiting(which);
    }

    fn notify_waiting(&self, which: Which) {
        let mut panicked = None;
        loop {
            match self.waiters.with(|list| self.hand_over(list, which)) {
                Handed::To(call) => break call.wake(),
                Handed::Stored => break,
                Handed::Behind => {
                    // What one of their wakers does must not cost ours.
                    let woken = panic::catch_unwind(AssertUnwindSafe(|| self.wake_notified()));
                    if let Err(payload) = woken {
                        std::mem::forget(panicked.replace(payload));
                    }
                }
            }
        }
        if let Some(payload) = panicked {
            panic::resume_unwind(payload);
        }
    }

    fn hand_over(&self, list: &mut Locked<'_, (), usize>, which: Which) -> Handed {
        let mut word = self.word.load(Acquire);
        while state(word) != WAITING {
            match self.word.compare_exchange(word, calls(word) | NOTIFIED, AcqRel, Acquire) {
                Ok(_) => return Handed::Stored,
                Err(now) => word = now,
            }
        }
        let call = match which {
            Which::First if list.front().is_some_and(|made_at| *made_at != calls(word)) => {
                return Handed::Behind;
            }
            Which::First => list.pop_front(Grant::One),
            // N1: current, as there is one.
            Which::Last => list.pop_back(Grant::Last),
        };
        self.check_waiting(list, word);
        Handed::To(call.expect("N1: somebody waits"))
    }

    /// Under the lock, when a waiter left the list: keeps N1 true.
    fn check_waiting(&self, list: &Locked<'_, (), usize>, word: usize) {
        let waiting = list.back().is_some_and(|made_at| *made_at == calls(word));
        if !waiting && state(word) == WAITING {
            // N2.
            self.word.store(calls(word) | EMPTY, Release);
        }
    }

    /// Whether a waiter made at `made_at` is notified without waiting: by
    /// `notify_waiters`, or by the permit, which it takes.
    #[inline]
    fn take(&self, made_at: usize) -> bool {
        let mut word = self.word.load(Acquire);
        loop {
            if calls(word) != made_at {
                return true;
            }
            if state(word) != NOTIFIED {
                return false;
            }
            match self.word.compare_exchange(word, calls(word) | EMPTY, AcqRel, Acquire) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
    }

    /// Puts a waiter into the list, unless it is notified meanwhile.
    fn queue_up(
        &self,
        waiter: Pin<&Waiter<usize>>,
        made_at: usize,
        waker: Option<Waker>,
    ) -> Result<(), Option<Waker>> {
        self.waiters.with(|list| {
            loop {
                if self.take(made_at) {
                    // To be dropped after the lock.
                    return Err(waker);
                }
                let word = made_at | EMPTY;
                match self.word.compare_exchange(word, made_at | WAITING, AcqRel, Acquire) {
                    Ok(_) => break,
                    // N2: it stays so.
                    Err(now) if now == made_at | WAITING => break,
                    Err(_) => {}
                }
            }
            list.push_back(waiter, made_at, waker);
            Ok(())
        })
    }

    /// Takes a waiter off the list, if it is still there. Answers where it stood.
    fn leave(&self, waiter: Pin<&Waiter<usize>>) -> WaiterState {
        let (standing, unneeded) = self.waiters.with(|list| {
            let standing = waiter.state();
            if standing != WaiterState::Waiting {
                return (standing, PendingWake::NONE);
            }
            let unneeded = list.remove(waiter);
            self.check_waiting(list, self.word.load(Relaxed));
            (standing, unneeded)
        });
        // Dropped here, after the lock, and not woken.
        drop(unneeded);
        standing
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
