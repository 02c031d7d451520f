//! Workers that have lost their thread; other threads serve their drivers until a new thread
//! starts.
//!
//! A worker is *lost* if its thread exits or blocks in place and no thread can replace it. The
//! kernel refuses a thread, or a user callback panics. The [`WorkerToken`] of a lost worker is in
//! its thread slot (`WorkerThread::NotStarted`). The next wake-up of the worker tries to start a
//! thread again. A thread that blocks in place takes the token back when its closure returns.
//!
//! Timers and descriptors of a lost worker stay registered with it. Its driver is polled by
//!
//! - sleeping workers, which wake up for it,
//! - busy workers, between two of their own rounds,
//! - the watchdog with each visit; it also waits in the lost worker's poller (`watchdog::rescue`), so
//!   no other helper has to wake up for descriptors,
//! - threads in `block_on`, because there may be neither another worker nor a watchdog.
//!
//! These are the *helpers*. From the timers and sources of lost workers, a helper computes how long
//! it may sleep. Two events shorten that time: a worker is lost, or a timer or descriptor is
//! registered with a lost worker.
//!
//! - LOST-1. The losing thread sets `is_lost` and the count, and then wakes all helpers.
//! - LOST-2. A registering thread registers, and then reads `is_lost`. If the flag is set, the
//!   thread wakes all helpers.
//! - LOST-3. A helper reads the count and `is_lost`, then the timers and sources, and then parks.
//!
//! The race to fear: no helper wakes up for a new registration. It cannot happen: all accesses are
//! SeqCst. If the registering thread reads `is_lost` as unset, the store of LOST-1 comes later, so
//! the helpers that LOST-1 wakes see the registration. If it reads `is_lost` as set, it wakes the
//! helpers itself. A helper that is about to park finds the token (`sys::park`). (Model:
//! `models/lost_workers.rs`.)

use crate::scheduler::block_on::BlockOnGuard;
use crate::scheduler::multi_thread::core::WorkerToken;
use crate::scheduler::multi_thread::idle::BeforeParking;
use crate::scheduler::multi_thread::maintenance::DRIVER_OVERDUE_MS;
use crate::scheduler::multi_thread::worker;
use crate::scheduler::multi_thread::{MultiThread, WorkerShared, WorkerThread};
use crate::sys::park::Parker;
use crate::task::runnable::Runnable;
use std::iter;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::time::Duration;

/// The interval at which helpers poll a lost worker's descriptors if no watchdog waits for them.
const HELP_INTERVAL: Duration = Duration::from_millis(DRIVER_OVERDUE_MS as u64);

/// The number of consecutive panics of `on_thread_start` after which a worker is lost.
const MAX_FAILED_STARTS: u32 = 8;
/// The delay before another start for a worker that has failed [`MAX_FAILED_STARTS`] times.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Counts the workers that have lost their thread.
pub(crate) struct LostWorkers {
    count: AtomicUsize,
    /// The number of workers whose threads have failed [`MAX_FAILED_STARTS`] times in a row.
    failing: AtomicUsize,
}

impl LostWorkers {
    pub(crate) fn new() -> Self {
        Self { count: AtomicUsize::new(0), failing: AtomicUsize::new(0) }
    }

    /// Returns whether a worker is lost.
    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        self.count.load(SeqCst) > 0
    }
}

/// The result of [`MultiThread::reclaim`].
#[must_use]
pub(crate) enum Reclaimed {
    Yes(WorkerToken),
    /// Another thread has the worker, or the runtime has closed.
    No,
}

