//! Where messages lie: blocks of slots, linked in the order of positions, and the
//! empty ones that are kept for the next use.
//!
//! Rules (they rely on the tail's word, see `chan`):
//! - B1. Slot `p` belongs to the sender that claimed position `p`, until it sets
//!   `ready`; from then on to the receiver.
//! - B2. `ready` is set with Release by the sender and read with Acquire by the
//!   receiver, so that the receiver sees the value, and whatever the sender did
//!   before.
//! - B3. A block is touched by senders only between claiming one of its slots and
//!   setting that slot's `ready`. So when the receiver has taken all of its
//!   slots, the block is the receiver's alone.
//! - B4. Whoever claims a block's last slot links the next block before it sets
//!   `ready`.
//! - B5. Only the receiver puts blocks into the spares, only one sender at a time
//!   takes them out: the one that claimed a block's last slot. Nobody claims a
//!   slot of the next block before it is done.
#![allow(unsafe_code)]

use crate::sys::IS_MODEL;
use crate::sys::sync::UnsafeCell;
use crate::sys::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering::*};
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};

/// Slots of a block.
pub(super) const SLOTS: u64 = if IS_MODEL { 2 } else { 32 };
const _: () = assert!(SLOTS.is_power_of_two());

/// The place of a position within its block.
#[inline]
pub(super) fn offset(position: u64) -> usize {
    (position % SLOTS) as usize
}

/// Flags and values apart from each other: together, most messages would take
/// twice the memory. The values come first, so that none of them lies across two
/// cache lines if its size is a power of two.
#[repr(C)]
pub(super) struct Block<T> {
    /// See B1.
    values: [UnsafeCell<MaybeUninit<T>>; SLOTS as usize],
    /// See B2. Reset by the receiver, once the block is its alone (B3).
    ready: [AtomicBool; SLOTS as usize],
    /// Null until the last slot is claimed (B4).
    next: AtomicPtr<Block<T>>,
}

impl<T> Block<T> {
    /// An empty block. It is written in its place on the heap: with large
    /// messages it would be too much for a stack.
    #[cold]
    pub(super) fn make() -> NonNull<Self> {
        let block = NonNull::from(Box::leak(Box::<Self>::new_uninit())).cast::<Self>();
        // SAFETY: memory of the right size that nobody else knows; the values are
        // `MaybeUninit`, so every field gets its first value here.
        unsafe {
            (&raw mut (*block.as_ptr()).next).write(AtomicPtr::new(ptr::null_mut()));
            for offset in 0..SLOTS as usize {
                let block = block.as_ptr();
                (&raw mut (*block).ready[offset]).write(AtomicBool::new(false));
                if IS_MODEL {
                    let value = UnsafeCell::new(MaybeUninit::uninit());
                    (&raw mut (*block).values[offset]).write(value);
                }
            }
        }
        block
    }

    /// # Safety
    ///
    /// It came from `make`, all of its slots are empty, and nobody will touch it
    /// again.
    pub(super) unsafe fn free(block: NonNull<Self>) {
        // SAFETY: by contract.
        drop(unsafe { Box::from_raw(block.as_ptr()) });
    }

    /// # Safety
    ///
    /// `offset` is below SLOTS.
    #[inline]
    unsafe fn slot(&self, offset: usize) -> (&UnsafeCell<MaybeUninit<T>>, &AtomicBool) {
        // SAFETY: by contract.
        unsafe { (self.values.get_unchecked(offset), self.ready.get_unchecked(offset)) }
    }

    /// # Safety
    ///
    /// B1: the caller claimed this slot, and fills it once.
    #[inline]
    pub(super) unsafe fn fill(block: NonNull<Self>, offset: usize, value: T) {
        // SAFETY: B3: alive, as the slot is not yet ready; the offset is below
        // SLOTS.
        let (place, ready) = unsafe { block.as_ref().slot(offset) };
        // SAFETY: B1.
        place.with_mut(|place| unsafe { (*place).write(value) });
        ready.store(true, Release);
    }

    /// # Safety
    ///
    /// B4: the caller claimed the last slot, and has not filled it yet.
    #[inline]
    pub(super) unsafe fn link(block: NonNull<Self>, next: NonNull<Self>) {
        // SAFETY: B3. Relaxed: the receiver comes here after it saw the last
        // slot's `ready`, which is stored with Release after this.
        unsafe { block.as_ref() }.next.store(next.as_ptr(), Relaxed);
    }
}

/// Where the receiver reads.
pub(super) struct Reader<T> {
    block: NonNull<Block<T>>,
    /// The next position to read.
    position: u64,
}

