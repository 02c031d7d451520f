//! A target of the watchdog: one runtime, its visits and its shutdown.
//!
//! # Rules
//!
//! - WATCH-1. The watchdog refers to a scheduler only during a visit, and drops its references before
//!   the visit ends.
//! - WATCH-2. A runtime that shuts down closes its target and waits for the visit to end. It waits
//!   until the caller's deadline at most, and not at all if a report hook drops the runtime during
//!   the visit. A deadlock scan in the visit of another runtime may refer to this one as well, as one
//!   of its peers. The shutdown waits for such scans too (PEER-1 in `runtime::registry`).

use super::delayed_visit::{DelayedVisit, NextVisit, VisitOutcome};
use super::local_drivers::LocalDriver;
use super::scan_schedule::{ProgressSnapshot, ScanSchedule};
use super::spin_detector::SpinDetector;
use super::{ROLE, WatchdogRole, earlier};
use crate::driver::clock::clock_ns::ClockNs;
use crate::scheduler::base::SchedulerBase;
use crate::scheduler::config::Role;
use crate::scheduler::external_block_on::BlockOnPolls;
use crate::sys::backtrace::current_tid;
use crate::sys::membarrier::Barriers;
use crate::sys::park::Parker;
use crate::sys::real_time;
use crate::sys::sync::ignore_poison;
use crate::sys::thread_state;
use crate::telemetry::poll_watch::PollWatch;
use crate::telemetry::scan_gate::if_parked;
use crate::telemetry::starvation::SystemProbe;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

/// The time after which a runtime is visited again if its visit panicked.
const RETRY_AFTER: Duration = Duration::from_millis(5);
/// The watchdog's role is handed off before a scan if the last scan took this long.
const SLOW_SCAN: Duration = Duration::from_millis(5);

/// The interface of a scheduler towards the watchdog.
pub(crate) trait Watched: Send + Sync {
    fn base(&self) -> &SchedulerBase;

    /// Returns whether no thread of the scheduler is at work.
    fn is_idle(&self) -> bool;

    /// Returns whether no thread polls tasks of the scheduler or its `LocalSet`s, and no worker has
    /// lost its thread.
    fn are_all_parked(&self) -> bool;

    /// Returns a count that grows at least when a thread of the scheduler falls asleep or wakes up.
    ///
    /// If two visits find the scheduler idle and get the same count, nothing ran in between.
    fn activity(&self) -> u64;

    /// Compares the scheduler's threads with the last visit. Returns the time until the next
    /// comparison.
    ///
    /// Reports polls that block and tasks that spin, and rescues the tasks that wait behind them.
    fn observe(&self, observations: &mut Observations) -> Duration;

    /// Polls the drivers of workers that have lost their thread. Returns the time until the next
    /// such poll.
    fn serve_lost_workers(&self) -> Option<Duration>;

    /// Returns the number of pollers that have sources but no thread waiting for them.
    fn unserved_pollers(&self) -> usize;

    /// Parks the watchdog in the first poller that has sources and no thread.
    fn wait_in_poller(&self, parker: &Parker, limit: Option<Duration>) -> Served;

    /// Wakes the threads of the scheduler if a report hook has caused a fatal error.
    ///
    /// Called after each scan.
    fn propagate_fatal_error(&self);
}

/// The result of a wait in a poller.
#[derive(Clone, Copy, Default)]
pub(crate) struct Served {
    pub(super) events: usize,
    /// Whether the scheduler has to be visited at once.
    pub(super) needs_visit: bool,
}

/// Finds the scheduler of a runtime.
pub(crate) trait Subject: Send + Sync {
    /// Returns `None` after the runtime was dropped.
    fn scheduler(&self) -> Option<Arc<dyn Watched>>;
}

/// The watchdog's record of a scheduler's threads.
pub(crate) struct Observations {
    pub(super) spin_detector: SpinDetector,
    pub(super) probe: SystemProbe,
    /// The last observation, by the runtime's clock.
    pub(super) at: Duration,
    /// The future of `block_on` on the thread that runs the tasks of a current-thread runtime.
    pub(super) block_on: Option<Box<PollWatch>>,
    /// The task of a `LocalSet` that was polled inside that future, and the number of that poll.
    pub(super) local: Option<(u64, u32)>,
    /// Threads in `block_on` that run only the tasks of `LocalSet`s.
    pub(super) local_drivers: Vec<LocalDriver>,
    /// The number of events and timers of stuck workers in this visit.
    pub(super) events: usize,
}

