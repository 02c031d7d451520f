//! What a thread knows about the task it is polling. Plain cells in
//! thread-local memory without a destructor: an access is one instruction.

use super::coop::Budget;
use super::header::{Header, Wait};
use super::heap::{Heap, Home};
use super::waker;
use super::{Id, coop};
use crate::sys::rng::Rng;
use crate::sys::sync::thread_local;
use std::cell::{Cell, RefCell};
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::Waker;

struct ThreadContext {
    /// The task this thread is inside the poll of.
    current: Cell<*const Header>,
    /// The task whose poll or drop this thread is inside of, 0 for none.
    current_id: Cell<u64>,
    /// The current task woke itself.
    self_woken: Cell<bool>,
    /// How many futures the current task waits in on purpose, for what may never
    /// come.
    exempt: Cell<u32>,
    pub(super) budget: Cell<Budget>,
    /// The heap whose allocator this thread holds.
    heap: Cell<*const Heap>,
    /// Milliseconds since the runtime on this thread started, read from its
    /// clock once per turn of its loop.
    now_ms: Cell<u32>,
    /// A scheduler on this thread empties the list of put-off wakers.
    defers: Cell<bool>,
    /// There are put-off wakers.
    deferred: Cell<bool>,
    rng: Cell<Option<Rng>>,
    /// Polls on this thread so far, and above them the thread's number once
    /// [`poll_id`] was asked for.
    polls: Cell<u64>,
}

thread_local! {
    static CONTEXT: ThreadContext = const {
        ThreadContext {
            current: Cell::new(ptr::null()),
            current_id: Cell::new(0),
            self_woken: Cell::new(false),
            exempt: Cell::new(0),
            budget: Cell::new(Budget::UNLIMITED),
            heap: Cell::new(ptr::null()),
            now_ms: Cell::new(0),
            defers: Cell::new(false),
            deferred: Cell::new(false),
            rng: Cell::new(None),
            polls: Cell::new(0),
        }
    };
    static DEFERRED: RefCell<Vec<Waker>> = const { RefCell::new(Vec::new()) };
}

impl ThreadContext {
    fn next_poll(&self) -> &Self {
        self.polls.set(self.polls.get().wrapping_add(1));
        self
    }
}

/// Bits of a [`poll_id`] that count polls.
const POLL_BITS: u32 = 40;

/// Which poll is going on, of all threads: tells whether two moments lie in one.
#[inline]
pub(crate) fn poll_id() -> u64 {
    CONTEXT.with(|context| {
        let id = context.polls.get();
        if id >> POLL_BITS != 0 { id } else { number_thread(&context.polls) }
    })
}

#[cold]
fn number_thread(polls: &Cell<u64>) -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    polls.set(polls.get() | NEXT.fetch_add(1, Relaxed) << POLL_BITS);
    polls.get()
}

/// One poll of one task; what was there before comes back at its end.
pub(super) struct Turn {
    outer: *const Header,
    outer_id: u64,
    outer_marks: Marks,
    outer_budget: Budget,
}

/// What happened on the side during a poll.
#[derive(Clone, Copy)]
pub(super) struct Marks {
    pub(super) self_woken: bool,
    exempt: u32,
}

impl Marks {
    pub(super) fn is_exempt(&self) -> bool {
        self.exempt > 0
    }
}

#[inline]
pub(super) fn start_task(cell: *const Header, id: u64) -> Turn {
    CONTEXT.with(|context| Turn {
        outer: context.next_poll().current.replace(cell),
        outer_id: context.current_id.replace(id),
        outer_marks: Marks {
            self_woken: context.self_woken.replace(false),
            exempt: context.exempt.replace(0),
        },
        outer_budget: context.budget.replace(Budget::FULL),
    })
}

impl Turn {
    #[inline]
    pub(super) fn end(self) -> Marks {
        CONTEXT.with(|context| {
            context.current.set(self.outer);
            context.current_id.set(self.outer_id);
            context.budget.set(self.outer_budget);
            Marks {
                self_woken: context.self_woken.replace(self.outer_marks.self_woken),
                exempt: context.exempt.replace(self.outer_marks.exempt),
            }
        })
    }
}

