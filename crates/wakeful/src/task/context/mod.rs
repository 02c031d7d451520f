//! The thread-local context of the task that a thread polls.
//!
//! The context consists of plain thread-local cells without a destructor, so an access is one
//! instruction.
//!
//! - `poll_locals`: budget, self-wakes and exemptions of the current poll.
//! - `waits`: leaf futures record what the current task waits for.
//! - `yields`: requeues the current task, and defers wakes to the end of the poll.
//!
//! This file has the ids, the clock, the arena, the random number generator, and the `block_on`
//! that the thread is in.

mod poll_locals;
mod waits;
mod yields;

pub(super) use poll_locals::{
    enter_poll, exempt_current, poll_facts, poll_id, unexempt_current, with_budget, with_polled,
};
pub(crate) use poll_locals::{poll_block_on, poll_blocked_thread, poll_unattributed};
pub(super) use waits::record_join_wait;
pub(crate) use waits::{
    current_poll, has_indirect_link, is_own_waker, record_linked_wait, record_wait,
    record_wait_at_resource, record_wait_keeping_link, set_wait_site, wait_record_of,
};
pub(super) use yields::{is_current, try_wake_current};
pub(crate) use yields::{
    set_budget_end_hook, set_budget_yield_counter, set_drains_deferred, wake_deferred,
    yield_out_of_budget, yield_task,
};

use super::arena::Arena;
use super::block_on::{BlockOnRecord, is_block_on_id};
use super::coop::Budget;
use super::data::TaskData;
use super::header::Header;
use super::schedule::Schedule;
use super::{Id, coop};
use crate::sys::rng::Rng;
use crate::sys::sync::thread_local;
use poll_locals::PollLocals;
use std::cell::Cell;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::ptr::{self, NonNull};
use std::sync::{Arc, OnceLock};

struct ThreadContext {
    /// The task that this thread polls.
    current: Cell<*const Header>,
    /// The id of the task that this thread polls or drops, or of its `block_on` future; 0 for none.
    current_id: Cell<u64>,
    /// The record of the innermost `block_on` that this thread is in.
    block_on: Cell<*const BlockOnRecord>,
    locals: PollLocals,
    /// The arena whose allocator this thread holds.
    arena: Cell<*const Arena>,
    /// The time since the runtime on this thread started, in milliseconds. The runtime's loop reads
    /// the clock once per iteration.
    now_ms: Cell<u32>,
    /// Whether a scheduler on this thread wakes the deferred wakers.
    drains_deferred: Cell<bool>,
    /// Whether there are deferred wakers.
    has_deferred: Cell<bool>,
    rng: Cell<Option<Rng>>,
}

thread_local! {
    static CONTEXT: ThreadContext = const {
        ThreadContext {
            current: Cell::new(ptr::null()),
            current_id: Cell::new(0),
            block_on: Cell::new(ptr::null()),
            locals: PollLocals::new(Budget::UNLIMITED),
            arena: Cell::new(ptr::null()),
            now_ms: Cell::new(0),
            drains_deferred: Cell::new(false),
            has_deferred: Cell::new(false),
            rng: Cell::new(None),
        }
    };
}

/// A guard that restores the previous current id.
pub(crate) struct IdGuard(u64);

/// Makes `id` the current one until the guard is dropped. Used while a future or an output is
/// dropped, and in models.
pub(crate) fn enter_id(id: u64) -> IdGuard {
    IdGuard(CONTEXT.with(|context| context.current_id.replace(id)))
}

impl Drop for IdGuard {
    fn drop(&mut self) {
        CONTEXT.with(|context| context.current_id.set(self.0));
    }
}

/// Returns the id of the task being polled or dropped, or of the polled `block_on` future; 0 for
/// none.
pub(crate) fn current_id() -> u64 {
    CONTEXT.with(|context| context.current_id.get())
}

/// Returns the data of the task that this thread polls, if any.
pub(super) fn current_data() -> Option<Arc<dyn TaskData>> {
    let (current, id) = CONTEXT.with(|context| (context.current.get(), context.current_id.get()));
    // SAFETY: the task that this thread polls is alive.
    let task = unsafe { current.as_ref() }?;
    // The id differs while the destructor of a cancelled task runs, or the future of a `block_on`
    // in this poll.
    (task.id.get() == id).then(|| task.attached())??.data()
}

