//! A FIFO list of waiting tasks, and the state of the resource that they wait for.
//!
//! Actors: a *waiter* is a future with a node in the list, its [`Waiter`]. A *granter* can satisfy
//! the waiter's request: it removes the waiter from the list and leaves a [`Grant`].
//!
//! ```text
//! diagram
//!                  push_back()                   pop_front(), pop_back()
//!   IDLE ─────────────────────────► WAITING ──────────────────────► granted
//!     ▲                                │                                │
//!     └────────── cancel() ◄───────────┴─────────── reset() ◄───────────┘
//! ```
//!
//! # Rules
//!
//! - LIST-1. The list, the links of its waiters, their wakers and their requests are accessed only
//!   under the lock of the list.
//! - LIST-2. A waiter's `state` can be read without the lock. Only the holder of the lock moves it
//!   away from WAITING, as its last access to the waiter. From then on the future owns the waiter.
//! - LIST-3. A waiter in the list is pinned, and its future removes it before it is dropped. A
//!   waiter that is dropped in the list aborts the process, so that a bug here never becomes a
//!   dangling pointer.
//! - LIST-4. A waiter is in one list at a time. `list` identifies it, and every method checks it.
//! - LIST-5. A waiter has a node exactly while it is in a list: written on entry, moved out on
//!   exit. So a waiter that never waits costs almost nothing.
//! - LIST-6. The `prev` link of the front waiter is stale, and no code follows it. So removing the
//!   front does not write to the next waiter, whose memory may be in the cache of another core.
//!
//! Orderings: the Release store of a grant pairs with the Acquire load in [`Waiter::state`], so the
//! waiter sees the granter's earlier writes. The lock orders everything else.

mod waiter;

pub(crate) use waiter::{Grant, Waiter, WaiterState};

use super::ownership::resource_record::{RecordCell, ResourceRecord, WaitLink, WaitReason};
use super::wake_batch::{PanicSink, PendingWake, WakeBatch};
use crate::sys::spin_lock::SpinLock;
use crate::sys::sync::atomic::Ordering::*;
use crate::sys::sync::const_unless_model;
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::Waker;
use waiter::{IDLE, Node, WAITING};

/// A list of waiters and the state `S` of the resource, behind one lock.
pub(crate) struct Waiters<S, T> {
    queue: SpinLock<Queue<S, T>>,
    /// The resource record, used by lists whose waiters link the wait records of their tasks.
    pub(crate) record: RecordCell,
}

/// The data that the lock guards.
pub(crate) struct Queue<S, T> {
    pub(crate) state: S,
    front: Option<NonNull<Waiter<T>>>,
    back: Option<NonNull<Waiter<T>>>,
}

// SAFETY: the waiters are Send and Sync, and LIST-1 guards them.
unsafe impl<S: Send, T: Send> Send for Queue<S, T> {}

impl<S, T> Waiters<S, T> {
    const_unless_model! {
        pub(crate) fn new(state: S) -> Self {
            Self {
                queue: SpinLock::new(Queue { state, front: None, back: None }),
                record: RecordCell::none(),
            }
        }
    }

