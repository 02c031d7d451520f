//! The proof that no code of the process can run, so that every wait is stuck, whatever its kind.
//!
//! The proof needs no wait graph. All of the following hold at one point in time:
//!
//! - Each runtime is quiet: it has no timer, no descriptor and no file operation, and no thread of it
//!   is at work. Each of its tasks and `block_on` futures waits. A current-thread runtime that no
//!   thread drives cannot run at all.
//! - Each closure of the blocking pool waits in a `blocking_…` method or a nested `block_on`. Or it is
//!   queued, while all threads of the pool are in such closures.
//! - The process has no other thread, except for threads that wait in a `blocking_…` method, and the
//!   main thread of the test harness.
//! - No signal handler of the program is installed. Handlers of wakeful and of the standard library
//!   do not count.
//!
//! A waker may be stored anywhere: no code is left that could call it.

use super::inner_waits::InnerWaits;
use super::waiter::Waiter;
use crate::inspect::harness;
use crate::inspect::report::NoRescueReason;
use crate::sys::{signal_mask, thread_registry};
use crate::task::state::{BLOCKING, COMPLETE, RUNNING};
use crate::wait::block_on::{BlockedThread, blocked_threads};
use crate::watchdog::snapshot::{Inspectable, WorkerSnapshot};
use std::sync::Arc;

/// All waits of the process, while no thread except foreign ones can run code.
pub(super) struct Quiescence {
    /// The waiters of the first runtime come first.
    waiters: Vec<Observed>,
    /// The number of waiters of the first runtime.
    own: usize,
    threads: Vec<(Arc<BlockedThread>, u32)>,
}

/// A waiter with its poll counter at the time of the observation.
struct Observed {
    waiter: Waiter,
    polls: u32,
    /// For a `block_on` future: its `BlockOnRecord::poll_number` in this wait. Otherwise 0.
    poll_number: u32,
}

impl Observed {
    /// Observes a waiter. Returns `None` if it does not wait.
    fn new(waiter: Waiter) -> Option<Self> {
        let polls = waiter.polls();
        let poll_number = match &waiter {
            Waiter::BlockOn(block_on) => block_on.record.poll_number(),
            _ => 0,
        };
        waiter.wakers()?;
        Some(Self { waiter, polls, poll_number })
    }

    fn is_unchanged(&self) -> bool {
        let is_same_wait = match &self.waiter {
            // The count of polls starts anew with each call, and does not change if the call unwinds.
            Waiter::BlockOn(block_on) => {
                block_on.record.poll_number() == self.poll_number && block_on.record.is_active()
            }
            _ => true,
        };
        is_same_wait && self.waiter.wakers().is_some() && self.waiter.polls() == self.polls
    }
}

/// Returns whether the runtime has closed and none of its threads is left.
fn is_over(runtime: &dyn Inspectable) -> bool {
    let base = runtime.base();
    base.is_closing() && !thread_registry::has_threads(base.config.address())
}

/// Returns whether no thread of the runtime is at work, and no event can make one work.
///
/// A fatal error makes every `block_on` of its runtime panic, which runs destructors. A thread that was
/// unparked for the error may not have run yet.
fn is_idle(runtime: &dyn Inspectable) -> bool {
    let can_happen = |worker: &WorkerSnapshot| worker.timers + worker.sources > 0;
    if runtime.base().has_fatal_error() && !runtime.block_ons().is_empty() {
        return false;
    }
    !runtime.is_driven() || (runtime.is_quiet() && !runtime.workers().iter().any(can_happen))
}

impl Quiescence {
    /// Observes the runtimes. Returns `None` if one of them can make progress by itself.
    pub(super) fn observe(runtimes: &[&dyn Inspectable]) -> Option<Self> {
        if !runtimes.iter().all(|runtime| is_over(*runtime) || is_idle(*runtime)) {
            return None;
        }
        let inner_waits = InnerWaits::read();
        let (mut waiters, mut own) = (Vec::new(), None);
        for runtime in runtimes.iter().filter(|runtime| !is_over(**runtime)) {
            add_waiters(*runtime, &inner_waits, &mut waiters)?;
            own.get_or_insert(waiters.len());
        }
        let threads = blocked_threads().into_iter();
        let threads = threads.map(|it| {
            let poll = it.record.poll_number();
            it.is_waiting().then_some((it, poll))
        });
        Some(Self { waiters, own: own?, threads: threads.collect::<Option<_>>()? })
    }

