//! Which runtime a thread is in, and whether it may block.

use super::handle::{Handle, TryCurrentError};
use super::shared::Shared;
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::ptr;
use std::sync::Arc;

/// Whether this thread drives tasks right now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Driving {
    No,
    Yes {
        /// The scheduler can go on elsewhere while this thread blocks.
        may_block_in_place: bool,
    },
}

struct RuntimeContext {
    current: Cell<*const Shared>,
    depth: Cell<usize>,
    driving: Cell<Driving>,
    /// `KEEPER` holds something.
    has_keeper: Cell<bool>,
}

/// A reference to a runtime that is shared by what one thread makes: counting
/// here, threads do not get into each other's way as they would on the runtime
/// itself.
pub(crate) struct Keeper {
    pub(crate) shared: Arc<Shared>,
}

thread_local! {
    static CONTEXT: RuntimeContext = const {
        RuntimeContext {
            current: Cell::new(ptr::null()),
            depth: Cell::new(0),
            driving: Cell::new(Driving::No),
            has_keeper: Cell::new(false),
        }
    };
    /// The keeper of the current runtime, once something asked for one.
    static KEEPER: RefCell<Option<Arc<Keeper>>> = const { RefCell::new(None) };
}

/// Makes a runtime the current one until it is dropped.
pub(crate) struct Entered<'a> {
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
        Entered { outer: context.current.replace(shared), depth, left: false, _shared: PhantomData }
    })
}

impl Entered<'_> {
    /// Leaves the context, if this guard is the innermost; otherwise it stays,
    /// since an inner guard will come back to it.
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
#[inline]
pub(crate) fn with_current<R>(f: impl FnOnce(&Shared) -> R) -> Option<R> {
    let current = CONTEXT.with(|context| context.current.get());
    // SAFETY: while it is set, a guard on this thread borrows the Arc.
    unsafe { current.as_ref() }.map(f)
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
pub(crate) fn keeper() -> Result<Arc<Keeper>, TryCurrentError> {
    let current = CONTEXT.with(|context| context.current.get());
    let kept = KEEPER.try_with(|keeper| {
        let keeper = keeper.borrow();
        keeper.as_ref().filter(|kept| ptr::eq(Arc::as_ptr(&kept.shared), current)).cloned()
    });
    if let Ok(Some(keeper)) = kept {
        return Ok(keeper);
    }
    let keeper = Arc::new(Keeper { shared: try_current()?.shared });
    let old = KEEPER.try_with(|slot| slot.replace(Some(keeper.clone()))).ok().flatten();
    CONTEXT.with(|context| context.has_keeper.set(true));
    drop(old);
    Ok(keeper)
}

/// The thread drives tasks until this is dropped.
pub(crate) struct DrivingGuard(Driving);

/// Marks the thread as driving tasks: `block_on` within it would block them.
///
/// # Panics
///
/// If it already does.
#[inline]
#[track_caller]
pub(crate) fn start_driving(may_block_in_place: bool) -> DrivingGuard {
    let driving = CONTEXT.with(|context| context.driving.get());
    // Not inside of the closure, which has no caller to be located at.
    if driving != Driving::No {
        panic!(
            "Cannot start a runtime from within a runtime. This happens because a function (like \
             `block_on`) attempted to block the current thread while the thread is being used to \
             drive asynchronous tasks. Await the future instead, or wrap the call in \
             `task::block_in_place` or `task::spawn_blocking`."
        );
    }
    CONTEXT.with(|context| context.driving.set(Driving::Yes { may_block_in_place }));
    DrivingGuard(driving)
}

impl Drop for DrivingGuard {
    fn drop(&mut self) {
        CONTEXT.with(|context| context.driving.set(self.0));
    }
}

/// Whether this thread drives tasks, so that it must not block.
pub(crate) fn is_driving() -> bool {
    CONTEXT.with(|context| context.driving.get() != Driving::No)
}

/// What a thread that wants to block in place is doing.
pub(crate) enum BlockInPlace {
    /// It drives no tasks: it may block as it likes.
    NotDriving,
    Allowed,
    /// Nobody else could run its tasks meanwhile.
    Refused,
}

pub(crate) fn block_in_place() -> BlockInPlace {
    match CONTEXT.with(|context| context.driving.get()) {
        Driving::No => BlockInPlace::NotDriving,
        Driving::Yes { may_block_in_place: true } => BlockInPlace::Allowed,
        Driving::Yes { may_block_in_place: false } => BlockInPlace::Refused,
    }
}

/// The thread may block until this is dropped.
pub(crate) fn stop_driving() -> DrivingGuard {
    DrivingGuard(CONTEXT.with(|context| context.driving.replace(Driving::No)))
}

/// Forbids `block_in_place` until this is dropped: what is being polled may not
/// leave this thread.
pub(crate) fn forbid_block_in_place() -> DrivingGuard {
    CONTEXT.with(|context| {
        let before = context.driving.get();
        if before != Driving::No {
            context.driving.set(Driving::Yes { may_block_in_place: false });
        }
        DrivingGuard(before)
    })
}
