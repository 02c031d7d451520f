//! The current-thread scheduler: every task runs on a thread that is inside `block_on`.
//!
//! - [`core`]: the queue and the counters of the thread that runs the tasks.
//! - `run_loop`: the loop of that thread.
//! - `park`: how that thread parks without a task, and how other threads wait for the core.
//! - `simulated`: replaces the loop in a simulation.
//!
//! Tasks enter from `spawn` and from wakers, and leave to the loop. Queue and arena belong to the
//! thread that holds the core (CORE-2). Several threads may be in `block_on` at once. One of them
//! holds the core and runs all tasks; each polls its own future. When the holder leaves, it wakes
//! one of the others, which takes the core.
//!
//! Protocols, all SeqCst. In each, at least one side sees the other's write:
//!
//! - Wake-up from another thread: that thread pushes to the injector, then reads `sleeping`. The
//!   holder sets `sleeping`, then reads the injector, then parks.
//! - Hand-over: a thread that wants the core adds itself to the list, then reads `held`. The holder
//!   clears `held`, then reads the list.
//! - Timers from another thread: that thread sets a timer, or releases a paused clock, then reads
//!   `holder`. The holder publishes itself in `holder`, then reads timers and clock, then parks. If
//!   the holder was already published, it finds a token instead.

pub(crate) mod core;
mod park;
mod run_loop;
mod simulated;

use crate::driver::poller::Poller;
use crate::driver::timers::Timers;
use crate::queue::injector::Injector;
use crate::scheduler::base::SchedulerBase;
use crate::scheduler::block_on::ParkedBlockOn;
use crate::scheduler::config::{Config, NextTask};
use crate::scheduler::current_thread::core::CurrentCore;
use crate::sys::membarrier::Barriers;
use crate::sys::rng::Rng;
use crate::sys::sync::Mutex;
use crate::sys::timer_slack::TimerSlack;
use crate::task::arena::Arena;
use crate::task::cell::{self, CellLayout, SpawnOptions};
use crate::task::header::Header;
use crate::task::runnable::{Runnable, TaskRef};
use crate::task::schedule::Schedule;
use crate::task::state::COMPLETE;
use crate::task::{JoinHandle, context};
use crate::telemetry::poll_watch::PollWatch;
use crate::telemetry::trace_buffer::TraceBuffer;
use crate::telemetry::worker_metrics::WorkerMetrics;
use std::any::Any;
use std::cell::Cell;
use std::collections::VecDeque;
use std::panic::Location;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::{Arc, OnceLock};

/// The current-thread scheduler.
pub(crate) struct CurrentThread {
    pub(crate) base: SchedulerBase,
    injector: Injector,
    arena: Arena,
    pub(crate) timers: Timers,
    /// Created when the first descriptor is registered.
    pub(crate) poller: OnceLock<Arc<Poller>>,
    /// Written by the thread that holds the core.
    pub(crate) metrics: WorkerMetrics,
    pub(crate) trace: TraceBuffer,
    barriers: Barriers,
    /// Whether a task may be kept waiting here, so that the watchdog visits this scheduler.
    is_watched: AtomicBool,
    core: CurrentCore,
    /// Whether a thread holds the core.
    held: AtomicBool,
    /// Whether the holder is parked or about to park.
    sleeping: AtomicBool,
    /// The holder, published before it first parks.
    holder: Mutex<Option<ParkedBlockOn>>,
    /// Threads in `block_on` that wait for the core.
    waiting: Mutex<VecDeque<ParkedBlockOn>>,
    waiting_len: AtomicUsize,
    /// One reference for each of the two arenas, if it has cells that outlive the scheduler.
    kept_alive: Mutex<[Option<Arc<Self>>; 2]>,
}

thread_local! {
    /// The scheduler whose core this thread holds.
    static CURRENT: Cell<*const CurrentThread> = const { Cell::new(ptr::null()) };
}

/// The core, while the calling thread holds it. The drop restores the thread's former state.
struct CoreGuard<'a> {
    scheduler: &'a CurrentThread,
    outer: *const CurrentThread,
    outer_arena: *const Arena,
    outer_rng: Option<Rng>,
    outer_drains_deferred: bool,
    /// Whether this thread is published as the holder.
    is_published: Cell<bool>,
    /// Whether an unpark of this thread interrupts the poller.
    interrupts_poller: Cell<bool>,
    /// Whether the start of the `block_on` future's wait has been recorded since the future's last
    /// poll.
    is_wait_recorded: Cell<bool>,
    /// Minimized before the first park with a timer.
    slack: TimerSlack,
}

