//! Measures for how long a thread of this process was ready to run and had no CPU.
//!
//! A poll that waits for a lock looks blocked while the lock's holder is preempted. That is the fault of a busy
//! machine, not of the task. So the watchdogs (`monitor`, `warden`) subtract such time before they report a poll as
//! *blocked*.
//!
//! [`Starvation`] compares two samples of all threads. In each interval it takes the thread that was kept from
//! running for longest, and adds that time to [`Starvation::total`]. A difference of two totals is the time that one
//! thread or another was starved between them.
//!
//! The kernel counts how long a thread has waited in a run queue (`schedstat`) only when the wait ends. A thread that
//! is ready in both samples and has not run in between was starved for all of the interval.
//!
//! Samples are taken only while a poll lasts and its thread waits in the kernel, and take at most one part in
//! [`SHARE`] of the watchdog's time.

use crate::sys::thread_state::{self, RunTimes};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The next sample comes after this many times what the last one cost, at the earliest.
const SHARE: u32 = 10;

/// What one thread had when it was last sampled.
#[derive(Clone, Copy, Default)]
struct Seen {
    times: RunTimes,
    /// The first sample since which the thread has been ready without running.
    ready_since: Option<Duration>,
    /// The time that the thread has been starved in its life.
    starved: Duration,
}

/// Adds up the time in which a thread of the process was ready to run and had no CPU.
#[derive(Default)]
pub(super) struct Starvation {
    threads: BTreeMap<i32, Seen>,
    /// When the last sample was taken.
    at: Option<Duration>,
    total: Duration,
}

impl Starvation {
    /// The starved time of all intervals so far.
    fn total(&self) -> Duration {
        self.total
    }

    /// Adds one sample of all threads, taken at `now`. `is_ready` tells whether a thread runs or waits in a run queue;
    /// it is asked only about threads that have not run since the last sample.
    fn add(
        &mut self,
        now: Duration,
        threads: impl Iterator<Item = (i32, RunTimes)>,
        is_ready: impl Fn(i32) -> bool,
    ) {
        let before = std::mem::take(&mut self.threads);
        let last = self.at.replace(now);
        let interval = now.saturating_sub(last.unwrap_or(now));
        let mut longest = Duration::ZERO;
        for (thread, times) in threads {
            // A thread that was started since the last sample had nothing then.
            let seen = before.get(&thread).copied().unwrap_or_default();
            let has_run = times.slices != seen.times.slices || times.had != seen.times.had;
            let is_starved = last.is_some() && !has_run && is_ready(thread);
            let ready_since = is_starved.then(|| seen.ready_since.or(last).unwrap_or(now));
            let pending = ready_since.map_or(Duration::ZERO, |since| now.saturating_sub(since));
            let starved = times.delayed + pending;
            longest = longest.max(starved.saturating_sub(seen.starved));
            self.threads.insert(thread, Seen { times, ready_since, starved });
        }
        self.total += longest.min(interval);
    }
}

/// A moment and the starved time up to then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sample {
    pub(super) at: Duration,
    pub(super) starved: Duration,
}

/// What the watchdogs ask the system about threads. Tests answer in its place.
pub(super) trait ThreadProbe {
    /// Whether the thread waits for something, in the kernel.
    fn is_waiting(&self, thread: i32) -> bool;
    /// Whether no other thread can end the thread's wait: it sleeps for a time, or waits for a device.
    fn waits_for_no_thread(&self, thread: i32) -> bool;
    /// The CPU time of the thread.
    fn processor_time(&self, thread: i32) -> Duration;
    /// How long threads of the process have been starved.
    fn sample(&mut self) -> Sample;
}

/// The system itself.
pub(super) struct SystemProbe {
    started: Instant,
    /// What the last sample cost.
    cost: Duration,
    starvation: Starvation,
}

impl SystemProbe {
    pub(super) fn new() -> Self {
        Self { started: Instant::now(), cost: Duration::ZERO, starvation: Starvation::default() }
    }
}

impl ThreadProbe for SystemProbe {
    fn is_waiting(&self, thread: i32) -> bool {
        thread_state::is_waiting(thread)
    }

    fn waits_for_no_thread(&self, thread: i32) -> bool {
        thread_state::waits_for_no_thread(thread)
    }

    fn processor_time(&self, thread: i32) -> Duration {
        thread_state::processor_time(thread).unwrap_or_default()
    }

    fn sample(&mut self) -> Sample {
        let now = self.started.elapsed();
        let is_due = self.starvation.at.is_none_or(|at| now - at > self.cost * SHARE);
        if is_due {
            // The watchdog's own thread counts as well: it may be preempted with a lock of the allocator.
            let threads = thread_state::threads();
            let times = threads.filter_map(|it| Some((it, thread_state::run_times(it)?)));
            self.starvation.add(now, times, thread_state::is_ready);
            self.cost = self.started.elapsed() - now;
        }
        let at = self.starvation.at.unwrap_or(now);
        Sample { at, starved: self.starvation.total() }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Starvation, ThreadProbe};
    use crate::sys::thread_state::RunTimes;
    use std::time::Duration;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Times in milliseconds: CPU time, time in run queues; and the number of time slices.
    fn times(had: u64, delayed: u64, slices: u64) -> RunTimes {
        RunTimes { had: ms(had), delayed: ms(delayed), slices }
    }

    /// The total after these samples of one thread: when, its times, whether it is ready.
    fn total(samples: &[(u64, RunTimes, bool)]) -> Duration {
        let mut starvation = Starvation::default();
        for (at, times, ready) in samples {
            starvation.add(ms(*at), [(1, *times)].into_iter(), |_| *ready);
        }
        starvation.total()
    }

    #[test]
    fn a_thread_that_sleeps_or_runs_is_not_starved() {
        let (idle, later) = (times(5, 7, 3), times(15, 7, 3));
        assert_eq!(total(&[(0, idle, false), (10, idle, false)]), ms(0));
        assert_eq!(total(&[(0, idle, true), (10, later, true)]), ms(0), "one slice for 10 ms");
    }

    #[test]
    fn delays_count_once_whether_they_have_ended_or_not() {
        let before = times(5, 7, 3);
        assert_eq!(total(&[(0, before, true), (10, before, true)]), ms(10));
        let ended = times(6, 31, 4);
        let samples =
            [(0, before, true), (10, before, true), (20, before, true), (30, ended, true)];
        assert_eq!(total(&samples), ms(24), "it ran after 24 ms");
    }

    #[test]
    fn of_several_threads_the_longest_delay_counts() {
        let mut starvation = Starvation::default();
        let idle = times(0, 0, 1);
        starvation.add(ms(0), [(1, idle), (2, idle)].into_iter(), |_| false);
        let now = [(1, times(1, 4, 2)), (2, times(1, 6, 2)), (3, times(1, 3, 1))];
        starvation.add(ms(10), now.into_iter(), |_| true);
        assert_eq!(starvation.total(), ms(6));
    }

    #[test]
    fn no_interval_has_more_than_its_length() {
        let late = [(0, times(0, 0, 1), true), (10, times(1, 500, 2), true)];
        assert_eq!(total(&late), ms(10));
    }

    /// Whatever the machine is doing: time passes, and starvation takes no more than that.
    #[test]
    fn the_system_answers() {
        let mut probe = super::SystemProbe::new();
        let first = probe.sample();
        let later = loop {
            let sample = probe.sample();
            if sample.at > first.at {
                break sample;
            }
        };
        assert!(later.starved - first.starved <= later.at - first.at);
    }
}
