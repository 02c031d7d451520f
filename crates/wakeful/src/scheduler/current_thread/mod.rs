//! The current-thread scheduler: every task runs on the thread that is inside
//! `block_on`. Tasks come in from `spawn` and from wakers, and leave to the loop
//! in [`CurrentThread::block_on`].
//!
//! The queue and the heap belong to the thread that holds the core. Several
//! threads may be in `block_on` at once: one of them holds the core and runs
//! everybody's tasks, each polls its own future, and when the holder leaves, it
//! wakes one of the others to take over.
//!
//! Protocols, all SeqCst:
//! - Wake from outside: push to the injector, then look at `sleeping`. The
//!   holder sets `sleeping`, then looks at the injector, then parks. At least
//!   one sees the other.
//! - Hand-over: a thread that wants the core lists itself, then looks at `held`.
//!   The holder clears `held`, then looks at the list.
//! - Timers from outside: whoever sets one, or lets a standing clock go, looks
//!   for the named holder after that. The holder names itself, then looks at
//!   timers and clock, then parks. Named already, it finds a token instead.
//!
//! What that thread works with is its core (`holder`, with rule W2).

pub(crate) mod core;
mod park;
mod quiet;

use crate::driver::clock::clock_ns::ClockNs;
use crate::driver::poller::Poller;
use crate::driver::timers::Timers;
use crate::queue::injector::Injector;
use crate::scheduler::base::{ExternalBlockOnGuard, SchedulerBase};
use crate::scheduler::block_on::{BlockOnGuard, ParkedBlockOn};
use crate::scheduler::config::{Config, NextTask};
use crate::scheduler::current_thread::core::CurrentCore;
use crate::scheduler::poll_estimator;
use crate::sys::membarrier::Barriers;
use crate::sys::rng::Rng;
use crate::sys::sync::Mutex;
use crate::sys::timer_slack::TimerSlack;
use crate::task::arena::{self, Arena, Schedule};
use crate::task::block_on::BlockOnVia;
use crate::task::cell::{self, CellLayout, SpawnOptions};
use crate::task::header::Header;
use crate::task::runnable::{Runnable, TaskRef};
use crate::task::state::COMPLETE;
use crate::task::{JoinHandle, context};
use crate::telemetry::latency_probe::ALL;
use crate::telemetry::poll_watch::PollWatch;
use crate::telemetry::trace_buffer::{Entry, Event, TraceBuffer};
use crate::telemetry::worker_metrics::{self, WorkerMetrics};
use crate::watchdog::current_thread::WatchTarget;
use std::any::Any;
use std::cell::Cell;
use std::collections::VecDeque;
use std::pin::pin;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*, fence};
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

/// So many tasks that gave way are put behind those that were woken by the driver; more
/// are too dear to move.
const FEW: usize = 64;

pub(crate) struct CurrentThread {
    pub(crate) estate: SchedulerBase,
    injector: Injector,
    heap: Arena,
    pub(crate) timers: Timers,
    /// Made when the first descriptor is registered.
    pub(crate) poller: OnceLock<Arc<Poller>>,
    /// Written by the thread that holds the core.
    pub(crate) meter: WorkerMetrics,
    pub(crate) recorder: TraceBuffer,
    barriers: Barriers,
    /// How the warden finds this scheduler.
    ward: OnceLock<Arc<WatchTarget>>,
    me: Weak<Self>,
    core: CurrentCore,
    /// Somebody holds the core.
    held: AtomicBool,
    /// The holder is parked, or about to be.
    sleeping: AtomicBool,
    /// The holder's parking spot, set before its first sleep.
    holder: Mutex<Option<ParkedBlockOn>>,
    /// Threads in `block_on` that wait for the core.
    waiting: Mutex<VecDeque<ParkedBlockOn>>,
    waiting_len: AtomicUsize,
    /// One reference per heap with cells that outlive the scheduler.
    leftover: Mutex<Vec<Arc<Self>>>,
}

/// What came of a step.
#[must_use]
enum Step {
    /// A task was polled.
    Ran,
    /// There is none, or the root future goes first.
    GiveWay,
}

