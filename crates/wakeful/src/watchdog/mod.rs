//! The watchdog: one thread of the process that watches every runtime.
//!
//! It reads what schedulers record about themselves (`telemetry`) and does for them what they cannot
//! do while their threads are blocked or asleep:
//!
//! - [`rescue`]: polls that block a worker, and workers that have lost their thread.
//! - [`local_drivers`]: polls that block a thread in `block_on` on which local tasks depend.
//! - [`spin_detector`]: tasks that wake themselves all the time.
//! - [`target`]: visits one runtime; decides when it is scanned for deadlocks ([`scan_schedule`]) and
//!   when the watchdog may stop visiting it.
//! - [`delayed_visit`]: decides when a runtime is visited again, and lets threads that park postpone it.
//! - [`snapshot`]: the read-only view of a scheduler for diagnostics.
//!
//! # The loop
//!
//! ```text
//! diagram
//!   wake() ──► targets ──► visit() each that is due ──► wait() for the earliest due time
//!                 ▲            │ idle, scanned                      │
//!                 └────────────┼────────────────────────────────────┘
//!                              └──► off the list, its ScanGate is asleep
//! ```
//!
//! Only targets that have something to watch are on the list, so idle runtimes cost nothing. With an
//! empty list the thread parks without a time limit.
//!
//! # Sleep protocol
//!
//! Each scheduler has a [`ScanGate`](crate::telemetry::scan_gate::ScanGate). A target leaves the list
//! only after its gate is asleep, under the lock of the list. A thread that wakes the gate puts the
//! target on the list under the same lock. If the watchdog is parked for longer than [`MAX_TICK`], the
//! thread unparks it. Otherwise the watchdog reads the list within that time anyway: before it waits,
//! it sets `is_parked` and reads `has_news`, also under the lock.
//!
//! If the next visit is a delayed one, the thread waits for a timer of the kernel, which threads that
//! park set to a later time (POSTPONE-3). It counts as parked then.
//!
//! # User code
//!
//! A report hook may block, drop its runtime, or call `block_on`. Before the watchdog calls one, it
//! hands its role to a new thread ([`hand_off`]); the old thread finishes its visit and ends. A slow
//! scan is handed off as well. So no runtime waits for another one's hook or scan. If no thread can be
//! started, the watchdog continues on its own thread.
#![allow(unsafe_code)]

mod current_thread;
mod delayed_visit;
mod fingerprint;
mod local_drivers;
#[cfg(all(test, loom))]
mod models;
mod observe;
mod rescue;
mod scan_schedule;
pub(crate) mod snapshot;
mod spin_detector;
mod target;

pub(crate) use target::{Subject, WatchTarget, Watched};

use crate::scheduler::multi_thread::lost_workers::earlier;
use crate::sys::park::Parker;
use crate::sys::real_time;
use crate::sys::sync::ignore_poison;
use crate::sys::thread_registry::{self, ALL_RUNTIMES, RuntimeThread};
use crate::sys::timer_fd::TimerFd;
use crate::sys::timer_slack::RelaxedSleep;
use std::cell::Cell;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, TryLockError};
use std::thread;
use std::time::{Duration, Instant};
use target::Next;

/// The shortest wait if several pollers have to be served. The wait doubles after each one without
/// events.
const SHORTEST_WAIT: Duration = Duration::from_millis(1);
/// How late a visit may be. Most kernels have a timer tick at least this often, so the visit needs no
/// separate interrupt.
const MAX_SLACK: Duration = Duration::from_millis(4);
/// The longest time between two visits of a target at work.
const MAX_TICK: Duration = Duration::from_millis(25);
/// How long the watchdog keeps ticking after a target was woken or at work. Programs that start and stop
/// runtimes all the time then need not wake it each time.
const LINGER: Duration = Duration::from_millis(100);
/// The time after which a thread asks again if the list was locked when it wanted to postpone a visit.
const ASK_AGAIN: Duration = Duration::from_millis(1);

static WATCHDOG: Mutex<Watchdog> = Mutex::new(Watchdog {
    process: 0,
    targets: Vec::new(),
    round: Vec::new(),
    thread: WatchdogThread::None,
    is_parked: false,
    has_news: false,
    timer: None,
    timer_due_at: None,
});

