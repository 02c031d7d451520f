//! Station 4: the loop of a worker thread.
//!
//! The worker takes tasks from its LIFO slot, its ring and the injector, in this order, and polls
//! them. If all are empty, it steals from the rings of other workers (work stealing). Without a task
//! it searches for a while, then [parks](super::park).

use crate::scheduler::multi_thread::core::{WorkerCore, WorkerToken};
use crate::scheduler::multi_thread::{MultiThread, WorkerShared};
use crate::scheduler::thread_core::TimedPoll;
use crate::sys::park::Parker;
use crate::sys::thread_registry;
use crate::sys::timer_slack::TimerSlack;
use crate::task::context;
use crate::task::header::Header;
use crate::task::runnable::Runnable;
use std::cell::Cell;
use std::ptr::{self, NonNull};
use std::sync::Arc;

/// A thread of the scheduler, which is a worker while it holds a token.
pub(super) struct Worker {
    pub(super) scheduler: Arc<MultiThread>,
    token: Cell<Option<WorkerToken>>,
    /// The core that belongs to the token, or null without a token.
    core: Cell<*const WorkerCore>,
    /// Minimized before the first park with a timer.
    pub(super) slack: TimerSlack,
    pub(super) parker: Arc<Parker>,
    /// Whether an unpark of this thread interrupts its worker's poller.
    pub(super) interrupts_poller: Cell<bool>,
    /// The task that this thread was polling when it gave up its core.
    pub(super) in_place_poll: Cell<Option<NonNull<Header>>>,
}

thread_local! {
    static WORKER: Cell<*const Worker> = const { Cell::new(ptr::null()) };
}

impl Worker {
    /// Returns the calling thread's worker.
    pub(super) fn current<'a>() -> Option<&'a Worker> {
        // SAFETY: the pointer is set while `run` is on this thread's stack, and cleared before
        // `run` returns. Callers use the reference within one call from `run`.
        WORKER.with(|worker| unsafe { worker.get().as_ref() })
    }

    #[inline]
    fn core(&self) -> Option<&WorkerCore> {
        // SAFETY: cores live as long as the scheduler, and this thread holds the token while the
        // pointer is set (CORE-1).
        unsafe { self.core.get().as_ref() }
    }

    /// Makes this thread the worker that `token` identifies.
    pub(super) fn set_token(&self, token: WorkerToken) {
        let core = &self.scheduler.cores[token.0];
        context::set_arena(core.arena.get());
        self.core.set(core);
        self.token.set(Some(token));
    }

    /// Gives up the token, and thereby the core.
    pub(super) fn take_token(&self) -> Option<WorkerToken> {
        let token = self.token.take()?;
        context::set_arena(ptr::null());
        self.core.set(ptr::null());
        Some(token)
    }

    /// Returns whether this thread holds a core and is inside the poll of a task.
    pub(super) fn is_in_poll(&self) -> bool {
        self.core().is_some_and(|core| core.shared().poll_watch.running().is_some())
    }

    /// Ends a poll that continued without a core, or got its core back.
    pub(super) fn end_in_place_poll(&self) {
        if let Some(cell) = self.in_place_poll.take() {
            let mut in_place = self.scheduler.in_place_polls.lock();
            if let Some(at) = in_place.iter().position(|other| *other == cell.addr().get()) {
                in_place.swap_remove(at);
            }
        }
    }
}

/// Calls `f` if the calling thread is a worker of `scheduler` and holds its core.
#[inline]
pub(crate) fn with_core<R>(scheduler: &MultiThread, f: impl FnOnce(&WorkerCore) -> R) -> Option<R> {
    let worker = Worker::current()?;
    if !ptr::eq(&*worker.scheduler, scheduler) {
        return None;
    }
    worker.core().map(f)
}

/// Returns the calling thread's index among the workers of `scheduler`.
pub(crate) fn index(scheduler: &MultiThread) -> Option<usize> {
    with_core(scheduler, |core| core.index)
}

/// Puts a task that was woken or spawned on a worker into that worker's LIFO slot. The slot's
/// previous task moves to the ring.
///
/// Returns the task if the calling thread holds no core of `scheduler`.
#[inline]
pub(crate) fn push_local(scheduler: &MultiThread, task: Runnable) -> Result<(), Runnable> {
    let mut task = Some(task);
    with_core(scheduler, |core| {
        let task = task.take().expect("called once");
        if core.thread.probe.is_due() {
            core.mark_wakeup(scheduler, &task);
        }
        if !scheduler.base.config.lifo_slot_enabled {
            return core.push(scheduler, task);
        }
        if let Some(previous) = core.lifo_slot.replace(task) {
            core.push(scheduler, previous);
        }
    });
    task.map_or(Ok(()), Err)
}

