//! Which sets of local tasks a thread is inside of, innermost first: in a poll of
//! the set, in its end, or under an enter guard. This is where `spawn_local`
//! looks.

use crate::scheduler::local_set::LocalScheduler;
use std::cell::Cell;
use std::ptr;
use std::rc::Rc;

thread_local! {
    /// The list of sets that this thread is inside of, the innermost first. Every
    /// frame on it is alive: it is taken off before it goes.
    static INNERMOST: Cell<*const EnteredSet> = const { Cell::new(ptr::null()) };
}

/// The thread is inside a set. Frames of polls are nested like calls; those of
/// enter guards may be dropped in any order.
pub(crate) struct EnteredSet {
    local: Rc<LocalScheduler>,
    /// How many runtimes the thread had entered by then.
    runtimes: usize,
    outer: Cell<*const EnteredSet>,
}

impl EnteredSet {
    pub(crate) fn new(local: Rc<LocalScheduler>) -> Self {
        let runtimes = local.runtimes_entered();
        Self { local, runtimes, outer: Cell::new(ptr::null()) }
    }

    /// Puts the frame on the list until the guard is dropped.
    pub(crate) fn list(&self) -> Listed<'_> {
        self.outer.set(INNERMOST.replace(self));
        Listed(self)
    }

    fn unlist(&self) {
        let mut slot = INNERMOST.get();
        if ptr::eq(slot, self) {
            return INNERMOST.set(self.outer.get());
        }
        // SAFETY: frames on the list are alive.
        while let Some(inner) = unsafe { slot.as_ref() } {
            if ptr::eq(inner.outer.get(), self) {
                return inner.outer.set(self.outer.get());
            }
            slot = inner.outer.get();
        }
        unreachable!("a frame is on the list until it is taken off")
    }
}

/// Keeps a frame where it is while it is on the list.
pub(crate) struct Listed<'a>(&'a EnteredSet);

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        self.0.unlist();
    }
}

/// Makes a set the thread's innermost one until it is dropped.
pub(crate) struct Entered(Rc<EnteredSet>);

impl Drop for Entered {
    fn drop(&mut self) {
        self.0.unlist();
    }
}

impl LocalScheduler {
    /// Enters the set; the guard keeps what is needed for a spawn.
    pub(crate) fn enter(self: &Rc<Self>) -> Entered {
        let frame = Rc::new(EnteredSet::new(self.clone()));
        // Taken off by `Entered`; a guard that is leaked leaks the frame too.
        std::mem::forget(frame.list());
        Entered(frame)
    }

    /// The set that this thread is inside of, the innermost if there are several,
    /// and how many runtimes the thread was in when it entered that.
    pub(crate) fn current() -> Option<(Rc<Self>, usize)> {
        // SAFETY: frames on the list are alive.
        let frame = unsafe { INNERMOST.get().as_ref() }?;
        Some((frame.local.clone(), frame.runtimes))
    }
}
