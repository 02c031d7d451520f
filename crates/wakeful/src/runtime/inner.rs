//! What a runtime and its handles share.

use crate::driver::clock::Clock;
use crate::driver::poller::Poller;
use crate::driver::timers::Timers;
use crate::inspect::{
    self, Blocked, Orphan, Report, ReportHook, Reporter, ScanResult, Spinning, TaskInfo,
    UnobservedPanic,
};
use crate::runtime::Id;
use crate::runtime::file_backend::Files;
use crate::runtime::{context, registry};
use crate::scheduler::base::SchedulerBase;
use crate::scheduler::blocking_pool::BlockingPool;
use crate::scheduler::config::{BlockedPoll, Config, PolledEntity, Role, RuntimeHooks};
use crate::scheduler::current_thread::CurrentThread;
use crate::scheduler::multi_thread::MultiThread;
use crate::task::enter_guard;
use crate::task::header::Header;
use crate::task::runnable::TaskRef;
use crate::watchdog::snapshot::Inspectable;
use std::any::Any;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, TryLockError, Weak};
use std::thread::ThreadId;
use std::time::Duration;

/// Everything behind a `Handle`.
pub(crate) struct Shared {
    pub(crate) id: Id,
    /// The builder enabled timers. Beside the id, since a time limit needs just these.
    pub(crate) has_time: bool,
    pub(crate) name: Option<String>,
    pub(crate) flavor: Flavor,
    pub(crate) pool: Arc<BlockingPool>,
    /// The thread of a `LocalRuntime`, where tasks need not be `Send`.
    pub(crate) local_to: Option<ThreadId>,
    pub(crate) reporter: Arc<Reporter>,
    /// Tasks that panicked.
    pub(crate) panics: Arc<AtomicU64>,
    pub(crate) files: Files,
}

/// The scheduler, by its kind.
pub(crate) enum Flavor {
    Current(Arc<CurrentThread>),
    Multi(Arc<MultiThread>),
}

impl Shared {
    /// What every scheduler has, whatever its kind.
    pub(crate) fn estate(&self) -> &SchedulerBase {
        match &self.flavor {
            Flavor::Current(scheduler) => &scheduler.estate,
            Flavor::Multi(scheduler) => &scheduler.estate,
        }
    }

    /// How many tasks panicked.
    pub(crate) fn panics(&self) -> u64 {
        self.panics.load(Relaxed)
    }

    /// The scheduler, for those who look.
    pub(crate) fn looks(&self) -> &dyn Inspectable {
        match &self.flavor {
            Flavor::Current(scheduler) => &**scheduler,
            Flavor::Multi(scheduler) => &**scheduler,
        }
    }

    pub(crate) fn config(&self) -> &Config {
        &self.estate().config
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.config().seam.clock
    }

    /// Whether the builder enabled I/O.
    pub(crate) fn has_io(&self) -> bool {
        self.config().has_io
    }

    /// Whether the scheduler is shutting down, or has.
    pub(crate) fn is_closing(&self) -> bool {
        match &self.flavor {
            Flavor::Current(scheduler) => scheduler.estate.is_closing(),
            Flavor::Multi(scheduler) => scheduler.estate.is_closing(),
        }
    }

    /// The poller that watches what is made on this thread, and whose it is.
    pub(crate) fn poller(&self) -> io::Result<(&Arc<Poller>, usize)> {
        let (slot, owner) = match &self.flavor {
            Flavor::Current(scheduler) => (&scheduler.poller, 0),
            Flavor::Multi(scheduler) => {
                let owner = scheduler.poller_owner();
                (&scheduler.remotes[owner].poller, owner)
            }
        };
        if let Some(poller) = slot.get() {
            return Ok((poller, owner));
        }
        // If two make one at the same time, the first stays.
        let made = Arc::new(Poller::new(self.config().io_batch)?);
        Ok((slot.get_or_init(|| made), owner))
    }

