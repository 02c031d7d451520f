//! Stations 4 and 6: the work of a worker once per round, between polls.
//!
//! The worker reads the clock, fires timers, polls its own driver or a stuck worker's, and updates
//! metrics and estimates.

use crate::driver::clock::clock_ns::ClockNs;
use crate::driver::poller::Poller;
use crate::driver::timers::Timers;
use crate::queue::ring;
use crate::scheduler::multi_thread::core::WorkerCore;
use crate::scheduler::multi_thread::{MultiThread, WorkerShared};
use crate::sys::park::{Interrupt, Parker};
use std::sync::Arc;
use std::sync::atomic::Ordering::*;
use std::time::Duration;

/// The limit of a driver poll that does not wait.
pub(super) const NO_WAIT: Option<Duration> = Some(Duration::ZERO);

/// The time after which another worker polls the driver of an awake worker. The awake worker may be
/// stuck in a poll or preempted.
pub(crate) const DRIVER_OVERDUE_MS: u32 = 2;

/// The driver.
impl WorkerCore {
    /// The maintenance of one round, between polls.
    ///
    /// Reads the clock, fires timers, polls the driver, and wakes another worker if the backlog is
    /// above the wake threshold.
    pub(super) fn run_maintenance(&self, scheduler: &MultiThread) {
        self.shared().poll_watch.clear_running();
        self.next_round(scheduler);
        self.fire_due_timers(scheduler);
        let poller = self.poller(scheduler);
        if let Some(poller) = poller {
            self.poll_io(poller, NO_WAIT);
        }
        self.poll_overdue_driver(scheduler);
        let is_io_bound = poller.is_some() || self.timers_fired.get();
        let threshold =
            if is_io_bound { self.io_wake_threshold.get() } else { self.wake_threshold.get() };
        if scheduler.idle.may_wake() && self.ring.len() > threshold {
            scheduler.notify();
        }
    }

    /// Polls the driver of one other worker if it is overdue, and steals from that worker's ring.
    ///
    /// The other worker is lost, or awake but stuck in a poll or preempted. The tasks that its
    /// driver wakes run here.
    fn poll_overdue_driver(&self, scheduler: &MultiThread) {
        let Some(other) = self.random_other(scheduler) else { return };
        let WorkerShared { metrics, driver_polled_ms, timers, poller, is_lost, .. } = other;
        let now = self.round_started.get();
        let overdue_ms = now.ms().wrapping_sub(driver_polled_ms.load(Relaxed));
        // The other worker may have stored a later time meanwhile.
        if !(DRIVER_OVERDUE_MS..u32::MAX / 2).contains(&overdue_ms) {
            return;
        }
        if is_lost.load(Relaxed) {
            // A lost worker has no thread that stores the time. If two threads poll its driver at
            // once, either may store it.
            driver_polled_ms.store(now.ms(), Relaxed);
        } else if metrics.is_asleep() {
            return;
        }
        self.steal_from(scheduler, other);
        self.fire_if_due(scheduler, timers);
        if let Some(poller) = poller.get() {
            self.poll_io(poller, NO_WAIT);
        }
    }

    /// Polls this or another worker's poller, and puts the woken tasks into this worker's queues.
    /// Returns the number of events.
    pub(crate) fn poll_io(&self, poller: &Poller, limit: Option<Duration>) -> usize {
        self.with_io_threshold(|| poller.poll(limit))
    }

    /// Waits in this worker's own poller.
    ///
    /// If this worker was stuck, another thread may be waiting in the poller. Then that thread is
    /// interrupted, and the caller must try again.
    pub(crate) fn wait_in_poller(
        &self,
        poller: &Poller,
        parker: &Parker,
        limit: Option<Duration>,
    ) -> usize {
        // The other thread may have consumed an interrupt that was meant for this worker, so the
        // token is checked once more.
        let events =
            self.with_io_threshold(|| poller.try_poll_unless(limit, || parker.has_token()));
        events.unwrap_or_else(|| {
            poller.interrupt();
            std::thread::yield_now();
            0
        })
    }

