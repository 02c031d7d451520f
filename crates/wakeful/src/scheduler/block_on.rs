//! The future of `block_on`, which is not a task: its own thread polls it, and its waker unparks
//! that thread.
//!
//! - [`BlockOnState`] is one thread's state in `block_on`, visible to wakers and diagnostics on any
//!   thread. The thread keeps the state for its next `block_on`.
//! - [`BlockOnGuard`] is that state while the thread is inside `block_on`.
//! - [`ParkedBlockOn`] refers to a thread that is parked in `block_on`, so that the runtime can
//!   unpark it.

use crate::sys::backtrace;
use crate::sys::park::Parker;
use crate::sys::sync::ignore_poison;
use crate::task::block_on::{BlockOnRecord, BlockOnVia};
use crate::task::context;
use crate::telemetry::poll_watch::PollWatch;
use std::cell::Cell;
use std::panic::Location;
use std::sync::atomic::{AtomicU8, Ordering::*};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::task::{Poll, Wake, Waker};

/// One thread's state in `block_on`.
pub(crate) struct BlockOnState {
    /// PENDING, WOKEN or FAILED.
    wake_state: AtomicU8,
    /// The message of a failure, and the number of the poll that it refers to. FAILED is stored under
    /// this lock.
    failure: Mutex<(u32, String)>,
    /// The parker of the thread. A waker stores `wake_state` before it unparks, so the thread
    /// cannot miss the wake-up (`wake_by_ref`).
    pub(crate) parker: Parker,
    /// The record of the future for diagnostics.
    pub(crate) record: BlockOnRecord,
    /// The kernel's id of the thread.
    pub(crate) thread: i32,
    /// The target of the wakers, with one strong reference per waker.
    ///
    /// These are the wakers of the future, and the waker that the thread keeps in its
    /// [`BlockOnHandle`].
    waker: OnceLock<Weak<BlockOnWaker>>,
}

/// The future waits.
const PENDING: u8 = 0;
/// The future must be polled.
const WOKEN: u8 = 1;
/// The `block_on` must panic, unless it is woken first.
const FAILED: u8 = 2;

/// The waker of a `block_on`, whose references are counted separately from the state's.
struct BlockOnWaker(Arc<BlockOnState>);

impl Wake for BlockOnWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // The store comes before `unpark`, which leaves a token. So a thread that has read PENDING
        // and then parks returns at once. The thread itself reads its own store.
        let state = &self.0;
        state.wake_state.store(WOKEN, Release);
        if context::is_current_block_on(&state.record) {
            state.record.count_self_wake();
        } else {
            state.parker.unpark();
        }
    }
}

impl BlockOnState {
    /// Returns the number of wakers, excluding the waker that the future is polled with.
    pub(crate) fn live_wakers(&self) -> usize {
        let waker = self.waker.get();
        waker.map_or(0, |waker| waker.strong_count().saturating_sub(1))
    }

    /// Copies the thread's poll number to `watched` for the watchdog, because a poll may have ended
    /// since the last copy.
    pub(crate) fn mirror_to(&self, watched: &PollWatch) {
        let poll = self.record.poll_number();
        watched.mirror(self.thread, poll, poll.is_multiple_of(2));
    }

    /// Wakes the future, as one of its wakers would.
    pub(crate) fn wake(&self) {
        if let Some(waker) = self.waker.get().and_then(Weak::upgrade) {
            waker.wake();
        }
    }

    /// Returns whether the future must be polled, or the `block_on` must panic.
    pub(crate) fn is_woken(&self) -> bool {
        self.wake_state.load(Acquire) != PENDING
    }

    /// Makes the `block_on` panic with `message`, because its future can never become ready.
    ///
    /// Does nothing if the future was polled or woken after `poll` was read from the record.
    pub(crate) fn fail(&self, poll: u32, message: String) {
        let mut failure = ignore_poison(self.failure.lock());
        // Two threads may call this, and the later call may refer to an earlier poll. The thread in
        // `block_on` takes the lock before it panics, so it sees the message.
        if self.record.poll_number() == poll
            && self.wake_state.compare_exchange(PENDING, FAILED, Release, Relaxed).is_ok()
        {
            *failure = (poll, message);
            drop(failure);
            self.parker.unpark();
        }
    }

