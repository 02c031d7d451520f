//! The blocking pool: threads for closures that may block.
//!
//! Built for batches. Waking a thread costs more than most closures, and a
//! closure may also block for ever, so neither "wake one per closure" nor "wake
//! one for all" will do. The rule: while closures wait and a thread could still
//! be added, exactly one thread is *coming*. A thread that arrives takes a
//! closure and, if more wait, sends for the next thread before it runs its own;
//! a thread that finishes takes the next closure and sends for nobody. So short
//! closures are drained by a few threads, and behind closures that block, the
//! pool grows by one thread per wake-up until it is as large as it may be.
//!
//! All of it under one lock; the closure itself runs outside of it.

use crate::scheduler::config::{Config, Role};
use crate::sys::adaptive_spin::AdaptiveSpin;
use crate::sys::join::join_ended;
use crate::task::runnable::Runnable;
use std::cell::Cell;
use std::collections::VecDeque;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

pub(crate) struct BlockingPool {
    state: Mutex<State>,
    /// Signals idle threads: a closure waits, or the pool closes.
    work: Condvar,
    /// Signals whoever shuts down: a thread has left.
    left: Condvar,
    /// A closure waits: for the thread that spins, outside of the lock.
    waiting: AtomicBool,
    config: Arc<Config>,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Job>,
    /// Threads that take closures.
    threads: usize,
    /// Those, and the ones that are on their way out.
    alive: usize,
    idle: usize,
    /// A thread was woken or started and has not arrived yet.
    coming: bool,
    /// How many did not get past the user's callback, or its name, since one last did.
    failed_starts: usize,
    /// A thread looks at `waiting` and needs no wake-up.
    spinning: bool,
    closed: bool,
    handles: Vec<thread::JoinHandle<()>>,
}

/// So often a thread is started again for closures that no other comes to.
const MAX_FAILED_STARTS: usize = 3;

/// A thread's time in the pool.
struct PoolThreadGuard<'a> {
    pool: &'a Arc<BlockingPool>,
    /// It got past the user's callback.
    started: bool,
    /// Not counted among those that take closures any more.
    over: bool,
}

impl Drop for PoolThreadGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.pool.lock();
        if !self.over {
            state.threads -= 1;
        }
        state.alive -= 1;
        let mut stranded = VecDeque::new();
        if !self.started {
            // Whoever sent for it waits for nobody now; closures that have no
            // other thread to wait for are told.
            state.coming = false;
            if state.threads == 0 {
                stranded = std::mem::take(&mut state.queue);
            } else if !state.queue.is_empty() {
                // It was counted on for these.
                state.failed_starts += 1;
                if state.idle > 0 || state.failed_starts < MAX_FAILED_STARTS {
                    self.pool.send_for_thread(state);
                    state = self.pool.lock();
                }
            }
        }
        drop(state);
        self.pool.cancel(stranded);
        // Last of all: whoever shuts down may go on after this.
        self.pool.left.notify_all();
    }
}

/// A closure, as a task.
pub(crate) struct Job {
    pub(crate) task: Runnable,
    /// Runs even if the pool closes before its turn: whatever a user asked for, who may have
    /// something saved on the way out, and what must not be lost of ours.
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
            left: Condvar::new(),
            waiting: AtomicBool::new(false),
            config,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Queues a closure. On a closed pool it is cancelled at once.
    #[track_caller]
    pub(crate) fn push(self: &Arc<Self>, job: Job) {
        let mut state = self.lock();
        if state.closed {
            drop(state);
            return job.task.cancel_spawn();
        }
        self.config.seam.clock.hold_auto_advance();
        state.queue.push_back(job);
        self.waiting.store(true, Release);
        if !state.coming && !state.spinning {
            self.send_for_thread(state);
        }
    }

    /// Wakes an idle thread or starts one, if either is possible.
    #[track_caller]
    fn send_for_thread(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        if state.idle > 0 {
            state.coming = true;
            drop(state);
            self.work.notify_one();
            return;
        }
        if state.threads >= self.config.max_blocking_threads {
            return; // those there are come to it
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
            // It may be for its name, which the next has another of.
            Err(_) if state.failed_starts + 1 < MAX_FAILED_STARTS => {
                state.failed_starts += 1;
                self.send_for_thread(state);
            }
            // Threads that exist will come to it; without any, nobody would.
            Err(_) if state.threads > 0 => {}
            Err(error) => {
                let job = state.queue.pop_back();
                drop(state);
                if let Some(job) = job {
                    job.task.cancel_spawn();
                    self.release_clock(1);
                    self.config.witness.ended_elsewhere();
                }
                panic!("OS can't spawn worker thread: {error}");
            }
        }
    }

