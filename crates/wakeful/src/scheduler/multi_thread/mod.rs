//! The work-stealing scheduler: what its threads share. Tasks come in from
//! `spawn` and from wakers, and leave to a worker's loop (`worker`).
//!
//! Where a task goes: woken or spawned on a worker, it stays with that worker,
//! in the run-next slot first; from anywhere else it goes to the injector. A
//! task that yields goes to the end of its worker's ring.
//!
//! Threads are started when there is work for them: a worker without a thread
//! is one that sleeps deeply. The first is started with the runtime, so that a
//! system that cannot give us a thread says so at once; all are, if the user has a
//! callback for it.
//!
//! A worker can lose its thread: a callback panics, or a thread blocks in place, and the system
//! has no thread to replace it. Such a worker is *lost* until a thread starts for it again. Its
//! tasks move to the injector, and other threads turn its driver (`lost`).
//!
//! Shutdown, by the runtime's owner or, if the runtime has to give up, by the
//! first worker to see that: `closing` is set and everybody woken; each worker
//! drains its own queues and leaves; the last one closes the injector and drops
//! every future that waits. Threads that block in place are not waited for until
//! then, since they may wait for just that; the last thread of all drops what
//! those have left and closes the heaps (`attendance`). Whoever wakes a task meanwhile finds
//! the injector closed and lets go.

pub(crate) mod core;
pub(crate) mod idle;
pub(crate) mod lost_workers;
pub(crate) mod shutdown;
pub(crate) mod spare_workers;
pub(crate) mod worker;

use crate::driver::poller::Poller;
use crate::driver::timers::Timers;
use crate::queue::injector::Injector;
use crate::queue::{lifo_slot, ring};
use crate::scheduler::base::SchedulerBase;
use crate::scheduler::config::{Config, Role};
use crate::scheduler::multi_thread::core::{WorkerCore, WorkerToken};
use crate::scheduler::multi_thread::idle::{BeforeParking, Idle};
use crate::scheduler::multi_thread::lost_workers::LostWorkers;
use crate::scheduler::multi_thread::shutdown::{Left, ShutdownGate};
use crate::scheduler::multi_thread::spare_workers::SpareWorkers;
use crate::sys::adaptive_spin;
use crate::sys::join::join_ended;
use crate::sys::membarrier::Barriers;
use crate::sys::park::Parker;
use crate::sys::sync::Mutex;
use crate::task::JoinHandle;
use crate::task::arena::{Arena, Schedule};
use crate::task::block_on::BlockOnVia;
use crate::task::cell::{self, CellLayout, SpawnOptions};
use crate::task::header::Header;
use crate::task::runnable::{Runnable, TaskRef};
use crate::telemetry::latency_probe::InjectedProbe;
use crate::telemetry::poll_watch::PollWatch;
use crate::telemetry::trace_buffer::TraceBuffer;
use crate::telemetry::worker_metrics::WorkerMetrics;
use crate::watchdog::multi_thread::Monitor;
use std::any::Any;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Condvar, MutexGuard, OnceLock, Weak};
use std::thread;
use std::time::Instant;

pub(crate) struct MultiThread {
    pub(crate) estate: SchedulerBase,
    pub(crate) injector: Injector,
    pub(crate) idle: Idle,
    pub(crate) remotes: Box<[WorkerShared]>,
    monitor: Monitor,
    pub(crate) spares: SpareWorkers,
    /// The cells of tasks that are polled by threads which gave their core away.
    pub(crate) in_place: Mutex<Vec<usize>>,
    pub(crate) probe: InjectedProbe,
    attendance: ShutdownGate,
    pub(crate) lost: LostWorkers,
    /// There is more than one core to run on.
    pub(crate) has_cores: bool,
    threads: std::sync::Mutex<Threads>,
    /// Signals that a thread has left.
    left: Condvar,
    heaps: Box<[Arena]>,
    pub(crate) cores: Box<[WorkerCore]>,
    me: Weak<Self>,
    /// One reference per heap with cells that outlive the scheduler.
    leftover: Mutex<Vec<Arc<Self>>>,
}

