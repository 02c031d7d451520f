//! Who has what others wait for: the task and the place in the program where it
//! got it. Plain stores, always on; read by whoever asks why a task is not running.

use crate::task::context;
use std::panic::Location;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::*};

/// Somebody who has a thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    /// A task or root; 0 if the holder is neither.
    pub(crate) task: u64,
    /// Where it got the thing; none if it got it at the very moment when it was looked.
    pub(crate) site: Option<&'static Location<'static>>,
    /// It was handed to a future of that task, which has not been polled since.
    pub(crate) granted_unpolled: bool,
}

impl Owner {
    /// The current task, if it gets what it asks for.
    #[inline]
    pub(crate) fn current(site: &'static Location<'static>) -> Self {
        Self { task: context::current_id(), site: Some(site), granted_unpolled: false }
    }

    /// The same, handed over and not yet taken up.
    #[inline]
    pub(crate) fn granted_unpolled(self) -> Self {
        Self { granted_unpolled: true, ..self }
    }
}

/// A note of one who does something with a thing, in the thing's own memory. Part of no
/// protocol, so std's atomics also in models. Where several do it at once, a reader may
/// take the task of one and the place of another.
#[derive(Debug)]
pub(crate) struct OwnerCell {
    /// Or NOBODY.
    task: AtomicU64,
    /// Null if it is not known.
    site: AtomicPtr<Location<'static>>,
}

const NOBODY: u64 = u64::MAX;

impl OwnerCell {
    pub(crate) const fn nobody() -> Self {
        Self { task: AtomicU64::new(NOBODY), site: AtomicPtr::new(ptr::null_mut()) }
    }

    /// The current task does it.
    #[inline]
    pub(crate) fn set(&self, site: &'static Location<'static>) {
        self.site.store(ptr::from_ref(site).cast_mut(), Relaxed);
        // Release: who sees the task sees the place.
        self.task.store(context::current_id(), Release);
    }

    /// The same, at a place that is not known.
    pub(crate) fn set_without_site(&self) {
        self.site.store(ptr::null_mut(), Relaxed);
        self.task.store(context::current_id(), Release);
    }

    /// Whether the current task did it last.
    #[inline]
    pub(crate) fn is_current(&self) -> bool {
        self.task.load(Relaxed) == context::current_id()
    }

    #[inline]
    pub(crate) fn clear(&self) {
        self.task.store(NOBODY, Relaxed);
    }

    pub(crate) fn get(&self) -> Option<Owner> {
        let task = self.task.load(Acquire);
        // SAFETY: only `&'static`s are stored here.
        let site = unsafe { self.site.load(Relaxed).as_ref() };
        (task != NOBODY).then_some(Owner { task, site, granted_unpolled: false })
    }
}
