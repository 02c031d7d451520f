//! What the two ends of a channel share, and who may touch what in it.
//!
//! Actors: the *sender* and the *receiver*. Each says one last word: the
//! sender DONE (with or without a VALUE), the receiver CLOSED, and only before
//! DONE. Each may wait for the other's last word, and leaves with GONE.
//!
//! ```text
//! diagram
//!   sender:    open ──send──► DONE and VALUE ──leave──► SENDER_GONE
//!               └───drop────► DONE ────────────leave──► SENDER_GONE
//!   receiver:  open ──close─► CLOSED ──────────leave──► RECEIVER_GONE
//!               └───finish, drop ──────────────leave──► RECEIVER_GONE
//! ```
//!
//! Rules:
//! - O1. Until DONE the value is the sender's; with VALUE it is the receiver's
//!   from then on, who takes it once. VALUE is never set after CLOSED.
//! - O2. Each end has a slot for its waker, and a WAITS bit. While the bit is not
//!   set, the slot is its end's own. While it is set a waker is in the slot,
//!   which either may look at and nobody writes; whoever clears the bit moves
//!   the waker out. The other end clears it together with its last word, after
//!   which the bit is never set again.
//! - O3. An end with GONE touches nothing any more, and leaves no waker of its
//!   own behind. The end that finds the other one gone is alone, and frees.
//!
//! An end whose last word finds nobody waiting, and who does not wait itself,
//! says GONE in the same step: a value that is sent and received costs one
//! exchange and one load. If there are wakers to move out, GONE takes a step of
//! its own after that, as the memory may be freed from then on.
//!
//! The race one fears: a receiver finds nothing and registers as the sender
//! finds nobody and leaves. Both are steps on one word: the exchange that sets
//! WAITS fails once DONE is there, and the exchange that sets DONE takes over
//! every WAITS before it.
//!
//! Orderings: each exchange releases what was written before it (the value, a
//! waker) and acquires what the other end's did, so AcqRel; whoever reads the
//! value or frees without an exchange of its own loads with Acquire.
#![allow(unsafe_code)]

use crate::sys::IS_MODEL;
use crate::sys::sync::UnsafeCell;
use crate::sys::sync::atomic::{AtomicU32, Ordering::*};
use crate::wait::wake_batch::{PanicSink, PendingWake};
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr::NonNull;
use std::task::Waker;

/// The sender has said its last word.
const DONE: u32 = 1;
/// It has sent.
const VALUE: u32 = 1 << 1;
const SENDER_GONE: u32 = 1 << 2;
/// The sender's waker is in its slot.
const SENDER_WAITS: u32 = 1 << 3;
/// The receiver wants no value any more.
const CLOSED: u32 = 1 << 4;
const RECEIVER_GONE: u32 = 1 << 5;
/// The receiver's waker is in its slot.
const RECEIVER_WAITS: u32 = 1 << 6;

const WAITS: u32 = SENDER_WAITS | RECEIVER_WAITS;

pub(super) struct Shared<T> {
    state: AtomicU32,
    /// See O1.
    value: UnsafeCell<MaybeUninit<T>>,
    /// See O2.
    sender: Slot,
    /// See O2.
    receiver: Slot,
}

const _: () = assert!(IS_MODEL || size_of::<Shared<u64>>() == 48);

/// A place for an end's waker (O2).
struct Slot(UnsafeCell<MaybeUninit<Waker>>);

impl Slot {
    fn empty() -> Self {
        Self(UnsafeCell::new(MaybeUninit::uninit()))
    }

    /// # Safety
    ///
    /// O2: the slot's bit is not set, and the caller is its end.
    unsafe fn put(&self, waker: Waker) {
        // SAFETY: by contract nobody else is at it.
        self.0.with_mut(|slot| unsafe { (*slot).write(waker) });
    }

    /// # Safety
    ///
    /// O2: the caller cleared the slot's bit.
    unsafe fn take(&self) -> Waker {
        // A read, not a write: the other end may be in `is_for`.
        // SAFETY: by contract it is there, and the caller's from now on.
        self.0.with(|slot| unsafe { (*slot).assume_init_read() })
    }

