//! Station 4, current-thread: the loop of the thread that runs the tasks.
//!
//! A thread in `block_on` tries to take the core. The thread that gets it polls the future of its
//! `block_on` and the tasks alternately, until that future is ready. Other threads in `block_on`
//! poll only their own futures, and wait for the core ([`park`](super::park)).

use crate::driver::clock::clock_ns::ClockNs;
use crate::driver::poller::Poller;
use crate::scheduler::block_on::BlockOnGuard;
use crate::scheduler::config::NextTask;
use crate::scheduler::current_thread::{CoreGuard, CurrentThread};
use crate::scheduler::external_block_on::ExternalBlockOnGuard;
use crate::scheduler::poll_estimator;
use crate::scheduler::thread_core::{MAX_REQUEUED, TimedPoll};
use crate::task::block_on::BlockOnVia;
use crate::task::context;
use crate::task::runnable::Runnable;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// The result of one step of the loop.
#[must_use]
enum Step {
    /// A task was polled.
    Polled,
    /// There is no task, or the `block_on` future goes first.
    Yield,
}

/// The result of running tasks.
#[must_use]
enum TasksRun {
    /// There may be more tasks.
    MayHaveMore,
    /// There are no more tasks, or the `block_on` future goes first.
    Drained,
    /// There was no task.
    Empty,
}

impl CurrentThread {
    /// Runs a future on the calling thread, and tasks while it waits.
    #[track_caller]
    pub(crate) fn block_on<F: Future>(self: &Arc<Self>, future: F) -> F::Output {
        // Declared first, so that it is dropped after everything else.
        let mut external = None;
        let mut future = pin!(future);
        let block_on = BlockOnGuard::new(self.base.address(), BlockOnVia::Runtime);
        block_on.record().set_future(&*future);
        let mut cx = Context::from_waker(block_on.waker());
        let mut poll = || future.as_mut().poll(&mut cx);
        loop {
            if let Some(core_guard) = CoreGuard::try_take(self) {
                return self.run(&core_guard, &block_on, poll);
            }
            if let Some(host) = &self.base.config.env.simulated {
                return self.block_on_simulated(host, &block_on, &mut poll);
            }
            external.get_or_insert_with(|| ExternalBlockOnGuard::new(&self.base));
            match block_on.poll_if_woken(&mut poll) {
                Some(Poll::Ready(output)) => {
                    self.base.panic_if_fatal();
                    return output;
                }
                Some(Poll::Pending) => {
                    let now_ms = self.base.now_ms();
                    block_on.record().record_first_wait(now_ms);
                    block_on.record().waiting.set_since_ms(now_ms);
                    self.base.notify_progress();
                }
                None => {}
            }
            self.wait_for_core(&block_on);
        }
    }

    /// Polls the future of `block_on` and the tasks until the future is ready.
    #[track_caller]
    fn run<R>(
        self: &Arc<Self>,
        core_guard: &CoreGuard<'_>,
        block_on: &BlockOnGuard,
        mut poll: impl FnMut() -> Poll<R>,
    ) -> R {
        self.bind_thread();
        loop {
            if self.base.has_fatal_error() {
                self.give_up(core_guard);
            }
            if let Some(polled) = block_on.poll_if_woken(&mut poll) {
                self.core.block_on_polled.set(true);
                if let Poll::Ready(output) = polled {
                    // This last poll may have dropped the waker of an orphan.
                    if self.base.has_fatal_error() {
                        self.give_up(core_guard);
                    }
                    return output;
                }
                core_guard.is_wait_recorded.set(false);
                context::wake_deferred();
                block_on.update_yielded();
            }
            match self.run_tasks(block_on) {
                TasksRun::MayHaveMore => {}
                // The future yielded, so tasks that the poller is about to wake go first.
                TasksRun::Empty if block_on.is_woken() => _ = self.poll_io_now(),
                TasksRun::Drained if block_on.is_woken() => {}
                TasksRun::Drained | TasksRun::Empty => {
                    if !self.advance_time() {
                        self.park(core_guard, block_on);
                    }
                }
            }
        }
    }

    /// Drops all tasks after a fatal error, unless they are already dropped, and panics with the error.
    #[cold]
    #[track_caller]
    fn give_up(self: &Arc<Self>, core_guard: &CoreGuard<'_>) -> ! {
        if self.base.start_closing() {
            self.drop_tasks(core_guard);
        }
        self.base.panic_if_fatal();
        unreachable!("called after a fatal error")
    }

    /// Runs tasks until there are none, or the future of `block_on` is due.
    fn run_tasks(&self, block_on: &BlockOnGuard) -> TasksRun {
        let mut any = false;
        let mut result = TasksRun::MayHaveMore;
        let mut spent_ns = 0;
        for _ in 0..self.base.config.event_interval {
            // Checked even without tasks, because the `block_on` future may be woken all the time.
            let step = if self.core.is_due() {
                self.step_when_due(block_on, any, &mut spent_ns)
            } else {
                self.step(block_on, any, !any, |task| self.poll_task(task))
            };
            match step {
                Step::Polled => any = true,
                Step::Yield => {
                    result = if any { TasksRun::Drained } else { TasksRun::Empty };
                    break;
                }
            }
            if self.base.has_fatal_error() {
                break;
            }
        }
        self.core.poll_watch.clear_running();
        result
    }

