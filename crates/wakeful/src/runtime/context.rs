//! The current runtime of a thread.
//!
//! Whether the thread may block is recorded in `task::enter_guard`.

use super::enter::TryCurrentError;
use super::handle::Handle;
use crate::runtime::inner::RuntimeInner;
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::ptr;
use std::sync::Arc;

struct RuntimeContext {
    current: Cell<*const RuntimeInner>,
    depth: Cell<usize>,
    /// Whether `RUNTIME_REF` is set.
    has_runtime_ref: Cell<bool>,
}

/// A reference to a runtime that all timers and I/O objects of one thread share.
///
/// Each thread has its own reference count, so threads do not contend for the runtime's count.
pub(crate) struct RuntimeRef {
    pub(crate) shared: Arc<RuntimeInner>,
}

thread_local! {
    static CONTEXT: RuntimeContext = const {
        RuntimeContext {
            current: Cell::new(ptr::null()),
            depth: Cell::new(0),
            has_runtime_ref: Cell::new(false),
        }
    };
    /// The `RuntimeRef` of the current runtime, created by the first call of `runtime_ref`.
    static RUNTIME_REF: RefCell<Option<Arc<RuntimeRef>>> = const { RefCell::new(None) };
}

/// A guard that makes a runtime the current one until it is dropped.
pub(crate) struct Entered<'a> {
    own: *const RuntimeInner,
    outer: *const RuntimeInner,
    depth: usize,
    has_left: bool,
    _shared: PhantomData<(&'a RuntimeInner, *const ())>,
}

/// Enters the context of `shared`, which the guard borrows.
#[inline]
pub(crate) fn enter(shared: &Arc<RuntimeInner>) -> Entered<'_> {
    // SAFETY of the pointer's later use: the guard borrows `shared`, and its drop resets `current`.
    enter_raw(Arc::as_ptr(shared))
}

/// Enters the context of `shared` with a guard that may be leaked.
///
/// # Safety
///
/// The caller's reference to `shared` must outlive the guard, and must be leaked if the guard is leaked.
pub(crate) unsafe fn enter_leakable(shared: &Arc<RuntimeInner>) -> Entered<'static> {
    enter_raw(Arc::as_ptr(shared))
}

fn enter_raw<'a>(shared: *const RuntimeInner) -> Entered<'a> {
    CONTEXT.with(|context| {
        let depth = context.depth.get() + 1;
        context.depth.set(depth);
        let outer = context.current.replace(shared);
        Entered { own: shared, outer, depth, has_left: false, _shared: PhantomData }
    })
}

/// Drops this thread's cached `RuntimeRef`.
#[inline(never)]
fn drop_runtime_ref() {
    let runtime_ref = RUNTIME_REF.try_with(RefCell::take).ok().flatten();
    drop(runtime_ref);
}

impl Entered<'_> {
    /// Leaves the context if this guard is the innermost one, and returns whether it was.
    ///
    /// Otherwise an inner guard will restore this runtime as the current one, so the runtime is
    /// leaked.
    ///
    /// # Panics
    ///
    /// If the guard is not the innermost one, unless the thread is panicking already.
    #[inline]
    fn leave_once(&self) -> bool {
        CONTEXT.with(|context| {
            if context.depth.get() == self.depth {
                if context.has_runtime_ref.replace(false) {
                    drop_runtime_ref();
                }
                context.current.set(self.outer);
                context.depth.set(self.depth - 1);
                return true;
            }
            self.leave_out_of_order();
            false
        })
    }

    #[cold]
    #[inline(never)]
    fn leave_out_of_order(&self) {
        // When an inner guard restores the pointer, this reference may be the last one.
        // SAFETY: the pointer is from an Arc (see `enter_raw`) that the caller still holds.
        unsafe { Arc::increment_strong_count(self.own) };
        if !std::thread::panicking() {
            panic!(
                "`EnterGuard` values dropped out of order. Guards returned by \
                 `tokio::runtime::Handle::enter()` must be dropped in the reverse order as \
                 they were acquired."
            );
        }
    }

    /// Leaves the context, like a drop.
    ///
    /// Returns true if the context no longer refers to the runtime.
    #[inline]
    pub(crate) fn leave(&mut self) -> bool {
        !std::mem::replace(&mut self.has_left, true) && self.leave_once()
    }
}

impl Drop for Entered<'_> {
    #[inline]
    fn drop(&mut self) {
        self.leave();
    }
}

/// Calls `f` with the current runtime, if there is one.
#[inline(always)] // a call costs as much as the work of most closures
pub(crate) fn with_current<R>(f: impl FnOnce(&RuntimeInner) -> R) -> Option<R> {
    let current = CONTEXT.with(|context| context.current.get());
    // SAFETY: while the pointer is set, a guard on this thread borrows the Arc.
    unsafe { current.as_ref() }.map(f)
}

/// Returns how many runtimes this thread has entered and not left.
pub(crate) fn depth() -> usize {
    CONTEXT.with(|context| context.depth.get())
}

/// Returns a handle to the current runtime of this thread.
pub(crate) fn try_current() -> Result<Handle, TryCurrentError> {
    let current = CONTEXT.with(|context| context.current.get());
    if current.is_null() {
        return Err(TryCurrentError::missing());
    }
    // SAFETY: while the pointer is set, a guard on this thread borrows the Arc. The pointer is from
    // `Arc::as_ptr`, so the count can be increased for the new handle.
    let shared = unsafe {
        Arc::increment_strong_count(current);
        Arc::from_raw(current)
    };
    Ok(Handle::from_shared(shared))
}

/// Returns this thread's `RuntimeRef` of the current runtime.
pub(crate) fn runtime_ref() -> Result<Arc<RuntimeRef>, TryCurrentError> {
    let current = CONTEXT.with(|context| context.current.get());
    let cached = RUNTIME_REF.try_with(|cached| {
        let cached = cached.borrow();
        cached.as_ref().filter(|cached| ptr::eq(Arc::as_ptr(&cached.shared), current)).cloned()
    });
    if let Ok(Some(runtime_ref)) = cached {
        return Ok(runtime_ref);
    }
    let runtime_ref = Arc::new(RuntimeRef { shared: try_current()?.shared });
    let old = RUNTIME_REF.try_with(|cached| cached.replace(Some(runtime_ref.clone())));
    CONTEXT.with(|context| context.has_runtime_ref.set(true));
    drop(old.ok().flatten());
    Ok(runtime_ref)
}
