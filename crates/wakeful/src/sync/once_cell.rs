//! A value that the first task to need it computes, while others wait.
//!
//! Actors: one task at a time has the *turn* to compute the value; *waiters* wait
//! for it, or for the turn.
//!
//! Rules:
//! - O1. `taken` is touched under the list's lock. It says that somebody has the
//!   turn, and stays true when the turn is handed to a waiter, whose answer is
//!   `One`, and for good once the value is there.
//! - O2. Waiters are in the list only while the turn is taken and there is no
//!   value. Who has the turn ends it by filling the slot, or by handing it on.
//!
//! The race one fears: a waiter finds no value and queues up, while the slot is
//! filled and nobody is found. It is filled before the list is emptied, and the
//! waiter looks again under the lock: so it is in the list by then, or sees the
//! value.

use super::once_slot::Slot;
use crate::sys::sync::const_unless_model;
use crate::task::coop;
use crate::task::wait_kind::WaitKind;
use crate::wait;
use crate::wait::list::{Grant, Waiter, WaiterState, Waiters};
use crate::wait::ownership::owner::{Owner, OwnerCell};
use crate::wait::wake_batch::PendingWake;
use std::error::Error;
use std::fmt;
use std::panic::{Location, UnwindSafe};
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

/// A cell that is filled once, by the first task that needs the value; the others
/// wait for it.
///
/// Mostly for a `static` whose value is computed asynchronously. If nobody is to
/// compute it on demand, see [`SetOnce`](super::SetOnce).
///
/// # Memory ordering
///
/// What the task did that computed the value is seen by whoever sees the value.
///
/// # Examples
///
/// ```
/// use wakeful::sync::OnceCell;
///
/// static ANSWER: OnceCell<u32> = OnceCell::const_new();
///
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() {
/// let answer = ANSWER.get_or_init(|| async { 6 * 7 }).await;
/// assert_eq!(*answer, 42);
/// assert_eq!(ANSWER.get(), Some(&42));
/// # }
/// ```
pub struct OnceCell<T> {
    slot: Slot<T>,
    /// What a waiter asks for is to be noted as the one who has the turn.
    waiters: Waiters<Turns, Owner>,
    /// Who has the turn; nobody while it is handed to one that was not polled since, which
    /// the plate knows. Touched under the list's lock.
    holder: OwnerCell,
}

struct Turns {
    /// See O1.
    taken: bool,
}

impl<T> OnceCell<T> {
    /// An empty cell.
    pub fn new() -> Self {
        OnceCell::new_with(None)
    }

    const_unless_model! {
        /// An empty cell, also for a `static`.
        pub fn const_new() -> Self {
            let waiters = Waiters::new(Turns { taken: false });
            Self { slot: Slot::new(None), waiters, holder: OwnerCell::none() }
        }
    }

    /// A cell with a value, or an empty one.
    pub fn new_with(value: Option<T>) -> Self {
        let waiters = Waiters::new(Turns { taken: value.is_some() });
        Self { slot: Slot::new(value), waiters, holder: OwnerCell::none() }
    }

    const_unless_model! {
        /// A cell with a value, also for a `static`.
        pub fn const_new_with(value: T) -> Self {
            let waiters = Waiters::new(Turns { taken: true });
            Self { slot: Slot::new(Some(value)), waiters, holder: OwnerCell::none() }
        }
    }

    /// Whether there is a value.
    pub fn initialized(&self) -> bool {
        self.slot.is_full()
    }

    /// The value, if there is one.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        self.slot.get()
    }

    /// The value, if there is one, to be changed.
    pub fn get_mut(&mut self) -> Option<&mut T> {
        self.slot.get_mut()
    }

    /// Fills the cell.
    ///
    /// # Errors
    ///
    /// If it is full, or if a task is computing the value; the new one comes back
    /// in the error.
    #[track_caller]
    pub fn set(&self, value: T) -> Result<(), SetError<T>> {
        if !self.initialized()
            && let Tried::Turn = self.try_claim(Location::caller(), None)
        {
            Turn { cell: self }.fill(value);
            return Ok(());
        }
        if self.initialized() {
            Err(SetError::AlreadyInitializedError(value))
        } else {
            Err(SetError::InitializingError(value))
        }
    }

    /// The value; if there is none, `f` computes it.
    ///
    /// If another task is already computing it, this waits for that task. If it
    /// gives up (its future is dropped, or panics), the one that waits longest
    /// goes on with its own `f`; so `f` may run, and its future be dropped,
    /// without its value being used by anybody.
    ///
    /// An `f` that needs the value of the same cell waits for itself, forever.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe as far as the cell goes: it stays empty, and another task
    /// takes over. Work that `f` has done is lost.
    #[track_caller]
    pub fn get_or_init<F, Fut>(&self, f: F) -> impl Future<Output = &T>
    where
        F: FnOnce() -> Fut,
        Fut: Future<Output = T>,
    {
        let site = Location::caller();
        async move {
            if let Some(value) = self.get() {
                return value;
            }
            match self.claim(site).await {
                Claimed::Value(value) => value,
                Claimed::Turn(turn) => {
                    let value = f().await;
                    turn.fill(value)
                }
            }
        }
    }

    /// As [`get_or_init`](Self::get_or_init), for an `f` that can fail.
    ///
    /// # Errors
    ///
    /// With the error of `f`. The cell stays empty, and if another task waits for
    /// the value, it goes on with its own `f`.
    ///
    /// # Cancel safety
    ///
    /// As for [`get_or_init`](Self::get_or_init).
    #[track_caller]
    pub fn get_or_try_init<E, F, Fut>(&self, f: F) -> impl Future<Output = Result<&T, E>>
    where
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        let site = Location::caller();
        async move {
            if let Some(value) = self.get() {
                return Ok(value);
            }
            match self.claim(site).await {
                Claimed::Value(value) => Ok(value),
                Claimed::Turn(turn) => {
                    let value = f().await?;
                    Ok(turn.fill(value))
                }
            }
        }
    }

    /// Takes the value out and ends the cell.
    pub fn into_inner(mut self) -> Option<T> {
        self.slot.take()
    }

    /// Takes the value out and leaves the cell empty.
    pub fn take(&mut self) -> Option<T> {
        std::mem::take(self).into_inner()
    }

    /// Waits for the value or the turn.
    fn claim(&self, site: &'static Location<'static>) -> Claim<'_, T> {
        Claim { cell: self, site, waiter: Waiter::new() }
    }

    /// Takes the turn, or queues up if there is a waiter to do so for.
    fn try_claim(
        &self,
        site: &'static Location<'static>,
        waiter: Option<(Pin<&Waiter<Owner>>, &mut Option<Waker>)>,
    ) -> Tried {
        self.waiters.with(|list| {
            if self.slot.is_full() {
                return Tried::Full;
            }
            if !std::mem::replace(&mut list.taken, true) {
                self.holder.set(site);
                return Tried::Turn;
            }
            if let Some((waiter, waker)) = waiter {
                let waker = waker.take().expect("cloned for this");
                // Whoever came before has told already, or who handed it on.
                let is_first = list.is_empty();
                let reason = (WaitKind::OnceCell, site);
                list.push_linked(waiter, Owner::current(site), waker, reason, |plate| {
                    if is_first && let Some(held) = self.holder.get() {
                        plate.update_owner(Some(held));
                    }
                });
            }
            Tried::Waits
        })
    }

    /// A task wants the value: waits in the list if another computes it.
    fn claim_or_wait(
        &self,
        site: &'static Location<'static>,
        waiter: Pin<&Waiter<Owner>>,
        waker: &Waker,
    ) -> Tried {
        match self.try_claim(site, None) {
            Tried::Waits => {}
            other => return other,
        }
        // Only now, for mostly there is no need. What is left of it is dropped
        // after the lock.
        let mut waker = Some(waker.clone());
        self.try_claim(site, Some((waiter, &mut waker)))
    }

    /// By whoever has the turn and does not use it (O2).
    fn pass_on(&self) {
        let call = self.waiters.with(|list| {
            self.holder.clear();
            let front = list.front().copied();
            let next = list.pop_front_with(Grant::One, |list| {
                if let (Some(plate), Some(next)) = (list.record.get(), front) {
                    plate.set_owner(next.granted_unpolled());
                }
                0
            });
            // O1.
            list.taken = next.is_some();
            next
        });
        call.unwrap_or(PendingWake::NONE).wake();
    }
}

