//! Stations 5 and 9: a worker polls a task, which then waits, is requeued, or completes.
//!
//! Roles are types: [`Runnable`] is the one queue entry of a task, and [`TaskRef`] is a counted
//! reference that can inspect a task but not poll it.

use super::arena::{self, Arena};
use super::context;
use super::coop::Budget;
use super::duty::{Complete, EndPoll, Release, Start};
use super::ended;
use super::header::{Header, PollCount};
use super::meta::TaskMeta;
use super::schedule::Schedule;
use super::state::{ORPHANED, Snapshot, State};
use super::waker;
use crate::sys::unwind::catch_and_forget;
use std::mem::ManuallyDrop;
use std::panic::Location;
use std::ptr::NonNull;
use std::time::Duration;

/// The one queue entry of a task: the right to poll it (TASK-4).
///
/// If a `Runnable` is dropped without being run, the task is cancelled.
#[derive(Debug)]
pub(crate) struct Runnable(NonNull<Header>);

/// The values that [`Runnable::observe`] has read.
pub(crate) struct ObservedTask {
    pub(crate) spawned_at: &'static Location<'static>,
    /// The duration of the task's wait; `None` before the first poll, and after a yield.
    pub(crate) waited: Option<Duration>,
}

// SAFETY: a task that must stay on its thread has a scheduler whose queues stay there.
unsafe impl Send for Runnable {}

impl Runnable {
    /// Creates the queue entry of the task in `cell`.
    ///
    /// # Safety
    ///
    /// The caller must own the queue entry of this cell.
    pub(crate) unsafe fn from_cell(cell: NonNull<Header>) -> Self {
        Self(cell)
    }

    /// Returns the task's cell and id, for reports after the poll.
    #[inline]
    pub(crate) fn cell_and_id(&self) -> (NonNull<Header>, u64) {
        // SAFETY: the entry keeps the cell alive.
        (self.0, unsafe { self.0.as_ref() }.id.get())
    }

    /// Returns whether the task was never polled.
    pub(crate) fn was_never_polled(&self) -> bool {
        // SAFETY: the entry keeps the cell alive.
        unsafe { self.0.as_ref() }.was_never_polled()
    }

