//! State that both schedulers share: configuration, arena for tasks of other threads, and the fatal
//! error that ends every `block_on`.

use crate::driver::clock::clock_ns::ClockNs;
use crate::scheduler::block_on::ParkedBlockOn;
use crate::scheduler::config::{Config, OrphanPolicy};
use crate::scheduler::local_set::LocalShared;
use crate::scheduler::post_shutdown;
use crate::sys::real_time;
use crate::sys::sync::Mutex;
use crate::sys::unwind::catch_and_forget;
use crate::task::arena::{Allocator, Arena};
use crate::task::cell::{self, CellLayout, SpawnOptions};
use crate::task::header::Header;
use crate::task::id::IdSource;
use crate::task::runnable::{Runnable, TaskRef, UnqueuedTask};
use crate::task::schedule::Schedule;
use crate::task::state::{BLOCKING, CANCELLED, COMPLETE, ORPHANED, RUNNING};
use crate::task::{JoinHandle, context};
use crate::telemetry::scan_gate::{ScanGate, if_parked};
use crate::telemetry::trace_buffer::{Entry, SharedTraceBuffer};
use std::any::Any;
use std::collections::BTreeMap;
use std::panic::Location;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

/// How soon a parking thread retries to postpone a visit, after it found another thread busy.
const ASK_AGAIN: Duration = Duration::from_millis(1);

/// The part of a scheduler that does not depend on its flavor.
pub(crate) struct SchedulerBase {
    pub(crate) config: Arc<Config>,
    /// Whether the watchdog visits this scheduler.
    pub(crate) gate: ScanGate,
    /// The arena for tasks that are spawned by threads which hold no core.
    external_arena: Arena,
    external_allocator: Mutex<Option<Allocator>>,
    /// Set once the scheduler is closing: new tasks are cancelled.
    closing: AtomicBool,
    /// The message with which every `block_on` panics. The scheduler closes itself once it is set.
    pub(super) fatal_error: OnceLock<String>,
    /// Threads that are parked in `block_on`, to be unparked after a fatal error.
    pub(super) parked: Mutex<Vec<ParkedBlockOn>>,
    /// The local sets that have been polled in this runtime.
    local_sets: Mutex<Vec<Weak<LocalShared>>>,
    /// The time when a thread of the scheduler last read the clock. Used for tasks spawned by other
    /// threads, which do not read the clock.
    last_clock_ms: AtomicU32,
    /// The trace of all threads that hold no core.
    pub(crate) external_trace: SharedTraceBuffer,
    /// The spawn sites of tasks that were dropped at shutdown before their first poll.
    never_polled: Mutex<BTreeMap<&'static Location<'static>, usize>>,
    /// The number of waiting `block_on`s on threads that run no tasks.
    pub(super) external_block_ons: AtomicUsize,
    /// The number of polls that ended because their budget was exhausted.
    pub(crate) budget_yields: AtomicU64,
}

impl SchedulerBase {
    #[inline] // lets the caller build it in place
    pub(crate) fn new(config: Arc<Config>) -> Self {
        let external_trace = SharedTraceBuffer::observing(config.observes_all());
        Self {
            config,
            gate: ScanGate::new(),
            external_arena: Arena::new(),
            external_allocator: Mutex::new(None),
            closing: AtomicBool::new(false),
            fatal_error: OnceLock::new(),
            parked: Mutex::new(Vec::new()),
            local_sets: Mutex::new(Vec::new()),
            last_clock_ms: AtomicU32::new(0),
            external_trace,
            never_polled: Mutex::new(BTreeMap::new()),
            external_block_ons: AtomicUsize::new(0),
            budget_yields: AtomicU64::new(0),
        }
    }

    /// Opens the external arena.
    ///
    /// # Safety
    ///
    /// Must be called once, before the scheduler is shared. `scheduler` must contain this base. See
    /// [`Arena::open`].
    pub(crate) unsafe fn open(&self, scheduler: NonNull<dyn Schedule>) {
        // SAFETY: by contract.
        *self.external_allocator.lock() = Some(unsafe { self.external_arena.open(scheduler) });
    }

