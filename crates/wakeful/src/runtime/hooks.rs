//! The schedulers' upcalls: reports, metrics and the runtime's context.

use crate::inspect::{
    self, Audience, Blocked, Delivery, Findings, Observed, Orphan, Report, ReportHook, Reporter,
    ScanMode, Spinning, TaskInfo, UnobservedPanic,
};
use crate::runtime::context;
use crate::runtime::futile_loops::{self, FutileLoops};
use crate::runtime::inner::{Flavor, RuntimeInner};
use crate::runtime::panic_policy::{AfterUnobserved, PanicPolicy};
use crate::scheduler::config::{OrphanPolicy, Role};
use crate::scheduler::hooks::{BlockedPoll, PolledEntity, RuntimeHooks};
use crate::sim::world::FailureKind;
use crate::sys::sync::ignore_poison;
use crate::sys::unwind::catch_and_forget;
use crate::task::block_on::BlockOnRecord;
use crate::task::enter_guard;
use crate::task::header::Header;
use crate::task::runnable::TaskRef;
use crate::wait;
use crate::watchdog::{self, Subject, WatchTarget, Watched};
use std::any::Any;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst, fence};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::{Duration, Instant};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Turns the upcalls of a scheduler into reports, and enters the runtime on its threads.
pub(crate) struct ReportingHooks {
    /// Set by [`set_runtime`](Self::set_runtime) once the runtime is complete. Weak, because the
    /// schedulers hold these hooks.
    shared: OnceLock<Weak<RuntimeInner>>,
    pub(crate) reporter: Reporter,
    panic_policy: PanicPolicy,
    /// The number of tasks that have panicked.
    pub(super) panics: AtomicU64,
    /// Futile loops that polling threads have found and the watchdog has not reported yet.
    pub(super) futile_loops: FutileLoops,
    /// Created with the first observation.
    findings: Mutex<Option<Box<Findings>>>,
    /// Created when the watchdog is first woken.
    watch_target: OnceLock<Arc<WatchTarget>>,
    /// Set when the runtime has shut down; the watchdog is not woken after that.
    watch_closed: AtomicBool,
    me: Weak<Self>,
}

impl ReportingHooks {
    pub(super) fn new(
        hook: Option<ReportHook>,
        delivery: Delivery,
        panic_policy: PanicPolicy,
    ) -> Arc<Self> {
        Arc::new_cyclic(|me: &Weak<Self>| Self {
            shared: OnceLock::new(),
            reporter: Reporter::new(hook, delivery),
            panic_policy,
            panics: AtomicU64::new(0),
            futile_loops: FutileLoops::default(),
            findings: Mutex::default(),
            watch_target: OnceLock::new(),
            watch_closed: AtomicBool::new(false),
            me: me.clone(),
        })
    }

    /// Connects the hooks with their runtime. The builder calls this once, before any thread starts.
    pub(super) fn set_runtime(&self, shared: &Arc<RuntimeInner>) {
        wait::block_on::set_on_block(thread_blocks);
        let is_first = self.shared.set(Arc::downgrade(shared)).is_ok();
        debug_assert!(is_first, "each runtime has hooks of its own");
        futile_loops::install();
        // A simulated world runs its hosts in virtual time, and detects problems itself.
        let is_simulated = shared.config().env.simulated.is_some();
        self.watch_closed.store(is_simulated, Relaxed);
    }

    /// Returns the runtime, unless it is dropped. No thread calls a hook before `set_runtime`.
    fn runtime(&self) -> Option<Arc<RuntimeInner>> {
        self.shared.get()?.upgrade()
    }

    pub(super) fn report(&self, report: &Arc<Report>) -> bool {
        let runtime = self.runtime();
        report.set_runtime(runtime.as_ref().and_then(|shared| shared.name()));
        let now = runtime.map_or(Duration::ZERO, |shared| shared.clock().elapsed());
        // A hook may block, so the watchdog first hands its role to another thread.
        self.reporter.report(report, now, watchdog::hand_off)
    }

