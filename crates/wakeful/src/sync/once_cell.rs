//! A cell whose value the first task that needs it computes, while others wait.
//!
//! Actors: the *initializer* is the one task that has the right to compute the value; *waiters*
//! wait for the value, or for that right.
//!
//! Rules:
//! - ONCECELL-1. `claimed` is accessed under the list's lock. It is true while there is an
//!   initializer. It stays true when the right is granted to a waiter (`Grant::One`), and forever
//!   once the cell has a value.
//! - ONCECELL-2. Waiters are in the list only while there is an initializer and no value. The
//!   initializer ends its role by filling the slot, or by handing the right to the first waiter.
//!
//! The race to fear: a waiter finds no value and enqueues itself, while the initializer fills the
//! slot and finds no waiter. It cannot happen: the slot is filled before the list is emptied, and
//! the waiter checks the slot again under the list's lock. So the waiter is in the list by then, or
//! it sees the value.

use super::once_slot::OnceSlot;
use crate::sys::sync::const_unless_model;
use crate::task::coop;
use crate::task::header::WaitKind;
use crate::wait;
use crate::wait::list::{Grant, Waiter, WaiterState, Waiters};
use crate::wait::ownership::owner::{Owner, OwnerCell};
use crate::wait::wake_batch::PendingWake;
use std::error::Error;
use std::fmt;
use std::panic::{Location, UnwindSafe};
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

/// A cell whose value is computed by the first task that needs it; others wait.
///
/// Its most common use is a `static` whose value is computed asynchronously. If no task has to
/// compute the value on demand, use [`SetOnce`](super::SetOnce).
///
/// # Memory ordering
///
/// Everything that the computing task did happens before everything after a call that returned the
/// value.
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
    slot: OnceSlot<T>,
    /// A waiter's entry has the owner to record once it becomes the initializer.
    waiters: Waiters<InitState, Owner>,
    /// The initializer. Empty while the right is granted to a waiter that was not polled since;
    /// then the resource record has the owner. Accessed under the list's lock.
    owner: OwnerCell,
}

struct InitState {
    /// See ONCECELL-1.
    claimed: bool,
}

impl<T> OnceCell<T> {
    /// Creates an empty cell.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::OnceCell;
    ///
    /// let cell = OnceCell::<u32>::new();
    /// assert_eq!(cell.get(), None);
    /// ```
    pub fn new() -> Self {
        OnceCell::new_with(None)
    }

    const_unless_model! {
        /// Creates an empty cell in a constant expression, for example for a `static`.
        ///
        /// # Examples
        ///
        /// ```
        /// use wakeful::sync::OnceCell;
        ///
        /// static CONFIG: OnceCell<String> = OnceCell::const_new();
        /// assert!(!CONFIG.initialized());
        /// ```
        pub fn const_new() -> Self {
            let waiters = Waiters::new(InitState { claimed: false });
            Self { slot: OnceSlot::new(None), waiters, owner: OwnerCell::nobody() }
        }
    }

    /// Creates a cell that is initialized if `value` is `Some`, and empty otherwise.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::OnceCell;
    ///
    /// assert_eq!(OnceCell::new_with(Some(1)).get(), Some(&1));
    /// ```
    pub fn new_with(value: Option<T>) -> Self {
        let waiters = Waiters::new(InitState { claimed: value.is_some() });
        Self { slot: OnceSlot::new(value), waiters, owner: OwnerCell::nobody() }
    }

    const_unless_model! {
        /// Creates an initialized cell in a constant expression.
        ///
        /// # Examples
        ///
        /// ```
        /// use wakeful::sync::OnceCell;
        ///
        /// static PORT: OnceCell<u16> = OnceCell::const_new_with(8080);
        /// assert_eq!(PORT.get(), Some(&8080));
        /// ```
        pub fn const_new_with(value: T) -> Self {
            let waiters = Waiters::new(InitState { claimed: true });
            Self { slot: OnceSlot::new(Some(value)), waiters, owner: OwnerCell::nobody() }
        }
    }

    /// Returns whether the cell has a value.
    pub fn initialized(&self) -> bool {
        self.slot.is_full()
    }

    /// Returns the value if the cell is initialized.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::OnceCell;
    ///
    /// let cell = OnceCell::new();
    /// assert!(cell.get().is_none());
    /// cell.set(1).unwrap();
    /// assert_eq!(cell.get(), Some(&1));
    /// ```
    #[inline]
    pub fn get(&self) -> Option<&T> {
        self.slot.get()
    }

    /// Returns a mutable reference to the value if the cell is initialized.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::OnceCell;
    ///
    /// let mut cell = OnceCell::from(1);
    /// *cell.get_mut().unwrap() += 1;
    /// assert_eq!(cell.into_inner(), Some(2));
    /// ```
    pub fn get_mut(&mut self) -> Option<&mut T> {
        self.slot.get_mut()
    }

