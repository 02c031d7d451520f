//! The future of `block_on`: it is no task, it is polled by the thread that
//! called, and its waker unparks that thread.

use crate::sys::backtrace;
use crate::sys::park::Parker;
use crate::sys::sync::ignore_poison;
use crate::task::block_on::{BlockOnRecord, BlockOnVia};
use crate::task::context;
use std::cell::Cell;
use std::panic::Location;
use std::sync::atomic::{AtomicU8, Ordering::*};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::task::{Poll, Wake, Waker};

/// One thread's way of being woken while it is in `block_on`.
pub(crate) struct BlockOnState {
    /// WOKEN: the future is to be polled (again). ENDED: the `block_on` is to end instead,
    /// unless it is woken after all.
    woken: AtomicU8,
    /// Why it is to end, and in which of its rests. Its lock is held while ENDED is set.
    verdict: Mutex<(u32, String)>,
    /// The thread is where it cannot miss `woken`, or may be: see `wake_by_ref`.
    pub(crate) parker: Parker,
    /// For those who ask why it does not go on.
    pub(crate) note: BlockOnRecord,
    /// The system's number of the thread.
    pub(crate) thread: i32,
    /// What the wakers hold: as many references as there are wakers, and one.
    call: OnceLock<Weak<BlockOnWaker>>,
}

const RESTS: u8 = 0;
const WOKEN: u8 = 1;
const ENDED: u8 = 2;

/// The waker of a root, counted apart from other references to it.
struct BlockOnWaker(Arc<BlockOnState>);

impl Wake for BlockOnWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // The store comes first, and `park` looks at the token last: a thread
        // that goes to park after this finds the token.
        let root = &self.0;
        root.woken.store(WOKEN, Release);
        if context::is_current_block_on(&root.note) {
            root.note.count_self_wake();
        } else {
            root.parker.unpark();
        }
    }
}

impl BlockOnState {
    /// How many wakers there are, besides the one that it is polled with.
    pub(crate) fn live_wakers(&self) -> usize {
        let call = self.call.get();
        call.map_or(0, |call| call.strong_count().saturating_sub(1))
    }

    /// Whether it is to be polled, or to end.
    pub(crate) fn is_woken(&self) -> bool {
        self.woken.load(Acquire) != RESTS
    }

    /// Wakes the future, as one of its wakers would.
    pub(crate) fn wake(&self) {
        if let Some(call) = self.call.get().and_then(Weak::upgrade) {
            call.wake();
        }
    }

    /// It can never go on from this rest of its future: its `block_on` panics with `why`,
    /// unless it has gone on meanwhile.
    pub(crate) fn end(&self, rest: u32, why: String) {
        let mut verdict = ignore_poison(self.verdict.lock());
        // Of two who say so, the one that is late may mean an earlier rest. Who ends takes the
        // lock, so it sees why.
        if self.note.poll_number() == rest
            && self.woken.compare_exchange(RESTS, ENDED, Release, Relaxed).is_ok()
        {
            *verdict = (rest, why);
            drop(verdict);
            self.parker.unpark();
        }
    }

    /// By its own thread, which is to end.
    ///
    /// # Panics
    ///
    /// Unless that was said of an earlier rest: then it is as if it was woken for nothing.
    #[cold]
    #[track_caller]
    fn has_ended(&self) {
        let (rest, why) = std::mem::take(&mut *ignore_poison(self.verdict.lock()));
        if self.note.poll_number() == rest {
            // It does not wait: while it unwinds, it lets go of what others wait for.
            self.note.begin_poll();
            panic!("{why}");
        }
    }
}

/// A root and its waker, kept by the thread for the next `block_on`.
pub(crate) struct BlockOnHandle {
    pub(crate) root: Arc<BlockOnState>,
    waker: Waker,
}

impl BlockOnHandle {
    fn new() -> Self {
        let root = Arc::new(BlockOnState {
            woken: AtomicU8::new(WOKEN),
            verdict: Mutex::default(),
            parker: Parker::for_current_thread(),
            note: BlockOnRecord::new(),
            thread: backtrace::current_tid(),
            call: OnceLock::new(),
        });
        let call = Arc::new(BlockOnWaker(root.clone()));
        // Set once: made a moment ago.
        let _ = root.call.set(Arc::downgrade(&call));
        let mut roots = lock_roots();
        roots.retain(|root| root.strong_count() > 0);
        roots.push(Arc::downgrade(&root));
        drop(roots);
        let waker = Waker::from(call);
        root.note.set_waker(&waker);
        Self { waker, root }
    }
}

/// The roots of all threads, for those who ask why: a thread adds its own once.
static ROOTS: Mutex<Vec<Weak<BlockOnState>>> = Mutex::new(Vec::new());

fn lock_roots() -> MutexGuard<'static, Vec<Weak<BlockOnState>>> {
    ignore_poison(ROOTS.lock())
}