    /// Returns the reason why no other thread can run code, if there is one.
    ///
    /// The main thread of the test harness does not count while it waits for its tests.
    pub(super) fn no_rescue_reason(&self, runtimes: &[&dyn Inspectable]) -> Option<NoRescueReason> {
        if signal_mask::has_handlers() {
            return None;
        }
        let addresses: Vec<usize> =
            runtimes.iter().map(|runtime| runtime.base().config.address()).collect();
        let mut known: Vec<i32> = self.threads.iter().map(|(thread, _)| thread.thread).collect();
        known.extend(self.waiters.iter().filter_map(|it| it.waiter.block_on_thread()));
        let others = || thread_registry::foreign_threads(&addresses, &known);
        match *others()? {
            [] => Some(NoRescueReason::RuntimeThreadsOnly),
            // The harness may have started a test since the list was read, and the test may have
            // ended. While it starts one it does not wait, so the second list shows that.
            [main] if harness::detect_wait_for_tests(main) => {
                (*others()? == [main]).then_some(NoRescueReason::RuntimeThreadsAndHarness)
            }
            ref several => {
                harness::detect_test_program(several);
                None
            }
        }
    }

    /// Returns the number of threads outside of all runtimes that wait in a `blocking_…` method.
    pub(super) fn blocked_threads(&self) -> usize {
        self.threads.iter().filter(|(thread, _)| thread.record.outer() == 0).count()
    }

    /// Returns whether all waiters still wait as observed.
    pub(super) fn is_unchanged(&self, runtimes: &[&dyn Inspectable]) -> bool {
        self.waiters.iter().all(Observed::is_unchanged)
            && self
                .threads
                .iter()
                .all(|(thread, poll)| thread.is_waiting() && thread.record.poll_number() == *poll)
            && runtimes.iter().all(|runtime| is_over(*runtime) || is_idle(*runtime))
    }

    /// Returns the `block_on` futures of the first runtime that wait, each with its poll number.
    pub(super) fn own_block_ons(&self) -> impl Iterator<Item = (&Waiter, u32)> {
        let own = self.waiters[..self.own].iter().map(|it| (&it.waiter, it.poll_number));
        own.filter(|(waiter, _)| matches!(waiter, Waiter::BlockOn(_)))
    }

    /// Returns the waiter with this id.
    pub(super) fn find(&self, id: u64) -> Option<&Waiter> {
        self.waiters.iter().map(|it| &it.waiter).find(|waiter| waiter.id() == id)
    }
}

/// Adds all waiters of a runtime. Returns `None` if one of them does not wait.
fn add_waiters(
    runtime: &dyn Inspectable,
    inner_waits: &InnerWaits,
    waiters: &mut Vec<Observed>,
) -> Option<()> {
    let config = &runtime.base().config;
    let is_driven = runtime.is_driven();
    for block_on in runtime.block_ons() {
        waiters.push(Observed::new(inner_waits.wrap(Waiter::BlockOn(block_on)))?);
    }
    let (mut closures, mut queued, mut has_running) = (0, 0, false);
    runtime.each_task(&mut |task| {
        let state = task.state();
        if state.has(COMPLETE) || has_running {
            return;
        }
        let is_closure = state.has(BLOCKING);
        if !is_driven && !is_closure {
            return;
        }
        if is_closure && !state.has(RUNNING) {
            queued += 1;
            return;
        }
        match Observed::new(inner_waits.wrap(Waiter::Task(task))) {
            Some(waiter) => waiters.push(waiter),
            None => has_running = true,
        }
        closures += usize::from(is_closure);
    });
    let pool_is_stuck = queued == 0 || closures >= config.max_blocking_threads;
    let is_stuck =
        !has_running && pool_is_stuck && config.env.clock.auto_advance_holds() == closures + queued;
    is_stuck.then_some(())
}