/// Signals that the watchdog's thread runs.
static STARTED: Condvar = Condvar::new();

struct Watchdog {
    /// The process that the other fields belong to. A forked child inherits the fields of its parent.
    process: u32,
    /// Targets that have to be visited.
    targets: Vec<Arc<WatchTarget>>,
    /// The targets that are still to be visited in this round.
    round: Vec<Arc<WatchTarget>>,
    thread: WatchdogThread,
    /// Whether the thread is parked for longer than [`MAX_TICK`].
    is_parked: bool,
    /// Whether a target was woken since the thread last read `targets`.
    has_news: bool,
    /// The timer for delayed visits. Created with the first thread, opened for the first wait.
    timer: Option<Arc<TimerFd>>,
    /// When the timer expires, while the thread waits for it: no later than the first delayed visit is
    /// due (POSTPONE-3).
    timer_due_at: Option<Instant>,
}

/// The thread that has the role of the watchdog.
enum WatchdogThread {
    None,
    Starting,
    Running(Arc<Parker>),
}

fn lock() -> MutexGuard<'static, Watchdog> {
    ignore_poison(WATCHDOG.lock())
}

thread_local! {
    static ROLE: Cell<WatchdogRole> = const { Cell::new(WatchdogRole::None) };
}

/// The role of a thread in the watchdog.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WatchdogRole {
    None,
    /// The thread is the watchdog, and visits the runtime at this address (0: none).
    OnDuty(usize),
    /// The thread was the watchdog, and ends after this visit.
    HandedOff,
}

/// Makes the watchdog visit `target` within [`MAX_TICK`]. Starts its thread if there is none.
///
/// Returns false if no thread can be started. The next call tries again.
#[cold]
pub(crate) fn wake(target: &Arc<WatchTarget>) -> bool {
    let mut watchdog = lock();
    watchdog.forget_parent();
    if target.is_closed() {
        return true;
    }
    if !watchdog.targets.iter().any(|other| Arc::ptr_eq(other, target)) {
        watchdog.targets.push(target.clone());
    }
    watchdog.notify()
}

/// Postpones the next visit of `target`, if it is delayed. All threads of its scheduler that poll tasks
/// were parked at a time since `parked_at` (POSTPONE-1).
///
/// Returns the time after which postponing pays off again, or `None` if not before the next visit.
pub(crate) fn postpone(target: &WatchTarget, parked_at: Instant) -> Option<Duration> {
    let mut watchdog = match WATCHDOG.try_lock() {
        Ok(watchdog) => watchdog,
        Err(TryLockError::Poisoned(error)) => error.into_inner(),
        // Not worth waiting for the lock.
        Err(TryLockError::WouldBlock) => return Some(ASK_AGAIN),
    };
    watchdog.forget_parent();
    let due_before = target.delayed_until();
    let ask_after = target.postpone(parked_at)?;
    // If another visit is due earlier, the timer is left alone.
    if watchdog.timer_due_at.is_some_and(|due_at| due_before <= Some(due_at)) {
        watchdog.set_timer();
    }
    Some(ask_after)
}

/// Returns whether a thread other than the calling one is the watchdog.
pub(crate) fn is_other_thread() -> bool {
    if ROLE.get() != WatchdogRole::None {
        return false;
    }
    let mut watchdog = lock();
    watchdog.forget_parent();
    !matches!(watchdog.thread, WatchdogThread::None)
}

fn is_on_duty() -> bool {
    matches!(ROLE.get(), WatchdogRole::OnDuty(_))
}

/// Passes the role of the watchdog to a new thread, if the calling thread has it.
///
/// Called before user code or a slow step. The calling thread then belongs to the runtime that it
/// visits. Deadlock scans of other runtimes count it as a thread that may run any code.
pub(crate) fn hand_off() {
    let WatchdogRole::OnDuty(runtime) = ROLE.get() else { return };
    let mut watchdog = lock();
    watchdog.forget_parent();
    if !watchdog.start_thread() {
        return;
    }
    // A deadlock scan counts a thread that is not registered yet as one that may run any code.
    while matches!(watchdog.thread, WatchdogThread::Starting) {
        watchdog = ignore_poison(STARTED.wait(watchdog));
    }
    drop(watchdog);
    ROLE.set(WatchdogRole::HandedOff);
    thread_registry::reassign(runtime);
}

