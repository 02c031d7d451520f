//! How long a task waits between its wake-up and its poll, by samples: one wake-up per
//! turn is marked, and when that task's turn comes, it is known how long it took.
//! Plain cells of one thread; two instructions with each wake-up and each poll.

use crate::driver::clock::clock_ns::ClockNs;
use crate::task::header::Header;
use crate::task::runnable::Runnable;
use crate::telemetry::trace_buffer::{Entry, TraceBuffer};
use crate::telemetry::worker_metrics::WorkerMetrics;
use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::*};

/// A mark that is not met after so many turns is given up: its task went elsewhere.
const PATIENCE: u32 = 16;

/// A weight that says: time every poll, for the recorder.
pub(crate) const ALL: u32 = u32::MAX;

/// A turn of so many polls is one of many in a row, most likely: then one of [`RARELY`] is
/// sampled.
const LONG_TURN: u32 = 4;
const RARELY: u32 = 16;
/// So many turns in a row, each this soon after the one before, are many as well: a
/// thread that sleeps often and shortly.
const MANY: u32 = 64;
const SOON_NS: u64 = 250_000;

/// Which turns are sampled: all of a thread that sleeps now and then, some of one that is
/// at work all the time. A sample reads the clock four times, and a request over a
/// socket takes less than a hundred such reads.
pub(crate) struct Sampling {
    /// Turns since the last that was sampled, of those that are one of many.
    passed: Cell<u32>,
    last_turn: Cell<ClockNs>,
    /// Turns that came soon after another, in a row.
    hurried: Cell<u32>,
}

impl Sampling {
    pub(crate) fn new() -> Self {
        let (passed, hurried) = (Cell::new(0), Cell::new(0));
        Self { passed, last_turn: Cell::new(ClockNs::START), hurried }
    }

    /// A turn begins, after one with so many polls. Answers for how many polls the first
    /// of this turn is to stand; 0: it is not to be timed.
    #[inline]
    pub(crate) fn start_turn(&self, now: ClockNs, polls: u32, probe: &LatencyProbe) -> u32 {
        let is_soon = now.ns_since(self.last_turn.replace(now)) < SOON_NS;
        let hurried = self.hurried.get();
        if !is_soon || hurried < MANY {
            self.hurried.set(if is_soon { hurried + 1 } else { 0 });
            if polls < LONG_TURN && self.hurried.get() < MANY {
                probe.start_turn();
                return polls;
            }
        }
        let passed = self.passed.get() + 1;
        if passed < RARELY {
            self.passed.set(passed);
            return 0;
        }
        self.passed.set(0);
        probe.start_turn();
        polls * RARELY
    }
}

pub(crate) struct LatencyProbe {
    /// The next wake-up is to be marked, or all are to be recorded.
    due: Cell<bool>,
    /// The cell of the task that is marked; null for none.
    cell: Cell<*const Header>,
    id: Cell<u64>,
    woken_at: Cell<ClockNs>,
    /// Turns since.
    turns: Cell<u32>,
}

impl LatencyProbe {
    pub(crate) fn new() -> Self {
        Self {
            due: Cell::new(true),
            cell: Cell::new(ptr::null()),
            id: Cell::new(0),
            woken_at: Cell::new(ClockNs::START),
            turns: Cell::new(0),
        }
    }

    /// A turn begins.
    pub(crate) fn start_turn(&self) {
        self.due.set(true);
        self.turns.set(self.turns.get() + 1);
        if self.turns.get() > PATIENCE {
            self.cell.set(ptr::null());
        }
    }

    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.due.get()
    }

    /// The task was woken, or spawned, at this moment.
    #[cold]
    pub(crate) fn mark(&self, task: &Runnable, now: ClockNs, recorder: &TraceBuffer) {
        let (cell, id) = task.cell_and_id();
        if self.cell.get().is_null() {
            self.set(cell.as_ptr(), id, now);
        }
        self.due.set(recorder.is_on());
        recorder.note(Entry::woken(task, now.time()));
    }

    fn set(&self, cell: *const Header, id: u64, woken_at: ClockNs) {
        self.cell.set(cell);
        self.id.set(id);
        self.woken_at.set(woken_at);
        self.turns.set(0);
    }

    pub(crate) fn is_marked(&self) -> bool {
        !self.cell.get().is_null()
    }

    /// Whether this may be the task that is marked.
    #[inline]
    pub(crate) fn is_at(&self, task: &Runnable) -> bool {
        ptr::eq(self.cell.get(), task.cell())
    }

    /// Its turn has come.
    #[cold]
    pub(crate) fn met(&self, task: &Runnable, now: ClockNs, meter: &WorkerMetrics) {
        let (_, id) = task.cell_and_id();
        self.cell.set(ptr::null());
        if id == self.id.get() {
            meter.wake_to_poll.record(now.since(self.woken_at.get()), 1);
        }
    }
}

/// The same for a task that goes through the injector to a runtime that sleeps.
pub(crate) struct InjectedProbe {
    cell: AtomicPtr<Header>,
    woken_ns: AtomicU64,
}

impl InjectedProbe {
    pub(crate) fn new() -> Self {
        Self { cell: AtomicPtr::new(ptr::null_mut()), woken_ns: AtomicU64::new(0) }
    }

    /// The task is about to be injected.
    pub(crate) fn mark(&self, task: &Runnable, now: ClockNs) {
        if self.cell.load(Relaxed).is_null() {
            self.woken_ns.store(now.ns(), Relaxed);
            self.cell.store(task.cell(), Release);
        }
    }

    /// A worker has it: from here on the mark, if it is this task's, is the worker's.
    #[inline]
    pub(crate) fn pass_on(&self, task: &Runnable, to: &LatencyProbe) -> bool {
        let is_at = ptr::eq(self.cell.load(Acquire), task.cell());
        if is_at {
            let (cell, id) = task.cell_and_id();
            to.set(cell.as_ptr(), id, ClockNs::from_ns(self.woken_ns.load(Relaxed)));
            self.cell.store(ptr::null_mut(), Relaxed);
        }
        is_at
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{ClockNs, LatencyProbe, MANY, RARELY, Sampling};
    use std::time::Duration;

    #[test]
    fn turns_are_sampled_all_until_they_are_many() {
        let (sampling, probe) = (Sampling::new(), LatencyProbe::new());
        let mut now = Duration::from_secs(1);
        let mut turn = |after, polls| {
            now += after;
            sampling.start_turn(ClockNs::from_elapsed(now), polls, &probe)
        };
        let (slow, quick) = (Duration::from_millis(1), Duration::from_micros(9));
        assert!((0..1000).all(|_| turn(slow, 1) == 1), "one that sleeps now and then");
        let weights: Vec<u32> = (0..MANY + 10 * RARELY).map(|_| turn(quick, 2)).collect();
        let (few, many) = weights.split_at(MANY as usize - 1);
        assert!(few.iter().all(|&weight| weight == 2));
        let sum: u32 = many.iter().sum();
        assert_eq!(sum, 10 * RARELY * 2, "a sample stands for those that were left out");
        assert_eq!(turn(slow, 2), 2, "after a rest");
        let weights: Vec<u32> = (0..2 * RARELY).map(|_| turn(slow, 61)).collect();
        assert_eq!(weights.iter().filter(|&&weight| weight == 61 * RARELY).count(), 2);
    }
}
