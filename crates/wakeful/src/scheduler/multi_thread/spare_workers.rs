//! Spare workers: threads that run the tasks in the injector while every worker is stuck in a poll.
//!
//! The watchdog moves the tasks of stuck workers to the injector (`watchdog::rescue`) and starts spare
//! workers for them.
//!
//! A spare worker has no core. Tasks that are woken or spawned on it go to the injector. Its timers
//! and descriptors go to the first worker's driver. It polls the drivers of all workers, and exits
//! as soon as a worker has left its poll.

use crate::scheduler::config::Role;
use crate::scheduler::multi_thread::{MultiThread, ThreadExitGuard};
use crate::sys::sync::Mutex;
use crate::sys::{thread_registry, thread_state};
use crate::task::context;
use crate::telemetry::poll_watch::PollWatch;
use std::cell::Cell;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::thread;
use std::time::Duration;

/// How long a spare worker without work waits before it searches again.
const NAP: Duration = Duration::from_millis(1);

/// The spare workers of a scheduler.
pub(crate) struct SpareWorkers {
    list: Mutex<Vec<Arc<PollWatch>>>,
    started: AtomicU64,
    polls: AtomicU64,
    /// The number of polls that workers and spare workers had begun at the last visit. Written by
    /// the watchdog.
    seen_polls: AtomicU64,
    /// The number of consecutive visits in which `seen_polls` did not change.
    stalled_visits: AtomicU64,
}

/// The number of visits without a new poll after which one more spare worker starts in any case.
///
/// It starts even for CPU-bound tasks, because they may wait for a task that no thread runs.
const MAX_STALLED_VISITS: u64 = 10;

impl SpareWorkers {
    pub(crate) fn new() -> Self {
        Self {
            list: Mutex::new(Vec::new()),
            started: AtomicU64::new(0),
            polls: AtomicU64::new(0),
            seen_polls: AtomicU64::new(0),
            stalled_visits: AtomicU64::new(0),
        }
    }

    pub(crate) fn all(&self) -> Vec<Arc<PollWatch>> {
        self.list.lock().clone()
    }

    /// Returns how many spare workers have been started.
    pub(crate) fn started(&self) -> u64 {
        self.started.load(Relaxed)
    }

    /// Returns how many times spare workers have polled a task.
    pub(crate) fn polls(&self) -> u64 {
        self.polls.load(Relaxed)
    }

    /// Returns the number of spare workers.
    pub(crate) fn len(&self) -> usize {
        self.list.lock().len()
    }

    /// Doubles the number of spare workers if every one is stuck.
    ///
    /// If the stuck threads are CPU-bound, adds one, and only after [`MAX_STALLED_VISITS`] visits
    /// without a new poll. Called by the watchdog, which is attached to the scheduler.
    pub(crate) fn start_more(&self, shared: &MultiThread) {
        let there = self.all();
        if there.iter().any(|spare| !spare.is_stuck()) {
            return;
        }
        // More threads do not speed up CPU-bound tasks; one more is for other tasks.
        let workers = shared.workers.iter().map(|worker| &worker.poll_watch);
        let all = workers.chain(there.iter().map(|spare| &**spare));
        let computing =
            all.filter(|poll_watch| !thread_state::is_blocked(poll_watch.thread())).count();
        let is_cpu_bound = computing > shared.workers.len();
        if is_cpu_bound && !self.count_stalled_visit(shared) {
            return;
        }
        let more = if is_cpu_bound { 1 } else { there.len().max(1) };
        let room = shared.base.config.max_spare_threads.saturating_sub(there.len());
        for _ in 0..more.min(shared.injector.len()).min(room) {
            self.start_one(shared);
        }
    }

    /// Counts a visit without a new poll. At [`MAX_STALLED_VISITS`], returns true and resets the
    /// count.
    fn count_stalled_visit(&self, shared: &MultiThread) -> bool {
        let workers = shared.workers.iter().map(|worker| u64::from(worker.poll_watch.activity()));
        let begun = workers.sum::<u64>() + self.polls();
        let stalled = match self.seen_polls.swap(begun, Relaxed) == begun {
            true => self.stalled_visits.load(Relaxed) + 1,
            false => 0,
        };
        self.stalled_visits.store(stalled % MAX_STALLED_VISITS, Relaxed);
        stalled >= MAX_STALLED_VISITS
    }

    fn start_one(&self, shared: &MultiThread) {
        if !shared.try_enter() {
            return;
        }
        let me = Arc::new(PollWatch::new());
        self.list.lock().push(me.clone());
        let started = shared.begin_thread(|shared| {
            let config = shared.base.config.clone();
            let mine = me.clone();
            config.spawn_thread(Role::Worker, move || {
                let leaving = ThreadExitGuard(shared);
                ACTIVE_SPARE.set(Arc::as_ptr(&leaving.0));
                let guard = SpareGuard(&leaving.0, &mine);
                guard.0.run_spare(&mine);
                drop(guard);
            })
        });
        if started.is_err() {
            self.remove(&me);
            shared.leave();
        } else {
            self.started.fetch_add(1, Relaxed);
        }
    }

