//! The ring buffer of a broadcast channel: each message stays in its slot until all receivers have
//! it.
//!
//! Actors: *senders* store messages at positions 0, 1, 2 …, each under the tail's lock, so one at a
//! time. Position `p` is in slot `p` modulo the capacity. *Receivers* read the messages, each in
//! the order of positions.
//!
//! Rules:
//! - BROADCAST-1. `unseen` counts the receivers that existed when the slot's message was stored and
//!   have not passed it. A receiver passes each position once, starting at its first: by reading
//!   the message, by finding it overwritten, or when the receiver is dropped. A message is in the
//!   slot exactly while `unseen` is not 0.
//! - BROADCAST-2. While `unseen` is 0, the slot belongs to the senders, under the tail's lock. A
//!   receiver that still needs the slot's message would be counted in `unseen`.
//! - BROADCAST-3. While `unseen` is not 0, value, sequence number and `unseen` are accessed under
//!   the slot's own lock. A receiver accesses them only if the sequence number matches its message.
//!   The thread that sets `unseen` to 0 has moved the value out before, and accesses neither value
//!   nor sequence number afterwards.
//!
//! So a sender whose receivers keep up takes no second lock. A sender that overwrites a message
//! only tries to acquire the slot's lock. The sender never waits for that lock under the tail's
//! lock, because the holder may be inside `T::clone`. The clone runs under the slot's lock because
//! `T` need not be `Sync`. That lock puts its waiters to sleep, because a clone can take
//! arbitrarily long.
//!
//! Orderings: the Release store of the sequence number pairs with the Acquire load in
//! [`Ring::with_value`]: a receiver that finds its number sees the value. The Release store of 0 to
//! `unseen` pairs with the Acquire load in [`Ring::put`]. So the next value is stored after the
//! last one was moved out. The slot's lock orders the rest.
#![allow(unsafe_code)]

use crate::sys::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};
use crate::sys::sync::{Mutex, MutexGuard, UnsafeCell};
use std::mem::MaybeUninit;

pub(super) struct Ring<T> {
    /// The slots; their number is a power of two.
    slots: Box<[MessageSlot<T>]>,
}

struct MessageSlot<T> {
    /// The message's position plus one; 0 before the first message.
    sequence: AtomicU64,
    /// See BROADCAST-1.
    unseen: AtomicUsize,
    lock: Mutex<()>,
    /// See BROADCAST-2 and BROADCAST-3.
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: by BROADCAST-2 and BROADCAST-3, one thread at a time accesses the value.
unsafe impl<T: Send> Send for MessageSlot<T> {}
// SAFETY: by BROADCAST-2 and BROADCAST-3, one thread at a time accesses the value.
unsafe impl<T: Send> Sync for MessageSlot<T> {}

/// The result of storing a message.
#[must_use]
pub(super) enum PutOutcome<T> {
    /// The message is stored. The caller drops the overwritten one, if any, after it releases the
    /// lock.
    Stored(Option<T>),
    /// A receiver is reading the message that would be overwritten. The caller releases the tail's
    /// lock, [waits](Ring::wait), and tries again.
    Busy(T),
}

impl<T> Ring<T> {
    /// Creates a ring; `capacity` is a power of two.
    pub(super) fn new(capacity: usize) -> Self {
        let slot = |_| MessageSlot {
            sequence: AtomicU64::new(0),
            unseen: AtomicUsize::new(0),
            lock: Mutex::new(()),
            value: UnsafeCell::new(MaybeUninit::uninit()),
        };
        Self { slots: (0..capacity).map(slot).collect() }
    }

    pub(super) fn capacity(&self) -> u64 {
        self.slots.len() as u64
    }

    #[inline]
    fn slot(&self, position: u64) -> &MessageSlot<T> {
        &self.slots[position as usize & (self.slots.len() - 1)]
    }

    /// Stores a message at the tail's position, for `receivers` receivers. The caller holds the
    /// tail's lock.
    #[inline]
    pub(super) fn put(&self, position: u64, value: T, receivers: usize) -> PutOutcome<T> {
        let slot = self.slot(position);
        if slot.unseen.load(Acquire) == 0 {
            // SAFETY: BROADCAST-2.
            unsafe { slot.fill(position, value, receivers) };
            return PutOutcome::Stored(None);
        }
        slot.overwrite(position, value, receivers)
    }

