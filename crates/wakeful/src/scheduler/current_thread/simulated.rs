//! Station 4, simulated: the world chooses which task of this scheduler is polled next, and when.
//!
//! The core of a simulated host is held from the host's start to its shutdown, so no thread runs
//! the loop. Instead, the thread in `block_on` becomes the world's thread (`block_on_simulated`).
//! Only this thread touches the cores of all hosts, as CORE-2 requires. It enters a core for one
//! poll, or to fire expired timers.

use crate::driver::clock::{tick_of, time_of};
use crate::scheduler::block_on::BlockOnGuard;
use crate::scheduler::current_thread::{CURRENT, CurrentThread};
use crate::sim::world::{SimulatedHost, Stepped};
use crate::sys::rng::Rng;
use crate::task::arena::Arena;
use crate::task::context;
use crate::task::enter_guard;
use crate::task::runnable::Runnable;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::task::Poll;
use std::time::Duration;

/// The core of a simulated host, while the world's thread is inside it. The drop restores the
/// thread's former state.
struct SimulatedCoreGuard<'a> {
    scheduler: &'a CurrentThread,
    outer: *const CurrentThread,
    outer_arena: *const Arena,
    outer_rng: Option<Rng>,
    outer_drains_deferred: bool,
    outer_now_ms: u32,
}

impl<'a> SimulatedCoreGuard<'a> {
    fn new(scheduler: &'a CurrentThread) -> Self {
        let outer_now_ms = context::now_ms();
        let guard = Self {
            scheduler,
            outer: CURRENT.with(|current| current.replace(scheduler)),
            outer_arena: context::set_arena(&scheduler.arena),
            // Without a generator, random numbers come from the oracle.
            outer_rng: context::set_rng(None),
            outer_drains_deferred: context::set_drains_deferred(true),
            outer_now_ms,
        };
        scheduler.base.publish_clock(scheduler.base.config.env.clock.now_approx());
        guard
    }
}

impl Drop for SimulatedCoreGuard<'_> {
    fn drop(&mut self) {
        context::wake_deferred();
        CURRENT.with(|current| current.set(self.outer));
        context::restore_arena(&self.scheduler.arena, self.outer_arena);
        context::set_rng(self.outer_rng);
        context::set_drains_deferred(self.outer_drains_deferred);
        context::set_now_ms(self.outer_now_ms);
    }
}

/// Restores the generator of the thread when it is dropped.
struct NoRngGuard(Option<Rng>);

impl Drop for NoRngGuard {
    fn drop(&mut self) {
        context::set_rng(self.0);
    }
}

/// Methods that the world calls, on the world's thread.
impl CurrentThread {
    /// Takes the core for the world, until [`release_core`](Self::release_core).
    pub(crate) fn hold_core(&self) {
        let was_held = self.held.swap(true, SeqCst);
        debug_assert!(!was_held, "a simulated host is held from its start");
    }

    /// Releases the core, so that the scheduler can be closed.
    pub(super) fn release_core(&self) {
        if self.base.config.env.simulated.is_some() {
            self.held.store(false, SeqCst);
        }
    }

    /// Adds tasks that other hosts have woken, and returns the number of ready tasks.
    pub(crate) fn ready_tasks(&self) -> usize {
        let mut queue = self.core.queue.borrow_mut();
        if !self.injector.is_empty() {
            let at = queue.len();
            let first = self.injector.take(|ready| ready, |task| queue.push_back(task));
            if let Some(first) = first {
                queue.insert(at, first);
            }
        }
        queue.len()
    }

    /// Returns the id of the ready task at this index.
    pub(crate) fn ready_task_id(&self, index: usize) -> u64 {
        self.core.queue.borrow()[index].cell_and_id().1
    }

    /// Returns where the ready task at this index was spawned.
    pub(crate) fn ready_task_site(&self, index: usize) -> &'static Location<'static> {
        self.core.queue.borrow()[index].meta().spawned_at()
    }

    /// Polls the ready task at this index, with a cut budget if `budget` is set.
    pub(crate) fn poll_ready_task(&self, index: usize, budget: Option<u8>) {
        let Some(task) = self.core.queue.borrow_mut().remove(index) else { return };
        let _core = SimulatedCoreGuard::new(self);
        let core = &self.core;
        core.poll_watch.set_activity(core.steps().wrapping_add(1));
        self.metrics.add_polls(1);
        let poll = |task: Runnable| {
            core.poll_watch.set_running(task.cell());
            match budget {
                None => task.run(),
                Some(units) => task.run_with_budget(units),
            }
            context::wake_deferred();
        };
        match core.thread.sample_weight.get() {
            0 => poll(task),
            _ => self.base.config.observe_poll(task, Some(&self.metrics), poll),
        }
        core.poll_watch.clear_running();
    }

    /// Returns the time on the host's clock at which the next timer may expire.
    pub(crate) fn next_timer(&self) -> Option<Duration> {
        self.timers.next().map(time_of)
    }

    /// Fires the expired timers, and returns how many fired.
    pub(crate) fn fire_simulated_timers(&self) -> usize {
        let _core = SimulatedCoreGuard::new(self);
        self.timers.fire_due(tick_of(self.base.config.env.clock.elapsed()))
    }

    /// Runs the world on the calling thread until the future is ready.
    ///
    /// While the future is woken, it takes turns with the tasks of all hosts.
    ///
    /// # Panics
    ///
    /// If the run fails. The message is the text of the failure.
    #[cold]
    #[inline(never)] // the `block_on` of other runtimes stays as small as without it
    #[track_caller]
    pub(super) fn block_on_simulated<R>(
        self: &Arc<Self>,
        host: &SimulatedHost,
        block_on: &BlockOnGuard,
        mut poll: impl FnMut() -> Poll<R>,
    ) -> R {
        let world = &host.world;
        let _simulating = enter_guard::mark_simulating();
        // Conditions and programs that are called outside a core also draw from the oracle.
        let _rng = NoRngGuard(context::set_rng(None));
        let _running = world.start_running(host.id);
        self.core.poll_watch.bind_thread();
        loop {
            if world.has_failed() {
                world.unwind_failed();
            }
            self.base.panic_if_fatal();
            let polled = block_on.is_woken().then(|| {
                world.enter_block_on();
                let _core = SimulatedCoreGuard::new(self);
                block_on.poll_if_woken(&mut poll)
            });
            if let Some(polled) = polled.flatten() {
                world.leave_block_on();
                block_on.record().waiting.set_since_ms(self.base.now_ms());
                if let Poll::Ready(output) = polled {
                    if world.has_failed() {
                        world.unwind_failed();
                    }
                    return output;
                }
            }
            let stepped = match world.poll_next() {
                None if block_on.is_woken() => Stepped::Polled,
                None => world.advance(),
                Some(stepped) => stepped,
            };
            match stepped {
                Stepped::Polled | Stepped::Advanced | Stepped::Failed => {}
                Stepped::Stuck => world.fail_stuck(),
            }
        }
    }

    /// Notifies the world that this host has a task, which was queued from outside its core.
    #[cold]
    pub(super) fn mark_simulated_ready(&self, host: &SimulatedHost) {
        host.world.mark_ready_from_outside(host.id);
    }

    /// Queues the task of a closure, which runs like any other task.
    pub(crate) fn push_closure(&self, task: Runnable) {
        if let Err(task) = self.push(task) {
            task.cancel_spawn();
        }
    }
}
