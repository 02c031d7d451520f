//! What a thread knows about the task it is polling. Plain cells in
//! thread-local memory without a destructor: an access is one instruction.

use super::arena::{Arena, Schedule};
use super::block_on::{BlockOnRecord, is_block_on_id};
use super::coop::Budget;
use super::header::Header;
use super::wait_kind::WaitKind;
use super::wait_record::{Wait, WaitRecord, WaitWriter};
use super::wait_target::TargetWord;
use super::waker;
use super::{Id, coop};
use crate::sys::rng::Rng;
use crate::sys::sync::thread_local;
use std::cell::{Cell, RefCell};
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::num::NonZeroU64;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::ptr::{self, NonNull};
use std::task::Waker;

struct ThreadContext {
    /// The task this thread is inside the poll of.
    current: Cell<*const Header>,
    /// The task whose poll or drop this thread is inside of, or the root; 0 for none.
    current_id: Cell<u64>,
    /// The root of the innermost `block_on` that this thread is in.
    root: Cell<*const BlockOnRecord>,
    side: PollLocals,
    /// The heap whose allocator this thread holds.
    heap: Cell<*const Arena>,
    /// Milliseconds since the runtime on this thread started, read from its
    /// clock once per turn of its loop.
    now_ms: Cell<u32>,
    /// A scheduler on this thread empties the list of put-off wakers.
    defers: Cell<bool>,
    /// There are put-off wakers.
    deferred: Cell<bool>,
    rng: Cell<Option<Rng>>,
}

thread_local! {
    static CONTEXT: ThreadContext = const {
        ThreadContext {
            current: Cell::new(ptr::null()),
            current_id: Cell::new(0),
            root: Cell::new(ptr::null()),
            side: PollLocals::new(Budget::UNLIMITED),
            heap: Cell::new(ptr::null()),
            now_ms: Cell::new(0),
            defers: Cell::new(false),
            deferred: Cell::new(false),
            rng: Cell::new(None),
        }
    };
    static DEFERRED: RefCell<Vec<Waker>> = const { RefCell::new(Vec::new()) };
}

/// What goes on beside a poll: eight bytes, so that a poll within a poll puts all of it
/// aside in one step. The single parts are read and written as what they are, as a read of
/// all would have to wait for the write of a part.
#[repr(C, align(8))]
struct PollLocals {
    budget: Cell<Budget>,
    /// The current task woke itself.
    self_woken: Cell<bool>,
    /// How many futures within the current task were woken at once for want of budget.
    gave_way: Cell<u16>,
    /// How many futures the current task waits in on purpose, for what may never come.
    exempt: Cell<u32>,
}

/// All of a [`PollLocals`], put aside.
#[derive(Clone, Copy)]
struct SavedPollLocals(u64);

impl SavedPollLocals {
    /// Nothing has happened yet.
    const fn fresh(budget: Budget) -> Self {
        Self(u64::from_ne_bytes([budget.to_u8(), 0, 0, 0, 0, 0, 0, 0]))
    }
}

impl PollLocals {
    const fn new(budget: Budget) -> Self {
        Self {
            budget: Cell::new(budget),
            self_woken: Cell::new(false),
            gave_way: Cell::new(0),
            exempt: Cell::new(0),
        }
    }

    #[inline]
    fn replace(&self, with: SavedPollLocals) -> SavedPollLocals {
        const { assert!(size_of::<PollLocals>() == size_of::<SavedPollLocals>()) }
        // SAFETY: as large, as aligned and without padding, all of it in cells. What is
        // written was read here before, or made by `fresh`: there, too, no byte but the
        // budget's is other than 0.
        let all = unsafe { &*ptr::from_ref(self).cast::<Cell<u64>>() };
        SavedPollLocals(all.replace(with.0))
    }
}

/// What happened on the side during a poll.
#[derive(Clone, Copy)]
pub(super) struct PollOutcome {
    pub(super) self_woken: bool,
    exempt: u32,
}

impl PollOutcome {
    pub(super) fn is_exempt(&self) -> bool {
        self.exempt > 0
    }
}