/// If `cell` is the task this thread is polling right now, notes that it is to
/// run again (R3) and answers true.
#[inline]
pub(super) fn wake_current(cell: *const Header) -> bool {
    CONTEXT.with(|context| {
        let own = context.current.get() == cell;
        if own {
            context.self_woken.set(true);
        }
        own
    })
}

/// Puts the task behind `waker` back into its queue, after everything else that
/// is ready had its turn.
pub(crate) fn yield_back(waker: &Waker) {
    CONTEXT.with(|context| {
        let current = context.current.get();
        if !current.is_null() && waker::is_of(waker, current) {
            context.self_woken.set(true);
        } else if context.defers.get() {
            defer(context, waker);
        } else {
            waker.wake_by_ref();
        }
    });
}

fn defer(context: &ThreadContext, waker: &Waker) {
    let by_ref = waker;
    let waker = waker.clone();
    let stored = DEFERRED.try_with(|list| {
        let mut list = list.borrow_mut();
        // A future that asks twice in a row is woken once.
        let again = list.last().is_some_and(|last| last.will_wake(&waker));
        if again {
            return Some(waker);
        }
        list.push(waker);
        None
    });
    // Without a list, or without need for another entry, it goes outside of
    // the borrow.
    match stored {
        Ok(unneeded) => drop(unneeded),
        // The thread is ending: nobody will look at a list.
        Err(_) => return by_ref.wake_by_ref(),
    }
    context.deferred.set(true);
}

/// Wakes what was put off with [`yield_back`], if anything. For schedulers,
/// after each poll: what is put off waits for the end of the poll it is in.
#[inline]
pub(crate) fn wake_deferred() -> bool {
    let any = CONTEXT.with(|context| context.deferred.replace(false));
    any && wake_all_deferred()
}

#[cold]
fn wake_all_deferred() -> bool {
    DEFERRED
        .try_with(|list| {
            // Taken out before they are woken: a foreign waker may call back.
            let mut wakers = list.take();
            for waker in wakers.drain(..) {
                // A foreign waker that panics harms nobody else.
                let woken = catch_unwind(AssertUnwindSafe(|| waker.wake()));
                if let Err(payload) = woken {
                    std::mem::forget(payload);
                }
            }
            let mut list = list.borrow_mut();
            if list.capacity() == 0 {
                *list = wakers;
            }
            true
        })
        .unwrap_or(false)
}

/// Says whether a scheduler on this thread calls [`wake_deferred`]; gives back
/// what was said before.
pub(crate) fn set_defers(on: bool) -> bool {
    CONTEXT.with(|context| context.defers.replace(on))
}

/// Restores the id that was current before.
pub(super) struct IdGuard(u64);

/// Makes `id` the current one while a future or an output is dropped.
pub(super) fn enter_id(id: u64) -> IdGuard {
    IdGuard(CONTEXT.with(|context| context.current_id.replace(id)))
}

impl Drop for IdGuard {
    fn drop(&mut self) {
        CONTEXT.with(|context| context.current_id.set(self.0));
    }
}

/// The id of the task being polled or dropped, 0 for none.
pub(crate) fn current_id() -> u64 {
    CONTEXT.with(|context| context.current_id.get())
}

/// The id of the current task.
///
/// # Panics
///
/// Outside of a task, and inside the future of `block_on`, which is not one.
#[track_caller]
pub fn id() -> Id {
    try_id().expect("Can't get a task id when not inside a task")
}

/// The id of the current task, if there is one.
pub fn try_id() -> Option<Id> {
    match current_id() {
        0 => None,
        id => Some(Id::from_u64(id)),
    }
}

/// Notes what the current task is about to wait for.
#[inline]
pub(crate) fn waiting_on(wait: impl FnOnce(u32) -> Wait) {
    CONTEXT.with(|context| {
        let current = context.current.get();
        if !current.is_null() {
            // SAFETY: the task being polled on this thread is alive.
            unsafe { &*current }.waiting.record(wait(context.now_ms.get()));
        }
    });
}

