//! Samples the time from a task's wake-up to the poll that follows.
//!
//! A thread marks one wake-up per round (`scheduler::thread_core`). When it polls the marked task,
//! it records how long the task waited. The state is plain cells of one thread, and costs two
//! instructions per wake-up and per poll.

use crate::driver::clock::clock_ns::ClockNs;
use crate::task::header::Header;
use crate::task::runnable::Runnable;
use crate::telemetry::trace_buffer::{Entry, TraceBuffer};
use crate::telemetry::worker_metrics::WorkerMetrics;
use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::*};

/// After this many sampled rounds a mark is dropped: another thread has taken the task.
const MAX_ROUNDS: u32 = 16;

/// The sample weight with which every poll is timed, because each one is observed.
pub(crate) const TRACE_ALL: u32 = u32::MAX;

/// A round of at least this many polls is likely one of many in a row. Of such rounds, one in
/// [`SAMPLE_INTERVAL`] is sampled.
const LONG_ROUND: u32 = 4;
const SAMPLE_INTERVAL: u32 = 16;
/// After this many quick rounds in a row, a thread that parks often and briefly is sampled rarely as
/// well. A round is quick if it starts less than [`SOON_NS`] after the one before.
const MANY_ROUNDS: u32 = 64;
const SOON_NS: u64 = 250_000;

/// Chooses the rounds that are sampled.
///
/// Every round of a thread that parks now and then is sampled, but only one in [`SAMPLE_INTERVAL`]
/// rounds of a busy thread. A sample reads the clock four times, and a request over a socket costs
/// less than a hundred such reads.
pub(crate) struct Sampler {
    /// Frequent rounds since the last sampled one.
    skipped: Cell<u32>,
    last_round: Cell<ClockNs>,
    /// Consecutive rounds that started soon after the one before.
    quick_rounds: Cell<u32>,
}

impl Sampler {
    pub(crate) fn new() -> Self {
        let (skipped, quick_rounds) = (Cell::new(0), Cell::new(0));
        Self { skipped, last_round: Cell::new(ClockNs::START), quick_rounds }
    }

    /// Starts a round, after one with `polls` polls.
    ///
    /// Returns the weight of this round's sample: the number of polls that its first poll
    /// represents. With 0, that poll is not timed.
    #[inline]
    pub(crate) fn start_round(&self, now: ClockNs, polls: u32, probe: &LatencyProbe) -> u32 {
        let is_soon = now.ns_since(self.last_round.replace(now)) < SOON_NS;
        let quick_rounds = self.quick_rounds.get();
        if !is_soon || quick_rounds < MANY_ROUNDS {
            self.quick_rounds.set(if is_soon { quick_rounds + 1 } else { 0 });
            if polls < LONG_ROUND && self.quick_rounds.get() < MANY_ROUNDS {
                probe.start_round();
                return polls;
            }
        }
        let skipped = self.skipped.get() + 1;
        if skipped < SAMPLE_INTERVAL {
            self.skipped.set(skipped);
            return 0;
        }
        self.skipped.set(0);
        probe.start_round();
        polls * SAMPLE_INTERVAL
    }
}

/// The wake-up that a thread has marked.
pub(crate) struct LatencyProbe {
    /// Whether the next wake-up is marked, or every wake-up is observed
    /// (`TraceBuffer::is_enabled`).
    due: Cell<bool>,
    /// The cell of the marked task, or null.
    cell: Cell<*const Header>,
    id: Cell<u64>,
    woken_at: Cell<ClockNs>,
    /// Sampled rounds since the mark was set.
    rounds: Cell<u32>,
}

impl LatencyProbe {
    pub(crate) fn new() -> Self {
        Self {
            due: Cell::new(true),
            cell: Cell::new(ptr::null()),
            id: Cell::new(0),
            woken_at: Cell::new(ClockNs::START),
            rounds: Cell::new(0),
        }
    }

    /// Requests a mark for the next wake-up, and drops a mark that is too old.
    pub(crate) fn start_round(&self) {
        self.due.set(true);
        self.rounds.set(self.rounds.get() + 1);
        if self.rounds.get() > MAX_ROUNDS {
            self.cell.set(ptr::null());
        }
    }