#[derive(Default)]
struct Threads {
    handles: Vec<thread::JoinHandle<()>>,
    /// Threads that have not left yet.
    alive: usize,
    /// No thread is started any more.
    closed: bool,
}

/// What other threads see of one worker. Apart from its neighbours by two cache
/// lines, since the worker writes to it with every poll.
#[repr(align(128))]
pub(crate) struct WorkerShared {
    pub(crate) ring: ring::Stealer,
    pub(crate) next: lifo_slot::Thief,
    /// What it polls.
    pub(crate) watched: PollWatch,
    pub(crate) timers: Timers,
    /// Made when the first descriptor is registered.
    pub(crate) poller: OnceLock<Arc<Poller>>,
    pub(crate) meter: WorkerMetrics,
    /// When the worker last looked at clock and driver. Written by the worker.
    pub(crate) turned_ms: AtomicU32,
    pub(crate) recorder: TraceBuffer,
    /// The worker has lost its thread, and other threads turn its driver (`lost`).
    pub(crate) is_lost: AtomicBool,
    /// The worker without a thread, or the parking spot of the thread it is on.
    pub(crate) seat: Mutex<WorkerThread>,
}

pub(crate) enum WorkerThread {
    /// No thread was started for it yet, or it has lost its thread.
    Unborn(WorkerToken),
    /// A thread is on its way to sit down.
    Starting,
    Taken(Arc<Parker>),
}

impl MultiThread {
    pub(crate) fn start(config: Arc<Config>) -> io::Result<Arc<Self>> {
        let workers = config.worker_threads;
        let barriers = Barriers::detect();
        let heaps: Box<[Arena]> = (0..workers).map(|_| Arena::new()).collect();
        let mut cores = Vec::with_capacity(workers);
        let remotes = (0..workers)
            .map(|index| {
                let (ring, stealer) = ring::ring();
                let (next, thief) = lifo_slot::lifo_slot(barriers);
                cores.push(WorkerCore::new(index, ring, next, config.seam.rng()));
                WorkerShared {
                    ring: stealer,
                    next: thief,
                    watched: PollWatch::new(),
                    timers: Timers::new(index),
                    turned_ms: AtomicU32::new(0),
                    poller: OnceLock::new(),
                    // The first is started with the runtime.
                    meter: if index == 0 {
                        WorkerMetrics::awake()
                    } else {
                        WorkerMetrics::asleep()
                    },
                    recorder: TraceBuffer::new(),
                    is_lost: AtomicBool::new(false),
                    seat: Mutex::new(WorkerThread::Unborn(WorkerToken(index))),
                }
            })
            .collect();
        let this = Arc::new_cyclic(|me| Self {
            me: me.clone(),
            leftover: Mutex::new(Vec::new()),
            estate: SchedulerBase::new(config),
            injector: Injector::new(),
            idle: Idle::new(workers),
            remotes,
            monitor: Monitor::new(),
            attendance: ShutdownGate::new(workers),
            lost: LostWorkers::new(),
            has_cores: adaptive_spin::is_multicore(),
            spares: SpareWorkers::new(),
            in_place: Mutex::new(Vec::new()),
            probe: InjectedProbe::new(),
            threads: std::sync::Mutex::new(Threads::default()),
            left: Condvar::new(),
            heaps,
            cores: cores.into_boxed_slice(),
        });
        let home: NonNull<dyn Schedule> = NonNull::from(&*this);
        // SAFETY: not shared yet; the heaps lie inside of their home.
        unsafe { this.estate.open(home) };
        let workers = this.cores.iter().zip(&this.heaps).zip(&this.remotes);
        for ((core, heap), remote) in workers {
            // SAFETY: as above; cores and remotes go with the scheduler.
            unsafe { core.equip(heap.open(home), remote) };
        }
        let first = this.idle.worker_to_wake().expect("all workers start asleep");
        if let Err(error) = this.wake_worker(first, |error| error) {
            this.estate.start_closing();
            this.leave_unborn();
            return Err(error);
        }
        if this.estate.config.on_thread_start.is_some() {
            this.start_all();
        }
        Ok(this)
    }

