//! Station 6, current-thread: the thread that runs the tasks has none to run. It lets time
//! pass or goes to sleep, in the poller if there is something to watch; a thread that waits
//! for the core sleeps beside it. The protocols are those of `current`.

use crate::scheduler::block_on::BlockOnGuard;
use crate::scheduler::current_thread::{CoreGuard, CurrentThread};
use crate::sys::unwind::catch_and_forget;
use crate::task::context;
use crate::telemetry::trace_buffer::{Entry, Event};
use std::sync::atomic::Ordering::*;
use std::time::Duration;

impl CurrentThread {
    /// Whether a timer is due, or a paused clock could be moved to where one is:
    /// everything waits, so time may as well pass.
    pub(crate) fn pass_time(&self) -> bool {
        if self.turn_timers() {
            return true;
        }
        let Some(tick) = self.may_jump_to() else { return false };
        if let Some(poller) = self.watching()
            && self.turn_poller(poller, Some(Duration::ZERO)) > 0
        {
            return true; // that comes first: it took no time
        }
        let clock = &self.estate.config.seam.clock;
        self.end_turn(clock.now_approx());
        self.core.plan();
        clock.advance_to(tick);
        self.turn_timers();
        true
    }

    /// The next timer, if the clock is paused and nothing keeps it from being
    /// moved there.
    #[inline]
    fn may_jump_to(&self) -> Option<u64> {
        let clock = &self.estate.config.seam.clock;
        if !clock.is_paused() || clock.is_auto_advance_held() {
            return None;
        }
        self.timers.earliest_deadline()
    }

    pub(super) fn park(&self, guard: &CoreGuard<'_>, held: &BlockOnGuard) {
        if self.core.spinner.get().should_spin() && self.spin(held) {
            return;
        }
        self.be_listed();
        let config = &*self.estate.config;
        if let Some(callback) = &config.on_thread_park {
            callback();
            context::wake_deferred();
        }
        if !guard.named.get() {
            self.name_holder(guard, held);
        }
        let clock = &config.seam.clock;
        let fell_asleep = clock.now_approx();
        let polls = self.end_turn(fell_asleep);
        self.sleeping.store(true, SeqCst);
        // Time passed until here: a clock that was held, or had nowhere to jump
        // to, may have been let go while there was no holder to tell.
        let stands = self.may_jump_to().is_none();
        let mut events = 0;
        if stands && self.has_nothing(held) && !self.estate.is_fatal() {
            self.meter.fell_asleep(fell_asleep);
            // Not if it was woken for others since: it waits for as long as before.
            if !guard.noted.replace(true) {
                held.note().waiting.set_since_ms(fell_asleep.ms());
            }
            events = self.sleep(guard, held);
            self.meter.woke_up();
        }
        // Late is early enough for who pushes; for the warden see `be_watched`.
        self.sleeping.store(false, Release);
        if self.recorder.is_on() {
            let (at, took) = (fell_asleep.time(), clock.now_approx().since(fell_asleep));
            self.recorder.note(Entry { event: Event::Park, at, took, task: 0 });
        }
        let woke_up = clock.now_approx();
        // Looking around does not show what the poller knows.
        if events == 0 {
            let mut spinner = self.core.spinner.get();
            spinner.record_sleep(woke_up.ns_since(fell_asleep));
            self.core.spinner.set(spinner);
        }
        if let Some(callback) = &config.on_thread_unpark {
            callback();
        }
        self.start_turn(woke_up, polls);
    }

    /// Looks around for a moment instead of sleeping; whether something came.
    #[cold]
    fn spin(&self, held: &BlockOnGuard) -> bool {
        let mut spinner = self.core.spinner.get();
        let came = spinner.spin(|_| !self.injector.is_empty() || held.is_woken());
        self.core.spinner.set(spinner);
        came
    }

    #[cold]
    fn name_holder(&self, guard: &CoreGuard<'_>, held: &BlockOnGuard) {
        guard.named.set(true);
        *self.holder.lock() = Some(held.parked());
        self.estate.list_parked(held.parked());
    }

    /// Whether there is neither a task to poll nor the root future.
    #[inline]
    fn has_nothing(&self, held: &BlockOnGuard) -> bool {
        self.injector.is_empty() && self.core.queue.borrow().is_empty() && !held.is_woken()
    }

    /// Sleeps until something comes, in the poller if there is something to watch; answers
    /// what that told of.
    #[inline]
    fn sleep(&self, guard: &CoreGuard<'_>, held: &BlockOnGuard) -> usize {
        let clock = &self.estate.config.seam.clock;
        // A paused clock makes nobody wait for a timer.
        let limit = self.timers.next_wake_up().filter(|_| !clock.is_paused()).map(|tick| {
            guard.slack.minimize();
            clock.until(tick)
        });
        let poller = self.watching();
        let limit = self.core.quiet.limit(poller, limit);
        let parker = &held.root().parker;
        let mut events = 0;
        match poller {
            Some(poller) => {
                if !guard.kicks.get() {
                    guard.kicks.set(true);
                    parker.set_interrupt(Some(poller.clone()));
                }
                parker.park_in(|| events = self.turn_poller(poller, limit));
            }
            None => parker.park(limit),
        }
        if self.core.quiet.is_over(poller, limit) && self.has_nothing(held) {
            self.look_around();
        }
        events
    }

    #[cold]
    fn look_around(&self) {
        let (config, quiet) = (&self.estate.config, &self.core.quiet);
        let (before, ends, rests) =
            (config.seam.clock.now_approx(), quiet.vigil.ends(), self.estate.rests());
        let again = catch_and_forget(|| config.witness.look_around());
        let took = config.seam.clock.now_approx().since(before);
        quiet.has_looked(ends, took, again.unwrap_or(false));
        if self.estate.rests() != rests {
            quiet.vigil.rouse();
        }
    }

    /// Something has ended, or a future of `block_on` rests, on a thread that does not hold the
    /// core, and whoever does may have looked around already.
    pub(crate) fn ended_elsewhere(&self) {
        if self.core.quiet.vigil.end() {
            self.is_to_look_again();
        }
        if !self.is_held() {
            // It is on its own with a handle, and nobody looks but the warden.
            self.be_listed();
            self.ward.get().inspect(|ward| ward.is_to_look());
        }
    }

    /// Whoever has the core is to look around once more, even if it sleeps.
    fn is_to_look_again(&self) {
        if self.core.quiet.vigil.rouse() {
            self.wake_holder();
        }
    }

    /// Another thread has the core: waits for it, or for the future's waker.
    #[track_caller]
    pub(crate) fn wait_for_core(&self, held: &BlockOnGuard) {
        let parked = held.parked();
        {
            let mut waiting = self.waiting.lock();
            waiting.push_back(held.parked());
            self.waiting_len.store(waiting.len(), SeqCst);
        }
        if self.held.load(SeqCst) && !held.is_woken() && !self.estate.is_fatal() {
            held.root().parker.park(None);
        }
        let mut waiting = self.waiting.lock();
        // If it is gone from the list, we were woken to take the core over, and
        // that is what the caller tries next.
        if let Some(at) = waiting.iter().position(|other| other.is(&parked)) {
            waiting.remove(at);
        }
        self.waiting_len.store(waiting.len(), SeqCst);
        drop(waiting);
        // Whoever had the core may have gone for good.
        self.is_to_look_again();
    }

    /// The core is free: the one who has waited longest may try.
    pub(crate) fn wake_waiting(&self) {
        if self.waiting_len.load(SeqCst) == 0 {
            return;
        }
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
