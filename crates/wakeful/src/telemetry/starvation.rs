//! Measures the time in which no thread of this process was starved.
//!
//! A thread is *starved* while it is in a run queue of the kernel: ready to run, but without a CPU. A
//! poll that waits for a lock looks blocked while the lock's owner is starved. That is the fault of a
//! busy machine, not of the task. The kernel does not say which thread holds the lock. So the watchdog
//! counts a wait only for the *unstarved* time, in which every thread of the process slept or ran.
//!
//! [`Starvation`] compares two samples of all threads. From the interval between them it subtracts the
//! time for which each thread was starved. What is left is added to the unstarved time. If two threads
//! were starved at once, that time is subtracted twice. So the result may be too short, but is never
//! too long.
//!
//! The kernel adds a wait in a run queue to its count (`schedstat`) only when the wait ends. So a
//! thread that is in a run queue when it is sampled counts as starved for the whole interval, except
//! for its CPU time.
//!
//! The watchdog takes samples only while a poll lasts and its thread waits in the kernel. They take at
//! most one part in [`SHARE`] of the watchdog's time. The time that a sample itself takes belongs to no
//! interval. A watchdog that is preempted during a sample has read some threads before that and some
//! after it.

use crate::sys::backtrace::current_tid;
use crate::sys::thread_state::{self, CpuTimes};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// The minimum time to the next sample, as a multiple of the CPU time of the last one.
const SHARE: u32 = 10;

/// One thread in a sample.
#[derive(Clone, Copy, Default)]
struct ThreadSample {
    times: CpuTimes,
    /// Whether the thread was in a run queue.
    is_queued: bool,
}

/// Sums the time in which no thread of the process was starved.
#[derive(Default)]
struct Starvation {
    /// The last sample, by the kernel's ids of the threads.
    threads: HashMap<i32, ThreadSample>,
    /// The time at which the last sample was complete.
    sampled_at: Option<Duration>,
    unstarved: Duration,
}

impl Starvation {
    /// Returns the unstarved time of all intervals so far.
    fn unstarved(&self) -> Duration {
        self.unstarved
    }

    /// Adds one sample of all threads, which began at `began` and was complete at `ended`.
    fn add(&mut self, began: Duration, ended: Duration, threads: HashMap<i32, ThreadSample>) {
        let before = std::mem::replace(&mut self.threads, threads);
        let Some(last) = self.sampled_at.replace(ended) else { return };
        let interval = began.saturating_sub(last);
        // A thread that was in a run queue and has ended may have been there for the whole interval.
        let has_ended = |(thread, seen): (&i32, &ThreadSample)| {
            seen.is_queued && !self.threads.contains_key(thread)
        };
        if before.iter().any(has_ended) {
            return;
        }
        let delay = |(thread, now): (&i32, &ThreadSample)| {
            // A thread that started after the last sample had no times then.
            let seen = before.get(thread).copied().unwrap_or_default();
            if now.is_queued {
                interval.saturating_sub(now.times.cpu.saturating_sub(seen.times.cpu))
            } else {
                now.times.queued.saturating_sub(seen.times.queued)
            }
        };
        let delays = self.threads.iter().map(delay).sum();
        self.unstarved += interval.saturating_sub(delays);
    }
}

/// The watchdog's queries about threads. Tests answer them in place of the kernel.
pub(crate) trait ThreadProbe {
    /// Returns whether the thread is blocked in the kernel.
    fn is_waiting(&self, thread: i32) -> bool;
    /// Returns whether the thread sleeps for a fixed time, so that no other thread can end its wait.
    fn is_in_timed_sleep(&self, thread: i32) -> bool;
    /// Returns the CPU time of the thread.
    fn cpu_time(&self, thread: i32) -> Duration;
    /// Returns whether the thread starts a process and waits for its `exec`.
    fn is_starting_process(&self, thread: i32) -> bool;
    /// Returns the unstarved time so far. Only the difference between two results is meaningful.
    ///
    /// Takes a sample of all threads, if the last one is old enough.
    fn unstarved_time(&mut self) -> Duration;
}

/// Asks the kernel about the threads of this process.
pub(crate) struct SystemProbe {
    started: Instant,
    /// The CPU time of the last sample.
    cost: Duration,
    starvation: Starvation,
}

impl SystemProbe {
    pub(crate) fn new() -> Self {
        Self { started: Instant::now(), cost: Duration::ZERO, starvation: Starvation::default() }
    }
}

impl ThreadProbe for SystemProbe {
    fn is_waiting(&self, thread: i32) -> bool {
        thread_state::is_blocked(thread)
    }

    fn is_in_timed_sleep(&self, thread: i32) -> bool {
        thread_state::is_in_timed_sleep(thread)
    }

    fn cpu_time(&self, thread: i32) -> Duration {
        thread_state::cpu_time(thread).unwrap_or_default()
    }

    fn is_starting_process(&self, thread: i32) -> bool {
        thread_state::is_starting_process(thread)
    }

    fn unstarved_time(&mut self) -> Duration {
        let began = self.started.elapsed();
        let is_due = self.starvation.sampled_at.is_none_or(|at| began - at > self.cost * SHARE);
        if is_due {
            let own = current_tid();
            let before = self.cpu_time(own);
            let threads = sample_threads(own);
            self.cost = self.cpu_time(own).saturating_sub(before);
            self.starvation.add(began, self.started.elapsed(), threads);
        }
        self.starvation.unstarved()
    }
}