/// The watchdog's record of a target between two visits.
struct VisitState {
    observations: Observations,
    schedule: ScanSchedule,
    /// When the next visit is due; `None`: when the target is woken.
    due_at: Option<Instant>,
    /// Whether the scheduler's gate was asleep after the last visit.
    is_asleep: bool,
    /// The number of its pollers that the watchdog has to wait in.
    pollers: usize,
}

impl VisitState {
    fn new(now: Instant) -> Self {
        let observations = Observations {
            spin_detector: SpinDetector::new(),
            probe: SystemProbe::new(),
            at: Duration::ZERO,
            block_on: None,
            local: None,
            local_drivers: Vec::new(),
            events: 0,
        };
        let schedule = ScanSchedule::new(now);
        Self { observations, schedule, due_at: Some(now), is_asleep: false, pollers: 0 }
    }

    fn next(&mut self) -> Next {
        let now = real_time::now();
        let after = self.due_at.map(|due_at| due_at.saturating_duration_since(now));
        Next { after, pollers: self.pollers, events: std::mem::take(&mut self.observations.events) }
    }
}

/// The next visit that a target needs.
#[derive(Clone, Copy, Default)]
pub(super) struct Next {
    /// `None`: not before it is woken.
    pub(super) after: Option<Duration>,
    /// The number of its pollers that the watchdog has to wait in.
    pub(super) pollers: usize,
    /// The number of events in pollers that the watchdog did not wait in.
    pub(super) events: usize,
}

/// A runtime on the watchdog's list.
pub(crate) struct WatchTarget {
    subject: Weak<dyn Subject>,
    state: Mutex<State>,
    /// The next visit, if it is delayed. Its lock is held only for moments.
    delayed: Mutex<Option<DelayedVisit>>,
    /// Signals the end of a visit.
    visit_ended: Condvar,
}

struct State {
    /// Made by the first visit, and taken out during each.
    visit_state: Option<Box<VisitState>>,
    visitor: Option<ThreadId>,
    is_closed: bool,
}