    /// Panics with the failure's message, on the thread in `block_on`.
    ///
    /// Returns if the failure refers to an earlier poll; the wake-up is then spurious.
    #[cold]
    #[track_caller]
    fn panic_if_failed(&self) {
        let (poll, message) = std::mem::take(&mut *ignore_poison(self.failure.lock()));
        if self.record.poll_number() == poll {
            // The future no longer waits: while unwinding, it drops resources that other tasks wait
            // for.
            self.record.begin_poll();
            panic!("{message}");
        }
    }
}

/// A state and its waker, which a thread keeps for its next `block_on`. Boxed, so that only a
/// pointer moves between the thread and the guard.
struct BlockOnHandle {
    state: Arc<BlockOnState>,
    waker: Waker,
}

impl BlockOnHandle {
    #[cold]
    #[inline(never)]
    fn new() -> Box<Self> {
        let state = Arc::new(BlockOnState {
            wake_state: AtomicU8::new(PENDING),
            failure: Mutex::default(),
            parker: Parker::for_current_thread(),
            record: BlockOnRecord::new(),
            thread: backtrace::current_tid(),
            waker: OnceLock::new(),
        });
        let waker = Arc::new(BlockOnWaker(state.clone()));
        // The cell is new, so `set` cannot fail.
        let _ = state.waker.set(Arc::downgrade(&waker));
        let mut states = lock_states();
        states.retain(|state| state.strong_count() > 0);
        states.push(Arc::downgrade(&state));
        drop(states);
        let waker = Waker::from(waker);
        state.record.set_waker(&waker);
        Box::new(Self { state, waker })
    }
}

/// The states of all threads, for diagnostics. Each thread adds its state once.
static STATES: Mutex<Vec<Weak<BlockOnState>>> = Mutex::new(Vec::new());

fn lock_states() -> MutexGuard<'static, Vec<Weak<BlockOnState>>> {
    ignore_poison(STATES.lock())
}

/// Returns the states of all threads that are in a `block_on` of any scheduler.
pub(crate) fn all_states() -> Vec<Arc<BlockOnState>> {
    // Collected first, so that a last reference is dropped outside the lock.
    let states: Vec<_> = lock_states().iter().filter_map(Weak::upgrade).collect();
    states.into_iter().filter(|state| state.record.is_active()).collect()
}

/// Returns the states that are in a `block_on` of the scheduler at this address.
pub(crate) fn states_of(scheduler: *const ()) -> Vec<Arc<BlockOnState>> {
    let mut states = all_states();
    states.retain(|state| state.record.belongs_to(scheduler));
    states
}

thread_local! {
    /// The state for the next `block_on` of this thread.
    static CACHED: Cell<Option<Box<BlockOnHandle>>> = const { Cell::new(None) };
}

/// The state of the calling thread while it is inside `block_on`.
pub(crate) struct BlockOnGuard {
    handle: Option<Box<BlockOnHandle>>,
    /// Whether the first poll is due, which needs no wake-up.
    first_due: Cell<bool>,
    /// Whether the future was woken when its last poll ended, usually by itself to yield to tasks.
    yielded: Cell<bool>,
    outer: *const BlockOnRecord,
    outer_drains_deferred: bool,
}

impl BlockOnGuard {
    /// Enters `block_on`.
    #[inline]
    #[track_caller]
    pub(crate) fn new(scheduler: *const (), via: BlockOnVia) -> Self {
        let cached = CACHED.try_with(Cell::take).ok().flatten();
        let handle = cached.unwrap_or_else(BlockOnHandle::new);
        handle.state.record.begin(Location::caller(), scheduler, via);
        // A wake-up or failure of the thread's last `block_on` counts as seen. Acquire: the first poll
        // sees what a waker's caller wrote before it. The load avoids an exchange; a wake-up that it
        // misses causes a second poll.
        let wake_state = &handle.state.wake_state;
        if wake_state.load(Relaxed) != PENDING {
            wake_state.swap(PENDING, Acquire);
        }
        let outer = context::set_block_on(&handle.state.record);
        // Wakers are not deferred, because no loop on this thread would wake them, unless the
        // thread later takes a scheduler's core.
        let outer_drains_deferred = context::set_drains_deferred(false);
        Self {
            handle: Some(handle),
            first_due: Cell::new(true),
            yielded: Cell::new(false),
            outer,
            outer_drains_deferred,
        }
    }

