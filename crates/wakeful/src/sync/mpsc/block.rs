//! Storage of messages: blocks of slots, linked in the order of positions, and a cache of spare
//! blocks.
//!
//! Rules (they rely on the tail's word, see `chan`):
//! - BLOCK-1. Slot `p` belongs to the sender that claimed position `p` until it sets `ready`; then
//!   it belongs to the receiver.
//! - BLOCK-2. The sender sets `ready` with Release, and the receiver loads it with Acquire. So the
//!   receiver sees the value, and everything that the sender did before.
//! - BLOCK-3. A sender accesses a block only between claiming one of its slots and setting that
//!   slot's `ready`. So when the receiver has taken all slots of a block, the block belongs to the
//!   receiver alone.
//! - BLOCK-4. The sender that claims a block's last slot links the next block before it sets
//!   `ready`.
//! - BLOCK-5. Only the receiver puts blocks into the spares. Only one sender at a time takes them,
//!   after it has claimed a block's last slot. No sender claims a slot of the next block before it
//!   is done.
#![allow(unsafe_code)]

use crate::sys::IS_MODEL;
use crate::sys::sync::UnsafeCell;
use crate::sys::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering::*};
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};

/// The number of slots of a block.
pub(super) const SLOTS: u64 = if IS_MODEL { 2 } else { 32 };
const _: () = assert!(SLOTS.is_power_of_two());

/// Returns the index of a position within its block.
#[inline]
pub(super) fn offset(position: u64) -> usize {
    (position % SLOTS) as usize
}

/// A block of slots.
///
/// Values and flags are separate arrays: interleaved, most messages would take twice the memory.
/// The values come first, so that none of them crosses a cache line if its size is a power of two.
#[repr(C)]
pub(super) struct Block<T> {
    /// See BLOCK-1.
    values: [UnsafeCell<MaybeUninit<T>>; SLOTS as usize],
    /// See BLOCK-2. Reset by the receiver once the block belongs to it alone (BLOCK-3).
    ready: [AtomicBool; SLOTS as usize],
    /// Null until the last slot is claimed (BLOCK-4).
    next: AtomicPtr<Block<T>>,
}

impl<T> Block<T> {
    /// Allocates an empty block. It is initialized in place on the heap, because with large
    /// messages it would not fit on a stack.
    #[cold]
    pub(super) fn alloc() -> NonNull<Self> {
        let block = NonNull::from(Box::leak(Box::<Self>::new_uninit())).cast::<Self>();
        // SAFETY: the memory has the right size, and no other thread knows it. The values are
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

    /// Frees a block.
    ///
    /// # Safety
    ///
    /// The block came from `alloc`, all of its slots are empty, and it is not used again.
    pub(super) unsafe fn free(block: NonNull<Self>) {
        // SAFETY: by this function's contract.
        drop(unsafe { Box::from_raw(block.as_ptr()) });
    }

    /// Returns a slot's value and flag.
    ///
    /// # Safety
    ///
    /// `offset` is below SLOTS.
    #[inline]
    unsafe fn slot(&self, offset: usize) -> (&UnsafeCell<MaybeUninit<T>>, &AtomicBool) {
        // SAFETY: by this function's contract.
        unsafe { (self.values.get_unchecked(offset), self.ready.get_unchecked(offset)) }
    }

    /// Writes a value and marks its slot as ready.
    ///
    /// # Safety
    ///
    /// The caller claimed this slot, and fills it once (BLOCK-1).
    #[inline]
    pub(super) unsafe fn fill(block: NonNull<Self>, offset: usize, value: T) {
        // SAFETY: BLOCK-3: the block is alive, because the slot is not ready; the offset is below
        // SLOTS.
        let (cell, ready) = unsafe { block.as_ref().slot(offset) };
        // SAFETY: BLOCK-1.
        cell.with_mut(|cell| unsafe { (*cell).write(value) });
        ready.store(true, Release);
    }

    /// Links the next block.
    ///
    /// # Safety
    ///
    /// The caller claimed the last slot, and has not filled it yet (BLOCK-4).
    #[inline]
    pub(super) unsafe fn link(block: NonNull<Self>, next: NonNull<Self>) {
        // SAFETY: BLOCK-3. Relaxed: the receiver reads it after it saw the last slot's `ready`,
        // which is stored with Release after this.
        unsafe { block.as_ref() }.next.store(next.as_ptr(), Relaxed);
    }
}

/// The receiver's position.
pub(super) struct Reader<T> {
    block: NonNull<Block<T>>,
    /// The next position to read.
    position: u64,
}

impl<T> Reader<T> {
    /// Creates the only reader of a channel.
    ///
    /// # Safety
    ///
    /// The slots before `position` were read, and there is no other reader.
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
        // SAFETY: BLOCK-3: the reader's block has a slot that was not read yet, so it is in use;
        // `offset` is below SLOTS.
        unsafe { self.block.as_ref().slot(offset(self.position)) }
    }