    /// Sets the value of an empty cell.
    ///
    /// # Errors
    ///
    /// Returns the rejected value in a [`SetError`] if the cell is initialized, or if a task is
    /// computing its value.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::OnceCell;
    ///
    /// let cell = OnceCell::new();
    /// assert!(cell.set(1).is_ok());
    /// assert!(cell.set(2).unwrap_err().is_already_init_err());
    /// ```
    #[track_caller]
    pub fn set(&self, value: T) -> Result<(), SetError<T>> {
        if !self.initialized()
            && let ClaimOutcome::Initializer = self.try_claim_init(Location::caller(), None)
        {
            InitGuard { cell: self }.fill(value);
            return Ok(());
        }
        if self.initialized() {
            Err(SetError::AlreadyInitializedError(value))
        } else {
            Err(SetError::InitializingError(value))
        }
    }

    /// Returns the value, and computes it by `f` if the cell is empty.
    ///
    /// If another task is computing the value, this waits for that task. If that task fails (its
    /// future is dropped, or panics), the task that waits longest runs its own `f`. So `f` may be
    /// called, and its future dropped, without its value being used.
    ///
    /// If `f` waits for the value of the same cell, it deadlocks.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe with respect to the cell: the cell stays empty, and a waiting
    /// task takes over. The progress of the future of `f` is lost.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::OnceCell;
    ///
    /// static LENGTH: OnceCell<usize> = OnceCell::const_new();
    ///
    /// async fn compute() -> usize {
    ///     wakeful::task::yield_now().await;
    ///     "computed once".len()
    /// }
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let (first, second) = wakeful::join!(
    ///     LENGTH.get_or_init(compute),
    ///     LENGTH.get_or_init(|| async { unreachable!("the first call computes the value") }),
    /// );
    /// assert_eq!((*first, *second), (13, 13));
    /// # }
    /// ```
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
            match self.claim_init(site).await {
                ClaimResult::Value(value) => value,
                ClaimResult::Init(guard) => {
                    let value = f().await;
                    guard.fill(value)
                }
            }
        }
    }

    /// Returns the value, and computes it by a fallible `f` if the cell is empty.
    ///
    /// It waits for other tasks like [`get_or_init`](Self::get_or_init).
    ///
    /// # Errors
    ///
    /// Returns the error of `f`. The cell stays empty, and the task that waits longest runs its own
    /// `f`.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe with respect to the cell: the cell stays empty, and a waiting
    /// task takes over. The progress of the future of `f` is lost.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::OnceCell;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let cell = OnceCell::new();
    /// let failed: Result<&u32, &str> = cell.get_or_try_init(|| async { Err("no network") }).await;
    /// assert_eq!(failed, Err("no network"));
    /// let value: Result<&u32, &str> = cell.get_or_try_init(|| async { Ok(7) }).await;
    /// assert_eq!(value, Ok(&7));
    /// # }
    /// ```
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
            match self.claim_init(site).await {
                ClaimResult::Value(value) => Ok(value),
                ClaimResult::Init(guard) => {
                    let value = f().await?;
                    Ok(guard.fill(value))
                }
            }
        }
    }

    /// Consumes the cell and returns its value, if there is one.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::OnceCell;
    ///
    /// assert_eq!(OnceCell::from(1).into_inner(), Some(1));
    /// ```
    pub fn into_inner(mut self) -> Option<T> {
        self.slot.take()
    }

    /// Takes the value out of the cell, and leaves the cell empty.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::OnceCell;
    ///
    /// let mut cell = OnceCell::from(1);
    /// assert_eq!(cell.take(), Some(1));
    /// assert!(!cell.initialized());
    /// ```
    pub fn take(&mut self) -> Option<T> {
        std::mem::take(self).into_inner()
    }

    /// Waits for the value, or for the right to compute it.
    fn claim_init(&self, site: &'static Location<'static>) -> ClaimInit<'_, T> {
        ClaimInit { cell: self, site, waiter: Waiter::new() }
    }

    /// Makes the caller the initializer, or enqueues `waiter` if there is one and another task is.
    fn try_claim_init(
        &self,
        site: &'static Location<'static>,
        waiter: Option<(Pin<&Waiter<Owner>>, &mut Option<Waker>)>,
    ) -> ClaimOutcome {
        self.waiters.with(|list| {
            if self.slot.is_full() {
                return ClaimOutcome::HasValue;
            }
            if !std::mem::replace(&mut list.claimed, true) {
                self.owner.set(site);
                return ClaimOutcome::Initializer;
            }
            if let Some((waiter, waker)) = waiter {
                let waker = waker.take().expect("cloned for this");
                // The first waiter copies the owner to the record. For later ones that has been
                // done, by the first waiter or by the task that handed the right over.
                let is_first = list.is_empty();
                let reason = (WaitKind::OnceCell, site);
                list.push_linked(waiter, Owner::by_current(site), waker, reason, |record| {
                    if is_first && let Some(held) = self.owner.get() {
                        record.note_if_new(Some(held));
                    }
                });
            }
            ClaimOutcome::Waiting
        })
    }

    /// Makes the caller the initializer, or enqueues its waiter.
    fn claim_init_or_wait(
        &self,
        site: &'static Location<'static>,
        waiter: Pin<&Waiter<Owner>>,
        waker: &Waker,
    ) -> ClaimOutcome {
        match self.try_claim_init(site, None) {
            ClaimOutcome::Waiting => {}
            other => return other,
        }
        // Cloned only here, because mostly there is no need. An unused clone is dropped after the
        // list's lock is released.
        let mut waker = Some(waker.clone());
        self.try_claim_init(site, Some((waiter, &mut waker)))
    }

    /// Hands the initializer's right to the first waiter (ONCECELL-2).
    fn hand_over_init(&self) {
        let call = self.waiters.with(|list| {
            self.owner.clear();
            let front = list.front().copied();
            let next = list.pop_front_with(Grant::One, |list| {
                if let (Some(record), Some(next)) = (list.plate.get(), front) {
                    record.note_one(next.granted());
                }
                0
            });
            // ONCECELL-1.
            list.claimed = next.is_some();
            next
        });
        call.unwrap_or(PendingWake::NOBODY).wake();
    }
}

