//! The allocation that both ends of a oneshot channel share, and the rules of access to it.
//!
//! Actors: the *sender* and the *receiver*. Each end sets a final state once: the sender DONE (with
//! or without a VALUE), the receiver CLOSED, but only before DONE. Each end may wait for the
//! other's final state. Each detaches by setting its GONE flag.
//!
//! ```text
//! diagram
//!   sender:    open ──send──► DONE and VALUE ──detach──► SENDER_GONE
//!               └───drop────► DONE ────────────detach──► SENDER_GONE
//!   receiver:  open ──close─► CLOSED ──────────detach──► RECEIVER_GONE
//!               └───finish, drop ──────────────detach──► RECEIVER_GONE
//! ```
//!
//! Rules:
//! - ONESHOT-1. Until DONE, the value belongs to the sender. Afterwards, if VALUE is set, the value
//!   belongs to the receiver, which takes it once. VALUE is never set after CLOSED.
//! - ONESHOT-2. Each end has a slot for its waker, and a WAITS flag. While the flag is clear, the
//!   slot belongs to its end. While the flag is set, the slot holds a waker, which both ends may
//!   read and neither writes. The end that clears the flag moves the waker out. The other end
//!   clears the flag together with setting its final state, after which the flag is never set
//!   again.
//! - ONESHOT-3. An end whose GONE flag is set accesses nothing any more, and leaves no waker of its
//!   own behind. The end that finds the other end's GONE set is alone, and frees the memory.
//!
//! If an end sets its final state, finds no waiting end and does not wait itself, it sets GONE in
//! the same step. So sending and receiving a value costs one compare-exchange and one load. If
//! wakers have to be moved out, GONE is set afterwards in a separate step, after which the memory
//! may be freed.
//!
//! The race to fear: the receiver finds no value and registers its waker, while the sender finds no
//! waiting receiver and detaches. It cannot happen: both are steps on one word. The
//! compare-exchange that sets WAITS fails once DONE is set. The compare-exchange that sets DONE
//! takes over every WAITS before it.
//!
//! Orderings: each compare-exchange releases what was written before it (the value, a waker) and
//! acquires what the other end released, so it is AcqRel. An end that reads the value or frees the
//! memory without a compare-exchange of its own loads with Acquire.
#![allow(unsafe_code)]

use crate::sys::IS_MODEL;
use crate::sys::sync::UnsafeCell;
use crate::sys::sync::atomic::{AtomicU32, Ordering::*};
use crate::wait::wake_batch::{PanicSink, PendingWake};
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr::NonNull;
use std::task::Waker;

/// The sender has set its final state.
const DONE: u32 = 1;
/// The sender has sent a value.
const VALUE: u32 = 1 << 1;
/// The sender has detached.
const SENDER_GONE: u32 = 1 << 2;
/// The sender's waker is in its slot.
const SENDER_WAITS: u32 = 1 << 3;
/// The receiver has closed the channel.
const CLOSED: u32 = 1 << 4;
/// The receiver has detached.
const RECEIVER_GONE: u32 = 1 << 5;
/// The receiver's waker is in its slot.
const RECEIVER_WAITS: u32 = 1 << 6;

const WAITS: u32 = SENDER_WAITS | RECEIVER_WAITS;

/// The shared allocation.
pub(super) struct Shared<T> {
    state: AtomicU32,
    /// See ONESHOT-1.
    value: UnsafeCell<MaybeUninit<T>>,
    /// See ONESHOT-2.
    sender: WakerSlot,
    /// See ONESHOT-2.
    receiver: WakerSlot,
}

const _: () = assert!(IS_MODEL || size_of::<Shared<u64>>() == 48);

/// The slot of an end's waker (ONESHOT-2).
struct WakerSlot(UnsafeCell<MaybeUninit<Waker>>);

impl WakerSlot {
    fn empty() -> Self {
        Self(UnsafeCell::new(MaybeUninit::uninit()))
    }

    /// Writes a waker.
    ///
    /// # Safety
    ///
    /// The slot's flag is not set, and the caller is its end (ONESHOT-2).
    unsafe fn put(&self, waker: Waker) {
        // SAFETY: by this function's contract no other thread accesses the slot.
        self.0.with_mut(|slot| unsafe { (*slot).write(waker) });
    }

    /// Moves the waker out.
    ///
    /// # Safety
    ///
    /// The caller cleared the slot's flag (ONESHOT-2).
    unsafe fn take(&self) -> Waker {
        // A read, not a write: the other end may be in `will_wake`.
        // SAFETY: by this function's contract there is a waker, and it belongs to the caller from
        // here on.
        self.0.with(|slot| unsafe { (*slot).assume_init_read() })
    }

