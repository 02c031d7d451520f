//! Station 3, a worker's own queue: a ring that its owner pushes to and pops
//! from, and that thieves take half of.
//!
//! Protocol. `head` and `tail` only ever grow (and wrap); the entries are those
//! from `head` up to `tail`. Only the owner writes slots and `tail`. Everybody,
//! the owner included, takes entries by moving `head` forward with a
//! compare-exchange: a thief first copies the slots it wants, then tries to move
//! `head` past them, and throws the copies away if somebody else was faster.
//!
//! The race one fears: a thief copies a slot that the owner is overwriting. The
//! owner overwrites slot `i` only when `head` has passed `i`, and then the
//! thief's exchange fails, since `head` is no longer what it read. (For `head`
//! to come round to the same value in between, four thousand million tasks
//! would have to pass during one steal.) Slots are atomics, so the copy itself
//! is no data race.
//!
//! Orderings:
//! - QUEUE-1. `tail` is stored with Release after the slot; a thief's Acquire load of
//!   `tail` sees the slot, and everything written to the task before the push.
//! - QUEUE-2. `head` is moved with Release after the slots were copied; the owner's
//!   Acquire load of `head` comes before it overwrites them.

use crate::sys::IS_MODEL;
use crate::sys::sync::Arc;
use crate::sys::sync::atomic::{AtomicPtr, AtomicU32, Ordering::*};
use crate::task::header::Header;
use crate::task::runnable::Runnable;
use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};

/// Entries per ring; a model has to be small.
pub(crate) const CAPACITY: u32 = if IS_MODEL { 4 } else { 2048 };
const MASK: u32 = CAPACITY - 1;
const _: () = assert!(CAPACITY.is_power_of_two());

/// Apart from its neighbours by two cache lines: its owner writes it all the time.
#[repr(align(128))]
struct Ring {
    head: AtomicU32,
    tail: AtomicU32,
    slots: Box<[AtomicPtr<Header>]>,
}

impl Ring {
    fn slot(&self, index: u32) -> &AtomicPtr<Header> {
        &self.slots[(index & MASK) as usize]
    }

    fn len(&self) -> u32 {
        // `tail` first: read the other way round, a pop and push in between
        // could make it look as if more were there than fits.
        let tail = self.tail.load(Acquire);
        let head = self.head.load(Acquire);
        let len = tail.wrapping_sub(head);
        if len > CAPACITY { 0 } else { len }
    }
}

/// Makes a ring and hands out its two roles.
pub(crate) fn ring() -> (Owner, Stealer) {
    let slots = (0..CAPACITY).map(|_| AtomicPtr::new(ptr::null_mut())).collect();
    // Every ring wraps around early in its life, rather than none in a test.
    let start = 0u32.wrapping_sub(CAPACITY / 2);
    let ring = Arc::new(Ring { head: AtomicU32::new(start), tail: AtomicU32::new(start), slots });
    (Owner { ring: ring.clone(), _not_sync: PhantomData }, Stealer { ring })
}

/// The worker's end. One per ring; moves with the worker, is never shared.
pub(crate) struct Owner {
    ring: Arc<Ring>,
    _not_sync: PhantomData<Cell<()>>,
}

/// The end for everybody else.
pub(crate) struct Stealer {
    ring: Arc<Ring>,
}

/// The ring was full: these go elsewhere, in this order.
#[derive(Debug)]
#[must_use]
pub(crate) struct Overflow {
    pub(crate) oldest_half: Vec<Runnable>,
    pub(crate) newest: Runnable,
}

impl Owner {
    /// Appends a task, or gives back half of the ring with it.
    #[inline]
    pub(crate) fn push(&self, task: Runnable) -> Result<(), Overflow> {
        // Only the owner writes `tail`, so Relaxed reads the latest.
        let tail = self.ring.tail.load(Relaxed);
        // QUEUE-2: what thieves copied is copied.
        let head = self.ring.head.load(Acquire);
        let len = tail.wrapping_sub(head);
        debug_assert!(len <= CAPACITY, "ring runs over: {len}");
        if len < CAPACITY {
            self.ring.slot(tail).store(task.into_cell().as_ptr(), Relaxed);
            self.ring.tail.store(tail.wrapping_add(1), Release); // QUEUE-1
            return Ok(());
        }
        self.push_full(task, head)
    }

