//! Workers that have lost their thread: other threads serve their drivers, until a thread starts
//! for them again.
//!
//! A worker is lost if its thread ends or blocks in place, and no thread can be started in its
//! place: the system refuses one, or the user's callbacks panic. The worker's [`WorkerToken`] goes back to
//! its seat, so that the next wake-up tries to start a thread again, or the thread that blocks in
//! place takes the key back when its closure has ended.
//!
//! Timers and descriptors that are registered with a lost worker stay where they are. Its driver is
//! turned
//! - by workers that sleep, which get up for it (`Worker::sleep`),
//! - by workers that are busy (`WorkerCore::look_after_another`),
//! - by the monitor at each of its looks, and it waits for descriptors in the lost worker's poller
//!   (`monitor::poll_for_stuck_worker`, `Monitor::sleep`), so that no other helper gets up for these; if several
//!   lost workers have descriptors, it waits in the poller of one and gets up for the others,
//! - by threads in `block_on`, since there may be neither another worker nor a monitor.
//!
//! These are the *helpers*. A helper computes how long it may sleep from the timers and sources of
//! lost workers. Two events shorten that: a worker is lost, or something is registered with a lost
//! worker.
//!
//! - L1. The losing thread sets `is_lost` and the count, and then wakes all helpers.
//! - L2. A registering thread registers, and then reads `is_lost`; if it is set, it wakes all
//!   helpers.
//! - L3. A helper reads the count and `is_lost`, then the timers and sources, and then parks.
//!
//! The race to fear: something is registered that no helper gets up for. All accesses are SeqCst.
//! If the registering thread reads `is_lost` as unset, L1's store comes later, so the helpers that
//! L1 wakes see the registration. If it reads it as set, it wakes them itself. A helper that is
//! about to park finds the token (`sys::park`). (Model: `loom_lost`.)

use crate::scheduler::block_on::BlockOnGuard;
use crate::scheduler::multi_thread::core::{UNTURNED_MS, WorkerToken};
use crate::scheduler::multi_thread::idle::BeforeParking;
use crate::scheduler::multi_thread::worker;
use crate::scheduler::multi_thread::{MultiThread, WorkerShared, WorkerThread};
use crate::sys::park::Parker;
use crate::task::runnable::Runnable;
use std::iter;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::time::Duration;

/// Without a monitor, a lost worker's descriptors are looked at this often by helpers that have
/// nothing else to do.
const HELP_INTERVAL: Duration = Duration::from_millis(UNTURNED_MS as u64);

/// A worker whose threads end in a panic of `on_thread_start` this often in a row
const MAX_FAILED_STARTS: u32 = 8;
/// gets the next one after this time at the earliest.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// How many workers are lost.
pub(crate) struct LostWorkers {
    count: AtomicUsize,
    /// Workers whose threads have failed [`MAX_FAILED_STARTS`] times in a row.
    failing: AtomicUsize,
}

impl LostWorkers {
    pub(crate) fn new() -> Self {
        Self { count: AtomicUsize::new(0), failing: AtomicUsize::new(0) }
    }

    /// Whether there are any.
    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        self.count.load(SeqCst) > 0
    }
}

/// Whether a thread that wants its worker back has got it.
#[must_use]
pub(crate) enum Reclaimed {
    Yes(WorkerToken),
    /// Another thread has it, or the runtime has closed.
    No,
}

impl MultiThread {
    /// The worker's thread ends or blocks in place, and there is no other thread for it. If the
    /// runtime closes, gives the worker's seat up.
    pub(crate) fn lose_thread(&self, key: WorkerToken) {
        let index = key.0;
        let (core, remote) = (&self.cores[index], &self.remotes[index]);
        let searching = core.searching.replace(false);
        // Seated until here: the injector is open (A1).
        let queued: Vec<Runnable> = iter::from_fn(|| core.take_queued()).collect();
        if !queued.is_empty() {
            self.injector.push_batch(queued);
        }
        let mut seat = remote.seat.lock();
        // Under the lock: the closing thread looks at the seat after it has set this.
        if self.estate.is_closing() {
            drop(seat);
            return self.leave();
        }
        remote.meter.fall_asleep_if_awake(self.estate.config.seam.clock.now_approx());
        if !remote.is_lost.swap(true, SeqCst) {
            self.lost.count.fetch_add(1, SeqCst); // L1
        }
        *seat = WorkerThread::Unborn(key);
        // Under the lock: a thread that wakes the worker or takes it back sees both or neither.
        let before = self.idle.lose(index, searching);
        drop(seat);
        if before == BeforeParking::LookAgain && self.is_work_anywhere() {
            self.notify();
        }
        self.wake_helpers();
    }

    /// A thread that has blocked in place takes its worker back, if that is still lost.
    pub(crate) fn reclaim(&self, index: usize, parker: &Arc<Parker>) -> Reclaimed {
        let remote = &self.remotes[index];
        let mut seat = remote.seat.lock();
        let key = match std::mem::replace(&mut *seat, WorkerThread::Taken(parker.clone())) {
            WorkerThread::Unborn(key) => key,
            other => {
                *seat = other;
                return Reclaimed::No;
            }
        };
        // Chosen to be woken, it counts as a searcher.
        self.cores[index].searching.set(!self.idle.cancel_sleep(index));
        remote.meter.woke_up();
        self.mark_found(remote);
        Reclaimed::Yes(key)
    }