    /// Calls `poll`, which wakes tasks, with the wake threshold for tasks that the driver wakes.
    fn with_io_threshold<R>(&self, poll: impl FnOnce() -> R) -> R {
        let threshold = self.wake_threshold.replace(self.io_wake_threshold.get());
        let result = poll();
        self.wake_threshold.set(threshold);
        result
    }

    /// Returns this worker's poller, if it has sources to watch.
    pub(crate) fn poller<'a>(&self, scheduler: &'a MultiThread) -> Option<&'a Arc<Poller>> {
        scheduler.workers[self.index].poller.get().filter(|poller| poller.needs_poll())
    }

    /// Fires this worker's timers that expire by the start of the round or shortly after. Returns
    /// whether any fired.
    pub(crate) fn fire_due_timers(&self, scheduler: &MultiThread) -> bool {
        let timers = &self.shared().timers;
        let fired = self.with_io_threshold(|| self.fire_if_due(scheduler, timers)) > 0;
        if fired {
            self.timers_fired.set(true);
        }
        fired
    }

    fn fire_if_due(&self, scheduler: &MultiThread, timers: &Timers) -> usize {
        let Some(next) = timers.next() else { return 0 };
        let due = scheduler.base.config.env.clock.tick_if_due(next, self.round_started.get());
        due.map_or(0, |tick| timers.fire_due(tick))
    }
}

/// Rounds.
impl WorkerCore {
    /// Starts a round after the worker was parked.
    pub(crate) fn start_round(&self, scheduler: &MultiThread) {
        self.start_round_at(scheduler, scheduler.base.config.env.clock.now_approx());
    }

    fn start_round_at(&self, scheduler: &MultiThread, now: ClockNs) {
        let WorkerShared { driver_polled_ms, poll_watch, trace, .. } = self.shared();
        scheduler.base.publish_clock(now);
        driver_polled_ms.store(now.ms(), Relaxed);
        self.round_started.set(now);
        self.round_activity.set(poll_watch.activity());
        let polls = self.last_polls.take();
        // A round without a poll, for example before a park, is not counted.
        if polls > 0 {
            self.thread.start_sampling(now, polls, trace);
            self.update_sampling();
        }
    }

    /// Ends a round and starts the next one.
    pub(crate) fn next_round(&self, scheduler: &MultiThread) {
        let now = scheduler.base.config.env.clock.now_approx();
        self.end_round(scheduler, now);
        self.start_round_at(scheduler, now);
    }

    /// Updates metrics and estimates after a round.
    fn end_round(&self, scheduler: &MultiThread, now: ClockNs) {
        let WorkerShared { metrics, poll_watch, .. } = self.shared();
        let polls = poll_watch.activity().wrapping_sub(self.round_activity.get());
        if polls == 0 {
            return metrics.count_idle_wakeup();
        }
        let config = &scheduler.base.config;
        self.last_polls.set(polls);
        metrics.add_polls(u64::from(polls));
        let spent_ns = now.ns_since(self.round_started.get());
        metrics.add_busy_ns(spent_ns);
        let observed_ns = || {
            // A clock that was advanced by hand does not measure polls.
            let is_real = !config.env.clock.was_ever_paused();
            let lasting_ns = poll_watch.lasting_ns_since(self.round_activity.get());
            lasting_ns.filter(|_| is_real).map(|_| u64::MAX)
        };
        metrics.record_unsampled_poll(spent_ns, self.thread.long_poll_ns.take(), observed_ns);
        let mut estimator = self.thread.estimator.get();
        estimator.learn(polls, spent_ns);
        self.thread.estimator.set(estimator);
        self.thread.round_limit.set(estimator.round_limit(config.event_interval));
        let max = ring::CAPACITY / 2;
        let (threshold, io_threshold) = match scheduler.has_multiple_cpus {
            true => (estimator.wake_threshold(max), estimator.io_wake_threshold(max)),
            // On the only CPU, another worker would only displace this one.
            false => (u32::MAX, u32::MAX),
        };
        self.wake_threshold.set(threshold);
        self.io_wake_threshold.set(io_threshold);
    }
}
