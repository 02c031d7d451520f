//! The local sets that a thread has entered, innermost first. `spawn_local` finds its set here.
//!
//! A thread enters a set while it polls it, while it closes it, and under an enter guard.

use crate::scheduler::local_set::LocalScheduler;
use std::cell::Cell;
use std::ptr;
use std::rc::Rc;

thread_local! {
    /// A linked list of the sets that this thread has entered, innermost first. Every element is
    /// alive: it is unlinked before it is dropped.
    static INNERMOST: Cell<*const EnteredSet> = const { Cell::new(ptr::null()) };
}

/// A set that the thread has entered.
///
/// The elements of polls are nested like calls. Enter guards may be dropped in any order.
pub(crate) struct EnteredSet {
    scheduler: Rc<LocalScheduler>,
    /// How many runtimes the thread had entered before.
    runtimes: usize,
    outer: Cell<*const EnteredSet>,
}

impl EnteredSet {
    pub(crate) fn new(scheduler: Rc<LocalScheduler>) -> Self {
        let runtimes = scheduler.runtimes_entered();
        Self { scheduler, runtimes, outer: Cell::new(ptr::null()) }
    }

    /// Links the element into the list until the guard is dropped.
    pub(crate) fn list(&self) -> Listed<'_> {
        self.outer.set(INNERMOST.replace(self));
        Listed(self)
    }

    fn unlist(&self) {
        let mut element = INNERMOST.get();
        if ptr::eq(element, self) {
            return INNERMOST.set(self.outer.get());
        }
        // SAFETY: listed elements are alive.
        while let Some(inner) = unsafe { element.as_ref() } {
            if ptr::eq(inner.outer.get(), self) {
                return inner.outer.set(self.outer.get());
            }
            element = inner.outer.get();
        }
        unreachable!("an element is listed until it is unlisted")
    }
}

/// Borrows an element while it is listed, so that it does not move.
pub(crate) struct Listed<'a>(&'a EnteredSet);

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        self.0.unlist();
    }
}

/// Makes a set the thread's innermost one until it is dropped.
pub(crate) struct EnterGuard(Rc<EnteredSet>);

impl Drop for EnterGuard {
    fn drop(&mut self) {
        self.0.unlist();
    }
}

impl LocalScheduler {
    /// Enters the set.
    pub(crate) fn enter(self: &Rc<Self>) -> EnterGuard {
        let entered = Rc::new(EnteredSet::new(self.clone()));
        // `EnterGuard` unlists it. If the guard is leaked, the element is leaked as well.
        std::mem::forget(entered.list());
        EnterGuard(entered)
    }

    /// Returns the innermost set that this thread has entered, and how many runtimes the thread had
    /// entered before it.
    pub(crate) fn current() -> Option<(Rc<Self>, usize)> {
        // SAFETY: listed elements are alive.
        let innermost = unsafe { INNERMOST.get().as_ref() }?;
        Some((innermost.scheduler.clone(), innermost.runtimes))
    }
}
