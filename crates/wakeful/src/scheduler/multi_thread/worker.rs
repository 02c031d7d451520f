//! Stations 4 and 6: the loop of one worker thread. It takes tasks from its
//! run-next slot, its ring, the injector and other rings, in this order, polls
//! them, and parks when there are none.

use crate::driver::poller::Poller;
use crate::scheduler::multi_thread::core::{WorkerCore, WorkerToken};
use crate::scheduler::multi_thread::idle::{BeforeParking, Idle};
use crate::scheduler::multi_thread::lost_workers::{Reclaimed, earlier};
use crate::scheduler::multi_thread::spare_workers;
use crate::scheduler::multi_thread::{MultiThread, WorkerShared};
use crate::sys::park::Parker;
use crate::sys::timer_slack::TimerSlack;
use crate::task::arena;
use crate::task::context;
use crate::task::header::Header;
use crate::task::runnable::Runnable;
use crate::telemetry::latency_probe::ALL;
use crate::telemetry::trace_buffer::{Entry, Event};
use crate::telemetry::worker_metrics;
use std::cell::Cell;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::time::Duration;

/// A thread that is a worker, as long as it has a key.
struct Worker {
    shared: Arc<MultiThread>,
    key: Cell<Option<WorkerToken>>,
    /// The core that the key opens, null without one.
    core: Cell<*const WorkerCore>,
    /// Taken up for the first timer that this thread sleeps for.
    slack: TimerSlack,
    parker: Arc<Parker>,
    /// The thread's parking spot knows of its worker's poller.
    kicks: Cell<bool>,
    /// The task that this thread polls after it has given its core away.
    in_place: Cell<Option<NonNull<Header>>>,
}

thread_local! {
    static WORKER: Cell<*const Worker> = const { Cell::new(ptr::null()) };
}

impl Worker {
    fn current<'a>() -> Option<&'a Worker> {
        // SAFETY: set while `run` is on this thread's stack, and cleared
        // before it returns; callers use it within one call from there.
        WORKER.with(|worker| unsafe { worker.get().as_ref() })
    }

    #[inline]
    fn core(&self) -> Option<&WorkerCore> {
        // SAFETY: cores live as long as `shared`, and W1: this thread holds the
        // key while the pointer is set.
        unsafe { self.core.get().as_ref() }
    }

    /// Makes this thread the one that holds the key.
    fn put_key(&self, key: WorkerToken) {
        let core = &self.shared.cores[key.0];
        context::set_arena(core.heap.get());
        self.core.set(core);
        self.key.set(Some(key));
    }

    /// Whether this thread, with its core, is inside the poll of a task.
    fn is_in_poll(&self) -> bool {
        self.core().is_some_and(|core| core.remote().watched.running().is_some())
    }

    /// The poll that went on without a core has ended, or has its core again.
    fn leave_place(&self) {
        if let Some(cell) = self.in_place.take() {
            let mut in_place = self.shared.in_place.lock();
            if let Some(at) = in_place.iter().position(|other| *other == cell.addr().get()) {
                in_place.swap_remove(at);
            }
        }
    }

    fn take_key(&self) -> Option<WorkerToken> {
        let key = self.key.take()?;
        context::set_arena(ptr::null());
        self.core.set(ptr::null());
        Some(key)
    }
}

/// Calls `f` if this thread is a worker of `shared` and has its core.
#[inline]
pub(crate) fn with_core<R>(shared: &MultiThread, f: impl FnOnce(&WorkerCore) -> R) -> Option<R> {
    let worker = Worker::current()?;
    if !ptr::eq(&*worker.shared, shared) {
        return None;
    }
    worker.core().map(f)
}

/// This thread's index among the workers of `shared`.
pub(crate) fn index(shared: &MultiThread) -> Option<usize> {
    with_core(shared, |core| core.index)
}

/// A task woken or spawned on a worker stays there: it runs next, and whoever
/// was to run next goes to the ring.
#[inline]
pub(crate) fn push_local(shared: &MultiThread, task: Runnable) -> Result<(), Runnable> {
    let mut task = Some(task);
    with_core(shared, |core| {
        let task = task.take().expect("called once");
        if core.probe.is_due() {
            core.mark(shared, &task);
        }
        if !shared.estate.config.run_next_slot {
            return core.push(shared, task);
        }
        if let Some(previous) = core.next.replace(task) {
            core.push(shared, previous);
        }
    });
    task.map_or(Ok(()), Err)
}

/// A task that gives way goes to the end of the ring.
#[inline]
pub(crate) fn push_back(shared: &MultiThread, task: Runnable) -> Result<(), Runnable> {
    let mut task = Some(task);
    with_core(shared, |core| {
        let task = task.take().expect("called once");
        core.gave_way.set(core.gave_way.get().saturating_add(1));
        core.push(shared, task);
    });
    task.map_or(Ok(()), Err)
}