/// Which poll is going on, and of which task or root: tells whether two moments lie in one.
/// `None` in no poll of ours. One word, of the lower half of the id, as futures keep it.
pub(super) fn poll_id() -> Option<NonZeroU64> {
    let number = |id: u64, poll: u32| NonZeroU64::new(id << 32 | u64::from(poll));
    CONTEXT.with(|context| {
        // SAFETY: the task being polled on this thread is alive, and so is the root that
        // this thread is in the `block_on` of.
        unsafe {
            match context.current.get().as_ref() {
                Some(header) => number(header.id.get(), header.polls()),
                None => context.root.get().as_ref().and_then(|root| number(root.id, root.poll())),
            }
        }
    })
}

/// One poll of one task; what was there before comes back at its end.
pub(super) struct PollGuard {
    outer: *const Header,
    outer_id: u64,
    outer_side: SavedPollLocals,
}

#[inline]
pub(super) fn enter_poll(cell: *const Header, id: u64) -> PollGuard {
    CONTEXT.with(|context| PollGuard {
        outer: context.current.replace(cell),
        outer_id: context.current_id.replace(id),
        outer_side: context.side.replace(SavedPollLocals::fresh(Budget::FULL)),
    })
}

impl PollGuard {
    #[inline]
    pub(super) fn end(self) -> PollOutcome {
        CONTEXT.with(|context| {
            context.current.set(self.outer);
            context.current_id.set(self.outer_id);
            let side = &context.side;
            let marks =
                PollOutcome { self_woken: side.self_woken.get(), exempt: side.exempt.get() };
            side.replace(self.outer_side);
            marks
        })
    }
}

/// Whether `cell` is the task this thread is polling right now: then TASK-1 is its.
#[inline]
pub(super) fn is_current(cell: *const Header) -> bool {
    CONTEXT.with(|context| context.current.get() == cell)
}

/// If `cell` is the task this thread is polling right now, notes that it is to
/// run again (TASK-3) and answers true.
#[inline]
pub(super) fn try_wake_current(cell: *const Header) -> bool {
    CONTEXT.with(|context| {
        let own = context.current.get() == cell;
        if own {
            context.side.self_woken.set(true);
        }
        own
    })
}

/// Puts the task behind `waker` back into its queue, after everything else that
/// is ready had its turn; notes that it does so from there.
#[inline]
pub(crate) fn yield_task(waker: &Waker, site: &'static Location<'static>) {
    CONTEXT.with(|context| match context.record_of_task(waker) {
        Some(record) => {
            record.record_yield(site, context.now_ms.get());
            context.side.self_woken.set(true);
        }
        None => yield_by_waker(waker, site),
    });
}

/// The same for what is no task, or was polled with another waker.
#[inline(never)]
fn yield_by_waker(waker: &Waker, site: &'static Location<'static>) {
    CONTEXT.with(|context| {
        if let Some(record) = context.record() {
            record.record_yield(site, context.now_ms.get());
        }
        if context.defers.get() {
            defer(context, waker);
        } else {
            waker.wake_by_ref();
        }
    });
}

/// The same, because the task has spent its budget: it is to be polled again, and not
/// to be taken for one that spins.
#[cold]
#[track_caller]
pub(crate) fn yield_out_of_budget(waker: &Waker) {
    let site = Location::caller();
    CONTEXT.with(|context| {
        let own = context.record_of_task(waker).or_else(|| context.record_of_root(waker));
        let gave_way = &context.side.gave_way;
        match context.record() {
            Some(record) if own.is_none() && gave_way.get() < GIVE_WAY_AT_ONCE => {
                gave_way.set(gave_way.get() + 1);
                record.record_budget_yield(site, context.now_ms.get());
                // SAFETY: as in `record`.
                let root = unsafe { context.root.get().as_ref() };
                if let Some(root) = root.filter(|_| context.current.get().is_null()) {
                    // It wakes itself in its poll, and does not spin.
                    root.mark_worked();
                }
                waker.wake_by_ref();
            }
            _ => yield_task(waker, site),
        }
    });
}

