//! Which runtime a thread is in. Whether it may block is in `task::enter_guard`.

use super::handle::{Handle, TryCurrentError};
use crate::runtime::inner::Shared;
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::ptr;
use std::sync::Arc;

struct RuntimeContext {
    current: Cell<*const Shared>,
    depth: Cell<usize>,
    /// `KEEPER` holds something.
    has_keeper: Cell<bool>,
}

/// A reference to a runtime that is shared by what one thread makes: counting
/// here, threads do not get into each other's way as they would on the runtime
/// itself.
pub(crate) struct RuntimeRef {
    pub(crate) shared: Arc<Shared>,
}

thread_local! {
    static CONTEXT: RuntimeContext = const {
        RuntimeContext {
            current: Cell::new(ptr::null()),
            depth: Cell::new(0),
            has_keeper: Cell::new(false),
        }
    };
    /// The keeper of the current runtime, once something asked for one.
    static KEEPER: RefCell<Option<Arc<RuntimeRef>>> = const { RefCell::new(None) };
}

/// Makes a runtime the current one until it is dropped.
pub(crate) struct Entered<'a> {
    own: *const Shared,
    outer: *const Shared,
    depth: usize,
    left: bool,
    _shared: PhantomData<(&'a Shared, *const ())>,
}

/// Enters the context of `shared`, which the guard borrows.
#[inline]
pub(crate) fn enter(shared: &Arc<Shared>) -> Entered<'_> {
    // SAFETY of the pointer's later use: the guard borrows `shared`, and
    // `current` is reset when it goes.
    enter_raw(Arc::as_ptr(shared))
}

/// As `enter`, for a guard that may be leaked.
///
/// # Safety
///
/// The caller's reference to `shared` lives as long as the guard, and is leaked
/// if the guard is.
pub(crate) unsafe fn enter_leakable(shared: &Arc<Shared>) -> Entered<'static> {
    enter_raw(Arc::as_ptr(shared))
}

fn enter_raw<'a>(shared: *const Shared) -> Entered<'a> {
    CONTEXT.with(|context| {
        let depth = context.depth.get() + 1;
        context.depth.set(depth);
        let outer = context.current.replace(shared);
        Entered { own: shared, outer, depth, left: false, _shared: PhantomData }
    })
}

impl Entered<'_> {
    /// Leaves the context, if this guard is the innermost; otherwise it stays,
    /// since an inner guard will come back to it, and the runtime with it, for ever.
    ///
    /// # Panics
    ///
    /// If it is not the innermost, unless the thread is panicking already.
    fn leave_once(&self) -> bool {
        CONTEXT.with(|context| {
            if context.depth.get() == self.depth {
                if context.has_keeper.replace(false) {
                    let keeper = KEEPER.try_with(RefCell::take).ok().flatten();
                    drop(keeper);
                }
                context.current.set(self.outer);
                context.depth.set(self.depth - 1);
                return true;
            }
            // It is what an inner guard comes back to, when nobody may have the runtime any more.
            // SAFETY: from an Arc (see `enter_raw`) that the caller still refers to.
            unsafe { Arc::increment_strong_count(self.own) };
            if !std::thread::panicking() {
                panic!(
                    "`EnterGuard` values dropped out of order. Guards returned by \
                     `tokio::runtime::Handle::enter()` must be dropped in the reverse order as \
                     they were acquired."
                );
            }
            false
        })
    }

    /// As dropping it; true if the context does not refer to the runtime now.
    pub(crate) fn leave(&mut self) -> bool {
        !std::mem::replace(&mut self.left, true) && self.leave_once()
    }
}

impl Drop for Entered<'_> {
    #[inline]
    fn drop(&mut self) {
        self.leave();
    }
}

/// Calls `f` with the current runtime, if there is one.
#[inline(always)] // a call costs as much as what most callers do in it
pub(crate) fn with_current<R>(f: impl FnOnce(&Shared) -> R) -> Option<R> {
    let current = CONTEXT.with(|context| context.current.get());
    // SAFETY: while it is set, a guard on this thread borrows the Arc.
    unsafe { current.as_ref() }.map(f)
}

/// How many runtimes this thread has entered and not left.
pub(crate) fn depth() -> usize {
    CONTEXT.with(|context| context.depth.get())
}

pub(crate) fn try_current() -> Result<Handle, TryCurrentError> {
    let current = CONTEXT.with(|context| context.current.get());
    if current.is_null() {
        return Err(TryCurrentError::missing());
    }
    // SAFETY: as above; the pointer came from `Arc::as_ptr`, so the count can
    // be raised for the new handle.
    let shared = unsafe {
        Arc::increment_strong_count(current);
        Arc::from_raw(current)
    };
    Ok(Handle::from_shared(shared))
}

/// This thread's keeper of the current runtime.
pub(crate) fn keeper() -> Result<Arc<RuntimeRef>, TryCurrentError> {
    let current = CONTEXT.with(|context| context.current.get());
    let kept = KEEPER.try_with(|keeper| {
        let keeper = keeper.borrow();
        keeper.as_ref().filter(|kept| ptr::eq(Arc::as_ptr(&kept.shared), current)).cloned()
    });
    if let Ok(Some(keeper)) = kept {
        return Ok(keeper);
    }
    let keeper = Arc::new(RuntimeRef { shared: try_current()?.shared });
    let old = KEEPER.try_with(|slot| slot.replace(Some(keeper.clone()))).ok().flatten();
    CONTEXT.with(|context| context.has_keeper.set(true));
    drop(old);
    Ok(keeper)
}