impl<'a> CoreGuard<'a> {
    /// Takes the core, or returns `None` if another thread holds it.
    fn try_take(scheduler: &'a CurrentThread) -> Option<Self> {
        if scheduler.held.swap(true, SeqCst) {
            return None;
        }
        Some(Self {
            scheduler,
            outer: CURRENT.with(|current| current.replace(scheduler)),
            outer_arena: context::set_arena(&scheduler.arena),
            outer_rng: context::set_rng(Some(scheduler.core.thread.rng.get())),
            outer_drains_deferred: context::set_drains_deferred(true),
            is_published: Cell::new(false),
            interrupts_poller: Cell::new(false),
            is_wait_recorded: Cell::new(false),
            slack: TimerSlack::new(),
        })
    }
}

impl CoreGuard<'_> {
    /// Unpublishes this thread as the holder. Called by the drop.
    #[inline(never)]
    fn unpublish(&self) {
        let Some(parked) = self.scheduler.holder.lock().take() else { return };
        if self.interrupts_poller.get() {
            parked.clear_interrupt();
        }
        self.scheduler.base.unlist_parked(&parked);
    }
}

impl Drop for CoreGuard<'_> {
    fn drop(&mut self) {
        // Wakers that were deferred during the last poll must not be lost.
        context::wake_deferred();
        CURRENT.with(|current| current.set(self.outer));
        context::restore_arena(&self.scheduler.arena, self.outer_arena);
        context::set_drains_deferred(self.outer_drains_deferred);
        if let Some(rng) = context::set_rng(self.outer_rng) {
            self.scheduler.core.thread.rng.set(rng);
        }
        if self.scheduler.core.polls() > 0 {
            self.scheduler.end_last_round();
        }
        self.scheduler.core.round_started.set(None);
        if self.is_published.get() {
            self.unpublish();
        }
        self.scheduler.held.store(false, SeqCst);
        self.scheduler.wake_waiting();
        if self.scheduler.base.has_external_block_on() {
            self.scheduler.base.notify_progress();
        }
    }
}

impl CurrentThread {
    /// Creates the scheduler. It starts no thread.
    pub(crate) fn start(config: Arc<Config>) -> Arc<Self> {
        let (core, trace) =
            (CurrentCore::new(&config), TraceBuffer::observing(config.observes_all()));
        let exact = config.exact;
        // Avoids a copy of some kilobytes that `Arc::new` would make.
        let this = Arc::new_cyclic(|_| Self {
            base: SchedulerBase::new(config),
            injector: Injector::new(),
            arena: Arena::new(),
            poller: OnceLock::new(),
            timers: Timers::new(0),
            metrics: WorkerMetrics::awake(exact),
            trace,
            barriers: Barriers::detect(),
            is_watched: AtomicBool::new(false),
            core,
            held: AtomicBool::new(false),
            sleeping: AtomicBool::new(false),
            holder: Mutex::new(None),
            waiting: Mutex::new(VecDeque::new()),
            waiting_len: AtomicUsize::new(0),
            kept_alive: Mutex::new([None, None]),
        });
        let scheduler: NonNull<dyn Schedule> = NonNull::from(&*this);
        // SAFETY: not shared yet; the arenas are inside their scheduler.
        unsafe {
            this.base.open(scheduler);
            this.core.thread.allocator.set(Some(this.arena.open(scheduler)));
        }
        this
    }

    /// Ends the current round when the core is released.
    #[inline(never)]
    fn end_last_round(&self) {
        self.end_round(self.base.config.env.clock.now_approx());
        self.core.update_due_step();
    }

    /// Returns the watch that shows the task which the core's holder is polling.
    pub(crate) fn poll_watch(&self) -> &PollWatch {
        &self.core.poll_watch
    }

    /// Returns whether a thread holds the core and does not sleep.
    pub(crate) fn is_awake(&self) -> bool {
        self.is_held() && !self.sleeping.load(SeqCst)
    }

    /// Returns whether no thread polls tasks of this scheduler, or of a local set in it.
    pub(crate) fn are_all_parked(&self) -> bool {
        !self.is_awake() && !self.base.has_local_sets()
    }

    /// Returns whether any task has not completed. If none, all timers and descriptors belong to
    /// `block_on` futures.
    pub(crate) fn has_tasks(&self) -> bool {
        let mut has_tasks = false;
        let mut check = |task: TaskRef| has_tasks |= !task.state().has(COMPLETE);
        self.for_each_task(&mut check);
        self.base.for_each_local(&mut check);
        has_tasks
    }

    /// Returns whether a thread holds the core.
    pub(crate) fn is_held(&self) -> bool {
        self.held.load(SeqCst)
    }

    /// Returns whether the calling thread holds the core.
    #[inline]
    pub(crate) fn is_held_here(&self) -> bool {
        CURRENT.with(|current| ptr::eq(current.get(), self))
    }

