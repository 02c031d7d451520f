//! The work-stealing scheduler: the state that its threads share.
//!
//! - [`worker`]: the loop of a worker thread. [`core`]: the state that makes a thread a worker.
//! - [`maintenance`]: the work between rounds of polls: clock, timers, driver, metrics.
//! - [`park`]: the sleep of a worker. [`idle`]: the sleep protocol, which decides which worker
//!   searches, sleeps and is woken.
//! - [`threads`]: starts, wakes and joins threads.
//! - [`shutdown`]: decides which thread drops the tasks, and closes the scheduler.
//! - [`block_in_place`]: gives a worker's core to another thread while its own thread blocks.
//! - [`lost_workers`]: workers without a thread, and the threads that serve their drivers.
//! - [`spare_workers`]: extra threads while all workers are stuck.
//!
//! A task that is woken or spawned on a worker goes into that worker's LIFO slot, and the slot's
//! previous task moves to the worker's ring. A task that is woken or spawned on any other thread
//! goes to the injector. A task that yields goes to the end of its worker's ring.
//!
//! A worker can lose its thread: a callback panics, or the thread blocks in place, and no other
//! thread can be started. Such a worker is *lost* until a thread starts for it again. Its tasks
//! move to the injector, and other threads poll its driver.

pub(crate) mod block_in_place;
pub(crate) mod core;
pub(crate) mod idle;
pub(crate) mod lost_workers;
mod maintenance;
mod park;
pub(crate) mod shutdown;
pub(crate) mod spare_workers;
pub(crate) mod threads;
pub(crate) mod worker;

use crate::driver::poller::Poller;
use crate::driver::timers::Timers;
use crate::queue::injector::Injector;
use crate::queue::{lifo_slot, ring};
use crate::scheduler::base::SchedulerBase;
use crate::scheduler::config::Config;
use crate::scheduler::multi_thread::core::{WorkerCore, WorkerToken};
use crate::scheduler::multi_thread::idle::Idle;
use crate::scheduler::multi_thread::lost_workers::LostWorkers;
use crate::scheduler::multi_thread::shutdown::ShutdownGate;
use crate::scheduler::multi_thread::spare_workers::SpareWorkers;
use crate::scheduler::multi_thread::threads::Threads;
pub(crate) use crate::scheduler::multi_thread::threads::{ThreadExitGuard, WorkerThread};
use crate::sys::adaptive_spin;
use crate::sys::membarrier::Barriers;
use crate::sys::sync::Mutex;
use crate::task::JoinHandle;
use crate::task::arena::Arena;
use crate::task::block_on::BlockOnVia;
use crate::task::cell::{self, CellLayout, SpawnOptions};
use crate::task::header::Header;
use crate::task::runnable::{Runnable, TaskRef};
use crate::task::schedule::Schedule;
use crate::telemetry::latency_probe::InjectedProbe;
use crate::telemetry::poll_watch::PollWatch;
use crate::telemetry::trace_buffer::TraceBuffer;
use crate::telemetry::worker_metrics::WorkerMetrics;
use std::any::Any;
use std::io;
use std::panic::Location;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Condvar, OnceLock, Weak};

/// The work-stealing scheduler.
pub(crate) struct MultiThread {
    pub(crate) base: SchedulerBase,
    pub(crate) injector: Injector,
    pub(crate) idle: Idle,
    pub(crate) workers: Box<[WorkerShared]>,
    pub(crate) spares: SpareWorkers,
    /// The cells of tasks whose polls block in place, on threads that have given up their core.
    pub(crate) in_place_polls: Mutex<Vec<usize>>,
    pub(crate) probe: InjectedProbe,
    shutdown_gate: ShutdownGate,
    pub(crate) lost: LostWorkers,
    /// Whether the process may run on more than one CPU.
    pub(crate) has_multiple_cpus: bool,
    threads: std::sync::Mutex<Threads>,
    /// Notified when a thread exits.
    thread_exited: Condvar,
    arenas: Box<[Arena]>,
    pub(crate) cores: Box<[WorkerCore]>,
    weak_self: Weak<Self>,
    /// One reference for each arena with cells that outlive the scheduler.
    kept_alive: Mutex<Vec<Arc<Self>>>,
}

/// The state of one worker that other threads access.
///
/// The alignment keeps each worker's state two cache lines apart, because the worker writes to it
/// with every poll.
#[repr(align(128))]
pub(crate) struct WorkerShared {
    pub(crate) ring: ring::Stealer,
    pub(crate) lifo_slot: lifo_slot::Thief,
    /// The task that the worker polls.
    pub(crate) poll_watch: PollWatch,
    pub(crate) timers: Timers,
    /// Created when the first descriptor is registered.
    pub(crate) poller: OnceLock<Arc<Poller>>,
    pub(crate) metrics: WorkerMetrics,
    /// The time when the worker last read the clock and polled its driver.
    pub(crate) driver_polled_ms: AtomicU32,
    pub(crate) trace: TraceBuffer,
    /// Whether the worker has lost its thread, and other threads poll its driver (`lost_workers`).
    pub(crate) is_lost: AtomicBool,
    pub(crate) thread: Mutex<WorkerThread>,
}