    fn remove(&self, me: &Arc<PollWatch>) {
        self.list.lock().retain(|other| !Arc::ptr_eq(other, me));
    }
}

/// A guard that detaches a spare worker from the scheduler, even if a user callback panics.
struct SpareGuard<'a>(&'a Arc<MultiThread>, &'a Arc<PollWatch>);

impl Drop for SpareGuard<'_> {
    fn drop(&mut self) {
        context::wake_deferred();
        context::set_drains_deferred(false);
        self.0.spares.remove(self.1);
        if !self.0.injector.is_empty() {
            self.0.notify();
        }
        deactivate_spare();
        self.0.detach();
    }
}

thread_local! {
    /// The scheduler for which this thread is an active spare worker.
    static ACTIVE_SPARE: Cell<*const MultiThread> = const { Cell::new(ptr::null()) };
}

/// Deactivates the calling thread if it is a spare worker, before a closure that may block
/// (SHUTDOWN-4).
///
/// The thread moves no more tasks, and exits after its poll.
pub(crate) fn deactivate_spare() {
    // SAFETY: the pointer is set by a spare worker, whose `SpareGuard` keeps the scheduler alive
    // and clears the pointer.
    if let Some(shared) = unsafe { ACTIVE_SPARE.replace(ptr::null()).as_ref() } {
        shared.deactivate();
    }
}

/// Keeps the calling spare worker active while it holds a queue entry outside of a poll (SHUTDOWN-1).
///
/// A user hook may call `block_in_place` at that point. If the thread became inactive, the thread
/// that shuts the scheduler down would drop the future of the task whose entry this thread holds.
struct HoldsEntry(Cell<*const MultiThread>);

impl HoldsEntry {
    fn new() -> Self {
        Self(Cell::new(ACTIVE_SPARE.replace(ptr::null())))
    }

    /// Reenables `deactivate_spare`, because a poll begins, or a hook panics and the entry is
    /// dropped.
    fn end(&self) {
        let scheduler = self.0.replace(ptr::null());
        if !scheduler.is_null() {
            ACTIVE_SPARE.set(scheduler);
        }
    }
}

impl Drop for HoldsEntry {
    fn drop(&mut self) {
        self.end();
    }
}

impl MultiThread {
    /// Returns whether every worker is stuck, so that none will take a task from the injector.
    pub(crate) fn is_all_stuck(&self) -> bool {
        self.workers.iter().all(|worker| worker.poll_watch.is_stuck())
    }

    /// Fires the expired timers of a stuck or lost worker, and polls its descriptors. Returns the
    /// number of events and fired timers.
    pub(crate) fn poll_driver(&self, worker: usize) -> usize {
        let shared = &self.workers[worker];
        let timers = shared.timers.fire_due(self.base.config.env.clock.tick());
        let poller = shared.poller.get();
        timers + poller.map_or(0, |poller| poller.poll(Some(Duration::ZERO)))
    }

    /// Waits for [`NAP`], in a poller if one has sources.
    fn nap(&self) {
        let pollers = self.workers.iter().filter_map(|worker| worker.poller.get());
        let waited =
            pollers.filter(|poller| poller.needs_poll()).find_map(|it| it.try_poll(Some(NAP)));
        if waited.is_none() {
            thread::park_timeout(NAP);
        }
    }

    /// Runs tasks as a spare worker until a worker has left its poll, or the runtime closes.
    fn run_spare(&self, me: &PollWatch) {
        let config = &self.base.config;
        me.bind_thread();
        context::set_rng(Some(config.env.rng()));
        context::set_drains_deferred(true);
        config.call_on_thread_start();
        while !ACTIVE_SPARE.get().is_null()
            && self.is_all_stuck()
            && !self.base.is_closing()
            && !self.base.has_fatal_error()
        {
            self.base.publish_clock(config.env.clock.now_approx());
            let Some(task) = self.injector.pop() else {
                for worker in 0..self.workers.len() {
                    self.poll_driver(worker);
                }
                if self.injector.is_empty() {
                    self.nap();
                }
                continue;
            };
            self.spares.polls.fetch_add(1, Relaxed);
            let holds_entry = HoldsEntry::new();
            config.observe_poll(task, None, |task| {
                holds_entry.end();
                me.start_poll(&task);
                task.run();
                context::wake_deferred();
                me.clear_running();
            });
            self.base.notify_progress();
        }
        thread_registry::set_runs_user_code(true);
        deactivate_spare();
        if let Some(callback) = &config.on_thread_stop {
            callback();
        }
    }
}