    /// Starts every worker's thread: somebody wants to hear of them.
    fn start_all(&self) {
        for worker in 1..self.remotes.len() {
            // Off the list, it is awake, and will find out that there is nothing.
            if self.idle.cancel_sleep(worker) && self.start_thread(worker, false, drop).is_err() {
                // It stays without one until there is work.
                if self.idle.sleep(worker, false) == BeforeParking::LookAgain {
                    self.notify();
                }
                return;
            }
        }
    }

    /// Spawns a task from any thread.
    ///
    /// # Safety
    ///
    /// As [`cell::fill`]: the future must be `Send`.
    #[inline]
    pub(crate) unsafe fn spawn<F: Future>(
        &self,
        future: F,
        birth: SpawnOptions,
    ) -> JoinHandle<F::Output> {
        let local = worker::with_core(self, |core| {
            core.allocate(CellLayout::<F>::CLASS, self.estate.ids())
        });
        // SAFETY: freshly allocated; the rest by contract.
        unsafe {
            let (task, join) = match local {
                Some((cell, id)) => cell::fill(cell, id, future, birth),
                None => self.estate.fill_outside(future, birth, self.idle.all_asleep()),
            };
            self.schedule_spawned(task);
            join
        }
    }

    /// Makes a closure's task without scheduling it: the blocking pool does.
    ///
    /// # Safety
    ///
    /// As [`cell::fill`].
    pub(crate) unsafe fn fill<F: Future>(
        &self,
        future: F,
        birth: SpawnOptions,
    ) -> (Runnable, JoinHandle<F::Output>) {
        let local = worker::with_core(self, |core| {
            core.allocate(CellLayout::<F>::CLASS, self.estate.ids())
        });
        // SAFETY: by contract.
        unsafe {
            match local {
                Some((cell, id)) => cell::fill(cell, id, future, birth),
                None => self.estate.fill_outside(future, birth, self.idle.all_asleep()),
            }
        }
    }

    /// A task is about to go to the injector: that is recorded, and if it finds everybody
    /// asleep, it is measured how long it waits.
    #[inline]
    fn mark_injected(&self, task: &Runnable) {
        self.estate.note_injected(task);
        if self.idle.all_asleep() {
            self.probe.mark(task, self.estate.config.seam.clock.now_approx());
        }
    }

    #[inline]
    fn schedule_spawned(&self, task: Runnable) {
        let task = match worker::push_local(self, task) {
            Ok(()) => return,
            Err(task) => task,
        };
        self.mark_injected(&task);
        match self.injector.push(task) {
            Ok(()) => self.notify(),
            Err(task) => task.cancel_spawn(),
        }
    }

    /// S2 and S3 of the sleep protocol: wakes a sleeper unless somebody is
    /// already searching.
    #[inline]
    pub(crate) fn notify(&self) {
        if let Some(worker) = self.idle.worker_to_wake() {
            self.wake_or_pass_on(worker);
        }
    }

    /// Wakes a worker that was chosen; if it has no thread and gets none, the
    /// next sleeper is woken in its place.
    fn wake_or_pass_on(&self, chosen: usize) {
        let (mut worker, mut tried) = (chosen, Vec::new());
        // `Err(None)`: every worker that has a thread is awake, and looks before it falls asleep.
        while let Err(Some(other)) =
            self.wake_worker(worker, |_| self.idle.pass_on(worker, &mut tried))
        {
            worker = other;
        }
    }

    /// Unparks a worker, or starts its thread. If no thread starts, returns what `refused`
    /// answers, which is called under the lock of the worker's seat.
    fn wake_worker<R>(&self, worker: usize, refused: impl FnOnce(io::Error) -> R) -> Result<(), R> {
        let seat = self.remotes[worker].seat.lock();
        match &*seat {
            WorkerThread::Taken(parker) => {
                let parker = parker.clone();
                drop(seat);
                parker.unpark();
                Ok(())
            }
            WorkerThread::Starting => Ok(()),
            WorkerThread::Unborn(_) => {
                drop(seat);
                self.start_thread(worker, true, refused)
            }
        }
    }