/// What came of running tasks.
#[must_use]
enum Ran {
    /// There may be more.
    Part,
    /// There are no more, or the root future goes first.
    All,
    /// There were none.
    Nothing,
}

thread_local! {
    /// The scheduler whose core this thread holds.
    static CURRENT: Cell<*const CurrentThread> = const { Cell::new(ptr::null()) };
}

/// The core, while this thread holds it; what the thread was before comes back
/// at the end.
struct CoreGuard<'a> {
    scheduler: &'a CurrentThread,
    outer: *const CurrentThread,
    outer_heap: *const Arena,
    outer_rng: Option<Rng>,
    outer_defers: bool,
    /// This thread is named as the holder.
    named: Cell<bool>,
    /// Its parking spot knows of the poller.
    kicks: Cell<bool>,
    /// Since the last poll of its future it was noted since when that waits.
    noted: Cell<bool>,
    /// Taken up for the first timer that this thread sleeps for.
    slack: TimerSlack,
}

impl<'a> CoreGuard<'a> {
    fn try_take(scheduler: &'a CurrentThread) -> Option<Self> {
        if scheduler.held.swap(true, SeqCst) {
            return None;
        }
        Some(Self {
            scheduler,
            outer: CURRENT.with(|current| current.replace(scheduler)),
            outer_heap: context::set_arena(&scheduler.heap),
            outer_rng: context::set_rng(Some(scheduler.core.rng.get())),
            outer_defers: context::set_drains_deferred(true),
            named: Cell::new(false),
            kicks: Cell::new(false),
            noted: Cell::new(false),
            slack: TimerSlack::new(),
        })
    }
}

impl Drop for CoreGuard<'_> {
    fn drop(&mut self) {
        // What was put off during the last poll must not be left behind.
        context::wake_deferred();
        CURRENT.with(|current| current.set(self.outer));
        context::restore_arena(&self.scheduler.heap, self.outer_heap);
        context::set_drains_deferred(self.outer_defers);
        if let Some(rng) = context::set_rng(self.outer_rng) {
            self.scheduler.core.rng.set(rng);
        }
        if self.scheduler.core.polls() > 0 {
            self.scheduler.end_turn(self.scheduler.estate.config.seam.clock.now_approx());
            self.scheduler.core.plan();
        }
        self.scheduler.core.turn_started.set(None);
        if self.named.get()
            && let Some(parked) = self.scheduler.holder.lock().take()
        {
            if self.kicks.get() {
                parked.unset_kick();
            }
            self.scheduler.estate.unlist_parked(&parked);
        }
        self.scheduler.held.store(false, SeqCst);
        self.scheduler.wake_waiting();
        if self.scheduler.estate.is_any_beside() {
            self.scheduler.ended_elsewhere();
        }
    }
}

impl CurrentThread {
    pub(crate) fn start(config: Arc<Config>) -> Arc<Self> {
        let rng = config.seam.rng();
        let this = Arc::new_cyclic(|me: &Weak<Self>| Self {
            estate: SchedulerBase::new(config),
            injector: Injector::new(),
            heap: Arena::new(),
            poller: OnceLock::new(),
            timers: Timers::new(0),
            meter: WorkerMetrics::awake(),
            recorder: TraceBuffer::new(),
            barriers: Barriers::detect(),
            ward: OnceLock::new(),
            me: me.clone(),
            core: CurrentCore::new(rng),
            held: AtomicBool::new(false),
            sleeping: AtomicBool::new(false),
            holder: Mutex::new(None),
            waiting: Mutex::new(VecDeque::new()),
            waiting_len: AtomicUsize::new(0),
            leftover: Mutex::new(Vec::new()),
        });
        let home: NonNull<dyn Schedule> = NonNull::from(&*this);
        // SAFETY: not shared yet; the heaps lie inside of their home.
        unsafe {
            this.estate.open(home);
            this.core.allocator.set(Some(this.heap.open(home)));
        }
        this
    }

    /// What the thread polls that runs the tasks.
    pub(crate) fn watched(&self) -> &PollWatch {
        &self.core.watched
    }

    /// Whether some thread is at work here.
    pub(crate) fn is_awake(&self) -> bool {
        self.is_held() && !self.sleeping.load(SeqCst)
    }

