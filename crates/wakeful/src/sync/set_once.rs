//! A cell that is set once, for whose value tasks can wait.
//!
//! The race to fear: a waiter finds no value and enqueues itself, while the setter fills the slot
//! and finds no waiter. It cannot happen: the setter fills the slot under the list's lock, and the
//! waiter checks the slot again under that lock. So the waiter is in the list before the slot is
//! filled, or it sees the value.

use super::once_slot::OnceSlot;
use crate::sys::sync::const_unless_model;
use crate::task::wait_kind::WaitKind;
use crate::wait;
use crate::wait::list::{Grant, Waiter, WaiterState, Waiters};
use std::error::Error;
use std::fmt;
use std::panic::{Location, UnwindSafe};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// A cell that is set once, for whose value tasks can wait.
///
/// Use it for a one-time event that carries a value. The value never changes afterwards, so
/// references to it live as long as the cell. If the first task that needs the value has to compute
/// it, use [`OnceCell`](super::OnceCell).
///
/// # Memory ordering
///
/// Everything before [`set`](Self::set) happens before everything after a call that returned the
/// value.
///
/// # Examples
///
/// ```
/// use wakeful::sync::SetOnce;
///
/// static PORT: SetOnce<u16> = SetOnce::const_new();
///
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() {
/// let client = wakeful::spawn(async { *PORT.wait().await });
/// PORT.set(8080).unwrap();
/// assert_eq!(client.await.unwrap(), 8080);
/// assert!(PORT.set(8081).is_err());
/// # }
/// ```
pub struct SetOnce<T> {
    slot: OnceSlot<T>,
    waiters: Waiters<(), ()>,
}

impl<T> SetOnce<T> {
    /// Creates an empty cell.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::SetOnce;
    ///
    /// let cell = SetOnce::<u32>::new();
    /// assert_eq!(cell.get(), None);
    /// ```
    pub fn new() -> Self {
        SetOnce::new_with(None)
    }

    const_unless_model! {
        /// Creates an empty cell in a constant expression, for example for a `static`.
        ///
        /// # Examples
        ///
        /// ```
        /// use wakeful::sync::SetOnce;
        ///
        /// static NAME: SetOnce<String> = SetOnce::const_new();
        /// NAME.set(String::from("wakeful")).unwrap();
        /// assert_eq!(NAME.get().unwrap(), "wakeful");
        /// ```
        pub fn const_new() -> Self {
            Self { slot: OnceSlot::new(None), waiters: Waiters::new(()) }
        }
    }

    /// Creates a cell that is set if `value` is `Some`, and empty otherwise.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::SetOnce;
    ///
    /// assert_eq!(SetOnce::new_with(Some(1)).get(), Some(&1));
    /// ```
    pub fn new_with(value: Option<T>) -> Self {
        Self { slot: OnceSlot::new(value), waiters: Waiters::new(()) }
    }

    const_unless_model! {
        /// Creates a cell that is set, in a constant expression.
        ///
        /// # Examples
        ///
        /// ```
        /// use wakeful::sync::SetOnce;
        ///
        /// static PORT: SetOnce<u16> = SetOnce::const_new_with(8080);
        /// assert_eq!(PORT.get(), Some(&8080));
        /// ```
        pub fn const_new_with(value: T) -> Self {
            Self { slot: OnceSlot::new(Some(value)), waiters: Waiters::new(()) }
        }
    }

    /// Returns whether the cell has a value.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::SetOnce;
    ///
    /// let cell = SetOnce::new();
    /// assert!(!cell.initialized());
    /// cell.set(1).unwrap();
    /// assert!(cell.initialized());
    /// ```
    pub fn initialized(&self) -> bool {
        self.slot.is_full()
    }

    /// Returns the value if it is set.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::SetOnce;
    ///
    /// let cell = SetOnce::new();
    /// assert!(cell.get().is_none());
    /// cell.set(1).unwrap();
    /// assert_eq!(cell.get(), Some(&1));
    /// ```
    #[inline]
    pub fn get(&self) -> Option<&T> {
        self.slot.get()
    }

    /// Sets the value and wakes all tasks that wait for it.
    ///
    /// # Errors
    ///
    /// Returns [`SetOnceError`] with the rejected value if the cell is already set.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::{SetOnce, SetOnceError};
    ///
    /// let cell = SetOnce::new();
    /// assert_eq!(cell.set(1), Ok(()));
    /// assert_eq!(cell.set(2), Err(SetOnceError(2)));
    /// ```
    pub fn set(&self, value: T) -> Result<(), SetOnceError<T>> {
        if self.initialized() {
            return Err(SetOnceError(value));
        }
        // Under the list's lock, so that a task that enqueues itself afterwards sees the value.
        self.waiters.with(|_| self.slot.fill(value)).map_err(SetOnceError)?;
        // From now on, no task is added to the list.
        self.waiters.grant_while(Grant::All, |(), ()| true);
        Ok(())
    }

    /// Consumes the cell and returns its value, if it was set.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::SetOnce;
    ///
    /// assert_eq!(SetOnce::from(1).into_inner(), Some(1));
    /// ```
    pub fn into_inner(mut self) -> Option<T> {
        self.slot.take()
    }

    /// Waits until the value is set, and returns a reference to it.
    ///
    /// Completes immediately if the value is already set.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe. The value stays in the cell.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use wakeful::sync::SetOnce;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let ready = Arc::new(SetOnce::new());
    /// let waiter = wakeful::spawn({
    ///     let ready = ready.clone();
    ///     async move { *ready.wait().await }
    /// });
    /// ready.set(42).unwrap();
    /// assert_eq!(waiter.await.unwrap(), 42);
    /// # }
    /// ```
    #[track_caller]
    pub fn wait(&self) -> impl Future<Output = &T> {
        Wait { cell: self, site: Location::caller(), waiter: Waiter::new() }
    }

    /// Enqueues a waiter, unless the value was set meanwhile.
    fn enqueue(&self, waiter: Pin<&Waiter<()>>, waker: Waker) -> Result<(), Waker> {
        self.waiters.with(|list| {
            if self.slot.is_full() {
                // The caller drops the waker after the list's lock is released.
                return Err(waker);
            }
            list.push_back(waiter, (), Some(waker));
            Ok(())
        })
    }
}

pin_project_lite::pin_project! {
    struct Wait<'a, T> {
        cell: &'a SetOnce<T>,
        site: &'static Location<'static>,
        #[pin]
        waiter: Waiter<()>,
    }

    impl<T> PinnedDrop for Wait<'_, T> {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            // A grant need not be passed on: all waiters are notified.
            this.cell.waiters.cancel(this.waiter.as_ref());
        }
    }
}