    /// Starts the thread of a worker that is not on the list of sleepers, if
    /// no other thread has. See `wake_worker` for `refused`.
    fn start_thread<R>(
        &self,
        worker: usize,
        searching: bool,
        refused: impl FnOnce(io::Error) -> R,
    ) -> Result<(), R> {
        let mut seat = self.remotes[worker].seat.lock();
        let key = match std::mem::replace(&mut *seat, WorkerThread::Starting) {
            WorkerThread::Unborn(key) => key,
            other => {
                if let WorkerThread::Taken(parker) = &other {
                    parker.unpark();
                }
                *seat = other;
                return Ok(());
            }
        };
        let core = &self.cores[key.0];
        if core.retry_at.get() > self.estate.config.seam.clock.elapsed() {
            *seat = WorkerThread::Unborn(key);
            return Err(refused(io::Error::other("the worker's threads have failed too often")));
        }
        core.searching.set(searching);
        // Under the lock: whoever closes meanwhile finds a thread that will leave,
        // or a seat to leave for.
        self.launch(key).map_err(|(error, key)| {
            *seat = WorkerThread::Unborn(key);
            // Still under the lock: a thread that wants its seat back finds the worker on the list
            // of sleepers, or not at all.
            refused(error)
        })
    }

    /// Starts a thread that carries on as this worker.
    pub(crate) fn launch(&self, key: WorkerToken) -> Result<(), (io::Error, WorkerToken)> {
        let index = key.0;
        let started = self.begin_thread(|this| {
            let config = this.estate.config.clone();
            config.spawn_thread(Role::Worker, move || {
                let leaving = ThreadExitGuard(this.clone());
                worker::run(this, key);
                drop(leaving);
            })
        });
        // The closure and its key were dropped unrun: the right is free.
        started.map_err(|error| (error, WorkerToken(index)))
    }

    /// Starts a thread, unless no more are started. It is to drop a [`ThreadExitGuard`] at
    /// its end.
    pub(crate) fn begin_thread(
        &self,
        start: impl FnOnce(Arc<Self>) -> io::Result<thread::JoinHandle<()>>,
    ) -> io::Result<()> {
        let this = self.shared();
        let mut threads = self.lock_threads();
        if threads.closed {
            drop(threads);
            return Err(io::Error::other("the runtime is shutting down"));
        }
        let handle = start(this)?;
        join_ended(&mut threads.handles);
        threads.handles.push(handle);
        threads.alive += 1;
        Ok(())
    }

    /// The worker, if it sleeps, has to look at its timers and its poller again. If it is lost,
    /// the threads that turn its driver have to.
    pub(crate) fn wake_for_timers(&self, worker: usize) {
        if worker::index(self) == Some(worker) {
            return;
        }
        if let WorkerThread::Taken(parker) = &*self.remotes[worker].seat.lock() {
            parker.unpark();
        }
        if self.remotes[worker].is_lost.load(SeqCst) {
            self.wake_helpers();
        }
    }

    /// The timers for a future that is polled on this thread.
    pub(crate) fn timers(&self) -> &Timers {
        &self.remotes[self.poller_owner()].timers
    }

    /// The worker whose driver serves what is made on this thread: its own, or for a thread that
    /// is no worker, the first that is not lost.
    pub(crate) fn poller_owner(&self) -> usize {
        worker::index(self).unwrap_or_else(|| self.first_served())
    }

    /// A worker's thread ends before its time: another one takes its place.
    pub(crate) fn replace_thread(&self, key: WorkerToken) {
        if let Err((_, key)) = self.launch(key) {
            self.lose_thread(key);
        }
    }

    /// Whether a thread was started for the worker.
    pub(crate) fn has_thread(&self, worker: usize) -> bool {
        !matches!(&*self.remotes[worker].seat.lock(), WorkerThread::Unborn(_))
    }

    /// The worker's thread has sat down.
    pub(crate) fn take_seat(&self, key: &WorkerToken, parker: Arc<Parker>) {
        self.remotes[key.0].watched.bind_thread();
        *self.remotes[key.0].seat.lock() = WorkerThread::Taken(parker);
    }

    fn shared(&self) -> Arc<Self> {
        self.me.upgrade().expect("borrowed from a reference that counts")
    }

    pub(crate) fn monitor(&self) -> &Monitor {
        &self.monitor
    }

