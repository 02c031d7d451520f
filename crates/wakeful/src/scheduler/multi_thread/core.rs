//! Stations 3 and 4: the core of a worker, the state that makes a thread a worker.
//!
//! Tasks enter from [`worker`](super::worker) and from wakers that fire on the worker's thread.
//! They leave through [`WorkerCore::next_task`]. [`maintenance`](super::maintenance) has the work
//! between rounds of polls.

use crate::driver::clock::clock_ns::ClockNs;
use crate::queue::{lifo_slot, ring};
use crate::scheduler::config::Config;
use crate::scheduler::multi_thread::maintenance::NO_WAIT;
use crate::scheduler::multi_thread::{MultiThread, WorkerShared};
use crate::scheduler::thread_core::{MAX_REQUEUED, ThreadCore};
use crate::task::arena::{Allocator, Arena};
use crate::task::header::Header;
use crate::task::id::IdSource;
use crate::task::origin::Origin;
use crate::task::runnable::Runnable;
use crate::telemetry::trace_buffer::{Entry, Event};
use std::cell::Cell;
use std::ptr::{self, NonNull};
use std::time::Duration;

/// The number of consecutive polls from the LIFO slot before the ring is served.
const MAX_LIFO_STREAK: u32 = 3;

/// The right to be the worker with this index. There is one token per worker.
///
/// The token moves to another thread when the worker's own thread blocks in place.
#[derive(Debug)]
pub(crate) struct WorkerToken(pub(crate) usize);

/// The core of a worker: the owner's ends of its queues, and the worker's measurements.
///
/// - CORE-1. Only the thread that holds the worker's [`WorkerToken`] touches a core. After the last
///   thread has left the scheduler, the thread that closes the scheduler does.
#[repr(align(128))]
pub(crate) struct WorkerCore {
    pub(crate) index: usize,
    pub(crate) ring: ring::Owner,
    pub(crate) lifo_slot: lifo_slot::Owner,
    pub(crate) arena: Cell<*const Arena>,
    /// The worker's shared state. The scheduler owns both the core and the shared state.
    shared: Cell<*const WorkerShared>,
    pub(crate) thread: ThreadCore,
    /// Whether the worker counts as a searcher (`idle`).
    pub(crate) searching: Cell<bool>,
    lifo_streak: Cell<u32>,
    /// The number of tasks that may wait in the ring before another worker is woken.
    pub(crate) wake_threshold: Cell<u32>,
    /// The threshold while timers fire or the driver is polled, and in the round after that.
    pub(super) io_wake_threshold: Cell<u32>,
    /// Whether timers have fired since this worker last parked.
    pub(crate) timers_fired: Cell<bool>,
    /// The number of tasks that yielded since the driver was last polled for them.
    pub(crate) yielded: Cell<u32>,
    /// The number of consecutive threads of this worker that failed before their loop began.
    pub(crate) failed_starts: Cell<u32>,
    /// Whether the worker's thread is exiting because `on_thread_park` panicked.
    pub(crate) has_failed_to_park: Cell<bool>,
    /// No thread is started for this worker before this time.
    pub(crate) retry_at: Cell<Duration>,
    pub(crate) round_started: Cell<ClockNs>,
    /// The number of polls (`PollWatch::activity`) when the round started.
    pub(super) round_activity: Cell<u32>,
    /// The number of polls when the worker last took a task from the injector out of fairness.
    injector_activity: Cell<u32>,
    /// Whether the next poll is timed, or a wake-up is marked.
    pub(crate) is_sampling: Cell<bool>,
    /// The number of polls of the last round, until the next round starts.
    pub(super) last_polls: Cell<u32>,
}

// SAFETY: CORE-1.
unsafe impl Send for WorkerCore {}
// SAFETY: CORE-1.
unsafe impl Sync for WorkerCore {}

impl WorkerCore {
    pub(crate) fn new(
        index: usize,
        ring: ring::Owner,
        lifo_slot: lifo_slot::Owner,
        config: &Config,
    ) -> Self {
        let observes_all = config.observes_all();
        Self {
            index,
            ring,
            lifo_slot,
            arena: Cell::new(ptr::null()),
            shared: Cell::new(ptr::null()),
            thread: ThreadCore::new(config.env.rng(), observes_all),
            searching: Cell::new(false),
            lifo_streak: Cell::new(0),
            wake_threshold: Cell::new(0),
            io_wake_threshold: Cell::new(0),
            timers_fired: Cell::new(false),
            yielded: Cell::new(0),
            failed_starts: Cell::new(0),
            has_failed_to_park: Cell::new(false),
            retry_at: Cell::new(Duration::ZERO),
            round_started: Cell::new(ClockNs::START),
            round_activity: Cell::new(0),
            injector_activity: Cell::new(0),
            is_sampling: Cell::new(observes_all),
            last_polls: Cell::new(1),
        }
    }

