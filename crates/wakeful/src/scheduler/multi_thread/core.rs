//! Stations 3 and 4: what makes a thread a worker. Tasks come in from `worker` and from
//! its polls, and leave as [`WorkerCore::next_task`].

use crate::driver::clock::clock_ns::ClockNs;
use crate::driver::poller::Poller;
use crate::driver::timers::Timers;
use crate::queue::{lifo_slot, ring};
use crate::scheduler::multi_thread::{MultiThread, WorkerShared};
use crate::scheduler::poll_estimator::PollEstimator;
use crate::sys::adaptive_spin::AdaptiveSpin;
use crate::sys::park::{Interrupt, Parker};
use crate::sys::rng::Rng;
use crate::task::arena::{Allocator, Arena};
use crate::task::header::Header;
use crate::task::id::IdSource;
use crate::task::runnable::Runnable;
use crate::telemetry::latency_probe::{ALL, LatencyProbe, Sampling};
use crate::telemetry::trace_buffer::{Entry, Event};
use std::cell::Cell;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::Ordering::*;
use std::time::Duration;

/// How often in a row the run-next slot may go before the ring.
const SLOT_STREAK: u32 = 3;
/// So many tasks that gave way are put behind those whose descriptors became ready;
/// more are too dear to move.
const FEW: u32 = 64;

/// A look that waits for nothing.
const NOW: Option<Duration> = Some(Duration::ZERO);

/// A worker at work that has not looked at its driver for so long may be stuck or was
/// put aside by the system: another looks for it.
pub(crate) const UNTURNED_MS: u32 = 2;

/// The right to be worker number so-and-so. There is one per worker; it moves to
/// another thread when the worker's own blocks in place.
#[derive(Debug)]
pub(crate) struct WorkerToken(pub(crate) usize);

/// What makes a thread a worker: the owner's ends of its queues and what it has
/// learnt.
///
/// - W1. A core is touched only by the thread that holds its [`WorkerToken`], and by the
///   last thread to leave the scheduler.
#[repr(align(128))]
pub(crate) struct WorkerCore {
    pub(crate) index: usize,
    pub(crate) ring: ring::Owner,
    pub(crate) next: lifo_slot::Owner,
    /// Taken out only when the scheduler closes.
    allocator: Cell<Option<Allocator>>,
    pub(crate) heap: Cell<*const Arena>,
    /// What others see of this worker: of the scheduler that has the core as well.
    remote: Cell<*const WorkerShared>,
    rng: Cell<Rng>,
    pub(crate) searching: Cell<bool>,
    slot_streak: Cell<u32>,
    pace: Cell<PollEstimator>,
    /// Polls in a turn.
    turn_polls: Cell<u32>,
    /// How many tasks may wait in the ring before another worker is woken.
    pub(crate) tolerance: Cell<u32>,
    /// The same while timers fire or a poller tells of them, and after that.
    io_tolerance: Cell<u32>,
    /// Timers have fired since this worker last had nothing to do.
    pub(crate) has_fired: Cell<bool>,
    /// Tasks that gave way since the poller was last looked at for them.
    pub(crate) gave_way: Cell<u32>,
    /// Threads of this worker that ended, one after the other, before they began.
    pub(crate) failed_starts: Cell<u32>,
    /// No thread is started for this worker before.
    pub(crate) retry_at: Cell<Duration>,
    pub(crate) turn_started: Cell<ClockNs>,
    /// The activity of `WorkerShared::watched`, which counts polls, when the turn started.
    turn_activity: Cell<u32>,
    /// The same when the injector was last looked at in its turn.
    injector_activity: Cell<u32>,
    pub(crate) spinner: Cell<AdaptiveSpin>,
    /// If not 0, the next poll is timed, and stands for so many.
    pub(crate) weight: Cell<u32>,
    /// What the timed poll of this turn took, if it was long.
    pub(crate) timed_ns: Cell<u64>,
    /// It is not 0, or a wake-up is marked.
    pub(crate) observes: Cell<bool>,
    /// Polls of the turn before, until the next one begins.
    last_polls: Cell<u32>,
    pub(crate) probe: LatencyProbe,
    sampling: Sampling,
}

// SAFETY: W1.
unsafe impl Send for WorkerCore {}
// SAFETY: W1.
unsafe impl Sync for WorkerCore {}

