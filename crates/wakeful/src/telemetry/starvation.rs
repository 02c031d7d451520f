//! Measures in how much of the time no thread of this process lacked a CPU.
//!
//! A poll that waits for a lock looks blocked while the lock's holder is preempted. That is the fault of a busy
//! machine, not of the task. So the watchdog counts a wait only as far as every thread of the
//! process either slept or had a CPU. Any thread may hold the lock: the kernel does not say which one does.
//!
//! [`Starvation`] compares two samples of all threads. Of the interval between them it adds to [`Starvation::quiet`]
//! what is left after the delays of all threads are subtracted, one after the other. Delays that overlap are
//! subtracted twice: the result is never too long.
//!
//! The kernel counts how long a thread has waited in a run queue (`schedstat`) only when the wait ends. So of a thread
//! that is in a run queue when it is sampled, all of the interval counts as delay, except for its CPU time.
//!
//! Samples are taken only while a poll lasts and its thread waits in the kernel, and take at most one part in
//! [`SHARE`] of the watchdog's time. The time that a sample takes is in no interval: a watchdog that is preempted
//! while it reads the threads one by one has read them at different times.

use crate::sys::backtrace::current_tid;
use crate::sys::thread_state::{self, CpuTimes};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The next sample comes after this many times the CPU time of the last one, at the earliest.
const SHARE: u32 = 10;

/// One thread in a sample.
#[derive(Clone, Copy, Default)]
struct Seen {
    times: CpuTimes,
    /// It was in a run queue: ready, and without a CPU.
    is_queued: bool,
}

/// Adds up the time in which no thread of the process was kept from running.
#[derive(Default)]
struct Starvation {
    threads: BTreeMap<i32, Seen>,
    /// When the last sample was complete.
    sampled_at: Option<Duration>,
    quiet: Duration,
}

impl Starvation {
    /// The time of all intervals so far in which no thread was starved.
    fn quiet(&self) -> Duration {
        self.quiet
    }

    /// Adds one sample of all threads. It was begun at `began`, and was complete at `ended`.
    fn add(&mut self, began: Duration, ended: Duration, threads: BTreeMap<i32, Seen>) {
        let before = std::mem::replace(&mut self.threads, threads);
        let Some(last) = self.sampled_at.replace(ended) else { return };
        let interval = began.saturating_sub(last);
        // A thread that was in a run queue and has ended may have run at any time since.
        let has_ended =
            |(thread, seen): (&i32, &Seen)| seen.is_queued && !self.threads.contains_key(thread);
        if before.iter().any(has_ended) {
            return;
        }
        let delay = |(thread, now): (&i32, &Seen)| {
            // A thread that was started since the last sample had nothing then.
            let seen = before.get(thread).copied().unwrap_or_default();
            if now.is_queued {
                interval.saturating_sub(now.times.cpu.saturating_sub(seen.times.cpu))
            } else {
                now.times.queued.saturating_sub(seen.times.queued)
            }
        };
        let delays = self.threads.iter().map(delay).sum();
        self.quiet += interval.saturating_sub(delays);
    }
}

/// What the watchdog asks the kernel about threads. Tests answer in its place.
pub(crate) trait ThreadProbe {
    /// Whether the thread waits for something, in the kernel.
    fn is_waiting(&self, thread: i32) -> bool;
    /// Whether no other thread can end the thread's wait: it sleeps for a time.
    fn is_in_timed_sleep(&self, thread: i32) -> bool;
    /// The CPU time of the thread.
    fn cpu_time(&self, thread: i32) -> Duration;
    /// Whether the thread starts a process, and waits for it to run a program.
    fn is_starting_process(&self, thread: i32) -> bool;
    /// The time so far in which no thread of the process lacked a CPU. Only differences mean something.
    fn quiet_time(&mut self) -> Duration;
}

/// The system itself.
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

    fn quiet_time(&mut self) -> Duration {
        let began = self.started.elapsed();
        let is_due = self.starvation.sampled_at.is_none_or(|at| began - at > self.cost * SHARE);
        if is_due {
            let own = current_tid();
            let before = self.cpu_time(own);
            let threads = sample_threads(own);
            self.cost = self.cpu_time(own).saturating_sub(before);
            self.starvation.add(began, self.started.elapsed(), threads);
        }
        self.starvation.quiet()
    }
}