    /// All pollers that were made.
    pub(super) fn pollers(&self) -> Vec<&Arc<Poller>> {
        match &self.flavor {
            Flavor::Current(scheduler) => scheduler.poller.get().into_iter().collect(),
            Flavor::Multi(scheduler) => {
                scheduler.remotes.iter().filter_map(|remote| remote.poller.get()).collect()
            }
        }
    }

    /// Something was registered with the poller of worker number `owner`, which
    /// may be parked elsewhere.
    pub(crate) fn wake_poller(&self, owner: usize) {
        match &self.flavor {
            Flavor::Current(scheduler) => scheduler.wake_holder(),
            Flavor::Multi(scheduler) => scheduler.wake_for_timers(owner),
        }
    }

    /// The timers for a future that is polled on this thread.
    pub(crate) fn timers(&self) -> &Timers {
        match &self.flavor {
            Flavor::Current(scheduler) => &scheduler.timers,
            Flavor::Multi(scheduler) => scheduler.timers(),
        }
    }

    /// The timers of worker number `owner`.
    pub(crate) fn timers_of(&self, owner: usize) -> &Timers {
        match &self.flavor {
            Flavor::Current(scheduler) => &scheduler.timers,
            Flavor::Multi(scheduler) => &scheduler.remotes[owner].timers,
        }
    }

    /// Something was registered with `timers` that comes before all else there.
    pub(crate) fn wake_timers(&self, timers: &Timers) {
        match &self.flavor {
            Flavor::Current(scheduler) => scheduler.wake_holder(),
            Flavor::Multi(scheduler) => scheduler.wake_for_timers(timers.owner),
        }
    }

    /// Fires what is due, on a current-thread runtime whose clock was moved.
    pub(crate) fn turn_timers(&self) {
        if let Flavor::Current(scheduler) = &self.flavor {
            scheduler.timers.advance_to(self.clock().tick());
        }
    }

    pub(crate) fn for_each_task(&self, f: impl FnMut(TaskRef)) {
        match &self.flavor {
            Flavor::Current(scheduler) => scheduler.for_each_task(f),
            Flavor::Multi(scheduler) => scheduler.for_each_task(f),
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        registry::remove(self.id);
    }
}

/// Puts into words what the schedulers notice, and gives their threads the
/// runtime's context.
pub(crate) struct ReportingHooks {
    /// Set when the runtime is complete; weak, since the schedulers hold us.
    pub(crate) shared: OnceLock<Weak<Shared>>,
    pub(crate) reporter: Arc<Reporter>,
    /// Tasks that panicked.
    pub(crate) panics: Arc<AtomicU64>,
    /// Held by the one who looks who waits for whom.
    looking: Mutex<()>,
}

impl ReportingHooks {
    pub(crate) fn new(hook: Option<ReportHook>) -> Arc<Self> {
        Arc::new(Self {
            shared: OnceLock::new(),
            reporter: Arc::new(Reporter::new(hook)),
            panics: Arc::default(),
            looking: Mutex::default(),
        })
    }

    fn report(&self, report: &Report) -> bool {
        let shared = self.shared.get().and_then(Weak::upgrade);
        let now = shared.map_or(Duration::ZERO, |shared| shared.clock().elapsed());
        self.reporter.report(report, now)
    }

    fn who(&self, subject: &PolledEntity) -> Option<TaskInfo> {
        match subject {
            PolledEntity::Task(task) => Some(TaskInfo::of_task(task.header())),
            PolledEntity::BlockOnState(root) => {
                let shared = self.shared.get().and_then(Weak::upgrade)?;
                TaskInfo::of_block_on(root, shared.estate().config.root_name.as_deref())
            }
        }
    }
}

impl RuntimeHooks for ReportingHooks {
    fn orphan(&self, task: &TaskRef) -> String {
        let report = Report::Orphan(Orphan::new(task));
        let text = report.to_string();
        self.report(&report);
        text
    }