    /// # Safety
    ///
    /// O2: the caller is the slot's end, and saw its bit set.
    unsafe fn is_for(&self, waker: &Waker) -> bool {
        // SAFETY: by contract a waker was put here, and only this end writes
        // here. If it was moved out since, its two pointers still tell whom it
        // woke, and they are all that is looked at.
        self.0.with(|slot| unsafe { (*slot).assume_init_ref().will_wake(waker) })
    }
}

/// What came of an attempt to wait for the other end's last word.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiting {
    /// The last word wakes.
    Registered,
    /// It was said.
    Over,
}

impl<T> Shared<T> {
    /// Puts a waker into an end's own slot, unless the other end has said its
    /// `last_word`.
    fn register(&self, slot: &Slot, waits: u32, last_word: u32, waker: &Waker) -> Waiting {
        if self.state.load(Acquire) & waits != 0 {
            // SAFETY: O2: our slot, and the bit was set.
            if unsafe { slot.is_for(waker) } {
                return Waiting::Registered;
            }
            self.withdraw(slot, waits);
        }
        let waker = waker.clone();
        let mut state = self.state.load(Relaxed);
        if state & last_word != 0 {
            return Waiting::Over;
        }
        // SAFETY: O2: ours; the bit is not set, or was cleared just now.
        unsafe { slot.put(waker) };
        loop {
            match self.state.compare_exchange(state, state | waits, AcqRel, Relaxed) {
                Ok(_) => return Waiting::Registered,
                Err(now) if now & last_word == 0 => state = now,
                Err(_) => {
                    // SAFETY: O2: put there above, and the bit was not set.
                    drop(unsafe { slot.take() });
                    return Waiting::Over;
                }
            }
        }
    }

    /// Takes an end's own waker out again, if the other end did not.
    fn withdraw(&self, slot: &Slot, waits: u32) {
        if self.state.fetch_and(!waits, AcqRel) & waits != 0 {
            // SAFETY: O2: we cleared the bit.
            drop(unsafe { slot.take() });
        }
    }

    /// The wakers whose bits an exchange has just cleared: the sender's and the
    /// receiver's.
    ///
    /// # Safety
    ///
    /// O2: the caller cleared the bits in `taken`.
    unsafe fn take_wakers(&self, taken: u32) -> (Option<Waker>, Option<Waker>) {
        // SAFETY: by contract.
        let sender = (taken & SENDER_WAITS != 0).then(|| unsafe { self.sender.take() });
        // SAFETY: as above.
        let receiver = (taken & RECEIVER_WAITS != 0).then(|| unsafe { self.receiver.take() });
        (sender, receiver)
    }
}

/// # Safety
///
/// O3: the caller is alone. Nothing that is left in there is dropped: the value
/// and the wakers were moved out.
unsafe fn free<T>(shared: NonNull<Shared<T>>) {
    // SAFETY: made in `new`; the caller is the last.
    let shared = unsafe { Box::from_raw(shared.as_ptr()) };
    // For a model, which checks that nobody else is at it.
    shared.value.with_mut(|_| ());
    shared.sender.0.with_mut(|_| ());
    shared.receiver.0.with_mut(|_| ());
}

/// Drops the waker of the end that leaves, and wakes that of the other end. Both are foreign
/// code: neither keeps the other from its turn if it panics.
#[inline]
fn hand_out(own: Option<Waker>, other: Option<Waker>) {
    match (own, other) {
        (None, other) => PendingWake::new(other).wake(),
        (Some(own), None) => drop(own),
        (Some(own), Some(other)) => hand_out_both(own, other),
    }
}

#[cold]
#[inline(never)]
fn hand_out_both(own: Waker, other: Waker) {
    let mut panics = PanicSink::default();
    panics.catch(|| other.wake());
    panics.catch(|| drop(own));
    panics.resume();
}