impl WorkerCore {
    pub(crate) fn new(index: usize, ring: ring::Owner, next: lifo_slot::Owner, rng: Rng) -> Self {
        Self {
            index,
            ring,
            next,
            allocator: Cell::new(None),
            heap: Cell::new(ptr::null()),
            remote: Cell::new(ptr::null()),
            rng: Cell::new(rng),
            searching: Cell::new(false),
            slot_streak: Cell::new(0),
            pace: Cell::new(PollEstimator::new()),
            turn_polls: Cell::new(1),
            tolerance: Cell::new(0),
            io_tolerance: Cell::new(0),
            has_fired: Cell::new(false),
            gave_way: Cell::new(0),
            failed_starts: Cell::new(0),
            retry_at: Cell::new(Duration::ZERO),
            turn_started: Cell::new(ClockNs::START),
            turn_activity: Cell::new(0),
            injector_activity: Cell::new(0),
            spinner: Cell::new(AdaptiveSpin::new()),
            weight: Cell::new(0),
            timed_ns: Cell::new(0),
            observes: Cell::new(false),
            last_polls: Cell::new(1),
            probe: LatencyProbe::new(),
            sampling: Sampling::new(),
        }
    }

    /// Gives the core its memory and its place, before the scheduler starts.
    ///
    /// # Safety
    ///
    /// `remote` stays where it is for as long as the core does.
    pub(crate) unsafe fn equip(&self, allocator: Allocator, remote: &WorkerShared) {
        self.heap.set(allocator.arena());
        self.allocator.set(Some(allocator));
        self.remote.set(remote);
    }

    #[inline]
    pub(crate) fn remote(&self) -> &WorkerShared {
        // SAFETY: there since `equip`, by its contract.
        unsafe { &*self.remote.get() }
    }

    /// Takes the memory back, when the last thread has left (W1).
    pub(crate) fn strip(&self) -> Option<Allocator> {
        self.allocator.take()
    }

    #[inline]
    pub(crate) fn allocate(&self, class: usize, ids: &IdSource) -> (NonNull<Header>, u64) {
        // SAFETY: ARENA-1: the thread that holds the key has the allocator.
        unsafe { (*self.heap.get()).allocate(class, ids) }
    }

    /// Whether anything is in this worker's own queues.
    pub(crate) fn has_work(&self) -> bool {
        self.ring.len() > 0 || self.next.is_full()
    }

    /// Cancels everything in this worker's queues.
    pub(crate) fn drain(&self) {
        while let Some(task) = self.take_queued() {
            task.cancel();
        }
    }

    /// The next task of this worker's own queues.
    pub(crate) fn take_queued(&self) -> Option<Runnable> {
        self.next.take().or_else(|| self.ring.pop())
    }
}

impl WorkerCore {
    /// Pushes to the ring and wakes another worker if there is more waiting
    /// than this one gets through in a moment.
    #[inline]
    pub(crate) fn push(&self, shared: &MultiThread, task: Runnable) {
        if let Err(overflow) = self.ring.push(task) {
            let newest = std::iter::once(overflow.newest);
            shared.injector.push_batch(overflow.oldest_half.into_iter().chain(newest));
        }
        if shared.idle.may_wake() && self.ring.len() > self.tolerance.get() {
            shared.notify();
        }
    }

    /// This wake-up is marked, or recorded.
    #[cold]
    pub(crate) fn mark(&self, shared: &MultiThread, task: &Runnable) {
        let now = shared.estate.config.seam.clock.now_approx();
        self.probe.mark(task, now, &self.remote().recorder);
        self.observes.set(true);
    }

    /// Says anew whether there is something to observe in a poll.
    pub(crate) fn go_on_observing(&self) {
        self.observes.set(self.weight.get() != 0 || self.probe.is_marked());
    }

    /// The task whose wake-up was marked is about to be polled.
    #[cold]
    pub(crate) fn meet(&self, shared: &MultiThread, task: &Runnable) {
        let now = shared.estate.config.seam.clock.now_approx();
        self.probe.met(task, now, &self.remote().meter);
    }

    pub(crate) fn has_stolen(&self, shared: &MultiThread, task: &Runnable) {
        let WorkerShared { meter, recorder, .. } = self.remote();
        meter.has_stolen();
        if recorder.is_on() {
            let at = shared.estate.config.seam.clock.now_approx().time();
            let (_, task) = task.cell_and_id();
            recorder.note(Entry { event: Event::Steal, at, took: Duration::ZERO, task });
        }
    }

    pub(crate) fn random_below(&self, n: u32) -> u32 {
        let mut rng = self.rng.get();
        let number = rng.below(n);
        self.rng.set(rng);
        number
    }
}

impl WorkerCore {
    /// Station 4: the next task to poll.
    #[inline]
    pub(crate) fn next_task(&self, shared: &MultiThread) -> Option<Runnable> {
        let config = &shared.estate.config;
        let tick = self.remote().watched.activity();
        let is_turn_over = tick.wrapping_sub(self.turn_activity.get()) >= self.turn_polls.get();
        if is_turn_over {
            self.turn(shared);
        }
        let gave_way = self.gave_way.get();
        if gave_way > 0
            && gave_way >= self.ring.len()
            && let Some(task) = self.let_others_first(shared)
        {
            return Some(task);
        }
        let unlooked = tick.wrapping_sub(self.injector_activity.get());
        if is_turn_over || unlooked >= config.injector_interval {
            self.injector_activity.set(tick);
            if let Some(task) = shared.injector.pop() {
                return Some(task);
            }
        }
        let streak = self.slot_streak.get();
        if streak < SLOT_STREAK
            && let Some(task) = self.next.take()
        {
            self.slot_streak.set(streak + 1);
            return Some(task);
        }
        self.slot_streak.set(0);
        self.ring.pop().or_else(|| self.next.take()).or_else(|| self.take_injected(shared))
    }