/// Puts a task that yielded at the end of the ring.
///
/// Returns the task if the calling thread holds no core of `scheduler`.
#[inline]
pub(crate) fn push_yielded(scheduler: &MultiThread, task: Runnable) -> Result<(), Runnable> {
    let mut task = Some(task);
    with_core(scheduler, |core| {
        let task = task.take().expect("called once");
        core.yielded.set(core.yielded.get().saturating_add(1));
        core.push(scheduler, task);
    });
    task.map_or(Ok(()), Err)
}

/// Runs a worker thread from start to exit.
pub(crate) fn run(scheduler: Arc<MultiThread>, token: WorkerToken) {
    let config = &scheduler.base.config;
    let parker = Arc::new(Parker::for_current_thread());
    let worker = Worker {
        scheduler: scheduler.clone(),
        token: Cell::new(None),
        core: Cell::new(ptr::null()),
        slack: TimerSlack::new(),
        parker: parker.clone(),
        interrupts_poller: Cell::new(false),
        in_place_poll: Cell::new(None),
    };
    scheduler.mark_thread_running(&token, parker.clone());
    scheduler.workers[token.0].metrics.mark_awake();
    context::set_rng(Some(config.env.rng()));
    context::set_drains_deferred(true);
    worker.set_token(token);
    WORKER.with(|current| current.set(&worker));
    // Cleans up even if one of the user's callbacks panics.
    let run_guard = WorkerRunGuard(&worker);
    config.call_on_thread_start();
    if let Some(core) = worker.core() {
        scheduler.mark_started(core.index);
    }
    worker.run_loop(&parker);
    thread_registry::set_runs_user_code(true);
    drop(run_guard);
    // The thread is no longer active (SHUTDOWN-4): the callback may wait for an event that comes
    // only after the last thread has deactivated.
    if let Some(callback) = &config.on_thread_stop {
        callback();
    }
}

/// A guard that makes its thread stop being a worker when it is dropped.
struct WorkerRunGuard<'a>(&'a Worker);

impl Drop for WorkerRunGuard<'_> {
    fn drop(&mut self) {
        let worker = self.0;
        context::wake_deferred();
        WORKER.with(|current| current.set(ptr::null()));
        context::set_drains_deferred(false);
        match worker.take_token() {
            // A callback panicked: another thread becomes this worker.
            Some(token) if !worker.scheduler.base.is_closing() => {
                worker.scheduler.thread_failed(token);
            }
            Some(_) => worker.scheduler.leave(),
            None => {
                worker.end_in_place_poll();
                worker.scheduler.base.notify_progress();
                worker.scheduler.detach();
            }
        }
    }
}

/// Running tasks.
impl Worker {
    /// Runs tasks until the runtime closes or this thread has given up its core.
    fn run_loop(&self, parker: &Parker) {
        if let Some(core) = self.core() {
            core.start_round(&self.scheduler);
        }
        self.scheduler.base.wake_watchdog_if_asleep();
        while let Some(core) = self.core() {
            if self.scheduler.base.is_closing() || self.scheduler.base.has_fatal_error() {
                core.shared().poll_watch.clear_running();
                core.next_round(&self.scheduler);
                // After a fatal error no task runs.
                return self.scheduler.close();
            }
            if let Some(task) = core.next_task(&self.scheduler) {
                self.run_task(core, task);
                continue;
            }
            core.shared().poll_watch.clear_running();
            if !self.search(core) {
                self.park(core, parker);
            }
        }
    }

    #[inline(always)]
    fn run_task(&self, core: &WorkerCore, task: Runnable) {
        if core.searching.get() {
            self.stop_searching(core);
        }
        if core.is_sampling.get() {
            return self.run_sampled(core, task);
        }
        self.poll_task(core, task);
    }

    /// Runs a task while samples are taken: its poll may be timed, or its wake-up marked.
    #[inline(never)]
    fn run_sampled(&self, core: &WorkerCore, task: Runnable) {
        if core.thread.sample_weight.get() != 0 {
            return self.run_timed(core, task);
        }
        if core.thread.probe.marks(&task) {
            core.finish_probe(&self.scheduler, &task);
        }
        core.update_sampling();
        self.poll_task(core, task);
    }