/// The two ends of a new channel.
#[inline]
pub(super) fn new<T>() -> (Sending<T>, Receiving<T>) {
    let shared = NonNull::from(Box::leak(Box::new(Shared {
        state: AtomicU32::new(0),
        value: UnsafeCell::new(MaybeUninit::uninit()),
        sender: Slot::empty(),
        receiver: Slot::empty(),
    })));
    (Sending(shared), Receiving(shared))
}

/// The sender's end: one of a kind.
pub(super) struct Sending<T>(NonNull<Shared<T>>);

// SAFETY: O1 to O3 say who touches what when; a value goes from one thread to
// another, and is never shared.
unsafe impl<T: Send> Send for Sending<T> {}
// SAFETY: as above; by reference there is only the state to look at.
unsafe impl<T: Send> Sync for Sending<T> {}

impl<T> Sending<T> {
    pub(super) fn shared(&self) -> &Shared<T> {
        // SAFETY: O3: not gone.
        unsafe { self.0.as_ref() }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.shared().state.load(Acquire) & CLOSED != 0
    }

    /// Waits for the receiver to close or to go away.
    pub(super) fn register(&mut self, waker: &Waker) -> Waiting {
        let shared = self.shared();
        shared.register(&shared.sender, SENDER_WAITS, CLOSED, waker)
    }

    /// The value comes back if the receiver is closed.
    #[inline]
    pub(super) fn send(self, value: T) -> Result<(), T> {
        let shared = self.shared();
        // SAFETY: O1: not done.
        shared.value.with_mut(|slot| unsafe { (*slot).write(value) });
        let mut state = shared.state.load(Relaxed);
        loop {
            if state & CLOSED != 0 {
                // SAFETY: O1: not done, and written above.
                return Err(shared.value.with(|slot| unsafe { (*slot).assume_init_read() }));
            }
            match shared.say_last_word(state, DONE | VALUE, SENDER_GONE) {
                Ok(taken) => {
                    let end = ManuallyDrop::new(self);
                    if taken != 0 {
                        // SAFETY: the exchange did not say GONE.
                        unsafe { end.leave(taken) };
                    }
                    return Ok(());
                }
                Err(now) => state = now,
            }
        }
    }

    /// Takes the wakers out, goes, and wakes the receiver.
    ///
    /// # Safety
    ///
    /// The end is done and not gone, and cleared the bits in `taken`; nobody
    /// uses it any more.
    #[cold]
    unsafe fn leave(&self, taken: u32) {
        // SAFETY: by contract.
        let (own, receiver) = unsafe { self.shared().take_wakers(taken) };
        if self.shared().state.fetch_or(SENDER_GONE, AcqRel) & RECEIVER_GONE != 0 {
            // SAFETY: O3.
            unsafe { free(self.0) };
        }
        hand_out(own, receiver);
    }
}

impl<T> Shared<T> {
    /// Moves on from `state` with an end's `last_word`. Answers which wakers
    /// are to be moved out; if there is none, the end is `gone` as well.
    #[inline]
    fn say_last_word(&self, state: u32, last_word: u32, gone: u32) -> Result<u32, u32> {
        let taken = state & WAITS;
        let gone = if taken == 0 { gone } else { 0 };
        let new = state & !WAITS | last_word | gone;
        self.state.compare_exchange(state, new, AcqRel, Acquire).map(|_| taken)
    }
}

impl<T> Drop for Sending<T> {
    fn drop(&mut self) {
        let mut state = self.shared().state.load(Acquire);
        loop {
            if state & RECEIVER_GONE != 0 {
                // SAFETY: O3. It left no waker, and no value was sent.
                return unsafe { free(self.0) };
            }
            match self.shared().say_last_word(state, DONE, SENDER_GONE) {
                Ok(0) => return,
                // SAFETY: the exchange did not say GONE.
                Ok(taken) => return unsafe { self.leave(taken) },
                Err(now) => state = now,
            }
        }
    }
}

/// What a receiver finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Neither a value nor the end.
    Nothing,
    /// The sender is done: there is a value to [`finish`](Receiving::finish)
    /// with.
    Value,
    /// There is no value, nor will there be one.
    End,
}

/// The receiver's end: one of a kind.
pub(super) struct Receiving<T>(NonNull<Shared<T>>);

