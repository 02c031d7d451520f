//! Who has what others wait for: the task and the place in the program where it
//! got it. Plain stores, always on; read by whoever asks why a task is not running.

use crate::task::context;
use std::panic::Location;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::*};

/// Somebody who has a thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    /// A task or root; 0 if the holder is neither.
    pub(crate) task: u64,
    /// Where it got the thing; none if it got it at the very moment when it was looked.
    pub(crate) site: Option<&'static Location<'static>>,
    /// It was handed to a future of that task, which has not been polled since.
    pub(crate) granted: bool,
}

impl Held {
    /// The current task, if it gets what it asks for.
    #[inline]
    pub(crate) fn by_current(site: &'static Location<'static>) -> Self {
        Self { task: context::current_id(), site: Some(site), granted: false }
    }

    /// The same, handed over and not yet taken up.
    #[inline]
    pub(crate) fn granted(self) -> Self {
        Self { granted: true, ..self }
    }
}

/// A note of one who does something with a thing, in the thing's own memory. Part of no
/// protocol, so std's atomics also in models. Where several do it at once, a reader may
/// take the task of one and the place of another.
#[derive(Debug)]
pub(crate) struct Holder {
    task: AtomicU64,
    /// Null while there is nobody.
    site: AtomicPtr<Location<'static>>,
}

impl Holder {
    pub(crate) const fn nobody() -> Self {
        Self { task: AtomicU64::new(0), site: AtomicPtr::new(ptr::null_mut()) }
    }

    /// The current task does it.
    #[inline]
    pub(crate) fn set(&self, site: &'static Location<'static>) {
        self.task.store(context::current_id(), Relaxed);
        // Release: who sees the place sees the task.
        self.site.store(ptr::from_ref(site).cast_mut(), Release);
    }

    #[inline]
    pub(crate) fn clear(&self) {
        self.site.store(ptr::null_mut(), Relaxed);
    }

    pub(crate) fn get(&self) -> Option<Held> {
        // SAFETY: only `&'static`s are stored here.
        let site = unsafe { self.site.load(Acquire).as_ref()? };
        Some(Held { task: self.task.load(Relaxed), site: Some(site), granted: false })
    }
}
