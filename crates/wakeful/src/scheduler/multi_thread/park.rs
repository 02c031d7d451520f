//! Station 6: a worker without a task parks, in its poller if it has one.
//!
//! The sleep protocol, which prevents lost wake-ups, is in [`idle`](super::idle).

use crate::driver::poller::Poller;
use crate::scheduler::multi_thread::WorkerShared;
use crate::scheduler::multi_thread::core::WorkerCore;
use crate::scheduler::multi_thread::idle::BeforeParking;
use crate::scheduler::multi_thread::lost_workers::earlier;
use crate::scheduler::multi_thread::worker::Worker;
use crate::sys::park::Parker;
use crate::task::context;
use crate::telemetry::trace_buffer::{Entry, Event};
use std::sync::Arc;
use std::time::Duration;

impl Worker {
    /// Announces that this worker sleeps, checks the queues once more, and sleeps if there is no
    /// work.
    pub(super) fn park(&self, core: &WorkerCore, parker: &Parker) {
        core.timers_fired.set(false);
        core.next_round(&self.scheduler);
        if core.fire_due_timers(&self.scheduler) {
            return;
        }
        self.call_on_thread_park(core);
        let idle = &self.scheduler.idle;
        let before = idle.sleep(core.index, core.searching.replace(false));
        if before == BeforeParking::SearchAgain && self.scheduler.is_work_anywhere() {
            core.shared().metrics.count_cancelled_sleep();
            // If a pusher has already woken this worker, it counts as a searcher.
            if idle.cancel_sleep(core.index) {
                core.searching.set(idle.start_searching());
            } else {
                core.searching.set(true);
            }
        } else {
            self.sleep(core, parker);
            core.fire_due_timers(&self.scheduler);
        }
        if let Some(callback) = &self.scheduler.base.config.on_thread_unpark {
            callback();
        }
        self.scheduler.base.wake_watchdog_if_asleep();
    }

    /// Calls the user's `on_thread_park`, if there is one.
    ///
    /// The callback may block. So the worker has not announced its sleep yet, and stops searching:
    /// no pusher relies on it (SLEEP-3).
    fn call_on_thread_park(&self, core: &WorkerCore) {
        let Some(callback) = &self.scheduler.base.config.on_thread_park else { return };
        if core.searching.get() {
            self.stop_searching(core);
        }
        // Stays true if the callback panics.
        core.has_failed_to_park.set(true);
        callback();
        core.has_failed_to_park.set(false);
        context::wake_deferred();
    }

    /// Sleeps until there is work, a timer is due, or the runtime closes.
    fn sleep(&self, core: &WorkerCore, parker: &Parker) {
        let WorkerShared { timers, metrics, trace, .. } = core.shared();
        let clock = &self.scheduler.base.config.env.clock;
        let mut woken_by = WokenBy::Other;
        metrics.mark_asleep(core.round_started.get());
        let are_all_parked = || self.scheduler.are_all_parked();
        self.scheduler.base.postpone_visit(core.round_started.get(), are_all_parked);
        loop {
            let is_any_lost = self.scheduler.lost.is_any();
            let help = if is_any_lost { self.scheduler.help_lost() } else { None };
            // The user's callback or the poller's events may have woken tasks on this thread.
            let is_timer_due = timers.next().is_some_and(|tick| clock.until(tick).is_zero());
            if is_timer_due || core.has_work() {
                core.searching.set(!self.scheduler.idle.cancel_sleep(core.index));
                break;
            }
            // If another thread registers a timer after this, it leaves a token.
            let limit = earlier(timers.next_wake_up().map(|tick| clock.until(tick)), help);
            if limit.is_some() {
                self.slack.minimize();
            }
            woken_by = match core.poller(&self.scheduler) {
                Some(poller) => self.park_in_poller(core, poller, parker, limit),
                None => {
                    parker.park(limit);
                    WokenBy::Other
                }
            };
            if self.scheduler.base.is_closing() || self.scheduler.base.has_fatal_error() {
                break;
            }
            if !core.has_work() && !self.scheduler.idle.is_asleep(core.index) {
                core.searching.set(true);
                break;
            }
        }
        metrics.mark_awake();
        let fell_asleep = core.round_started.get();
        core.start_round(&self.scheduler);
        let woke_up = core.round_started.get();
        if trace.is_enabled() {
            let (at, took) = (fell_asleep.time(), woke_up.since(fell_asleep));
            trace.record(Entry { event: Event::Park, at, took, task: 0, spawned_at: None });
        }
        // Spinning does not see the poller's events.
        if woken_by == WokenBy::Other {
            core.thread.record_sleep(woke_up.ns_since(fell_asleep));
        }
    }

    fn park_in_poller(
        &self,
        core: &WorkerCore,
        poller: &Arc<Poller>,
        parker: &Parker,
        limit: Option<Duration>,
    ) -> WokenBy {
        if !self.interrupts_poller.replace(true) {
            parker.set_interrupt(Some(poller.clone()));
        }
        let mut events = 0;
        parker.park_in(|| events = core.wait_in_poller(poller, parker, limit));
        if events > 0 { WokenBy::Poller } else { WokenBy::Other }
    }
}

/// The cause of a worker's wake-up.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WokenBy {
    /// A descriptor became ready.
    Poller,
    /// Another thread, a timer, or a spurious wake-up.
    Other,
}
