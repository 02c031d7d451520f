//! The warden: one thread of the process that watches the current-thread schedulers, as the
//! monitor does the workers of a runtime. There is nobody to take over the work of a thread
//! that is stuck there, so it only tells: of polls that last (whose time it charges to their
//! tasks), of tasks that spin, and who waits for whom. The future of `block_on` is watched like a task, as long as there are
//! tasks that it could keep waiting.
//!
//! It is started when a current-thread runtime first has something to do, ticks while one of
//! them works, and sleeps while none does.
//!
//! Protocol of its sleep: the warden sets ASLEEP, then looks whether some scheduler is awake;
//! a scheduler that begins to work says so first (`held`, `sleeping`), then looks at ASLEEP.
//! Between the two steps each has a barrier, the warden the heavy one of the pair, so at
//! least one of them sees the other. A scheduler is listed when it first has a task or has to
//! wait, and looks at ASLEEP after that: the lock of the list orders the two. Who wants the warden
//! to look who waits for whom says so (`is_to_look`), then looks at ASLEEP; all SeqCst.
//!
//! - W3. The warden refers to a scheduler only under the lock of its ward, and a runtime
//!   that ends waits for that lock, unless it was told not to wait. By then the tasks are
//!   gone: they are dropped by the runtime's owner.

use crate::scheduler::block_on::BlockOnState;
use crate::scheduler::config::{PolledEntity, Role};
use crate::scheduler::current_thread::CurrentThread;
use crate::sys::membarrier::Barriers;
use crate::sys::sync::ignore_poison;
use crate::sys::thread_registry::{ALL_RUNTIMES, RuntimeThread};
use crate::sys::timer_slack::RelaxedSleep;
use crate::sys::unwind::catch_and_forget;
use crate::task::arena;
use crate::telemetry::poll_watch::PollWatch;
use crate::telemetry::starvation::SystemProbe;
use crate::watchdog::multi_thread::{LATE, LOOK_AROUND, LOOK_AROUND_SHARE, PollObservation};
use crate::watchdog::spin_detector::{Look, SpinDetector};
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::thread::{self, Thread};
use std::time::Duration;

/// How often it looks. Nobody waits for its help, so it is seldom: who serves one request
/// after the other on one core is interrupted by every look.
const TICK: Duration = Duration::from_millis(25);
/// Polls that are to be reported early are looked for so often until then,
const LOOKS: u32 = 4;
/// but not more often than this.
const SHORTEST_TICK: Duration = Duration::from_millis(5);
/// How long nobody is awake before it goes to sleep.
const QUIET: Duration = Duration::from_millis(100);

/// Also true before the thread is started.
static ASLEEP: AtomicBool = AtomicBool::new(true);
static WARDS: Mutex<Vec<Arc<WatchTarget>>> = Mutex::new(Vec::new());
/// The warden's own.
static THREAD: OnceLock<Thread> = OnceLock::new();
static STARTED: AtomicBool = AtomicBool::new(false);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    ignore_poison(mutex.lock())
}

/// A scheduler in the warden's list.
pub(crate) struct WatchTarget {
    /// Nobody, once it has closed (W3).
    scheduler: Mutex<Weak<CurrentThread>>,
    /// How often it wants to be looked at.
    tick: Duration,
    /// Nobody runs its tasks, and a future of `block_on` rests: it is to be looked who waits for
    /// whom.
    is_to_look: AtomicBool,
    notes: Mutex<Notes>,
}

/// What the warden remembers of a scheduler.
struct Notes {
    spinners: SpinDetector,
    probe: SystemProbe,
    /// The last look.
    looked_at: Duration,
    look_around_at: Duration,
    /// Not before, even if somebody asks for it.
    look_again_at: Duration,
    /// The future of `block_on` on the thread that runs the tasks, once it was looked at.
    root: Option<Box<PollWatch>>,
    /// The task of a local set that this thread polled in it at the last look, and which
    /// poll that was.
    local: Option<(u64, u32)>,
}

impl WatchTarget {
    /// Lists it. A poll of it is to be reported after so long.
    pub(crate) fn new(scheduler: Weak<CurrentThread>, report_after: Option<Duration>) -> Arc<Self> {
        let scheduler = Mutex::new(scheduler);
        let notes = Mutex::new(Notes {
            spinners: SpinDetector::new(),
            probe: SystemProbe::new(),
            looked_at: Duration::ZERO,
            look_around_at: Duration::ZERO,
            look_again_at: Duration::ZERO,
            root: None,
            local: None,
        });
        let is_to_look = AtomicBool::new(false);
        let this = Arc::new(Self { scheduler, tick: tick(report_after), is_to_look, notes });
        lock(&WARDS).push(this.clone());
        this
    }