    /// Waits until no receiver reads the message in the slot of `position`.
    pub(super) fn wait(&self, position: u64) {
        drop(self.slot(position).lock.lock());
    }

    /// Passes the message at `position` if present, and calls `f` with it under the slot's lock.
    ///
    /// The caller is a receiver that has not passed it yet.
    #[inline]
    pub(super) fn with_value<R>(&self, position: u64, f: impl FnOnce(&T) -> R) -> Option<R> {
        let slot = self.slot(position);
        if slot.sequence.load(Acquire) != position + 1 {
            return None;
        }
        let lock = slot.lock.lock();
        if slot.sequence.load(Relaxed) != position + 1 {
            // Overwritten before this thread got the lock, so it is not counted in `unseen`.
            return None;
        }
        let _guard = MessageGuard { slot, lock: Some(lock) };
        // SAFETY: BROADCAST-3: this thread holds the lock, and its receiver is counted in `unseen`.
        Some(slot.value.with(|value| f(unsafe { (*value).assume_init_ref() })))
    }

    /// Returns the number of messages before `position` that some receiver has not passed.
    pub(super) fn len(&self, position: u64) -> usize {
        // Receivers pass messages in order, so the messages that all have passed come first.
        let oldest = position.saturating_sub(self.capacity());
        let (mut low, mut high) = (oldest, position);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.slot(middle).unseen.load(Relaxed) == 0 {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        (position - low) as usize
    }
}

impl<T> MessageSlot<T> {
    /// Stores a message in an empty slot.
    ///
    /// # Safety
    ///
    /// The caller holds the tail's lock. Either `unseen` is 0 (BROADCAST-2), or the caller also
    /// holds the slot's lock and has moved the value out (BROADCAST-3).
    #[inline]
    unsafe fn fill(&self, position: u64, value: T, receivers: usize) {
        // SAFETY: by this function's contract no other thread accesses the value, and the slot is
        // empty.
        self.value.with_mut(|slot| unsafe { (*slot).write(value) });
        self.unseen.store(receivers, Relaxed);
        self.sequence.store(position + 1, Release);
    }

    #[cold]
    fn overwrite(&self, position: u64, value: T, receivers: usize) -> PutOutcome<T> {
        let Some(_lock) = self.lock.try_lock() else {
            return PutOutcome::Busy(value);
        };
        // The last receiver may have passed it before this thread got the lock.
        let has_value = self.unseen.load(Relaxed) != 0;
        // SAFETY: BROADCAST-3: this thread holds the lock, and the slot has a value.
        let old = has_value.then(|| unsafe { self.take() });
        // SAFETY: this thread holds both locks, and the slot is empty.
        unsafe { self.fill(position, value, receivers) };
        PutOutcome::Stored(old)
    }

    /// Moves the value out.
    ///
    /// # Safety
    ///
    /// The slot has a value, and the caller holds the slot's lock (BROADCAST-3).
    unsafe fn take(&self) -> T {
        // SAFETY: by this function's contract.
        self.value.with_mut(|value| unsafe { (*value).assume_init_read() })
    }
}

/// A receiver's access to a message. Dropping the guard passes the message, even if `T::clone`
/// panics.
struct MessageGuard<'a, T> {
    slot: &'a MessageSlot<T>,
    lock: Option<MutexGuard<'a, ()>>,
}

impl<T> Drop for MessageGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        let unseen = self.slot.unseen.load(Relaxed) - 1;
        // SAFETY: BROADCAST-3: this thread holds the lock, and its receiver is counted in `unseen`.
        let last = (unseen == 0).then(|| unsafe { self.slot.take() });
        // Release: pairs with the Acquire load in `put`.
        self.slot.unseen.store(unseen, Release);
        drop(self.lock.take());
        // The drop runs user code, so it comes after the lock is released.
        drop(last);
    }
}

impl<T> Drop for MessageSlot<T> {
    fn drop(&mut self) {
        // Receivers pass all messages before they are dropped, unless a drop of a message panicked.
        if self.unseen.load(Relaxed) != 0 {
            // SAFETY: BROADCAST-1; no other thread has access.
            drop(unsafe { self.take() });
        }
    }
}