impl<T> Reader<T> {
    /// # Safety
    ///
    /// The slots before `position` were read, and nobody else reads.
    pub(super) unsafe fn new(block: NonNull<Block<T>>, position: u64) -> Self {
        Self { block, position }
    }

    #[inline]
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    pub(super) fn block(&self) -> NonNull<Block<T>> {
        self.block
    }

    #[inline]
    fn slot(&self) -> (&UnsafeCell<MaybeUninit<T>>, &AtomicBool) {
        // SAFETY: B3: the reader's block has a slot that was not read yet, so it
        // is in use; `offset` is below SLOTS.
        unsafe { self.block.as_ref().slot(offset(self.position)) }
    }

    /// Whether a message is there.
    #[inline]
    pub(super) fn is_ready(&self) -> bool {
        self.slot().1.load(Acquire)
    }

    /// The next message, if it is there.
    #[inline(always)]
    pub(super) fn pop(&mut self, spares: &Spares<T>) -> Option<T> {
        let (place, ready) = self.slot();
        if !ready.load(Acquire) {
            return None;
        }
        // SAFETY: B1, B2: filled, and read once, as the position moves on.
        let value = place.with(|place| unsafe { (*place).assume_init_read() });
        self.position = (self.position + 1) % super::tail::POSITIONS;
        if offset(self.position) == 0 {
            self.leave_block(spares);
        }
        Some(value)
    }

    #[inline(never)]
    fn leave_block(&mut self, spares: &Spares<T>) {
        let done = self.block;
        // SAFETY: B3: ours alone now.
        let block = unsafe { done.as_ref() };
        let next = block.next.load(Relaxed);
        self.block = NonNull::new(next).expect("B4: the next block was linked");
        block.next.store(ptr::null_mut(), Relaxed);
        block.ready.iter().for_each(|ready| ready.store(false, Relaxed));
        // SAFETY: B3, and all slots were read.
        unsafe { spares.put(done) };
    }
}

/// As many spare blocks are kept, if they are small.
const RING: usize = if IS_MODEL { 1 } else { 8 };
/// How much memory all spare blocks may take, roughly. One is kept in any case.
const SPARE_BYTES: usize = 16 << 10;

/// Empty blocks on their way from the receiver to senders: a ring with one reader
/// and one writer at a time (B5).
pub(super) struct Spares<T> {
    ring: [AtomicPtr<Block<T>>; RING],
    /// The place to put the next. Written by the receiver.
    put: AtomicU32,
    /// The place to take the next. Written by senders, one at a time (B5).
    take: AtomicU32,
}

impl<T> Spares<T> {
    /// Places of the ring that are in use.
    const PLACES: u32 = {
        let fit = SPARE_BYTES / size_of::<Block<T>>();
        if fit == 0 {
            1
        } else if fit < RING {
            fit as u32
        } else {
            RING as u32
        }
    };

    pub(super) fn new() -> Self {
        Self {
            ring: std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
            put: AtomicU32::new(0),
            take: AtomicU32::new(0),
        }
    }

    /// # Safety
    ///
    /// By the receiver (B5); the block is empty and its alone.
    unsafe fn put(&self, block: NonNull<Block<T>>) {
        let place = self.put.load(Relaxed);
        let slot = &self.ring[place as usize];
        // Acquire: pairs with the Release of `take`, which ends the taker's use
        // of the place.
        if !slot.load(Acquire).is_null() {
            // SAFETY: by contract.
            unsafe { Block::free(block) };
            return;
        }
        // Release: the taker sees the block as we left it.
        slot.store(block.as_ptr(), Release);
        self.put.store((place + 1) % Self::PLACES, Relaxed);
    }

    /// A spare block, or a new one.
    ///
    /// # Safety
    ///
    /// B5: the caller claimed a block's last slot.
    pub(super) unsafe fn take(&self) -> NonNull<Block<T>> {
        let place = self.take.load(Relaxed);
        let slot = &self.ring[place as usize];
        let Some(block) = NonNull::new(slot.load(Acquire)) else { return Block::make() };
        slot.store(ptr::null_mut(), Release);
        self.take.store((place + 1) % Self::PLACES, Relaxed);
        block
    }
}

impl<T> Drop for Spares<T> {
    fn drop(&mut self) {
        for slot in &self.ring {
            if let Some(block) = NonNull::new(slot.load(Relaxed)) {
                // SAFETY: B5: spare blocks are empty, and nobody else is left.
                unsafe { Block::free(block) };
            }
        }
    }
}
