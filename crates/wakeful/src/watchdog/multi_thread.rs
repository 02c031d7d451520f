//! The monitor: a thread that watches for workers stuck in one poll.
//!
//! It ticks while the runtime works and sleeps while every worker does. A worker
//! that is inside the same poll for long is stuck: what waits in its run-next slot
//! and its ring is moved to the injector, where any other worker finds it, its timers
//! go off and its descriptors are looked at on the monitor's thread; and if all
//! workers are stuck, a spare thread joins them (`spare`). It tells the rooms above of
//! polls that last, of tasks that spin, and when it is time to look who waits for whom.
//!
//! Protocol of its sleep: the monitor says that it sleeps, then looks whether all
//! workers sleep, and whether nothing has happened since it looked who waits for whom
//! ([`ProgressSnapshot`], `vigil`); a worker that wakes up has left the sleepers first, then looks whether
//! the monitor sleeps. All are SeqCst, so at least one of them sees the other. A future of
//! `block_on` that is being polled does not keep the monitor awake, but is looked after once in a
//! while: if it never rested, its end is not told.
//!
//! While it looks, the monitor is inside the scheduler (rule A2 in `attendance`). It is seated only
//! while it holds tasks that it moves: the thread that closes up finds them in the injector (A1),
//! and a hook for reports may wait for what ends only then (A4).

use crate::driver::poller::Poller;
use crate::scheduler::base::BlockOnPolls;
use crate::scheduler::config::{BlockedPoll, Config, PolledEntity, Role};
use crate::scheduler::multi_thread::lost_workers::earlier;
use crate::scheduler::multi_thread::{MultiThread, ThreadExitGuard, WorkerShared};
use crate::sys::park::Parker;
use crate::sys::thread_registry::RuntimeThread;
use crate::sys::timer_slack::RelaxedSleep;
use crate::sys::unwind::catch_and_forget;
use crate::task::arena;
use crate::task::runnable::TaskRef;
use crate::telemetry::poll_watch::PollWatch;
use crate::telemetry::scan_gate::{MOST_PATIENCE, PATIENCE, ScanGate};
use crate::telemetry::starvation::SystemProbe;
use crate::watchdog::spin_detector::{Look, SpinDetector};
use std::sync::atomic::{AtomicBool, Ordering::*, fence};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

/// How often it looks while a worker is found in a poll, or with tasks in its ring,
const TICK: Duration = Duration::from_millis(10);
/// and otherwise: what is stuck after such a look is found by the next, and rescued by the
/// one after that.
const LEISURELY_TICK: Duration = Duration::from_millis(25);
/// and while several workers are stuck, of which it can wait in one's place; twice as long after
/// each look that found nothing for them.
const BRIEF_TICK: Duration = Duration::from_millis(1);
/// A look may be later by so much, which is how often most kernels tick.
pub(crate) const LATE: Duration = Duration::from_millis(4);
/// How long nobody is awake before the monitor goes to sleep.
const QUIET: Duration = Duration::from_millis(100);
/// How often it is looked who waits for whom while the runtime is at work,
pub(crate) const LOOK_AROUND: Duration = Duration::from_secs(1);
/// and how much of the time that may take: one part of so many.
pub(crate) const LOOK_AROUND_SHARE: u32 = 100;

pub(crate) struct Monitor {
    /// Also over before the thread is started.
    pub(crate) vigil: ScanGate,
    stopped: AtomicBool,
    parker: OnceLock<Arc<Parker>>,
    started: AtomicBool,
}

impl Monitor {
    pub(crate) fn new() -> Self {
        Self {
            vigil: ScanGate::new(true),
            stopped: AtomicBool::new(false),
            parker: OnceLock::new(),
            started: AtomicBool::new(false),
        }
    }

    #[inline]
    pub(crate) fn is_asleep(&self) -> bool {
        self.vigil.is_over()
    }

    /// Wakes the monitor, or starts its thread and gives its handle back. One
    /// caller at a time.
    pub(crate) fn wake(
        &self,
        shared: impl FnOnce() -> Arc<MultiThread>,
    ) -> Option<thread::JoinHandle<()>> {
        if !self.vigil.rouse() {
            return None;
        }
        if self.started.swap(true, AcqRel) {
            if let Some(parker) = self.parker.get() {
                parker.unpark();
            }
            return None;
        }
        let shared = shared();
        let builder = thread::Builder::new().name("wakeful-monitor".to_owned());
        let spawned = builder.spawn(move || {
            let leaving = ThreadExitGuard(shared);
            let shared = &*leaving.0;
            let _own = RuntimeThread::new(shared.estate.config.address());
            // Not as a worker: it drives no tasks. But it may drop some.
            let witness = &shared.estate.config.witness;
            witness.in_context(Role::Blocking, &mut || shared.monitor().run(shared));
        });
        if spawned.is_err() {
            // Without a thread nobody is rescued; the next worker to wake up
            // tries again.
            self.started.store(false, Release);
            self.vigil.give_up();
        }
        spawned.ok()
    }