    /// Gives the core its allocator and its shared state, before the scheduler starts.
    ///
    /// # Safety
    ///
    /// `shared` must stay at its address while the core lives.
    pub(crate) unsafe fn init(&self, allocator: Allocator, shared: &WorkerShared) {
        self.arena.set(allocator.arena());
        self.thread.allocator.set(Some(allocator));
        self.shared.set(shared);
    }

    #[inline]
    pub(crate) fn shared(&self) -> &WorkerShared {
        // SAFETY: the pointer is set by `init`, and stays valid by the contract of `init`.
        unsafe { &*self.shared.get() }
    }

    /// Takes the allocator out, after the last thread has left (CORE-1).
    pub(crate) fn take_allocator(&self) -> Option<Allocator> {
        self.thread.allocator.take()
    }

    #[inline]
    pub(crate) fn allocate(
        &self,
        class: usize,
        ids: &IdSource,
        origin: Origin,
    ) -> (NonNull<Header>, u64) {
        // SAFETY: the thread that holds the token owns the allocator (CORE-1), as the arena's rule
        // for allocations requires.
        unsafe { (*self.arena.get()).allocate(class, ids, origin) }
    }

    /// Returns whether this worker's own queues have a task.
    pub(crate) fn has_work(&self) -> bool {
        self.ring.len() > 0 || self.lifo_slot.is_full()
    }

    /// Cancels all tasks in this worker's queues.
    pub(crate) fn cancel_queued(&self) {
        while let Some(task) = self.take_queued() {
            self.shared().metrics.add_moved_out(1);
            task.cancel();
        }
    }

    /// Takes the next task out of this worker's own queues.
    pub(crate) fn take_queued(&self) -> Option<Runnable> {
        self.lifo_slot.take().or_else(|| self.ring.pop())
    }

    /// Pushes a task to the ring. Wakes another worker if the backlog is above the wake threshold.
    #[inline]
    pub(crate) fn push(&self, scheduler: &MultiThread, task: Runnable) {
        if let Err(overflow) = self.ring.push(task) {
            self.shared().metrics.count_overflow(overflow.oldest_half.len() + 1);
            let newest = std::iter::once(overflow.newest);
            scheduler.injector.push_batch(overflow.oldest_half.into_iter().chain(newest));
        }
        if scheduler.idle.may_wake() && self.ring.len() > self.wake_threshold.get() {
            scheduler.notify();
        }
    }

    /// Marks the wake-up of this task as a latency sample, and observes it.
    #[cold]
    pub(crate) fn mark_wakeup(&self, scheduler: &MultiThread, task: &Runnable) {
        let now = scheduler.base.config.env.clock.now_approx();
        let WorkerShared { trace, poll_watch, .. } = self.shared();
        let is_observed = self.thread.probe.mark(task, now, trace);
        self.is_sampling.set(true);
        if is_observed {
            scheduler.base.config.observe_schedule(task, now, Some(poll_watch));
        }
    }

    /// Recomputes whether the next poll may take a sample.
    pub(crate) fn update_sampling(&self) {
        self.is_sampling.set(self.thread.sample_weight.get() != 0 || self.thread.probe.is_marked());
    }

    /// Records the latency sample of the marked task, which is about to be polled.
    #[cold]
    pub(crate) fn finish_probe(&self, scheduler: &MultiThread, task: &Runnable) {
        let now = scheduler.base.config.env.clock.now_approx();
        self.thread.probe.finish(task, now, &self.shared().metrics);
    }

    /// Steals tasks of another worker. Returns the first task, and puts the others into this worker's ring.
    pub(crate) fn try_steal(
        &self,
        scheduler: &MultiThread,
        victim: &WorkerShared,
    ) -> Option<Runnable> {
        let (task, count) = victim.ring.steal_into(&self.ring)?;
        let WorkerShared { metrics, trace, .. } = self.shared();
        metrics.count_steal(count, &victim.metrics);
        if trace.is_enabled() {
            let at = scheduler.base.config.env.clock.now_approx().time();
            let (_, task) = task.cell_and_id();
            let (event, took) = (Event::Steal, Duration::ZERO);
            trace.record(Entry { event, at, took, task, spawned_at: None });
        }
        Some(task)
    }
}