    /// Starts the monitor's thread, or wakes it.
    #[cold]
    pub(crate) fn wake_monitor(&self) {
        let mut threads = self.lock_threads();
        if threads.closed {
            return;
        }
        if let Some(handle) = self.monitor.wake(|| self.shared()) {
            threads.handles.push(handle);
            threads.alive += 1;
        }
    }

    fn lock_threads(&self) -> MutexGuard<'_, Threads> {
        self.threads.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Something has ended, or a future of `block_on` rests, where nothing but the monitor looks.
    pub(crate) fn ended_elsewhere(&self) {
        if self.monitor.vigil.end() {
            self.wake_monitor();
        }
    }

    /// Runs a future on the calling thread, which is no worker.
    #[track_caller]
    pub(crate) fn block_on<F: Future>(&self, future: F, through: BlockOnVia) -> F::Output {
        self.estate.block_on(future, through, |held| self.park_in_block_on(held))
    }

    pub(crate) fn spawned_here(&self) -> u64 {
        self.heaps.iter().map(Arena::handed_out).sum()
    }

    pub(crate) fn for_each_task(&self, mut f: impl FnMut(TaskRef)) {
        for heap in &self.heaps {
            heap.for_each(&mut f);
        }
        self.estate.for_each_outside(f);
    }

    /// Lets nobody in any more and makes everybody leave.
    pub(crate) fn close(&self) {
        // By all who close: when one is done here, no more threads begin.
        self.lock_threads().closed = true;
        if !self.estate.start_closing() {
            return;
        }
        self.monitor.stop();
        self.leave_unborn();
        self.unpark_all();
        // A worker in one of the user's callbacks may be in `block_on`.
        self.estate.unpark_block_ons();
    }

    /// Every worker that sleeps is to look around once.
    pub(crate) fn unpark_all(&self) {
        for remote in &self.remotes {
            if let WorkerThread::Taken(parker) = &*remote.seat.lock() {
                parker.unpark();
            }
        }
    }

    /// Something has happened on this thread, which may be no worker: if it was
    /// fatal, the workers have to see it. The first to do so closes.
    pub(crate) fn spread_fatal(&self) {
        if self.estate.is_fatal() {
            self.unpark_all();
        }
    }

    /// Takes the place of workers that have no thread.
    fn leave_unborn(&self) {
        for remote in &self.remotes {
            let mut seat = remote.seat.lock();
            if !matches!(&*seat, WorkerThread::Unborn(_)) {
                continue;
            }
            *seat = WorkerThread::Starting;
            drop(seat);
            self.mark_found(remote);
            remote.meter.woke_up();
            self.leave();
        }
    }

    /// Counts a thread in that may come to hold tasks, unless the last one has
    /// left already.
    pub(crate) fn try_enter(&self) -> bool {
        if !self.attendance.try_enter_inside() {
            return false;
        }
        if self.attendance.try_take_seat() {
            return true;
        }
        self.leave_poll();
        false
    }

    /// Counts a thread in that looks at tasks, but moves none.
    pub(crate) fn try_enter_inside(&self) -> bool {
        self.attendance.try_enter_inside()
    }

    /// Runs `f`, which may move tasks, on a thread that is inside; not if the tasks were
    /// dropped already.
    pub(crate) fn while_seated(&self, f: impl FnOnce()) {
        if self.attendance.try_take_seat() {
            f();
            self.leave_seat();
        }
    }

    pub(crate) fn leave_seat(&self) {
        if self.attendance.leave_seat() == Left::Nobody {
            self.drop_tasks();
        }
    }

    /// A thread that ran tasks here leaves for good, or stops to hold any.
    pub(crate) fn leave(&self) {
        self.leave_seat();
        self.leave_poll();
    }

    /// A thread is about to block in place, and another one takes its seat.
    pub(crate) fn stay_in_poll(&self) {
        self.attendance.stay_in_poll();
    }

    /// That thread leaves for good: it may have put a task back when its poll
    /// ended. The last one closes up.
    pub(crate) fn leave_poll(&self) {
        if self.attendance.leave_inside() == Left::Nobody {
            self.close_up();
        }
    }