    /// Whether the monitor has a thread that runs, other than the calling one.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.parker.get().is_some_and(|parker| !parker.belongs_to_current_thread())
    }

    pub(crate) fn stop(&self) {
        self.stopped.store(true, SeqCst);
        if let Some(parker) = self.parker.get() {
            parker.unpark();
        }
    }

    fn run(&self, shared: &MultiThread) {
        let parker = self.parker.get_or_init(|| Arc::new(Parker::for_current_thread()));
        let clock = &shared.estate.config.seam.clock;
        let (mut spinners, mut probe) = (SpinDetector::new(), SystemProbe::new());
        let mut look_around_at = clock.elapsed() + LOOK_AROUND;
        let (mut quiet, mut tick) = (Duration::ZERO, TICK);
        let leisure = RelaxedSleep::new();
        let mut looked_at = clock.elapsed();
        let mut brief = BRIEF_TICK;
        let (mut look_again_at, mut patience) = (Duration::ZERO, PATIENCE);
        while !self.stopped.load(SeqCst) {
            let mut events = 0;
            match poll_for_stuck_worker(shared, tick, brief) {
                Some(came) => events += came,
                None => {
                    brief = BRIEF_TICK;
                    leisure.sleep(LATE, || parker.park(Some(tick)));
                }
            }
            if !shared.try_enter_inside() {
                return;
            }
            // A foreign waker that panics does not end the watch.
            let looks = || look(shared, &mut spinners, &mut probe, &mut looked_at);
            events += catch_and_forget(looks).unwrap_or(0);
            brief = if events > 0 { BRIEF_TICK } else { TICK.min(brief * 2) };
            // Before it is seen that all sleep: who wakes up after this has moved. And before the
            // timers of lost workers are read: a thread that registers one afterwards has moved.
            let moves = ProgressSnapshot::of(shared);
            let help = if shared.lost.is_any() { help(shared) } else { None };
            shared.leave_poll();
            quiet = if shared.idle.all_asleep() { quiet + tick } else { Duration::ZERO };
            tick = if is_anybody_busy(shared) { TICK } else { LEISURELY_TICK };
            tick = help.map_or(tick, |help| tick.min(help));
            let now = clock.elapsed();
            let falls_quiet = quiet >= QUIET && now >= look_again_at;
            let mut again = false;
            if falls_quiet || now >= look_around_at {
                again = look_around(shared);
                let took = clock.elapsed().saturating_sub(now);
                look_around_at = now + LOOK_AROUND.max(took * LOOK_AROUND_SHARE);
                look_again_at = now + took * LOOK_AROUND_SHARE;
            }
            if falls_quiet {
                let limit = (again || moves.roots.is_any_polled()).then_some(patience);
                let is_over = self.sleep(shared, parker, &moves, earlier(limit, help));
                // If it is for a lost worker's timer, that is due now.
                (quiet, tick) = (Duration::ZERO, help.map_or(TICK, |_| Duration::ZERO));
                patience = if is_over { PATIENCE } else { MOST_PATIENCE.min(patience * 2) };
            }
        }
    }

    /// Unless something has happened since these were the moves: that was not looked at. For no
    /// longer than `limit`: a future of `block_on` may be polled that another waits for, or
    /// a thread from outside may end, and nobody hears of it. False: that was how it ended.
    fn sleep(
        &self,
        shared: &MultiThread,
        parker: &Parker,
        moves: &ProgressSnapshot,
        limit: Option<Duration>,
    ) -> bool {
        let rests = self.vigil.rest(moves.ends);
        fence(SeqCst);
        if rests && (!shared.idle.all_asleep() || ProgressSnapshot::of(shared) != *moves) {
            self.vigil.rouse();
        }
        // After `rest`: a thread that loses a worker or registers a source later rouses this one.
        let mut pollers = lost_pollers(shared);
        let (poller, has_more) = (pollers.next(), pollers.next().is_some());
        let limit = if has_more { earlier(limit, Some(LEISURELY_TICK)) } else { limit };
        let mut is_over = true;
        while self.is_asleep() && !self.stopped.load(SeqCst) {
            let events = match poller {
                Some(poller) => wait_in(shared, poller, parker, limit),
                None => {
                    parker.park(limit);
                    0
                }
            };
            if limit.is_some() || poller.is_some() {
                // Whoever wakes us at this moment says the same.
                is_over = !self.vigil.rouse() || events > 0;
            }
        }
        is_over
    }
}