/// Choosing the next task.
impl WorkerCore {
    /// Station 4: takes the next task to poll.
    #[inline]
    pub(crate) fn next_task(&self, scheduler: &MultiThread) -> Option<Runnable> {
        let config = &scheduler.base.config;
        let activity = self.shared().poll_watch.activity();
        let polls = activity.wrapping_sub(self.round_activity.get());
        let is_round_over = polls >= self.thread.round_limit.get();
        if is_round_over {
            self.run_maintenance(scheduler);
        }
        let yielded = self.yielded.get();
        if yielded > 0
            && yielded >= self.ring.len()
            && let Some(task) = self.take_before_yielded(scheduler)
        {
            return Some(task);
        }
        let since_injector = activity.wrapping_sub(self.injector_activity.get());
        if is_round_over || since_injector >= config.injector_interval {
            self.injector_activity.set(activity);
            if let Some(task) = scheduler.injector.pop() {
                self.shared().metrics.add_injected(1);
                return Some(task);
            }
        }
        let streak = self.lifo_streak.get();
        if streak < MAX_LIFO_STREAK
            && let Some(task) = self.lifo_slot.take()
        {
            self.lifo_streak.set(streak + 1);
            return Some(task);
        }
        self.lifo_streak.set(0);
        let queued = self.ring.pop().or_else(|| self.lifo_slot.take());
        queued.or_else(|| self.take_injected(scheduler))
    }

    /// Takes a fair share of the injector's tasks. Returns the first, and puts the others into the ring.
    pub(crate) fn take_injected(&self, scheduler: &MultiThread) -> Option<Runnable> {
        let free_slots = self.ring.free_slots() as usize;
        let workers = scheduler.workers.len();
        let mut taken = 1;
        let first = scheduler.injector.take(
            |ready| (ready / workers + 1).min(free_slots / 2 + 1),
            |task| {
                taken += 1;
                let pushed = self.ring.push(task);
                debug_assert!(pushed.is_ok(), "the ring has free slots");
            },
        )?;
        self.shared().metrics.add_injected(taken);
        if scheduler.probe.move_to(&first, &self.thread.probe) {
            self.is_sampling.set(true);
        }
        Some(first)
    }

    /// Looks for tasks to run before the tasks in the ring, which have all yielded.
    ///
    /// These are tasks in the injector, and tasks that a driver of this or another worker is about
    /// to wake.
    fn take_before_yielded(&self, scheduler: &MultiThread) -> Option<Runnable> {
        self.yielded.set(0);
        self.shared().poll_watch.clear_running();
        let yielded = self.ring.len();
        let injected = self.take_injected(scheduler);
        let own = self.poller(scheduler).map_or(0, |poller| self.poll_io(poller, NO_WAIT));
        // Without other work, this worker can serve another worker's driver.
        if injected.is_none()
            && own == 0
            && let Some(other) = self.random_other(scheduler)
            && !other.metrics.is_asleep()
        {
            if let Some(poller) = other.poller.get() {
                self.poll_io(poller, NO_WAIT);
            }
            // If polls are short, the other worker reaches its tasks soon.
            if self.wake_threshold.get() == 0 {
                self.steal_from(scheduler, other);
            }
        }
        let has_others_behind = self.ring.len() > yielded;
        if has_others_behind && yielded <= MAX_REQUEUED {
            for _ in 0..yielded {
                // Thieves may have taken some tasks.
                let Some(task) = self.ring.pop() else { break };
                self.push(scheduler, task);
            }
        }
        injected
    }

    /// Returns a random other worker.
    pub(super) fn random_other<'a>(&self, scheduler: &'a MultiThread) -> Option<&'a WorkerShared> {
        let others = scheduler.workers.len() as u32 - 1;
        if others == 0 {
            return None;
        }
        let steps = 1 + self.thread.random_below(others) as usize;
        Some(&scheduler.workers[(self.index + steps) % scheduler.workers.len()])
    }

    /// Moves half of another worker's ring into this worker's ring.
    pub(super) fn steal_from(&self, scheduler: &MultiThread, victim: &WorkerShared) {
        if let Some(task) = self.try_steal(scheduler, victim) {
            self.push(scheduler, task);
        }
    }
}