impl MultiThread {
    /// Creates the scheduler, without threads.
    pub(crate) fn new(config: Arc<Config>) -> Arc<Self> {
        let count = config.worker_threads;
        let barriers = Barriers::detect();
        let arenas: Box<[Arena]> = (0..count).map(|_| Arena::new()).collect();
        let mut cores = Vec::with_capacity(count);
        let workers = (0..count)
            .map(|index| {
                let (ring, stealer) = ring::ring();
                let (lifo_slot, thief) = lifo_slot::lifo_slot(barriers);
                cores.push(WorkerCore::new(index, ring, lifo_slot, &config));
                WorkerShared {
                    ring: stealer,
                    lifo_slot: thief,
                    poll_watch: PollWatch::new(),
                    timers: Timers::new(index),
                    driver_polled_ms: AtomicU32::new(0),
                    poller: OnceLock::new(),
                    // The first worker's thread is started by `start`.
                    metrics: if index == 0 {
                        WorkerMetrics::awake(config.exact)
                    } else {
                        WorkerMetrics::asleep(config.exact)
                    },
                    trace: TraceBuffer::observing(config.observes_all()),
                    is_lost: AtomicBool::new(false),
                    thread: Mutex::new(WorkerThread::NotStarted(WorkerToken(index))),
                }
            })
            .collect();
        let this = Arc::new_cyclic(|weak_self| Self {
            weak_self: weak_self.clone(),
            kept_alive: Mutex::new(Vec::new()),
            base: SchedulerBase::new(config),
            injector: Injector::new(),
            idle: Idle::new(count),
            workers,
            shutdown_gate: ShutdownGate::new(count),
            lost: LostWorkers::new(),
            has_multiple_cpus: adaptive_spin::is_multicore(),
            spares: SpareWorkers::new(),
            in_place_polls: Mutex::new(Vec::new()),
            probe: InjectedProbe::new(),
            threads: std::sync::Mutex::new(Threads::default()),
            thread_exited: Condvar::new(),
            arenas,
            cores: cores.into_boxed_slice(),
        });
        let scheduler: NonNull<dyn Schedule> = NonNull::from(&*this);
        // SAFETY: not shared yet; the arena is inside its scheduler.
        unsafe { this.base.open(scheduler) };
        let workers = this.cores.iter().zip(&this.arenas).zip(&this.workers);
        for ((core, arena), shared) in workers {
            // SAFETY: not shared yet; the arena is inside its scheduler. The scheduler owns cores
            // and shared states, in boxes that it never replaces.
            unsafe { core.init(arena.open(scheduler), shared) };
        }
        this
    }

    /// Starts the first thread, which enters the runtime; the hooks must already know their
    /// runtime.
    ///
    /// # Errors
    ///
    /// Returns an error if no thread can be started; the scheduler is then closed.
    pub(crate) fn start(&self) -> io::Result<()> {
        let first = self.idle.claim_sleeper().expect("all workers start asleep");
        if let Err(error) = self.wake_worker(first, |error| error) {
            self.base.start_closing();
            self.release_unstarted_workers();
            return Err(error);
        }
        if self.base.config.on_thread_start.is_some() {
            self.start_all();
        }
        Ok(())
    }

    /// Spawns a task, from any thread.
    ///
    /// # Safety
    ///
    /// The future must be `Send`, and the contract of [`cell::fill`] must hold.
    #[inline]
    pub(crate) unsafe fn spawn<F: Future>(
        &self,
        future: F,
        options: SpawnOptions,
    ) -> JoinHandle<F::Output> {
        // SAFETY: by contract.
        let (task, join) = unsafe { self.fill(future, options) };
        self.enqueue(task, Runnable::cancel_spawn);
        join
    }

    /// Creates a task without scheduling it. The blocking pool runs such tasks.
    ///
    /// # Safety
    ///
    /// The contract of [`cell::fill`] must hold.
    #[inline]
    pub(crate) unsafe fn fill<F: Future>(
        &self,
        future: F,
        options: SpawnOptions,
    ) -> (Runnable, JoinHandle<F::Output>) {
        let (class, origin) = (CellLayout::<F>::CLASS, options.origin);
        let local = worker::with_core(self, |core| core.allocate(class, self.base.ids(), origin));
        // SAFETY: the cell is freshly allocated; the rest is the caller's contract.
        unsafe {
            match local {
                Some((cell, id)) => cell::fill(cell, id, future, options),
                None => self.base.fill_external(future, options, self.idle.all_asleep()),
            }
        }
    }

    /// Records that a task is about to be pushed to the injector. Samples its latency if all
    /// workers sleep.
    #[inline]
    fn record_injected(&self, task: Runnable) -> Runnable {
        let task = self.base.observe_injected(task);
        if self.idle.all_asleep() {
            self.probe.mark(&task, self.base.config.env.clock.now_approx());
        }
        task
    }