    /// The worker's thread has started, after `on_thread_start`.
    pub(crate) fn has_started(&self, index: usize) {
        let core = &self.cores[index];
        if core.failed_starts.replace(0) >= MAX_FAILED_STARTS {
            self.lost.failing.fetch_sub(1, SeqCst);
        }
        self.mark_found(&self.remotes[index]);
    }

    /// The worker is not lost any more: it has a thread, or the runtime closes.
    pub(crate) fn mark_found(&self, remote: &WorkerShared) {
        if remote.is_lost.load(Relaxed) && remote.is_lost.swap(false, SeqCst) {
            self.lost.count.fetch_sub(1, SeqCst);
        }
    }

    /// A thread of the worker has ended by a panic in one of the user's callbacks.
    pub(crate) fn thread_failed(&self, key: WorkerToken) {
        let core = &self.cores[key.0];
        let failed = core.failed_starts.get() + 1;
        core.failed_starts.set(failed);
        if failed < MAX_FAILED_STARTS {
            return self.replace_thread(key);
        }
        core.retry_at.set(self.estate.config.seam.clock.elapsed() + RETRY_AFTER);
        let is_first = failed == MAX_FAILED_STARTS;
        let failing = self.lost.failing.fetch_add(usize::from(is_first), SeqCst);
        let is_last_to_fail = is_first && failing + 1 == self.remotes.len();
        self.lose_thread(key);
        if is_last_to_fail {
            self.estate.end_block_on(format!(
                "no worker thread of this runtime starts: `on_thread_start` has panicked \
                 {MAX_FAILED_STARTS} times in a row on each of its workers ({}). The panics were \
                 printed by those threads. Tasks of this runtime are cancelled.",
                self.remotes.len()
            ));
            self.close();
        }
    }

    /// Whether tasks wait where any worker finds them.
    pub(crate) fn is_work_anywhere(&self) -> bool {
        !self.injector.is_empty() || self.remotes.iter().any(|remote| !remote.ring.is_empty())
    }

    /// The worker whose driver serves threads that are no workers: the first, unless it is lost
    /// and another is not.
    pub(crate) fn first_served(&self) -> usize {
        if !self.lost.is_any() {
            return 0;
        }
        let is_served = |remote: &WorkerShared| {
            !remote.is_lost.load(SeqCst) && matches!(&*remote.seat.lock(), WorkerThread::Taken(_))
        };
        self.remotes.iter().position(is_served).unwrap_or(0)
    }

    /// Whether a worker is left that has a thread.
    pub(crate) fn has_helper(&self) -> bool {
        let has_thread = |remote: &WorkerShared| {
            !remote.is_lost.load(SeqCst) && !matches!(&*remote.seat.lock(), WorkerThread::Unborn(_))
        };
        self.remotes.iter().any(has_thread)
    }

    /// Makes every thread that may help look at the drivers of lost workers.
    #[cold]
    pub(crate) fn wake_helpers(&self) {
        self.unpark_all();
        self.estate.unpark_block_ons();
        // Rouses the monitor, or starts its thread.
        self.ended_elsewhere();
    }

    /// Turns the drivers of lost workers. Returns after how long that has to be done again; `None`:
    /// not before helpers are woken. With `looks_at_sources`, the caller has to look at the sources
    /// of lost workers from time to time, since no other thread waits for them.
    #[cold]
    pub(crate) fn help_lost(&self, looks_at_sources: bool) -> Option<Duration> {
        let mut limit = None;
        for (index, remote) in self.remotes.iter().enumerate() {
            if remote.is_lost.load(SeqCst) {
                self.turn_driver(index);
                limit = earlier(limit, self.next_help(remote, looks_at_sources));
            }
        }
        // A task that waits for a thread: perhaps one can be started now.
        if !self.injector.is_empty() && !self.has_helper() {
            self.notify();
            limit = earlier(limit, Some(HELP_INTERVAL * 5));
        }
        limit
    }

    /// After how long a driver that this thread turns for its owner has to be turned again.
    fn next_help(&self, remote: &WorkerShared, looks_at_sources: bool) -> Option<Duration> {
        let clock = &self.estate.config.seam.clock;
        let timer = remote.timers.next().map(|tick| clock.until(tick));
        let needs_poll = || remote.poller.get().is_some_and(|poller| poller.needs_poll());
        earlier(timer, (looks_at_sources && needs_poll()).then_some(HELP_INTERVAL))
    }

    /// Parks a thread in `block_on`, which turns what no other thread turns: the drivers of lost
    /// workers, and its own, if it is a worker in one of the user's callbacks.
    pub(crate) fn park_in_block_on(&self, held: &BlockOnGuard) {
        let own = worker::index(self);
        if own.is_none() && !self.lost.is_any() {
            return held.park();
        }
        // A hook for reports may be what calls `block_on`, on the monitor's thread.
        let mut limit = self.help_lost(!self.monitor().is_elsewhere());
        if let Some(own) = own {
            // This thread has a seat, so what it waits for does not end before it leaves.
            if self.estate.is_closing() {
                self.shut_drivers();
            }
            self.turn_driver(own);
            limit = earlier(limit, self.next_help(&self.remotes[own], true));
        }
        // What this thread wakes leaves no token.
        if !held.is_woken() {
            held.root().parker.park(limit);
        }
    }
}

/// The earlier of two moments, if there are any.
pub(crate) fn earlier(a: Option<Duration>, b: Option<Duration>) -> Option<Duration> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