    /// Returns whether the next message is ready.
    #[inline]
    pub(super) fn is_ready(&self) -> bool {
        self.slot().1.load(Acquire)
    }

    /// Takes the next message if it is ready.
    #[inline(always)]
    pub(super) fn pop(&mut self, spares: &SpareBlocks<T>) -> Option<T> {
        let (cell, ready) = self.slot();
        if !ready.load(Acquire) {
            return None;
        }
        // SAFETY: BLOCK-1, BLOCK-2: the slot is filled. It is read once, because the position
        // advances.
        let value = cell.with(|value| unsafe { (*value).assume_init_read() });
        self.position = (self.position + 1) % super::tail::POSITIONS;
        if offset(self.position) == 0 {
            self.leave_block(spares);
        }
        Some(value)
    }

    #[inline(never)]
    fn leave_block(&mut self, spares: &SpareBlocks<T>) {
        let done = self.block;
        // SAFETY: BLOCK-3: the block belongs to the receiver alone.
        let block = unsafe { done.as_ref() };
        let next = block.next.load(Relaxed);
        self.block = NonNull::new(next).expect("BLOCK-4: the next block was linked");
        block.next.store(ptr::null_mut(), Relaxed);
        block.ready.iter().for_each(|ready| ready.store(false, Relaxed));
        // SAFETY: BLOCK-3, and all slots were read.
        unsafe { spares.put(done) };
    }
}

/// The largest number of spare blocks.
const MAX_SPARES: usize = if IS_MODEL { 1 } else { 8 };
/// The approximate memory limit of all spare blocks. At least one block is always kept.
const SPARE_BYTES: usize = 16 << 10;

/// Empty blocks on their way back to senders: a ring buffer with one producer and one consumer at a
/// time (BLOCK-5).
pub(super) struct SpareBlocks<T> {
    ring: [AtomicPtr<Block<T>>; MAX_SPARES],
    /// The index at which the receiver puts the next block.
    put: AtomicU32,
    /// The index from which a sender takes the next block. Written by one sender at a time
    /// (BLOCK-5).
    take: AtomicU32,
}

impl<T> SpareBlocks<T> {
    /// The number of spare blocks that are kept for this type.
    const KEPT: u32 = {
        let fit = SPARE_BYTES / size_of::<Block<T>>();
        if fit == 0 {
            1
        } else if fit < MAX_SPARES {
            fit as u32
        } else {
            MAX_SPARES as u32
        }
    };

    pub(super) fn new() -> Self {
        Self {
            ring: std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
            put: AtomicU32::new(0),
            take: AtomicU32::new(0),
        }
    }

    /// Keeps a block, or frees it if the ring is full.
    ///
    /// # Safety
    ///
    /// The caller is the receiver (BLOCK-5); the block is empty and belongs to it alone.
    unsafe fn put(&self, block: NonNull<Block<T>>) {
        let index = self.put.load(Relaxed);
        let entry = &self.ring[index as usize];
        // Acquire: pairs with the Release in `take`, which ends the sender's use of the entry.
        if !entry.load(Acquire).is_null() {
            // SAFETY: by this function's contract.
            unsafe { Block::free(block) };
            return;
        }
        // Release: the taker sees the block as the receiver left it.
        entry.store(block.as_ptr(), Release);
        self.put.store((index + 1) % Self::KEPT, Relaxed);
    }

    /// Takes a spare block, or allocates one.
    ///
    /// # Safety
    ///
    /// The caller claimed a block's last slot (BLOCK-5).
    pub(super) unsafe fn take(&self) -> NonNull<Block<T>> {
        let index = self.take.load(Relaxed);
        let entry = &self.ring[index as usize];
        let Some(block) = NonNull::new(entry.load(Acquire)) else { return Block::alloc() };
        entry.store(ptr::null_mut(), Release);
        self.take.store((index + 1) % Self::KEPT, Relaxed);
        block
    }
}

impl<T> Drop for SpareBlocks<T> {
    fn drop(&mut self) {
        for entry in &self.ring {
            if let Some(block) = NonNull::new(entry.load(Relaxed)) {
                // SAFETY: BLOCK-5: spare blocks are empty, and no other owner is left.
                unsafe { Block::free(block) };
            }
        }
    }
}