    /// Queues a task on this worker or in the injector. Calls `on_closed` if the injector is closed.
    #[inline]
    fn enqueue(&self, task: Runnable, on_closed: impl FnOnce(Runnable)) {
        let task = match worker::push_local(self, task) {
            Ok(()) => return,
            Err(task) => task,
        };
        if let Err(task) = self.inject(task) {
            on_closed(task);
        }
    }

    /// Queues a task in the injector, on behalf of a thread that holds no core. Returns the task if
    /// the injector is closed.
    #[inline(never)]
    fn inject(&self, task: Runnable) -> Result<(), Runnable> {
        self.injector.push(self.record_injected(task))?;
        self.notify();
        Ok(())
    }

    /// Wakes a sleeping worker after a push, unless a worker is searching (SLEEP-2, SLEEP-3).
    #[inline]
    pub(crate) fn notify(&self) {
        if let Some(worker) = self.idle.claim_sleeper() {
            self.wake_chosen(worker);
        }
    }

    /// Wakes the chosen worker. If no thread can be started for it, wakes the next sleeper instead.
    fn wake_chosen(&self, chosen: usize) {
        let (mut worker, mut tried) = (chosen, Vec::new());
        // `Err(None)` means that every worker with a thread is awake, and searches before it
        // sleeps.
        while let Err(Some(other)) =
            self.wake_worker(worker, |_| self.idle.choose_other(worker, &mut tried))
        {
            worker = other;
        }
    }

    /// Returns whether no worker is lost, and no thread polls tasks of this scheduler or its local
    /// sets.
    pub(crate) fn are_all_parked(&self) -> bool {
        self.idle.all_asleep()
            && !self.lost.is_any()
            && self.spares.len() == 0
            && !self.base.has_local_sets()
    }

    /// Notifies a worker that its timers or sources have changed, so that it does not sleep too
    /// long.
    ///
    /// If the worker is lost, notifies the threads that serve its driver.
    pub(crate) fn notify_driver(&self, worker: usize) {
        if worker::index(self) == Some(worker) {
            return;
        }
        if let WorkerThread::Running(parker) = &*self.workers[worker].thread.lock() {
            parker.unpark();
        }
        if self.workers[worker].is_lost.load(SeqCst) {
            self.wake_helpers();
        }
    }

    /// Returns the timers for a future that is polled on the calling thread.
    pub(crate) fn timers(&self) -> &Timers {
        &self.workers[self.driver_owner()].timers
    }

    /// Returns the worker whose driver serves the calling thread.
    ///
    /// A worker has its own driver. Any other thread uses the first worker with a running thread.
    pub(crate) fn driver_owner(&self) -> usize {
        worker::index(self).unwrap_or_else(|| self.first_served())
    }

    fn to_arc(&self) -> Arc<Self> {
        self.weak_self.upgrade().expect("the caller borrows from an Arc")
    }

    /// Runs a future on the calling thread, which is not a worker.
    #[track_caller]
    pub(crate) fn block_on<F: Future>(&self, future: F, via: BlockOnVia) -> F::Output {
        self.base.block_on(future, via, |block_on| self.park_in_block_on(block_on))
    }

    /// Returns the number of tasks that were spawned on workers.
    pub(crate) fn spawned_by_workers(&self) -> u64 {
        self.arenas.iter().map(Arena::handed_out).sum()
    }

    /// Calls `f` with each site where workers spawned tasks, and the number of tasks.
    pub(crate) fn spawns_by_site(&self, f: &mut dyn FnMut(&'static Location<'static>, u64)) {
        self.arenas.iter().for_each(|arena| arena.spawns_by_site(&mut *f));
    }

    /// Calls `f` with every task that has a cell, except those of local sets.
    pub(crate) fn for_each_task(&self, mut f: impl FnMut(TaskRef)) {
        for arena in &self.arenas {
            arena.for_each(&mut f);
        }
        self.base.for_each_external(f);
    }
}

impl Schedule for MultiThread {
    #[inline]
    fn schedule(&self, task: Runnable) {
        self.enqueue(task, Runnable::discard);
    }

    #[inline]
    fn requeue(&self, task: Runnable) {
        let task = match worker::push_yielded(self, task) {
            Ok(()) => return,
            Err(task) => task,
        };
        match self.injector.push(task) {
            Ok(()) => self.notify(),
            // The task is in no queue, but in the arena, where the closing thread may have found it.
            Err(task) => task.cancel_requeue(),
        }
    }

    fn orphaned(&self, task: &TaskRef) {
        self.base.orphaned(task);
        self.propagate_fatal_error();
    }

    fn panicked(&self, task: &Header, payload: &(dyn Any + Send)) {
        self.base.panicked(task, payload);
        self.propagate_fatal_error();
    }

    fn unobserved_panic(&self, task: &Header, payload: &(dyn Any + Send)) {
        self.base.unobserved_panic(task, payload);
        self.propagate_fatal_error();
    }

    fn terminated(&self, task: &Header) {
        self.base.config.observe_end(task);
    }

    // SAFETY: has no requirement on its caller; there is one reference per arena.
    unsafe fn last_cell_freed(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        let reference = self.kept_alive.lock().pop()?;
        Some(reference)
    }
}