    /// So many closures are done: time may pass without them.
    fn release_clock(&self, closures: usize) {
        for _ in 0..closures {
            if self.config.seam.clock.release_auto_advance() {
                self.config.witness.time_may_pass();
            }
        }
    }

    /// The whole life of a pool thread.
    fn work(self: &Arc<Self>) {
        OWN_POOL.with(|pool| pool.set(Arc::as_ptr(self)));
        // Counted out however the thread ends: a user's callback may panic.
        let mut shift = PoolThreadGuard { pool: self, started: false, over: false };
        if let Some(callback) = &self.config.on_thread_start {
            callback();
        }
        shift.started = true;
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
                        shift.over = true;
                        break;
                    }
                }
                continue;
            };
            self.waiting.store(!state.queue.is_empty(), Release);
            if arrived && !state.coming && !state.queue.is_empty() {
                self.send_for_thread(state);
            } else {
                drop(state);
            }
            arrived = false;
            job.task.run();
            self.release_clock(1);
            // If closures wait, the last of those tells.
            if !self.waiting.load(Acquire) {
                self.config.witness.ended_elsewhere();
            }
        }
        if let Some(callback) = &self.config.on_thread_stop {
            callback();
        }
    }

    /// Waits for a closure. `Some(true)`: this thread has arrived, and sends for
    /// the next one if more closures wait; `None`: it is to end.
    fn wait(&self, mut state: MutexGuard<'_, State>, spinner: &mut AdaptiveSpin) -> Option<bool> {
        if state.closed {
            state.threads -= 1;
            return None;
        }
        if spinner.should_spin() && !state.spinning {
            state.spinning = true;
            drop(state);
            spinner.spin(|_| self.waiting.load(Acquire));
            self.lock().spinning = false;
            // What was pushed meanwhile sent for nobody: this thread counts as
            // the one that was sent for.
            return Some(true);
        }
        state.idle += 1;
        let slept = Instant::now();
        // None: for ever.
        let deadline = slept.checked_add(self.config.thread_keep_alive);
        loop {
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            state = self.wait_for_work(state, left);
            if state.coming || state.closed {
                state.idle -= 1;
                spinner.record_sleep(slept.elapsed().as_nanos() as u64);
                // Another thread may have been quicker than the one sent for;
                // then this one takes its place.
                let sent_for = std::mem::take(&mut state.coming);
                return Some(sent_for);
            }
            if left.is_some_and(|left| left.is_zero()) {
                if !state.queue.is_empty() {
                    // Whoever was sent for has not come.
                    state.idle -= 1;
                    return Some(true);
                }
                // Under the same lock under which it found nothing: whoever
                // comes next does not count on it.
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

    /// Lets nothing in any more. Closures that wait still run, except those that are not
    /// mandatory (reads of ours that nobody waits for any more); of these the first does, if
    /// there is a thread for it.
    pub(crate) fn close(&self) {
        let dropped: VecDeque<Job> = {
            let mut state = self.lock();
            state.closed = true;
            let starting = usize::from(state.coming || state.spinning).min(state.queue.len());
            let (keep, dropped) = state.queue.drain(starting..).partition(|job| job.mandatory);
            let keep: VecDeque<Job> = keep;
            state.queue.extend(keep);
            dropped
        };
        self.work.notify_all();
        self.cancel(dropped);
    }

    /// Drops closures instead of running them.
    fn cancel(&self, jobs: VecDeque<Job>) {
        let count = jobs.len();
        for job in jobs {
            job.task.cancel();
        }
        self.release_clock(count);
        if count > 0 {
            self.config.witness.ended_elsewhere();
        }
    }

    /// Waits until every thread has left, at most `limit`, and joins them: their thread-local
    /// destructors have run when this returns true. False: some are still there.
    pub(crate) fn join(&self, limit: Option<Duration>) -> bool {
        let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
        // A closure of this very pool that drops the runtime does not wait for
        // itself.
        let own = usize::from(OWN_POOL.with(|pool| ptr::eq(pool.get(), self)));
        let mut state = self.lock();
        while state.alive > own {
            state = match deadline {
                None => self.left.wait(state).unwrap_or_else(|e| e.into_inner()),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return false;
                    }
                    self.left.wait_timeout(state, left).unwrap_or_else(|e| e.into_inner()).0
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

    /// Whether nothing is let in any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Threads, those of them without a closure, and closures that wait for one.
    pub(crate) fn look(&self) -> (usize, usize, usize) {
        let state = self.lock();
        (state.threads, state.idle, state.queue.len())
    }

    pub(crate) fn threads(&self) -> usize {
        self.lock().threads
    }
}