/// What a task that wants the value does next.
#[must_use]
enum ClaimOutcome {
    /// The cell has a value.
    HasValue,
    /// The task is the initializer.
    Initializer,
    /// The task was granted the initializer's right by a task that did not use it.
    Granted,
    /// The task waits for the initializer.
    Waiting,
}

/// The right to compute the value. Dropping it hands the right to the next waiter.
struct InitGuard<'a, T> {
    cell: &'a OnceCell<T>,
}

impl<'a, T> InitGuard<'a, T> {
    /// Accepts a right that was granted (ONCECELL-1).
    fn from_grant(cell: &'a OnceCell<T>, site: &'static Location<'static>) -> Self {
        cell.waiters.with(|list| {
            cell.owner.set(site);
            if let Some(record) = list.plate.get() {
                record.note_if_new(cell.owner.get());
            }
        });
        InitGuard { cell }
    }

    fn fill(self, value: T) -> &'a T {
        let cell = self.cell;
        // The value is set, so there is no right to hand over: `claimed` stays true.
        std::mem::forget(self);
        let refused = cell.slot.fill(value).is_err();
        assert!(!refused, "ONCECELL-1: there is one initializer, and none once there is a value");
        cell.waiters.with(|_| cell.owner.clear());
        // ONCECELL-2.
        cell.waiters.answer_while(Grant::All, |_, _| true);
        cell.get().expect("it was filled")
    }
}

impl<T> Drop for InitGuard<'_, T> {
    fn drop(&mut self) {
        self.cell.hand_over_init();
    }
}

enum ClaimResult<'a, T> {
    Value(&'a T),
    Init(InitGuard<'a, T>),
}

pin_project_lite::pin_project! {
    struct ClaimInit<'a, T> {
        cell: &'a OnceCell<T>,
        site: &'static Location<'static>,
        #[pin]
        waiter: Waiter<Owner>,
    }

    impl<T> PinnedDrop for ClaimInit<'_, T> {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            let state = this.cell.waiters.cancel(this.waiter.as_ref());
            if state == WaiterState::Answered(Grant::One) {
                this.cell.hand_over_init();
            }
        }
    }
}

impl<'a, T> Future for ClaimInit<'a, T> {
    type Output = ClaimResult<'a, T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<ClaimResult<'a, T>> {
        let progress = ready!(coop::poll_proceed(cx));
        let this = self.project();
        let (cell, site, waiter) = (*this.cell, *this.site, this.waiter.as_ref());
        let outcome = match waiter.standing() {
            WaiterState::Idle => cell.claim_init_or_wait(site, waiter, cx.waker()),
            _ => match cell.waiters.update_waker(waiter, cx.waker()) {
                WaiterState::Answered(Grant::One) => ClaimOutcome::Granted,
                WaiterState::Answered(_) | WaiterState::Idle => ClaimOutcome::HasValue,
                WaiterState::Waiting => ClaimOutcome::Waiting,
            },
        };
        let claimed = match outcome {
            ClaimOutcome::Waiting => {
                let target = cell.waiters.plate.target(cell);
                wait::waiting_on_plate(WaitKind::OnceCell, target, site);
                return Poll::Pending;
            }
            ClaimOutcome::Initializer => ClaimResult::Init(InitGuard { cell }),
            ClaimOutcome::Granted => {
                // From here on the `InitGuard` hands the right over.
                waiter.reset();
                ClaimResult::Init(InitGuard::from_grant(cell, site))
            }
            ClaimOutcome::HasValue => ClaimResult::Value(
                cell.get().expect("ONCECELL-2: granted after the slot was filled"),
            ),
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

/// The error of [`OnceCell::set`]; contains the rejected value.
#[derive(Debug, PartialEq, Eq)]
pub enum SetError<T> {
    /// The cell already has a value.
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
    /// Returns whether the cell already had a value.
    pub fn is_already_init_err(&self) -> bool {
        matches!(self, SetError::AlreadyInitializedError(_))
    }

    /// Returns whether a task was computing the value.
    pub fn is_initializing_err(&self) -> bool {
        matches!(self, SetError::InitializingError(_))
    }
}