    /// By the last thread that has a seat, and once more by the last of all: no
    /// task can run any more, so every future that is left is dropped.
    ///
    /// The drivers go first: a destructor that waits for a timer or a socket of this runtime would
    /// otherwise wait for the thread that it is on.
    fn drop_tasks(&self) {
        let injected = self.injector.close();
        self.shut_drivers();
        for task in injected {
            task.cancel();
        }
        self.cores.iter().for_each(WorkerCore::drain);
        for heap in &self.heaps {
            heap.cancel_all();
        }
        self.estate.cancel_outside();
        self.estate.config.witness.drivers_shut();
    }

    /// Ends every wait for a timer or a descriptor of this runtime.
    pub(crate) fn shut_drivers(&self) {
        for remote in &self.remotes {
            remote.timers.close();
            if let Some(poller) = remote.poller.get() {
                poller.shut_down();
            }
        }
    }

    fn close_up(&self) {
        self.drop_tasks();
        let own = self.cores.iter().filter_map(WorkerCore::strip);
        for allocator in own.chain(self.estate.take_outside()) {
            // For the cells that outlive us; `last_cell_freed` gives it back,
            // or we do if there are none.
            self.leftover.lock().push(self.shared());
            if allocator.close().is_some() {
                let keep = self.leftover.lock().pop();
                drop(keep);
            }
        }
    }

    /// Waits for all threads, after `close`, until their thread-local destructors have run.
    pub(crate) fn join_threads(&self) {
        loop {
            let handles = std::mem::take(&mut self.lock_threads().handles);
            if handles.is_empty() {
                return;
            }
            for handle in handles {
                if handle.thread().id() != thread::current().id() {
                    // A worker catches its tasks' panics; what is left is a
                    // user's callback, already printed by its thread.
                    let _ = handle.join();
                }
            }
        }
    }

    /// Waits for all threads, after `close`, but not beyond `deadline`.
    pub(crate) fn join_threads_until(&self, deadline: Instant) {
        let mut threads = self.lock_threads();
        // A hook for reports may be what ends the runtime, on a thread of it.
        let is_own =
            |handle: &thread::JoinHandle<()>| handle.thread().id() == thread::current().id();
        let own = usize::from(threads.handles.iter().any(is_own));
        while threads.alive > own {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            threads = self.left.wait_timeout(threads, left).unwrap_or_else(|e| e.into_inner()).0;
        }
        drop(threads);
        self.join_threads();
    }
}

/// Tells those who wait that a thread has left, however it ends.
pub(crate) struct ThreadExitGuard(pub(crate) Arc<MultiThread>);

impl Drop for ThreadExitGuard {
    fn drop(&mut self) {
        self.0.lock_threads().alive -= 1;
        self.0.left.notify_all();
    }
}

impl Schedule for MultiThread {
    #[inline]
    fn schedule(&self, task: Runnable) {
        let task = match worker::push_local(self, task) {
            Ok(()) => return,
            Err(task) => task,
        };
        self.mark_injected(&task);
        match self.injector.push(task) {
            Ok(()) => self.notify(),
            Err(task) => task.discard(),
        }
    }

    #[inline]
    fn requeue(&self, task: Runnable) {
        let task = match worker::push_back(self, task) {
            Ok(()) => return,
            Err(task) => task,
        };
        match self.injector.push(task) {
            Ok(()) => self.notify(),
            // In no queue, but in the heap: whoever closes may have come across it.
            Err(task) => task.cancel_requeue(),
        }
    }

    fn orphaned(&self, task: &TaskRef) {
        self.estate.orphaned(task);
        self.spread_fatal();
    }

    fn panicked(&self, task: &Header, payload: &(dyn Any + Send)) {
        self.estate.panicked(task, payload);
        self.spread_fatal();
    }

    fn unobserved_panic(&self, task: &Header, payload: &(dyn Any + Send)) {
        self.estate.unobserved_panic(task, payload);
    }

    // SAFETY: asks nothing of its caller; there is one reference per heap.
    unsafe fn last_cell_freed(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        let keep = self.leftover.lock().pop()?;
        Some(keep)
    }
}