/// The pollers of lost workers that have sources.
fn lost_pollers(shared: &MultiThread) -> impl Iterator<Item = &Arc<Poller>> {
    let lost = shared.remotes.iter().filter(|remote| remote.is_lost.load(SeqCst));
    lost.filter_map(|remote| remote.poller.get()).filter(|poller| poller.needs_poll())
}

/// Parks the monitor in the poller of a lost worker. Returns how many events there were; 0 also if
/// another thread waits there.
fn wait_in(
    shared: &MultiThread,
    poller: &Arc<Poller>,
    parker: &Parker,
    limit: Option<Duration>,
) -> usize {
    let mut events = None;
    drop(parker.set_interrupt(Some(poller.clone())));
    if shared.try_enter_inside() {
        parker.park_in(|| events = poller.try_poll_unless(limit, || parker.has_token()));
        shared.leave_poll();
    }
    events.unwrap_or(0)
}

/// Turns the drivers of lost workers. Returns when the next of their timers is due, if no worker
/// gets up for it. (For their sources, the monitor waits in their pollers.)
fn help(shared: &MultiThread) -> Option<Duration> {
    // A foreign waker that panics does not end the watch.
    let help = catch_and_forget(|| shared.help_lost(false)).unwrap_or(Some(TICK));
    help.filter(|_| !shared.has_helper())
}

/// Whether a poll is going on that may turn out to be long, or tasks wait for one to end.
fn is_anybody_busy(shared: &MultiThread) -> bool {
    let is_busy =
        |remote: &WorkerShared| remote.watched.running().is_some() || !remote.ring.is_empty();
    let is_polling = |spare: &Arc<PollWatch>| spare.running().is_some();
    shared.remotes.iter().any(is_busy) || shared.spares.all().iter().any(is_polling)
}

/// What has happened so far.
#[derive(PartialEq)]
struct ProgressSnapshot {
    /// How often workers have fallen asleep or woken up, or were about to sleep.
    workers: u64,
    /// How often something has ended elsewhere.
    ends: u64,
    roots: BlockOnPolls,
}

impl ProgressSnapshot {
    fn of(shared: &MultiThread) -> Self {
        let workers = shared.remotes.iter().map(|remote| remote.meter.moves()).sum();
        Self { workers, ends: shared.monitor().vigil.ends(), roots: shared.estate.rests() }
    }
}

/// Lets the rooms above look who waits for whom. Answers whether to look again after a while, though nothing happens.
fn look_around(shared: &MultiThread) -> bool {
    let witness = &shared.estate.config.witness;
    let again = catch_and_forget(|| witness.look_around());
    shared.spread_fatal();
    again.unwrap_or(false)
}

/// Compares every worker with the last look, and does for those that have not moved
/// what they cannot. Answers how many events and timers there were for these.
fn look(
    shared: &MultiThread,
    spinners: &mut SpinDetector,
    probe: &mut SystemProbe,
    looked_at: &mut Duration,
) -> usize {
    let mut events = 0;
    let config = &shared.estate.config;
    let now = config.seam.clock.elapsed();
    let since = now.saturating_sub(std::mem::replace(looked_at, now));
    // One worker, and nobody stands in for it.
    let is_helped = config.rescue_after.is_some() && config.max_spare_threads > 0;
    let alone = shared.remotes.len() == 1 && !is_helped;
    for (index, remote) in shared.remotes.iter().enumerate() {
        let Some(stuck) = remote.watched.look(now) else { continue };
        let (watched, worker) = (&remote.watched, Some(index));
        let sight = PollObservation { config, watched, worker, alone, stuck, now };
        if let Some(lasts) = sight.observe(spinners, probe) {
            // SAFETY: a cell of this scheduler, which the monitor keeps alive.
            unsafe {
                arena::add_poll_time(lasts.cell(), lasts.header().id.get(), since.min(stuck))
            };
            remote.meter.poll_times.saw(stuck);
        }
        if is_stuck(config, stuck) {
            remote.watched.set_stuck(true);
            events += rescue(shared, index);
        }
    }
    for spare in shared.spares.all() {
        if let Some(stuck) = spare.look(now) {
            spare.set_stuck(is_stuck(config, stuck));
            let sight =
                PollObservation { config, watched: &spare, worker: None, alone: false, stuck, now };
            if let Some(lasts) = sight.observe(spinners, probe) {
                // SAFETY: as above.
                unsafe {
                    arena::add_poll_time(lasts.cell(), lasts.header().id.get(), since.min(stuck))
                };
            }
        }
    }
    // Workers put off waking others for what they take to be short work; it may
    // turn out to be long.
    if shared.idle.may_wake() && shared.is_work_anywhere() {
        shared.notify();
    }
    if shared.is_all_stuck() && !shared.injector.is_empty() {
        shared.spares.send_for_more(shared);
    }
    events
}

