//! The values of a broadcast, each in its slot until all have seen it.
//!
//! Actors: *senders* put values at positions 0, 1, 2 …, each under the tail's
//! lock, so one at a time; position `p` is in slot `p` modulo the capacity.
//! *Receivers* see the values, each receiver in the order of positions.
//!
//! Rules:
//! - S1. `unseen` counts the receivers that were there when the slot's value was
//!   put and have not passed it. A receiver passes every position from its first
//!   one on, once: by seeing the value, by finding it overwritten, or when it is
//!   dropped. A value is in the slot exactly while `unseen` is not 0.
//! - S2. While `unseen` is 0 the slot is the senders', under the tail's lock. A
//!   receiver that could want the value in it would be counted in `unseen`.
//! - S3. While `unseen` is not 0, value, mark and `unseen` are touched under the
//!   slot's own lock, and by a receiver only if the mark says that the value is
//!   the one it wants. Whoever takes `unseen` to 0 has moved the value out, and
//!   touches neither from then on.
//!
//! So a sender whose receivers keep up takes no second lock. One that overwrites
//! a value tries for the slot's lock, and never waits for it under the tail's:
//! the one who has it may be inside `T::clone`. The clone is under the slot's
//! lock because `T` need not be `Sync`; it is a lock that puts its waiters to
//! sleep, as nobody knows how long a clone takes.
//!
//! Orderings: the Release store of the mark pairs with the Acquire load in
//! [`Ring::see`]: who finds its mark finds the value. The Release store of 0 into
//! `unseen` pairs with the Acquire load in [`Ring::put`]: the next value goes in
//! after the last one was moved out. The slot's lock orders the rest.
#![allow(unsafe_code)]

use crate::sys::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};
use crate::sys::sync::{Mutex, MutexGuard, UnsafeCell};
use std::mem::MaybeUninit;

pub(super) struct Ring<T> {
    /// As many as a power of two.
    slots: Box<[Slot<T>]>,
}

struct Slot<T> {
    /// The value's position plus one; 0 before there was one.
    mark: AtomicU64,
    /// See S1.
    unseen: AtomicUsize,
    lock: Mutex<()>,
    /// See S2 and S3.
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: S2 and S3 let one thread at a time at the value.
unsafe impl<T: Send> Send for Slot<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Slot<T> {}

/// What came of putting a value.
#[must_use]
pub(super) enum Put<T> {
    /// It is there, and took the place of this one, which is to be dropped after
    /// the lock.
    Done(Option<T>),
    /// Somebody is looking at the value that is to be overwritten: let go of the
    /// tail, [wait](Ring::wait) and try again.
    Busy(T),
}

impl<T> Ring<T> {
    /// `capacity` is a power of two.
    pub(super) fn new(capacity: usize) -> Self {
        let slot = |_| Slot {
            mark: AtomicU64::new(0),
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
    fn slot(&self, position: u64) -> &Slot<T> {
        &self.slots[position as usize & (self.slots.len() - 1)]
    }

    /// Puts the value at the tail's position, for so many receivers. Under the
    /// tail's lock.
    #[inline]
    pub(super) fn put(&self, position: u64, value: T, receivers: usize) -> Put<T> {
        let slot = self.slot(position);
        if slot.unseen.load(Acquire) == 0 {
            // SAFETY: S2.
            unsafe { slot.fill(position, value, receivers) };
            return Put::Done(None);
        }
        slot.overwrite(position, value, receivers)
    }

    /// Waits until nobody looks at the value in the slot of `position`.
    pub(super) fn wait(&self, position: u64) {
        drop(self.slot(position).lock.lock());
    }

    /// If the value at `position` is there, passes it, and lets `see` see it,
    /// alone. For a receiver that has not passed it yet.
    #[inline]
    pub(super) fn see<R>(&self, position: u64, see: impl FnOnce(&T) -> R) -> Option<R> {
        let slot = self.slot(position);
        if slot.mark.load(Acquire) != position + 1 {
            return None;
        }
        let lock = slot.lock.lock();
        if slot.mark.load(Relaxed) != position + 1 {
            // Overwritten before we had the lock, and so not ours to pass.
            return None;
        }
        let _looking = Looking { slot, lock: Some(lock) };
        // SAFETY: S3: we have the lock, and are counted in `unseen`.
        Some(slot.value.with(|value| see(unsafe { (*value).assume_init_ref() })))
    }

    /// How many values that end before `position` not everybody has seen.
    pub(super) fn len(&self, position: u64) -> usize {
        // A receiver passes one after the other, so those that all have seen come
        // first.
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

impl<T> Slot<T> {
    /// # Safety
    ///
    /// S2 or S3: under the tail's lock, and either `unseen` is 0 or the caller
    /// has the slot's lock as well, and has moved the value out.
    #[inline]
    unsafe fn fill(&self, position: u64, value: T, receivers: usize) {
        // SAFETY: by contract nobody else is at it, and there is none.
        self.value.with_mut(|slot| unsafe { (*slot).write(value) });
        self.unseen.store(receivers, Relaxed);
        self.mark.store(position + 1, Release);
    }

    #[cold]
    fn overwrite(&self, position: u64, value: T, receivers: usize) -> Put<T> {
        let Some(_lock) = self.lock.try_lock() else {
            return Put::Busy(value);
        };
        // The last one may have passed it before we had the lock.
        let is_there = self.unseen.load(Relaxed) != 0;
        // SAFETY: S3: we have the lock, and a value is there.
        let old = is_there.then(|| unsafe { self.take() });
        // SAFETY: we have both locks, and the slot is empty.
        unsafe { self.fill(position, value, receivers) };
        Put::Done(old)
    }

    /// # Safety
    ///
    /// S3: the value is there, and the caller has the slot's lock.
    unsafe fn take(&self) -> T {
        // SAFETY: by contract.
        self.value.with_mut(|value| unsafe { (*value).assume_init_read() })
    }
}

/// A receiver at a value that it wants; passes it when dropped, so also when
/// `T::clone` panics.
struct Looking<'a, T> {
    slot: &'a Slot<T>,
    lock: Option<MutexGuard<'a, ()>>,
}

impl<T> Drop for Looking<'_, T> {
    #[inline]
    fn drop(&mut self) {
        let unseen = self.slot.unseen.load(Relaxed) - 1;
        // SAFETY: S3: we have the lock, and are counted in `unseen`.
        let last = (unseen == 0).then(|| unsafe { self.slot.take() });
        // Release: see `put`.
        self.slot.unseen.store(unseen, Release);
        drop(self.lock.take());
        // Foreign code, after the lock.
        drop(last);
    }
}

impl<T> Drop for Slot<T> {
    fn drop(&mut self) {
        // Receivers see everything before they go, unless a drop of theirs
        // panicked.
        if self.unseen.load(Relaxed) != 0 {
            // SAFETY: S1; nobody else is there.
            drop(unsafe { self.take() });
        }
    }
}