    /// Polls the next task.
    ///
    /// `any` says that `run_tasks` has already polled a task. `may_start_round` says that this may
    /// be the first poll of its round.
    #[inline(always)]
    fn step(
        &self,
        block_on: &BlockOnGuard,
        any: bool,
        may_start_round: bool,
        poll: impl FnOnce(Runnable),
    ) -> Step {
        if self.have_all_yielded() {
            self.serve_before_yielded();
            if any && block_on.is_woken() {
                return Step::Yield; // the tasks also yielded to the `block_on` future
            }
        }
        let Some(task) = self.next_task() else { return Step::Yield };
        if may_start_round {
            self.ensure_round_started();
        }
        poll(task);
        Step::Polled
    }

    /// Takes a step at which the round is over or the poll is sampled.
    ///
    /// `spent_ns` is the total duration of the rounds in this `run_tasks`.
    #[inline(never)]
    fn step_when_due(&self, block_on: &BlockOnGuard, any: bool, spent_ns: &mut u64) -> Step {
        let core = &self.core;
        self.core.poll_watch.clear_running();
        let steps = core.steps().wrapping_sub(core.round_start.get());
        if steps >= core.round_steps() {
            *spent_ns += self.next_round();
            let queued = core.queue.borrow().len();
            let may_overtake = queued <= MAX_REQUEUED as usize && core.may_overtake_yielded();
            self.fire_due_timers();
            self.poll_io_now();
            if may_overtake && core.queue.borrow().len() > queued {
                core.requeue_first(queued);
            }
            // The `block_on` future waits for fewer polls if they are long, unless it yielded to
            // them.
            if any
                && poll_estimator::is_block_on_overdue(*spent_ns)
                && block_on.is_woken_after_poll()
            {
                core.update_due_step();
                return Step::Yield;
            }
        }
        let step = self.step(block_on, any, true, |task| {
            if core.thread.probe.marks(&task) {
                let now = self.base.config.env.clock.now_approx();
                core.thread.probe.finish(&task, now, &self.metrics);
            }
            match core.thread.sample_weight.get() {
                0 => self.poll_task(task),
                _ => self.poll_task_timed(task),
            }
        });
        core.update_due_step();
        step
    }

    #[inline(always)]
    fn poll_task(&self, task: Runnable) {
        self.core.poll_watch.set_running(task.cell());
        task.run();
        context::wake_deferred();
    }

    /// Polls a task and times its poll.
    #[inline(never)]
    fn poll_task_timed(&self, task: Runnable) {
        let (thread, clock) = (&self.core.thread, &self.base.config.env.clock);
        let timed = thread.start_timed_poll(&task, clock, &self.trace);
        if self.trace.is_enabled() {
            return self.poll_task_observed(task, timed);
        }
        self.poll_task(task);
        thread.finish_timed_poll(timed, clock, &self.metrics, true);
    }

    /// Polls a task whose poll is observed: it is traced, counted exactly, or has hooks.
    #[cold]
    #[inline(never)]
    fn poll_task_observed(&self, task: Runnable, timed: TimedPoll) {
        let (core, config) = (&self.core, &self.base.config);
        let clock = &config.env.clock;
        core.poll_watch.clear_running();
        config.observe_poll(task, Some(&self.metrics), |task| {
            let timed = core.thread.restart(timed, clock);
            self.poll_task(task);
            core.thread.finish_observed_poll(timed, clock, &self.metrics, &self.trace, true);
            core.poll_watch.clear_running();
        });
        context::wake_deferred();
    }
}

/// Choosing the next task.
impl CurrentThread {
    /// Station 4: takes the next task to poll.
    #[inline(always)]
    fn next_task(&self) -> Option<Runnable> {
        let (core, config) = (&self.core, &self.base.config);
        let step = self.core.steps().wrapping_add(1);
        self.core.poll_watch.set_activity(step);
        if step.wrapping_sub(core.injector_step.get()) >= config.injector_interval {
            core.injector_step.set(step);
            if let Some(task) = self.injector.pop() {
                core.woken_until.set(core.woken_until.get().wrapping_add(1));
                return Some(task);
            }
        }
        let mut queue = core.queue.borrow_mut();
        if queue.is_empty() {
            let first = self.injector.take(|ready| ready, |task| queue.push_back(task));
            let Some(first) = first else {
                core.empty_steps.set(core.empty_steps.get() + 1);
                return None;
            };
            core.woken_until.set(step.wrapping_add(queue.len() as u32));
            queue.push_front(first);
        }
        if config.env.next_task == NextTask::Shuffled {
            let chosen = context::random_below(queue.len() as u32) as usize;
            queue.swap(0, chosen);
        }
        queue.pop_front()
    }

    /// Returns whether every queued task has yielded.
    #[inline]
    fn have_all_yielded(&self) -> bool {
        let yielded = self.core.yielded.get();
        yielded > 0 && yielded >= self.core.queue.borrow().len()
    }

