//! A lock-free stack of cells: any thread pushes, one thread takes all.
//!
//! The injector uses it for tasks from other threads, and each arena for cells that other threads
//! free.
//!
//! # Protocol
//!
//! A pusher loads `head`, stores that value in the link of its cell, and compare-exchanges `head`
//! to its cell. The taker swaps `head` with null and owns the chain. `close` swaps in a marker that
//! pushers never replace. A pusher that finds the marker keeps its cell.
//!
//! The race to fear is ABA: a cell leaves the stack and returns between the load and the exchange
//! of a pusher. ABA is harmless here: no thread takes a single cell, so the link that the pusher
//! wrote is still the value of `head`.
//!
//! # Orderings
//!
//! A push releases the cell and its link. `take_all` and `close` acquire them. All three are
//! SeqCst, because the schedulers' sleep protocol loads other flags right after a push, and relies
//! on a single order of these operations.

use super::header::Header;
use crate::sys::sync::atomic::{AtomicPtr, Ordering::*};
use std::ptr::{self, NonNull};

#[derive(Debug)]
pub(crate) struct Stack {
    head: AtomicPtr<Header>,
}

/// The error of a push to a closed stack. The caller keeps the cell.
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
        // SAFETY: the chain owns its cells until it returns them, and a cell in use stays mapped.
        self.0 = unsafe { cell.as_ref() }.next.load(Relaxed);
        Some(cell)
    }
}

impl Chain {
    /// Returns the chain in reverse order: oldest first.
    pub(crate) fn reversed(self) -> Chain {
        let mut done = ptr::null_mut();
        for cell in self {
            // SAFETY: the chain owned the cell, and a cell in use stays mapped.
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

    /// Pushes a cell. Fails if the stack is closed.
    ///
    /// # Safety
    ///
    /// The caller must own the link of `cell`. The cell must be alive and in no other list until it
    /// is taken out.
    pub(crate) unsafe fn push(&self, cell: NonNull<Header>) -> Result<(), Closed> {
        let mut head = self.head.load(Relaxed);
        loop {
            if head == closed() {
                // Acquires the closing thread's earlier writes for the caller.
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

    /// Takes all cells.
    ///
    /// Only one thread at a time may take or close, because a `close` between the two steps here
    /// would be reverted.
    pub(crate) fn take_all(&self) -> Chain {
        let head = self.head.load(Relaxed);
        if head.is_null() || head == closed() {
            return Chain(ptr::null_mut());
        }
        let taken = self.head.swap(ptr::null_mut(), SeqCst);
        debug_assert!(taken != closed(), "closed during take_all");
        Chain(taken)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.head.load(Relaxed) == closed()
    }

    /// Takes all cells and closes the stack. Later pushes fail.
    pub(crate) fn close(&self) -> Chain {
        let taken = self.head.swap(closed(), SeqCst);
        Chain(if taken == closed() { ptr::null_mut() } else { taken })
    }
}
