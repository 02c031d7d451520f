//! The state of a thread that runs tasks, which the cores of both schedulers share.
//!
//! Such a thread works in *rounds*. A round is a number of polls, after which the thread reads the
//! clock, fires timers and polls the driver. At the end of a round the thread estimates how long
//! polls take ([`PollEstimator`]), which sets the length of the next round. One poll of a round may
//! be timed, and one wake-up marked ([`LatencyProbe`]); these samples feed the metrics.
//!
//! - [`ThreadCore`] is part of [`WorkerCore`](crate::scheduler::multi_thread::core::WorkerCore) and
//!   of [`CurrentCore`](crate::scheduler::current_thread::core::CurrentCore). Only the thread that
//!   holds that core touches it (CORE-1, CORE-2).
//! - [`TimedPoll`] is a poll that is being timed.

use crate::driver::clock::Clock;
use crate::driver::clock::clock_ns::ClockNs;
use crate::scheduler::poll_estimator::PollEstimator;
use crate::sys::adaptive_spin::AdaptiveSpin;
use crate::sys::rng::Rng;
use crate::task::arena::{self, Allocator};
use crate::task::header::Header;
use crate::task::runnable::{ObservedTask, Runnable};
use crate::telemetry::latency_probe::{LatencyProbe, Sampler, TRACE_ALL};
use crate::telemetry::site_times;
use crate::telemetry::trace_buffer::{Entry, Event, TraceBuffer};
use crate::telemetry::worker_metrics::{self, WorkerMetrics};
use std::cell::Cell;
use std::ptr::NonNull;
use std::time::Duration;

/// The maximum number of yielded tasks that are moved behind tasks which the driver just woke.
/// Moving more would cost too much.
pub(crate) const MAX_REQUEUED: u32 = 64;

/// The state of a thread that runs tasks.
pub(crate) struct ThreadCore {
    /// Taken out when the scheduler closes.
    pub(crate) allocator: Cell<Option<Allocator>>,
    pub(crate) rng: Cell<Rng>,
    pub(crate) estimator: Cell<PollEstimator>,
    /// The number of polls in a round.
    pub(crate) round_limit: Cell<u32>,
    pub(crate) spinner: Cell<AdaptiveSpin>,
    /// If not 0, the next poll is timed and represents this many polls. [`TRACE_ALL`] means that
    /// the poll is timed only because every poll is observed.
    pub(crate) sample_weight: Cell<u32>,
    /// The duration of this round's timed poll, if it was long.
    pub(crate) long_poll_ns: Cell<u64>,
    pub(crate) probe: LatencyProbe,
    sampler: Sampler,
}

/// A poll that is being timed.
pub(crate) struct TimedPoll {
    weight: u32,
    cell: NonNull<Header>,
    id: u64,
    /// The task's poll time before this poll.
    before: Duration,
    pub(crate) started: ClockNs,
    /// Where the task was spawned, and how long it waited, if these are recorded.
    observed: Option<ObservedTask>,
}

impl ThreadCore {
    /// Creates the state. `observes_all` says that every poll is observed, from the first on.
    pub(crate) fn new(rng: Rng, observes_all: bool) -> Self {
        Self {
            allocator: Cell::new(None),
            rng: Cell::new(rng),
            estimator: Cell::new(PollEstimator::new()),
            round_limit: Cell::new(1),
            spinner: Cell::new(AdaptiveSpin::new()),
            sample_weight: Cell::new(if observes_all { TRACE_ALL } else { 0 }),
            long_poll_ns: Cell::new(0),
            probe: LatencyProbe::new(),
            sampler: Sampler::new(),
        }
    }

    /// Returns a random number below `n`.
    pub(crate) fn random_below(&self, n: u32) -> u32 {
        let mut rng = self.rng.get();
        let number = rng.below(n);
        self.rng.set(rng);
        number
    }

    /// Spins until `found` returns true or spinning no longer pays off. Returns whether it found work.
    pub(crate) fn spin(&self, found: impl FnMut(u32) -> bool) -> bool {
        let mut spinner = self.spinner.get();
        let is_found = spinner.spin(found);
        self.spinner.set(spinner);
        is_found
    }

