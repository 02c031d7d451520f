//! The steps of a run: a poll that the oracle chooses, or an advance of the time.

use super::hosts::ThreadMark;
use super::{FailureKind, HostId, HostRunner, MAX_CUT, State, World};
use crate::sim::hash::EventKind;
use crate::sim::oracle::{ChoiceContext, ChoiceKind, Range};
use std::cmp::Reverse;
use std::mem::take;
use std::panic;
use std::sync::Arc;
use std::time::Duration;

/// The result of one step.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stepped {
    /// A task was polled.
    Polled,
    /// The time moved, and everything due fired.
    Advanced,
    /// Nothing can ever happen again.
    Stuck,
    /// The run had failed before.
    Failed,
}

/// Marks the world as running on the current thread; stops all hosts on drop.
pub(crate) struct RunningGuard<'a>(&'a World);

impl Drop for RunningGuard<'_> {
    fn drop(&mut self) {
        let world = self.0;
        world.stop_all();
        world.set_runner(HostId::FIRST, None);
        world.set_paused(HostId::FIRST, false);
        // These values may hold the world itself.
        world.abandon_chaos();
        let (checks, events, deferred) = {
            let mut state = world.lock();
            (state.thread, state.current, state.current_task) = (None, HostId::WORLD, 0);
            (take(&mut state.checks), take(&mut state.events), take(&mut state.deferred))
        };
        world.call_program(HostId::WORLD, || drop(checks));
        world.call_program(HostId::WORLD, || drop(events));
        world.call_program(HostId::WORLD, || drop(deferred));
        world.call_program(HostId::WORLD, || world.disconnect_other_hosts());
    }
}

impl World {
    /// Makes the calling thread the world's thread until the guard is dropped, and starts the first
    /// host.
    ///
    /// # Panics
    ///
    /// If another thread runs the world, or `host` is not the first.
    #[track_caller]
    pub(crate) fn start_running(&self, host: HostId) -> RunningGuard<'_> {
        assert_eq!(host, HostId::FIRST, "only the first host of a simulation has a `block_on`");
        let mut state = self.lock();
        let is_free = state.thread.is_none();
        if is_free {
            state.thread = Some(ThreadMark::current());
        }
        drop(state);
        assert!(is_free, "a simulated runtime is in one `block_on` at a time: it has one thread");
        let hooks = self.hooks.get().expect("set when the first host was built");
        self.set_runner(HostId::FIRST, Some(hooks.first_host()));
        RunningGuard(self)
    }

    /// Records that the `block_on` future is about to be polled.
    pub(crate) fn enter_block_on(&self) {
        let mut state = self.lock();
        state.current = HostId::FIRST;
        state.count_poll(HostId::FIRST, self.elapsed());
        state.record(self.now_ns(), HostId::FIRST, EventKind::PollBlockOn, 0, None);
    }

    /// Records that the poll of the `block_on` future has ended.
    pub(crate) fn leave_block_on(&self) {
        let mut state = self.lock();
        state.current = HostId::WORLD;
        state.list(HostId::FIRST);
        state.update_timer(HostId::FIRST);
        drop(state);
        self.end_step();
    }

    /// Runs the actions that the step deferred, and checks the conditions.
    fn end_step(&self) {
        self.run_deferred();
        self.check();
        // Conditions may defer actions as well.
        self.run_deferred();
    }

    /// Polls the task that the oracle chooses. Returns `None` if there is no ready task.
    pub(crate) fn poll_next(&self) -> Option<Stepped> {
        let mut state = self.lock();
        if state.failure.is_some() {
            return Some(Stepped::Failed);
        }
        let (host, runner) = state.choose_host(self.now_ns())?;
        state.count_poll(host, self.elapsed());
        let (index, budget) = state.choose_task(self.now_ns(), host, &*runner);
        drop(state);
        runner.poll(index, budget);
        let mut state = self.lock();
        (state.current, state.current_task) = (HostId::WORLD, 0);
        if runner.ready() > 0 {
            state.list_ready(host);
        }
        state.update_timer(host);
        let has_end_of_step = !state.deferred.is_empty() || !state.checks.is_empty();
        drop(state);
        if has_end_of_step {
            self.end_step();
        }
        Some(Stepped::Polled)
    }

    /// Moves the time to the next event or timer, and fires everything due then.
    pub(crate) fn advance(&self) -> Stepped {
        self.drop_cancelled_events();
        let mut state = self.lock();
        let Some(at_ns) = state.next_due_ns() else { return Stepped::Stuck };
        if at_ns >= state.next_scan_ns {
            drop(state);
            self.scan(at_ns);
            state = self.lock();
        }
        if at_ns > self.now_ns() {
            state.polls_at_this_instant = 0;
        } else {
            // A step that does not move the time counts as a poll, because it might repeat forever.
            state.count_at_this_instant(HostId::WORLD, self.elapsed());
        }
        if at_ns > state.time_limit_ns {
            drop(state);
            self.fail_time_limit();
            return Stepped::Failed;
        }
        self.time.advance_to(at_ns);
        let now_ns = self.now_ns();
        state.steps += 1;
        state.record(now_ns, HostId::WORLD, EventKind::Advance, 0, None);
        let last = state.scheduled;
        drop(state);
        self.fire_events(now_ns, last);
        self.fire_timers(now_ns);
        Stepped::Advanced
    }

    /// Scans for a deadlock, which timers of other tasks might hide forever.
    ///
    /// No task is ready, so each task that has not ended is waiting.
    #[cold]
    fn scan(&self, at_ns: u64) {
        self.lock().next_scan_ns = at_ns.saturating_mul(2);
        if let Some(text) = self.hooks.get().and_then(|hooks| hooks.find_deadlock(self)) {
            self.fail(FailureKind::Deadlock, HostId::WORLD, text);
        }
    }

    /// Fires the due timers of all hosts.
    fn fire_timers(&self, now_ns: u64) {
        let mut from = HostId::FIRST;
        let mut state = self.lock();
        while let Some(host) = state.next_host_with_due_timer(now_ns, from) {
            from = HostId(host.0 + 1);
            let Some(runner) = state.hosts[host.index()].runner.clone() else { continue };
            state.current = host;
            drop(state);
            let fired = runner.fire_timers();
            state = self.lock();
            state.current = HostId::WORLD;
            state.record(now_ns, host, EventKind::Timers, fired as u64, None);
            if runner.ready() > 0 {
                state.list_ready(host);
            }
            state.update_timer(host);
            if !state.deferred.is_empty() {
                drop(state);
                self.run_deferred();
                state = self.lock();
            }
        }
    }

    /// Ends the `block_on` of a run that has failed.
    ///
    /// # Panics
    ///
    /// Always, with the text of the failure.
    #[track_caller]
    pub(crate) fn unwind_failed(&self) -> ! {
        if self.is_supervised {
            // The caller returns the failure. The panic hook would print a panic for every failing seed.
            panic::resume_unwind(Box::new("the simulation failed"));
        }
        panic!("{}", self.failure_text());
    }

    /// Fails the run because the next event comes after the time limit.
    fn fail_time_limit(&self) {
        let limit = Duration::from_nanos(self.lock().time_limit_ns);
        let waits = self.hooks.get().map_or(String::new(), |hooks| hooks.describe_waits(self));
        let text = format!(
            "the program has not returned within {limit:?} of simulated time. If it needs more, set \
             `Simulation::time_limit`.{waits}"
        );
        self.fail(FailureKind::TimeLimit, HostId::WORLD, text);
    }

    /// Fails the run because nothing can ever happen again.
    pub(crate) fn fail_stuck(&self) {
        let hooks = self.hooks.get().expect("set before the run");
        let (kind, text) = hooks.explain_stuck(self);
        self.fail(kind, HostId::WORLD, text);
    }
}