    /// The scheduler closes: the warden does not look at it again.
    pub(crate) fn unlist(self: &Arc<Self>) {
        lock(&WARDS).retain(|other| !Arc::ptr_eq(other, self));
    }

    /// It has closed, and its tasks are gone, so that a hook for reports that waits for
    /// one of them is done waiting: when this returns, the warden has nothing of it.
    pub(crate) fn release(&self) {
        let own = THREAD.get().is_some_and(|warden| warden.id() == thread::current().id());
        // A hook that ends its runtime is called under the lock.
        if !own {
            *lock(&self.scheduler) = Weak::new();
        }
    }

    /// The warden is to look who waits for whom.
    pub(crate) fn is_to_look(&self) {
        // The warden says that it sleeps, and looks at this then: one of us sees the other.
        self.is_to_look.store(true, SeqCst);
        if is_asleep() {
            wake();
        }
    }

    fn look(&self) -> bool {
        let scheduler = lock(&self.scheduler);
        let Some(scheduler) = scheduler.upgrade() else { return false };
        if scheduler.estate.is_closing() {
            self.is_to_look.store(false, SeqCst);
            return false;
        }
        let config = &scheduler.estate.config;
        // A clock that stands tells nothing of how long a poll lasts.
        if config.seam.clock.is_paused() {
            if self.is_to_look.swap(false, SeqCst) {
                let look_around = &mut || _ = config.witness.look_around();
                let look = || config.witness.in_context(Role::Blocking, look_around);
                catch_and_forget(look);
            }
            return scheduler.is_awake();
        }
        // One that sleeps at this very moment may have been at work since the last look, and
        // may do so at every look.
        let is_at_work =
            scheduler.is_awake() || scheduler.watched().has_moved() || self.is_to_look.load(SeqCst);
        if is_at_work {
            let look =
                || config.witness.in_context(Role::Blocking, &mut || self.observe(&scheduler));
            // A hook that panics does not end the watch.
            catch_and_forget(look);
        }
        is_at_work
    }

    /// Tells of a future of `block_on` that keeps others waiting, by a poll that lasts or by
    /// waking itself all the time; of a task of a local set in it, if it is that one's poll.
    fn observe_root(&self, scheduler: &CurrentThread, notes: &mut Notes, now: Duration) {
        let config = &scheduler.estate.config;
        let watched = notes.root.get_or_insert_with(|| Box::new(PollWatch::new()));
        let thread = scheduler.watched().thread();
        // Of several threads in `block_on`, one runs the tasks.
        let roots = scheduler.estate.roots();
        let Some(root) = roots.into_iter().find(|root| root.thread == thread) else { return };
        let local = scheduler.estate.running_local(thread);
        let poll = local.as_ref().map(|task| (task.header().id.get(), task.header().polls()));
        let is_same_poll = std::mem::replace(&mut notes.local, poll) == poll;
        mirror(&root, watched);
        let stuck = watched.look(now);
        if let Some(spin) = notes.spinners.saw(&Look::at_root(&root), now) {
            if scheduler.has_tasks() {
                config.witness.spinning(&PolledEntity::BlockOnState(root), spin.polls, spin.within);
            }
            return;
        }
        let Some(stuck) = stuck else { return };
        let sight = PollObservation { config, watched, worker: Some(0), alone: true, stuck, now };
        if !watched.is_reported() && scheduler.has_tasks() && sight.is_to_report(&mut notes.probe) {
            mirror(&root, watched);
            if watched.is_where_it_was() {
                let task = local.filter(|_| is_same_poll);
                sight.report(task.map_or(PolledEntity::BlockOnState(root), PolledEntity::Task));
            }
        }
    }