/// Returns the id of the current task.
///
/// Use [`try_id`] if the caller may run outside a task.
///
/// # Panics
///
/// If called outside a task, or inside the future of `block_on`, which is not a task.
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() {
/// let handle = wakeful::spawn(async { wakeful::task::id() });
/// let id = handle.id();
/// assert_eq!(handle.await.unwrap(), id);
/// # }
/// ```
#[track_caller]
pub fn id() -> Id {
    try_id().expect("Can't get a task id when not inside a task")
}

/// Returns the id of the current task, or `None` outside of a task.
///
/// The future of `block_on` is not a task.
///
/// # Examples
///
/// ```
/// assert!(wakeful::task::try_id().is_none());
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn run() {
/// assert!(wakeful::spawn(async { wakeful::task::try_id() }).await.unwrap().is_some());
/// # }
/// # run();
/// ```
pub fn try_id() -> Option<Id> {
    match current_id() {
        0 => None,
        id if is_block_on_id(id) => None,
        id => Some(Id::from_u64(id)),
    }
}

/// Returns the time in milliseconds that the runtime's loop last read from its clock.
pub(crate) fn now_ms() -> u32 {
    CONTEXT.with(|context| context.now_ms.get())
}

/// A guard that restores the previous time.
pub(crate) struct NowGuard(u32);

/// Sets the current time until the guard is dropped.
pub(crate) fn set_now_ms_scoped(now_ms: u32) -> NowGuard {
    NowGuard(CONTEXT.with(|context| context.now_ms.replace(now_ms)))
}

impl Drop for NowGuard {
    fn drop(&mut self) {
        set_now_ms(self.0);
    }
}

pub(crate) fn set_now_ms(now_ms: u32) {
    CONTEXT.with(|context| context.now_ms.set(now_ms));
}

/// Returns whether this thread holds the allocator of `arena`.
#[inline]
pub(super) fn owns_arena(arena: *const Arena) -> bool {
    CONTEXT.with(|context| ptr::eq(context.arena.get(), arena))
}

/// Returns whether this thread holds an allocator of `scheduler`.
#[inline]
pub(super) fn runs_scheduler(scheduler: NonNull<dyn Schedule>) -> bool {
    let arena = CONTEXT.with(|context| context.arena.get());
    // SAFETY: the thread that set the arena keeps it alive until it sets another.
    unsafe { arena.as_ref() }.is_some_and(|arena| arena.belongs_to(scheduler))
}

/// Restores the arena `outer`, which was set before `own`.
///
/// Does nothing if `own` is no longer set: then the allocator of `outer` has moved to another
/// thread.
pub(crate) fn restore_arena(own: *const Arena, outer: *const Arena) {
    CONTEXT.with(|context| {
        if ptr::eq(context.arena.get(), own) {
            context.arena.set(outer);
        }
    });
}

/// Sets the arena whose allocator this thread holds (ARENA-1), and returns the previous one.
pub(crate) fn set_arena(arena: *const Arena) -> *const Arena {
    CONTEXT.with(|context| context.arena.replace(arena))
}

/// Sets the record of the `block_on` that this thread is in, and returns the previous one.
pub(crate) fn set_block_on(record: *const BlockOnRecord) -> *const BlockOnRecord {
    CONTEXT.with(|context| context.block_on.replace(record))
}

/// Returns whether this thread is in the `block_on` of that record.
#[inline]
pub(crate) fn is_current_block_on(record: &BlockOnRecord) -> bool {
    CONTEXT.with(|context| ptr::eq(context.block_on.get(), record))
}

/// Marks the current `block_on` future, if any, as one that ran tasks in this poll.
///
/// The future is about to wake itself to run more tasks, which is not spinning.
pub(crate) fn mark_block_on_worked() {
    CONTEXT.with(|context| {
        // SAFETY: a record that is set here is alive until it is unset.
        if let Some(record) = unsafe { context.block_on.get().as_ref() } {
            record.mark_worked();
        }
    });
}

/// Runs `f`, which may block, without the budget of the current poll.
pub(crate) fn without_budget<R>(f: impl FnOnce() -> R) -> R {
    coop::without_limit(f)
}

/// Returns a random number below `n`.
///
/// The number comes from the generator that the runtime seeded on this thread, or from the oracle
/// of a simulation. Outside a runtime, the thread has its own generator.
pub(crate) fn random_below(n: u32) -> u32 {
    CONTEXT.with(|context| {
        let Some(mut rng) = context.rng.get() else { return random_without_rng(n) };
        let number = rng.below(n);
        context.rng.set(Some(rng));
        number
    })
}

/// Returns a random number below `n` on a thread without a generator.
///
/// In a simulation the oracle chooses the number. Otherwise the thread gets its own generator.
#[cold]
fn random_without_rng(n: u32) -> u32 {
    if let Some(number) = CHOOSE_SIMULATED.get().and_then(|choose| choose(n)) {
        return number;
    }
    let mut rng = Rng::from_seed(RandomState::new().hash_one(n));
    let number = rng.below(n);
    set_rng(Some(rng));
    number
}

/// The function that chooses a number below its argument, if the thread's current runtime is
/// simulated.
static CHOOSE_SIMULATED: OnceLock<fn(u32) -> Option<u32>> = OnceLock::new();

/// Sets the function that chooses random numbers in simulations. Later calls have no effect.
pub(crate) fn set_simulated_choice(choose: fn(u32) -> Option<u32>) {
    CHOOSE_SIMULATED.get_or_init(|| choose);
}

/// Sets the random number generator of this thread, and returns the previous one.
pub(crate) fn set_rng(rng: Option<Rng>) -> Option<Rng> {
    CONTEXT.with(|context| context.rng.replace(rng))
}