    /// Returns whether the stored waker wakes the same task as `waker`.
    ///
    /// # Safety
    ///
    /// The caller is the slot's end, and saw its flag set (ONESHOT-2).
    unsafe fn will_wake(&self, waker: &Waker) -> bool {
        // SAFETY: by this function's contract a waker was put here, and only this end writes the
        // slot. If the waker was moved out since, its two pointers still identify the task, and
        // only they are compared.
        self.0.with(|slot| unsafe { (*slot).assume_init_ref().will_wake(waker) })
    }
}

/// The result of an attempt to wait for the other end's final state.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RegisterOutcome {
    /// The final state will wake the task.
    Registered,
    /// The other end has set its final state.
    Ended,
}

impl<T> Shared<T> {
    /// Registers a waker in an end's own slot, unless the other end has set its final state.
    fn register(
        &self,
        slot: &WakerSlot,
        waits: u32,
        final_state: u32,
        waker: &Waker,
    ) -> RegisterOutcome {
        if self.state.load(Acquire) & waits != 0 {
            // SAFETY: ONESHOT-2: the caller's own slot, and the flag was set.
            if unsafe { slot.will_wake(waker) } {
                return RegisterOutcome::Registered;
            }
            self.unregister(slot, waits);
        }
        let waker = waker.clone();
        let mut state = self.state.load(Relaxed);
        if state & final_state != 0 {
            return RegisterOutcome::Ended;
        }
        // SAFETY: ONESHOT-2: the slot is the caller's; the flag is not set, or was cleared just
        // now.
        unsafe { slot.put(waker) };
        loop {
            match self.state.compare_exchange(state, state | waits, AcqRel, Relaxed) {
                Ok(_) => return RegisterOutcome::Registered,
                Err(now) if now & final_state == 0 => state = now,
                Err(_) => {
                    // SAFETY: ONESHOT-2: the waker was put there above, and the flag was not set.
                    drop(unsafe { slot.take() });
                    return RegisterOutcome::Ended;
                }
            }
        }
    }

    /// Removes an end's own waker, if the other end did not.
    fn unregister(&self, slot: &WakerSlot, waits: u32) {
        if self.state.fetch_and(!waits, AcqRel) & waits != 0 {
            // SAFETY: ONESHOT-2: this thread cleared the flag.
            drop(unsafe { slot.take() });
        }
    }

    /// Moves out the sender's and the receiver's wakers, if their flags are in `taken`.
    ///
    /// # Safety
    ///
    /// The caller cleared the flags in `taken` (ONESHOT-2).
    unsafe fn take_wakers(&self, taken: u32) -> (Option<Waker>, Option<Waker>) {
        // SAFETY: by this function's contract.
        let sender = (taken & SENDER_WAITS != 0).then(|| unsafe { self.sender.take() });
        // SAFETY: by this function's contract.
        let receiver = (taken & RECEIVER_WAITS != 0).then(|| unsafe { self.receiver.take() });
        (sender, receiver)
    }
}

/// Frees the allocation.
///
/// # Safety
///
/// The caller is alone (ONESHOT-3). What is left inside is not dropped: the value and the wakers
/// were moved out.
unsafe fn free<T>(shared: NonNull<Shared<T>>) {
    // SAFETY: allocated in `new`, and the caller is the last owner.
    let shared = unsafe { Box::from_raw(shared.as_ptr()) };
    // A model checks here that no other thread accesses the cells.
    shared.value.with_mut(|_| ());
    shared.sender.0.with_mut(|_| ());
    shared.receiver.0.with_mut(|_| ());
}

/// Drops the waker of the detaching end and wakes the other end.
///
/// Both run user code: a panic of one does not keep the other from running.
#[inline]
fn wake_other_and_drop_own(own: Option<Waker>, other: Option<Waker>) {
    match (own, other) {
        (None, other) => PendingWake::new(other).wake(),
        (Some(own), None) => drop(own),
        (Some(own), Some(other)) => wake_and_drop(own, other),
    }
}

#[cold]
#[inline(never)]
fn wake_and_drop(own: Waker, other: Waker) {
    let mut panics = PanicSink::default();
    panics.catch(|| other.wake());
    panics.catch(|| drop(own));
    panics.resume();
}