    #[cold]
    fn push_full(&self, task: Runnable, head: u32) -> Result<(), Overflow> {
        let oldest_half = self.ring.take(head, CAPACITY / 2);
        if oldest_half.is_empty() {
            // A thief made room meanwhile.
            return self.push(task);
        }
        Err(Overflow { oldest_half, newest: task })
    }

    /// The oldest task.
    #[inline]
    pub(crate) fn pop(&self) -> Option<Runnable> {
        let mut head = self.ring.head.load(Acquire);
        loop {
            if head == self.ring.tail.load(Relaxed) {
                return None;
            }
            let cell = self.ring.slot(head).load(Relaxed);
            let next = head.wrapping_add(1);
            match self.ring.head.compare_exchange_weak(head, next, AcqRel, Acquire) {
                // SAFETY: the exchange made the entry ours.
                Ok(_) => return Some(unsafe { entry(cell) }),
                Err(seen) => head = seen,
            }
        }
    }

    pub(crate) fn len(&self) -> u32 {
        self.ring.len()
    }

    pub(crate) fn free_slots(&self) -> u32 {
        CAPACITY - self.len()
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        while let Some(task) = self.pop() {
            task.cancel();
        }
    }
}

impl Ring {
    /// Takes `count` entries at `head`, all or, if somebody else was faster,
    /// none.
    fn take(&self, head: u32, count: u32) -> Vec<Runnable> {
        let cells: Vec<*mut Header> =
            (0..count).map(|i| self.slot(head.wrapping_add(i)).load(Relaxed)).collect();
        let next = head.wrapping_add(count);
        if self.head.compare_exchange(head, next, AcqRel, Relaxed).is_err() {
            return Vec::new();
        }
        // SAFETY: the exchange made the entries ours.
        cells.into_iter().map(|cell| unsafe { entry(cell) }).collect()
    }
}

impl Stealer {
    pub(crate) fn len(&self) -> u32 {
        self.ring.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ring.len() == 0
    }

    /// Takes the older half (rounded up): the first is returned, the others
    /// are pushed to `into`.
    pub(crate) fn steal_into(&self, into: &Owner) -> Option<Runnable> {
        loop {
            let head = self.ring.head.load(Acquire);
            let tail = self.ring.tail.load(Acquire); // QUEUE-1
            let len = tail.wrapping_sub(head);
            if len == 0 {
                return None;
            }
            if len > CAPACITY {
                // The two loads straddled a pop and a push: look again.
                continue;
            }
            let count = (len - len / 2).min(into.free_slots() + 1);
            let mut stolen = self.ring.take(head, count).into_iter();
            let Some(first) = stolen.next() else { continue };
            for task in stolen {
                let pushed = into.push(task);
                debug_assert!(pushed.is_ok(), "room was asked for");
            }
            return Some(first);
        }
    }

    /// Takes everything; for a worker that is stuck.
    pub(crate) fn drain(&self, mut each: impl FnMut(Runnable)) {
        loop {
            let head = self.ring.head.load(Acquire);
            let tail = self.ring.tail.load(Acquire);
            let len = tail.wrapping_sub(head);
            if len == 0 {
                return;
            }
            if len <= CAPACITY {
                self.ring.take(head, len).into_iter().for_each(&mut each);
            }
        }
    }
}

/// # Safety
///
/// The caller took this pointer out of a slot by moving `head` past it.
unsafe fn entry(cell: *mut Header) -> Runnable {
    debug_assert!(!cell.is_null(), "an entry between head and tail was never written");
    // SAFETY: pushed as a Runnable, taken once.
    unsafe { Runnable::from_cell(NonNull::new_unchecked(cell)) }
}
