//! A value that is set once, and that others may wait for.
//!
//! Actors: a *setter* brings the value; *waiters* wait for it.
//!
//! The race one fears: a waiter finds no value and queues up, while the setter
//! fills the slot and finds nobody. The setter fills it under the list's lock, and
//! the waiter looks once more under it: so it is in the list before, or sees the
//! value after.

use super::once_slot::Slot;
use crate::sys::sync::const_unless_model;
use crate::task::wait_kind::WaitKind;
use crate::wait;
use crate::wait::list::{Grant, Waiter, WaiterState, Waiters};
use std::error::Error;
use std::fmt;
use std::panic::{Location, UnwindSafe};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// A cell that is written once, by anybody, and that tasks can wait for.
///
/// An event that happens once and brings something along. The value cannot be
/// changed after that, so a reference to it is good for as long as the cell.
/// Where the value is to be computed on demand by whoever comes first, see
/// [`OnceCell`](super::OnceCell).
///
/// # Memory ordering
///
/// What was done before [`set`](Self::set) is seen by whoever sees the value.
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
    slot: Slot<T>,
    waiters: Waiters<(), ()>,
}

impl<T> SetOnce<T> {
    /// An empty cell.
    pub fn new() -> Self {
        SetOnce::new_with(None)
    }

    const_unless_model! {
        /// An empty cell, also for a `static`.
        pub fn const_new() -> Self {
            Self { slot: Slot::new(None), waiters: Waiters::new(()) }
        }
    }

    /// A cell with a value, or an empty one.
    pub fn new_with(value: Option<T>) -> Self {
        Self { slot: Slot::new(value), waiters: Waiters::new(()) }
    }

    const_unless_model! {
        /// A cell with a value, also for a `static`.
        pub fn const_new_with(value: T) -> Self {
            Self { slot: Slot::new(Some(value)), waiters: Waiters::new(()) }
        }
    }

    /// Whether there is a value.
    pub fn initialized(&self) -> bool {
        self.slot.is_full()
    }

    /// The value, if it is set.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        self.slot.get()
    }

    /// Sets the value and wakes everybody who waits for it.
    ///
    /// # Errors
    ///
    /// If there is a value already; the new one comes back in the error.
    pub fn set(&self, value: T) -> Result<(), SetOnceError<T>> {
        if self.initialized() {
            return Err(SetOnceError(value));
        }
        // Under the lock, so that whoever comes too late finds the value there.
        self.waiters.with(|_| self.slot.fill(value)).map_err(SetOnceError)?;
        // Nobody queues up any more.
        self.waiters.grant_while(Grant::All, |(), ()| true);
        Ok(())
    }

    /// Takes the value out and ends the cell.
    pub fn into_inner(mut self) -> Option<T> {
        self.slot.take()
    }

    /// Waits until the value is set. Ready at once if it is.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the value stays.
    #[track_caller]
    pub fn wait(&self) -> impl Future<Output = &T> {
        Wait { cell: self, site: Location::caller(), waiter: Waiter::new() }
    }

    /// Puts a waiter into the list, unless the value came meanwhile.
    fn queue_up(&self, waiter: Pin<&Waiter<()>>, waker: Waker) -> Result<(), Waker> {
        self.waiters.with(|list| {
            if self.slot.is_full() {
                // To be dropped after the lock.
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
            // There is nothing to pass on: all are told.
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
            WaiterState::Idle => cell.queue_up(waiter, cx.waker().clone()).is_ok(),
            _ => cell.waiters.update_waker(waiter, cx.waker()) == WaiterState::Waiting,
        };
        if waits {
            wait::record_wait(WaitKind::SetOnce, cell, this.site);
            return Poll::Pending;
        }
        Poll::Ready(cell.get().expect("nobody is turned away or answered before"))
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

/// There was a value already; from [`SetOnce::set`], with the value that was to
/// be set.
#[derive(Debug, PartialEq, Eq)]
pub struct SetOnceError<T>(pub T);

impl<T> fmt::Display for SetOnceError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SetOnceError")
    }
}

impl<T: fmt::Debug> Error for SetOnceError<T> {}