    /// Whether there are tasks that have not ended. Without any, timers and descriptors are
    /// those of the futures of `block_on`.
    pub(crate) fn has_tasks(&self) -> bool {
        let mut has_tasks = false;
        let mut saw = |task: TaskRef| has_tasks |= !task.state().has(COMPLETE);
        self.for_each_task(&mut saw);
        self.estate.for_each_local(&mut saw);
        has_tasks
    }

    /// Whether some thread runs the tasks.
    pub(crate) fn is_held(&self) -> bool {
        self.held.load(SeqCst)
    }

    /// Whether this thread runs the tasks.
    #[inline]
    pub(crate) fn is_held_here(&self) -> bool {
        CURRENT.with(|current| ptr::eq(current.get(), self))
    }

    /// Makes a task in the memory that the calling thread may use.
    ///
    /// # Safety
    ///
    /// As [`cell::fill`].
    #[inline]
    pub(crate) unsafe fn fill<F: Future>(
        &self,
        future: F,
        birth: SpawnOptions,
    ) -> (Runnable, JoinHandle<F::Output>) {
        // SAFETY: by contract; with the core comes the allocator (W2).
        unsafe {
            if self.is_held_here() {
                let (cell, id) = self.heap.allocate(CellLayout::<F>::CLASS, self.estate.ids());
                cell::fill(cell, id, future, birth)
            } else {
                let idle = !self.is_held() || self.sleeping.load(Relaxed);
                self.estate.fill_outside(future, birth, idle)
            }
        }
    }

    /// Spawns a task from any thread.
    ///
    /// # Safety
    ///
    /// As [`cell::fill`]: the future must be `Send`, unless the scheduler never
    /// leaves this thread.
    #[inline]
    pub(crate) unsafe fn spawn<F: Future>(
        &self,
        future: F,
        birth: SpawnOptions,
    ) -> JoinHandle<F::Output> {
        // SAFETY: by contract.
        let (task, join) = unsafe { self.fill(future, birth) };
        if let Err(task) = self.push(task) {
            task.cancel_spawn();
        }
        join
    }

    #[inline]
    fn push(&self, task: Runnable) -> Result<(), Runnable> {
        if self.is_held_here() {
            if self.core.probe.is_due() {
                self.mark(&task);
            }
            self.core.push_woken(task);
            return Ok(());
        }
        self.estate.note_injected(&task);
        self.injector.push(task)?;
        self.be_listed();
        if self.sleeping.load(SeqCst)
            && let Some(holder) = &*self.holder.lock()
        {
            holder.unpark();
        }
        Ok(())
    }

    /// The wake-up of this task, which comes to the end of the queue next, is marked, or
    /// recorded. The first that comes here is.
    #[cold]
    fn mark(&self, task: &Runnable) {
        self.be_listed();
        let core = &self.core;
        let is_other_marked = core.probe.is_marked();
        core.probe.mark(task, self.estate.config.seam.clock.now_approx(), &self.recorder);
        if is_other_marked {
            return;
        }
        core.expect(match self.estate.config.seam.next_task {
            NextTask::Shuffled => 0,
            NextTask::InOrder => core.queue.borrow().len(),
        });
    }

    /// Runs a future on the calling thread, and tasks while it waits.
    #[track_caller]
    pub(crate) fn block_on<F: Future>(self: &Arc<Self>, future: F) -> F::Output {
        // Dropped after all else.
        let mut end = None;
        let mut future = pin!(future);
        let held = BlockOnGuard::new(self.estate.address(), BlockOnVia::Runtime);
        let mut cx = Context::from_waker(held.waker());
        let mut poll = || future.as_mut().poll(&mut cx);
        loop {
            if let Some(guard) = CoreGuard::try_take(self) {
                return self.run(&guard, &held, poll);
            }
            end.get_or_insert_with(|| ExternalBlockOnGuard::new(&self.estate));
            match held.poll_if_woken(&mut poll) {
                Some(Poll::Ready(output)) => {
                    self.estate.check_fatal();
                    return output;
                }
                Some(Poll::Pending) => {
                    let now_ms = self.estate.now_ms();
                    held.note().record_first_wait(now_ms);
                    held.note().waiting.set_since_ms(now_ms);
                    self.ended_elsewhere();
                }
                None => {}
            }
            self.wait_for_core(&held);
        }
    }