    /// Runs `f` under the lock.
    ///
    /// `f` must take only a few instructions and call no foreign code. The caller performs the
    /// pending wakes afterwards.
    #[inline]
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut Locked<'_, S, T>) -> R) -> R {
        let address = self.address();
        self.queue.with(|queue| f(&mut Locked { queue, address, record: &self.record }))
    }

    fn address(&self) -> usize {
        (&raw const *self).addr()
    }

    /// Removes a waiter from the list, if it is in the list. Returns the waiter's previous state.
    ///
    /// A waiter that was `Granted` may have to forward its grant.
    pub(crate) fn cancel(&self, waiter: Pin<&Waiter<T>>) -> WaiterState {
        match waiter.state() {
            WaiterState::Waiting => {}
            other => return other,
        }
        let (state, unneeded) = self.with(|list| {
            let state = waiter.state();
            let unneeded =
                if state == WaiterState::Waiting { list.remove(waiter) } else { PendingWake::NONE };
            (state, unneeded)
        });
        // Dropped after the lock is released, and not woken.
        drop(unneeded);
        state
    }

    /// Grants and wakes the front waiters while `is_due` returns true for their request.
    ///
    /// Each critical section takes one batch. A panic of a waker is resumed at the end, when all
    /// waiters are granted.
    pub(crate) fn grant_while(&self, grant: Grant, mut is_due: impl FnMut(&S, &T) -> bool) {
        let mut panics = PanicSink::default();
        let mut more = true;
        while more {
            let mut wakes = WakeBatch::new();
            more = self.with(|list| list.grant_batch(grant, &mut wakes, &mut is_due));
            panics.catch(|| wakes.wake());
        }
        panics.resume();
    }

    /// Sets the waker of a waiter that is polled again, perhaps by another task. Returns the
    /// waiter's state.
    pub(crate) fn update_waker(&self, waiter: Pin<&Waiter<T>>, waker: &Waker) -> WaiterState {
        self.update_waker_with(waiter, waker, |_| {})
    }

    /// Sets the waker of a waiter. Calls `change` on its request if the waker is a different one.
    ///
    /// Returns the state of the waiter.
    pub(crate) fn update_waker_with(
        &self,
        waiter: Pin<&Waiter<T>>,
        waker: &Waker,
        change: impl FnOnce(&mut T),
    ) -> WaiterState {
        match waiter.state() {
            WaiterState::Waiting => {}
            other => return other,
        }
        let (state, same) = self.with(|list| match waiter.state() {
            WaiterState::Waiting => {
                (WaiterState::Waiting, list.relink_if_same_waker(waiter, waker))
            }
            other => (other, false),
        });
        if state != WaiterState::Waiting || same {
            return state;
        }
        let new = waker.clone();
        // The unneeded waker is dropped after the lock is released.
        let (state, _unneeded) = self.with(|list| match waiter.state() {
            WaiterState::Waiting => {
                list.request_of(waiter).map(change);
                (WaiterState::Waiting, list.replace_waker(waiter, new))
            }
            state => (state, Some(new)),
        });
        state
    }
}

impl<S, T> Drop for Waiters<S, T> {
    fn drop(&mut self) {
        // Only leaked futures can still be in the list: all others borrow it.
        if self.queue.get_mut().front.is_none() {
            return;
        }
        while let Some(wake) = self.with(|list| list.pop_front(Grant::Closed)) {
            drop(wake);
        }
    }
}

/// A list whose lock is held.
pub(crate) struct Locked<'a, S, T> {
    queue: &'a mut Queue<S, T>,
    /// The address of the list (LIST-4).
    address: usize,
    pub(crate) record: &'a RecordCell,
}

impl<S, T> std::ops::Deref for Locked<'_, S, T> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.queue.state
    }
}

impl<S, T> std::ops::DerefMut for Locked<'_, S, T> {
    fn deref_mut(&mut self) -> &mut S {
        &mut self.queue.state
    }
}

