//! A cell whose value the first task that needs it computes, while others wait.
//!
//! - [`init`]: who may compute the value, and the tasks that wait; with the protocol.
//! - [`error`]: the error of `set`.

mod error;
mod init;

pub use error::SetError;

use super::once_slot::OnceSlot;
use crate::sys::sync::const_unless_model;
use crate::wait::list::Waiters;
use crate::wait::ownership::owner::{Owner, OwnerCell};
use init::{ClaimOutcome, ClaimResult, InitGuard};
use std::fmt;
use std::panic::{Location, UnwindSafe};

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
    /// Each entry holds the owner to record if its waiter becomes the initializer.
    waiters: Waiters<InitState, Owner>,
    /// The initializer. Empty while the right is granted to a waiter that has not been polled
    /// since; the resource record then names the owner. Accessed under the list's lock.
    owner: OwnerCell,
}

/// State that the list's lock guards.
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
            Self { slot: OnceSlot::new(None), waiters, owner: OwnerCell::none() }
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
        Self { slot: OnceSlot::new(value), waiters, owner: OwnerCell::none() }
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
            Self { slot: OnceSlot::new(Some(value)), waiters, owner: OwnerCell::none() }
        }
    }

    /// Returns whether the cell has a value.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::OnceCell;
    ///
    /// let cell = OnceCell::new();
    /// assert!(!cell.initialized());
    /// cell.set(1).unwrap();
    /// assert!(cell.initialized());
    /// ```
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

    /// Returns the value, computing it with `f` if the cell is empty.
    ///
    /// If another task is computing the value, this waits for that task. If that task fails (its
    /// future is dropped, or panics), the longest-waiting task runs its own `f`. So `f` may be
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

    /// Returns the value, computing it with a fallible `f` if the cell is empty.
    ///
    /// Waits for other tasks like [`get_or_init`](Self::get_or_init).
    ///
    /// # Errors
    ///
    /// Returns the error of `f`. The cell stays empty, and the longest-waiting task runs its own
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

    /// Takes the value out of the cell, leaving the cell empty.
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
