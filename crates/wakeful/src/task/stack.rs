//! A stack of cells that any thread pushes to and one thread empties at once:
//! the way into the injector, and the way home for memory freed elsewhere.
//!
//! Protocol. Pushers swing `head` from what they saw to their own cell, whose
//! link they set to what they saw. The taker swaps `head` for null and owns the
//! chain. Nobody ever takes a single cell, so a cell that left and came back
//! between a pusher's load and its exchange does no harm: the link it wrote is
//! still what `head` holds. `close` swaps in a marker that pushers never
//! replace; who finds it keeps its cell.
//!
//! Orderings: a push releases the cell and its link; take and close acquire
//! them. All are SeqCst because the schedulers' sleep protocol reads other
//! flags right after a push and relies on one order of all these steps.

use super::header::Header;
use crate::sys::sync::atomic::{AtomicPtr, Ordering::*};
use std::ptr::{self, NonNull};

#[derive(Debug)]
pub(crate) struct Stack {
    head: AtomicPtr<Header>,
}

/// The stack was closed; the cell stays with the caller.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Closed;

fn closed() -> *mut Header {
    ptr::without_provenance_mut(1)
}

/// Cells taken from a stack, newest first.
pub(crate) struct Chain(*mut Header);

impl Iterator for Chain {
    type Item = NonNull<Header>;

    fn next(&mut self) -> Option<NonNull<Header>> {
        let cell = NonNull::new(self.0)?;
        // SAFETY: the chain owns its cells until it hands them out, and their
        // memory is never returned to the system while one is in use.
        self.0 = unsafe { cell.as_ref() }.next.load(Relaxed);
        Some(cell)
    }
}

impl Chain {
    /// Turns the chain around: oldest first.
    pub(crate) fn reversed(self) -> Chain {
        let mut done = ptr::null_mut();
        for cell in self {
            // SAFETY: as in `next`.
            unsafe { cell.as_ref() }.next.store(done, Relaxed);
            done = cell.as_ptr();
        }
        Chain(done)
    }
}

impl Stack {
    pub(crate) fn new() -> Self {
        Self { head: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Pushes a cell whose link the caller owns.
    ///
    /// # Safety
    ///
    /// `cell` is valid, in no other list, and stays so until it is taken out.
    pub(crate) unsafe fn push(&self, cell: NonNull<Header>) -> Result<(), Closed> {
        let mut head = self.head.load(Relaxed);
        loop {
            if head == closed() {
                // Whoever closed it wrote things the caller reads next.
                crate::sys::sync::atomic::fence(Acquire);
                return Err(Closed);
            }
            // SAFETY: the caller owns the link until the exchange succeeds.
            unsafe { cell.as_ref() }.next.store(head, Relaxed);
            match self.head.compare_exchange_weak(head, cell.as_ptr(), SeqCst, Relaxed) {
                Ok(_) => return Ok(()),
                Err(seen) => head = seen,
            }
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        let head = self.head.load(SeqCst);
        head.is_null() || head == closed()
    }

    /// Takes everything. One at a time takes or closes: a stack that is closed
    /// between the two steps here would be open again.
    pub(crate) fn take_all(&self) -> Chain {
        let head = self.head.load(Relaxed);
        if head.is_null() || head == closed() {
            return Chain(ptr::null_mut());
        }
        let taken = self.head.swap(ptr::null_mut(), SeqCst);
        debug_assert!(taken != closed(), "closed while it was taken from");
        Chain(taken)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.head.load(Relaxed) == closed()
    }

    /// Takes everything and lets nobody push again.
    pub(crate) fn close(&self) -> Chain {
        let taken = self.head.swap(closed(), SeqCst);
        Chain(if taken == closed() { ptr::null_mut() } else { taken })
    }
}
