//! Thread-local state of the current poll: the budget, self-wakes and exemptions.

use super::super::block_on::BlockOnRecord;
use super::super::coop::Budget;
use super::super::futile::{FutileTask, PollFacts};
use super::super::header::Header;
use super::super::wait_kind::WaitKind;
use super::{CONTEXT, is_current_block_on, set_block_on};
use std::cell::Cell;
use std::num::NonZeroU64;
use std::ptr;

/// The values that belong to one poll.
///
/// The values take eight bytes, so that a nested poll saves all of them with one load and one
/// store. Single fields are accessed by their own type, because a load of all eight bytes right
/// after a store of one field would stall.
#[repr(C, align(8))]
pub(super) struct PollLocals {
    pub(super) budget: Cell<Budget>,
    /// Whether the current task woke itself.
    pub(super) self_woken: Cell<bool>,
    /// The number of futures inside the current task that were woken at once because the budget is
    /// exhausted.
    pub(super) budget_wakes: Cell<u16>,
    /// The number of `may_wait_forever` futures in which the current task is pending.
    pub(super) exempt: Cell<u32>,
}

/// The saved bytes of a [`PollLocals`].
#[derive(Clone, Copy)]
pub(super) struct SavedPollLocals(u64);

impl SavedPollLocals {
    /// Returns the values at the start of a poll.
    const fn fresh(budget: Budget) -> Self {
        Self(u64::from_ne_bytes([budget.to_u8(), 0, 0, 0, 0, 0, 0, 0]))
    }
}

impl PollLocals {
    pub(super) const fn new(budget: Budget) -> Self {
        Self {
            budget: Cell::new(budget),
            self_woken: Cell::new(false),
            budget_wakes: Cell::new(0),
            exempt: Cell::new(0),
        }
    }

    /// Replaces all values, and returns the old ones.
    #[inline]
    fn replace(&self, with: SavedPollLocals) -> SavedPollLocals {
        const { assert!(size_of::<PollLocals>() == size_of::<SavedPollLocals>()) }
        // SAFETY: size and alignment are equal, there is no padding, and all fields are cells. The
        // bytes that are written were read here before, or made by `fresh`, which sets the budget
        // and zeros the other bytes. In both cases they are valid for the fields.
        let all = unsafe { &*ptr::from_ref(self).cast::<Cell<u64>>() };
        SavedPollLocals(all.replace(with.0))
    }
}

/// The events of a poll besides its result.
#[derive(Clone, Copy)]
pub(in crate::task) struct PollOutcome {
    pub(in crate::task) self_woken: bool,
    exempt: u32,
}

impl PollOutcome {
    /// Returns whether the task is pending in a `may_wait_forever` future.
    pub(in crate::task) fn is_exempt(&self) -> bool {
        self.exempt > 0
    }
}

/// Returns an identifier of the current poll, of a task or a `block_on` future.
///
/// Returns `None` outside every poll of this runtime. The value is one word, because futures store
/// it: the lower half of the id, and the number of the poll.
pub(in crate::task) fn poll_id() -> Option<NonZeroU64> {
    let number = |id: u64, poll: u32| NonZeroU64::new(id << 32 | u64::from(poll));
    CONTEXT.with(|context| {
        // SAFETY: the task that this thread polls is alive, and so is the record of the `block_on`
        // that this thread is in.
        unsafe {
            match context.current.get().as_ref() {
                Some(header) => number(header.id.get(), header.polls()),
                None => context
                    .block_on
                    .get()
                    .as_ref()
                    .and_then(|record| number(record.id, record.poll_number())),
            }
        }
    })
}