impl WatchTarget {
    pub(crate) fn new(subject: Weak<dyn Subject>) -> Self {
        let state = Mutex::new(State { visit_state: None, visitor: None, is_closed: false });
        Self { subject, state, delayed: Mutex::new(None), visit_ended: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        ignore_poison(self.state.lock())
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    fn lock_delayed(&self) -> MutexGuard<'_, Option<DelayedVisit>> {
        ignore_poison(self.delayed.lock())
    }

    /// Returns when the next visit is due, if it is delayed.
    pub(super) fn delayed_until(&self) -> Option<Instant> {
        self.lock_delayed().map(|visit| visit.due_at)
    }

    /// Postpones the next visit, if it is delayed. Returns after how long it pays off to do so again.
    pub(super) fn postpone(&self, parked_at: Instant) -> Option<Duration> {
        let mut delayed = self.lock_delayed();
        let visit = delayed.as_mut()?;
        visit.postpone(parked_at);
        Some(visit.ask_after())
    }

    /// Takes the target off the list for good (WATCH-2). Waits for a visit in progress, at most
    /// until `deadline`.
    pub(crate) fn close(self: &Arc<Self>, deadline: Option<Instant>) {
        let mut watchdog = super::lock();
        let mut state = self.lock();
        state.is_closed = true;
        watchdog.remove(self);
        if state.visitor.is_some() {
            // The watchdog may be waiting in a poller of this runtime.
            watchdog.unpark();
        }
        drop(watchdog);
        let own = thread::current().id();
        while state.visitor.is_some_and(|visitor| visitor != own) {
            state = match deadline {
                None => ignore_poison(self.visit_ended.wait(state)),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(real_time::now());
                    if left.is_zero() {
                        return;
                    }
                    let waited = self.visit_ended.wait_timeout(state, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        state.visit_state = None;
    }

    /// Begins a visit, unless the target is closed or another thread visits it.
    ///
    /// The other thread is a former watchdog that is in a report hook or a slow scan.
    fn begin_visit(&self) -> Option<Visit<'_>> {
        let mut state = self.lock();
        if state.is_closed || state.visitor.is_some() {
            return None;
        }
        state.visitor = Some(thread::current().id());
        let visit_state =
            state.visit_state.take().unwrap_or_else(|| Box::new(VisitState::new(real_time::now())));
        Some(Visit { target: self, visit_state: Some(visit_state) })
    }

    fn scheduler(&self) -> Option<Arc<dyn Watched>> {
        self.subject.upgrade()?.scheduler()
    }

    /// Visits the target if it is due, or was woken. With `serves_pollers`, also if it has pollers
    /// that need a thread.
    pub(super) fn visit(self: &Arc<Self>, now: Instant, serves_pollers: bool) -> Next {
        let Some(mut visit) = self.begin_visit() else { return Next::default() };
        // Dropped before the visit ends (WATCH-1).
        let Some(scheduler) = self.scheduler() else { return self.unlist() };
        let (scheduler, visit_state) = (&*scheduler, visit.visit_state());
        let base = scheduler.base();
        if base.is_closing() {
            return self.unlist();
        }
        let was_woken = visit_state.is_asleep && !base.gate.is_asleep();
        let is_over = |due_at: Option<Instant>| due_at.is_some_and(|due_at| now >= due_at);
        let is_due = is_over(visit_state.due_at) || is_over(self.delayed_until());
        if is_due || was_woken || (serves_pollers && visit_state.pollers > 0) {
            if was_woken {
                visit_state.schedule.restart(now);
            }
            *self.lock_delayed() = None;
            let mut next = NextVisit { after: Some(RETRY_AFTER), delayed: None };
            in_context(scheduler, || next = observe_and_scan(scheduler, visit_state, now));
            visit_state.due_at = next.after.map(|after| real_time::now() + after);
            *self.lock_delayed() = next.delayed;
            let ask_after = next.delayed.map(|visit| visit.ask_after());
            base.gate
                .set_ask_after(ClockNs::from_elapsed(base.config.env.clock.elapsed()), ask_after);
            if visit_state.is_asleep && next.after.is_none() && visit_state.pollers == 0 {
                self.unlist_if_asleep(base);
            }
        }
        visit_state.next()
    }

    /// Parks the watchdog in a poller of this runtime that needs a thread. Returns how many events
    /// there were.
    pub(super) fn wait_in_poller(&self, parker: &Parker, limit: Option<Duration>) -> usize {
        let Some(mut visit) = self.begin_visit() else { return 0 };
        // Dropped before the visit ends (WATCH-1).
        let Some(scheduler) = self.scheduler() else { return 0 };
        let (scheduler, visit_state) = (&*scheduler, visit.visit_state());
        let mut events = 0;
        in_context(scheduler, || {
            let served = scheduler.wait_in_poller(parker, limit);
            events = served.events;
            if served.needs_visit {
                visit_state.due_at = Some(real_time::now());
            }
        });
        events
    }

    /// Takes the target off the list.
    fn unlist(self: &Arc<Self>) -> Next {
        super::lock().remove(self);
        Next::default()
    }

    /// Takes the target off the list, unless its gate was woken.
    ///
    /// The thread that wakes the gate puts the target on the list under the same lock. If it did so
    /// before, the gate is awake here. If it does so later, the target is on the list again.
    fn unlist_if_asleep(self: &Arc<Self>, base: &SchedulerBase) {
        let mut watchdog = super::lock();
        if base.gate.is_asleep() {
            watchdog.remove(self);
        }
    }
}

/// A visit of a target: the time in which the visiting thread may refer to its scheduler (WATCH-1).
struct Visit<'a> {
    target: &'a WatchTarget,
    visit_state: Option<Box<VisitState>>,
}

impl Visit<'_> {
    fn visit_state(&mut self) -> &mut VisitState {
        self.visit_state.as_mut().expect("there until the visit ends")
    }
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        let mut state = self.target.lock();
        state.visitor = None;
        if state.is_closed {
            self.target.visit_ended.notify_all();
        } else {
            state.visit_state = self.visit_state.take();
        }
    }
}

/// Runs `visit` in the context of the runtime, because it may drop tasks and call user code. A
/// panic of user code does not end the watch.
fn in_context(scheduler: &dyn Watched, mut visit: impl FnMut()) {
    let config = &scheduler.base().config;
    ROLE.set(WatchdogRole::OnDuty(config.address()));
    let visited = || config.hooks.in_context(Role::Blocking, &mut visit);
    if let Err(payload) = catch_unwind(AssertUnwindSafe(visited)) {
        std::mem::forget(payload); // its drop might panic again
    }
    if ROLE.get() != WatchdogRole::HandedOff {
        ROLE.set(WatchdogRole::OnDuty(0));
    }
}