    /// Moves tasks from the injector, and tasks that the poller wakes, before the queued tasks,
    /// which have all yielded.
    #[inline(always)]
    fn serve_before_yielded(&self) {
        self.core.poll_watch.clear_running();
        self.core.yielded.set(0);
        let yielded = self.core.queue.borrow().len();
        if !self.injector.is_empty() {
            self.take_injected(yielded);
        }
        self.poll_io_now();
        if self.core.queue.borrow().len() > yielded {
            self.core.requeue_first(yielded);
        }
    }

    /// Moves all tasks of the injector to the queue, in order, behind its first `behind` tasks.
    #[inline(never)]
    fn take_injected(&self, behind: usize) {
        let mut queue = self.core.queue.borrow_mut();
        let first = self.injector.take(|ready| ready, |task| queue.push_back(task));
        if let Some(first) = first {
            queue.insert(behind, first);
        }
    }
}

/// The driver.
impl CurrentThread {
    /// Polls the poller without waiting. Returns whether any descriptor became ready.
    fn poll_io_now(&self) -> bool {
        self.active_poller().is_some_and(|poller| self.poll_io(poller, Some(Duration::ZERO)) > 0)
    }

    /// Waits for descriptors, for at most `limit`. Returns how many became ready.
    pub(super) fn poll_io(&self, poller: &Poller, limit: Option<Duration>) -> usize {
        debug_assert!(self.is_held_here());
        // SAFETY: only the thread that holds the core polls this poller (CORE-2).
        unsafe { poller.poll_exclusive(limit) }
    }

    /// Returns the poller, if it has sources to watch.
    #[inline]
    pub(super) fn active_poller(&self) -> Option<&Arc<Poller>> {
        self.poller.get().filter(|poller| poller.needs_poll())
    }

    /// Fires the expired timers. Returns whether any fired.
    #[inline]
    pub(crate) fn fire_due_timers(&self) -> bool {
        let Some(next) = self.timers.next() else { return false };
        let clock = &self.base.config.env.clock;
        let due = clock.tick_if_due(next, clock.now_approx());
        due.is_some_and(|tick| self.timers.fire_due(tick) > 0)
    }
}

/// Rounds.
impl CurrentThread {
    /// Ends a round and starts the next one.
    ///
    /// Returns how long tasks kept the thread busy, or 0 if the `block_on` future was polled in the
    /// round.
    fn next_round(&self) -> u64 {
        let clock = &self.base.config.env.clock;
        // A clock that was advanced by hand does not measure polls.
        let is_tasks_alone = !self.core.block_on_polled.get() && !clock.was_ever_paused();
        let (now, started) = (clock.now_approx(), self.core.round_started.get());
        let polls = self.end_round(now);
        self.start_round(now, polls);
        started.filter(|_| is_tasks_alone).map_or(0, |started| now.ns_since(started))
    }

    /// Starts a round, after one with `polls` polls.
    #[inline]
    pub(super) fn start_round(&self, now: ClockNs, polls: u32) {
        let core = &self.core;
        core.thread.start_sampling(now, polls.max(1), &self.trace);
        core.round_started.set(Some(now));
        core.update_due_step();
        self.base.publish_clock(now);
        self.wake_watchdog_if_asleep();
    }

    /// Starts a round without samples, if none has started.
    ///
    /// The first round of a `block_on` does not read the clock before it has a task.
    fn ensure_round_started(&self) {
        if self.core.round_started.get().is_none() {
            self.core.round_started.set(Some(self.base.config.env.clock.now_approx()));
            self.wake_watchdog_if_asleep();
        }
    }

    /// Ends the round: counts its polls, and its time if it had polls. Returns the number of polls.
    #[inline]
    pub(super) fn end_round(&self, now: ClockNs) -> u32 {
        let core = &self.core;
        let polls = core.polls();
        let first_step = core.round_start.replace(core.steps());
        core.empty_steps.set(0);
        let (block_on_polled, long_poll_ns) =
            (core.block_on_polled.take(), core.thread.long_poll_ns.take());
        self.metrics.add_polls(u64::from(polls));
        let started = core.round_started.take();
        if polls == 0 {
            if let Some(started) = started.filter(|_| block_on_polled) {
                self.metrics.add_block_on_ns(now.ns_since(started));
            }
        } else if let Some(started) = started {
            let spent_ns = now.ns_since(started);
            self.metrics.add_busy_ns(spent_ns);
            let observed_ns = || {
                // A clock that was advanced by hand does not measure polls.
                let is_real = !self.base.config.env.clock.was_ever_paused();
                let lasting_ns = core.poll_watch.lasting_ns_since(first_step);
                let lasting_ns = lasting_ns.filter(|_| is_real);
                lasting_ns.map(|lasting_ns| if block_on_polled { lasting_ns } else { u64::MAX })
            };
            self.metrics.record_unsampled_poll(spent_ns, long_poll_ns, observed_ns);
            let others = polls.saturating_sub(core.overtaking_polls.take());
            core.learn(if others > 0 { others } else { polls }, spent_ns, &self.base.config);
        }
        polls
    }
}