impl MultiThread {
    /// Marks a worker as lost: its thread exits or blocks in place, and no other thread can be
    /// started.
    ///
    /// If the runtime shuts down, the worker leaves the scheduler instead.
    pub(crate) fn lose_thread(&self, token: WorkerToken) {
        let index = token.0;
        let (core, shared) = (&self.cores[index], &self.workers[index]);
        let searching = core.searching.replace(false);
        // This thread is active, so the injector is open (SHUTDOWN-1).
        let queued: Vec<Runnable> = iter::from_fn(|| core.take_queued()).collect();
        if !queued.is_empty() {
            shared.metrics.add_moved_out(queued.len());
            self.injector.push_batch(queued);
        }
        let mut thread = shared.thread.lock();
        // Read under the lock: the closing thread sets this before it reads the thread slot.
        if self.base.is_closing() {
            drop(thread);
            return self.leave();
        }
        shared.metrics.mark_asleep_if_awake(self.base.config.env.clock.now_approx());
        if !shared.is_lost.swap(true, SeqCst) {
            self.lost.count.fetch_add(1, SeqCst); // LOST-1
        }
        *thread = WorkerThread::NotStarted(token);
        // Called under the lock: a thread that wakes or reclaims the worker sees both stores or
        // neither.
        let before = self.idle.lose(index, searching);
        drop(thread);
        if before == BeforeParking::SearchAgain && self.is_work_anywhere() {
            self.notify();
        }
        self.wake_helpers();
    }

    /// Takes a worker back for a thread that blocked in place, if the worker is still lost.
    pub(crate) fn reclaim(&self, index: usize, parker: &Arc<Parker>) -> Reclaimed {
        let shared = &self.workers[index];
        let mut thread = shared.thread.lock();
        let token = match std::mem::replace(&mut *thread, WorkerThread::Running(parker.clone())) {
            WorkerThread::NotStarted(token) => token,
            other => {
                *thread = other;
                return Reclaimed::No;
            }
        };
        // If the worker was chosen to be woken, it counts as a searcher.
        self.cores[index].searching.set(!self.idle.cancel_sleep(index));
        shared.metrics.mark_awake();
        self.mark_found(shared);
        Reclaimed::Yes(token)
    }

    /// Resets a worker's failed starts and lost mark, after `on_thread_start` has returned.
    pub(crate) fn mark_started(&self, index: usize) {
        let core = &self.cores[index];
        if core.failed_starts.replace(0) >= MAX_FAILED_STARTS {
            self.lost.failing.fetch_sub(1, SeqCst);
        }
        self.mark_found(&self.workers[index]);
    }

    /// Clears the lost mark of a worker that has a thread again, or whose runtime shuts down.
    pub(crate) fn mark_found(&self, shared: &WorkerShared) {
        if shared.is_lost.load(Relaxed) && shared.is_lost.swap(false, SeqCst) {
            self.lost.count.fetch_sub(1, SeqCst);
        }
    }

    /// Replaces a thread that exits because a user callback panicked.
    ///
    /// After [`MAX_FAILED_STARTS`] panics in a row the worker is lost. If that happens to all
    /// workers, the runtime shuts down. After a panic of `on_thread_park` the worker is lost until
    /// the next wake-up. It has no work, and a new thread would park at once and panic again.
    pub(crate) fn thread_failed(&self, token: WorkerToken) {
        let core = &self.cores[token.0];
        if core.has_failed_to_park.replace(false) {
            self.lose_thread(token);
            // The worker is now on the list of sleepers. A task that was queued before woke no
            // thread.
            if self.is_work_anywhere() {
                self.notify();
            }
            return;
        }
        let failed = core.failed_starts.get() + 1;
        core.failed_starts.set(failed);
        if failed < MAX_FAILED_STARTS {
            return self.replace_thread(token);
        }
        core.retry_at.set(self.base.config.env.clock.elapsed() + RETRY_AFTER);
        let is_first = failed == MAX_FAILED_STARTS;
        let failing = self.lost.failing.fetch_add(usize::from(is_first), SeqCst);
        let is_last_to_fail = is_first && failing + 1 == self.workers.len();
        self.lose_thread(token);
        if is_last_to_fail {
            self.base.fail_block_ons(format!(
                "no worker thread of this runtime can start: `on_thread_start` has panicked \
                 {MAX_FAILED_STARTS} times in a row on each of its workers ({}). The panics were \
                 printed by those threads. Tasks of this runtime are cancelled.",
                self.workers.len()
            ));
            self.close();
        }
    }

