//! Finds futile loops: a task repeats a call whose result is final.
//!
//! A closed channel returns `None` at once, a stream at its end returns 0 bytes, a listener fails
//! when descriptors run out. A loop that ignores such results uses a whole CPU. Leaf futures pass
//! each final result to [`count`], on a cold path. Most of them do so only from the second result
//! on.
//!
//! Each thread has a small table of [`Streak`]s: a task, a resource, and the number of final
//! results that the task got from it. A streak becomes a [`FutileLoop`] if it has lasted for the
//! [window](spin_window) with
//!
//! - at least [`FutileKind::fewest_results`] results,
//! - at most [`FutileKind::longest_round`] of CPU time for each, so that the loop does no other work,
//! - and at least [`RESULTS_PER_PROGRESS`] results for each sign of progress.
//!
//! Signs of progress are wake-ups by other tasks or threads, which follow a wait, and budget spent
//! by other operations. So a loop that sleeps between two calls is not futile, and neither is a
//! `select!` over a closed channel and a channel with messages.
//!
//! Channels of other crates spend no budget. So `select!` calls [`branch_won`] when a branch has
//! won. If the branch's output is not a final result, this is also a sign of progress.
//!
//! The result of an empty `JoinSet` is not final: tasks may be spawned later, and many loops check
//! the set in passing. Its `None` is *tentative*, and counts only if it wins a `select!`.
//!
//! The thread that completes a streak passes the loop to the reporter ([`set_reporter`]), which
//! queues it for the watchdog to report.

mod kind;

pub(crate) use kind::FutileKind;

use super::block_on::{BlockOnRecord, is_block_on_id};
use super::context;
use super::coop::Budget;
use super::header::Header;
use crate::sys::backtrace::current_tid;
use crate::sys::real_time;
use crate::sys::spin_window;
use crate::sys::sync::thread_local;
use crate::sys::thread_state;
use std::cell::{Cell, RefCell};
use std::panic::Location;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

type Site = &'static Location<'static>;

/// The time after which a streak with too few results restarts.
///
/// It is longer than the [window](spin_window) for threads that share their CPU with others.
const LONGEST_WINDOW: Duration = Duration::from_secs(5);
/// The number of results required per sign of progress.
const RESULTS_PER_PROGRESS: u32 = 100;
/// The number of results before a streak is timed. Most streaks are shorter.
const UNTIMED: u32 = 64;
/// The number of results between two reads of the clock.
const TIMED_EVERY: u32 = 256;
/// The number of streaks that a thread remembers; the least recently counted one is evicted first.
const STREAKS: usize = 8;

/// The number of wins of `select!` after a final result for which the thread updates its streaks.
const WINS: u32 = 0xff;
/// The unit of the result count in [`RECENT`].
const ONE_RESULT: u32 = WINS + 1;

/// A task that repeats a call whose result is final.
pub(crate) struct FutileLoop<'a> {
    pub(crate) task: FutileTask<'a>,
    pub(crate) kind: FutileKind,
    /// A descriptor, or the address of the resource.
    pub(crate) resource: u64,
    /// The site of the call, if known.
    pub(crate) site: Option<Site>,
    pub(crate) count: u32,
    pub(crate) duration: Duration,
}