/// Where a task stands that wants the value.
#[must_use]
enum Tried {
    /// The value is there.
    Full,
    /// It is to compute the value.
    Turn,
    /// The same: another did not use its turn.
    Handed,
    /// Another does: wait.
    Waits,
}

/// The right to compute the value. Dropped without one, it goes to the next.
struct Turn<'a, T> {
    cell: &'a OnceCell<T>,
}

impl<'a, T> Turn<'a, T> {
    /// For whoever was handed it (O1).
    fn taken_up(cell: &'a OnceCell<T>, site: &'static Location<'static>) -> Self {
        // As those do who queue up.
        cell.waiters.with(|list| {
            cell.holder.set(site);
            if let Some(plate) = list.record.get() {
                plate.update_owner(cell.holder.get());
            }
        });
        Turn { cell }
    }

    fn fill(self, value: T) -> &'a T {
        let cell = self.cell;
        // The turn has come to its end: `taken` stays.
        std::mem::forget(self);
        let refused = cell.slot.fill(value).is_err();
        assert!(!refused, "O1: one at a time, and none once there is a value");
        cell.waiters.with(|_| cell.holder.clear());
        // O2.
        cell.waiters.grant_while(Grant::All, |_, _| true);
        cell.get().expect("it was filled")
    }
}