    /// Creates a task without scheduling it, in the arena that the calling thread may use.
    ///
    /// # Safety
    ///
    /// The contract of [`cell::fill`] must hold.
    #[inline]
    pub(crate) unsafe fn fill<F: Future>(
        &self,
        future: F,
        options: SpawnOptions,
    ) -> (Runnable, JoinHandle<F::Output>) {
        // SAFETY: by contract; the holder of the core owns the allocator (CORE-2).
        unsafe {
            if self.is_held_here() {
                let (class, origin) = (CellLayout::<F>::CLASS, options.origin);
                let (cell, id) = self.arena.allocate(class, self.base.ids(), origin);
                cell::fill(cell, id, future, options)
            } else {
                let all_idle = !self.is_held() || self.sleeping.load(Relaxed);
                self.base.fill_external(future, options, all_idle)
            }
        }
    }

    /// Spawns a task, from any thread.
    ///
    /// # Safety
    ///
    /// The contract of [`cell::fill`] must hold. The future must be `Send`, unless the scheduler
    /// never leaves this thread.
    #[inline]
    pub(crate) unsafe fn spawn<F: Future>(
        &self,
        future: F,
        options: SpawnOptions,
    ) -> JoinHandle<F::Output> {
        // SAFETY: by contract.
        let (task, join) = unsafe { self.fill(future, options) };
        if let Err(task) = self.push(task) {
            task.cancel_spawn();
        }
        join
    }

    /// Queues a task. Returns it if the scheduler is closed.
    #[inline]
    fn push(&self, task: Runnable) -> Result<(), Runnable> {
        if !self.is_held_here() {
            return self.inject(task);
        }
        if self.core.thread.probe.is_due() {
            self.push_marked(task);
        } else {
            self.core.push_woken(task);
        }
        Ok(())
    }

    /// Queues a task on behalf of a thread that does not hold the core.
    #[inline(never)]
    fn inject(&self, task: Runnable) -> Result<(), Runnable> {
        self.injector.push(self.base.observe_injected(task))?;
        self.ensure_watched();
        if self.sleeping.load(SeqCst)
            && let Some(holder) = &*self.holder.lock()
        {
            holder.unpark();
        }
        Ok(())
    }

    /// Queues a task whose wake-up is a latency sample.
    #[cold]
    #[inline(never)]
    fn push_marked(&self, task: Runnable) {
        self.mark_wakeup(&task);
        self.core.push_woken(task);
    }

    /// Marks the wake-up of a task that is queued next as a latency sample, and observes it.
    fn mark_wakeup(&self, task: &Runnable) {
        self.ensure_watched();
        let core = &self.core;
        let is_other_marked = core.thread.probe.is_marked();
        let now = self.base.config.env.clock.now_approx();
        let is_observed = core.thread.probe.mark(task, now, &self.trace);
        if is_observed {
            self.base.config.observe_schedule(task, now, Some(&core.poll_watch));
        }
        if is_other_marked {
            return;
        }
        core.expect_marked(match self.base.config.env.next_task {
            NextTask::Shuffled => 0,
            NextTask::InOrder => core.queue.borrow().len(),
        });
    }

    /// Publishes that the calling thread runs the tasks.
    fn bind_thread(&self) {
        self.core.poll_watch.bind_thread();
        if self.is_watched.load(Relaxed) {
            self.wake_watchdog_if_asleep();
        }
    }

    /// Makes the watchdog visit this scheduler, because a task may be kept waiting here.
    ///
    /// Not done from the start, because many `block_on`s end before a task could wait.
    #[inline]
    pub(crate) fn ensure_watched(&self) {
        if !self.is_watched.load(Relaxed) {
            self.begin_watch();
        }
    }

    #[cold]
    fn begin_watch(&self) {
        if let Some(host) = &self.base.config.env.simulated {
            // The world runs this scheduler, and the watchdog does not observe it.
            return self.mark_simulated_ready(host);
        }
        self.is_watched.store(true, Relaxed);
        self.wake_watchdog_if_asleep();
    }

    /// Wakes the watchdog if it sleeps, because the calling thread starts to work. Called after
    /// `held` was set or `sleeping` cleared (`telemetry::scan_gate`).
    #[inline]
    fn wake_watchdog_if_asleep(&self) {
        self.barriers.light();
        self.base.wake_watchdog_if_asleep();
    }

    /// Returns the number of tasks that were spawned on the thread that holds the core.
    pub(crate) fn spawned_by_workers(&self) -> u64 {
        self.arena.handed_out()
    }