    #[track_caller]
    fn run<R>(
        self: &Arc<Self>,
        guard: &CoreGuard<'_>,
        held: &BlockOnGuard,
        mut poll: impl FnMut() -> Poll<R>,
    ) -> R {
        self.bind_thread();
        loop {
            if self.estate.is_fatal() {
                self.give_up(guard);
            }
            if let Some(polled) = held.poll_if_woken(&mut poll) {
                self.core.root_polled.set(true);
                if let Poll::Ready(output) = polled {
                    // It may be this last poll that has lost a waker.
                    if self.estate.is_fatal() {
                        self.give_up(guard);
                    }
                    return output;
                }
                guard.noted.set(false);
                self.core.quiet.stir();
                context::wake_deferred();
                held.has_rested();
            }
            match self.run_tasks(held) {
                Ran::Part => {}
                // It gave way to others, so to those of whom only the poller knows.
                Ran::Nothing if held.is_woken() => _ = self.look_at_poller(),
                Ran::All if held.is_woken() => {}
                Ran::All | Ran::Nothing => {
                    if !self.pass_time() {
                        self.park(guard, held);
                    }
                }
            }
        }
    }

    /// Something fatal has happened: drops all tasks, unless that was done, and
    /// panics with the reason.
    #[cold]
    #[track_caller]
    fn give_up(self: &Arc<Self>, guard: &CoreGuard<'_>) -> ! {
        if self.estate.start_closing() {
            self.drop_tasks(guard);
        }
        self.estate.check_fatal();
        unreachable!("called when something fatal has happened")
    }

    /// Runs tasks until the root future, if it is woken, is due.
    fn run_tasks(&self, held: &BlockOnGuard) -> Ran {
        let mut any = false;
        let mut ran = Ran::Part;
        let mut spent_ns = 0;
        for _ in 0..self.estate.config.turn_interval {
            // Also if there are none: a root future may never rest.
            let step = if self.core.is_due() {
                self.step_when_due(held, any, &mut spent_ns)
            } else {
                self.step(held, any, !any, |task| self.poll_task(task))
            };
            match step {
                Step::Ran => any = true,
                Step::GiveWay => {
                    ran = if any { Ran::All } else { Ran::Nothing };
                    break;
                }
            }
            if self.estate.is_fatal() {
                break;
            }
        }
        self.core.watched.clear_running();
        ran
    }

    /// Polls the next task. `any`: it is not the first of `run_tasks`; `starts`: it may be
    /// the first of its turn.
    #[inline(always)]
    fn step(
        &self,
        held: &BlockOnGuard,
        any: bool,
        starts: bool,
        poll: impl FnOnce(Runnable),
    ) -> Step {
        if self.all_gave_way() {
            self.let_others_first();
            if any && held.is_woken() {
                return Step::GiveWay; // to the root future as well
            }
        }
        let Some(task) = self.next_task() else { return Step::GiveWay };
        if starts {
            self.start_running();
        }
        poll(task);
        Step::Ran
    }

    /// A step that something else is due with: a turn is over, or the poll is timed. `spent_ns`:
    /// how long the turns of `run_tasks` have lasted.
    #[inline(never)]
    fn step_when_due(&self, held: &BlockOnGuard, any: bool, spent_ns: &mut u64) -> Step {
        let core = &self.core;
        self.core.watched.clear_running();
        let polls = core.tick().wrapping_sub(core.turn_tick.get());
        if polls >= core.turn_polls.get() + core.overtook.get() {
            // Once per turn: the clock is read, timers and descriptors are looked at.
            *spent_ns += self.change_turn();
            let waiting = core.queue.borrow().len();
            let may_go_first = waiting <= FEW && core.may_others_go_first();
            self.turn_timers();
            self.look_at_poller();
            if may_go_first && core.queue.borrow().len() > waiting {
                core.put_back(waiting);
            }
            // Long polls do not keep the root future waiting for as many as short ones, unless
            // it gave way to them.
            if any && poll_estimator::is_long(*spent_ns) && held.is_called() {
                core.plan();
                return Step::GiveWay;
            }
        }
        let step = self.step(held, any, true, |task| {
            if core.probe.is_at(&task) {
                let now = self.estate.config.seam.clock.now_approx();
                core.probe.met(&task, now, &self.meter);
            }
            match core.weight.get() {
                0 => self.poll_task(task),
                _ => self.time_task(task),
            }
        });
        core.plan();
        step
    }