    /// Returns whether the next wake-up is to be passed to [`mark`](Self::mark).
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.due.get()
    }

    /// Marks a task that was woken or spawned `now`, unless another one is marked. Traces the
    /// wake-up. Returns whether every wake-up is to be observed.
    #[cold]
    pub(crate) fn mark(&self, task: &Runnable, now: ClockNs, trace: &TraceBuffer) -> bool {
        let (cell, id) = task.cell_and_id();
        if self.cell.get().is_null() {
            self.set(cell.as_ptr(), id, now);
        }
        let is_observed = trace.is_enabled();
        self.due.set(is_observed);
        if is_observed {
            trace.record(Entry::woken(task, now.time()));
        }
        is_observed
    }

    fn set(&self, cell: *const Header, id: u64, woken_at: ClockNs) {
        self.cell.set(cell);
        self.id.set(id);
        self.woken_at.set(woken_at);
        self.rounds.set(0);
    }

    pub(crate) fn is_marked(&self) -> bool {
        !self.cell.get().is_null()
    }

    /// Returns whether the mark is in this task's cell. The cell may have been reused since.
    #[inline]
    pub(crate) fn marks(&self, task: &Runnable) -> bool {
        ptr::eq(self.cell.get(), task.cell())
    }

    /// Records how long the marked task waited, and clears the mark. Called right before its poll.
    #[cold]
    pub(crate) fn finish(&self, task: &Runnable, now: ClockNs, metrics: &WorkerMetrics) {
        let (_, id) = task.cell_and_id();
        self.cell.set(ptr::null());
        if id == self.id.get() {
            metrics.wake_to_poll.record(now.since(self.woken_at.get()), 1);
        }
    }
}

/// The mark of a task that goes through the injector to a runtime whose workers all sleep.
pub(crate) struct InjectedProbe {
    cell: AtomicPtr<Header>,
    woken_ns: AtomicU64,
}

impl InjectedProbe {
    pub(crate) fn new() -> Self {
        Self { cell: AtomicPtr::new(ptr::null_mut()), woken_ns: AtomicU64::new(0) }
    }

    /// Marks a task that is about to be pushed to the injector, unless another one is marked.
    pub(crate) fn mark(&self, task: &Runnable, now: ClockNs) {
        if self.cell.load(Relaxed).is_null() {
            self.woken_ns.store(now.ns(), Relaxed);
            self.cell.store(task.cell(), Release);
        }
    }

    /// Moves the mark to the worker that took the task, if this task is the marked one.
    #[inline]
    pub(crate) fn move_to(&self, task: &Runnable, worker: &LatencyProbe) -> bool {
        let is_marked = ptr::eq(self.cell.load(Acquire), task.cell());
        if is_marked {
            let (cell, id) = task.cell_and_id();
            worker.set(cell.as_ptr(), id, ClockNs::from_ns(self.woken_ns.load(Relaxed)));
            self.cell.store(ptr::null_mut(), Relaxed);
        }
        is_marked
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{ClockNs, LatencyProbe, MANY_ROUNDS, SAMPLE_INTERVAL, Sampler};
    use std::time::Duration;

    #[test]
    fn all_rounds_are_sampled_until_they_are_frequent() {
        let (sampler, probe) = (Sampler::new(), LatencyProbe::new());
        let mut now = Duration::from_secs(1);
        let mut round = |after, polls| {
            now += after;
            sampler.start_round(ClockNs::from_elapsed(now), polls, &probe)
        };
        let (slow, quick) = (Duration::from_millis(1), Duration::from_micros(9));
        assert!((0..1000).all(|_| round(slow, 1) == 1), "a thread that parks now and then");
        let rounds = MANY_ROUNDS + 10 * SAMPLE_INTERVAL;
        let weights: Vec<u32> = (0..rounds).map(|_| round(quick, 2)).collect();
        let (few, many) = weights.split_at(MANY_ROUNDS as usize - 1);
        assert!(few.iter().all(|&weight| weight == 2));
        let sum: u32 = many.iter().sum();
        assert_eq!(sum, 10 * SAMPLE_INTERVAL * 2, "a sample stands for the skipped rounds");
        assert_eq!(round(slow, 2), 2, "after a pause");
        let weights: Vec<u32> = (0..2 * SAMPLE_INTERVAL).map(|_| round(slow, 61)).collect();
        let sampled = weights.iter().filter(|&&weight| weight == 61 * SAMPLE_INTERVAL);
        assert_eq!(sampled.count(), 2);
    }
}
