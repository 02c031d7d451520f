//! An allocator that counts the bytes and allocations in use.
//!
//! Declare it as the global allocator of a binary with one test: it would count other tests too.
#![allow(dead_code, reason = "each binary uses its own part of this")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// Counts, and forwards every call to the system's allocator.
pub struct Counting {
    bytes: AtomicUsize,
    pieces: AtomicUsize,
}

impl Counting {
    pub const fn new() -> Self {
        Self { bytes: AtomicUsize::new(0), pieces: AtomicUsize::new(0) }
    }

    /// Returns the bytes in use, without the allocator's own overhead.
    pub fn bytes(&self) -> usize {
        self.bytes.load(SeqCst)
    }

    /// Returns the number of allocations in use.
    pub fn pieces(&self) -> usize {
        self.pieces.load(SeqCst)
    }
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    // SAFETY: the caller keeps the trait's contract.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: by the caller's contract.
        let memory = unsafe { System.alloc(layout) };
        if !memory.is_null() {
            self.bytes.fetch_add(layout.size(), SeqCst);
            self.pieces.fetch_add(1, SeqCst);
        }
        memory
    }

    // SAFETY: the caller keeps the trait's contract.
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: by the caller's contract.
        unsafe { System.dealloc(memory, layout) };
        self.bytes.fetch_sub(layout.size(), SeqCst);
        self.pieces.fetch_sub(1, SeqCst);
    }

    // SAFETY: the caller keeps the trait's contract.
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: by the caller's contract.
        let moved = unsafe { System.realloc(memory, layout, new_size) };
        if !moved.is_null() {
            self.bytes.fetch_add(new_size, SeqCst);
            self.bytes.fetch_sub(layout.size(), SeqCst);
        }
        moved
    }
}