    fn observe(&self, scheduler: &CurrentThread) {
        let (config, watched) = (&scheduler.estate.config, scheduler.watched());
        let (now, mut notes) = (config.seam.clock.elapsed(), lock(&self.notes));
        let notes = &mut *notes;
        let since = now.saturating_sub(std::mem::replace(&mut notes.looked_at, now));
        if let Some(stuck) = watched.look(now) {
            let sight =
                PollObservation { config, watched, worker: Some(0), alone: true, stuck, now };
            if let Some(lasts) = sight.observe(&mut notes.spinners, &mut notes.probe) {
                // SAFETY: a cell of this scheduler, which the ward keeps alive.
                unsafe {
                    arena::add_poll_time(lasts.cell(), lasts.header().id.get(), since.min(stuck))
                };
                scheduler.meter.poll_times.saw(stuck);
            }
        }
        self.observe_root(scheduler, notes, now);
        if notes.look_around_at.is_zero() {
            notes.look_around_at = now + LOOK_AROUND;
        }
        let is_to_look = now >= notes.look_again_at && self.is_to_look.swap(false, SeqCst);
        if is_to_look || now >= notes.look_around_at {
            // If it is to be looked again without a cause, whoever has the core sees to that.
            config.witness.look_around();
            let took = config.seam.clock.elapsed().saturating_sub(now);
            notes.look_around_at = now + LOOK_AROUND.max(took * LOOK_AROUND_SHARE);
            notes.look_again_at = now + took * LOOK_AROUND_SHARE;
        }
    }
}

/// How often a scheduler is to be looked at whose polls are reported after so long.
fn tick(report_after: Option<Duration>) -> Duration {
    report_after.map_or(TICK, |after| (after / LOOKS).clamp(SHORTEST_TICK, TICK))
}

/// Mirrors what the root says of itself; its poll may have ended since the look before.
fn mirror(root: &BlockOnState, watched: &PollWatch) {
    let poll = root.note.poll_number();
    watched.mirror(root.thread, poll, poll.is_multiple_of(2));
}

#[inline]
pub(crate) fn is_asleep() -> bool {
    ASLEEP.load(SeqCst)
}

/// A scheduler is at work: somebody is to watch it.
#[cold]
pub(crate) fn wake() {
    if !ASLEEP.swap(false, SeqCst) {
        return;
    }
    if STARTED.swap(true, SeqCst) {
        if let Some(warden) = THREAD.get() {
            warden.unpark();
        }
        return;
    }
    let started = thread::Builder::new().name("wakeful-warden".to_owned()).spawn(watch);
    if started.is_err() {
        // Without a thread nobody watches; whoever works next tries again.
        STARTED.store(false, SeqCst);
        ASLEEP.store(true, SeqCst);
    }
}

fn watch() {
    THREAD.get_or_init(thread::current);
    let _own = RuntimeThread::new(ALL_RUNTIMES);
    let (mut quiet, mut tick) = (Duration::ZERO, SHORTEST_TICK);
    let leisure = RelaxedSleep::new();
    loop {
        leisure.sleep(LATE.min(tick / LOOKS), || thread::park_timeout(tick));
        let wards = lock(&WARDS).clone();
        // As often as one of those wants who are awake.
        let wanted = wards.iter().filter(|ward| ward.look()).map(|ward| ward.tick).min();
        drop(wards);
        quiet = if wanted.is_none() { quiet + tick } else { Duration::ZERO };
        tick = wanted.unwrap_or(TICK);
        if quiet >= QUIET {
            sleep();
            // Who woke it up may be one of those who want to be looked at often.
            (quiet, tick) = (Duration::ZERO, SHORTEST_TICK);
        }
    }
}

fn sleep() {
    ASLEEP.store(true, SeqCst);
    if !Barriers::detect().try_heavy() || is_anybody_awake() {
        ASLEEP.store(false, SeqCst);
    }
    while ASLEEP.load(SeqCst) {
        thread::park();
    }
}

fn is_anybody_awake() -> bool {
    let wards = lock(&WARDS).clone();
    let is_awake = |ward: &Arc<WatchTarget>| {
        let is_to_look = ward.is_to_look.load(SeqCst);
        lock(&ward.scheduler).upgrade().is_some_and(|it| is_to_look || it.is_awake())
    };
    wards.iter().any(is_awake)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::tick;
    use std::time::Duration;

    #[test]
    fn who_wants_early_reports_is_looked_at_more_often() {
        let ticks = [1, 40, 100, 1000].map(|ms| tick(Some(Duration::from_millis(ms))).as_millis());
        assert_eq!((ticks, tick(None).as_millis()), ([5, 10, 25, 25], 25));
    }
}