impl<S, T> Locked<'_, S, T> {
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.front.is_none()
    }

    /// Calls `f` with the node of a waiter in this list.
    ///
    /// # Safety
    ///
    /// LIST-1: `waiter` must be in this list.
    #[inline]
    unsafe fn node<R>(waiter: NonNull<Waiter<T>>, f: impl FnOnce(&mut Node<T>) -> R) -> R {
        // SAFETY: the waiter is in the list, so it is alive (LIST-3) and has a node (LIST-5). A
        // `Locked` exists, so the lock is held (LIST-1).
        unsafe { waiter.as_ref() }.node.with_mut(|node| f(unsafe { (*node).assume_init_mut() }))
    }

    #[track_caller]
    fn check_list(&self, waiter: &Waiter<T>) {
        let is_here = waiter.list.load(Relaxed) == self.address;
        assert!(is_here, "LIST-4: the waiter is in another list");
    }

    #[track_caller]
    fn enter(&self, waiter: Pin<&Waiter<T>>) -> NonNull<Waiter<T>> {
        assert!(waiter.state.load(Acquire) == IDLE, "LIST-4: the waiter is not idle");
        waiter.list.store(self.address, Relaxed);
        waiter.state.store(WAITING, Relaxed);
        NonNull::from(waiter.get_ref())
    }

    /// Appends a waiter. A waiter without a waker gets one when it is polled.
    #[inline]
    pub(crate) fn push_back(&mut self, waiter: Pin<&Waiter<T>>, request: T, waker: Option<Waker>) {
        self.push(waiter, request, waker, WaitLink::NONE);
    }

    /// Appends a waiter, and links the wait record of the task being polled (RECORD-1).
    ///
    /// First calls `write_owners`, which writes the owners of the resource to its record.
    #[inline]
    pub(crate) fn push_linked(
        &mut self,
        waiter: Pin<&Waiter<T>>,
        request: T,
        waker: Waker,
        reason: WaitReason,
        write_owners: impl FnOnce(&ResourceRecord),
    ) {
        let record = self.record.obtain();
        write_owners(record);
        let link = WaitLink::attach_with(record, &waker, reason);
        self.push(waiter, request, Some(waker), link);
    }

    #[inline]
    fn push(&mut self, waiter: Pin<&Waiter<T>>, request: T, waker: Option<Waker>, link: WaitLink) {
        let new = self.enter(waiter);
        let prev = self.queue.back.replace(new);
        waiter.node.with_mut(|node| {
            // SAFETY: LIST-1, and LIST-5: the waiter was not in a list, so it has no node yet.
            unsafe { (*node).write(Node { prev, next: None, waker, link, request }) };
        });
        match prev {
            // SAFETY: LIST-1: the old back is in the list.
            Some(prev) => unsafe { Self::node(prev, |node| node.next = Some(new)) },
            None => self.queue.front = Some(new),
        }
    }

    /// Returns the request of the front waiter.
    #[inline]
    pub(crate) fn front(&mut self) -> Option<&mut T> {
        let front = self.queue.front?;
        // SAFETY: the waiter is in the list, so it is alive (LIST-3) and has a node (LIST-5). The
        // borrow of `self` keeps the lock, so no other thread accesses the node (LIST-1).
        Some(unsafe { front.as_ref().node.with_mut(|node| &mut (*node).assume_init_mut().request) })
    }

    /// Returns whether there is exactly one waiter.
    #[inline]
    pub(crate) fn is_single(&self) -> bool {
        self.queue.front.is_some() && self.queue.front == self.queue.back
    }

    /// Returns the request of the back waiter.
    #[inline]
    pub(crate) fn back(&self) -> Option<&T> {
        let back = self.queue.back?;
        // SAFETY: the waiter is in the list, so it is alive (LIST-3) and has a node (LIST-5). The
        // borrow of `self` keeps the lock, so no other thread writes the node (LIST-1).
        Some(unsafe { back.as_ref().node.with(|node| &(*node).assume_init_ref().request) })
    }

    /// Grants the front waiters until one is not due.
    ///
    /// Returns true if `wakes` is full before that. The caller then must wake the batch and call
    /// again.
    fn grant_batch(
        &mut self,
        grant: Grant,
        wakes: &mut WakeBatch,
        is_due: &mut impl FnMut(&S, &T) -> bool,
    ) -> bool {
        while let Some(front) = self.queue.front {
            // SAFETY: LIST-1: the waiter is in this list.
            let due = unsafe { Self::node(front, |node| is_due(&self.queue.state, &node.request)) };
            if !due {
                return false;
            }
            if wakes.is_full() {
                return true;
            }
            wakes.push(self.grant(front, grant));
        }
        false
    }

    /// Grants all waiters whose request matches.
    ///
    /// Returns true if `wakes` is full before that. The caller then must wake the batch and call
    /// again.
    pub(crate) fn grant_matching(
        &mut self,
        grant: Grant,
        wakes: &mut WakeBatch,
        mut matches: impl FnMut(&T) -> bool,
    ) -> bool {
        let mut next = self.queue.front;
        while let Some(waiter) = next {
            // SAFETY: LIST-1: the waiter is in this list.
            let is_match = unsafe {
                Self::node(waiter, |node| {
                    next = node.next;
                    matches(&node.request)
                })
            };
            if !is_match {
                continue;
            }
            if wakes.is_full() {
                return true;
            }
            wakes.push(self.grant(waiter, grant));
        }
        false
    }

    /// Returns the request of a waiter, if it is still in this list.
    pub(crate) fn request_of(&mut self, waiter: Pin<&Waiter<T>>) -> Option<&mut T> {
        if waiter.state() != WaiterState::Waiting {
            return None;
        }
        self.check_list(&waiter);
        let waiter = waiter.get_ref();
        // SAFETY: the waiter is in this list, so it has a node (LIST-5). The borrow of `self` keeps
        // the lock, so no other thread accesses the node (LIST-1).
        Some(unsafe { waiter.node.with_mut(|node| &mut (*node).assume_init_mut().request) })
    }

    /// Grants the front waiter, if any.
    #[inline]
    pub(crate) fn pop_front(&mut self, grant: Grant) -> Option<PendingWake> {
        let front = self.queue.front?;
        Some(self.grant(front, grant))
    }

    /// Grants the front waiter, after `write_owner` has recorded it as the resource's owner.
    ///
    /// `write_owner` runs after the waiter is removed from the list and before it sees the grant.
    /// So no reader sees the waiter wait for a resource that it owns. `write_owner` returns the payload.
    #[inline]
    pub(crate) fn pop_front_with(
        &mut self,
        grant: Grant,
        write_owner: impl FnOnce(&mut Self) -> u32,
    ) -> Option<PendingWake> {
        let front = self.queue.front?;
        let wake = self.unlink(front);
        let payload = write_owner(self);
        // SAFETY: LIST-3 keeps the waiter alive until `state` is stored, the last access (LIST-2).
        unsafe {
            front.as_ref().payload.store(payload, Relaxed);
            front.as_ref().state.store(grant as u32, Release);
        }
        Some(wake)
    }

    /// Grants the back waiter, if any.
    pub(crate) fn pop_back(&mut self, grant: Grant) -> Option<PendingWake> {
        let back = self.queue.back?;
        Some(self.grant(back, grant))
    }

    #[inline]
    fn grant(&mut self, waiter: NonNull<Waiter<T>>, grant: Grant) -> PendingWake {
        let wake = self.unlink(waiter);
        // SAFETY: LIST-3 keeps the waiter alive until this store, the last access (LIST-2).
        unsafe { waiter.as_ref() }.state.store(grant as u32, Release);
        wake
    }

    /// Removes a waiter without a grant.
    ///
    /// # Panics
    ///
    /// If the waiter is not in this list.
    pub(crate) fn remove(&mut self, waiter: Pin<&Waiter<T>>) -> PendingWake {
        self.check_list(&waiter);
        assert_eq!(waiter.state(), WaiterState::Waiting, "LIST-4: not in the list");
        let wake = self.unlink(NonNull::from(waiter.get_ref()));
        waiter.state.store(IDLE, Relaxed);
        wake
    }

    #[inline]
    fn unlink(&mut self, waiter: NonNull<Waiter<T>>) -> PendingWake {
        // SAFETY: LIST-1: the waiter is in this list. Its node is moved out as the waiter leaves
        // (LIST-5).
        let Node { prev, next, waker, link, request: _ } =
            unsafe { waiter.as_ref().node.with_mut(|node| (*node).assume_init_read()) };
        link.detach(self.record);
        if self.queue.front == Some(waiter) {
            // LIST-6: `next` keeps its stale `prev`.
            self.queue.front = next;
            if next.is_none() {
                self.queue.back = None;
            }
            return PendingWake(waker);
        }
        let prev = prev.expect("a waiter that is not in front has a predecessor");
        // SAFETY: LIST-1: neighbours are in the list.
        unsafe { Self::node(prev, |node| node.next = next) };
        match next {
            // SAFETY: LIST-1: neighbours are in the list.
            Some(next) => unsafe { Self::node(next, |node| node.prev = Some(prev)) },
            None => self.queue.back = Some(prev),
        }
        PendingWake(waker)
    }

    /// Returns whether `waker` wakes the same task as the stored waker of a waiter in this list.
    ///
    /// If so, links the wait record of the task again.
    fn relink_if_same_waker(&self, waiter: Pin<&Waiter<T>>, waker: &Waker) -> bool {
        self.check_list(&waiter);
        let waiter = NonNull::from(waiter.get_ref());
        // SAFETY: LIST-1: the waiter is in this list.
        unsafe {
            Self::node(waiter, |node| {
                let same = node.waker.as_ref().is_some_and(|own| own.will_wake(waker));
                if same {
                    node.link.attach_again(self.record, waker);
                }
                same
            })
        }
    }

    fn replace_waker(&mut self, waiter: Pin<&Waiter<T>>, waker: Waker) -> Option<Waker> {
        let record = self.record;
        // SAFETY: LIST-1: the waiter is in this list.
        unsafe {
            Self::node(NonNull::from(waiter.get_ref()), |node| {
                node.link.replace(record, &waker);
                node.waker.replace(waker)
            })
        }
    }
}