/// The roots that are in a `block_on` of the scheduler `home`.
pub(crate) fn roots_of(home: *const ()) -> Vec<Arc<BlockOnState>> {
    // Let go of outside of the lock, whichever was the last to refer to it.
    let roots: Vec<_> = lock_roots().iter().filter_map(Weak::upgrade).collect();
    roots.into_iter().filter(|root| root.note.belongs_to(home)).collect()
}

thread_local! {
    static SPARE: Cell<Option<BlockOnHandle>> = const { Cell::new(None) };
}

/// This thread's root while it is inside `block_on`.
pub(crate) struct BlockOnGuard {
    handle: Option<BlockOnHandle>,
    /// It was woken when its last poll ended: by itself, as a rule, to give way to others.
    gave_way: Cell<bool>,
    outer: *const BlockOnRecord,
    outer_defers: bool,
}

impl BlockOnGuard {
    /// Takes this thread's root, or makes one. It starts out woken: the first
    /// poll is due.
    #[track_caller]
    pub(crate) fn new(home: *const (), through: BlockOnVia) -> Self {
        let spare = SPARE.try_with(Cell::take).ok().flatten();
        let handle = spare.unwrap_or_else(BlockOnHandle::new);
        handle.root.note.begin(Location::caller(), home, through);
        handle.root.woken.store(WOKEN, Relaxed);
        let outer = context::set_block_on(&handle.root.note);
        // Unless this thread goes on to hold a scheduler's core, nobody here
        // would wake what is put off.
        let outer_defers = context::set_drains_deferred(false);
        Self { handle: Some(handle), gave_way: Cell::new(false), outer, outer_defers }
    }

    fn handle(&self) -> &BlockOnHandle {
        self.handle.as_ref().expect("held until dropped")
    }

    pub(crate) fn waker(&self) -> &Waker {
        &self.handle().waker
    }

    pub(crate) fn note(&self) -> &BlockOnRecord {
        &self.handle().root.note
    }

    pub(crate) fn root(&self) -> &Arc<BlockOnState> {
        &self.handle().root
    }

    /// Takes the wake-up, if there is one.
    ///
    /// # Panics
    ///
    /// If it is to end.
    #[inline]
    #[track_caller]
    fn take_woken(&self) -> bool {
        let woken = &self.handle().root.woken;
        // The load spares an exchange; a wake that it misses leaves a token
        // with the parker, or came from this thread and is seen next time.
        if woken.load(Relaxed) == RESTS {
            return false;
        }
        let seen = woken.swap(RESTS, Acquire);
        if seen == ENDED {
            self.root().has_ended();
        }
        seen != RESTS
    }

    /// Polls the future, if it is woken.
    ///
    /// # Panics
    ///
    /// If the future does, or it was found that it can never go on.
    #[inline]
    #[track_caller]
    pub(crate) fn poll_if_woken<R>(&self, poll: impl FnOnce() -> Poll<R>) -> Option<Poll<R>> {
        if !self.take_woken() {
            return None;
        }
        let note = self.note();
        note.begin_poll();
        let polled = context::poll_block_on(note, poll);
        if polled.is_pending() {
            note.end_poll();
        }
        Some(polled)
    }

    pub(crate) fn is_woken(&self) -> bool {
        self.root().is_woken()
    }

    /// Parks the thread until it is woken.
    pub(crate) fn park(&self) {
        self.root().parker.park(None);
    }

    /// Its poll has ended, and what it put off was woken.
    pub(crate) fn has_rested(&self) {
        self.gave_way.set(self.is_woken());
    }

    /// Whether it is woken, and did not give way to others.
    pub(crate) fn is_called(&self) -> bool {
        self.is_woken() && !self.gave_way.get()
    }

    pub(crate) fn parked(&self) -> ParkedBlockOn {
        ParkedBlockOn(self.root().clone())
    }
}

impl Drop for BlockOnGuard {
    fn drop(&mut self) {
        context::set_block_on(self.outer);
        context::set_drains_deferred(self.outer_defers);
        self.note().end();
        let handle = self.handle.take();
        // A nested block_on may have left one already; then this one goes.
        let _ = SPARE.try_with(|spare| spare.set(handle));
    }
}

/// Somebody parked in `block_on`, to be woken for a reason of the runtime's.
pub(crate) struct ParkedBlockOn(Arc<BlockOnState>);

impl ParkedBlockOn {
    pub(crate) fn unpark(&self) {
        self.0.parker.unpark();
    }

    pub(crate) fn root(&self) -> &Arc<BlockOnState> {
        &self.0
    }

    /// It no longer waits in a poller.
    pub(crate) fn unset_kick(&self) {
        drop(self.0.parker.set_interrupt(None));
    }

    pub(crate) fn is(&self, other: &ParkedBlockOn) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