    /// Runs a task that was found by a search. Not inlined, to keep the loop small.
    #[inline(never)]
    fn run_found(&self, core: &WorkerCore, task: Runnable) {
        self.run_task(core, task);
    }

    /// Runs a task and times its poll.
    #[inline(never)]
    fn run_timed(&self, core: &WorkerCore, task: Runnable) {
        let WorkerShared { metrics, trace, .. } = core.shared();
        let clock = &self.scheduler.base.config.env.clock;
        let timed = core.thread.start_timed_poll(&task, clock, trace);
        core.update_sampling();
        if core.thread.probe.marks(&task) {
            core.thread.probe.finish(&task, timed.started, metrics);
        }
        if trace.is_enabled() {
            return self.run_observed(core, task, timed);
        }
        self.poll_task(core, task);
        if self.core().is_none() {
            return; // the poll blocked in place: another thread writes this core's metrics now
        }
        core.thread.finish_timed_poll(timed, clock, metrics, false);
    }

    /// Runs a task whose poll is observed: it is traced, counted exactly, or has hooks.
    #[cold]
    #[inline(never)]
    fn run_observed(&self, core: &WorkerCore, task: Runnable, timed: TimedPoll) {
        let WorkerShared { metrics, trace, poll_watch, .. } = core.shared();
        let config = &self.scheduler.base.config;
        let clock = &config.env.clock;
        // Hooks run outside of polls.
        poll_watch.clear_running();
        config.observe_poll(task, Some(metrics), |task| {
            let timed = core.thread.restart(timed, clock);
            self.poll_task(core, task);
            if self.core().is_none() {
                return; // the poll blocked in place: another thread has this core now
            }
            core.thread.finish_observed_poll(timed, clock, metrics, trace, false);
            poll_watch.clear_running();
        });
        context::wake_deferred();
    }

    #[inline(always)]
    fn poll_task(&self, core: &WorkerCore, task: Runnable) {
        core.shared().poll_watch.start_poll(&task);
        task.run();
        context::wake_deferred();
    }
}

/// Searching for tasks.
impl Worker {
    pub(super) fn stop_searching(&self, core: &WorkerCore) {
        core.searching.set(false);
        if self.scheduler.idle.found_work() && self.is_work_left(core) {
            self.scheduler.notify();
        }
    }

    /// Returns whether the injector has tasks, or a ring has more than the wake threshold.
    fn is_work_left(&self, core: &WorkerCore) -> bool {
        let threshold = core.wake_threshold.get();
        !self.scheduler.injector.is_empty()
            || self.scheduler.workers.iter().any(|worker| worker.ring.len() > threshold)
    }

    /// Searches all queues of the scheduler, as one of a limited number of searchers. Returns
    /// whether the worker found a task.
    ///
    /// If all queues look empty, the worker does not become a searcher, but checks the queues once
    /// more before it parks.
    fn search(&self, core: &WorkerCore) -> bool {
        if !core.searching.get() {
            if !core.thread.spinner.get().should_spin() && !self.scheduler.is_work_anywhere() {
                return false;
            }
            if !self.scheduler.idle.start_searching() {
                return false;
            }
            core.searching.set(true);
        }
        if self.steal(core) {
            return true;
        }
        self.spin(core)
    }

    /// Steals tasks from another worker or from the injector, and runs the first.
    fn steal(&self, core: &WorkerCore) -> bool {
        let count = self.scheduler.workers.len();
        let start = core.thread.random_below(count as u32) as usize;
        for offset in 0..count {
            let victim = (start + offset) % count;
            if victim == core.index {
                continue;
            }
            if let Some(task) = core.try_steal(&self.scheduler, &self.scheduler.workers[victim]) {
                self.run_found(core, task);
                return true;
            }
        }
        match core.take_injected(&self.scheduler) {
            Some(task) => {
                self.run_found(core, task);
                true
            }
            None => false,
        }
    }

    /// Searches a little longer, if that has paid off recently. During the spin, pushers need not
    /// wake a worker.
    fn spin(&self, core: &WorkerCore) -> bool {
        if !core.thread.spinner.get().should_spin() {
            return false;
        }
        core.thread.spin(|iteration| {
            !self.scheduler.injector.is_empty()
                || (iteration % 8 == 7 && self.is_work_left(core))
                || self.scheduler.base.is_closing()
        })
    }
}
