//! A waiter: the node of a wait list that is inside the waiting future.
//!
//! The rules LIST-1 to LIST-6 are in the parent module.

use crate::sys::sync::UnsafeCell;
use crate::sys::sync::atomic::{AtomicU32, Ordering::*};
use crate::wait::ownership::resource_record::WaitLink;
use std::marker::PhantomPinned;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32 as StdU32, AtomicUsize};
use std::task::Waker;

pub(super) const IDLE: u32 = 0;
pub(super) const WAITING: u32 = 1;

/// The result that a granter leaves with a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Grant {
    /// The request of the front waiter was granted. If its future is dropped unpolled, it must
    /// forward the grant.
    One = 2,
    /// The request of the back waiter was granted. The waiter must forward the grant like `One`.
    Last = 3,
    /// All waiters are notified, so there is nothing to forward.
    All = 4,
    /// The resource is closed.
    Closed = 5,
}

/// The state of a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaiterState {
    Idle,
    Waiting,
    Granted(Grant),
}

impl WaiterState {
    fn from_u32(word: u32) -> Self {
        match word {
            IDLE => WaiterState::Idle,
            WAITING => WaiterState::Waiting,
            2 => WaiterState::Granted(Grant::One),
            3 => WaiterState::Granted(Grant::Last),
            4 => WaiterState::Granted(Grant::All),
            5 => WaiterState::Granted(Grant::Closed),
            _ => unreachable!("not a waiter state: {word}"),
        }
    }
}

/// A waiter of a list, inside the waiting future. `T` is the type of its request.
pub(crate) struct Waiter<T> {
    /// Guarded by LIST-1, and initialized according to LIST-5.
    pub(super) node: UnsafeCell<MaybeUninit<Node<T>>>,
    /// See LIST-2.
    pub(super) state: AtomicU32,
    /// A number that comes with the grant. Stored before `state`.
    pub(super) payload: StdU32,
    /// The address of the waiter's current or last list (LIST-4). Written by the waiter's future.
    pub(super) list: AtomicUsize,
    _pinned: PhantomPinned,
}

/// The data of a waiter that is in a list.
pub(super) struct Node<T> {
    pub(super) prev: Option<NonNull<Waiter<T>>>,
    pub(super) next: Option<NonNull<Waiter<T>>>,
    /// `None` until the future is polled.
    pub(super) waker: Option<Waker>,
    /// The wait record that is linked to this list (RECORD-1).
    pub(super) link: WaitLink,
    pub(super) request: T,
}

// SAFETY: LIST-1 and LIST-2 give one thread at a time access. Wakers are Send and Sync.
unsafe impl<T: Send> Send for Waiter<T> {}
// SAFETY: the reason for `Send` covers `Sync`.
unsafe impl<T: Send> Sync for Waiter<T> {}

impl<T> Waiter<T> {
    pub(crate) fn new() -> Self {
        Self {
            node: UnsafeCell::new(MaybeUninit::uninit()),
            state: AtomicU32::new(IDLE),
            payload: StdU32::new(0),
            list: AtomicUsize::new(0),
            _pinned: PhantomPinned,
        }
    }

    #[inline]
    pub(crate) fn state(&self) -> WaiterState {
        WaiterState::from_u32(self.state.load(Acquire))
    }

    /// Returns whether the waiter is in no list and has no grant.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.state.load(Acquire) == IDLE
    }

    /// Takes the payload of a grant by [`pop_front_with`](super::Locked::pop_front_with), or 0 if
    /// there is none.
    pub(crate) fn take_payload(&self) -> u32 {
        // LIST-2: granted, so only the future accesses it.
        let payload = self.payload.load(Relaxed);
        self.payload.store(0, Relaxed);
        payload
    }

    /// Discards the grant, so that the waiter can wait again.
    ///
    /// # Panics
    ///
    /// If the waiter is in a list.
    pub(crate) fn reset(&self) {
        assert!(self.state.load(Acquire) != WAITING, "LIST-3: the waiter is still in a list");
        self.state.store(IDLE, Relaxed);
    }
}

impl<T> Drop for Waiter<T> {
    fn drop(&mut self) {
        if self.state() == WaiterState::Waiting {
            abort_dropped_waiter();
        }
    }
}

/// Aborts, because LIST-3 is violated: the list points to memory that is about to be freed.
#[cold]
fn abort_dropped_waiter() -> ! {
    eprintln!(
        "wakeful: a waiter was dropped while it is in a wait list. This is a bug in wakeful. Aborting."
    );
    std::process::abort()
}