impl<T> Drop for Turn<'_, T> {
    fn drop(&mut self) {
        self.cell.pass_on();
    }
}

enum Claimed<'a, T> {
    Value(&'a T),
    Turn(Turn<'a, T>),
}

pin_project_lite::pin_project! {
    struct Claim<'a, T> {
        cell: &'a OnceCell<T>,
        site: &'static Location<'static>,
        #[pin]
        waiter: Waiter<Owner>,
    }

    impl<T> PinnedDrop for Claim<'_, T> {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            if let WaiterState::Granted(Grant::One) = this.cell.waiters.cancel(this.waiter.as_ref()) {
                this.cell.pass_on();
            }
        }
    }
}

impl<'a, T> Future for Claim<'a, T> {
    type Output = Claimed<'a, T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Claimed<'a, T>> {
        let progress = ready!(coop::poll_proceed(cx));
        let this = self.project();
        let (cell, site, waiter) = (*this.cell, *this.site, this.waiter.as_ref());
        let tried = match waiter.state() {
            WaiterState::Idle => cell.claim_or_wait(site, waiter, cx.waker()),
            _ => match cell.waiters.update_waker(waiter, cx.waker()) {
                WaiterState::Granted(Grant::One) => Tried::Handed,
                WaiterState::Granted(_) | WaiterState::Idle => Tried::Full,
                WaiterState::Waiting => Tried::Waits,
            },
        };
        let claimed = match tried {
            Tried::Waits => {
                let target = cell.waiters.record.target(cell);
                wait::record_wait_keeping_link(WaitKind::OnceCell, target, site);
                return Poll::Pending;
            }
            Tried::Turn => Claimed::Turn(Turn { cell }),
            Tried::Handed => {
                // The turn is passed on by `Turn` from here on.
                waiter.reset();
                Claimed::Turn(Turn::taken_up(cell, site))
            }
            Tried::Full => Claimed::Value(cell.get().expect("O2: told so")),
        };
        progress.made_progress();
        Poll::Ready(claimed)
    }
}

impl<T: UnwindSafe> UnwindSafe for OnceCell<T> {}

impl<T> Default for OnceCell<T> {
    fn default() -> OnceCell<T> {
        OnceCell::new()
    }
}

impl<T: fmt::Debug> fmt::Debug for OnceCell<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnceCell").field("value", &self.get()).finish()
    }
}

impl<T: Clone> Clone for OnceCell<T> {
    fn clone(&self) -> OnceCell<T> {
        OnceCell::new_with(self.get().cloned())
    }
}

impl<T: PartialEq> PartialEq for OnceCell<T> {
    fn eq(&self, other: &OnceCell<T>) -> bool {
        self.get() == other.get()
    }
}

impl<T: Eq> Eq for OnceCell<T> {}

impl<T> From<T> for OnceCell<T> {
    fn from(value: T) -> Self {
        OnceCell::new_with(Some(value))
    }
}

/// Why [`OnceCell::set`] did not; with the value that was to be set.
#[derive(Debug, PartialEq, Eq)]
pub enum SetError<T> {
    /// There is a value already.
    AlreadyInitializedError(T),

    /// A task is computing the value.
    InitializingError(T),
}

impl<T> fmt::Display for SetError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SetError::AlreadyInitializedError(_) => "AlreadyInitializedError",
            SetError::InitializingError(_) => "InitializingError",
        })
    }
}

impl<T: fmt::Debug> Error for SetError<T> {}

impl<T> SetError<T> {
    /// Whether there was a value already.
    pub fn is_already_init_err(&self) -> bool {
        matches!(self, SetError::AlreadyInitializedError(_))
    }

    /// Whether a task was computing the value.
    pub fn is_initializing_err(&self) -> bool {
        matches!(self, SetError::InitializingError(_))
    }
}