/// Observes a scheduler, and scans it if a scan is due. Returns the next visit.
fn observe_and_scan(
    scheduler: &dyn Watched,
    visit_state: &mut VisitState,
    now: Instant,
) -> NextVisit {
    let gate = &scheduler.base().gate;
    let tick = scheduler.observe(&mut visit_state.observations);
    // Read before the timers of lost workers: a thread that registers one later counts as progress.
    // Read before `is_idle`: a worker that wakes up later changes it.
    let progress = ProgressSnapshot::of(scheduler);
    // A thread that finds a futile loop later counts it as progress.
    scheduler.base().config.hooks.report_futile_loops();
    let lost_timer = scheduler.serve_lost_workers();
    visit_state.schedule.update(now, progress, scheduler.is_idle());
    if visit_state.schedule.is_due(now) {
        scan(scheduler, &mut visit_state.schedule, now);
    }
    let scanned = visit_state.schedule.scanned();
    let is_scanned = scanned.is_some();
    visit_state.is_asleep =
        scanned.is_some_and(|(progress, polls)| try_sleep(scheduler, progress, polls));
    if !visit_state.is_asleep {
        gate.wake();
        if is_scanned {
            visit_state.schedule.restart(now);
        }
    }
    // After that: a thread that loses a worker or registers a source later wakes the gate.
    visit_state.pollers = scheduler.unserved_pollers();
    let may_delay = || visit_state.pollers == 0 && scheduler.are_all_parked();
    let outcome = match if_parked(real_time::now, may_delay) {
        _ if visit_state.is_asleep => VisitOutcome::Asleep,
        Some(parked_at) => VisitOutcome::AllParked { parked_at },
        None => VisitOutcome::AtWork,
    };
    let report_after = scheduler.base().config.report_blocked_after;
    let mut next = NextVisit::new(outcome, tick, visit_state.schedule.next_in(now), report_after);
    // The poll of a thread outside of the scheduler may turn out to be long.
    let is_open = visit_state.observations.has_open_local_poll();
    next.after = earlier(next.after, is_open.then_some(tick));
    next.after = earlier(next.after, lost_timer);
    next
}

/// Scans the runtime for deadlocks and for situations that last.
fn scan(scheduler: &dyn Watched, schedule: &mut ScanSchedule, now: Instant) {
    let base = scheduler.base();
    let polls = base.block_on_polls();
    if schedule.last_cost >= SLOW_SCAN {
        super::hand_off();
    }
    let before = cpu_time();
    let again_in = catch_unwind(AssertUnwindSafe(|| base.config.hooks.scan_for_deadlocks()));
    let lasting = catch_unwind(AssertUnwindSafe(|| base.config.hooks.observe_lasting()));
    scheduler.propagate_fatal_error();
    let again_in =
        again_in.unwrap_or(None).or_else(|| polls.is_any_polled().then_some(Duration::ZERO));
    let again_in = earlier(again_in, lasting.unwrap_or(None));
    schedule.add_scan(now, cpu_time().saturating_sub(before), polls, again_in);
}

/// Returns the CPU time of the calling thread, which measures the cost of a scan. A hook that
/// blocks during a scan then does not delay the next scan.
fn cpu_time() -> Duration {
    thread_state::cpu_time(current_tid()).unwrap_or_default()
}

/// Puts the scheduler's gate to sleep, unless there was progress since `progress` and `polls` were read.
fn try_sleep(scheduler: &dyn Watched, progress: ProgressSnapshot, polls: &BlockOnPolls) -> bool {
    let base = scheduler.base();
    if !base.gate.try_sleep(progress.events) {
        return false;
    }
    // Pairs with the light barrier of a thread that begins to work (`telemetry::scan_gate`).
    let is_unchanged = Barriers::detect().try_heavy()
        && scheduler.is_idle()
        && ProgressSnapshot::of(scheduler) == progress
        && base.block_on_polls() == *polls;
    if !is_unchanged {
        base.gate.wake();
    }
    is_unchanged
}
