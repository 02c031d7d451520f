//! Station 3, the local queue of a worker: its owner pushes and pops, thieves steal half of it.
//!
//! # Protocol
//!
//! `head` and `tail` only grow, and wrap. The tasks are in the slots from `head` up to `tail`. Only
//! the owner writes slots and `tail`. All threads, the owner included, take tasks by a
//! compare-exchange of `head`. A thief first copies the slots, then tries to move `head` past them.
//! If another thread has moved `head` meanwhile, the thief discards the copies.
//!
//! The race to fear: a thief copies a slot while the owner overwrites it. It is harmless: the owner
//! overwrites a slot only after `head` has passed it. Then the thief's exchange fails, because
//! `head` no longer has the value that the thief loaded. (`head` could only return to that value if
//! 2³² tasks passed during one steal.) Slots are atomics, so the copy is not a data race.
//!
//! # Orderings
//!
//! - QUEUE-1. `tail` is stored with Release after the slot. A thief that loads `tail` with Acquire
//!   sees the slot, and all writes to the task before the push.
//! - QUEUE-2. `head` is moved with Release after the slots were copied. The owner loads `head` with
//!   Acquire before it overwrites them.

use crate::sys::IS_MODEL;
use crate::sys::sync::Arc;
use crate::sys::sync::atomic::{AtomicPtr, AtomicU32, Ordering::*};
use crate::task::header::Header;
use crate::task::runnable::Runnable;
use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};

/// The capacity of a ring; models need a small one.
pub(crate) const CAPACITY: u32 = if IS_MODEL { 4 } else { 2048 };
const MASK: u32 = CAPACITY - 1;
const _: () = assert!(CAPACITY.is_power_of_two());

/// The shared part, aligned to two cache lines because its owner writes it constantly.
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
        // `tail` first: in the other order, a pop and a push in between could make the length
        // exceed the capacity.
        let tail = self.tail.load(Acquire);
        let head = self.head.load(Acquire);
        let len = tail.wrapping_sub(head);
        if len > CAPACITY { 0 } else { len }
    }
}

/// Creates a ring, and returns its two roles.
pub(crate) fn ring() -> (Owner, Stealer) {
    let slots = (0..CAPACITY).map(|_| AtomicPtr::new(ptr::null_mut())).collect();
    // Every ring wraps around early in its life, so that tests cover it.
    let start = 0u32.wrapping_sub(CAPACITY / 2);
    let ring = Arc::new(Ring { head: AtomicU32::new(start), tail: AtomicU32::new(start), slots });
    (Owner { ring: ring.clone(), _not_sync: PhantomData }, Stealer { ring })
}

/// The worker's end of the ring: one per ring, moved with the worker and never shared.
pub(crate) struct Owner {
    ring: Arc<Ring>,
    _not_sync: PhantomData<Cell<()>>,
}

/// The end of the ring for all other threads.
pub(crate) struct Stealer {
    ring: Arc<Ring>,
}

/// The tasks that a full ring gives up; the caller pushes them to the injector in this order.
#[derive(Debug)]
#[must_use]
pub(crate) struct Overflow {
    pub(crate) oldest_half: Vec<Runnable>,
    pub(crate) newest: Runnable,
}

impl Owner {
    /// Appends a task. If the ring is full, returns the task and the older half of the ring.
    #[inline]
    pub(crate) fn push(&self, task: Runnable) -> Result<(), Overflow> {
        // Only the owner writes `tail`, so Relaxed reads its last value.
        let tail = self.ring.tail.load(Relaxed);
        // QUEUE-2: thieves have copied the slots before `head`.
        let head = self.ring.head.load(Acquire);
        let len = tail.wrapping_sub(head);
        debug_assert!(len <= CAPACITY, "more tasks than slots: {len}");
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
            // A thief has stolen meanwhile, so there is space.
            return self.push(task);
        }
        Err(Overflow { oldest_half, newest: task })
    }

    /// Removes the oldest task.
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
                // SAFETY: the exchange moved `head` past this slot, which gives the entry to the
                // caller.
                Ok(_) => return Some(unsafe { runnable(cell) }),
                Err(seen) => head = seen,
            }
        }
    }

    pub(crate) fn len(&self) -> u32 {
        self.ring.len()
    }

    /// Returns the number of free slots, which thieves may increase at any time.
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
    /// Takes `count` tasks at `head`, or none if another thread has moved `head`.
    fn take(&self, head: u32, count: u32) -> Vec<Runnable> {
        let cells: Vec<*mut Header> =
            (0..count).map(|i| self.slot(head.wrapping_add(i)).load(Relaxed)).collect();
        let next = head.wrapping_add(count);
        if self.head.compare_exchange(head, next, AcqRel, Relaxed).is_err() {
            return Vec::new();
        }
        // SAFETY: the exchange moved `head` past these slots, which gives the entries to the
        // caller.
        cells.into_iter().map(|cell| unsafe { runnable(cell) }).collect()
    }
}

impl Stealer {
    pub(crate) fn len(&self) -> u32 {
        self.ring.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ring.len() == 0
    }

    /// Steals the older half, rounded up, and pushes all tasks but the first to `into`.
    ///
    /// Returns the first task, and the number of stolen tasks.
    pub(crate) fn steal_into(&self, into: &Owner) -> Option<(Runnable, u32)> {
        loop {
            let head = self.ring.head.load(Acquire);
            let tail = self.ring.tail.load(Acquire); // QUEUE-1
            let len = tail.wrapping_sub(head);
            if len == 0 {
                return None;
            }
            if len > CAPACITY {
                // A pop and a push came between the two loads.
                continue;
            }
            let count = (len - len / 2).min(into.free_slots() + 1);
            let mut stolen = self.ring.take(head, count).into_iter();
            let Some(first) = stolen.next() else { continue };
            for task in stolen {
                let pushed = into.push(task);
                debug_assert!(pushed.is_ok(), "`into` has space for them");
            }
            return Some((first, count));
        }
    }

    /// Takes all tasks of a worker that is stuck.
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
/// The caller must have taken this pointer out of a slot by moving `head` past it.
unsafe fn runnable(cell: *mut Header) -> Runnable {
    debug_assert!(!cell.is_null(), "a slot between head and tail was never written");
    // SAFETY: pushed as a Runnable, and taken out once.
    unsafe { Runnable::from_cell(NonNull::new_unchecked(cell)) }
}