    /// Calls `f` with each site where the holder of the core spawned tasks.
    pub(crate) fn spawns_by_site(&self, f: &mut dyn FnMut(&'static Location<'static>, u64)) {
        self.arena.spawns_by_site(f);
    }

    /// Calls `f` with every task that has a cell, except those of local sets.
    pub(crate) fn for_each_task(&self, mut f: impl FnMut(TaskRef)) {
        self.arena.for_each(&mut f);
        self.base.for_each_external(f);
    }

    /// Unparks the holder, so that it reads its timers and the clock again.
    pub(crate) fn wake_holder(&self) {
        if self.is_held_here() {
            return;
        }
        if let Some(host) = &self.base.config.env.simulated {
            return host.world.record_first_timer(host.id);
        }
        if let Some(holder) = &*self.holder.lock() {
            holder.unpark();
        }
    }

    /// Returns the number of tasks in the injector.
    pub(crate) fn injected(&self) -> usize {
        self.injector.len()
    }

    /// Returns how many tasks other threads have pushed to the injector, and how many of them were
    /// taken.
    pub(crate) fn arrived_and_taken(&self) -> (u64, u64) {
        self.injector.arrived_and_taken()
    }

    /// Drops every task. No thread is still in `block_on`, because the runtime is being dropped.
    pub(crate) fn close(self: &Arc<Self>) {
        let is_first = self.base.start_closing();
        if !is_first {
            return;
        }
        self.release_core();
        let Some(guard) = CoreGuard::try_take(self) else {
            unreachable!("the runtime is dropped while it is borrowed by block_on")
        };
        self.drop_tasks(&guard);
    }

    /// Drops every task and closes the arenas. Called by the closing thread, which holds the core.
    fn drop_tasks(self: &Arc<Self>, guard: &CoreGuard<'_>) {
        // The driver is closed first. Otherwise a destructor that waits for a timer or a socket of
        // this runtime would wait for its own thread.
        self.timers.close();
        if let Some(poller) = self.poller.get() {
            poller.shut_down();
        }
        if let Some(host) = &self.base.config.env.simulated {
            host.world.shut_down_sources(host.id);
        }
        self.for_each_task(|task| self.base.count_if_never_polled(&task));
        loop {
            let task = self.core.queue.borrow_mut().pop_front();
            let Some(task) = task else { break };
            self.metrics.add_moved_out(1);
            task.cancel();
        }
        // After this store, wakers find the closed injector, not the queue.
        CURRENT.with(|current| current.set(guard.outer));
        for task in self.injector.close() {
            task.cancel();
        }
        self.arena.cancel_all();
        self.base.cancel_external();
        context::wake_deferred();
        context::restore_arena(&self.arena, guard.outer_arena);
        for allocator in
            self.core.thread.allocator.take().into_iter().chain(self.base.take_external_allocator())
        {
            // Keeps the scheduler alive for cells that outlive it. `last_cell_freed` returns this
            // reference. If there are no such cells, the reference is dropped here.
            self.keep_alive();
            if allocator.close().is_some() {
                drop(self.take_kept_alive());
            }
        }
    }
}

/// The references that keep the scheduler alive for cells that outlive it.
impl CurrentThread {
    fn keep_alive(self: &Arc<Self>) {
        let mut kept_alive = self.kept_alive.lock();
        let Some(free) = kept_alive.iter_mut().find(|it| it.is_none()) else {
            unreachable!("each of the two arenas is closed once")
        };
        *free = Some(self.clone());
    }

    fn take_kept_alive(&self) -> Option<Arc<Self>> {
        self.kept_alive.lock().iter_mut().find_map(Option::take)
    }
}

impl Schedule for CurrentThread {
    #[inline]
    fn schedule(&self, task: Runnable) {
        if let Err(task) = self.push(task) {
            task.discard();
        }
    }

    #[inline]
    fn requeue(&self, task: Runnable) {
        // The poll that has just ended ran on the holder's thread.
        debug_assert!(self.is_held_here());
        self.core.queue.borrow_mut().push_back(task);
        self.core.yielded.set(self.core.yielded.get() + 1);
    }

    fn orphaned(&self, task: &TaskRef) {
        self.base.orphaned(task);
    }

    fn panicked(&self, task: &Header, payload: &(dyn Any + Send)) {
        self.base.panicked(task, payload);
    }

    fn unobserved_panic(&self, task: &Header, payload: &(dyn Any + Send)) {
        self.base.unobserved_panic(task, payload);
    }

    fn terminated(&self, task: &Header) {
        self.base.config.observe_end(task);
    }

    // SAFETY: has no requirement on its caller; there is one reference per arena.
    unsafe fn last_cell_freed(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        let reference = self.take_kept_alive()?;
        Some(reference)
    }
}