// SAFETY: as for `Sending`.
unsafe impl<T: Send> Send for Receiving<T> {}
// SAFETY: as for `Sending`.
unsafe impl<T: Send> Sync for Receiving<T> {}

impl<T> Receiving<T> {
    pub(super) fn shared(&self) -> &Shared<T> {
        // SAFETY: O3: not gone.
        unsafe { self.0.as_ref() }
    }

    #[inline]
    pub(super) fn look(&self) -> Found {
        let state = self.shared().state.load(Acquire);
        match state & (VALUE | DONE | CLOSED) {
            0 => Found::Nothing,
            state if state & VALUE != 0 => Found::Value,
            _ => Found::End,
        }
    }

    /// Waits for the sender to send or to go away.
    pub(super) fn register(&mut self, waker: &Waker) -> Waiting {
        let shared = self.shared();
        shared.register(&shared.receiver, RECEIVER_WAITS, DONE, waker)
    }

    /// Nothing can be sent any more, unless it already was.
    pub(super) fn close(&mut self) {
        let shared = self.shared();
        let mut state = shared.state.load(Acquire);
        while state & (DONE | CLOSED) == 0 {
            let taken = state & SENDER_WAITS;
            let new = state & !SENDER_WAITS | CLOSED;
            match shared.state.compare_exchange(state, new, AcqRel, Acquire) {
                Ok(_) => {
                    // SAFETY: O2: the exchange cleared the bit, if it was set.
                    let (sender, _) = unsafe { shared.take_wakers(taken) };
                    return PendingWake::new(sender).wake();
                }
                Err(now) => state = now,
            }
        }
    }

    /// The value, if one was sent; the end of this end.
    #[inline]
    pub(super) fn finish(self) -> Option<T> {
        let state = self.shared().state.load(Acquire);
        if state & DONE == 0 {
            // CLOSED: there will be no value, and dropping does the rest.
            return None;
        }
        let end = ManuallyDrop::new(self);
        // SAFETY: done, and nobody uses it any more.
        unsafe { end.leave_done(state) }
    }

    /// # Safety
    ///
    /// `state` has DONE, the end is not gone, and nobody uses it any more.
    #[inline]
    unsafe fn leave_done(&self, state: u32) -> Option<T> {
        let shared = self.shared();
        // SAFETY: O1: sent, and ours; taken once, as this end ends here.
        let value = (state & VALUE != 0)
            .then(|| shared.value.with(|slot| unsafe { (*slot).assume_init_read() }));
        // Both WAITS bits were cleared with DONE.
        let alone = state & SENDER_GONE != 0
            || shared.state.fetch_or(RECEIVER_GONE, AcqRel) & SENDER_GONE != 0;
        if alone {
            // SAFETY: O3.
            unsafe { free(self.0) };
        }
        value
    }

    /// Takes the wakers out, goes, and wakes the sender.
    ///
    /// # Safety
    ///
    /// The end is closed and not gone, and cleared the bits in `taken`; nobody
    /// uses it any more.
    #[cold]
    unsafe fn leave(&self, taken: u32) {
        // SAFETY: by contract.
        let (sender, own) = unsafe { self.shared().take_wakers(taken) };
        if self.shared().state.fetch_or(RECEIVER_GONE, AcqRel) & SENDER_GONE != 0 {
            // SAFETY: O3; closed before it was done, so there is no value.
            unsafe { free(self.0) };
        }
        hand_out(own, sender);
    }
}

impl<T> Drop for Receiving<T> {
    fn drop(&mut self) {
        let mut state = self.shared().state.load(Acquire);
        loop {
            if state & DONE != 0 {
                // SAFETY: done, not gone, and being dropped.
                return drop(unsafe { self.leave_done(state) });
            }
            match self.shared().say_last_word(state, CLOSED, RECEIVER_GONE) {
                Ok(0) => return,
                // SAFETY: the exchange did not say GONE.
                Ok(taken) => return unsafe { self.leave(taken) },
                Err(now) => state = now,
            }
        }
    }
}