impl State {
    /// Returns the time of the next event or timer.
    fn next_due_ns(&self) -> Option<u64> {
        let event = self.events.peek().map(|Reverse(event)| event.at_ns);
        let timer = self.timers.first().map(|(at_ns, _)| *at_ns);
        event.into_iter().chain(timer).min()
    }

    /// Counts a poll. Fails the run if there were too many since the time last moved.
    fn count_poll(&mut self, host: HostId, now: Duration) {
        self.steps += 1;
        self.polls += 1;
        self.count_at_this_instant(host, now);
    }

    /// Counts a poll, or an advance that did not move the time. Fails the run if there were too many
    /// since the time last moved.
    fn count_at_this_instant(&mut self, host: HostId, now: Duration) {
        self.polls_at_this_instant += 1;
        if self.polls_at_this_instant == self.max_polls_per_instant {
            let text = format!(
                "{} polls without progress of simulated time: tasks wake each other or themselves, \
                 and the time moves only when no task can run. Await an event in the loop, or \
                 `time::sleep`. If the program needs that many, set \
                 `Simulation::livelock_after`.",
                self.max_polls_per_instant
            );
            self.fail(FailureKind::Livelock, host, now, text);
        }
    }

    /// Chooses a host among those with ready tasks, and removes it from the list.
    fn choose_host(&mut self, now_ns: u64) -> Option<(HostId, Arc<dyn HostRunner>)> {
        self.unlist_idle();
        let ready = &self.ready;
        let id = |index: u64| u64::from(ready[index as usize].0);
        let range = Range::Candidates(ready.len() as u64, &id);
        let context = ChoiceContext { step: self.steps, ..ChoiceContext::default() };
        let index = self.oracle.choose(ChoiceKind::Host, HostId::WORLD, range, context);
        let (host, runner) = self.take_listed(index as usize)?;
        if index > 0 {
            let payload = index << 8 | ChoiceKind::Host as u64;
            self.record(now_ns, host, EventKind::Choice, payload, None);
        }
        self.current = host;
        Some((host, runner))
    }

    /// Chooses a ready task of the host, and the budget of its poll.
    fn choose_task(
        &mut self,
        now_ns: u64,
        host: HostId,
        runner: &dyn HostRunner,
    ) -> (usize, Option<u8>) {
        let id = |index: u64| runner.task_id(index as usize);
        let range = Range::Candidates(runner.ready() as u64, &id);
        let context = ChoiceContext { step: self.steps, ..ChoiceContext::default() };
        let index = self.oracle.choose(ChoiceKind::Task, host, range, context);
        self.current_task = id(index);
        let context = ChoiceContext { task: self.current_task, ..context };
        let range = Range::Below(1 + MAX_CUT);
        let cut = self.oracle.choose(ChoiceKind::Budget, host, range, context);
        if index > 0 || cut > 0 || self.hash.keeps_all() {
            let site = || runner.task_site(index as usize);
            self.task_sites.entry(self.current_task).or_insert_with(site);
        }
        self.record(now_ns, host, EventKind::Poll, cut, None);
        (index as usize, cut.checked_sub(1).map(|budget| budget as u8))
    }
}