    /// Records how long the thread was parked until work arrived, for the spinner.
    pub(crate) fn record_sleep(&self, ns: u64) {
        let mut spinner = self.spinner.get();
        spinner.record_sleep(ns);
        self.spinner.set(spinner);
    }

    /// Decides whether a poll of the new round is timed. The previous round had `polls` polls.
    #[inline]
    pub(crate) fn start_sampling(&self, now: ClockNs, polls: u32, trace: &TraceBuffer) {
        let weight = self.sampler.start_round(now, polls, &self.probe);
        self.sample_weight.set(if weight == 0 && trace.is_enabled() { TRACE_ALL } else { weight });
    }

    /// Starts timing the next poll, which polls the task in `cell`.
    #[inline(always)]
    pub(crate) fn start_timed_poll(
        &self,
        task: &Runnable,
        clock: &Clock,
        trace: &TraceBuffer,
    ) -> TimedPoll {
        let next_weight = if trace.is_enabled() { TRACE_ALL } else { 0 };
        let weight = self.sample_weight.replace(next_weight);
        let (cell, id) = task.cell_and_id();
        // SAFETY: the cell belongs to this thread's scheduler, which is alive while the thread runs tasks.
        let before = unsafe { arena::poll_time_of(cell, id) };
        let started = clock.now_approx();
        let observed = site_times::is_enabled().then(|| task.observe(started.time()));
        TimedPoll { weight, cell, id, before, started, observed }
    }

    /// Restarts the timing of an observed poll, after the hook that precedes the poll.
    pub(crate) fn restart(&self, poll: TimedPoll, clock: &Clock) -> TimedPoll {
        TimedPoll { started: clock.now_approx(), ..poll }
    }

    /// Ends timing an observed poll, and also traces and counts it.
    #[cold]
    pub(crate) fn finish_observed_poll(
        &self,
        poll: TimedPoll,
        clock: &Clock,
        metrics: &WorkerMetrics,
        trace: &TraceBuffer,
        is_exclusive: bool,
    ) {
        let (at, task) = (poll.started, poll.id);
        let took = clock.now_approx().since(at);
        let spawned_at = poll.observed.as_ref().map(|task| task.spawned_at);
        trace.record(Entry { event: Event::Poll, at: at.time(), took, task, spawned_at });
        if let Some(histogram) = &metrics.exact_poll_times {
            histogram.record(took);
        }
        self.finish_timed_poll(poll, clock, metrics, is_exclusive);
    }

    /// Ends timing a poll, and records the duration for all polls that it represents.
    ///
    /// `is_exclusive` says that no other thread polls tasks of this scheduler. Then all time
    /// charged to the task since the poll began was charged by the watchdog, for this poll.
    #[inline(always)]
    pub(crate) fn finish_timed_poll(
        &self,
        poll: TimedPoll,
        clock: &Clock,
        metrics: &WorkerMetrics,
        is_exclusive: bool,
    ) {
        let TimedPoll { weight, cell, id, before, started, observed } = poll;
        if weight == TRACE_ALL {
            return; // timed only for the trace, which may have been turned off meanwhile
        }
        let took = clock.now_approx().since(started);
        if let Some(ObservedTask { spawned_at, waited }) = observed {
            let weight = if took >= worker_metrics::LONG_POLL { 1 } else { u64::from(weight) };
            metrics.sites.record(spawned_at, took, weight, waited);
        }
        if took >= worker_metrics::LONG_POLL {
            // A long poll represents only itself. The watchdog has charged the part that it observed.
            metrics.poll_times.record(took, 1);
            self.long_poll_ns.set(took.as_nanos() as u64);
            // SAFETY: as in `start_timed_poll`.
            return unsafe { arena::add_remaining_poll_time(cell, id, before, took) };
        }
        metrics.poll_times.record(took, u64::from(weight));
        // SAFETY: as in `start_timed_poll`.
        unsafe {
            if is_exclusive {
                arena::add_remaining_poll_time(cell, id, before, took * weight);
            } else {
                arena::add_poll_time(cell, id, took * weight);
            }
        }
    }
}
