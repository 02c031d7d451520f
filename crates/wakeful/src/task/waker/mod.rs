//! Station 7, the waker: a hand-written vtable for task cells.
//!
//! A poll lends the waker to its future. The resource that the task waits for keeps a clone, and
//! wakes the clone at station 8.

pub(crate) mod join_waker;

use super::arena::Arena;
use super::context;
use super::duty::{Release, Wake};
use super::header::Header;
use super::runnable::{Runnable, TaskRef};
use super::wait_target::TargetWord;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::task::{RawWaker, RawWakerVTable, Waker};

static VTABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, drop_waker);

/// The waker that a poll lends to its future.
///
/// The waker is not counted, because the running poll keeps the cell alive. Its clones are counted.
#[inline]
pub(crate) fn borrowed(cell: NonNull<Header>) -> ManuallyDrop<Waker> {
    // SAFETY: the functions of the table keep the contract of RawWaker. The waker is not dropped,
    // so it subtracts no count.
    ManuallyDrop::new(unsafe { Waker::new(cell.as_ptr().cast::<()>(), &VTABLE) })
}

/// Returns whether `waker` is a waker of the task in `cell`.
///
/// A foreign waker may have the same data, but its clones are not counted in the state word.
#[inline]
pub(crate) fn is_waker_of(waker: &Waker, cell: *const Header) -> bool {
    waker.data() == cell.cast::<()>() && std::ptr::eq(waker.vtable(), &VTABLE)
}

/// Drops the join waker of a task, and detaches the wait record of the task that it wakes.
#[cold]
pub(crate) fn detach_and_drop(waker: Waker, joined: u64) {
    let target = TargetWord::of_task(joined);
    if std::ptr::eq(waker.vtable(), &VTABLE) {
        // SAFETY: the vtable shows that this is a task's waker, which keeps its cell alive.
        unsafe { cell_of(waker.data()) }.1.waiting.detach_task(target);
    } else if let Some(record) = context::wait_record_of(&waker) {
        // SAFETY: this is the record of the `block_on` that this thread is in.
        unsafe { record.as_ref() }.detach_task(target);
    }
}

/// Returns the cell and the header that a waker's data refers to.
///
/// # Safety
///
/// `data` must come from `borrowed` or `clone`, and its cell must be alive.
unsafe fn cell_of<'a>(data: *const ()) -> (NonNull<Header>, &'a Header) {
    // SAFETY: by contract.
    unsafe {
        let cell = NonNull::new_unchecked(data.cast_mut().cast::<Header>());
        (cell, cell.as_ref())
    }
}

/// Clones a waker, and counts the clone.
///
/// # Safety
///
/// The contract of `RawWakerVTable`: `data` belongs to a waker with this vtable.
unsafe fn clone(data: *const ()) -> RawWaker {
    // SAFETY: the waker being cloned keeps the cell alive.
    let (cell, header) = unsafe { cell_of(data) };
    // TASK-6: the first clone in a poll is already counted.
    let is_spare = context::is_current(cell.as_ptr()) && header.take_spare_waker();
    if !is_spare {
        header.state.clone_waker();
    }
    RawWaker::new(data, &VTABLE)
}

/// Wakes the task and drops the waker.
///
/// # Safety
///
/// The contract of `RawWakerVTable`: `data` belongs to a waker with this vtable.
unsafe fn wake(data: *const ()) {
    // SAFETY: this waker's count keeps the cell alive until it is subtracted.
    let (cell, header) = unsafe { cell_of(data) };
    if context::try_wake_current(cell.as_ptr()) {
        // TASK-3: marked without an atomic operation.
        return drop_waker_of_current(header);
    }
    // SAFETY: this waker's count keeps the chunk alive.
    if context::runs_scheduler(unsafe { header.chunk.as_ref() }.scheduler) {
        // This thread belongs to the scheduler, and keeps it alive.
        // SAFETY: the duty comes from the state word.
        return unsafe { perform(cell, header.state.wake_by_val()) };
    }
    // The race to fear: once the entry is in a queue, the task may end and its runtime may be
    // dropped while this thread is still inside `schedule`. This waker's count keeps both alive
    // until `schedule` returns.
    // SAFETY: the duty comes from the state word, and the count is subtracted last.
    unsafe {
        perform(cell, header.state.wake_by_ref());
        drop_waker(data);
    }
}

/// Wakes the task and keeps the waker.
///
/// # Safety
///
/// The contract of `RawWakerVTable`: `data` belongs to a waker with this vtable.
unsafe fn wake_by_ref(data: *const ()) {
    // SAFETY: the borrowed waker keeps the cell alive.
    let (cell, header) = unsafe { cell_of(data) };
    if context::try_wake_current(cell.as_ptr()) {
        return;
    }
    // SAFETY: the duty comes from the state word.
    unsafe { perform(cell, header.state.wake_by_ref()) };
}

/// Drops a waker without a wake, and reports an orphan if it was a waiting task's last waker.
///
/// # Safety
///
/// The contract of `RawWakerVTable`: `data` belongs to a waker with this vtable.
unsafe fn drop_waker(data: *const ()) {
    // SAFETY: this waker's count keeps the cell alive until it is subtracted.
    let (cell, header) = unsafe { cell_of(data) };
    if context::is_current(cell.as_ptr()) {
        return drop_waker_of_current(header);
    }
    match header.state.drop_waker() {
        Release::Nothing => {}
        // SAFETY: the state word returned `Free` to this caller.
        Release::Free => unsafe { Arena::free(cell) },
        // SAFETY: the state word counted a handle for the report.
        Release::Orphan => unsafe { TaskRef::from_cell(cell) }.report_orphan(),
    }
}

/// Drops a waker of the task that this thread polls, whose RUNNING keeps the cell alive.
#[inline]
fn drop_waker_of_current(header: &Header) {
    if !header.try_keep_spare_waker() {
        let release = header.state.drop_waker();
        debug_assert_eq!(release, Release::Nothing);
    }
}

/// Performs the duty that a wake or an abort gives its caller.
///
/// # Safety
///
/// `duty` must be the value that the state word of `cell` just returned to this caller.
pub(crate) unsafe fn perform(cell: NonNull<Header>, duty: Wake) {
    match duty {
        Wake::Nothing => {}
        // SAFETY: the state word returned `Free` to this caller.
        Wake::Free => unsafe { Arena::free(cell) },
        Wake::Schedule => {
            // SAFETY: the caller owns the entry, so the cell and its scheduler are alive.
            unsafe {
                let header = cell.as_ref();
                header.chunk.as_ref().scheduler.as_ref().schedule(Runnable::from_cell(cell));
            }
        }
    }
}