impl Watchdog {
    /// In a forked child, discards the state of the parent.
    ///
    /// The child has no watchdog thread yet. Its watchdog must not visit the runtimes of the parent:
    /// it would take events from the epoll instances that both processes share.
    fn forget_parent(&mut self) {
        let process = std::process::id();
        if self.process != process {
            self.process = process;
            // Not dropped: other threads of the parent may have held locks at the fork.
            std::mem::forget(std::mem::take(&mut self.targets));
            std::mem::forget(std::mem::take(&mut self.round));
            std::mem::forget(std::mem::replace(&mut self.thread, WatchdogThread::None));
            // The parent shares the timer behind the descriptor.
            std::mem::forget(self.timer.take());
            (self.is_parked, self.has_news, self.timer_due_at) = (false, false, None);
        }
    }

    fn start_thread(&mut self) -> bool {
        let started = thread::Builder::new().name("wakeful-watchdog".to_owned()).spawn(run);
        if started.is_ok() {
            self.thread = WatchdogThread::Starting;
            // Allocated here, so that the memory of a program does not depend on when the thread first waits.
            self.timer.get_or_insert_default();
        }
        started.is_ok()
    }

    /// Makes the watchdog's thread read `targets`. Returns false if there is no thread and none can be
    /// started.
    fn notify(&mut self) -> bool {
        self.has_news = true;
        match &self.thread {
            WatchdogThread::Starting => {}
            WatchdogThread::Running(_) if self.is_parked => self.unpark(),
            WatchdogThread::Running(_) => {}
            WatchdogThread::None => return self.start_thread(),
        }
        true
    }

    /// Decides how the thread waits, and sets `is_parked` accordingly.
    ///
    /// `limit` is the time until the first visit that is not delayed. `in_poller` says that the thread
    /// waits in a poller.
    fn begin_wait(&mut self, limit: Option<Duration>, in_poller: bool) -> Wait {
        let limit = if self.has_news { earlier(limit, Some(MAX_TICK)) } else { limit };
        let is_long = limit.is_none_or(|limit| limit > MAX_TICK);
        let mut wait = Wait { limit, timer: None };
        if let Some(due_at) = self.next_delayed() {
            if is_long && !in_poller {
                wait.timer = self.timer.clone().filter(|timer| timer.open());
            }
            if wait.timer.is_some() {
                self.set_timer();
            } else {
                let delay = due_at.saturating_duration_since(real_time::now());
                wait.limit = earlier(limit, Some(delay));
            }
        }
        self.is_parked = wait.limit.is_none_or(|limit| limit > MAX_TICK);
        wait
    }

    /// Returns when the first delayed visit is due.
    fn next_delayed(&self) -> Option<Instant> {
        self.targets.iter().filter_map(|target| target.delayed_until()).min()
    }

    /// Sets the timer to the first delayed visit, for the thread that waits or begins to wait for it.
    fn set_timer(&mut self) {
        if let (Some(timer), Some(due_at)) = (&self.timer, self.next_delayed()) {
            timer.set(due_at.saturating_duration_since(real_time::now()));
            self.timer_due_at = Some(due_at);
        }
    }

    /// Begins a round of visits to all targets. Returns whether one was woken since the last round.
    fn begin_round(&mut self) -> bool {
        (self.is_parked, self.timer_due_at) = (false, None);
        self.round.clone_from(&self.targets);
        std::mem::take(&mut self.has_news)
    }

    /// Takes `target` off the list, and out of the round.
    fn remove(&mut self, target: &Arc<WatchTarget>) {
        for list in [&mut self.targets, &mut self.round] {
            list.retain(|other| !Arc::ptr_eq(other, target));
        }
    }

    fn unpark(&mut self) {
        (self.is_parked, self.timer_due_at) = (false, None);
        if let WatchdogThread::Running(parker) = &self.thread {
            parker.unpark();
        }
    }
}

fn next_target() -> Option<Arc<WatchTarget>> {
    lock().round.pop()
}

/// Starts another watchdog if this thread unwinds while it has the role.
///
/// A visit may drop the last reference to a runtime and with it the user's callbacks, whose drop may
/// panic.
struct ReplaceOnPanic;