    /// Returns the description of the task that hooks receive.
    pub(crate) fn meta(&self) -> TaskMeta<'static> {
        // SAFETY: the entry keeps the cell alive.
        TaskMeta::new(unsafe { self.0.as_ref() })
    }

    /// Returns the scheduler of the task's cell.
    pub(crate) fn scheduler(&self) -> NonNull<dyn Schedule> {
        // SAFETY: the entry keeps the cell alive, and the cell its chunk (ARENA-3).
        unsafe { self.0.as_ref().chunk.as_ref() }.scheduler
    }

    /// Returns where the task was spawned, and how long it has waited.
    ///
    /// `now` is the time of the runtime's clock.
    #[cold]
    pub(crate) fn observe(&self, now: Duration) -> ObservedTask {
        // SAFETY: the entry keeps the cell alive.
        let header = unsafe { self.0.as_ref() };
        let is_last = header.waiting.is_from_poll(header.poll_stamp());
        let waited = header.waiting.read().filter(|_| is_last).map(|wait| {
            let ms = (now.as_millis() as u32).wrapping_sub(wait.since_ms);
            // `now` may be slightly earlier than the wait. The difference then wraps to almost 50
            // days.
            Duration::from_millis(if ms > u32::MAX / 2 { 0 } else { ms.into() })
        });
        ObservedTask { spawned_at: header.origin.get().spawned_at(), waited }
    }

    /// Returns the address of the task's cell.
    #[inline]
    pub(crate) fn cell(&self) -> *mut Header {
        self.0.as_ptr()
    }

    pub(crate) fn into_cell(self) -> NonNull<Header> {
        ManuallyDrop::new(self).0
    }

    /// Polls the task once. Then the task completes, is requeued, or waits.
    #[inline]
    pub(crate) fn run(self) {
        let cell = self.into_cell();
        // SAFETY: the entry keeps the cell alive, and `start_poll` gives the right of TASK-1.
        unsafe {
            match cell.as_ref().state.start_poll() {
                Start::Poll => poll(cell, PollCount::SELF_WOKEN),
                Start::PollWithSpare => poll(cell, PollCount::QUEUED),
                Start::Cancel => finish_cancelled(cell),
            }
        }
    }

    /// Polls the task once, with a budget of `units` operations.
    ///
    /// Used by simulations, which preempt a task through the end of its budget.
    #[cold]
    pub(crate) fn run_with_budget(self, units: u8) {
        let (cell, budget) = (self.into_cell(), Budget::of_units(units));
        // SAFETY: the entry keeps the cell alive, and `start_poll` gives the right of TASK-1.
        unsafe {
            match cell.as_ref().state.start_poll() {
                Start::Poll => poll_with_budget(cell, PollCount::SELF_WOKEN, budget),
                Start::PollWithSpare => poll_with_budget(cell, PollCount::QUEUED, budget),
                Start::Cancel => finish_cancelled(cell),
            }
        }
    }

    /// Cancels the task while its queue is being drained.
    pub(crate) fn cancel(self) {
        let cell = self.into_cell();
        // SAFETY: the entry keeps the cell alive, and the claim gives the right of TASK-1.
        unsafe {
            cell.as_ref().state.claim_drained();
            finish_cancelled(cell);
        }
    }

    /// Cancels a task that was just spawned on a closed scheduler.
    pub(crate) fn cancel_spawn(self) {
        self.cancel_unless_claimed(State::claim_refused_spawn);
    }

    /// Cancels a task whose scheduler was closed during its poll.
    pub(crate) fn cancel_requeue(self) {
        self.cancel_unless_claimed(State::claim_refused_requeue);
    }

    fn cancel_unless_claimed(self, claim: impl FnOnce(&State) -> Option<Release>) {
        let cell = self.into_cell();
        // SAFETY: the entry keeps the cell alive, and the claim says what the caller owns.
        unsafe {
            match claim(&cell.as_ref().state) {
                None => finish_cancelled(cell),
                Some(Release::Free) => Arena::free(cell),
                Some(_) => {}
            }
        }
    }

    /// Gives up the entry of a wake that found the scheduler closed.
    ///
    /// The thread that shuts the scheduler down drops the future.
    pub(crate) fn discard(self) {
        let cell = self.into_cell();
        // SAFETY: the entry keeps the cell alive.
        unsafe {
            if cell.as_ref().state.discard_wake() == Release::Free {
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

/// The queue entry of a new task, while user code runs on a thread that is not active.
///
/// If that code panics, the task is cancelled, unless the thread that shuts the scheduler down has
/// already claimed it.
pub(crate) struct UnqueuedTask(ManuallyDrop<Runnable>);

impl UnqueuedTask {
    pub(crate) fn new(task: Runnable) -> Self {
        Self(ManuallyDrop::new(task))
    }

    pub(crate) fn into_runnable(self) -> Runnable {
        Runnable(ManuallyDrop::new(self).0.0)
    }
}

impl std::ops::Deref for UnqueuedTask {
    type Target = Runnable;

    fn deref(&self) -> &Runnable {
        &self.0
    }
}

impl Drop for UnqueuedTask {
    fn drop(&mut self) {
        Runnable(self.0.0).cancel_spawn();
    }
}

/// Station 5: polls the future. Then the task completes, is requeued, or waits.
///
/// # Safety
///
/// The caller has the right of TASK-1, the future is not dropped, and `count` says whether a spare
/// waker was counted (TASK-6).
unsafe fn poll(cell: NonNull<Header>, count: PollCount) {
    // SAFETY: by contract.
    unsafe { poll_with_budget(cell, count, Budget::FULL) };
}

/// Station 5: polls the future with a given budget. Then the task completes, is requeued, or waits.
///
/// # Safety
///
/// The contract of [`poll`].
#[inline(always)] // `poll` knows its budget, so it stays as fast as without this function
unsafe fn poll_with_budget(cell: NonNull<Header>, count: PollCount, budget: Budget) {
    // SAFETY: RUNNING keeps the cell alive.
    let header = unsafe { cell.as_ref() };
    header.count_poll(count);
    let guard = context::enter_poll(cell.as_ptr(), header.id.get(), budget);
    // SAFETY: TASK-1, by contract.
    let done = unsafe { (header.vtable.get().poll)(cell) };
    let outcome = guard.end();
    if done {
        // SAFETY: TASK-1, and the poll stored the outcome.
        return unsafe { finish(cell) };
    }
    let scheduler = || {
        // SAFETY: the scheduler outlives its tasks.
        unsafe { header.chunk.as_ref().scheduler.as_ref() }
    };
    if outcome.self_woken {
        // TASK-3: RUNNING stays set, and this thread makes the entry.
        return scheduler().requeue(Runnable(cell));
    }
    let end = header.state.end_poll(outcome.is_exempt(), header.take_spare_waker());
    // Tested first, because a match on all four variants compiles to a jump table.
    if end == EndPoll::Idle {
        return;
    }
    match end {
        EndPoll::Idle => {}
        EndPoll::Requeue => scheduler().requeue(Runnable(cell)),
        // SAFETY: RUNNING is still set, so the right of TASK-1 is kept.
        EndPoll::Cancel => unsafe { finish_cancelled(cell) },
        // SAFETY: the state word counted a handle for the report.
        EndPoll::Orphan => unsafe { TaskRef::from_cell(cell) }.report_orphan(),
    }
}

/// Drops the future and completes the task as cancelled.
///
/// # Safety
///
/// The caller has the right of TASK-1, and the future is not dropped.
#[cold]
#[inline(never)]
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
/// The caller has the right of TASK-1, and the outcome is stored.
unsafe fn finish(cell: NonNull<Header>) {
    // SAFETY: RUNNING keeps the cell alive until it is released.
    let header = unsafe { cell.as_ref() };
    if ended::is_watched() {
        // SAFETY: RUNNING keeps the cell, and the cell its chunk and its scheduler (ARENA-3).
        unsafe {
            ended::record(header, arena::poll_time_of(cell, header.id.get()));
            if ended::is_scheduler_notified() {
                header.chunk.as_ref().scheduler.as_ref().terminated(header);
            }
        }
    }
    let release = match header.state.complete(header.take_spare_waker()) {
        Complete::Done => return,
        Complete::WakeJoiner => {
            // SAFETY: TASK-2, this thread cleared JOIN_WAKER in `complete`.
            if let Some(waker) = unsafe { header.join_waker.take() } {
                wake_joiner(waker);
            }
            header.state.release_running()
        }
        Complete::DropOutput => {
            let _id = context::enter_id(header.id.get());
            // SAFETY: TASK-1: there is no JoinHandle, so this thread still has the right.
            unsafe { (header.vtable.get().drop_output)(cell) };
            header.state.release_running()
        }
    };
    if release == Release::Free {
        // SAFETY: the state word returned `Free` to this caller.
        unsafe { Arena::free(cell) };
    }
}

/// Wakes the task that awaits the JoinHandle. A panic of a foreign waker must not end the worker.
fn wake_joiner(waker: std::task::Waker) {
    catch_and_forget(|| waker.wake());
}

/// A counted reference to a task of any type, which can inspect and abort the task but not poll it.
pub(crate) struct TaskRef(NonNull<Header>);

// SAFETY: a `TaskRef` gives access only to atomics and to fields that are read-only (TASK-5).
unsafe impl Send for TaskRef {}
// SAFETY: the reason for `Send` covers `Sync`.
unsafe impl Sync for TaskRef {}

impl TaskRef {
    /// Creates a reference from a handle that is already counted.
    ///
    /// # Safety
    ///
    /// The caller must own one handle count of the cell.
    pub(crate) unsafe fn from_cell(cell: NonNull<Header>) -> Self {
        Self(cell)
    }

    /// Returns a reference to the task in the cell, if the cell holds a task.
    pub(crate) fn try_from_cell(cell: NonNull<Header>) -> Option<Self> {
        // SAFETY: the cells of a walk have initialized headers (ARENA-2).
        let taken = unsafe { cell.as_ref() }.state.try_clone_handle();
        // Created only if the handle was counted, because its drop subtracts one.
        taken.then(|| Self(cell))
    }

    pub(crate) fn cell(&self) -> NonNull<Header> {
        self.0
    }

    pub(crate) fn header(&self) -> &Header {
        // SAFETY: this reference's count keeps the cell alive.
        unsafe { self.0.as_ref() }
    }

    pub(crate) fn state(&self) -> Snapshot {
        self.header().state.load()
    }

    /// Requests that the future is dropped. `reason` is 0 or ORPHANED.
    pub(crate) fn abort(&self, reason: u64) {
        // SAFETY: this reference's count keeps the cell alive.
        unsafe { waker::perform(self.0, self.header().state.abort(reason)) };
    }

    /// Wakes the task, as one of its wakers would.
    pub(crate) fn wake(&self) {
        // SAFETY: this reference's count keeps the cell alive.
        unsafe { waker::perform(self.0, self.header().state.wake_by_ref()) };
    }

    /// Reports to the scheduler that the task is an orphan: no waker can wake it.
    pub(crate) fn report_orphan(self) {
        // SAFETY: the scheduler outlives its tasks.
        let scheduler = unsafe { self.header().chunk.as_ref().scheduler.as_ref() };
        scheduler.orphaned(&self);
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
            // SAFETY: the state word returned `Free` to this caller.
            unsafe { Arena::free(self.0) };
        }
    }
}
