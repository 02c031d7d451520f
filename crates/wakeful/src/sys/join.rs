//! Joins threads that have ended, without waiting for threads that are still running.

#![allow(unsafe_code)]

use std::thread::JoinHandle;

/// Joins the threads that have ended, so that their stacks are freed. Keeps the other handles.
///
/// A thread has ended when its thread-local destructors have run. [`JoinHandle::is_finished`]
/// returns true earlier. A `join` at that point would wait for the destructors, which may need
/// locks that the caller holds.
pub(crate) fn join_ended(handles: &mut Vec<JoinHandle<()>>) {
    let ended = handles.extract_if(.., |handle| try_join(handle));
    ended.for_each(forget_joined);
}

/// Joins a thread if it has ended. If this returns true, the caller must pass the handle to
/// [`forget_joined`].
#[cfg(not(miri))]
fn try_join(handle: &JoinHandle<()>) -> bool {
    use std::os::unix::thread::JoinHandleExt;
    // SAFETY: the handle exists, so the thread is neither joined nor detached yet.
    let joined =
        || unsafe { libc::pthread_tryjoin_np(handle.as_pthread_t(), std::ptr::null_mut()) == 0 };
    handle.is_finished() && joined()
}

/// Drops the handle without detaching the thread, which is already joined.
#[cfg(not(miri))]
fn forget_joined(handle: JoinHandle<()>) {
    use std::os::unix::thread::JoinHandleExt;
    handle.into_pthread_t();
}

/// Under Miri, no thread is joined before the runtime ends.
#[cfg(miri)]
fn try_join(_handle: &JoinHandle<()>) -> bool {
    false
}

#[cfg(miri)]
fn forget_joined(_handle: JoinHandle<()>) {}
