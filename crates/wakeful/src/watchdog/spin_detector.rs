//! Finds tasks that spin: they wake themselves, are polled very often, and do nothing in most polls.
//!
//! At each visit the watchdog samples the tasks that are being polled. A task that it samples
//! repeatedly is watched for the [window](spin_window).
//!
//! A task works if its polls take long ([`WORK`]), or if they change the memory of its future
//! (`fingerprint`). A future that waits by polling checks a flag and wakes itself, so its memory has one
//! of a few states. A task whose memory is new in more than half of the samples does not spin.
//!
//! Time in which the task's thread was starved does not count, neither as time in which the task could
//! have been polled, nor as work. A poll that is preempted takes long without working.

use super::fingerprint;
use crate::scheduler::block_on::BlockOnState;
use crate::sys::spin_window;
use crate::sys::thread_state::{self, CpuTimes};
use crate::task::arena;
use crate::task::header::Header;
use crate::task::runnable::TaskRef;
use crate::task::wait_kind::WaitKind;
use crate::task::wait_record::WaitRecord;
use std::collections::HashMap;
use std::time::Duration;

/// A task spins only if it is polled at least this often in a second.
const POLLS_PER_SECOND: u32 = 20_000;
/// A task spins only if fewer than one poll in this many followed a wake-up by another task or
/// thread.
const POLLS_PER_WAKE: u32 = 100;
/// A task whose mean poll takes longer than this works in its polls. A poll that checks a flag and wakes
/// its task takes a tenth of it.
const WORK: Duration =
    if cfg!(debug_assertions) { Duration::from_micros(2) } else { Duration::from_nanos(200) };
/// The maximum number of fingerprints kept for a task.
const MAX_FINGERPRINTS: usize = 256;

/// The minimum number of polls between two fingerprints.
const MIN_POLLS: u32 = 50;

/// Poll counters wrap at this value.
const COUNTER_MASK: u32 = u32::MAX >> 1;

/// A task that spins.
pub(crate) struct Spin {
    pub(crate) polls: u32,
    pub(crate) within: Duration,
}

/// The record of a watched task.
struct WatchedTask {
    first: Duration,
    last: Duration,
    polls: u32,
    wakes: u32,
    busy: Duration,
    /// The thread that polled it in the last sample, and the times of that thread at the sample.
    thread: i32,
    times: CpuTimes,
    /// An upper bound of its threads' CPU time while it was watched.
    cpu_time: Duration,
    /// The time for which its threads are known to have been starved while it was watched.
    starved_time: Duration,
    /// Whether it was seen to yield on purpose.
    yields: bool,
    /// The number of polls at the last sample.
    last_polls: u32,
    /// The distinct fingerprints of its future, and how many were taken in total.
    fingerprints: Vec<u64>,
    fingerprinted: usize,
}

impl WatchedTask {
    /// Adds the fingerprint of its future, if it was polled often since the last one.
    fn add_fingerprint(&mut self, sample: &PollSample) {
        let polls = sample.polls.wrapping_sub(self.last_polls) & COUNTER_MASK;
        if polls < MIN_POLLS || self.fingerprinted >= MAX_FINGERPRINTS {
            return;
        }
        self.last_polls = sample.polls;
        let Some(fingerprint) = (sample.fingerprint)() else { return };
        self.fingerprinted += 1;
        if !self.fingerprints.contains(&fingerprint) {
            self.fingerprints.push(fingerprint);
        }
    }

    /// Returns whether polls leave the future's memory in states that it had before. Returns false
    /// if that is unknown.
    fn repeats_states(&self) -> bool {
        self.fingerprinted > 1 && self.fingerprints.len() * 2 <= self.fingerprinted
    }

    /// Adds the times of its thread since the last sample.
    fn add_times(&mut self, sample: &PollSample, now: Duration) {
        if sample.thread == self.thread {
            self.cpu_time += sample.times.cpu.saturating_sub(self.times.cpu);
            self.starved_time += sample.times.queued.saturating_sub(self.times.queued);
        } else {
            // Another thread has polled the task since an unknown time. Its CPU time was at most the
            // whole interval.
            self.cpu_time += now.saturating_sub(self.last);
        }
        (self.thread, self.times) = (sample.thread, sample.times);
    }
}

