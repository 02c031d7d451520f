//! Entering a runtime: [`EnterGuard`], and the error of a thread that has not entered one.

use super::context::{self, Entered};
use super::handle::Handle;
use crate::runtime::inner::RuntimeInner;
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::sync::Arc;

/// A guard that makes a runtime the thread's current one; returned by [`Handle::enter`].
///
/// The runtime stays the current one until the guard is dropped. Guards must be dropped in the
/// reverse order of their creation. The runtime may be shut down before the guard is dropped.
///
/// # Examples
///
/// ```
/// use wakeful::runtime::{Handle, Runtime};
///
/// let runtime = Runtime::new()?;
/// let guard = runtime.enter();
/// assert_eq!(Handle::current().id(), runtime.handle().id());
/// drop(guard);
/// assert!(Handle::try_current().is_err());
/// # Ok::<(), std::io::Error>(())
/// ```
#[must_use = "the runtime is left again when the guard is dropped"]
pub struct EnterGuard<'a> {
    _state: EnterState,
    _handle: PhantomData<&'a Handle>,
}

/// The part of an `EnterGuard` with the destructor.
///
/// It borrows nothing, so the compiler knows that the destructor does not use the guard's lifetime.
struct EnterState {
    entered: Entered<'static>,
    /// The reference that the thread's context relies on. If the guard is leaked or dropped out of
    /// order, the thread may stay in the context forever. Then this reference is leaked as well.
    shared: ManuallyDrop<Arc<RuntimeInner>>,
}

// SAFETY: a shared reference to a guard has no methods. The guard is dropped on the thread that
// entered the runtime, because it is not `Send`.
unsafe impl Sync for EnterState {}

impl Drop for EnterState {
    fn drop(&mut self) {
        if self.entered.leave() {
            // SAFETY: the reference is dropped once, here. `leave` returned true, so the context no
            // longer refers to the runtime.
            unsafe { ManuallyDrop::drop(&mut self.shared) };
        }
    }
}

impl<'a> EnterGuard<'a> {
    #[inline]
    pub(super) fn new(handle: &'a Handle) -> Self {
        let shared = handle.shared.clone();
        // SAFETY: `EnterState` drops this reference only after it has left the context.
        let entered = unsafe { context::enter_leakable(&shared) };
        let state = EnterState { entered, shared: ManuallyDrop::new(shared) };
        Self { _state: state, _handle: PhantomData }
    }
}

impl fmt::Debug for EnterGuard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnterGuard").finish()
    }
}

/// The error of [`Handle::try_current`] on a thread that has no current runtime.
///
/// # Examples
///
/// ```
/// use wakeful::runtime::Handle;
///
/// let error = Handle::try_current().unwrap_err();
/// assert!(error.is_missing_context());
/// ```
pub struct TryCurrentError {
    kind: Kind,
}

#[derive(Debug, PartialEq, Eq)]
enum Kind {
    Missing,
}

impl TryCurrentError {
    pub(crate) fn missing() -> Self {
        Self { kind: Kind::Missing }
    }

    /// Returns whether the thread has no current runtime.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Handle;
    ///
    /// assert!(Handle::try_current().unwrap_err().is_missing_context());
    /// ```
    pub fn is_missing_context(&self) -> bool {
        self.kind == Kind::Missing
    }

    /// Returns whether the thread has already destroyed its thread-local context; always false.
    ///
    /// The context has no destructor, so it lives as long as its thread.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Handle;
    ///
    /// assert!(!Handle::try_current().unwrap_err().is_thread_local_destroyed());
    /// ```
    pub fn is_thread_local_destroyed(&self) -> bool {
        false
    }
}

impl fmt::Debug for TryCurrentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TryCurrentError").field("kind", &self.kind).finish()
    }
}

impl fmt::Display for TryCurrentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "there is no reactor running, must be called from the context of a Tokio 1.x runtime, \
             which here is a wakeful runtime: call it in `#[wakeful::main]`, in \
             `Runtime::block_on` or in a task, or while holding the guard of `Handle::enter`",
        )
    }
}

impl std::error::Error for TryCurrentError {}
