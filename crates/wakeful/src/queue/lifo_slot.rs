//! Station 3, the LIFO slot of a worker: the task that was woken last runs next.
//!
//! The task's data is then still in the cache. The owner uses the slot on every wake, so its path
//! must need no atomic read-modify-write or fence. But a task in the slot must not starve when the
//! owner is stuck in a poll: then another thread, the thief, takes it. The thief pays the cost, and
//! thieves are rare.
//!
//! # Protocol
//!
//! The owner marks each use with `busy`. A thief requests the slot with `wanted`.
//!
//! Owner:
//!
//! - LIFO-1. Stores `busy = true`.
//! - LIFO-2. Executes the light barrier.
//! - LIFO-3. Loads `wanted`. If it is set, stores `busy = false`, waits until `wanted` is clear,
//!   and starts again. Otherwise uses the slot, then stores `busy = false` (Release).
//!
//! Thief, when the owner seems stuck:
//!
//! - LIFO-4. Exchanges `wanted` from false to true. If that fails, another thief has it: gives up.
//! - LIFO-5. Executes the heavy barrier. If the kernel refuses it, stores `wanted = false` and gives
//!   up.
//! - LIFO-6. Loads `busy`. If it is not set, takes the task. In both cases stores `wanted = false`
//!   (Release).
//!
//! The race to fear: both use the slot. It cannot happen: the barriers pair up as a full fence on
//! both sides (`sys::membarrier`). So at least one of LIFO-3 and LIFO-6 sees the store of the other
//! side. An owner that sees `wanted` waits for the thief. A thief that sees `busy` gives up. If
//! both see the other's store, the owner continues after the thief has given up. The thief's
//! critical section is a few instructions and never blocks, so the owner's wait is short.
//!
//! By LIFO-4 there is one thief at a time. The Release store that ends a critical section pairs with
//! the Acquire load of the other side, which then sees the content of the slot.

use crate::sys::membarrier::Barriers;
use crate::sys::sync::atomic::{AtomicBool, Ordering::*};
use crate::sys::sync::{Arc, UnsafeCell, thread};
use crate::task::runnable::Runnable;
use std::cell::Cell;
use std::marker::PhantomData;

/// The shared part, aligned to two cache lines because its owner writes it constantly.
#[repr(align(128))]
struct LifoSlot {
    busy: AtomicBool,
    wanted: AtomicBool,
    task: UnsafeCell<Option<Runnable>>,
    barriers: Barriers,
}

// SAFETY: the protocol gives one thread at a time access to `task`.
unsafe impl Send for LifoSlot {}
// SAFETY: the reason for `Send` covers `Sync`.
unsafe impl Sync for LifoSlot {}

/// Creates a LIFO slot, and returns its two roles.
pub(crate) fn lifo_slot(barriers: Barriers) -> (Owner, Thief) {
    let slot = Arc::new(LifoSlot {
        busy: AtomicBool::new(false),
        wanted: AtomicBool::new(false),
        task: UnsafeCell::new(None),
        barriers,
    });
    (Owner { slot: slot.clone(), _not_sync: PhantomData }, Thief { slot })
}

/// The worker's end of the slot, which moves with the worker and is never shared.
pub(crate) struct Owner {
    slot: Arc<LifoSlot>,
    _not_sync: PhantomData<Cell<()>>,
}

/// The end of the slot for a thread that finds the worker stuck in a poll.
pub(crate) struct Thief {
    slot: Arc<LifoSlot>,
}

impl Owner {
    #[inline]
    fn with<R>(&self, f: impl FnOnce(&mut Option<Runnable>) -> R) -> R {
        let slot = &*self.slot;
        slot.busy.store(true, Relaxed); // LIFO-1
        slot.barriers.light(); // LIFO-2
        if slot.wanted.load(Acquire) {
            self.wait_for_thief(); // LIFO-3
        }
        // SAFETY: LIFO-3: `busy` is set and no thief wants the slot.
        let result = slot.task.with_mut(|task| f(unsafe { &mut *task }));
        slot.busy.store(false, Release);
        result
    }

    #[cold]
    fn wait_for_thief(&self) {
        let slot = &*self.slot;
        loop {
            slot.busy.store(false, Release);
            while slot.wanted.load(Acquire) {
                thread::yield_now();
            }
            slot.busy.store(true, Relaxed);
            slot.barriers.light();
            if !slot.wanted.load(Acquire) {
                return;
            }
        }
    }

    /// Stores a task, and returns the previous one.
    #[inline]
    pub(crate) fn replace(&self, task: Runnable) -> Option<Runnable> {
        self.with(|slot| slot.replace(task))
    }

    #[inline]
    pub(crate) fn take(&self) -> Option<Runnable> {
        self.with(Option::take)
    }

    pub(crate) fn is_full(&self) -> bool {
        self.with(|slot| slot.is_some())
    }
}

impl Thief {
    /// Takes the task of a worker that is stuck in a poll.
    ///
    /// Returns `None` if there is no task, or if the worker uses the slot and so is not stuck.
    pub(crate) fn take(&self) -> Option<Runnable> {
        let slot = &*self.slot;
        // LIFO-4
        if slot.wanted.compare_exchange(false, true, AcqRel, Relaxed).is_err() {
            return None; // another thief is taking
        }
        let has_barrier = slot.barriers.try_heavy(); // LIFO-5
        let task = if !has_barrier || slot.busy.load(Acquire) {
            None // LIFO-6
        } else {
            // SAFETY: LIFO-6: `wanted` is set and the owner does not use the slot.
            slot.task.with_mut(|task| unsafe { (*task).take() })
        };
        slot.wanted.store(false, Release);
        task
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        if let Some(task) = self.take() {
            task.cancel();
        }
    }
}