    /// Passes on what became ready; whether anything did.
    fn look_at_poller(&self) -> bool {
        self.watching().is_some_and(|poller| self.turn_poller(poller, Some(Duration::ZERO)) > 0)
    }

    /// Waits for descriptors at most so long; answers how many became ready.
    fn turn_poller(&self, poller: &Poller, limit: Option<Duration>) -> usize {
        debug_assert!(self.is_held_here());
        // SAFETY: W2: who holds the core turns the poller, and nobody else does.
        unsafe { poller.poll_exclusive(limit) }
    }

    /// Whether every task in the queue has given way to others.
    #[inline]
    fn all_gave_way(&self) -> bool {
        let gave_way = self.core.gave_way.get();
        gave_way > 0 && gave_way >= self.core.queue.borrow().len()
    }

    /// They gave way to those, too, who are in the injector, and of whom only the
    /// poller knows. These go first.
    #[inline(always)]
    fn let_others_first(&self) {
        self.core.watched.clear_running();
        self.core.gave_way.set(0);
        let gave_way = self.core.queue.borrow().len();
        if !self.injector.is_empty() {
            self.take_injected(gave_way);
        }
        self.look_at_poller();
        if self.core.queue.borrow().len() > gave_way {
            self.core.put_back(gave_way);
        }
    }

    /// Takes all that is in the injector to the queue, in order, behind so many.
    #[inline(never)]
    fn take_injected(&self, behind: usize) {
        let mut queue = self.core.queue.borrow_mut();
        let first = self.injector.take(|ready| ready, |task| queue.push_back(task));
        if let Some(first) = first {
            queue.insert(behind, first);
        }
    }

    #[inline(always)]
    fn poll_task(&self, task: Runnable) {
        self.core.watched.set_running(task.cell());
        task.run();
        context::wake_deferred();
    }

    /// Runs the task that stands for those of its turn, and measures it.
    #[inline(never)]
    fn time_task(&self, task: Runnable) {
        let weight = self.core.weight.replace(if self.recorder.is_on() { ALL } else { 0 });
        let (cell, id) = task.cell_and_id();
        let clock = &self.estate.config.seam.clock;
        // SAFETY: a cell of this scheduler, which the caller keeps alive.
        let before = unsafe { arena::poll_time_of(cell, id) };
        let started = clock.now_approx();
        self.poll_task(task);
        let took = clock.now_approx().since(started);
        self.recorder.note(Entry { event: Event::Poll, at: started.time(), took, task: id });
        if weight == ALL {
            return; // timed for the recorder only
        }
        if took < worker_metrics::LONG {
            self.meter.poll_times.record(took, u64::from(weight));
            // Less what the warden saw of it.
            // SAFETY: as above.
            unsafe { arena::add_remaining_poll_time(cell, id, before, took * weight) };
        } else {
            // One of a kind, of which the warden has charged what it saw.
            self.meter.poll_times.record(took, 1);
            self.core.timed_ns.set(took.as_nanos() as u64);
            // SAFETY: as above.
            unsafe { arena::add_remaining_poll_time(cell, id, before, took) };
        }
    }

    /// The poller, if there is something to watch.
    #[inline]
    fn watching(&self) -> Option<&Arc<Poller>> {
        self.poller.get().filter(|poller| poller.needs_poll())
    }

    /// Fires the timers that are due.
    #[inline]
    pub(crate) fn turn_timers(&self) -> bool {
        let Some(next) = self.timers.next() else { return false };
        let clock = &self.estate.config.seam.clock;
        clock
            .tick_if_due(next, clock.now_approx())
            .is_some_and(|tick| self.timers.fire_due(tick) > 0)
    }

