//! Station 7, the waker: a hand-written vtable over the task cell. It comes
//! from a poll, lies with whatever the task waits for, and leads to station 8.

pub(crate) mod join_waker;

use super::arena::Arena;
use super::context;
use super::header::Header;
use super::runnable::{Runnable, TaskRef};
use super::state::{Release, Wake};
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::task::{RawWaker, RawWakerVTable, Waker};

static VTABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, drop_waker);

/// The waker that a poll lends to its future: not counted, since the running
/// poll keeps the cell alive; its clones are.
#[inline]
pub(crate) fn borrowed(cell: NonNull<Header>) -> ManuallyDrop<Waker> {
    // SAFETY: the table's functions keep the contract of RawWaker; the waker is
    // not dropped, so it takes no count away.
    ManuallyDrop::new(unsafe { Waker::new(cell.as_ptr().cast::<()>(), &VTABLE) })
}

/// Whether this waker is one of ours for the task in `cell`. Somebody else's may have the same data:
/// it counts nothing, and does with it what its maker likes.
#[inline]
pub(crate) fn is_of(waker: &Waker, cell: *const Header) -> bool {
    waker.data() == cell.cast::<()>() && std::ptr::eq(waker.vtable(), &VTABLE)
}

/// The waker is taken from where its task waits, and dropped: if it is a task's, the
/// task's record does not lead there any longer.
#[cold]
pub(crate) fn detach_and_drop(waker: Waker) {
    if std::ptr::eq(waker.vtable(), &VTABLE) {
        // SAFETY: a waker of ours, which keeps its cell.
        unsafe { cell_of(waker.data()) }.1.waiting.detach();
    } else if let Some(record) = context::wait_record_of(&waker) {
        // SAFETY: that of the root whose `block_on` this thread is in.
        unsafe { record.as_ref() }.detach();
    }
}

/// # Safety
///
/// `data` came from `borrowed` or `clone` and its cell is alive.
unsafe fn cell_of<'a>(data: *const ()) -> (NonNull<Header>, &'a Header) {
    // SAFETY: by contract.
    unsafe {
        let cell = NonNull::new_unchecked(data.cast_mut().cast::<Header>());
        (cell, cell.as_ref())
    }
}

/// # Safety
///
/// As `RawWakerVTable` asks: `data` is that of a waker of ours.
unsafe fn clone(data: *const ()) -> RawWaker {
    // SAFETY: the waker being cloned keeps the cell alive.
    let (cell, header) = unsafe { cell_of(data) };
    let is_spare = context::is_current(cell.as_ptr()) && header.take_spare_waker();
    if !is_spare {
        header.state.clone_waker();
    }
    RawWaker::new(data, &VTABLE)
}

/// # Safety
///
/// As `RawWakerVTable` asks: `data` is that of a waker of ours.
unsafe fn wake(data: *const ()) {
    // SAFETY: this waker's count keeps the cell alive until it is given up.
    let (cell, header) = unsafe { cell_of(data) };
    if context::try_wake_current(cell.as_ptr()) {
        // TASK-3: noted without an atomic step.
        return drop_current(header);
    }
    // SAFETY: this waker's count keeps the chunk.
    if context::runs_scheduler(unsafe { header.chunk.as_ref() }.home) {
        // The thread is one of the scheduler's own, and keeps it alive.
        // SAFETY: the state word says what we owe.
        return unsafe { act(cell, header.state.wake_by_val()) };
    }
    // Once the entry is in a queue, the task may end and its runtime go while we
    // are still on our way out of `schedule`: our count keeps both until then.
    // SAFETY: the state word says what we owe; the count is given up last.
    unsafe {
        act(cell, header.state.wake_by_ref());
        drop_waker(data);
    }
}

/// # Safety
///
/// As `RawWakerVTable` asks: `data` is that of a waker of ours.
unsafe fn wake_by_ref(data: *const ()) {
    // SAFETY: the waker that is borrowed keeps the cell alive.
    let (cell, header) = unsafe { cell_of(data) };
    if context::try_wake_current(cell.as_ptr()) {
        return;
    }
    // SAFETY: the state word says what we owe.
    unsafe { act(cell, header.state.wake_by_ref()) };
}

/// # Safety
///
/// As `RawWakerVTable` asks: `data` is that of a waker of ours.
unsafe fn drop_waker(data: *const ()) {
    // SAFETY: this waker's count keeps the cell alive until it is given up.
    let (cell, header) = unsafe { cell_of(data) };
    if context::is_current(cell.as_ptr()) {
        return drop_current(header);
    }
    match header.state.drop_waker() {
        Release::Nothing => {}
        // SAFETY: told so by the state word.
        Release::Free => unsafe { Arena::free(cell) },
        // SAFETY: a handle was taken for the report; this is it.
        Release::Orphan => unsafe { TaskRef::from_cell(cell) }.report_orphan(),
    }
}

/// A waker of the task that this thread polls is not needed any longer. RUNNING keeps the cell.
#[inline]
fn drop_current(header: &Header) {
    if !header.try_keep_spare_waker() {
        let release = header.state.drop_waker();
        debug_assert_eq!(release, Release::Nothing);
    }
}

/// # Safety
///
/// `duty` is what the state word of `cell` just answered to a wake or abort.
pub(crate) unsafe fn act(cell: NonNull<Header>, duty: Wake) {
    match duty {
        Wake::Nothing => {}
        // SAFETY: told so by the state word.
        Wake::Free => unsafe { Arena::free(cell) },
        Wake::Schedule => {
            // SAFETY: we own the entry, so the cell and its home are alive.
            unsafe {
                let header = cell.as_ref();
                header.chunk.as_ref().home.as_ref().schedule(Runnable::from_cell(cell));
            }
        }
    }
}