/// Creates the two ends of a channel.
#[inline]
pub(super) fn new<T>() -> (SenderEnd<T>, ReceiverEnd<T>) {
    let shared = NonNull::from(Box::leak(Box::new(Shared {
        state: AtomicU32::new(0),
        value: UnsafeCell::new(MaybeUninit::uninit()),
        sender: WakerSlot::empty(),
        receiver: WakerSlot::empty(),
    })));
    (SenderEnd(shared), ReceiverEnd(shared))
}

/// The sender's end; exactly one exists.
pub(super) struct SenderEnd<T>(NonNull<Shared<T>>);

// SAFETY: ONESHOT-1 to ONESHOT-3 say which end accesses what. A value goes from one thread to
// another, and is never shared.
unsafe impl<T: Send> Send for SenderEnd<T> {}
// SAFETY: a reference gives access to the state alone, which is atomic.
unsafe impl<T: Send> Sync for SenderEnd<T> {}

impl<T> SenderEnd<T> {
    pub(super) fn shared(&self) -> &Shared<T> {
        // SAFETY: ONESHOT-3: this end has not detached.
        unsafe { self.0.as_ref() }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.shared().state.load(Acquire) & CLOSED != 0
    }

    /// Registers a waker that is woken when the receiver is closed or dropped.
    pub(super) fn register(&mut self, waker: &Waker) -> RegisterOutcome {
        let shared = self.shared();
        shared.register(&shared.sender, SENDER_WAITS, CLOSED, waker)
    }

    /// Sends the value, or returns it if the receiver is closed.
    #[inline]
    pub(super) fn send(self, value: T) -> Result<(), T> {
        let shared = self.shared();
        // SAFETY: ONESHOT-1: not DONE.
        shared.value.with_mut(|slot| unsafe { (*slot).write(value) });
        let mut state = shared.state.load(Relaxed);
        loop {
            if state & CLOSED != 0 {
                // SAFETY: ONESHOT-1: not DONE, and written above.
                return Err(shared.value.with(|slot| unsafe { (*slot).assume_init_read() }));
            }
            match shared.set_final_state(state, DONE | VALUE, SENDER_GONE) {
                Ok(taken) => {
                    let end = ManuallyDrop::new(self);
                    if taken != 0 {
                        // SAFETY: the compare-exchange did not set GONE.
                        unsafe { end.detach(taken) };
                    }
                    return Ok(());
                }
                Err(now) => state = now,
            }
        }
    }

    /// Moves the wakers out, detaches, and wakes the receiver.
    ///
    /// # Safety
    ///
    /// The end has set DONE and not GONE, has cleared the flags in `taken`, and is not used again.
    #[cold]
    unsafe fn detach(&self, taken: u32) {
        // SAFETY: by this function's contract.
        let (own, receiver) = unsafe { self.shared().take_wakers(taken) };
        if self.shared().state.fetch_or(SENDER_GONE, AcqRel) & RECEIVER_GONE != 0 {
            // SAFETY: ONESHOT-3.
            unsafe { free(self.0) };
        }
        wake_other_and_drop_own(own, receiver);
    }
}

impl<T> Shared<T> {
    /// Sets an end's final state and returns the WAITS flags whose wakers the caller moves out.
    ///
    /// If there are none, it also sets `gone`.
    #[inline]
    fn set_final_state(&self, state: u32, final_state: u32, gone: u32) -> Result<u32, u32> {
        let taken = state & WAITS;
        let gone = if taken == 0 { gone } else { 0 };
        let new = state & !WAITS | final_state | gone;
        self.state.compare_exchange(state, new, AcqRel, Acquire).map(|_| taken)
    }
}

impl<T> Drop for SenderEnd<T> {
    fn drop(&mut self) {
        let mut state = self.shared().state.load(Acquire);
        loop {
            if state & RECEIVER_GONE != 0 {
                // SAFETY: ONESHOT-3. The receiver left no waker, and no value was sent.
                return unsafe { free(self.0) };
            }
            match self.shared().set_final_state(state, DONE, SENDER_GONE) {
                Ok(0) => return,
                // SAFETY: the compare-exchange did not set GONE.
                Ok(taken) => return unsafe { self.detach(taken) },
                Err(now) => state = now,
            }
        }
    }
}

/// The state of the value, as the receiver sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueState {
    /// No value, and the sender may still send one.
    Empty,
    /// A value, to be taken by [`finish`](ReceiverEnd::finish).
    Ready,
    /// No value, and none will come.
    Never,
}

/// The receiver's end; exactly one exists.
pub(super) struct ReceiverEnd<T>(NonNull<Shared<T>>);