    pub(crate) fn ids(&self) -> &IdSource {
        &self.config.env.ids
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Acquire)
    }

    /// Starts closing. Returns true to the first caller.
    pub(crate) fn start_closing(&self) -> bool {
        !self.closing.swap(true, AcqRel)
    }

    /// Publishes the time that a thread of the scheduler just read from the clock.
    #[inline]
    pub(crate) fn publish_clock(&self, now: ClockNs) {
        let now_ms = now.ms();
        // Not in every round: other threads read the same cache line with every poll.
        if self.last_clock_ms.load(Relaxed) != now_ms {
            self.last_clock_ms.store(now_ms, Relaxed);
        }
        context::set_now_ms(now_ms);
    }

    /// Observes a task that a thread without a core has woken or spawned, and is about to inject.
    #[inline]
    pub(crate) fn observe_injected(&self, task: Runnable) -> Runnable {
        if self.external_trace.is_enabled() { self.record_injected(task) } else { task }
    }

    /// Traces and observes a task that is about to be injected.
    ///
    /// The spawn hook runs here, and may panic. During the hook, another thread may shut the
    /// scheduler down and drop the future, because this thread is not active.
    #[cold]
    fn record_injected(&self, task: Runnable) -> Runnable {
        let now = self.config.env.clock.now_approx();
        self.external_trace.record(Entry::woken(&task, now.time()));
        let task = UnqueuedTask::new(task);
        // A task spawned on a closed scheduler belongs to the `PostShutdown` scheduler, and never runs.
        if self.external_arena.belongs_to(task.scheduler()) {
            self.config.observe_schedule(&task, now, None);
        }
        task.into_runnable()
    }

    /// Creates a task in the external arena.
    ///
    /// `all_idle` says that no thread runs tasks, so the published time is out of date.
    ///
    /// # Safety
    ///
    /// The contract of [`cell::fill`] must hold.
    pub(crate) unsafe fn fill_external<F: Future>(
        &self,
        future: F,
        options: SpawnOptions,
        all_idle: bool,
    ) -> (Runnable, JoinHandle<F::Output>) {
        if all_idle {
            self.last_clock_ms.store(self.now_ms(), Relaxed);
        }
        // This thread may belong to another runtime, which has its own clock.
        let _now = context::set_now_ms_scoped(self.last_clock_ms.load(Relaxed));
        let mut external_allocator = self.external_allocator.lock();
        let (cell, id) = match external_allocator.as_mut() {
            Some(allocator) => {
                allocator.allocate(CellLayout::<F>::CLASS, self.ids(), options.origin)
            }
            None => {
                drop(external_allocator);
                // SAFETY: by contract.
                return unsafe { post_shutdown::fill(self.ids(), future, options) };
            }
        };
        drop(external_allocator);
        // SAFETY: the cell is freshly allocated; the rest is the caller's contract.
        unsafe { cell::fill(cell, id, future, options) }
    }

    /// Calls `f` with every task that was spawned by a thread without a core.
    pub(crate) fn for_each_external(&self, f: impl FnMut(TaskRef)) {
        self.external_arena.for_each(f);
    }

    pub(crate) fn spawned_externally(&self) -> u64 {
        self.external_arena.handed_out()
    }

    /// Calls `f` with each site where a thread without a core, or a local set, spawned tasks.
    pub(crate) fn spawns_by_site(&self, f: &mut dyn FnMut(&'static Location<'static>, u64)) {
        self.external_arena.spawns_by_site(&mut *f);
        for set in self.local_sets() {
            set.spawns_by_site(&mut *f);
        }
    }

    /// Calls `f` with every task of the local sets.
    pub(crate) fn for_each_local(&self, mut f: impl FnMut(TaskRef)) {
        for set in self.local_sets() {
            set.for_each_task(&mut f);
        }
    }

    /// Returns the local sets. The references are dropped outside the lock.
    fn local_sets(&self) -> Vec<Arc<LocalShared>> {
        self.local_sets.lock().iter().filter_map(Weak::upgrade).collect()
    }

    /// Returns whether any local set has been polled in this runtime.
    pub(crate) fn has_local_sets(&self) -> bool {
        self.local_sets.lock().iter().any(|set| set.strong_count() > 0)
    }

    /// Returns the local task that the thread with this id is polling.
    pub(crate) fn running_local(&self, thread: i32) -> Option<TaskRef> {
        self.local_sets().iter().find_map(|set| set.running_on(thread))
    }

    /// Returns the threads whose local sets have been polled in this runtime.
    pub(crate) fn local_set_threads(&self) -> Vec<i32> {
        self.local_sets().iter().map(|set| set.thread()).collect()
    }

    /// Returns whether the thread has an unfinished local task other than `running`.
    pub(crate) fn has_other_local(&self, thread: i32, running: Option<&TaskRef>) -> bool {
        let running = running.map(TaskRef::cell);
        let mut has_other = false;
        for set in self.local_sets().iter().filter(|set| set.thread() == thread) {
            set.for_each_task(|task| {
                has_other |= !task.state().has(COMPLETE) && Some(task.cell()) != running;
            });
        }
        has_other
    }

    /// Returns the cells of all local tasks that are being polled.
    pub(crate) fn running_locals(&self) -> Vec<usize> {
        let sets = self.local_sets();
        sets.iter().filter_map(|set| set.running()).map(|cell| cell.addr().get()).collect()
    }

    /// Registers a local set that is about to be polled in this runtime.
    pub(crate) fn add_local(&self, set: Weak<LocalShared>) {
        let mut sets = self.local_sets.lock();
        sets.retain(|other| other.strong_count() > 0 && !other.ptr_eq(&set));
        sets.push(set);
    }

    /// Returns an address that identifies this scheduler.
    pub(crate) fn address(&self) -> *const () {
        std::ptr::from_ref(self).cast()
    }

    /// Makes the watchdog visit this scheduler, unless it already does.
    ///
    /// A thread that starts to work calls this, after it has stored that it works
    /// (`telemetry::scan_gate`).
    #[inline]
    pub(crate) fn wake_watchdog_if_asleep(&self) {
        if self.gate.is_asleep() {
            self.wake_watchdog();
        }
    }

    #[cold]
    fn wake_watchdog(&self) {
        if self.gate.wake() && !self.config.hooks.wake_watchdog() {
            self.gate.cancel_wake();
        }
    }

    /// Postpones the watchdog's next visit, if it is soon and `are_all_parked` returns true.
    ///
    /// A thread that is about to park calls this, after it has stored that it parks. `now` is the
    /// time on the runtime's clock.
    #[inline]
    pub(crate) fn postpone_visit(&self, now: ClockNs, are_all_parked: impl FnOnce() -> bool) {
        if self.gate.should_ask(now) {
            self.ask_to_postpone(now, are_all_parked);
        }
    }

    #[cold]
    fn ask_to_postpone(&self, now: ClockNs, are_all_parked: impl FnOnce() -> bool) {
        let ask_after = match if_parked(real_time::now, are_all_parked) {
            Some(parked_at) => self.config.hooks.postpone_visit(parked_at),
            None => Some(ASK_AGAIN),
        };
        self.gate.set_ask_after(now, ask_after);
    }

    /// Counts an event that may leave a task stuck, on a thread that the watchdog does not observe.
    pub(crate) fn notify_progress(&self) {
        if self.gate.notify_progress() {
            self.wake_watchdog();
        }
    }

    /// Drops every future in the external arena. Called after all queues are closed.
    pub(crate) fn cancel_external(&self) {
        self.external_arena.cancel_all();
    }

    /// Counts a task that is about to be dropped at shutdown, if it was never polled.
    ///
    /// Excludes closures, which still run, and aborted tasks, which were not meant to run.
    pub(crate) fn count_if_never_polled(&self, task: &TaskRef) {
        let header = task.header();
        if header.polls() == 0 && !task.state().has(RUNNING | COMPLETE | CANCELLED | BLOCKING) {
            *self.never_polled.lock().entry(header.origin.get().spawned_at()).or_default() += 1;
        }
    }

    /// Removes and returns the spawn sites of tasks that were dropped at shutdown before their
    /// first poll.
    pub(crate) fn take_never_polled(&self) -> BTreeMap<&'static Location<'static>, usize> {
        std::mem::take(&mut *self.never_polled.lock())
    }

    /// Takes the external arena's allocator, to be closed.
    pub(crate) fn take_external_allocator(&self) -> Option<Allocator> {
        self.external_allocator.lock().take()
    }

    /// Reports an orphan, and applies the policy: aborts the task, or fails every `block_on`.
    pub(crate) fn orphaned(&self, task: &TaskRef) {
        if self.is_closing() {
            // The tasks are being dropped, and a dropped task may have held the last waker of
            // another.
            return;
        }
        // The user's report hook may panic. That must not unwind into the thread that dropped a
        // waker or polled a task.
        let report = catch_and_forget(|| self.config.hooks.orphan(task));
        let text = report.unwrap_or_else(|| "the report hook panicked".to_owned());
        match self.config.on_orphan {
            OrphanPolicy::Report => {}
            OrphanPolicy::Abort => task.abort(ORPHANED),
            OrphanPolicy::Panic => {
                task.abort(ORPHANED);
                self.fail_block_ons(text);
            }
        }
    }

    /// Handles the panic of a task; fails every `block_on` if the policy requires it.
    pub(crate) fn panicked(&self, task: &Header, payload: &(dyn Any + Send)) {
        if let Some(error) = self.config.hooks.panicked(task, payload) {
            self.fail_block_ons(error);
        }
    }

    /// Reports the panic of a task without JoinHandle, and fails every `block_on` if the policy
    /// requires it.
    pub(crate) fn unobserved_panic(&self, task: &Header, payload: &(dyn Any + Send)) {
        // A panic that shut the runtime down has been observed.
        if !self.is_closing()
            && !self.has_fatal_error()
            && let Some(error) = self.config.hooks.unobserved_panic(task, payload)
        {
            self.fail_block_ons(error);
        }
    }

    pub(crate) fn now_ms(&self) -> u32 {
        self.config.env.clock.elapsed().as_millis() as u32
    }
}