    /// Answers how long tasks kept the thread in the turn that ends, if they did so alone.
    fn change_turn(&self) -> u64 {
        let clock = &self.estate.config.seam.clock;
        // A clock that was moved by hand says nothing.
        let is_theirs = !self.core.root_polled.get() && !clock.was_ever_paused();
        let (now, started) = (clock.now_approx(), self.core.turn_started.get());
        let polls = self.end_turn(now);
        self.start_turn(now, polls);
        started.filter(|_| is_theirs).map_or(0, |started| now.ns_since(started))
    }

    /// A turn starts, after one with so many polls.
    #[inline]
    fn start_turn(&self, now: ClockNs, polls: u32) {
        let core = &self.core;
        let weight = core.sampling.start_turn(now, polls.max(1), &core.probe);
        core.weight.set(if weight == 0 && self.recorder.is_on() { ALL } else { weight });
        core.turn_started.set(Some(now));
        core.plan();
        self.estate.turned(now);
        self.be_watched();
    }

    /// This thread is the one that runs the tasks.
    fn bind_thread(&self) {
        self.core.watched.bind_thread();
        if self.ward.get().is_some() {
            self.be_watched();
        }
    }

    /// There is something that could be kept waiting here: the warden is to know of this
    /// scheduler. Not from the start: many a `block_on` ends before.
    #[inline]
    pub(crate) fn be_listed(&self) {
        if self.ward.get().is_none() {
            self.be_listed_first();
        }
    }

    #[cold]
    fn be_listed_first(&self) {
        let report_after = self.estate.config.report_blocked_after;
        let ward = self.ward.get_or_init(|| WatchTarget::new(self.me.clone(), report_after));
        // Whoever closes says so first, and then looks for a ward.
        fence(SeqCst);
        if self.estate.is_closing() {
            return ward.unlist();
        }
        self.be_watched();
    }

    /// This thread, which sat down, is at work: somebody is to watch it. After `held` was
    /// set, or `sleeping` cleared (see `warden`).
    #[inline]
    fn be_watched(&self) {
        self.barriers.light();
        if crate::watchdog::current_thread::is_asleep() {
            crate::watchdog::current_thread::wake();
        }
    }

    /// A turn with tasks in it. The first of a `block_on` has not asked the clock.
    fn start_running(&self) {
        self.core.quiet.stir();
        if self.core.turn_started.get().is_none() {
            self.core.turn_started.set(Some(self.estate.config.seam.clock.now_approx()));
            self.be_watched();
        }
    }

    /// Ends the turn: counts its polls, and if there were any, the time until now.
    /// Answers how many they were.
    #[inline]
    fn end_turn(&self, now: ClockNs) -> u32 {
        let core = &self.core;
        let polls = core.polls();
        let first = core.turn_tick.replace(core.tick());
        core.vain.set(0);
        let (root_polled, timed_ns) = (core.root_polled.take(), core.timed_ns.take());
        self.meter.has_polled(u64::from(polls));
        let started = core.turn_started.take();
        if polls > 0
            && let Some(started) = started
        {
            let spent_ns = now.ns_since(started);
            self.meter.was_busy(spent_ns);
            let seen = || {
                // A clock that was moved by hand says nothing.
                let is_real = !self.estate.config.seam.clock.was_ever_paused();
                let lasted = core.watched.lasted_since(first).filter(|_| is_real);
                lasted.map(|seen_ns| if root_polled { seen_ns } else { u64::MAX })
            };
            self.meter.turn_lasted(spent_ns, timed_ns, seen);
            let others = polls.saturating_sub(core.overtook.take());
            core.learn(if others > 0 { others } else { polls }, spent_ns, &self.estate.config);
        }
        polls
    }