/// One sample of a task, or of the future of a `block_on`.
pub(crate) struct PollSample {
    id: u64,
    polls: u32,
    /// Wake-ups by other tasks and threads.
    wakes: u32,
    /// The total time of its polls. Zero for a `block_on`, for which it is unknown.
    busy: Duration,
    /// The thread that polls it, and the times of that thread so far.
    thread: i32,
    times: CpuTimes,
    yields: bool,
    /// Returns the fingerprint of the future now, if it can be read.
    fingerprint: Box<dyn Fn() -> Option<u64>>,
}

/// Returns whether the task waits for its turn: it has yielded, or used up its budget.
fn yields(waiting: &WaitRecord) -> bool {
    waiting.read().is_some_and(|wait| wait.kind == WaitKind::Yield)
}

impl PollSample {
    /// Samples a task that `thread` polls.
    pub(crate) fn of_task(task: &TaskRef, thread: i32) -> Self {
        let header = task.header();
        // Wakers of the task point there.
        let address = std::ptr::from_ref(header).addr();
        let (memory, own) = (header.future_memory(), address..address + size_of::<Header>());
        Self {
            id: header.id.get(),
            polls: header.polls(),
            wakes: header.wakes(),
            busy: arena::poll_time(task),
            thread,
            times: thread_state::run_times(thread).unwrap_or_default(),
            yields: yields(&header.waiting),
            fingerprint: Box::new(move || fingerprint::of(memory, own.clone())),
        }
    }

    /// Samples the future of a `block_on`.
    pub(crate) fn of_block_on(block_on: &BlockOnState) -> Self {
        let polls = block_on.record.poll_number() / 2;
        let address = std::ptr::from_ref(block_on).addr();
        let memory = block_on.record.future_memory();
        let own = address..address + size_of::<BlockOnState>();
        Self {
            id: block_on.record.id,
            polls,
            wakes: polls.wrapping_sub(block_on.record.self_wakes()),
            busy: Duration::ZERO,
            thread: block_on.thread,
            times: thread_state::run_times(block_on.thread).unwrap_or_default(),
            yields: yields(&block_on.record.waiting),
            fingerprint: Box::new(move || fingerprint::of(memory, own.clone())),
        }
    }
}

/// The tasks that are being watched, by id.
pub(crate) struct SpinDetector(HashMap<u64, WatchedTask>);

impl SpinDetector {
    pub(crate) fn new() -> Self {
        Self(HashMap::new())
    }

