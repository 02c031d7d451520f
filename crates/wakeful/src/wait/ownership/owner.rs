//! The owner of a resource: the task, and the site where it acquired the resource.
//!
//! Owners are always recorded, with plain stores. Dumps and reports read them.

use crate::task::context;
use std::panic::Location;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::*};

/// A task that owns a resource, or a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    /// The id of a task or `block_on` future; 0 if the owner is neither.
    pub(crate) task: u64,
    /// Where the owner acquired the resource. `None` if the site was read before it was written.
    pub(crate) site: Option<&'static Location<'static>>,
    /// Whether the resource was granted to a future of the task that has not been polled since.
    pub(crate) granted_unpolled: bool,
}

impl Owner {
    /// Returns the current task as an owner that acquires a resource at `site`.
    #[inline]
    pub(crate) fn current(site: &'static Location<'static>) -> Self {
        Self { task: context::current_id(), site: Some(site), granted_unpolled: false }
    }

    /// Returns this owner, marked with a grant that its future has not seen yet.
    #[inline]
    pub(crate) fn granted_unpolled(self) -> Self {
        Self { granted_unpolled: true, ..self }
    }
}

/// The last task that used a resource in some way, stored in the resource itself.
///
/// The cell is not part of a protocol, so models also use std's atomics. If several tasks write at
/// once, a reader may combine the task of one with the site of another.
#[derive(Debug)]
pub(crate) struct OwnerCell {
    /// A task id, or NONE.
    task: AtomicU64,
    /// Null if unknown.
    site: AtomicPtr<Location<'static>>,
}

const NONE: u64 = u64::MAX;

impl OwnerCell {
    pub(crate) const fn none() -> Self {
        Self { task: AtomicU64::new(NONE), site: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Stores the current task and `site`.
    #[inline]
    pub(crate) fn set(&self, site: &'static Location<'static>) {
        self.site.store(ptr::from_ref(site).cast_mut(), Relaxed);
        // Release pairs with the Acquire load of `get`: a reader that sees the task sees the site.
        self.task.store(context::current_id(), Release);
    }

    /// Stores the current task, with an unknown site.
    pub(crate) fn set_without_site(&self) {
        self.site.store(ptr::null_mut(), Relaxed);
        self.task.store(context::current_id(), Release);
    }

    /// Returns whether the current task is stored.
    #[inline]
    pub(crate) fn is_current(&self) -> bool {
        self.task.load(Relaxed) == context::current_id()
    }

    #[inline]
    pub(crate) fn clear(&self) {
        self.task.store(NONE, Relaxed);
    }

    pub(crate) fn get(&self) -> Option<Owner> {
        let task = self.task.load(Acquire);
        // SAFETY: only a `&'static` or null is stored here.
        let site = unsafe { self.site.load(Relaxed).as_ref() };
        (task != NONE).then_some(Owner { task, site, granted_unpolled: false })
    }
}
