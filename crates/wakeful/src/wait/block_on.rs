//! Blocks a thread on a future, for the `blocking_…` methods.
//!
//! These methods work inside and outside a runtime, and with other executors.
//!
//! Actors: the *blocked thread* polls its future and parks. A *waker* unparks it. The *deadlock
//! scanner* reads the wait of each thread from [`blocked_threads`]. A thread keeps its
//! [`BlockedThread`] for its next blocking call, so that such calls don't allocate.

use crate::sys::backtrace::current_tid;
use crate::sys::park::Parker;
use crate::sys::sync::ignore_poison;
use crate::task::block_on::{BlockOnRecord, BlockOnVia};
use crate::task::{context, enter_guard};
use std::cell::Cell;
use std::panic::Location;
use std::pin::pin;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::task::{Context, Poll, Wake, Waker};

/// The state of a thread that waits for a future in a `blocking_…` method, or has done so.
pub(crate) struct BlockedThread {
    parker: Parker,
    /// Whether a waker was woken since the last poll began.
    woken: AtomicBool,
    /// The record of the wait for diagnostics.
    pub(crate) record: BlockOnRecord,
    /// The kernel's id of the thread.
    pub(crate) thread: i32,
    /// The target of the wakers, with one strong reference per waker.
    ///
    /// These are the wakers of the future, and the waker that the thread keeps in its
    /// [`ThreadHandle`].
    waker: OnceLock<Weak<Unpark>>,
}

/// The waker of a blocked thread. Its references are counted separately from the state's, so that
/// live wakers can be counted.
struct Unpark(Arc<BlockedThread>);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Release pairs with the Acquire load of `is_waiting`. The parker's token is left after
        // this store, so the thread does not miss the wake-up.
        self.0.woken.store(true, Release);
        self.0.parker.unpark();
    }
}

/// A placeholder whose address replaces the scheduler's in the records of blocked threads.
static NO_SCHEDULER: u64 = 0;

fn no_scheduler() -> *const () {
    ptr::from_ref(&NO_SCHEDULER).cast()
}

impl BlockedThread {
    /// Returns whether the thread is in a blocking call.
    fn is_blocked(&self) -> bool {
        self.record.belongs_to(no_scheduler())
    }

    /// Returns whether the thread is parked, or about to park, and was not woken.
    pub(crate) fn is_waiting(&self) -> bool {
        self.is_blocked() && !self.record.is_polled() && !self.woken.load(Acquire)
    }

    /// Returns the number of wakers, excluding the waker that the future is polled with.
    pub(crate) fn live_wakers(&self) -> usize {
        let waker = self.waker.get();
        waker.map_or(0, |waker| waker.strong_count().saturating_sub(1))
    }

    /// Wakes the thread, as one of its wakers would.
    pub(crate) fn wake(&self) {
        if let Some(waker) = self.waker.get().and_then(Weak::upgrade) {
            waker.wake();
        }
    }
}

/// The states of all threads that have blocked. Each thread adds its state once.
static THREADS: Mutex<Vec<Weak<BlockedThread>>> = Mutex::new(Vec::new());

fn lock_threads() -> MutexGuard<'static, Vec<Weak<BlockedThread>>> {
    ignore_poison(THREADS.lock())
}

/// Returns the threads that are in a blocking call.
pub(crate) fn blocked_threads() -> Vec<Arc<BlockedThread>> {
    // Collected first, so that a last reference is dropped outside the lock.
    let threads: Vec<_> = lock_threads().iter().filter_map(Weak::upgrade).collect();
    threads.into_iter().filter(|thread| thread.is_blocked()).collect()
}

/// The function that a thread calls before it parks, because this may leave a task stuck.
static ON_BLOCK: OnceLock<fn(&BlockOnRecord)> = OnceLock::new();

/// Sets the function that notifies a thread's runtime that the thread blocks. Only the first call
/// has an effect.
pub(crate) fn set_on_block(on_block: fn(&BlockOnRecord)) {
    let _ = ON_BLOCK.set(on_block);
}

/// A state and its waker, which the thread keeps for its next blocking call.
struct ThreadHandle {
    state: Arc<BlockedThread>,
    waker: Waker,
}

impl ThreadHandle {
    #[cold]
    fn new() -> Self {
        let state = Arc::new(BlockedThread {
            parker: Parker::for_current_thread(),
            woken: AtomicBool::new(false),
            record: BlockOnRecord::new(),
            thread: current_tid(),
            waker: OnceLock::new(),
        });
        let unpark = Arc::new(Unpark(state.clone()));
        // The cell is new, so `set` cannot fail.
        let _ = state.waker.set(Arc::downgrade(&unpark));
        let mut threads = lock_threads();
        threads.retain(|thread| thread.strong_count() > 0);
        threads.push(Arc::downgrade(&state));
        drop(threads);
        let waker = Waker::from(unpark);
        state.record.set_waker(&waker);
        Self { state, waker }
    }
}

thread_local! {
    /// The state for the next blocking call of this thread.
    static CACHED: Cell<Option<ThreadHandle>> = const { Cell::new(None) };
}

/// A guard for one blocking call.
struct BlockingCall {
    handle: Option<ThreadHandle>,
    outer: *const BlockOnRecord,
}

impl BlockingCall {
    #[track_caller]
    fn new() -> Self {
        let cached = CACHED.try_with(Cell::take).ok().flatten();
        let handle = cached.unwrap_or_else(ThreadHandle::new);
        let record = &handle.state.record;
        record.begin(Location::caller(), no_scheduler(), BlockOnVia::Runtime);
        let outer = context::set_block_on(record);
        Self { handle: Some(handle), outer }
    }

    fn handle(&self) -> &ThreadHandle {
        self.handle.as_ref().expect("present until dropped")
    }
}

impl Drop for BlockingCall {
    fn drop(&mut self) {
        context::set_block_on(self.outer);
        self.handle().state.record.end();
        let handle = self.handle.take();
        let _ = CACHED.try_with(|cached| cached.set(handle));
    }
}

/// Blocks the thread until the future is ready.
///
/// # Panics
///
/// If the thread runs tasks, which would be blocked too.
#[track_caller]
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    enter_guard::check_may_block();
    // Dropped after the future, whose waker lives until then.
    let call = BlockingCall::new();
    let mut future = pin!(future);
    let ThreadHandle { state, waker } = call.handle();
    let mut cx = Context::from_waker(waker);
    loop {
        state.record.begin_poll();
        // Cleared before the poll, which sees everything that woken wakers announced.
        state.woken.store(false, Relaxed);
        let poll = || context::without_budget(|| future.as_mut().poll(&mut cx));
        if let Poll::Ready(output) = context::poll_blocked_thread(&state.record, poll) {
            return output;
        }
        state.record.end_poll();
        if let Some(on_block) = ON_BLOCK.get() {
            on_block(&state.record);
        }
        state.parker.park(None);
    }
}