/// So many futures of a poll that was left without budget are woken at once, if a set
/// within the task (`FuturesUnordered`, say) polls them, the others after the poll. Such a
/// set ends its turn once it sees two of its futures wake themselves. Were all put off, it
/// would poll every one of them in vain before each next unit of work, and were all woken at
/// once, a set that only stops when nothing is woken would go on for ever.
const GIVE_WAY_AT_ONCE: u16 = 2;

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

/// Wakes what was put off with [`yield_task`], if anything. For schedulers,
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
pub(crate) fn set_drains_deferred(on: bool) -> bool {
    CONTEXT.with(|context| context.defers.replace(on))
}

/// Restores the id that was current before.
pub(crate) struct IdGuard(u64);

/// Makes `id` the current one while a future or an output is dropped, or in a model.
pub(crate) fn enter_id(id: u64) -> IdGuard {
    IdGuard(CONTEXT.with(|context| context.current_id.replace(id)))
}

impl Drop for IdGuard {
    fn drop(&mut self) {
        CONTEXT.with(|context| context.current_id.set(self.0));
    }
}

/// The id of the task being polled or dropped, or the number of the root being
/// polled; 0 for none.
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
        id if is_block_on_id(id) => None,
        id => Some(Id::from_u64(id)),
    }
}

impl ThreadContext {
    /// Where the task or root that is being polled says what it waits for.
    #[inline]
    fn record(&self) -> Option<WaitWriter<'_>> {
        // SAFETY: the task being polled on this thread is alive, and so is the root that
        // this thread is in the `block_on` of.
        unsafe {
            match self.current.get().as_ref() {
                Some(header) => Some(header.wait_writer()),
                None => self.root.get().as_ref().map(BlockOnRecord::wait_writer),
            }
        }
    }

    /// The record of one that waits for a task's end; `target` is that task, perhaps linked.
    #[inline]
    fn join_of(&self, target: TargetWord, task: &Header) -> Wait {
        Wait {
            kind: WaitKind::Join,
            target,
            site: task.origin.get().spawned_at(),
            since_ms: self.now_ms.get(),
        }
    }

    #[inline]
    fn wait_at(
        &self,
        record: WaitWriter<'_>,
        target: TargetWord,
        kind: WaitKind,
        site: &'static Location<'static>,
    ) -> NonNull<WaitRecord> {
        let since_ms = self.now_ms.get();
        record.record_linked(Wait { kind, target, site, since_ms });
        NonNull::from(record.waiting)
    }

    /// Where the task that is being polled says what it waits for, if `waker` is its own.
    #[inline]
    fn record_of_task(&self, waker: &Waker) -> Option<WaitWriter<'_>> {
        let current = self.current.get();
        if !waker::is_of(waker, current) {
            return None;
        }
        // SAFETY: the task being polled on this thread is alive.
        unsafe { current.as_ref() }.map(Header::wait_writer)
    }

    /// The same for a root.
    fn record_of_root(&self, waker: &Waker) -> Option<WaitWriter<'_>> {
        if !self.current.get().is_null() {
            return None;
        }
        // SAFETY: this thread is in the `block_on` of the root.
        let root = unsafe { self.root.get().as_ref() }?;
        root.is_waker(waker).then(|| root.wait_writer())
    }
}

/// Notes what the current task is about to wait for.
#[inline]
pub(crate) fn record_wait(wait: impl FnOnce(u32) -> Wait) {
    CONTEXT.with(|context| {
        if let Some(record) = context.record() {
            record.record(wait(context.now_ms.get()));
        }
    });
}

/// As `waiting_on`, for what is most often waited for beside something else, to end that: a
/// moment, a notification. A lock, say, that the task waits for as well tells more.
#[inline]
pub(crate) fn record_secondary_wait(wait: impl FnOnce(u32) -> Wait) {
    CONTEXT.with(|context| {
        if let Some(record) = context.record().filter(|record| !record.is_linked_to_resource()) {
            record.record(wait(context.now_ms.get()));
        }
    });
}