// SAFETY: ONESHOT-1 to ONESHOT-3 say which end accesses what. A value goes from one thread to
// another, and is never shared.
unsafe impl<T: Send> Send for ReceiverEnd<T> {}
// SAFETY: a reference gives access to the state alone, which is atomic.
unsafe impl<T: Send> Sync for ReceiverEnd<T> {}

impl<T> ReceiverEnd<T> {
    pub(super) fn shared(&self) -> &Shared<T> {
        // SAFETY: ONESHOT-3: this end has not detached.
        unsafe { self.0.as_ref() }
    }

    #[inline]
    pub(super) fn value_state(&self) -> ValueState {
        let state = self.shared().state.load(Acquire);
        match state & (VALUE | DONE | CLOSED) {
            0 => ValueState::Empty,
            state if state & VALUE != 0 => ValueState::Ready,
            _ => ValueState::Never,
        }
    }

    /// Registers a waker that is woken when the sender sends or is dropped.
    pub(super) fn register(&mut self, waker: &Waker) -> RegisterOutcome {
        let shared = self.shared();
        shared.register(&shared.receiver, RECEIVER_WAITS, DONE, waker)
    }

    /// Sets CLOSED, unless the sender is done, and wakes the sender.
    pub(super) fn close(&mut self) {
        let shared = self.shared();
        let mut state = shared.state.load(Acquire);
        while state & (DONE | CLOSED) == 0 {
            let taken = state & SENDER_WAITS;
            let new = state & !SENDER_WAITS | CLOSED;
            match shared.state.compare_exchange(state, new, AcqRel, Acquire) {
                Ok(_) => {
                    // SAFETY: ONESHOT-2: the compare-exchange cleared the flag, if it was set.
                    let (sender, _) = unsafe { shared.take_wakers(taken) };
                    return PendingWake::new(sender).wake();
                }
                Err(now) => state = now,
            }
        }
    }

    /// Detaches the receiver and returns the value if one was sent.
    #[inline]
    pub(super) fn finish(self) -> Option<T> {
        let state = self.shared().state.load(Acquire);
        if state & DONE == 0 {
            // CLOSED: no value will come, and `drop` does the rest.
            return None;
        }
        let end = ManuallyDrop::new(self);
        // SAFETY: DONE is set, and the end is not used again.
        unsafe { end.detach_done(state) }
    }

    /// Takes the value and detaches.
    ///
    /// # Safety
    ///
    /// `state` has DONE, the end has not detached, and is not used again.
    #[inline]
    unsafe fn detach_done(&self, state: u32) -> Option<T> {
        let shared = self.shared();
        // SAFETY: ONESHOT-1: the value was sent, and belongs to the receiver. It is taken once,
        // because this end is not used again.
        let value = (state & VALUE != 0)
            .then(|| shared.value.with(|slot| unsafe { (*slot).assume_init_read() }));
        // Both WAITS flags were cleared with DONE.
        let alone = state & SENDER_GONE != 0
            || shared.state.fetch_or(RECEIVER_GONE, AcqRel) & SENDER_GONE != 0;
        if alone {
            // SAFETY: ONESHOT-3.
            unsafe { free(self.0) };
        }
        value
    }

    /// Moves the wakers out, detaches, and wakes the sender.
    ///
    /// # Safety
    ///
    /// The end has set CLOSED and not GONE, has cleared the flags in `taken`, and is not used
    /// again.
    #[cold]
    unsafe fn detach(&self, taken: u32) {
        // SAFETY: by this function's contract.
        let (sender, own) = unsafe { self.shared().take_wakers(taken) };
        if self.shared().state.fetch_or(RECEIVER_GONE, AcqRel) & SENDER_GONE != 0 {
            // SAFETY: ONESHOT-3. CLOSED was set before DONE, so there is no value.
            unsafe { free(self.0) };
        }
        wake_other_and_drop_own(own, sender);
    }
}

impl<T> Drop for ReceiverEnd<T> {
    fn drop(&mut self) {
        let mut state = self.shared().state.load(Acquire);
        loop {
            if state & DONE != 0 {
                // SAFETY: DONE is set, the end has not detached, and is being dropped.
                return drop(unsafe { self.detach_done(state) });
            }
            match self.shared().set_final_state(state, CLOSED, RECEIVER_GONE) {
                Ok(0) => return,
                // SAFETY: the compare-exchange did not set GONE.
                Ok(taken) => return unsafe { self.detach(taken) },
                Err(now) => state = now,
            }
        }
    }
}