impl Drop for ReplaceOnPanic {
    fn drop(&mut self) {
        if thread::panicking() && is_on_duty() {
            let mut watchdog = lock();
            watchdog.thread = WatchdogThread::None;
            watchdog.notify();
        }
    }
}

/// Runs the watchdog's thread from its start until it has handed its role off.
fn run() {
    let parker = Arc::new(Parker::for_current_thread());
    let _own = RuntimeThread::new(ALL_RUNTIMES);
    ROLE.set(WatchdogRole::OnDuty(0));
    lock().thread = WatchdogThread::Running(parker.clone());
    STARTED.notify_all();
    let _replace = ReplaceOnPanic;
    let (slack, mut pace) = (RelaxedSleep::new(), Pace::new());
    while is_on_duty() {
        let mut plan = Plan::default();
        if lock().begin_round() {
            pace.busy_at = real_time::now();
        }
        while is_on_duty()
            && let Some(target) = next_target()
        {
            let next = target.visit(real_time::now(), pace.serves_all);
            plan.add(target, next);
        }
        if is_on_duty() {
            let limit = pace.limit(&plan, real_time::now());
            let wait = lock().begin_wait(limit, plan.poller.is_some());
            let events = plan.events + plan.wait(wait, &parker, &slack);
            pace.add_wait(events);
        }
    }
    // The new watchdog could not visit the target while this thread visited it.
    let mut watchdog = lock();
    watchdog.forget_parent();
    watchdog.notify();
}

/// The next needs of the targets, after a round of visits.
#[derive(Default)]
struct Plan {
    /// The earliest due time of a target. `None` if no target has one.
    after: Option<Duration>,
    /// A target with a poller that needs a thread to wait in it.
    poller: Option<Arc<WatchTarget>>,
    /// The number of such pollers.
    pollers: usize,
    /// The number of events that the visits found in these pollers.
    events: usize,
}

impl Plan {
    fn add(&mut self, target: Arc<WatchTarget>, next: Next) {
        self.after = earlier(self.after, next.after);
        self.pollers += next.pollers;
        self.events += next.events;
        if next.pollers > 0 {
            self.poller = Some(target);
        }
    }

    /// Parks the watchdog, in a poller that needs a thread if there is one. Returns the number of events
    /// there.
    fn wait(self, wait: Wait, parker: &Parker, slack: &RelaxedSleep) -> usize {
        if let Some(target) = self.poller {
            return target.wait_in_poller(parker, wait.limit);
        }
        match wait.limit {
            None => wait.park(parker),
            Some(limit) => slack.sleep(MAX_SLACK.min(limit / 4), || wait.park(parker)),
        }
        0
    }
}

/// How the watchdog waits.
struct Wait {
    limit: Option<Duration>,
    /// The timer of the next visit, if it is a delayed one.
    timer: Option<Arc<TimerFd>>,
}

impl Wait {
    fn park(&self, parker: &Parker) {
        let Some(timer) = &self.timer else { return parker.park(self.limit) };
        drop(parker.set_interrupt(Some(timer.clone())));
        parker.park_in(|| timer.wait(self.limit));
        drop(parker.set_interrupt(None));
    }
}

/// How long the watchdog waits between two rounds of visits.
struct Pace {
    /// The last time at which a target was woken or needed a visit soon.
    busy_at: Instant,
    /// Whether several pollers need a thread. The watchdog then waits in one of them for `short_wait`,
    /// and polls all.
    serves_all: bool,
    short_wait: Duration,
}

impl Pace {
    fn new() -> Self {
        Self { busy_at: real_time::now(), serves_all: false, short_wait: SHORTEST_WAIT }
    }

    fn limit(&mut self, plan: &Plan, now: Instant) -> Option<Duration> {
        if plan.after.is_some_and(|after| after <= MAX_TICK) {
            self.busy_at = now;
        }
        self.serves_all = plan.pollers > 1;
        let lingers = now.saturating_duration_since(self.busy_at) < LINGER;
        let limit = earlier(plan.after, lingers.then_some(MAX_TICK));
        earlier(limit, self.serves_all.then_some(self.short_wait))
    }

    fn add_wait(&mut self, events: usize) {
        let was_in_vain = self.serves_all && events == 0;
        self.short_wait =
            if was_in_vain { MAX_TICK.min(self.short_wait * 2) } else { SHORTEST_WAIT };
    }
}