    /// Reports a panic that no code observes, and applies the panic policy.
    ///
    /// Returns the message with which every `block_on` must fail, if the policy shuts the runtime
    /// down.
    fn report_panic(&self, report: &Arc<Report>) -> Option<String> {
        match self.panic_policy.after_unobserved() {
            AfterUnobserved::Report => _ = self.report(report),
            AfterUnobserved::ShutDown => {
                self.report(report);
                return Some(report.to_string());
            }
            AfterUnobserved::Abort => {
                watchdog::hand_off();
                report.set_runtime(self.runtime().as_ref().and_then(|it| it.name()));
                self.reporter.report_last(report);
                std::process::abort()
            }
            AfterUnobserved::Call(hook) => {
                self.report(report);
                watchdog::hand_off();
                // The caller may be a worker in the middle of its loop.
                catch_and_forget(|| hook.call(report));
            }
        }
        None
    }

    /// Returns `message`, with which every `block_on` must fail.
    ///
    /// In a simulation, also fails the run, because `block_on` belongs to another runtime than most
    /// tasks.
    fn shut_down_for(&self, message: Option<String>) -> Option<String> {
        if let Some(text) = &message
            && let Some(shared) = self.runtime()
            && let Some(host) = &shared.config().env.simulated
        {
            host.world.fail(FailureKind::Panic, host.id, text.clone());
        }
        message
    }

    /// Looks for problems that have lasted too long.
    pub(super) fn observe(&self, shared: &RuntimeInner, audience: Audience) -> Observed {
        inspect::defer_drops(|| {
            let mut findings = ignore_poison(self.findings.lock());
            findings.get_or_insert_default().observe(shared.inspectable(), audience)
        })
    }

    /// Stops watching the runtime, after the scheduler has closed.
    ///
    /// Waits for the watchdog, at most until `deadline` if there is one.
    pub(super) fn close_watch(&self, deadline: Option<Instant>) {
        self.watch_closed.store(true, Relaxed);
        // Pairs with the fence in `wake_watchdog`: that function sees the flag, or this one sees
        // its target.
        fence(SeqCst);
        if let Some(target) = self.watch_target.get() {
            target.close(deadline);
        }
    }

    fn task_info(&self, subject: &PolledEntity) -> Option<TaskInfo> {
        match subject {
            PolledEntity::Task(task) => Some(TaskInfo::of_task(task.header())),
            PolledEntity::BlockOnState(block_on) => {
                let shared = self.runtime()?;
                TaskInfo::of_block_on(block_on, shared.base().config.block_on_name.as_deref())
            }
        }
    }
}

/// Records that a thread, such as one of the pool, waits in a `blocking_…` method.
fn thread_blocks(record: &BlockOnRecord) {
    context::with_current(|shared| {
        record.waiting.set_since_ms(shared.base().now_ms());
        shared.base().notify_progress();
    });
}

impl RuntimeHooks for ReportingHooks {
    fn orphan(&self, task: &TaskRef) -> String {
        let report = Arc::new(Report::Orphan(Orphan::new(task)));
        self.report(&report);
        let text = report.to_string();
        if let Some(shared) = self.runtime()
            && let Some(host) = &shared.config().env.simulated
            && shared.config().on_orphan == OrphanPolicy::Panic
        {
            host.world.fail(FailureKind::Orphan, host.id, text.clone());
        }
        text
    }

    fn panicked(&self, task: &Header, payload: &(dyn Any + Send)) -> Option<String> {
        self.panics.fetch_add(1, Relaxed);
        if let Some(shared) = self.runtime()
            && let Some(host) = &shared.config().env.simulated
            && host.world.is_supervised
            && !host.world.allows_observed_panics
        {
            let text = inspect::panic_text(task, payload);
            host.world.fail(FailureKind::Panic, host.id, text);
        }
        self.shut_down_for(self.panic_policy.after_panic(task, payload))
    }

    fn unobserved_panic(&self, task: &Header, payload: &(dyn Any + Send)) -> Option<String> {
        let panic = UnobservedPanic::new(task, payload).with_policy(self.panic_policy.text());
        if let Some(shared) = self.runtime()
            && let Some(host) = &shared.config().env.simulated
            && host.world.is_supervised
        {
            let text = inspect::panic_text(task, payload);
            host.world.fail(FailureKind::Panic, host.id, text);
        }
        self.shut_down_for(self.report_panic(&Arc::new(Report::UnobservedPanic(panic))))
    }

    fn blocked(&self, stall: &BlockedPoll) {
        // Sampling a stack is slow.
        watchdog::hand_off();
        let future = match &stall.subject {
            PolledEntity::Task(task) => Some((task.header().vtable.get().future)()),
            PolledEntity::BlockOnState(_) => None,
        };
        let Some(task) = self.task_info(&stall.subject) else { return };
        let blocked = Blocked::new(task, stall, future);
        if !blocked.is_in_panic_hook() {
            self.report(&Arc::new(Report::Blocked(blocked)));
        }
    }