    fn panicked(&self, _task: &Header, _payload: &(dyn Any + Send)) {
        self.panics.fetch_add(1, Relaxed);
    }

    fn unobserved_panic(&self, task: &Header, payload: &(dyn Any + Send)) {
        self.report(&Report::UnobservedPanic(UnobservedPanic::new(task, payload)));
    }

    fn blocked(&self, stall: &BlockedPoll) {
        let mut stack = inspect::stack_of(stall.thread);
        // Where the compiler has made one function of a task and its poll, the stack does
        // not show the task.
        if let PolledEntity::Task(task) = &stall.subject
            && let future = (task.header().vtable.get().future)()
            && !stack.is_empty()
            && !stack.iter().any(|name| name == future)
        {
            stack.push(future.to_owned());
        }
        let Some(who) = self.who(&stall.subject) else { return };
        self.report(&Report::Blocked(Blocked::new(who, stall, stack)));
    }

    fn spinning(&self, subject: &PolledEntity, polls: u32, within: Duration) {
        let Some(who) = self.who(subject) else { return };
        self.report(&Report::Spinning(Spinning::new(who, polls, within)));
    }

    fn look_around(&self) -> bool {
        let Some(shared) = self.shared.get().and_then(Weak::upgrade) else { return false };
        // A hook may be about to help those whom another look has found.
        let _one = match self.looking.try_lock() {
            Ok(one) => one,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return true,
        };
        let scan = || inspect::scan(shared.looks(), shared.name.as_deref());
        let is_end = |report: &Report| matches!(report, Report::StuckBlockOn(_));
        let ends_of = |found: ScanResult| found.reports.into_iter().filter(is_end).collect();
        let found = scan();
        let needs_other_threads = found.needs_other_threads;
        let others = found.reports.iter().filter(|report| !is_end(report));
        let mut told = others.filter(|report| self.report(report)).count();
        let mut ends: Vec<Report> = ends_of(found);
        if told > 0 && !ends.is_empty() {
            // Whoever was told may have helped: by an abort, say.
            ends = ends_of(scan());
        }
        told = ends.iter().filter(|report| self.report(report)).count();
        if told > 1 {
            // Or one that was told of the first has helped the second.
            ends = ends_of(scan());
        }
        for report in ends {
            let Report::StuckBlockOn(stuck) = &report else { continue };
            let roots = shared.estate().roots();
            let root = roots.iter().find(|root| root.note.id == stuck.block_on().number);
            if let Some(root) = root {
                root.end(stuck.rest, report.to_string());
            }
        }
        needs_other_threads
    }

    fn ended_elsewhere(&self) {
        let Some(shared) = self.shared.get().and_then(Weak::upgrade) else { return };
        match &shared.flavor {
            Flavor::Current(scheduler) => scheduler.ended_elsewhere(),
            Flavor::Multi(scheduler) => scheduler.ended_elsewhere(),
        }
    }

    fn drivers_shut(&self) {
        if let Some(shared) = self.shared.get().and_then(Weak::upgrade) {
            // A thread that blocks in place may wait for one of them, so not on this thread.
            shared.land_files(true);
        }
    }

    fn time_may_pass(&self) {
        if let Some(shared) = self.shared.get().and_then(Weak::upgrade)
            && let Flavor::Current(scheduler) = &shared.flavor
        {
            scheduler.wake_holder();
        }
    }

    fn in_context(&self, role: Role, life: &mut dyn FnMut()) {
        let _driving = (role == Role::Worker).then(|| enter_guard::start_driving(true));
        // The first worker may be faster than the builder.
        let shared = loop {
            match self.shared.get() {
                Some(shared) => break shared.upgrade(),
                None => std::thread::yield_now(),
            }
        };
        match shared {
            Some(shared) => {
                let _guard = context::enter(&shared);
                life();
            }
            // The runtime is going down already; the thread still has to
            // leave in order.
            None => life(),
        }
    }
}