/// Whether a thread that was seen in one poll for so long is to be helped.
fn is_stuck(config: &Config, stuck: Duration) -> bool {
    !stuck.is_zero() && config.rescue_after.is_some_and(|after| stuck + TICK >= after)
}

/// If a worker is stuck or lost that watches descriptors, and nobody else is there for it, waits in
/// its place for a tick, or a brief one if there are several: what becomes ready there is passed on
/// at once, not at the next look. Answers how much that was; none: there is no such worker.
fn poll_for_stuck_worker(shared: &MultiThread, tick: Duration, brief: Duration) -> Option<usize> {
    let needs_poll = |remote: &&WorkerShared| remote.poller.get().is_some_and(|it| it.needs_poll());
    let is_stuck = |remote: &WorkerShared| remote.watched.is_stuck() || remote.is_lost.load(SeqCst);
    let mut stuck = shared.remotes.iter().filter(|remote| is_stuck(remote));
    let remote = stuck.find(needs_poll)?;
    // Of several, the others wait for the next look, which is soon.
    let tick = if stuck.any(|remote| needs_poll(&remote)) { brief } else { tick };
    let poller = remote.poller.get().filter(|_| shared.spares.len() == 0)?;
    let mut came = 0;
    let clock = &shared.estate.config.seam.clock;
    let until = clock.elapsed() + tick;
    // Where all are stuck, what comes is for a spare thread, which the next look sends for.
    let mut is_for_spares = false;
    while is_stuck(remote) && !is_for_spares && shared.try_enter_inside() {
        let left = until.saturating_sub(clock.elapsed());
        let timer = remote.timers.next().map(|tick| clock.until(tick));
        let limit = timer.map_or(left, |timer| timer.min(left));
        let turned = catch_and_forget(|| {
            let events = poller.try_poll(Some(limit));
            events.map(|events| events + remote.timers.fire_due(clock.tick()))
        });
        shared.leave_poll();
        is_for_spares = shared.is_all_stuck() && !shared.injector.is_empty();
        // Its owner is back, or about to be.
        let Some(Some(events)) = turned else { break };
        came += events;
        if left.is_zero() {
            break;
        }
    }
    Some(came)
}

/// A thread that polls, as it was seen at one look.
pub(crate) struct PollObservation<'a> {
    pub(crate) config: &'a Config,
    pub(crate) watched: &'a PollWatch,
    pub(crate) worker: Option<usize>,
    pub(crate) alone: bool,
    /// For how long it was seen in this poll.
    pub(crate) stuck: Duration,
    pub(crate) now: Duration,
}

impl PollObservation<'_> {
    /// Tells of a poll that lasts, and of a task that is always there. Gives back the
    /// task, if it is the poll of the look before.
    pub(crate) fn observe(
        &self,
        spinners: &mut SpinDetector,
        probe: &mut SystemProbe,
    ) -> Option<TaskRef> {
        let task = TaskRef::try_from_cell(self.watched.running()?)?;
        if self.stuck.is_zero() {
            let look = Look::at_task(&task, self.watched.thread());
            if let Some(spin) = spinners.saw(&look, self.now) {
                let subject = PolledEntity::Task(task);
                self.config.witness.spinning(&subject, spin.polls, spin.within);
            }
            return None;
        }
        // Still the same poll, so it is that of this task.
        if self.is_to_report(probe) {
            self.report(PolledEntity::Task(task.clone()));
        }
        Some(task)
    }

    /// Whether the poll has lasted for too long.
    pub(crate) fn is_to_report(&self, probe: &mut SystemProbe) -> bool {
        let after = self.config.report_blocked_after;
        after.is_some_and(|after| self.watched.is_to_report(self.stuck, after, probe))
    }

    pub(crate) fn report(&self, subject: PolledEntity) {
        self.config.witness.blocked(&BlockedPoll {
            subject,
            worker: self.worker,
            alone: self.alone,
            duration: self.stuck,
            thread: self.watched.thread(),
        });
    }
}

/// Does what a worker that is stuck cannot do; answers how many events and timers there were.
fn rescue(shared: &MultiThread, worker: usize) -> usize {
    let events = shared.turn_driver(worker);
    let remote = &shared.remotes[worker];
    shared.while_seated(|| {
        let mut moved = Vec::new();
        moved.extend(remote.next.take());
        remote.ring.drain(|task| moved.push(task));
        if !moved.is_empty() {
            shared.injector.push_batch(moved);
            shared.notify();
        }
    });
    events
}
