//! Spare threads: while every worker is stuck in a poll, somebody else runs what is
//! in the injector, where the monitor puts what the workers cannot come to.
//!
//! A spare has no core: what is woken or spawned on it goes to the injector, its
//! timers and descriptors to the first worker's driver, which it turns as it does
//! those of the others. It leaves as soon as one of the workers has moved again.

use crate::scheduler::config::Role;
use crate::scheduler::multi_thread::{MultiThread, ThreadExitGuard};
use crate::sys::sync::Mutex;
use crate::sys::thread_state;
use crate::task::context;
use crate::telemetry::poll_watch::PollWatch;
use std::cell::Cell;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::thread;
use std::time::Duration;

/// How long a spare without work waits before it looks again. Only while all workers
/// are stuck.
const NAP: Duration = Duration::from_millis(1);

/// The spares that are there.
pub(crate) struct SpareWorkers {
    list: Mutex<Vec<Arc<PollWatch>>>,
    started: AtomicU64,
    polls: AtomicU64,
    /// How many polls everybody had begun at the last look, and for how many looks no more.
    /// Written by the monitor.
    seen: AtomicU64,
    still: AtomicU64,
}

/// After so many looks without a poll that begins, one more thread is started in any case:
/// those that compute may wait for a task that nobody comes to.
const STILL: u64 = 10;

impl SpareWorkers {
    pub(crate) fn new() -> Self {
        Self {
            list: Mutex::new(Vec::new()),
            started: AtomicU64::new(0),
            polls: AtomicU64::new(0),
            seen: AtomicU64::new(0),
            still: AtomicU64::new(0),
        }
    }

    pub(crate) fn all(&self) -> Vec<Arc<PollWatch>> {
        self.list.lock().clone()
    }

    /// How many were ever started.
    pub(crate) fn started(&self) -> u64 {
        self.started.load(Relaxed)
    }

    /// How many polls they have made, all together.
    pub(crate) fn polls(&self) -> u64 {
        self.polls.load(Relaxed)
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.list.lock().len()
    }

    /// Starts as many as there are, or one, unless there is one that is not stuck; if they compute,
    /// one, and only if nothing has happened for long. By the monitor, which is inside of the
    /// scheduler.
    pub(crate) fn send_for_more(&self, shared: &MultiThread) {
        let there = self.all();
        if there.iter().any(|spare| !spare.is_stuck()) {
            return;
        }
        // Threads that compute get no more done by being many; one more is for the tasks that
        // do not.
        let workers = shared.remotes.iter().map(|remote| &remote.watched);
        let all = workers.chain(there.iter().map(|spare| &**spare));
        let computing = all.filter(|watched| !thread_state::is_blocked(watched.thread())).count();
        let compute = computing > shared.remotes.len();
        if compute && !self.has_long_been_still(shared) {
            return;
        }
        let more = if compute { 1 } else { there.len().max(1) };
        let room = shared.estate.config.max_spare_threads.saturating_sub(there.len());
        for _ in 0..more.min(shared.injector.len()).min(room) {
            self.send_for_one(shared);
        }
    }

    /// Whether no poll has begun for a while, neither of a worker nor of a spare.
    fn has_long_been_still(&self, shared: &MultiThread) -> bool {
        let workers = shared.remotes.iter().map(|remote| u64::from(remote.watched.activity()));
        let begun = workers.sum::<u64>() + self.polls();
        let still = match self.seen.swap(begun, Relaxed) == begun {
            true => self.still.load(Relaxed) + 1,
            false => 0,
        };
        self.still.store(still % STILL, Relaxed);
        still >= STILL
    }

    fn send_for_one(&self, shared: &MultiThread) {
        if !shared.try_enter() {
            return;
        }
        let me = Arc::new(PollWatch::new());
        self.list.lock().push(me.clone());
        let started = shared.begin_thread(|shared| {
            let config = shared.estate.config.clone();
            let mine = me.clone();
            config.spawn_thread(Role::Worker, move || {
                let leaving = ThreadExitGuard(shared);
                SEATED.set(Arc::as_ptr(&leaving.0));
                let out = Out(&leaving.0, &mine);
                out.0.stand_in(&mine);
                drop(out);
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

/// A spare's time inside of the scheduler, which ends also if a callback panics.
struct Out<'a>(&'a Arc<MultiThread>, &'a Arc<PollWatch>);

impl Drop for Out<'_> {
    fn drop(&mut self) {
        context::wake_deferred();
        context::set_drains_deferred(false);
        self.0.spares.remove(self.1);
        if !self.0.injector.is_empty() {
            self.0.notify();
        }
        give_seat_up();
        self.0.leave_poll();
    }
}

thread_local! {
    /// The scheduler that this thread is a spare of, while it has a seat there.
    static SEATED: Cell<*const MultiThread> = const { Cell::new(ptr::null()) };
}

/// If this thread is a spare, it moves no tasks any more and leaves when its poll has ended. For a
/// closure that may block (A4).
pub(crate) fn give_seat_up() {
    // SAFETY: set by a spare, whose `Out` keeps the scheduler, and clears this.
    if let Some(shared) = unsafe { SEATED.replace(ptr::null()).as_ref() } {
        shared.leave_seat();
    }
}

impl MultiThread {
    /// Whether no worker will come to what is in the injector.
    pub(crate) fn is_all_stuck(&self) -> bool {
        self.remotes.iter().all(|remote| remote.watched.is_stuck())
    }

    /// Fires the timers of a worker that is stuck, and looks at its descriptors.
    pub(crate) fn turn_driver(&self, worker: usize) -> usize {
        let remote = &self.remotes[worker];
        let timers = remote.timers.fire_due(self.estate.config.seam.clock.tick());
        let poller = remote.poller.get();
        timers + poller.map_or(0, |poller| poller.poll(Some(Duration::ZERO)))
    }

    /// Waits for a moment, where descriptors are watched if there are any.
    fn nap(&self) {
        let pollers = self.remotes.iter().filter_map(|remote| remote.poller.get());
        let waited =
            pollers.filter(|poller| poller.needs_poll()).find_map(|it| it.try_poll(Some(NAP)));
        if waited.is_none() {
            thread::park_timeout(NAP);
        }
    }

    /// The life of a spare thread.
    fn stand_in(&self, me: &PollWatch) {
        let config = &self.estate.config;
        me.bind_thread();
        context::set_rng(Some(config.seam.rng()));
        context::set_drains_deferred(true);
        if let Some(callback) = &config.on_thread_start {
            callback();
        }
        while !SEATED.get().is_null()
            && self.is_all_stuck()
            && !self.estate.is_closing()
            && !self.estate.is_fatal()
        {
            self.estate.turned(config.seam.clock.now_approx());
            let Some(task) = self.injector.pop() else {
                for worker in 0..self.remotes.len() {
                    self.turn_driver(worker);
                }
                if self.injector.is_empty() {
                    self.nap();
                }
                continue;
            };
            self.spares.polls.fetch_add(1, Relaxed);
            me.start_poll(&task);
            task.run();
            context::wake_deferred();
            me.clear_running();
            self.ended_elsewhere();
        }
        give_seat_up();
        if let Some(callback) = &config.on_thread_stop {
            callback();
        }
    }
}