/// The task or `block_on` future that this thread polls.
#[derive(Clone, Copy)]
pub(crate) enum FutileTask<'a> {
    Task(&'a Header),
    BlockOn(&'a BlockOnRecord),
}

static REPORTER: OnceLock<fn(&FutileLoop<'_>)> = OnceLock::new();

/// Sets the function that reports loops.
///
/// The function runs during a poll of the loop's task, so it must not call user code.
pub(crate) fn set_reporter(reporter: fn(&FutileLoop<'_>)) {
    // Each runtime sets the same function.
    let _ = REPORTER.set(reporter);
}

/// The values of the current poll from which progress is computed.
#[derive(Clone, Copy)]
pub(super) struct PollFacts {
    /// The id of the task or of the `block_on` future.
    pub(super) task: u64,
    pub(super) poll: u32,
    /// The remaining units of budget.
    pub(super) budget: u8,
    /// The number of polls that followed a wake-up by another task or thread.
    pub(super) wakes: u32,
    /// Whether the last poll is known to have ended with a yield. Only set for a `block_on` future,
    /// whose yields count in `wakes`.
    pub(super) has_yielded: bool,
}

impl PollFacts {
    /// Counts the signs of progress since `earlier`, excluding the result that is being counted.
    fn progress_since(&self, earlier: &PollFacts) -> u32 {
        let limit = Budget::FULL.to_u8();
        if self.budget > limit || earlier.budget > limit {
            // Without a budget limit, only waits are visible.
            return self.wakes.wrapping_sub(earlier.wakes);
        }
        if self.poll == earlier.poll {
            return u32::from(earlier.budget.saturating_sub(self.budget)).saturating_sub(1);
        }
        let is_yield = self.has_yielded || (is_block_on_id(self.task) && earlier.budget == 0);
        let waits = if is_yield { 0 } else { self.wakes.wrapping_sub(earlier.wakes) };
        waits.saturating_add(u32::from(limit - self.budget).saturating_sub(1))
    }
}

/// A series of final results that one task got from one resource.
#[derive(Clone, Copy)]
struct Streak {
    kind: FutileKind,
    resource: u64,
    site: Option<Site>,
    /// The poll in which this task got its last final result, at any resource.
    last: PollFacts,
    count: u32,
    progress: u32,
    /// The time and the thread's CPU time when [`UNTIMED`] results had been counted.
    began: Option<(Instant, Duration)>,
    /// The value of `Table::results` when this streak last counted a result.
    touched: u64,
}

const NO_STREAK: Streak = Streak {
    kind: FutileKind::None,
    resource: 0,
    site: None,
    last: PollFacts { task: 0, poll: 0, budget: 0, wakes: 0, has_yielded: false },
    count: 0,
    progress: 0,
    began: None,
    touched: 0,
};

/// A streak that is long enough to be a futile loop.
struct FoundLoop {
    kind: FutileKind,
    resource: u64,
    site: Option<Site>,
    count: u32,
    duration: Duration,
}

impl Streak {
    fn restart(&mut self) {
        (self.count, self.progress, self.began) = (0, 0, None);
    }

    /// Counts one more result. Returns the loop if the streak has become a futile loop.
    fn add(&mut self, clocks: impl Fn() -> (Instant, Duration)) -> Option<FoundLoop> {
        self.count += 1;
        if self.count == UNTIMED {
            self.progress = 0;
            self.began = Some(clocks());
        }
        if !self.count.is_multiple_of(TIMED_EVERY) {
            return None;
        }
        let (now, cpu_now) = clocks();
        let (began, cpu) = self.began?;
        let duration = now.saturating_duration_since(began);
        if duration < spin_window::get() {
            return None;
        }
        let (count, cpu) = (self.count - UNTIMED, cpu_now.saturating_sub(cpu));
        let (kind, resource, site) = (self.kind, self.resource, self.site);
        let is_futile =
            self.progress <= count / RESULTS_PER_PROGRESS && cpu / count <= kind.longest_round();
        let is_long = count >= kind.fewest_results();
        if !is_futile || is_long || duration >= LONGEST_WINDOW {
            self.restart();
        }
        (is_futile && is_long).then_some(FoundLoop { kind, resource, site, count, duration })
    }
}

/// The streaks of one thread.
struct Table {
    streaks: [Streak; STREAKS],
    /// The number of results counted so far.
    results: u64,
    /// The index of the streak that last counted a result.
    last: usize,
    /// The last result, if it counts only when it wins a `select!`.
    tentative: Option<CountedResult>,
}

/// A final result: its kind, its resource and the site of the call.
type CountedResult = (FutileKind, u64, Option<Site>);

const NO_RESULTS: Table =
    Table { streaks: [NO_STREAK; STREAKS], results: 0, last: 0, tentative: None };

impl Table {
    /// Counts a result. Returns the loop if the result's streak has become a futile loop.
    fn count(
        &mut self,
        facts: PollFacts,
        (kind, resource, site): CountedResult,
        clocks: impl Fn() -> (Instant, Duration),
    ) -> Option<FoundLoop> {
        self.results += 1;
        for streak in self.streaks.iter_mut().filter(|streak| streak.last.task == facts.task) {
            let own_wait = u32::from(kind.may_wait());
            let progress = facts.progress_since(&streak.last).saturating_sub(own_wait);
            streak.progress = streak.progress.saturating_add(progress);
            streak.last = facts;
        }
        let is_same = |streak: &Streak| {
            (streak.last.task, streak.kind, streak.resource) == (facts.task, kind, resource)
        };
        let index = self.streaks.iter().position(is_same).unwrap_or_else(|| {
            let ages = self.streaks.iter().enumerate();
            let oldest = ages.min_by_key(|(_, streak)| streak.touched).map_or(0, |(nth, _)| nth);
            self.streaks[oldest] = Streak { kind, resource, last: facts, ..NO_STREAK };
            oldest
        });
        self.last = index;
        let streak = &mut self.streaks[index];
        streak.touched = self.results;
        streak.site = site.or(streak.site);
        streak.add(clocks)
    }

    /// Counts the result of the branch that has won a `select!`.
    ///
    /// Returns the loop if the result's streak has become a futile loop.
    ///
    /// `is_final` says that the output of the branch is a final result.
    fn branch_won(
        &mut self,
        facts: PollFacts,
        is_final: bool,
        clocks: impl Fn() -> (Instant, Duration),
    ) -> Option<FoundLoop> {
        let tentative = self.tentative.take();
        if is_final {
            return self.count(facts, tentative?, clocks);
        }
        for streak in self.streaks.iter_mut().filter(|streak| streak.last.task == facts.task) {
            streak.progress = streak.progress.saturating_add(1);
        }
        None
    }
}

thread_local! {
    static TABLE: RefCell<Table> = const { RefCell::new(NO_RESULTS) };
    // Bits 0 to 7: the number of wins of `select!` for which the thread still updates its streaks.
    // Above: the number of final results that it has counted, wrapping.
    static RECENT: Cell<u32> = const { Cell::new(0) };
}

/// Forgets all streaks of this thread, because its next tasks may reuse ids of earlier tasks.
pub(crate) fn forget_results() {
    if RECENT.with(|recent| recent.replace(0)) != 0 {
        TABLE.with(|table| *table.borrow_mut() = NO_RESULTS);
    }
}

/// Counts a final result of the current task.
///
/// `resource` is a descriptor for [kinds](FutileKind::is_for_descriptor) that have one, otherwise
/// an address. `site` is the site of the call, if the caller knows it; see [`set_site`]. Outside a
/// task and `block_on` this does nothing.
#[cold]
#[inline(never)]
pub(crate) fn count(kind: FutileKind, resource: u64, site: Option<Site>) {
    RECENT.with(|it| it.set((it.get() & !WINS).wrapping_add(ONE_RESULT) | WINS));
    let result = (kind, resource, site);
    report_found(|table, facts| {
        // A later result replaces a tentative one, which then has not won.
        table.tentative = kind.is_tentative().then_some(result);
        if kind.is_tentative() {
            return None;
        }
        table.count(facts, result, clocks)
    });
}

/// Returns a number that identifies the last result counted on this thread, for [`branch_won`].
#[inline]
pub(crate) fn last_result() -> u32 {
    RECENT.with(Cell::get)
}

/// Counts a branch that has won a `select!`. `before` is the [`last_result`] before its poll.
#[inline]
pub(crate) fn branch_won(before: u32) {
    let now = RECENT.with(Cell::get);
    if now & WINS != 0 {
        branch_won_slow((before ^ now) >= ONE_RESULT);
    }
}

#[cold]
#[inline(never)]
fn branch_won_slow(is_final: bool) {
    RECENT.with(|it| it.set(it.get() - 1));
    report_found(|table, facts| table.branch_won(facts, is_final, clocks));
}

/// Returns the real time and the CPU time of this thread, because a loop burns a real CPU.
fn clocks() -> (Instant, Duration) {
    (real_time::now(), thread_state::cpu_time(current_tid()).unwrap_or_default())
}

/// Calls `change` on the table of this thread, and reports the loop that it returns.
fn report_found(change: impl FnOnce(&mut Table, PollFacts) -> Option<FoundLoop>) {
    let Some(facts) = context::poll_facts() else { return };
    let found = TABLE.with(|table| change(&mut *table.try_borrow_mut().ok()?, facts));
    if let (Some(found), Some(reporter)) = (found, REPORTER.get()) {
        context::with_polled(|task| {
            let FoundLoop { kind, resource, site, count, duration } = found;
            reporter(&FutileLoop { task, kind, resource, site, count, duration });
        });
    }
}

/// Sets the site of the call that got the last final result of this poll.
///
/// Used by callers of leaf futures that do not know the site of the call.
#[cold]
#[inline(never)]
pub(crate) fn set_site(site: Site) {
    let Some(facts) = context::poll_facts() else { return };
    TABLE.with(|table| {
        let Ok(mut table) = table.try_borrow_mut() else { return };
        let last = table.last;
        let streak = &mut table.streaks[last];
        if (streak.last.task, streak.last.poll) == (facts.task, facts.poll) {
            streak.site = Some(site);
        }
    });
}

#[cfg(all(test, not(loom)))]
#[path = "tests.rs"]
mod tests;