impl<'a, T> Future for Wait<'a, T> {
    type Output = &'a T;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<&'a T> {
        let this = self.project();
        let (cell, waiter) = (*this.cell, this.waiter.as_ref());
        if let Some(value) = cell.get() {
            cell.waiters.cancel(waiter);
            return Poll::Ready(value);
        }
        let waits = match waiter.state() {
            WaiterState::Idle => cell.enqueue(waiter, cx.waker().clone()).is_ok(),
            _ => cell.waiters.update_waker(waiter, cx.waker()) == WaiterState::Waiting,
        };
        if waits {
            wait::record_wait(WaitKind::SetOnce, cell, this.site);
            return Poll::Pending;
        }
        Poll::Ready(cell.get().expect("waiters are notified after the slot is filled"))
    }
}

impl<T: UnwindSafe> UnwindSafe for SetOnce<T> {}

impl<T> Default for SetOnce<T> {
    fn default() -> SetOnce<T> {
        SetOnce::new()
    }
}

impl<T: fmt::Debug> fmt::Debug for SetOnce<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SetOnce").field("value", &self.get()).finish()
    }
}

impl<T: Clone> Clone for SetOnce<T> {
    fn clone(&self) -> SetOnce<T> {
        SetOnce::new_with(self.get().cloned())
    }
}

impl<T: PartialEq> PartialEq for SetOnce<T> {
    fn eq(&self, other: &SetOnce<T>) -> bool {
        self.get() == other.get()
    }
}

impl<T: Eq> Eq for SetOnce<T> {}

impl<T> From<T> for SetOnce<T> {
    fn from(value: T) -> Self {
        SetOnce::new_with(Some(value))
    }
}

/// Error returned by [`SetOnce::set`] when the cell is already set; contains the rejected value.
///
/// # Examples
///
/// ```
/// use wakeful::sync::SetOnce;
///
/// let cell = SetOnce::from(1);
/// assert_eq!(cell.set(2).unwrap_err().0, 2);
/// ```
#[derive(Debug, PartialEq, Eq)]
pub struct SetOnceError<T>(pub T);

impl<T> fmt::Display for SetOnceError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SetOnceError")
    }
}

impl<T: fmt::Debug> Error for SetOnceError<T> {}
