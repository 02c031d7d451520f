//! Station 3, the run-next slot: the task that was woken last, run first by the
//! same worker while what it needs is in the cache.
//!
//! The owner uses it on every wake, so it must cost no atomic step. But a task
//! in it must not be stuck because its owner is stuck in a poll: then any other
//! thread may take it. The price is moved to the thief, who is rare.
//!
//! Protocol. The owner brackets each use with `busy`; the thief asks for the
//! slot with `wanted`:
//!
//! ```text
//!   owner                                thief (the owner looks stuck)
//!   LIFO-1 busy = true                       LIFO-4 wanted = true
//!   LIFO-2 light barrier                     LIFO-5 heavy barrier
//!   LIFO-3 wanted? then busy = false, wait   LIFO-6 busy? then give up
//!      otherwise use the slot               otherwise take what is there
//!      busy = false (Release)               wanted = false (Release)
//! ```
//!
//! The race one fears: both use the slot. The barriers pair up as a full fence
//! on both sides (see `sys::membarrier`), so of "owner reads `wanted`" and "thief
//! reads `busy`" at least one sees the other's write. If the owner sees
//! `wanted`, it waits until the thief is done; if the thief sees `busy`, it
//! gives up. If both do, the thief has given up and the owner goes on. The
//! thief's critical section is a few instructions and never blocks, so the
//! owner's wait is short.
//!
//! `wanted` is taken by exchange, so that there is one thief at a time. Ends of
//! critical sections are Release stores, read with Acquire by the other side:
//! the slot's content is handed over with them.

use crate::sys::membarrier::Barriers;
use crate::sys::sync::atomic::{AtomicBool, Ordering::*};
use crate::sys::sync::{Arc, UnsafeCell, thread};
use crate::task::runnable::Runnable;
use std::cell::Cell;
use std::marker::PhantomData;

/// Apart from its neighbours by two cache lines: its owner writes it all the time.
#[repr(align(128))]
struct Slot {
    busy: AtomicBool,
    wanted: AtomicBool,
    task: UnsafeCell<Option<Runnable>>,
    barriers: Barriers,
}

// SAFETY: the protocol above lets one thread at a time use `task`.
unsafe impl Send for Slot {}
// SAFETY: as above.
unsafe impl Sync for Slot {}

/// Makes a slot and hands out its two roles.
pub(crate) fn slot(barriers: Barriers) -> (Owner, Thief) {
    let slot = Arc::new(Slot {
        busy: AtomicBool::new(false),
        wanted: AtomicBool::new(false),
        task: UnsafeCell::new(None),
        barriers,
    });
    (Owner { slot: slot.clone(), _not_sync: PhantomData }, Thief { slot })
}

/// The worker's end; moves with the worker, is never shared.
pub(crate) struct Owner {
    slot: Arc<Slot>,
    _not_sync: PhantomData<Cell<()>>,
}

/// The end for whoever finds the worker stuck.
pub(crate) struct Thief {
    slot: Arc<Slot>,
}

impl Owner {
    #[inline]
    fn with<R>(&self, f: impl FnOnce(&mut Option<Runnable>) -> R) -> R {
        let slot = &*self.slot;
        slot.busy.store(true, Relaxed); // LIFO-1
        slot.barriers.light(); // LIFO-2
        if slot.wanted.load(Acquire) {
            self.wait(); // LIFO-3
        }
        // SAFETY: the protocol above.
        let result = slot.task.with_mut(|task| f(unsafe { &mut *task }));
        slot.busy.store(false, Release);
        result
    }

    #[cold]
    fn wait(&self) {
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

    /// Puts a task in; gives back the one that was there.
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
    /// Takes the task of a worker that is stuck in a poll. `None`: there is
    /// none, or the worker is not stuck after all.
    pub(crate) fn take(&self) -> Option<Runnable> {
        let slot = &*self.slot;
        if slot.wanted.compare_exchange(false, true, AcqRel, Relaxed).is_err() {
            return None; // another thief is at it
        }
        let is_safe = slot.barriers.try_heavy(); // LIFO-5
        let task = if !is_safe || slot.busy.load(Acquire) {
            None // LIFO-6
        } else {
            // SAFETY: the protocol above.
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
