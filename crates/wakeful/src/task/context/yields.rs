//! Yields, and wakers whose wake is deferred to the end of the poll.
//!
//! A task that yields with its own waker only sets a flag (TASK-3). Any other waker, for example
//! one of a `FuturesUnordered`, is woken by the scheduler after the poll. If it were woken at once,
//! the set would poll the same future again forever.

use super::{CONTEXT, ThreadContext};
use crate::sys::sync::thread_local;
use crate::sys::unwind::catch_and_forget;
use crate::task::header::Header;
use std::cell::{Cell, RefCell};
use std::panic::Location;
use std::sync::OnceLock;
use std::task::Waker;

thread_local! {
    static DEFERRED: RefCell<Vec<Waker>> = const { RefCell::new(Vec::new()) };
    /// The hook that is called when a poll ends because its budget is exhausted.
    static BUDGET_END: Cell<Option<fn()>> = const { Cell::new(None) };
}

/// The number of futures inside a task that are woken at once per poll when the budget is
/// exhausted. The wakes of other futures are deferred.
///
/// A set inside the task, such as `FuturesUnordered`, ends its poll once two of its futures have
/// woken themselves. If all wakes were deferred, the set would poll every future without progress
/// before each unit of work. If no wakes were deferred, a set that stops only when no future is
/// woken would never stop.
const BUDGET_WAKES_AT_ONCE: u16 = 2;

/// A bit of `PollLocals::budget_wakes`: the poll was counted as one that exhausted its budget.
const COUNTED: u16 = 1 << 15;

/// The function that counts a poll which exhausted its budget, in the thread's current runtime.
static COUNT_BUDGET_YIELD: OnceLock<fn()> = OnceLock::new();

/// Sets the function that counts polls which exhausted their budget. Later calls have no effect.
pub(crate) fn set_budget_yield_counter(count: fn()) {
    COUNT_BUDGET_YIELD.get_or_init(|| count);
}

/// Returns whether this thread polls the task in `cell`, and so has the right of TASK-1.
#[inline]
pub(in crate::task) fn is_current(cell: *const Header) -> bool {
    CONTEXT.with(|context| context.current.get() == cell)
}

/// Marks the task in `cell` as self-woken (TASK-3), if this thread polls it.
///
/// Returns whether this thread polls the task.
#[inline]
pub(in crate::task) fn try_wake_current(cell: *const Header) -> bool {
    CONTEXT.with(|context| {
        let is_current = context.current.get() == cell;
        if is_current {
            context.locals.self_woken.set(true);
        }
        is_current
    })
}

/// Requeues the task of `waker` behind all ready tasks, and records a yield at `site`.
#[inline]
pub(crate) fn yield_task(waker: &Waker, site: &'static Location<'static>) {
    CONTEXT.with(|context| match context.wait_writer_of_task(waker) {
        Some(writer) => {
            writer.record_yield(site, context.now_ms.get());
            context.locals.self_woken.set(true);
        }
        None => yield_by_waker(waker, site),
    });
}

/// [`yield_task`] for a `block_on` future, or a future that is polled with another waker.
#[inline(never)]
fn yield_by_waker(waker: &Waker, site: &'static Location<'static>) {
    CONTEXT.with(|context| {
        if let Some(writer) = context.wait_writer() {
            writer.record_yield(site, context.now_ms.get());
        }
        if context.drains_deferred.get() {
            defer(context, waker);
        } else {
            waker.wake_by_ref();
        }
    });
}

/// Sets a hook of this thread that is called when a poll ends because its budget is exhausted.
///
/// The call stack is that of the operation that would have been next.
pub(crate) fn set_budget_end_hook(note: fn()) {
    BUDGET_END.with(|hook| hook.set(Some(note)));
}

/// Requeues the task of `waker` because its budget is exhausted.
///
/// The spin detector does not count this as a self-wake.
#[cold]
#[track_caller]
pub(crate) fn yield_out_of_budget(waker: &Waker) {
    let site = Location::caller();
    if let Some(note) = BUDGET_END.with(Cell::get) {
        note();
    }
    CONTEXT.with(|context| {
        let own =
            context.wait_writer_of_task(waker).or_else(|| context.wait_writer_of_block_on(waker));
        let budget_wakes = &context.locals.budget_wakes;
        if budget_wakes.get() & COUNTED == 0 {
            budget_wakes.set(budget_wakes.get() | COUNTED);
            if let Some(count) = COUNT_BUDGET_YIELD.get() {
                count();
            }
        }
        let wakes = budget_wakes.get() & !COUNTED;
        match context.wait_writer() {
            Some(writer) if own.is_none() && wakes < BUDGET_WAKES_AT_ONCE => {
                budget_wakes.set(budget_wakes.get() + 1);
                writer.record_budget_yield(site, context.now_ms.get());
                // SAFETY: the record of the `block_on` that this thread is in is alive.
                let record = unsafe { context.block_on.get().as_ref() };
                if let Some(record) = record.filter(|_| context.current.get().is_null()) {
                    // The future wakes itself in its poll, but does not spin.
                    record.mark_worked();
                }
                waker.wake_by_ref();
            }
            _ => yield_task(waker, site),
        }
    });
}

fn defer(context: &ThreadContext, waker: &Waker) {
    let by_ref = waker;
    let waker = waker.clone();
    let stored = DEFERRED.try_with(|list| {
        let mut list = list.borrow_mut();
        // A future that yields twice in a row is woken once.
        let is_repeated = list.last().is_some_and(|last| last.will_wake(&waker));
        if is_repeated {
            return Some(waker);
        }
        list.push(waker);
        None
    });
    match stored {
        // Dropped outside the borrow, because a foreign waker may call back.
        Ok(unneeded) => drop(unneeded),
        // The thread is exiting, and no scheduler will drain the list.
        Err(_) => return by_ref.wake_by_ref(),
    }
    context.has_deferred.set(true);
}

/// Wakes the deferred wakers. Returns whether there were any.
///
/// The scheduler calls this after each poll.
#[inline]
pub(crate) fn wake_deferred() -> bool {
    let any = CONTEXT.with(|context| context.has_deferred.replace(false));
    any && wake_all_deferred()
}

#[cold]
fn wake_all_deferred() -> bool {
    DEFERRED
        .try_with(|list| {
            // Taken out before the wakes, because a foreign waker may call back.
            let mut wakers = list.take();
            for waker in wakers.drain(..) {
                // A foreign waker that panics must not stop the wakes of the others.
                catch_and_forget(|| waker.wake());
            }
            let mut list = list.borrow_mut();
            if list.capacity() == 0 {
                *list = wakers;
            }
            true
        })
        .unwrap_or(false)
}

/// Sets whether a scheduler on this thread calls [`wake_deferred`]. Returns the old value.
pub(crate) fn set_drains_deferred(drains: bool) -> bool {
    CONTEXT.with(|context| context.drains_deferred.replace(drains))
}