    /// A fair share of what is in the injector; all but the first go to the
    /// ring.
    pub(crate) fn take_injected(&self, shared: &MultiThread) -> Option<Runnable> {
        let room = self.ring.free_slots() as usize;
        let workers = shared.remotes.len();
        let first = shared.injector.take(
            |ready| (ready / workers + 1).min(room / 2 + 1),
            |task| {
                let pushed = self.ring.push(task);
                debug_assert!(pushed.is_ok(), "room was asked for");
            },
        )?;
        if shared.probe.pass_on(&first, &self.probe) {
            self.observes.set(true);
        }
        Some(first)
    }

    /// Every task in the ring has given way to others: to those, too, who are in the
    /// injector, and of whom only a poller knows, this worker's or another's.
    fn let_others_first(&self, shared: &MultiThread) -> Option<Runnable> {
        self.gave_way.set(0);
        self.remote().watched.clear_running();
        let gave_way = self.ring.len();
        let injected = self.take_injected(shared);
        let own = self.poller(shared).map_or(0, |poller| self.turn_poller(poller, NOW));
        // Nor is there anything better to do than what waits elsewhere.
        if injected.is_none()
            && own == 0
            && let Some(other) = self.another(shared)
            && !other.meter.is_asleep()
        {
            if let Some(poller) = other.poller.get() {
                self.turn_poller(poller, NOW);
            }
            // Where polls are short, the other will come to them.
            if self.tolerance.get() == 0 {
                self.take_from(shared, other);
            }
        }
        let are_others_behind = self.ring.len() > gave_way;
        if are_others_behind && gave_way <= FEW {
            for _ in 0..gave_way {
                // Thieves may have been faster.
                let Some(task) = self.ring.pop() else { break };
                self.push(shared, task);
            }
        }
        injected
    }

    /// Once per turn: the clock is read, timers and descriptors are looked at, and a
    /// backlog that turned out to be more than a moment's work is shared.
    fn turn(&self, shared: &MultiThread) {
        self.remote().watched.clear_running();
        self.change_turn(shared);
        self.turn_timers(shared);
        let poller = self.poller(shared);
        if let Some(poller) = poller {
            self.turn_poller(poller, NOW);
        }
        self.look_after_another(shared);
        let is_driven = poller.is_some() || self.has_fired.get();
        let tolerance = if is_driven { self.io_tolerance.get() } else { self.tolerance.get() };
        if shared.idle.may_wake() && self.ring.len() > tolerance {
            shared.notify();
        }
    }