/// Calls `f` with the task or `block_on` future that this thread polls, if any.
pub(in crate::task) fn with_polled<R>(f: impl FnOnce(FutileTask<'_>) -> R) -> Option<R> {
    let (current, block_on) =
        CONTEXT.with(|context| (context.current.get(), context.block_on.get()));
    // SAFETY: the task that this thread polls is alive, and so is the record of the `block_on` that
    // this thread is in.
    let polled = unsafe {
        match current.as_ref() {
            Some(header) => FutileTask::Task(header),
            None => FutileTask::BlockOn(block_on.as_ref()?),
        }
    };
    Some(f(polled))
}

/// Returns the signs of progress of the current poll.
pub(in crate::task) fn poll_facts() -> Option<PollFacts> {
    let budget = CONTEXT.with(|context| context.locals.budget.get().to_u8());
    with_polled(|polled| match polled {
        FutileTask::Task(header) => PollFacts {
            task: header.id.get(),
            poll: header.polls(),
            budget,
            wakes: header.wakes(),
            has_yielded: false,
        },
        FutileTask::BlockOn(record) => {
            let poll = record.poll_number() / 2;
            let last = record.waiting.read();
            PollFacts {
                task: record.id,
                poll,
                budget,
                wakes: poll.wrapping_sub(record.self_wakes()),
                has_yielded: last.is_some_and(|wait| wait.kind == WaitKind::Yield),
            }
        }
    })
}

/// The context of one poll of a task. [`end`](Self::end) restores the previous context.
pub(in crate::task) struct PollGuard {
    outer: *const Header,
    outer_id: u64,
    outer_locals: SavedPollLocals,
}

/// Makes the task in `cell` the current one, with a full budget.
#[inline]
pub(in crate::task) fn enter_poll(cell: *const Header, id: u64, budget: Budget) -> PollGuard {
    CONTEXT.with(|context| PollGuard {
        outer: context.current.replace(cell),
        outer_id: context.current_id.replace(id),
        outer_locals: context.locals.replace(SavedPollLocals::fresh(budget)),
    })
}

impl PollGuard {
    #[inline]
    pub(in crate::task) fn end(self) -> PollOutcome {
        CONTEXT.with(|context| {
            context.current.set(self.outer);
            context.current_id.set(self.outer_id);
            let locals = &context.locals;
            let outcome =
                PollOutcome { self_woken: locals.self_woken.get(), exempt: locals.exempt.get() };
            locals.replace(self.outer_locals);
            outcome
        })
    }
}

/// Polls the future of the `block_on` that this thread is in: full budget, no current task.
#[inline]
pub(crate) fn poll_block_on<R>(record: &BlockOnRecord, poll: impl FnOnce() -> R) -> R {
    debug_assert!(is_current_block_on(record));
    poll_without_task(record.id, poll)
}

/// Polls the future of a `blocking_…` method, which the calling thread waits for.
///
/// The future's waits are recorded for the thread. Resources that it acquires belong to the task or
/// closure that called the method.
#[inline]
pub(crate) fn poll_blocked_thread<R>(record: &BlockOnRecord, poll: impl FnOnce() -> R) -> R {
    debug_assert!(is_current_block_on(record));
    poll_without_task(super::current_id(), poll)
}

/// Polls a future that is neither a task nor a `block_on` future, without recording its waits.
pub(crate) fn poll_unattributed<R>(poll: impl FnOnce() -> R) -> R {
    struct Restore(*const BlockOnRecord);
    impl Drop for Restore {
        fn drop(&mut self) {
            set_block_on(self.0);
        }
    }
    let _restore = Restore(set_block_on(ptr::null()));
    poll_without_task(0, poll)
}

#[inline]
fn poll_without_task<R>(id: u64, poll: impl FnOnce() -> R) -> R {
    struct Restore {
        current: *const Header,
        id: u64,
        locals: SavedPollLocals,
    }
    impl Drop for Restore {
        fn drop(&mut self) {
            CONTEXT.with(|context| {
                context.current.set(self.current);
                context.current_id.set(self.id);
                context.locals.replace(self.locals);
            });
        }
    }
    let _restore = CONTEXT.with(|context| Restore {
        current: context.current.replace(ptr::null()),
        id: context.current_id.replace(id),
        locals: context.locals.replace(SavedPollLocals::fresh(Budget::FULL)),
    });
    poll()
}

/// Marks the current task as pending in one more `may_wait_forever` future.
pub(in crate::task) fn exempt_current() {
    CONTEXT.with(|context| context.locals.exempt.set(context.locals.exempt.get() + 1));
}

/// Reverts [`exempt_current`] in the same poll, when the future ends or is dropped.
pub(in crate::task) fn unexempt_current() {
    CONTEXT.with(|context| {
        let exempt = &context.locals.exempt;
        exempt.set(exempt.get().saturating_sub(1));
    });
}

/// Calls `f` with the budget of the current poll.
#[inline]
pub(in crate::task) fn with_budget<R>(f: impl FnOnce(&Cell<Budget>) -> R) -> R {
    CONTEXT.with(|context| f(&context.locals.budget))
}