    /// Returns whether tasks wait in the injector or in a ring, where any worker can find them.
    pub(crate) fn is_work_anywhere(&self) -> bool {
        !self.injector.is_empty() || self.workers.iter().any(|shared| !shared.ring.is_empty())
    }

    /// Returns the worker whose driver serves other threads: the first with a running thread, or
    /// worker 0.
    pub(crate) fn first_served(&self) -> usize {
        if !self.lost.is_any() {
            return 0;
        }
        let is_served = |shared: &WorkerShared| {
            !shared.is_lost.load(SeqCst)
                && matches!(&*shared.thread.lock(), WorkerThread::Running(_))
        };
        self.workers.iter().position(is_served).unwrap_or(0)
    }

    /// Returns whether any worker has a thread, or a thread that is being started.
    pub(crate) fn has_helper(&self) -> bool {
        let has_thread = |shared: &WorkerShared| {
            !shared.is_lost.load(SeqCst)
                && !matches!(&*shared.thread.lock(), WorkerThread::NotStarted(_))
        };
        self.workers.iter().any(has_thread)
    }

    /// Wakes every helper, so that it polls the drivers of lost workers.
    #[cold]
    pub(crate) fn wake_helpers(&self) {
        self.unpark_all();
        self.base.unpark_block_ons();
        self.base.notify_progress();
    }

    /// Polls the drivers of lost workers, on behalf of a worker or a thread in `block_on`.
    ///
    /// Returns after how long the caller must do so again; `None` means not before it is woken.
    #[cold]
    pub(crate) fn help_lost(&self) -> Option<Duration> {
        // A watchdog on another thread waits for the sources of lost workers. But the calling
        // thread may be the watchdog itself, because a report hook may call `block_on`.
        let polls_sources = !self.base.config.hooks.has_other_watchdog();
        self.poll_lost(polls_sources)
    }

    /// Polls the drivers of lost workers. Returns after how long the caller must do so again.
    ///
    /// `polls_sources` says that no other thread waits for the sources of lost workers. Then the
    /// caller must return for sources, not only for timers.
    pub(crate) fn poll_lost(&self, polls_sources: bool) -> Option<Duration> {
        let mut limit = None;
        for (index, shared) in self.workers.iter().enumerate() {
            if shared.is_lost.load(SeqCst) {
                self.poll_driver(index);
                limit = earlier(limit, self.next_help(shared, polls_sources));
            }
        }
        // A task waits, and no worker has a thread. Starting a thread may succeed now.
        if !self.injector.is_empty() && !self.has_helper() {
            self.notify();
            limit = earlier(limit, Some(HELP_INTERVAL * 5));
        }
        limit
    }

    /// Returns after how long this thread must poll the driver of `shared` again.
    fn next_help(&self, shared: &WorkerShared, polls_sources: bool) -> Option<Duration> {
        let clock = &self.base.config.env.clock;
        let timer = shared.timers.next().map(|tick| clock.until(tick));
        let needs_poll = || shared.poller.get().is_some_and(|poller| poller.needs_poll());
        earlier(timer, (polls_sources && needs_poll()).then_some(HELP_INTERVAL))
    }

    /// Polls the drivers that no other thread polls, then parks a thread in `block_on`.
    ///
    /// These are the drivers of lost workers. If the thread is a worker in a user callback, its own
    /// driver is included.
    pub(crate) fn park_in_block_on(&self, block_on: &BlockOnGuard) {
        let own = worker::index(self);
        if own.is_none() && !self.lost.is_any() {
            return block_on.park();
        }
        let mut limit = self.help_lost();
        if let Some(own) = own {
            // This thread is active, so the waits of its callback are not cancelled before it
            // leaves (SHUTDOWN-4).
            if self.base.is_closing() {
                self.shut_drivers();
            }
            self.poll_driver(own);
            limit = earlier(limit, self.next_help(&self.workers[own], true));
        }
        // A wake-up by this thread leaves no token.
        if !block_on.is_woken() {
            block_on.state().parker.park(limit);
        }
    }
}

/// Returns the shorter of two time limits; `None` means no limit.
pub(crate) fn earlier(a: Option<Duration>, b: Option<Duration>) -> Option<Duration> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