    /// Any of the other workers.
    fn another<'a>(&self, shared: &'a MultiThread) -> Option<&'a WorkerShared> {
        let others = shared.remotes.len() as u32 - 1;
        if others == 0 {
            return None;
        }
        let steps = 1 + self.random_below(others) as usize;
        Some(&shared.remotes[(self.index + steps) % shared.remotes.len()])
    }

    /// Puts half of what waits in another worker's ring into this one's.
    fn take_from(&self, shared: &MultiThread, other: &WorkerShared) {
        if let Some(task) = other.ring.steal_into(&self.ring) {
            self.has_stolen(shared, &task);
            self.push(shared, task);
        }
    }

    /// Turns the driver of one other worker, if that is awake or lost and has not done so for
    /// long, and takes from its ring: it may be stuck, or the system may have given its
    /// core to somebody else. What was woken runs here.
    fn look_after_another(&self, shared: &MultiThread) {
        let Some(other) = self.another(shared) else { return };
        let WorkerShared { meter, turned_ms, timers, poller, is_lost, .. } = other;
        let now = self.turn_started.get();
        let unturned_ms = now.ms().wrapping_sub(turned_ms.load(Relaxed));
        // A stamp from the future is a race.
        if !(UNTURNED_MS..u32::MAX / 2).contains(&unturned_ms) {
            return;
        }
        if is_lost.load(Relaxed) {
            // A lost worker does not store this itself. If two threads turn a driver at once, one of them does it.
            turned_ms.store(now.ms(), Relaxed);
        } else if meter.is_asleep() {
            return;
        }
        self.take_from(shared, other);
        self.turn_if_due(shared, timers);
        if let Some(poller) = poller.get() {
            self.turn_poller(poller, NOW);
        }
    }

    /// Turns a poller, this worker's or another's. What it tells of comes to this
    /// worker's ring.
    pub(crate) fn turn_poller(&self, poller: &Poller, limit: Option<Duration>) -> usize {
        self.driven(|| poller.poll(limit))
    }

    /// Waits in this worker's own poller. If another waits there, as somebody does while the
    /// worker is stuck, that one is sent away, and it is for the caller to try again.
    pub(crate) fn wait_in_poller(
        &self,
        poller: &Poller,
        parker: &Parker,
        limit: Option<Duration>,
    ) -> usize {
        // That one may have got a kick which was for this worker.
        let turned = self.driven(|| poller.try_poll_unless(limit, || parker.has_token()));
        turned.unwrap_or_else(|| {
            poller.interrupt();
            std::thread::yield_now();
            0
        })
    }

    /// Calls `turn`, which wakes tasks that are better kept than carried elsewhere.
    fn driven<R>(&self, turn: impl FnOnce() -> R) -> R {
        let tolerance = self.tolerance.replace(self.io_tolerance.get());
        let result = turn();
        self.tolerance.set(tolerance);
        result
    }

    /// This worker's poller, if there is something to watch.
    pub(crate) fn poller<'a>(&self, shared: &'a MultiThread) -> Option<&'a Arc<Poller>> {
        shared.remotes[self.index].poller.get().filter(|poller| poller.needs_poll())
    }

    /// Fires the timers that are due shortly after the turn started.
    pub(crate) fn turn_timers(&self, shared: &MultiThread) -> bool {
        let fired = self.driven(|| self.turn_if_due(shared, &self.remote().timers)) > 0;
        if fired {
            self.has_fired.set(true);
        }
        fired
    }

    fn turn_if_due(&self, shared: &MultiThread, timers: &Timers) -> usize {
        let Some(next) = timers.next() else { return 0 };
        let due = shared.estate.config.seam.clock.tick_if_due(next, self.turn_started.get());
        due.map_or(0, |tick| timers.fire_due(tick))
    }

    pub(crate) fn start_turn(&self, shared: &MultiThread) {
        self.start_turn_at(shared, shared.estate.config.seam.clock.now_approx());
    }

    fn start_turn_at(&self, shared: &MultiThread, now: ClockNs) {
        shared.estate.turned(now);
        self.remote().turned_ms.store(now.ms(), Relaxed);
        self.turn_started.set(now);
        self.turn_activity.set(self.remote().watched.activity());
        let polls = self.last_polls.take();
        // A turn in which nothing was polled, before a sleep say, changes nothing.
        if polls > 0 {
            let weight = self.sampling.start_turn(now, polls, &self.probe);
            let is_recorded = self.remote().recorder.is_on();
            self.weight.set(if weight == 0 && is_recorded { ALL } else { weight });
            self.go_on_observing();
        }
    }

    /// One turn ends and the next begins.
    pub(crate) fn change_turn(&self, shared: &MultiThread) {
        let now = shared.estate.config.seam.clock.now_approx();
        self.end_turn(shared, now);
        self.start_turn_at(shared, now);
    }

    /// Learns from the turn what a poll lasts here.
    fn end_turn(&self, shared: &MultiThread, now: ClockNs) {
        let activity = self.remote().watched.activity();
        let polls = activity.wrapping_sub(self.turn_activity.get());
        if polls == 0 {
            return;
        }
        self.last_polls.set(polls);
        self.remote().meter.has_polled(u64::from(polls));
        self.count_busy(now);
        let spent_ns = now.ns_since(self.turn_started.get());
        let seen = || {
            // A clock that was moved by hand says nothing.
            let is_real = !shared.estate.config.seam.clock.was_ever_paused();
            let lasted = self.remote().watched.lasted_since(self.turn_activity.get());
            lasted.filter(|_| is_real).map(|_| u64::MAX)
        };
        self.remote().meter.turn_lasted(spent_ns, self.timed_ns.take(), seen);
        let mut pace = self.pace.get();
        pace.learn(polls, spent_ns);
        self.pace.set(pace);
        self.turn_polls.set(pace.turn(shared.estate.config.turn_interval));
        let (tolerance, io_tolerance) = match shared.has_cores {
            true => (pace.tolerance(ring::CAPACITY / 2), pace.io_tolerance(ring::CAPACITY / 2)),
            // Another worker would only take this one's place on the core.
            false => (u32::MAX, u32::MAX),
        };
        self.tolerance.set(tolerance);
        self.io_tolerance.set(io_tolerance);
    }

    /// Counts the turn until now, if a task was polled in it.
    pub(crate) fn count_busy(&self, now: ClockNs) {
        let remote = self.remote();
        if remote.watched.activity() != self.turn_activity.get() {
            remote.meter.was_busy(now.ns_since(self.turn_started.get()));
        }
    }
}