/// The whole life of a worker thread.
pub(crate) fn run(shared: Arc<MultiThread>, key: WorkerToken) {
    let config = &shared.estate.config;
    let parker = Arc::new(Parker::for_current_thread());
    let worker = Worker {
        shared: shared.clone(),
        key: Cell::new(None),
        core: Cell::new(ptr::null()),
        slack: TimerSlack::new(),
        parker: parker.clone(),
        kicks: Cell::new(false),
        in_place: Cell::new(None),
    };
    shared.take_seat(&key, parker.clone());
    shared.remotes[key.0].meter.woke_up();
    context::set_rng(Some(config.seam.rng()));
    context::set_drains_deferred(true);
    worker.put_key(key);
    WORKER.with(|slot| slot.set(&worker));
    // Leaves in order even if one of the user's callbacks panics.
    let shift = WorkerRunGuard(&worker);
    if let Some(callback) = &config.on_thread_start {
        callback();
    }
    if let Some(core) = worker.core() {
        shared.has_started(core.index);
    }
    worker.work(&parker);
    drop(shift);
    // Without a seat (A4): it may wait for what ends when the last thread has left its seat.
    if let Some(callback) = &config.on_thread_stop {
        callback();
    }
}

/// A worker thread's time as a worker.
struct WorkerRunGuard<'a>(&'a Worker);

impl Drop for WorkerRunGuard<'_> {
    fn drop(&mut self) {
        let worker = self.0;
        context::wake_deferred();
        WORKER.with(|slot| slot.set(ptr::null()));
        context::set_drains_deferred(false);
        match worker.take_key() {
            // A callback panicked: somebody else carries on.
            Some(key) if !worker.shared.estate.is_closing() => worker.shared.thread_failed(key),
            Some(_) => worker.shared.leave(),
            None => {
                worker.leave_place();
                worker.shared.ended_elsewhere();
                worker.shared.leave_poll();
            }
        }
    }
}

