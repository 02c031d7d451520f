//! Records whether the current thread runs tasks, so that it must not block.
//!
//! A thread that runs tasks is *driving* them, in the words of the panic messages: it is a worker,
//! or in `block_on`.

use std::cell::Cell;

/// Whether this thread runs tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entered {
    No,
    Yes {
        /// Whether the scheduler can hand its tasks to another thread while this one blocks.
        may_block_in_place: bool,
    },
}

thread_local! {
    static DRIVING: Cell<Entered> = const { Cell::new(Entered::No) };
    /// Whether this thread runs the tasks of a simulation. Read to explain why the thread must not
    /// block.
    static SIMULATING: Cell<bool> = const { Cell::new(false) };
}

/// A guard that restores the former state of the thread.
pub(crate) struct EnterGuard(Entered);

/// Marks the thread as one that runs tasks, until the guard is dropped.
///
/// # Panics
///
/// If the thread already runs tasks, which a nested `block_on` would block.
#[inline]
#[track_caller]
pub(crate) fn start_driving(may_block_in_place: bool) -> EnterGuard {
    let driving = DRIVING.get();
    if driving != Entered::No {
        refuse_nested();
    }
    DRIVING.set(Entered::Yes { may_block_in_place });
    EnterGuard(driving)
}

#[cold]
#[inline(never)] // its thread-local flag would cost the caller an instruction
#[track_caller]
fn refuse_nested() -> ! {
    if SIMULATING.get() {
        panic!(
            "`block_on` was called inside a simulation, which runs everything on this thread, \
             including closures of `spawn_blocking`. Nothing else could run until it returned. \
             Await the future in a task instead."
        );
    }
    panic!(
        "Cannot start a runtime from within a runtime. This happens because a function (like \
         `block_on`) attempted to block the current thread while the thread is being used to \
         drive asynchronous tasks. If you are in an async function, use `.await` on the future \
         instead of blocking on it. Otherwise wrap the call in `task::block_in_place` or \
         `task::spawn_blocking`."
    );
}

/// A guard that ends the thread's simulation when it is dropped.
pub(crate) struct SimulatingGuard(());

/// Marks a thread that runs tasks as one that runs a simulation, until the guard is dropped.
pub(crate) fn mark_simulating() -> SimulatingGuard {
    SIMULATING.set(true);
    SimulatingGuard(())
}

impl Drop for SimulatingGuard {
    fn drop(&mut self) {
        SIMULATING.set(false);
    }
}

impl Drop for EnterGuard {
    fn drop(&mut self) {
        DRIVING.set(self.0);
    }
}

/// Panics if this thread must not block; called by functions that block their caller.
///
/// # Panics
///
/// If this thread runs tasks.
#[track_caller]
pub(crate) fn check_may_block() {
    if is_driving() {
        if SIMULATING.get() {
            panic!(
                "a function that blocks its thread was called inside a simulation, which runs \
                 everything on this thread, including closures of `spawn_blocking`. Nothing else \
                 could run until it returned. Use the asynchronous counterpart in a task instead."
            );
        }
        panic!(
            "Cannot block the current thread from within a runtime. This happens because a \
             function attempted to block the current thread while the thread is being used to \
             drive asynchronous tasks. Use the asynchronous counterpart, or wrap the call in \
             `task::block_in_place` or `task::spawn_blocking`."
        );
    }
}

/// Returns whether this thread runs tasks, so that it must not block.
pub(crate) fn is_driving() -> bool {
    DRIVING.get() != Entered::No
}

/// The answer to whether the current thread may block in place.
pub(crate) enum BlockInPlace {
    /// The thread runs no tasks, so it may block anyway.
    NotDriving,
    Allowed,
    /// No other thread could run this thread's tasks meanwhile.
    Refused,
    /// The thread runs a simulation.
    Simulating,
}

/// Returns whether the current thread may block in place.
pub(crate) fn block_in_place() -> BlockInPlace {
    match DRIVING.get() {
        Entered::No => BlockInPlace::NotDriving,
        Entered::Yes { .. } if SIMULATING.get() => BlockInPlace::Simulating,
        Entered::Yes { may_block_in_place: true } => BlockInPlace::Allowed,
        Entered::Yes { may_block_in_place: false } => BlockInPlace::Refused,
    }
}

/// Marks the thread as one that runs no tasks, until the guard is dropped.
pub(crate) fn stop_driving() -> EnterGuard {
    EnterGuard(DRIVING.replace(Entered::No))
}

/// Forbids `block_in_place` until the guard is dropped, because the polled future is not `Send`.
pub(crate) fn forbid_block_in_place() -> EnterGuard {
    let before = DRIVING.get();
    if before != Entered::No {
        DRIVING.set(Entered::Yes { may_block_in_place: false });
    }
    EnterGuard(before)
}
