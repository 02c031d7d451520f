//! Stations 5 and 9: a task is polled, and then waits, goes back to a queue, or
//! is done. The roles here are types: [`Runnable`] is the one queue entry of a
//! task, [`TaskRef`] a counted reference that can look but not poll.

use super::arena::Arena;
use super::context;
use super::header::{Header, PollCount};
use super::state::{Complete, EndPoll, ORPHANED, Release, Snapshot, Start, State};
use super::waker;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

/// The right to poll a task: exactly one exists while it is queued (TASK-4). If it
/// is dropped unrun, the task is cancelled.
#[derive(Debug)]
pub(crate) struct Runnable(NonNull<Header>);

// SAFETY: a task that must stay on its thread has a home whose queues do.
unsafe impl Send for Runnable {}

impl Runnable {
    /// # Safety
    ///
    /// The caller owns the queue entry of this cell.
    pub(crate) unsafe fn from_cell(cell: NonNull<Header>) -> Self {
        Self(cell)
    }

    /// The task's cell and id, for who wants to say something of it later.
    #[inline]
    pub(crate) fn cell_and_id(&self) -> (NonNull<Header>, u64) {
        // SAFETY: we own the entry, so the cell is alive.
        (self.0, unsafe { self.0.as_ref() }.id.get())
    }

    /// Whether it was never polled.
    pub(crate) fn is_new(&self) -> bool {
        // SAFETY: we own the entry, so the cell is alive.
        unsafe { self.0.as_ref() }.polls() == 0
    }

    /// The address of the task's cell.
    #[inline]
    pub(crate) fn cell(&self) -> *mut Header {
        self.0.as_ptr()
    }

    pub(crate) fn into_cell(self) -> NonNull<Header> {
        ManuallyDrop::new(self).0
    }

    /// Polls the task once and sees to what comes of it.
    #[inline]
    pub(crate) fn run(self) {
        let cell = self.into_cell();
        // SAFETY: we own the entry, so the cell is alive, and the start gives
        // us TASK-1.
        unsafe {
            match cell.as_ref().state.start_poll() {
                Start::Poll => poll(cell, PollCount::SELF_WOKEN),
                Start::PollWithSpare => poll(cell, PollCount::QUEUED),
                Start::Cancel => finish_cancelled(cell),
            }
        }
    }

    /// Drops the task instead of running it, while its queue is being drained.
    pub(crate) fn cancel(self) {
        let cell = self.into_cell();
        // SAFETY: we own the entry; the claim gives us TASK-1.
        unsafe {
            cell.as_ref().state.claim_drained();
            finish_cancelled(cell);
        }
    }

    /// The task was just spawned and its scheduler turned out to be closed.
    pub(crate) fn cancel_spawn(self) {
        self.cancel_unless_claimed(State::claim_refused_spawn);
    }

    /// A poll of the task has ended, and its scheduler has closed meanwhile.
    pub(crate) fn cancel_requeue(self) {
        self.cancel_unless_claimed(State::claim_refused_requeue);
    }

    fn cancel_unless_claimed(self, claim: impl FnOnce(&State) -> Option<Release>) {
        let cell = self.into_cell();
        // SAFETY: we own the entry; the claim says what else is ours.
        unsafe {
            match claim(&cell.as_ref().state) {
                None => finish_cancelled(cell),
                Some(Release::Free) => Arena::free(cell),
                Some(_) => {}
            }
        }
    }

    /// A waker woke the task and found its scheduler closed: whoever closes it
    /// drops the future, the entry just goes.
    pub(crate) fn discard(self) {
        let cell = self.into_cell();
        // SAFETY: we own the entry.
        unsafe {
            if cell.as_ref().state.refuse() == Release::Free {
                Arena::free(cell);
            }
        }
    }
}

impl Drop for Runnable {
    fn drop(&mut self) {
        Runnable(self.0).cancel();
    }
}