/// As `waiting_on`, unless something was noted in this poll, whatever it was.
#[inline]
pub(crate) fn record_wait_if_none(wait: impl FnOnce(u32) -> Wait) {
    CONTEXT.with(|context| {
        if let Some(record) = context.record() {
            record.record_if_none(|| wait(context.now_ms.get()));
        }
    });
}

/// As `waiting_on`, for a target that may be linked already: then it stays so.
#[inline]
pub(crate) fn record_wait_keeping_link(wait: impl FnOnce(u32) -> Wait) {
    CONTEXT.with(|context| {
        if let Some(record) = context.record() {
            record.record_keeping_link(wait(context.now_ms.get()));
        }
    });
}

/// As `waiting_on`, for the end of a task, with which `waker` lies. The target is linked if that
/// is the waker of what is being polled.
#[inline]
pub(super) fn record_join_wait(task: &Header, waker: &Waker) {
    let target = TargetWord::of_task(task.id.get());
    CONTEXT.with(|context| match context.record_of_task(waker) {
        Some(record) => record.record_linked(context.join_of(target.linked(), task)),
        None => record_join_wait_slow(task, waker),
    });
}

/// The same for what is no task, or was polled with another waker.
#[cold]
fn record_join_wait_slow(task: &Header, waker: &Waker) {
    let target = TargetWord::of_task(task.id.get());
    CONTEXT.with(|context| match context.record_of_root(waker) {
        Some(record) => record.record_linked(context.join_of(target.linked(), task)),
        None => record_wait(|_| context.join_of(target, task)),
    });
}

/// Notes what the current task is about to wait for: a linked target, if `waker` is the task's
/// own. Then the record is given back, as by `wait_record_of`; otherwise the target is not linked.
#[inline]
pub(crate) fn record_linked_wait(
    waker: &Waker,
    target: TargetWord,
    kind: WaitKind,
    site: &'static Location<'static>,
) -> Option<NonNull<WaitRecord>> {
    CONTEXT.with(|context| match context.record_of_task(waker) {
        Some(record) => Some(context.wait_at(record, target, kind, site)),
        None => record_linked_wait_slow(waker, target, kind, site),
    })
}

/// The same for what is no task, or was polled with another waker.
#[cold]
fn record_linked_wait_slow(
    waker: &Waker,
    target: TargetWord,
    kind: WaitKind,
    site: &'static Location<'static>,
) -> Option<NonNull<WaitRecord>> {
    CONTEXT.with(|context| {
        if let Some(record) = context.record_of_root(waker) {
            return Some(context.wait_at(record, target, kind, site));
        }
        record_wait(|since_ms| Wait { kind, target: target.unlinked(), site, since_ms });
        None
    })
}

/// The record of what is being polled on this thread, if `waker` is its own. It
/// stays as long as the waker does.
#[inline]
pub(crate) fn wait_record_of(waker: &Waker) -> Option<NonNull<WaitRecord>> {
    CONTEXT.with(|context| {
        let record = context.record_of_task(waker).or_else(|| context.record_of_root(waker));
        record.map(|record| NonNull::from(record.waiting))
    })
}

/// Notes a better place for what the current task is about to wait for: that of
/// the call, where the leaf knows only where its resource was made.
#[inline]
pub(crate) fn set_wait_site(site: &'static Location<'static>) {
    CONTEXT.with(|context| {
        if let Some(record) = context.record() {
            record.set_site(site);
        }
    });
}

/// The current task waits on purpose in one more future: see `may_wait_forever`.
pub(super) fn exempt_current() {
    CONTEXT.with(|context| context.side.exempt.set(context.side.exempt.get() + 1));
}

/// In the same poll, that future ended or went away.
pub(super) fn unexempt_current() {
    CONTEXT.with(|context| {
        let exempt = &context.side.exempt;
        exempt.set(exempt.get().saturating_sub(1));
    });
}

pub(crate) fn now_ms() -> u32 {
    CONTEXT.with(|context| context.now_ms.get())
}

/// Restores the moment that was current before.
pub(crate) struct Moment(u32);

