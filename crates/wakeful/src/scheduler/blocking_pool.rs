//! The blocking pool: threads for closures that may block.
//!
//! Waking a thread costs more than most closures, but a closure may also block forever. So neither
//! "wake one thread per closure" nor "wake one thread for all" works. The rule: while closures wait
//! and a thread could be added, one thread is *coming*, or is spinning and finds them. A thread
//! that arrives takes a closure. If more closures wait, the thread requests the next one before it
//! runs its closure. A thread that finishes a closure takes the next closure and requests no
//! thread. So a few threads run many short closures. If closures block, the pool grows by one
//! thread per wake-up, up to its limit.
//!
//! One lock protects the whole state. Closures run outside the lock.

use crate::scheduler::config::{Config, Role};
use crate::sys::adaptive_spin::AdaptiveSpin;
use crate::sys::join::join_ended;
use crate::sys::real_time;
use crate::sys::thread_registry;
use crate::task::runnable::Runnable;
use std::cell::Cell;
use std::collections::VecDeque;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

/// The blocking pool of a runtime.
pub(crate) struct BlockingPool {
    state: Mutex<State>,
    /// Notified when a closure waits or the pool closes.
    work: Condvar,
    /// Notified when a thread exits.
    thread_exited: Condvar,
    /// Whether a closure waits. The spinning thread reads this without the lock.
    waiting: AtomicBool,
    config: Arc<Config>,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Job>,
    /// The number of closures pushed so far.
    pushed: u64,
    /// The number of threads that take closures.
    threads: usize,
    /// The number of threads that take closures or are about to exit.
    alive: usize,
    idle: usize,
    /// Whether a thread was woken or started and has not arrived yet.
    coming: bool,
    /// The number of consecutive threads that failed in the user's callback or thread-name
    /// function.
    failed_starts: usize,
    /// Whether a thread spins on `waiting` and needs no wake-up.
    spinning: bool,
    closed: bool,
    handles: Vec<thread::JoinHandle<()>>,
}

/// The number of consecutive failed starts after which no thread is started for waiting closures.
const MAX_FAILED_STARTS: usize = 3;

/// A guard that decrements the pool's thread counts when it is dropped.
struct PoolThreadGuard<'a> {
    pool: &'a Arc<BlockingPool>,
    /// Whether the user's `on_thread_start` callback has returned.
    started: bool,
    /// Whether the thread is no longer counted in `threads`.
    is_uncounted: bool,
}

impl Drop for PoolThreadGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.pool.lock();
        if !self.is_uncounted {
            state.threads -= 1;
        }
        state.alive -= 1;
        let mut stranded = VecDeque::new();
        if !self.started {
            // This thread was the coming one. If no other thread will run the waiting closures,
            // they are cancelled.
            state.coming = false;
            if state.threads == 0 {
                stranded = std::mem::take(&mut state.queue);
            } else if !state.queue.is_empty() {
                // The waiting closures rely on this thread.
                state.failed_starts += 1;
                if state.idle > 0 || state.failed_starts < MAX_FAILED_STARTS {
                    self.pool.request_thread(state);
                    state = self.pool.lock();
                }
            }
        }
        drop(state);
        self.pool.cancel(stranded);
        // Must be the last step: after it, the thread that shuts down may continue.
        self.pool.thread_exited.notify_all();
    }
}

/// A closure that waits in the pool.
pub(crate) struct Job {
    pub(crate) task: Runnable,
    /// Whether the closure runs even if the pool closes before a thread takes it. True for all user
    /// closures, which may save data at exit, and for internal closures that must not be lost.
    pub(crate) mandatory: bool,
}

thread_local! {
    /// The pool that this thread belongs to.
    static OWN_POOL: Cell<*const BlockingPool> = const { Cell::new(ptr::null()) };
}