/// Samples all threads of the process. `own` is the calling thread. It runs, but its delays count: it may have been
/// preempted while it held a lock of the allocator.
fn sample_threads(own: i32) -> BTreeMap<i32, Seen> {
    let seen =
        |thread| Some((thread, Seen { times: thread_state::run_times(thread)?, is_queued: false }));
    let mut threads: BTreeMap<i32, Seen> = thread_state::thread_ids().filter_map(seen).collect();
    for (&thread, seen) in threads.iter_mut().filter(|(thread, _)| **thread != own) {
        // The kernel has one state for "runs" and "is in a run queue". Only the clock of a thread that runs goes on.
        seen.is_queued = thread_state::is_runnable(thread)
            && thread_state::cpu_time(thread) == Some(seen.times.cpu);
    }
    threads
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Seen, Starvation, SystemProbe, ThreadProbe};
    use crate::sys::thread_state::CpuTimes;
    use std::time::Duration;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// A thread that has had the CPU for `had` and was in run queues for `delayed` milliseconds.
    fn awake(had: u64, delayed: u64) -> Seen {
        Seen { times: CpuTimes { cpu: ms(had), queued: ms(delayed) }, is_queued: false }
    }

    fn queued(had: u64, delayed: u64) -> Seen {
        Seen { is_queued: true, ..awake(had, delayed) }
    }

    /// The quiet time of samples every 10 ms, in milliseconds. The threads of each sample have the numbers 0, 1, ….
    fn quiet(samples: &[&[Seen]]) -> u128 {
        let mut starvation = Starvation::default();
        for (nth, threads) in (0..).zip(samples) {
            let now = ms(nth * 10);
            starvation.add(now, now, (0..).zip(threads.iter().copied()).collect());
        }
        starvation.quiet().as_millis()
    }

    #[test]
    fn a_thread_that_sleeps_or_runs_is_not_starved() {
        assert_eq!(quiet(&[&[awake(5, 7)]]), 0, "one sample is no interval");
        assert_eq!(quiet(&[&[awake(5, 7)], &[awake(5, 7)]]), 10, "sleeps");
        assert_eq!(quiet(&[&[awake(5, 7)], &[awake(15, 7)]]), 10, "runs");
    }

    #[test]
    fn delays_count_whether_they_have_ended_or_not() {
        let (before, ended) = (queued(5, 7), awake(6, 31));
        assert_eq!(quiet(&[&[before], &[before]]), 0);
        assert_eq!(quiet(&[&[before], &[before], &[before], &[ended]]), 0);
        assert_eq!(quiet(&[&[before], &[before], &[ended], &[ended]]), 10, "the last interval");
        assert_eq!(quiet(&[&[awake(5, 7)], &[awake(6, 11)]]), 6, "4 ms, between two slices");
    }

    /// It is not known for how much of the interval it was ready.
    #[test]
    fn a_thread_that_ran_and_lacks_a_cpu_again_counts_as_starved() {
        assert_eq!(quiet(&[&[awake(5, 7)], &[queued(8, 7)]]), 3, "while it had the CPU");
    }

    /// A chain of threads that wait for one lock, and lack a CPU when they get it.
    #[test]
    fn threads_that_are_starved_one_after_the_other_add_up() {
        let idle = awake(0, 0);
        let later = awake(0, 5);
        assert_eq!(quiet(&[&[idle, idle], &[later, idle]]), 5);
        assert_eq!(quiet(&[&[idle, idle], &[later, later]]), 0);
        assert_eq!(quiet(&[&[idle], &[idle, awake(1, 8)]]), 2, "one was started meanwhile");
    }

    #[test]
    fn a_thread_that_was_starved_and_has_ended_takes_the_interval() {
        assert_eq!(quiet(&[&[awake(0, 0), queued(0, 0)], &[awake(0, 0)]]), 0);
        assert_eq!(quiet(&[&[awake(0, 0), awake(0, 0)], &[awake(0, 0)]]), 10);
    }

    /// A watchdog that is preempted in the middle of a sample has read some threads before, some after that.
    #[test]
    fn the_time_of_a_sample_is_in_no_interval() {
        let mut starvation = Starvation::default();
        let threads = || [(1, awake(0, 0))].into();
        starvation.add(ms(0), ms(50), threads());
        starvation.add(ms(60), ms(200), threads());
        starvation.add(ms(220), ms(220), threads());
        assert_eq!(starvation.quiet(), ms(10 + 20));
    }

    /// Whatever the machine is doing: there is one interval between two samples, and no more quiet time than that.
    #[test]
    fn the_system_answers() {
        let (started, mut probe) = (std::time::Instant::now(), SystemProbe::new());
        assert_eq!(probe.quiet_time(), ms(0), "the first sample ends no interval");
        let own = crate::sys::backtrace::current_tid();
        assert!(!probe.starvation.threads[&own].is_queued, "it runs");
        let first = probe.starvation.sampled_at;
        while probe.starvation.sampled_at == first {
            assert!(probe.quiet_time() <= started.elapsed());
        }
    }
}