/// Until it is dropped, it is this moment.
pub(crate) fn set_now_ms_scoped(now_ms: u32) -> Moment {
    Moment(CONTEXT.with(|context| context.now_ms.replace(now_ms)))
}

impl Drop for Moment {
    fn drop(&mut self) {
        set_now_ms(self.0);
    }
}

pub(crate) fn set_now_ms(now_ms: u32) {
    CONTEXT.with(|context| context.now_ms.set(now_ms));
}

#[inline]
pub(super) fn owns_arena(heap: *const Arena) -> bool {
    CONTEXT.with(|context| ptr::eq(context.heap.get(), heap))
}

/// Whether this thread holds an allocator of the scheduler `home`.
#[inline]
pub(super) fn runs_scheduler(home: NonNull<dyn Schedule>) -> bool {
    let heap = CONTEXT.with(|context| context.heap.get());
    // SAFETY: whoever named the heap keeps it until it names another.
    unsafe { heap.as_ref() }.is_some_and(|heap| heap.is_of(home))
}

/// Names `outer` again, which was named before `own`; unless `own` is no longer
/// named, as then the right to `outer` went to another thread meanwhile.
pub(crate) fn restore_arena(own: *const Arena, outer: *const Arena) {
    CONTEXT.with(|context| {
        if ptr::eq(context.heap.get(), own) {
            context.heap.set(outer);
        }
    });
}

/// Names the heap whose allocator this thread holds from now on (ARENA-1); gives
/// back the one before.
pub(crate) fn set_arena(heap: *const Arena) -> *const Arena {
    CONTEXT.with(|context| context.heap.replace(heap))
}

#[inline]
pub(super) fn with_budget<R>(f: impl FnOnce(&Cell<Budget>) -> R) -> R {
    CONTEXT.with(|context| f(&context.side.budget))
}

/// Names the root of the `block_on` that this thread is in from now on; gives back the
/// one before.
pub(crate) fn set_block_on(root: *const BlockOnRecord) -> *const BlockOnRecord {
    CONTEXT.with(|context| context.root.replace(root))
}

/// Whether this thread is in the `block_on` of that root.
#[inline]
pub(crate) fn is_current_block_on(root: &BlockOnRecord) -> bool {
    CONTEXT.with(|context| ptr::eq(context.root.get(), root))
}

/// If this thread is in a `block_on`: its future has run tasks in this poll, and is about to
/// wake itself to run more.
pub(crate) fn mark_block_on_worked() {
    CONTEXT.with(|context| {
        // SAFETY: a root that is set here is alive until it is unset.
        if let Some(root) = unsafe { context.root.get().as_ref() } {
            root.mark_worked();
        }
    });
}

/// Polls the future of `block_on`, whose root was named, with a full budget and no
/// current task.
#[inline]
pub(crate) fn poll_block_on<R>(root: &BlockOnRecord, poll: impl FnOnce() -> R) -> R {
    debug_assert!(is_current_block_on(root));
    poll_as(root.id, poll)
}

/// The same for something that is neither a task nor a root, and says of nobody what it
/// waits for.
pub(crate) fn poll_unattributed<R>(poll: impl FnOnce() -> R) -> R {
    struct Restore(*const BlockOnRecord);
    impl Drop for Restore {
        fn drop(&mut self) {
            set_block_on(self.0);
        }
    }
    let _restore = Restore(set_block_on(ptr::null()));
    poll_as(0, poll)
}

#[inline]
fn poll_as<R>(id: u64, poll: impl FnOnce() -> R) -> R {
    struct Restore {
        current: *const Header,
        id: u64,
        side: SavedPollLocals,
    }
    impl Drop for Restore {
        fn drop(&mut self) {
            CONTEXT.with(|context| {
                context.current.set(self.current);
                context.current_id.set(self.id);
                context.side.replace(self.side);
            });
        }
    }
    let _restore = CONTEXT.with(|context| Restore {
        current: context.current.replace(ptr::null()),
        id: context.current_id.replace(id),
        side: context.side.replace(SavedPollLocals::fresh(Budget::FULL)),
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