    /// Station 4: the next task to poll.
    #[inline(always)]
    fn next_task(&self) -> Option<Runnable> {
        let (core, config) = (&self.core, &self.estate.config);
        let tick = self.core.tick().wrapping_add(1);
        self.core.watched.set_activity(tick);
        if tick.wrapping_sub(core.injector_tick.get()) >= config.injector_interval {
            core.injector_tick.set(tick);
            if let Some(task) = self.injector.pop() {
                core.woken_until.set(core.woken_until.get().wrapping_add(1));
                return Some(task);
            }
        }
        let mut queue = core.queue.borrow_mut();
        if queue.is_empty() {
            let first = self.injector.take(|ready| ready, |task| queue.push_back(task));
            let Some(first) = first else {
                core.vain.set(core.vain.get() + 1);
                return None;
            };
            core.woken_until.set(tick.wrapping_add(queue.len() as u32));
            queue.push_front(first);
        }
        if config.seam.next_task == NextTask::Shuffled {
            let chosen = context::random_below(queue.len() as u32) as usize;
            queue.swap(0, chosen);
        }
        queue.pop_front()
    }

    pub(crate) fn spawned_here(&self) -> u64 {
        self.heap.handed_out()
    }

    pub(crate) fn for_each_task(&self, mut f: impl FnMut(TaskRef)) {
        self.heap.for_each(&mut f);
        self.estate.for_each_outside(f);
    }

    /// The holder, if it sleeps, has to look at its timers again.
    pub(crate) fn wake_holder(&self) {
        if !self.is_held_here()
            && let Some(holder) = &*self.holder.lock()
        {
            holder.unpark();
        }
    }

    /// Tasks that wait in the injector.
    pub(crate) fn injected(&self) -> usize {
        self.injector.len()
    }

    /// Drops every task. Nobody is in `block_on` any more: the runtime is gone.
    pub(crate) fn close(self: &Arc<Self>) {
        let is_first = self.estate.start_closing();
        fence(SeqCst);
        if let Some(ward) = self.ward.get() {
            ward.unlist();
        }
        if !is_first {
            return;
        }
        let Some(guard) = CoreGuard::try_take(self) else {
            unreachable!("the runtime is dropped while it is borrowed by block_on")
        };
        self.drop_tasks(&guard);
    }

    /// After `close`: waits until nobody else watches this scheduler.
    pub(crate) fn end_watch(&self) {
        if let Some(ward) = self.ward.get() {
            ward.release();
        }
    }

    /// Drops every task, and closes what they lie in. By the one who closes, with
    /// the core.
    fn drop_tasks(self: &Arc<Self>, guard: &CoreGuard<'_>) {
        // The driver goes first: a destructor that waits for a timer or a socket of this runtime
        // would otherwise wait for the thread that it is on.
        self.timers.close();
        if let Some(poller) = self.poller.get() {
            poller.shut_down();
        }
        loop {
            let task = self.core.queue.borrow_mut().pop_front();
            let Some(task) = task else { break };
            task.cancel();
        }
        // From here on wakes find the closed injector, not the queue.
        CURRENT.with(|current| current.set(guard.outer));
        for task in self.injector.close() {
            task.cancel();
        }
        self.heap.cancel_all();
        self.estate.cancel_outside();
        context::wake_deferred();
        context::restore_arena(&self.heap, guard.outer_heap);
        for allocator in self.core.allocator.take().into_iter().chain(self.estate.take_outside()) {
            // For the cells that outlive us; `last_cell_freed` gives it back,
            // or we do if there are none.
            self.leftover.lock().push(self.clone());
            if allocator.close().is_some() {
                let keep = self.leftover.lock().pop();
                drop(keep);
            }
        }
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
        // The poll that just ended was in the core holder's loop.
        debug_assert!(self.is_held_here());
        self.core.queue.borrow_mut().push_back(task);
        self.core.gave_way.set(self.core.gave_way.get() + 1);
    }

    fn orphaned(&self, task: &TaskRef) {
        self.estate.orphaned(task);
    }

    fn panicked(&self, task: &Header, payload: &(dyn Any + Send)) {
        self.estate.panicked(task, payload);
    }

    fn unobserved_panic(&self, task: &Header, payload: &(dyn Any + Send)) {
        self.estate.unobserved_panic(task, payload);
    }

    // SAFETY: asks nothing of its caller; there is one reference per heap.
    unsafe fn last_cell_freed(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        let keep = self.leftover.lock().pop()?;
        Some(keep)
    }
}