impl BlockingPool {
    pub(crate) fn new(config: Arc<Config>) -> Self {
        Self {
            state: Mutex::new(State::default()),
            work: Condvar::new(),
            thread_exited: Condvar::new(),
            waiting: AtomicBool::new(false),
            config,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Queues a closure. If the pool is closed, cancels the closure at once.
    #[track_caller]
    pub(crate) fn push(self: &Arc<Self>, job: Job) {
        let mut state = self.lock();
        if state.closed {
            drop(state);
            return job.task.cancel_spawn();
        }
        state.pushed += 1;
        self.config.env.clock.hold_auto_advance();
        state.queue.push_back(job);
        self.waiting.store(true, Release);
        if !state.coming && !state.spinning {
            self.request_thread(state);
        }
    }

    /// Wakes an idle thread or starts one, if either is possible.
    ///
    /// # Panics
    ///
    /// If the pool has no thread and none can be started.
    #[track_caller]
    fn request_thread(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        if state.idle > 0 {
            state.coming = true;
            drop(state);
            self.work.notify_one();
            return;
        }
        if state.threads >= self.config.max_blocking_threads {
            return; // an existing thread will take the closure
        }
        let this = self.clone();
        match self.config.spawn_thread(Role::Blocking, move || this.work()) {
            Ok(handle) => {
                state.coming = true;
                state.threads += 1;
                state.alive += 1;
                join_ended(&mut state.handles);
                state.handles.push(handle);
            }
            // The thread-name function may have failed, and its next call may succeed.
            Err(_) if state.failed_starts + 1 < MAX_FAILED_STARTS => {
                state.failed_starts += 1;
                self.request_thread(state);
            }
            // An existing thread will take the closure.
            Err(_) if state.threads > 0 => {}
            Err(error) => {
                let job = state.queue.pop_back();
                drop(state);
                if let Some(job) = job {
                    job.task.cancel_spawn();
                    self.release_clock(1);
                    self.config.hooks.notify_progress();
                }
                panic!("OS can't spawn worker thread: {error}");
            }
        }
    }

    /// Releases a paused clock that `closures` closures kept from advancing.
    fn release_clock(&self, closures: usize) {
        for _ in 0..closures {
            if self.config.env.clock.release_auto_advance() {
                self.config.hooks.auto_advance_released();
            }
        }
    }

    /// Runs a pool thread from start to exit.
    fn work(self: &Arc<Self>) {
        OWN_POOL.with(|pool| pool.set(Arc::as_ptr(self)));
        // The guard updates the counts even if a callback of the user panics.
        let mut guard = PoolThreadGuard { pool: self, started: false, is_uncounted: false };
        self.config.call_on_thread_start();
        guard.started = true;
        let mut state = self.lock();
        (state.coming, state.failed_starts) = (false, 0);
        drop(state);
        let mut arrived = true;
        let mut spinner = AdaptiveSpin::new();
        loop {
            let mut state = self.lock();
            let Some(job) = state.queue.pop_front() else {
                self.waiting.store(false, Release);
                match self.wait(state, &mut spinner) {
                    Some(woken) => arrived = woken,
                    None => {
                        guard.is_uncounted = true;
                        break;
                    }
                }
                continue;
            };
            self.waiting.store(!state.queue.is_empty(), Release);
            if arrived && !state.coming && !state.queue.is_empty() {
                self.request_thread(state);
            } else {
                drop(state);
            }
            arrived = false;
            job.task.run();
            self.release_clock(1);
            // If closures wait, the thread that runs the last of them notifies the watchdog.
            if !self.waiting.load(Acquire) {
                self.config.hooks.notify_progress();
            }
        }
        if let Some(callback) = &self.config.on_thread_stop {
            callback();
        }
    }

    /// Waits for a closure.
    ///
    /// Returns `Some(true)` if this thread was the coming one: it must request the next thread if
    /// more closures wait. Returns `None` if the thread must exit.
    fn wait(&self, mut state: MutexGuard<'_, State>, spinner: &mut AdaptiveSpin) -> Option<bool> {
        if state.closed {
            thread_registry::set_runs_user_code(true);
            state.threads -= 1;
            return None;
        }
        if spinner.should_spin() && !state.spinning {
            state.spinning = true;
            drop(state);
            spinner.spin(|_| self.waiting.load(Acquire));
            self.lock().spinning = false;
            // Pushes during the spin requested no thread, so this thread counts as the requested one.
            return Some(true);
        }
        state.idle += 1;
        let slept = real_time::now();
        // `None` means no limit.
        let deadline = slept.checked_add(self.config.thread_keep_alive);
        loop {
            let left = deadline.map(|at| at.saturating_duration_since(real_time::now()));
            state = self.wait_for_work(state, left);
            if state.coming || state.closed {
                state.idle -= 1;
                spinner.record_sleep(slept.elapsed().as_nanos() as u64);
                // A thread that arrives before the requested thread takes its place.
                let was_coming = std::mem::take(&mut state.coming);
                return Some(was_coming);
            }
            if left.is_some_and(|left| left.is_zero()) {
                if !state.queue.is_empty() {
                    // The requested thread has not arrived yet.
                    state.idle -= 1;
                    return Some(true);
                }
                // This happens under the same lock as the empty-queue check, so the next push does
                // not rely on this thread. A scan that sees one idle thread fewer also sees that
                // this thread runs user code.
                thread_registry::set_runs_user_code(true);
                state.idle -= 1;
                state.threads -= 1;
                return None;
            }
        }
    }

    fn wait_for_work<'a>(
        &self,
        state: MutexGuard<'a, State>,
        limit: Option<Duration>,
    ) -> MutexGuard<'a, State> {
        match limit {
            None => self.work.wait(state).unwrap_or_else(|e| e.into_inner()),
            Some(limit) => {
                self.work.wait_timeout(state, limit).unwrap_or_else(|e| e.into_inner()).0
            }
        }
    }