    fn spinning(&self, subject: &PolledEntity, polls: u32, within: Duration) {
        let Some(task) = self.task_info(subject) else { return };
        self.report(&Arc::new(Report::Spinning(Spinning::new(task, polls, within))));
    }

    fn report_futile_loops(&self) {
        for found in self.futile_loops.take() {
            self.report(&Arc::new(Report::FutileLoop(found)));
        }
    }

    fn scan_for_deadlocks(&self) -> Option<Duration> {
        let shared = self.runtime()?;
        let mut again_in: Option<Duration> = None;
        let mut scan = || {
            let found = shared.scan_for_deadlocks(ScanMode::MayWake);
            again_in = again_in.into_iter().chain(found.again_in).min();
            let reports = found.reports.into_iter().map(Arc::new);
            reports.partition(|it| matches!(**it, Report::StuckBlockOn(_)))
        };
        let (mut stuck, others): (Vec<Arc<Report>>, Vec<Arc<Report>>) = scan();
        let reported = others.iter().filter(|report| self.report(report)).count();
        if reported > 0 && !stuck.is_empty() {
            // The hook may have resolved the deadlock, for example by an abort.
            (stuck, _) = scan();
        }
        let reported = stuck.iter().filter(|report| self.report(report)).count();
        if reported > 1 {
            // The hook's reaction to the first report may have resolved the second deadlock.
            (stuck, _) = scan();
        }
        for report in stuck {
            let Report::StuckBlockOn(stuck) = &*report else { continue };
            let block_ons = shared.base().block_ons();
            let block_on = block_ons.iter().find(|state| state.record.id == stuck.block_on().id);
            if let Some(block_on) = block_on {
                block_on.fail(stuck.poll_number, report.to_string());
            }
        }
        again_in
    }

    fn observe_lasting(&self) -> Option<Duration> {
        // A paused clock does not measure how long a problem lasts.
        let shared = self.runtime().filter(|shared| !shared.clock().is_paused())?;
        let observed = self.observe(&shared, Audience::Hook);
        for report in observed.reports {
            self.report(&Arc::new(report));
        }
        // A day is late enough, and always fits into an `Instant`.
        observed.again_after.map(|after| after.min(DAY))
    }

    fn wake_watchdog(&self) -> bool {
        let new_target = || Arc::new(WatchTarget::new(self.me.clone()));
        let target = self.watch_target.get_or_init(new_target);
        // Pairs with the fence in `close_watch`. A blocking closure may end after its runtime.
        fence(SeqCst);
        if self.watch_closed.load(Relaxed) {
            return true;
        }
        watchdog::wake(target)
    }

    fn postpone_visit(&self, parked_at: Instant) -> Option<Duration> {
        watchdog::postpone(self.watch_target.get()?, parked_at)
    }

    fn has_other_watchdog(&self) -> bool {
        watchdog::is_other_thread()
    }

    fn before_user_code(&self) {
        watchdog::hand_off();
    }

    fn notify_progress(&self) {
        if let Some(shared) = self.runtime() {
            shared.base().notify_progress();
        }
    }

    fn drivers_closed(&self) {
        if let Some(shared) = self.runtime() {
            // Completed on the pool, so that this thread does not block. A closure of
            // `block_in_place` may wait for one of the operations.
            shared.complete_file_ops(true);
        }
    }

    fn auto_advance_released(&self) {
        if let Some(shared) = self.runtime()
            && let Flavor::Current(scheduler) = &shared.flavor
        {
            scheduler.wake_holder();
        }
    }

    fn in_context(&self, role: Role, life: &mut dyn FnMut()) {
        let _driving = (role == Role::Worker).then(|| enter_guard::start_driving(true));
        match self.runtime() {
            Some(shared) => {
                let _guard = context::enter(&shared);
                life();
            }
            // The runtime is already dropped, but the thread still runs its shutdown steps.
            None => life(),
        }
    }
}

impl Subject for ReportingHooks {
    fn scheduler(&self) -> Option<Arc<dyn Watched>> {
        let shared = self.runtime()?;
        Some(match &shared.flavor {
            Flavor::Current(scheduler) => scheduler.clone(),
            Flavor::Multi(scheduler) => scheduler.clone(),
        })
    }
}
