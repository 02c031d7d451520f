//! The local sets that a thread has entered, innermost first, through which `spawn_local` finds its
//! set.
//!
//! A thread has entered a set while it polls or closes the set, and while it holds an enter guard.

use crate::scheduler::local_set::LocalScheduler;
use std::cell::Cell;
use std::ptr;
use std::rc::Rc;

thread_local! {
    /// A linked list of the sets that this thread has entered, innermost first. Every element is
    /// alive, because elements are unlinked before they are dropped.
    static INNERMOST: Cell<*const EnteredSet> = const { Cell::new(ptr::null()) };
}

/// A set that the thread has entered.
///
/// Elements of polls nest like calls, but enter guards may be dropped in any order.
pub(crate) struct EnteredSet {
    scheduler: Rc<LocalScheduler>,
    /// The number of runtimes that the thread had entered before it entered the set.
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

/// A guard that borrows a listed element, so that the element does not move.
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
        // `EnterGuard` unlists the element. If the guard is leaked, so is the element.
        std::mem::forget(entered.list());
        EnterGuard(entered)
    }

    /// Returns the innermost set that this thread has entered, and the number of runtimes entered
    /// before it.
    pub(crate) fn current() -> Option<(Rc<Self>, usize)> {
        // SAFETY: listed elements are alive.
        let innermost = unsafe { INNERMOST.get().as_ref() }?;
        Some((innermost.scheduler.clone(), innermost.runtimes))
    }
}
