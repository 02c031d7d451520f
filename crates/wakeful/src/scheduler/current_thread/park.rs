//! Station 6, current-thread: how the thread that holds the core waits when it has no task.
//!
//! The thread advances a paused clock or parks, in the poller if that has sources. Other threads in
//! `block_on` park until they get the core. The protocols are described in `current_thread`.

use crate::scheduler::block_on::BlockOnGuard;
use crate::scheduler::current_thread::{CoreGuard, CurrentThread};
use crate::task::context;
use crate::telemetry::trace_buffer::{Entry, Event};
use std::sync::atomic::Ordering::*;
use std::time::Duration;

impl CurrentThread {
    /// Fires due timers, or advances a paused clock to the next timer. Returns whether it did either.
    pub(crate) fn advance_time(&self) -> bool {
        if self.fire_due_timers() {
            return true;
        }
        let Some(tick) = self.auto_advance_target() else { return false };
        if let Some(poller) = self.active_poller()
            && self.poll_io(poller, Some(Duration::ZERO)) > 0
        {
            return true; // events come before time
        }
        let clock = &self.base.config.env.clock;
        self.end_round(clock.now_approx());
        self.core.update_due_step();
        clock.advance_to(tick);
        self.fire_due_timers();
        true
    }

    /// Returns the next timer, if the clock is paused and may advance by itself.
    #[inline]
    fn auto_advance_target(&self) -> Option<u64> {
        let clock = &self.base.config.env.clock;
        if !clock.is_paused() || clock.is_auto_advance_held() {
            return None;
        }
        self.timers.earliest_deadline()
    }

    pub(super) fn park(&self, guard: &CoreGuard<'_>, held: &BlockOnGuard) {
        if self.core.thread.spinner.get().should_spin() && self.spin(held) {
            return;
        }
        self.ensure_watched();
        let config = &*self.base.config;
        if let Some(callback) = &config.on_thread_park {
            callback();
            context::wake_deferred();
        }
        if !guard.is_published.get() {
            self.publish_holder(guard, held);
        }
        let clock = &config.env.clock;
        let fell_asleep = clock.now_approx();
        let polls = self.end_round(fell_asleep);
        if polls == 0 {
            self.metrics.count_idle_wakeup();
        }
        self.sleeping.store(true, SeqCst);
        // The paused clock may have been released while no holder was published.
        let may_park = self.auto_advance_target().is_none();
        let mut events = 0;
        if may_park && self.has_nothing(held) && !self.base.has_fatal_error() {
            self.metrics.mark_asleep(fell_asleep);
            // Not repeated if the thread was woken only for tasks: the future has waited since its
            // own last poll.
            if !guard.is_wait_recorded.replace(true) {
                held.record().waiting.set_since_ms(fell_asleep.ms());
            }
            self.base.postpone_visit(fell_asleep, || self.are_all_parked());
            events = self.sleep(guard, held);
            self.metrics.mark_awake();
        }
        // A pushing thread may see this store late. `wake_watchdog_if_asleep` orders the store for
        // the watchdog.
        self.sleeping.store(false, Release);
        if self.trace.is_enabled() {
            let (at, took) = (fell_asleep.time(), clock.now_approx().since(fell_asleep));
            self.trace.record(Entry { event: Event::Park, at, took, task: 0, spawned_at: None });
        }
        let woke_up = clock.now_approx();
        // Spinning would not have seen events of the poller.
        if events == 0 {
            let mut spinner = self.core.thread.spinner.get();
            spinner.record_sleep(woke_up.ns_since(fell_asleep));
            self.core.thread.spinner.set(spinner);
        }
        if let Some(callback) = &config.on_thread_unpark {
            callback();
        }
        self.start_round(woke_up, polls);
    }

    /// Spins for a short time instead of parking. Returns whether there is something to run.
    #[cold]
    fn spin(&self, held: &BlockOnGuard) -> bool {
        let mut spinner = self.core.thread.spinner.get();
        let came = spinner.spin(|_| !self.injector.is_empty() || held.is_woken());
        self.core.thread.spinner.set(spinner);
        came
    }

    #[cold]
    fn publish_holder(&self, guard: &CoreGuard<'_>, held: &BlockOnGuard) {
        guard.is_published.set(true);
        *self.holder.lock() = Some(held.parked());
        self.base.list_parked(held.parked());
    }

    /// Returns whether there is no task to poll, and the `block_on` future is not woken.
    #[inline]
    fn has_nothing(&self, held: &BlockOnGuard) -> bool {
        self.injector.is_empty() && self.core.queue.borrow().is_empty() && !held.is_woken()
    }

    /// Parks, in the poller if that has sources. Returns the number of events.
    #[inline]
    fn sleep(&self, guard: &CoreGuard<'_>, held: &BlockOnGuard) -> usize {
        let clock = &self.base.config.env.clock;
        // A paused clock does not advance while the thread sleeps.
        let limit = self.timers.next_wake_up().filter(|_| !clock.is_paused()).map(|tick| {
            guard.slack.minimize();
            clock.until(tick)
        });
        let poller = self.active_poller();
        let parker = &held.state().parker;
        let mut events = 0;
        match poller {
            Some(poller) => {
                if !guard.interrupts_poller.get() {
                    guard.interrupts_poller.set(true);
                    parker.set_interrupt(Some(poller.clone()));
                }
                parker.park_in(|| events = self.poll_io(poller, limit));
            }
            None => parker.park(limit),
        }
        events
    }

    /// Parks until another thread hands over the core, or the future is woken.
    #[track_caller]
    pub(crate) fn wait_for_core(&self, held: &BlockOnGuard) {
        let parked = held.parked();
        {
            let mut waiting = self.waiting.lock();
            waiting.push_back(held.parked());
            self.waiting_len.store(waiting.len(), SeqCst);
        }
        if self.held.load(SeqCst) && !held.is_woken() && !self.base.has_fatal_error() {
            held.state().parker.park(None);
        }
        let mut waiting = self.waiting.lock();
        // If this thread is no longer on the list, it was woken to take the core. The caller tries
        // that next.
        if let Some(at) = waiting.iter().position(|other| other.is(&parked)) {
            waiting.remove(at);
        }
        self.waiting_len.store(waiting.len(), SeqCst);
        drop(waiting);
        // The thread that held the core may not return to the loop.
        self.base.notify_progress();
    }

    /// Wakes the thread that has waited longest for the core, after the core was released.
    #[inline]
    pub(crate) fn wake_waiting(&self) {
        if self.waiting_len.load(SeqCst) > 0 {
            self.wake_longest_waiting();
        }
    }

    #[inline(never)]
    fn wake_longest_waiting(&self) {
        let next = {
            let mut waiting = self.waiting.lock();
            let next = waiting.pop_front();
            self.waiting_len.store(waiting.len(), SeqCst);
            next
        };
        if let Some(next) = next {
            next.unpark();
        }
    }
}