    /// Closes the pool: new closures are cancelled.
    ///
    /// Waiting mandatory closures still run. The others are internal reads whose result is no
    /// longer needed; of these only the first runs, if a thread is coming for it.
    pub(crate) fn close(&self) {
        let dropped: VecDeque<Job> = {
            let mut state = self.lock();
            state.closed = true;
            let starting = usize::from(state.coming || state.spinning).min(state.queue.len());
            let rest = state.queue.split_off(starting);
            let (keep, dropped) = rest.into_iter().partition(|job| job.mandatory);
            let keep: VecDeque<Job> = keep;
            state.queue.extend(keep);
            dropped
        };
        self.work.notify_all();
        self.cancel(dropped);
    }

    /// Cancels closures.
    fn cancel(&self, jobs: VecDeque<Job>) {
        let count = jobs.len();
        for job in jobs {
            job.task.cancel();
        }
        self.release_clock(count);
        if count > 0 {
            self.config.hooks.notify_progress();
        }
    }

    /// Joins all threads, waiting until `deadline` at most.
    ///
    /// Returns true if all thread-local destructors have run, and false if a thread is still alive.
    pub(crate) fn join_until(&self, deadline: Option<Instant>) -> bool {
        // A closure of this pool may drop the runtime. Then its thread must not wait for itself.
        let own = usize::from(OWN_POOL.with(|pool| ptr::eq(pool.get(), self)));
        let mut state = self.lock();
        while state.alive > own {
            state = match deadline {
                None => self.thread_exited.wait(state).unwrap_or_else(|e| e.into_inner()),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(real_time::now());
                    if left.is_zero() {
                        return false;
                    }
                    self.thread_exited
                        .wait_timeout(state, left)
                        .unwrap_or_else(|e| e.into_inner())
                        .0
                }
            };
        }
        let handles = std::mem::take(&mut state.handles);
        drop(state);
        for handle in handles {
            if handle.thread().id() != thread::current().id() {
                let _ = handle.join();
            }
        }
        true
    }

    /// Returns whether the pool is closed for new closures.
    pub(crate) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Returns the numbers of threads, of idle threads, and of waiting closures.
    pub(crate) fn counts(&self) -> (usize, usize, usize) {
        let state = self.lock();
        (state.threads, state.idle, state.queue.len())
    }

    /// Returns how many closures have been pushed.
    pub(crate) fn pushed(&self) -> u64 {
        self.lock().pushed
    }

    pub(crate) fn threads(&self) -> usize {
        self.lock().threads
    }
}