/// Notes a better place for what the current task is about to wait for: that of
/// the call, where the leaf knows only where its resource was made.
#[inline]
pub(crate) fn waiting_site(site: &'static std::panic::Location<'static>) {
    CONTEXT.with(|context| {
        let current = context.current.get();
        if !current.is_null() {
            // SAFETY: the task being polled on this thread is alive.
            unsafe { &*current }.waiting.set_site(site);
        }
    });
}

/// The current task waits on purpose in one more future: see `may_wait_forever`.
pub(super) fn exempt_current() {
    CONTEXT.with(|context| context.exempt.set(context.exempt.get() + 1));
}

/// In the same poll, that future ended or went away.
pub(super) fn unexempt_current() {
    CONTEXT.with(|context| context.exempt.set(context.exempt.get().saturating_sub(1)));
}

pub(crate) fn now_ms() -> u32 {
    CONTEXT.with(|context| context.now_ms.get())
}

pub(crate) fn set_now_ms(now_ms: u32) {
    CONTEXT.with(|context| context.now_ms.set(now_ms));
}

#[inline]
pub(super) fn owns_heap(heap: *const Heap) -> bool {
    CONTEXT.with(|context| ptr::eq(context.heap.get(), heap))
}

/// Whether this thread holds an allocator of the scheduler `home`.
#[inline]
pub(super) fn is_at_home(home: NonNull<dyn Home>) -> bool {
    let heap = CONTEXT.with(|context| context.heap.get());
    // SAFETY: whoever named the heap keeps it until it names another.
    unsafe { heap.as_ref() }.is_some_and(|heap| heap.is_of(home))
}

/// Names `outer` again, which was named before `own`; unless `own` is no longer
/// named, as then the right to `outer` went to another thread meanwhile.
pub(crate) fn restore_heap(own: *const Heap, outer: *const Heap) {
    CONTEXT.with(|context| {
        if ptr::eq(context.heap.get(), own) {
            context.heap.set(outer);
        }
    });
}

/// Names the heap whose allocator this thread holds from now on (H1); gives
/// back the one before.
pub(crate) fn set_heap(heap: *const Heap) -> *const Heap {
    CONTEXT.with(|context| context.heap.replace(heap))
}

#[inline]
pub(super) fn with_budget<R>(f: impl FnOnce(&Cell<Budget>) -> R) -> R {
    CONTEXT.with(|context| f(&context.budget))
}

/// Polls something that is no task (the future of `block_on`) with a full
/// budget and no current task.
pub(crate) fn poll_root<R>(poll: impl FnOnce() -> R) -> R {
    struct Restore(*const Header, u64, Budget, u32);
    impl Drop for Restore {
        fn drop(&mut self) {
            CONTEXT.with(|context| {
                context.current.set(self.0);
                context.current_id.set(self.1);
                context.budget.set(self.2);
                context.exempt.set(self.3);
            });
        }
    }
    let _restore = CONTEXT.with(|context| {
        Restore(
            context.next_poll().current.replace(ptr::null()),
            context.current_id.replace(0),
            context.budget.replace(Budget::FULL),
            context.exempt.replace(0),
        )
    });
    poll()
}

/// Runs `f`, which may block, without the limits of the current poll.
pub(crate) fn without_budget<R>(f: impl FnOnce() -> R) -> R {
    coop::without_limit(f)
}

/// A random number below `n`, from the generator that the runtime seeded on
/// this thread; outside of any runtime, from one of the thread's own.
pub(crate) fn random_below(n: u32) -> u32 {
    CONTEXT.with(|context| {
        let mut rng =
            context.rng.get().unwrap_or_else(|| Rng::from_seed(RandomState::new().hash_one(n)));
        let number = rng.below(n);
        context.rng.set(Some(rng));
        number
    })
}

/// Seeds this thread's randomness; gives back the generator before.
pub(crate) fn set_rng(rng: Option<Rng>) -> Option<Rng> {
    CONTEXT.with(|context| context.rng.replace(rng))
}
