//! Amounts that explain a long wait: how many tasks have arrived, how many permits there are.
//!
//! A note is part of a [`ResourceRecord`](super::resource_record::ResourceRecord). It is written
//! when a task begins to wait, or when a sender is cloned or dropped. The watchdog reads the note
//! for a task that has waited for seconds.
//!
//! The fields are written one by one, and are not part of a protocol. A reader checks afterwards
//! that the note's task has not been polled since. Then the resource is still the same, because the
//! task waits for it. An amount that changed meanwhile is either the newer or the older value.

use std::panic::Location;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::*};

/// The note of one resource.
#[derive(Debug)]
pub(crate) struct StallNote {
    /// The task that the note describes; NONE if there is no note.
    task: AtomicU64,
    count: AtomicU64,
    total: AtomicU64,
    /// Where the resource was created; null if unknown.
    created_at: AtomicPtr<Location<'static>>,
}

const NONE: u64 = u64::MAX;

/// The content of a note, as a reader sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stall {
    /// The task that the note describes, or 0 for every waiting task.
    pub(crate) task: u64,
    /// The smaller amount, or the requested one.
    pub(crate) count: u64,
    /// The expected amount, or the available one.
    pub(crate) total: u64,
    /// Where the resource was created, if known.
    pub(crate) created_at: Option<&'static Location<'static>>,
}

impl StallNote {
    pub(crate) const fn none() -> Self {
        Self {
            task: AtomicU64::new(NONE),
            count: AtomicU64::new(0),
            total: AtomicU64::new(0),
            created_at: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Writes the note.
    pub(crate) fn set(&self, stall: Stall) {
        self.count.store(stall.count, Relaxed);
        self.total.store(stall.total, Relaxed);
        let created_at = stall.created_at.map_or(ptr::null(), ptr::from_ref).cast_mut();
        self.created_at.store(created_at, Relaxed);
        // Pairs with the Acquire load of `get`: a reader that sees the task sees the other fields.
        // SeqCst for FIRST-1.
        self.task.store(stall.task, SeqCst);
    }

    /// Replaces the first amount.
    pub(crate) fn set_count(&self, count: u64) {
        self.count.store(count, Relaxed);
    }

    /// Removes the note.
    pub(crate) fn clear(&self) {
        self.task.store(NONE, SeqCst);
    }

    /// Returns whether there is a note.
    #[inline]
    pub(crate) fn is_set(&self) -> bool {
        self.task.load(Relaxed) != NONE
    }

    pub(crate) fn get(&self) -> Option<Stall> {
        let task = self.task.load(Acquire);
        // SAFETY: only a `&'static` or null is stored here.
        let created_at = unsafe { self.created_at.load(Relaxed).as_ref() };
        let (count, total) = (self.count.load(Relaxed), self.total.load(Relaxed));
        (task != NONE).then_some(Stall { task, count, total, created_at })
    }
}