/// Samples all threads of the process. `own` is the calling thread.
///
/// That thread runs now, but its time in run queues counts: it may have been preempted while it held a
/// lock of the allocator.
fn sample_threads(own: i32) -> HashMap<i32, ThreadSample> {
    let seen = |thread| {
        Some((thread, ThreadSample { times: thread_state::run_times(thread)?, is_queued: false }))
    };
    let mut threads: HashMap<i32, ThreadSample> =
        thread_state::thread_ids().filter_map(seen).collect();
    for (&thread, seen) in threads.iter_mut().filter(|(thread, _)| **thread != own) {
        // The kernel has one state for "runs" and "is in a run queue". The CPU clock of a thread that
        // runs has advanced since it was read.
        seen.is_queued = thread_state::is_runnable(thread)
            && thread_state::cpu_time(thread) == Some(seen.times.cpu);
    }
    threads
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Starvation, SystemProbe, ThreadProbe, ThreadSample};
    use crate::sys::thread_state::CpuTimes;
    use std::time::Duration;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// A thread that has had the CPU for `had` and was in run queues for `delayed` milliseconds.
    fn awake(had: u64, delayed: u64) -> ThreadSample {
        ThreadSample { times: CpuTimes { cpu: ms(had), queued: ms(delayed) }, is_queued: false }
    }

    fn queued(had: u64, delayed: u64) -> ThreadSample {
        ThreadSample { is_queued: true, ..awake(had, delayed) }
    }

    /// The unstarved time of samples every 10 ms, in milliseconds. The threads of each sample have the
    /// numbers 0, 1, ….
    fn unstarved(samples: &[&[ThreadSample]]) -> u128 {
        let mut starvation = Starvation::default();
        for (nth, threads) in (0..).zip(samples) {
            let now = ms(nth * 10);
            starvation.add(now, now, (0..).zip(threads.iter().copied()).collect());
        }
        starvation.unstarved().as_millis()
    }

    #[test]
    fn a_thread_that_sleeps_or_runs_is_not_starved() {
        assert_eq!(unstarved(&[&[awake(5, 7)]]), 0, "one sample is not an interval");
        assert_eq!(unstarved(&[&[awake(5, 7)], &[awake(5, 7)]]), 10, "sleeps");
        assert_eq!(unstarved(&[&[awake(5, 7)], &[awake(15, 7)]]), 10, "runs");
    }

    #[test]
    fn delays_count_whether_they_have_ended_or_not() {
        let (before, ended) = (queued(5, 7), awake(6, 31));
        assert_eq!(unstarved(&[&[before], &[before]]), 0);
        assert_eq!(unstarved(&[&[before], &[before], &[before], &[ended]]), 0);
        assert_eq!(unstarved(&[&[before], &[before], &[ended], &[ended]]), 10, "the last interval");
        assert_eq!(unstarved(&[&[awake(5, 7)], &[awake(6, 11)]]), 6, "4 ms, between two slices");
    }

    /// It is not known for how much of the interval the thread was ready.
    #[test]
    fn a_thread_that_ran_and_lacks_a_cpu_again_counts_as_starved() {
        assert_eq!(unstarved(&[&[awake(5, 7)], &[queued(8, 7)]]), 3, "while it had the CPU");
    }

    /// A chain of threads that wait for one lock, and lack a CPU when they get it.
    #[test]
    fn threads_that_are_starved_one_after_the_other_add_up() {
        let idle = awake(0, 0);
        let later = awake(0, 5);
        assert_eq!(unstarved(&[&[idle, idle], &[later, idle]]), 5);
        assert_eq!(unstarved(&[&[idle, idle], &[later, later]]), 0);
        assert_eq!(unstarved(&[&[idle], &[idle, awake(1, 8)]]), 2, "one was started meanwhile");
    }

    #[test]
    fn a_thread_that_was_starved_and_has_ended_takes_the_interval() {
        assert_eq!(unstarved(&[&[awake(0, 0), queued(0, 0)], &[awake(0, 0)]]), 0);
        assert_eq!(unstarved(&[&[awake(0, 0), awake(0, 0)], &[awake(0, 0)]]), 10);
    }

    /// A watchdog that is preempted during a sample has read some threads before that, and some after
    /// it.
    #[test]
    fn the_time_of_a_sample_is_in_no_interval() {
        let mut starvation = Starvation::default();
        let threads = || [(1, awake(0, 0))].into();
        starvation.add(ms(0), ms(50), threads());
        starvation.add(ms(60), ms(200), threads());
        starvation.add(ms(220), ms(220), threads());
        assert_eq!(starvation.unstarved(), ms(10 + 20));
    }

    /// On any machine there is one interval between two samples, and no more unstarved time than that.
    #[test]
    fn the_system_answers() {
        let (started, mut probe) = (std::time::Instant::now(), SystemProbe::new());
        assert_eq!(probe.unstarved_time(), ms(0), "the first sample ends no interval");
        let own = crate::sys::backtrace::current_tid();
        assert!(!probe.starvation.threads[&own].is_queued, "it runs");
        let first = probe.starvation.sampled_at;
        while probe.starvation.sampled_at == first {
            assert!(probe.unstarved_time() <= started.elapsed());
        }
    }
}