impl Worker {
    /// Runs tasks until the runtime closes or this thread has lost its core.
    fn work(&self, parker: &Parker) {
        if let Some(core) = self.core() {
            core.start_turn(&self.shared);
        }
        if self.shared.monitor().is_asleep() {
            self.shared.wake_monitor();
        }
        while let Some(core) = self.core() {
            if self.shared.estate.is_closing() || self.shared.estate.is_fatal() {
                core.remote().watched.clear_running();
                core.change_turn(&self.shared);
                // After an unhandled panic nothing runs any more.
                return self.shared.close();
            }
            if let Some(task) = core.next_task(&self.shared) {
                self.run_task(core, task);
                continue;
            }
            core.remote().watched.clear_running();
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
        if core.observes.get() {
            return self.run_observed(core, task);
        }
        self.poll_task(core, task);
    }

    /// The same where the poll is perhaps to be timed, or the task's wait for it.
    #[inline(never)]
    fn run_observed(&self, core: &WorkerCore, task: Runnable) {
        if core.weight.get() != 0 {
            return self.time_task(core, task);
        }
        if core.probe.is_at(&task) {
            core.meet(&self.shared, &task);
        }
        core.go_on_observing();
        self.poll_task(core, task);
    }

    /// The same for a task that did not come the usual way.
    #[inline(never)]
    fn run_found(&self, core: &WorkerCore, task: Runnable) {
        self.run_task(core, task);
    }

    /// Runs the task that stands for those of its turn, and measures it.
    #[inline(never)]
    fn time_task(&self, core: &WorkerCore, task: Runnable) {
        let WorkerShared { meter, recorder, .. } = core.remote();
        let weight = core.weight.replace(if recorder.is_on() { ALL } else { 0 });
        core.go_on_observing();
        let (cell, id) = task.cell_and_id();
        let clock = &self.shared.estate.config.seam.clock;
        // SAFETY: a cell of this scheduler, which this thread keeps alive.
        let before = unsafe { arena::poll_time_of(cell, id) };
        let started = clock.now_approx();
        if core.probe.is_at(&task) {
            core.probe.met(&task, started, meter);
        }
        self.poll_task(core, task);
        if self.core().is_none() {
            return; // the core, and the right to write here, went elsewhere
        }
        let took = clock.now_approx().since(started);
        recorder.note(Entry { event: Event::Poll, at: started.time(), took, task: id });
        if weight == ALL {
            // Timed for the recorder only.
        } else if took < worker_metrics::LONG {
            meter.poll_times.record(took, u64::from(weight));
            // SAFETY: a cell of this scheduler, which this thread keeps alive.
            unsafe { arena::add_poll_time(cell, id, took * weight) };
        } else {
            // One of a kind, of which the monitor has charged what it saw.
            meter.poll_times.record(took, 1);
            core.timed_ns.set(took.as_nanos() as u64);
            // SAFETY: as above.
            unsafe { arena::add_remaining_poll_time(cell, id, before, took) };
        }
    }

    #[inline(always)]
    fn poll_task(&self, core: &WorkerCore, task: Runnable) {
        core.remote().watched.start_poll(&task);
        task.run();
        context::wake_deferred();
    }

    fn stop_searching(&self, core: &WorkerCore) {
        core.searching.set(false);
        if self.shared.idle.found_work() && self.is_work_left(core) {
            self.shared.notify();
        }
    }

    /// Whether others have more than they get through soon.
    fn is_work_left(&self, core: &WorkerCore) -> bool {
        let tolerance = core.tolerance.get();
        !self.shared.injector.is_empty()
            || self.shared.remotes.iter().any(|remote| remote.ring.len() > tolerance)
    }

    /// Looks at all queues of others, as one of a limited number of searchers, unless
    /// it is plain to see that there is nothing in them: who sleeps looks once more.
    fn search(&self, core: &WorkerCore) -> bool {
        if !core.searching.get() {
            if !core.spinner.get().should_spin() && !self.shared.is_work_anywhere() {
                return false;
            }
            if !self.shared.idle.start_searching() {
                return false;
            }
            core.searching.set(true);
        }
        if self.steal(core) {
            return true;
        }
        self.spin(core)
    }

    fn steal(&self, core: &WorkerCore) -> bool {
        let count = self.shared.remotes.len();
        let start = core.random_below(count as u32) as usize;
        for offset in 0..count {
            let victim = (start + offset) % count;
            if victim == core.index {
                continue;
            }
            if let Some(task) = self.shared.remotes[victim].ring.steal_into(&core.ring) {
                core.has_stolen(&self.shared, &task);
                self.run_found(core, task);
                return true;
            }
        }
        match core.take_injected(&self.shared) {
            Some(task) => {
                self.run_found(core, task);
                true
            }
            None => false,
        }
    }

    /// Looks around a little longer where that has paid off lately. As a
    /// searcher, it spares whoever brings work the wake-up.
    fn spin(&self, core: &WorkerCore) -> bool {
        let mut spinner = core.spinner.get();
        if !spinner.should_spin() {
            return false;
        }
        let found = spinner.spin(|look| {
            !self.shared.injector.is_empty()
                || (look % 8 == 7 && self.is_work_left(core))
                || self.shared.estate.is_closing()
        });
        core.spinner.set(spinner);
        found
    }

    fn park(&self, core: &WorkerCore, parker: &Parker) {
        core.has_fired.set(false);
        core.change_turn(&self.shared);
        if core.turn_timers(&self.shared) {
            return;
        }
        let idle = &self.shared.idle;
        let before = idle.sleep(core.index, core.searching.replace(false));
        if before == BeforeParking::LookAgain && self.shared.is_work_anywhere() {
            core.remote().meter.stayed_awake();
            // Woken meanwhile or not, we are a searcher now.
            if idle.cancel_sleep(core.index) {
                core.searching.set(idle.start_searching());
            } else {
                core.searching.set(true);
            }
        } else {
            self.sleep(core, parker);
            core.turn_timers(&self.shared);
        }
        if self.shared.monitor().is_asleep() {
            self.shared.wake_monitor();
        }
    }

    fn sleep(&self, core: &WorkerCore, parker: &Parker) {
        let config = &self.shared.estate.config;
        if let Some(callback) = &config.on_thread_park {
            let announced = Announced { idle: &self.shared.idle, core };
            callback();
            context::wake_deferred();
            std::mem::forget(announced);
        }
        let WorkerShared { timers, meter, recorder, .. } = core.remote();
        let clock = &config.seam.clock;
        let mut woken_by = WokenBy::Others;
        meter.fell_asleep(core.turn_started.get());
        loop {
            let is_any_lost = self.shared.lost.is_any();
            let has_monitor = self.shared.monitor().is_elsewhere();
            let help = if is_any_lost { self.shared.help_lost(!has_monitor) } else { None };
            // A callback of the user's may have woken tasks on this thread, and so
            // may what the poller passed on.
            let due = timers.next().is_some_and(|tick| clock.until(tick).is_zero());
            if due || core.has_work() {
                core.searching.set(!self.shared.idle.cancel_sleep(core.index));
                break;
            }
            // What is registered from elsewhere meanwhile leaves a token.
            let limit = earlier(timers.next_wake_up().map(|tick| clock.until(tick)), help);
            if limit.is_some() {
                self.slack.minimize();
            }
            woken_by = match core.poller(&self.shared) {
                Some(poller) => self.park_in(core, poller, parker, limit),
                None => {
                    parker.park(limit);
                    WokenBy::Others
                }
            };
            if self.shared.estate.is_closing() || self.shared.estate.is_fatal() {
                break;
            }
            if !core.has_work() && !self.shared.idle.is_asleep(core.index) {
                core.searching.set(true);
                break;
            }
        }
        meter.woke_up();
        let fell_asleep = core.turn_started.get();
        core.start_turn(&self.shared);
        let woke_up = core.turn_started.get();
        if recorder.is_on() {
            let (at, took) = (fell_asleep.time(), woke_up.since(fell_asleep));
            recorder.note(Entry { event: Event::Park, at, took, task: 0 });
        }
        // Looking around does not show what the poller knows.
        if woken_by == WokenBy::Others {
            let mut spinner = core.spinner.get();
            spinner.record_sleep(woke_up.ns_since(fell_asleep));
            core.spinner.set(spinner);
        }
        if let Some(callback) = &config.on_thread_unpark {
            callback();
        }
    }

    fn park_in(
        &self,
        core: &WorkerCore,
        poller: &Arc<Poller>,
        parker: &Parker,
        limit: Option<Duration>,
    ) -> WokenBy {
        if !self.kicks.replace(true) {
            parker.set_interrupt(Some(poller.clone()));
        }
        let mut events = 0;
        parker.park_in(|| events = core.wait_in_poller(poller, parker, limit));
        if events > 0 { WokenBy::Poller } else { WokenBy::Others }
    }
}

/// What ended a sleep.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WokenBy {
    /// A descriptor became ready.
    Poller,
    /// Another thread, a timer, or nothing.
    Others,
}