    /// Adds a sample of a task that is being polled. Returns the spin if the task spins.
    pub(crate) fn add(&mut self, sample: &PollSample, now: Duration) -> Option<Spin> {
        let PollSample { id, polls, wakes, busy, thread, times, yields, .. } = *sample;
        let window = spin_window::get();
        self.0.retain(|_, seen| now.saturating_sub(seen.last) < window);
        let new = || WatchedTask {
            first: now,
            last: now,
            polls,
            wakes,
            busy,
            thread,
            times,
            cpu_time: Duration::ZERO,
            starved_time: Duration::ZERO,
            yields: false,
            last_polls: polls,
            fingerprints: Vec::new(),
            fingerprinted: 0,
        };
        let seen = self.0.entry(id).or_insert_with(new);
        seen.add_times(sample, now);
        seen.last = now;
        seen.yields |= yields;
        seen.add_fingerprint(sample);
        let within = now.saturating_sub(seen.first);
        let with_cpu = within.saturating_sub(seen.starved_time);
        if with_cpu < window {
            return None;
        }
        let since = |count: u32, seen: u32| count.wrapping_sub(seen) & COUNTER_MASK;
        let (polls, wakes) = (since(polls, seen.polls), since(wakes, seen.wakes));
        let works = busy.saturating_sub(seen.busy).min(seen.cpu_time) > WORK * polls;
        let spins = !seen.yields
            && !works
            && seen.repeats_states()
            && u64::from(polls) * 1000 >= u64::from(POLLS_PER_SECOND) * with_cpu.as_millis() as u64
            && wakes < polls / POLLS_PER_WAKE;
        self.0.remove(&id);
        spins.then_some(Spin { polls, within })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{COUNTER_MASK, PollSample, SpinDetector, WORK};
    use crate::sys::thread_state::CpuTimes;
    use std::time::Duration;

    /// A task that is polled on one thread.
    #[derive(Clone, Copy)]
    struct Polled {
        per_second: u32,
        /// By others.
        wakes_per_second: u32,
        /// The counts that it begins with.
        first: u32,
        /// What a poll takes.
        poll_ns: u64,
        /// In how many of a hundred milliseconds its thread has a CPU.
        cpu_percent: u64,
        /// The number of states of its memory.
        states: u32,
    }

    const SPINNER: Polled = Polled {
        per_second: 30_000,
        wakes_per_second: 0,
        first: 0,
        poll_ns: 0,
        cpu_percent: 100,
        states: 3,
    };

    impl Polled {
        /// Whether it is found to spin if it is seen every 10 ms for 20 seconds.
        fn spins(self) -> bool {
            let mut spinners = SpinDetector::new();
            (0..=2000).any(|tick| {
                let (now, polls) = (Duration::from_millis(10) * tick, self.per_second / 100 * tick);
                let cpu_time = now * self.cpu_percent as u32 / 100;
                let sample = PollSample {
                    id: 1,
                    polls: self.first.wrapping_add(polls) & COUNTER_MASK,
                    wakes: self.first.wrapping_add(self.wakes_per_second / 100 * tick),
                    busy: Duration::from_nanos(self.poll_ns * u64::from(polls)),
                    thread: 1,
                    times: CpuTimes { cpu: cpu_time, queued: now - cpu_time },
                    yields: false,
                    fingerprint: Box::new(move || Some(u64::from(tick % self.states))),
                };
                spinners.add(&sample, now).is_some()
            })
        }
    }

    #[test]
    fn reset_counters_are_not_spinning() {
        for first in [0, COUNTER_MASK - 500] {
            let from = Polled { first, ..SPINNER };
            assert!(from.spins(), "from {first}");
            let seldom = Polled { per_second: 1_000, wakes_per_second: 1_000, ..from };
            let woken = Polled { wakes_per_second: 30_000, ..from };
            assert!(!seldom.spins() && !woken.spins(), "from {first}");
        }
    }

    #[test]
    fn a_task_that_works_in_every_poll_does_not_spin() {
        let limit = WORK.as_nanos() as u64;
        assert!(Polled { per_second: 200_000, poll_ns: limit / 2, ..SPINNER }.spins());
        assert!(!Polled { per_second: 200_000, poll_ns: limit * 2, ..SPINNER }.spins());
    }

    #[test]
    fn a_task_whose_memory_changes_with_its_polls_does_not_spin() {
        assert!(Polled { states: 20, ..SPINNER }.spins());
        assert!(!Polled { states: u32::MAX, ..SPINNER }.spins());
    }

    /// A poll that is preempted is measured as a long one.
    #[test]
    fn a_spinner_that_lacks_a_cpu_for_most_of_the_time_spins() {
        let starved = Polled { per_second: 3_000, cpu_percent: 5, ..SPINNER };
        // 60,000 polls in a second of CPU time, of 16 µs: that is work.
        assert!(!Polled { poll_ns: 300_000, ..starved }.spins());
        // In a debug build 600,000 of 1.6 µs, and scheduling.
        let per_second = 60_000_000 / WORK.as_nanos() as u32;
        assert!(Polled { per_second, poll_ns: 30_000, ..starved }.spins());
        // 10,000 in a second of CPU time.
        assert!(!Polled { per_second: 500, ..starved }.spins());
    }
}