    fn handle(&self) -> &BlockOnHandle {
        self.handle.as_ref().expect("present until dropped")
    }

    pub(crate) fn waker(&self) -> &Waker {
        &self.handle().waker
    }

    pub(crate) fn record(&self) -> &BlockOnRecord {
        &self.handle().state.record
    }

    pub(crate) fn state(&self) -> &Arc<BlockOnState> {
        &self.handle().state
    }

    /// Consumes the wake-up. Returns whether there was one, or the first poll is due.
    ///
    /// # Panics
    ///
    /// If the `block_on` has failed.
    #[inline]
    #[track_caller]
    fn take_woken(&self) -> bool {
        if self.first_due.replace(false) {
            return true;
        }
        let wake_state = &self.handle().state.wake_state;
        // The load avoids an exchange. A wake-up that the load misses leaves a token with the
        // parker, or comes from this thread and is seen by the next call.
        if wake_state.load(Relaxed) == PENDING {
            return false;
        }
        let seen = wake_state.swap(PENDING, Acquire);
        if seen == FAILED {
            self.state().panic_if_failed();
        }
        seen != PENDING
    }

    /// Polls the future, if it is woken or was not polled yet.
    ///
    /// # Panics
    ///
    /// If the future panics, or if it has been proven that the future can never become ready.
    #[inline]
    #[track_caller]
    pub(crate) fn poll_if_woken<R>(&self, poll: impl FnOnce() -> Poll<R>) -> Option<Poll<R>> {
        if !self.take_woken() {
            return None;
        }
        let record = self.record();
        record.begin_poll();
        let polled = context::poll_block_on(record, poll);
        if polled.is_pending() {
            record.end_poll();
        }
        Some(polled)
    }

    /// Returns whether the future is to be polled, or the `block_on` is to panic.
    pub(crate) fn is_woken(&self) -> bool {
        self.first_due.get() || self.state().is_woken()
    }

    /// Parks the thread until it is woken.
    pub(crate) fn park(&self) {
        self.state().parker.park(None);
    }

    /// Records whether the future yielded: it is woken right after its poll and the deferred
    /// wakers.
    pub(crate) fn update_yielded(&self) {
        self.yielded.set(self.is_woken());
    }

    /// Returns whether the future was woken after its last poll, and did not just yield.
    pub(crate) fn is_woken_after_poll(&self) -> bool {
        self.is_woken() && !self.yielded.get()
    }

    pub(crate) fn parked(&self) -> ParkedBlockOn {
        ParkedBlockOn(self.state().clone())
    }
}

impl Drop for BlockOnGuard {
    #[inline]
    fn drop(&mut self) {
        context::set_block_on(self.outer);
        context::set_drains_deferred(self.outer_drains_deferred);
        self.record().end();
        let handle = self.handle.take();
        // If a nested `block_on` has left its state in the cell, that state is dropped.
        let _ = CACHED.try_with(|cached| cached.set(handle));
    }
}

/// A thread that is parked in `block_on`, which the runtime can unpark.
pub(crate) struct ParkedBlockOn(Arc<BlockOnState>);

impl ParkedBlockOn {
    pub(crate) fn unpark(&self) {
        self.0.parker.unpark();
    }

    pub(crate) fn state(&self) -> &Arc<BlockOnState> {
        &self.0
    }

    /// Detaches the parker from the poller, because the thread no longer waits in the poller.
    pub(crate) fn clear_interrupt(&self) {
        drop(self.0.parker.set_interrupt(None));
    }

    pub(crate) fn is(&self, other: &ParkedBlockOn) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