/// A worker on the list of sleepers. If a callback of the user's panics, the
/// worker is not asleep, and whoever takes its place must not be taken for it.
struct Announced<'a> {
    idle: &'a Idle,
    core: &'a WorkerCore,
}

impl Drop for Announced<'_> {
    fn drop(&mut self) {
        if !self.idle.cancel_sleep(self.core.index) {
            self.core.searching.set(true);
        }
    }
}

/// Runs `f`, which may block, on this thread, while the worker's core carries on
/// elsewhere. On a thread that is no worker with a core, just runs it; likewise
/// outside of a poll (in a callback), where the worker goes on to use its core.
///
/// The thread has no seat meanwhile (A4): if the runtime closes, what `f` waits for ends.
pub(crate) fn block_in_place<R>(f: impl FnOnce() -> R) -> R {
    /// Says again that this thread's scheduler wakes what is put off.
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            context::set_drains_deferred(self.0);
        }
    }
    let mut _lost = None;
    if let Some(worker) = Worker::current()
        && worker.is_in_poll()
        && let Some(key) = worker.take_key()
    {
        _lost = hand_over(worker, key);
    } else {
        spare_workers::give_seat_up();
    }
    // What `f` waits for must not be put off until the poll that it is in ends.
    let _restore = Restore(context::set_drains_deferred(false));
    context::without_budget(f)
}

/// A worker that was lost while its thread blocks in place: the thread takes it back, if no other
/// has meanwhile.
struct Lost<'a> {
    worker: &'a Worker,
    index: usize,
    running: Option<NonNull<Header>>,
}

impl Drop for Lost<'_> {
    fn drop(&mut self) {
        let Self { worker, index, running } = *self;
        if let Reclaimed::Yes(key) = worker.shared.reclaim(index, &worker.parker) {
            let watched = &worker.shared.remotes[index].watched;
            worker.leave_place();
            watched.bind_thread();
            watched.set_running(running.map_or(ptr::null_mut(), NonNull::as_ptr));
            worker.put_key(key);
            worker.shared.leave_poll();
            // As a worker that wakes up: this poll may go on to block.
            if worker.shared.monitor().is_asleep() {
                worker.shared.wake_monitor();
            }
        }
    }
}

fn hand_over(worker: &Worker, key: WorkerToken) -> Option<Lost<'_>> {
    let index = key.0;
    let watched = &worker.shared.remotes[index].watched;
    worker.shared.stay_in_poll();
    // Whoever carries on starts a turn of its own.
    worker.shared.cores[key.0].change_turn(&worker.shared);
    let running = watched.running();
    worker.in_place.set(running);
    worker.shared.in_place.lock().extend(running.map(|cell| cell.addr().get()));
    watched.clear_running();
    let (_, key) = worker.shared.launch(key).err()?;
    // No thread to be had, or the runtime closes.
    worker.shared.lose_thread(key);
    Some(Lost { worker, index, running })
}
