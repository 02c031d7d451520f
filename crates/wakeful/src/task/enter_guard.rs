//! Whether a thread drives tasks right now, so that it must not block.

use std::cell::Cell;

/// Whether this thread drives tasks right now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entered {
    No,
    Yes {
        /// The scheduler can go on elsewhere while this thread blocks.
        may_block_in_place: bool,
    },
}

thread_local! {
    static DRIVING: Cell<Entered> = const { Cell::new(Entered::No) };
}

/// The thread drives tasks until this is dropped.
pub(crate) struct EnterGuard(Entered);

/// Marks the thread as driving tasks: `block_on` within it would block them.
///
/// # Panics
///
/// If it already does.
#[inline]
#[track_caller]
pub(crate) fn start_driving(may_block_in_place: bool) -> EnterGuard {
    let driving = DRIVING.get();
    if driving != Entered::No {
        panic!(
            "Cannot start a runtime from within a runtime. This happens because a function (like \
             `block_on`) attempted to block the current thread while the thread is being used to \
             drive asynchronous tasks. If you are in an async function, use `.await` on the future \
             instead of blocking on it. Otherwise wrap the call in `task::block_in_place` or \
             `task::spawn_blocking`."
        );
    }
    DRIVING.set(Entered::Yes { may_block_in_place });
    EnterGuard(driving)
}

impl Drop for EnterGuard {
    fn drop(&mut self) {
        DRIVING.set(self.0);
    }
}

/// For functions that block the thread until something happens.
///
/// # Panics
///
/// If this thread drives tasks.
#[track_caller]
pub(crate) fn check_may_block() {
    if is_driving() {
        panic!(
            "Cannot block the current thread from within a runtime. This happens because a \
             function attempted to block the current thread while the thread is being used to \
             drive asynchronous tasks. Use the asynchronous counterpart, or wrap the call in \
             `task::block_in_place` or `task::spawn_blocking`."
        );
    }
}

/// Whether this thread drives tasks, so that it must not block.
pub(crate) fn is_driving() -> bool {
    DRIVING.get() != Entered::No
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
    match DRIVING.get() {
        Entered::No => BlockInPlace::NotDriving,
        Entered::Yes { may_block_in_place: true } => BlockInPlace::Allowed,
        Entered::Yes { may_block_in_place: false } => BlockInPlace::Refused,
    }
}

/// The thread may block until this is dropped.
pub(crate) fn stop_driving() -> EnterGuard {
    EnterGuard(DRIVING.replace(Entered::No))
}

/// Forbids `block_in_place` until this is dropped: what is being polled may not
/// leave this thread.
pub(crate) fn forbid_block_in_place() -> EnterGuard {
    let before = DRIVING.get();
    if before != Entered::No {
        DRIVING.set(Entered::Yes { may_block_in_place: false });
    }
    EnterGuard(before)
}