/// # Safety
///
/// TASK-1 is ours and the future is there; `count` says whether a waker was counted for TASK-6.
unsafe fn poll(cell: NonNull<Header>, count: PollCount) {
    // SAFETY: alive while RUNNING is set.
    let header = unsafe { cell.as_ref() };
    header.count_poll(count);
    let turn = context::enter_poll(cell.as_ptr(), header.id.get());
    // SAFETY: TASK-1, by contract.
    let done = unsafe { (header.vtable.get().poll)(cell) };
    let mark = turn.end();
    if done {
        // SAFETY: TASK-1, the outcome is stored.
        return unsafe { finish(cell) };
    }
    let home = || {
        // SAFETY: the home lives while its tasks do.
        unsafe { header.chunk.as_ref().home.as_ref() }
    };
    if mark.self_woken {
        // TASK-3: still RUNNING, and the entry is ours again.
        return home().requeue(Runnable(cell));
    }
    match header.state.end_poll(mark.is_exempt(), header.take_spare_waker()) {
        EndPoll::Idle => {}
        EndPoll::Requeue => home().requeue(Runnable(cell)),
        // SAFETY: TASK-1 is still ours.
        EndPoll::Cancel => unsafe { finish_cancelled(cell) },
        // SAFETY: a handle was taken for the report.
        EndPoll::Orphan => unsafe { TaskRef::from_cell(cell) }.report_orphan(),
    }
}

/// Drops the future and completes the task as cancelled.
///
/// # Safety
///
/// TASK-1 is ours and the future is there.
pub(crate) unsafe fn finish_cancelled(cell: NonNull<Header>) {
    // SAFETY: by contract.
    unsafe {
        let header = cell.as_ref();
        let orphaned = header.state.load().has(ORPHANED);
        let _id = context::enter_id(header.id.get());
        (header.vtable.get().cancel)(cell, orphaned);
        finish(cell);
    }
}

/// Station 9: hands the outcome to the JoinHandle, or drops it.
///
/// # Safety
///
/// TASK-1 is ours and the outcome is stored.
unsafe fn finish(cell: NonNull<Header>) {
    // SAFETY: RUNNING keeps the cell until it is released.
    let header = unsafe { cell.as_ref() };
    let release = match header.state.complete(header.take_spare_waker()) {
        Complete::Done => return,
        Complete::WakeJoiner => {
            // SAFETY: TASK-2, `complete` cleared JOIN_WAKER for us.
            if let Some(waker) = unsafe { header.join_waker.take() } {
                wake_joiner(waker);
            }
            header.state.release_running()
        }
        Complete::DropOutput => {
            let _id = context::enter_id(header.id.get());
            // SAFETY: TASK-1: no JoinHandle, so the output is still ours.
            unsafe { (header.vtable.get().drop_output)(cell) };
            header.state.release_running()
        }
    };
    if release == Release::Free {
        // SAFETY: told so by the state word.
        unsafe { Arena::free(cell) };
    }
}

/// Foreign wakers may panic; that must not take the worker down.
fn wake_joiner(waker: std::task::Waker) {
    let woken = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| waker.wake()));
    if let Err(payload) = woken {
        std::mem::forget(payload);
    }
}

/// A counted reference to a task of any type: enough to look at it and to ask
/// for its end.
pub(crate) struct TaskRef(NonNull<Header>);

// SAFETY: all that can be done through it is atomic or read-only (TASK-5).
unsafe impl Send for TaskRef {}
// SAFETY: as above.
unsafe impl Sync for TaskRef {}

impl TaskRef {
    /// # Safety
    ///
    /// The caller owns one handle count of the cell.
    pub(crate) unsafe fn from_cell(cell: NonNull<Header>) -> Self {
        Self(cell)
    }

    /// Takes a handle on whatever task is in the cell, if there is one.
    pub(crate) fn try_from_cell(cell: NonNull<Header>) -> Option<Self> {
        // SAFETY: ARENA-2: cells that a walk finds are initialised headers.
        let taken = unsafe { cell.as_ref() }.state.try_clone_handle();
        // Not made unless it was taken: its drop gives a handle back.
        taken.then(|| Self(cell))
    }

    pub(crate) fn cell(&self) -> NonNull<Header> {
        self.0
    }

    pub(crate) fn header(&self) -> &Header {
        // SAFETY: our count keeps the cell alive.
        unsafe { self.0.as_ref() }
    }

    pub(crate) fn state(&self) -> Snapshot {
        self.header().state.load()
    }

    pub(crate) fn abort(&self, reason: u64) {
        // SAFETY: our count keeps the cell alive.
        unsafe { waker::act(self.0, self.header().state.abort(reason)) };
    }

    pub(crate) fn report_orphan(self) {
        // SAFETY: the home lives while its tasks do.
        let home = unsafe { self.header().chunk.as_ref().home.as_ref() };
        home.orphaned(&self);
    }
}

impl Clone for TaskRef {
    fn clone(&self) -> Self {
        self.header().state.clone_handle();
        Self(self.0)
    }
}

impl Drop for TaskRef {
    fn drop(&mut self) {
        if self.header().state.drop_handle() == Release::Free {
            // SAFETY: told so by the state word.
            unsafe { Arena::free(self.0) };
        }
    }
}
