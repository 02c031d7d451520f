//! What is seen from outside of a thread that polls tasks: which task it polls, and
//! since when, as far as the monitor has looked.

use crate::sys::{backtrace, thread_state};
use crate::task::header::Header;
use crate::task::runnable::Runnable;
use crate::telemetry::starvation::ThreadProbe;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering::*};
use std::time::Duration;

/// Written by the thread with every poll, by plain stores; read by anybody. Apart from
/// what other workers look at with every turn: these would wait for the cache line, and
/// the thread for its return.
#[repr(align(128))]
pub(crate) struct PollWatch {
    /// Counts polls, as they start; on one thread also looks for a task that find none.
    activity: AtomicU32,
    /// The cell of the task it polls, or polled a moment ago; null while it runs none.
    running: AtomicPtr<Header>,
    /// The system's number of the thread.
    thread: AtomicI32,
    /// `activity` at the monitor's last look. This and what follows is written by the
    /// monitor.
    seen: AtomicU32,
    /// When that was first seen, by the runtime's clock.
    since_ns: AtomicU64,
    stuck: AtomicBool,
    /// The last `activity` that was found again in a later look: a poll that lasted.
    lasted: AtomicU32,
    /// For how long it was seen to.
    lasted_ns: AtomicU64,
    /// What processor time the thread had had when it was first seen stuck.
    had_ns: AtomicU64,
    /// In how many looks it was found to wait.
    waits: AtomicU32,
    /// The quiet time (`starvation`) when the thread was first seen to wait in this poll, or UNKNOWN,
    quiet_before_ns: AtomicU64,
    /// and the CPU time that it had had in the poll until then.
    had_before_ns: AtomicU64,
    /// The poll was reported.
    reported: AtomicBool,
}

/// A poll that waits is long if it waits in so many looks in a row.
const WAITS: u32 = 2;
/// The thread was not seen to wait in this poll.
const UNKNOWN: u64 = u64::MAX;

impl PollWatch {
    pub(crate) fn new() -> Self {
        Self {
            activity: AtomicU32::new(0),
            running: AtomicPtr::new(ptr::null_mut()),
            thread: AtomicI32::new(0),
            seen: AtomicU32::new(0),
            since_ns: AtomicU64::new(0),
            stuck: AtomicBool::new(false),
            lasted: AtomicU32::new(0),
            lasted_ns: AtomicU64::new(0),
            had_ns: AtomicU64::new(0),
            waits: AtomicU32::new(0),
            quiet_before_ns: AtomicU64::new(UNKNOWN),
            had_before_ns: AtomicU64::new(0),
            reported: AtomicBool::new(false),
        }
    }

    /// The calling thread is the one.
    pub(crate) fn bind_thread(&self) {
        self.thread.store(backtrace::current_tid(), Relaxed);
    }

    /// Says of a thread what it has said elsewhere: by the one who looks. `is_polling`: it
    /// is in the poll of this count.
    pub(crate) fn mirror(&self, thread: i32, activity: u32, is_polling: bool) {
        self.thread.store(thread, Relaxed);
        self.set_activity(activity);
        // Not the cell of a task.
        let somebody = NonNull::dangling().as_ptr();
        self.set_running(if is_polling { somebody } else { ptr::null_mut() });
    }

    pub(crate) fn thread(&self) -> i32 {
        self.thread.load(Relaxed)
    }

    #[inline]
    pub(crate) fn activity(&self) -> u32 {
        self.activity.load(Relaxed)
    }

    /// A poll starts. Its end is not said: the next poll starts, or `clear_running`.
    #[inline]
    pub(crate) fn start_poll(&self, task: &Runnable) {
        self.set_activity(self.activity().wrapping_add(1));
        self.set_running(task.cell());
    }

    #[inline]
    pub(crate) fn set_running(&self, cell: *mut Header) {
        // Release: who sees the task sees that it was made, and the count.
        self.running.store(cell, Release);
    }

    /// The thread runs no tasks, for a moment or longer.
    #[inline]
    pub(crate) fn clear_running(&self) {
        self.running.store(ptr::null_mut(), Relaxed);
    }

    /// How many polls have started.
    #[inline]
    pub(crate) fn set_activity(&self, activity: u32) {
        self.activity.store(activity, Relaxed);
    }

    /// The cell of the task that is polled, and since when if that was seen.
    pub(crate) fn polls(&self) -> Option<(NonNull<Header>, Option<Duration>)> {
        let running = self.running()?;
        let seen = self.seen.load(Acquire) == self.activity.load(Acquire);
        let since = seen.then(|| Duration::from_nanos(self.since_ns.load(Relaxed)));
        Some((running, since))
    }

    pub(crate) fn running(&self) -> Option<NonNull<Header>> {
        NonNull::new(self.running.load(Acquire))
    }

    /// The monitor's look: for how long it has seen the thread in this poll, zero if
    /// it sees it for the first time; None if it is in none.
    pub(crate) fn look(&self, now: Duration) -> Option<Duration> {
        let activity = self.activity.load(Acquire);
        if self.seen.load(Relaxed) != activity {
            self.since_ns.store(now.as_nanos() as u64, Relaxed);
            self.seen.store(activity, Release);
            self.stuck.store(false, Relaxed);
            self.reported.store(false, Relaxed);
            self.waits.store(0, Relaxed);
            self.quiet_before_ns.store(UNKNOWN, Relaxed);
            self.had_ns.store(self.processor_ns(), Relaxed);
        }
        self.running()?;
        let stuck = now.saturating_sub(Duration::from_nanos(self.since_ns.load(Relaxed)));
        if !stuck.is_zero() {
            self.lasted_ns.store(stuck.as_nanos() as u64, Relaxed);
            self.lasted.store(activity, Release);
        }
        Some(stuck)
    }

    /// For how long the last poll was seen that lasted, if there was one since this `activity`.
    /// By the thread itself.
    pub(crate) fn lasted_since(&self, activity: u32) -> Option<u64> {
        let nth = self.lasted.load(Acquire).wrapping_sub(activity);
        let is_since = (1..=self.activity().wrapping_sub(activity)).contains(&nth);
        is_since.then(|| self.lasted_ns.load(Relaxed))
    }

    /// Whether polls have started since the last look.
    pub(crate) fn has_moved(&self) -> bool {
        self.activity.load(Acquire) != self.seen.load(Relaxed)
    }

    /// Whether it is in the poll of the last look.
    pub(crate) fn is_where_it_was(&self) -> bool {
        self.running().is_some() && self.activity.load(Acquire) == self.seen.load(Relaxed)
    }

    pub(crate) fn set_stuck(&self, stuck: bool) {
        self.stuck.store(stuck, Relaxed);
    }

    /// Whether the monitor has found it stuck, and it has not moved since.
    pub(crate) fn is_stuck(&self) -> bool {
        self.stuck.load(Relaxed) && self.is_where_it_was()
    }

    /// Whether the poll of the last look was reported.
    pub(crate) fn is_reported(&self) -> bool {
        self.reported.load(Relaxed)
    }

    fn processor_ns(&self) -> u64 {
        thread_state::cpu_time(self.thread()).map_or(0, |time| time.as_nanos() as u64)
    }

    /// Whether the poll has lasted for `after` by its own fault: its thread has had the CPU for that time, or waits in
    /// the kernel and has done so for that time. True once per poll. `stuck`: for how long the poll was seen to last.
    ///
    /// On a busy machine a thread may lack a CPU, or wait for a thread that lacks one: for a lock, or inside the kernel
    /// for the process's memory map. That time does not count (`starvation`), unless the thread sleeps, which no other
    /// thread could end. Nor does the start of a process count: the thread waits for the new process, which may lack a
    /// CPU as well and is no thread of this process.
    pub(crate) fn is_to_report(
        &self,
        stuck: Duration,
        after: Duration,
        probe: &mut dyn ThreadProbe,
    ) -> bool {
        if self.is_reported() || !self.is_where_it_was() {
            return false;
        }
        let thread = self.thread();
        let had_ns = probe.cpu_time(thread).as_nanos() as u64;
        let had = Duration::from_nanos(had_ns.saturating_sub(self.had_ns.load(Relaxed)));
        let is_waiting = probe.is_waiting(thread);
        self.waits.store(if is_waiting { self.waits.load(Relaxed) + 1 } else { 0 }, Relaxed);
        let blocked = match () {
            () if !is_waiting => Duration::ZERO,
            () if probe.is_in_timed_sleep(thread) => stuck,
            () if probe.is_starting_process(thread) => {
                self.quiet_before_ns.store(UNKNOWN, Relaxed);
                Duration::ZERO
            }
            () => self.blocked_time(probe.quiet_time(), had),
        };
        let waits = self.waits.load(Relaxed) >= WAITS && blocked >= after;
        let at_fault = stuck >= after && (waits || had >= after);
        at_fault && self.is_where_it_was() && !self.reported.swap(true, Relaxed)
    }

    /// For how long the poll has run, or waited while no thread of the process was starved. Begins to measure in the
    /// first look that finds the thread waiting. `quiet`: what the probe says now. `had`: the CPU time of the poll.
    fn blocked_time(&self, quiet: Duration, had: Duration) -> Duration {
        if self.quiet_before_ns.load(Relaxed) == UNKNOWN {
            self.quiet_before_ns.store(quiet.as_nanos() as u64, Relaxed);
            self.had_before_ns.store(had.as_nanos() as u64, Relaxed);
        }
        let [quiet_before, had_before] = [&self.quiet_before_ns, &self.had_before_ns]
            .map(|ns| Duration::from_nanos(ns.load(Relaxed)));
        had_before + quiet.saturating_sub(quiet_before)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::PollWatch;
    use crate::telemetry::starvation::ThreadProbe;
    use std::time::Duration;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// A machine in which every thread does the same.
    struct Machine {
        is_waiting: bool,
        sleeps: bool,
        is_starting_process: bool,
        had: Duration,
        quiet: Duration,
    }

    impl ThreadProbe for Machine {
        fn is_waiting(&self, _thread: i32) -> bool {
            self.is_waiting
        }

        fn is_in_timed_sleep(&self, _thread: i32) -> bool {
            self.sleeps
        }

        fn cpu_time(&self, _thread: i32) -> Duration {
            self.had
        }

        fn is_starting_process(&self, _thread: i32) -> bool {
            self.is_starting_process
        }

        fn quiet_time(&mut self) -> Duration {
            self.quiet
        }
    }

    /// Waits for another thread, on a machine that was quiet for `quiet` milliseconds.
    fn waits(quiet: u64) -> Machine {
        let quiet = ms(quiet);
        Machine { is_waiting: true, sleeps: false, is_starting_process: false, had: ms(0), quiet }
    }

    const AFTER: Duration = Duration::from_millis(100);

    /// After how many milliseconds a poll is reported that is looked at every 10 ms, up to a second. `machine` says
    /// what the system answers at each look.
    fn reported_after(machine: impl Fn(u64) -> Machine) -> Option<u64> {
        let watched = PollWatch::new();
        watched.mirror(1, 2, true);
        watched.look(ms(0));
        (10..=1000).step_by(10).find(|now| {
            let stuck = watched.look(ms(*now)).unwrap();
            watched.is_to_report(stuck, AFTER, &mut machine(*now))
        })
    }

    /// Waits for a lock, while some thread lacks a CPU in so many of a hundred milliseconds.
    fn waits_with(starved_percent: u64) -> Option<u64> {
        reported_after(|now| waits(now * (100 - starved_percent) / 100))
    }

    #[test]
    fn waiting_for_a_thread_that_lacks_a_cpu_does_not_count() {
        assert_eq!(waits_with(0), Some(110), "from the first look at it on");
        assert_eq!(waits_with(50), Some(210));
        assert_eq!(waits_with(90), None, "not within a second");
        assert_eq!(waits_with(100), None);
    }

    #[test]
    fn a_machine_that_was_busy_for_a_while_delays_the_report() {
        assert_eq!(reported_after(|now| waits(now.saturating_sub(300))), Some(400));
    }

    #[test]
    fn a_thread_that_sleeps_is_reported_on_any_machine() {
        assert_eq!(reported_after(|_| Machine { sleeps: true, ..waits(0) }), Some(100));
    }

    #[test]
    fn starting_a_process_is_no_block() {
        let starts = |now| Machine { is_starting_process: true, ..waits(now) };
        assert_eq!(reported_after(starts), None);
        let then_waits = |now| Machine { is_starting_process: now <= 300, ..waits(now) };
        assert_eq!(reported_after(then_waits), Some(410), "from the first look after that on");
    }

    #[test]
    fn the_cpu_time_of_the_poll_counts() {
        let computes = |share: u64| {
            reported_after(move |now| Machine {
                is_waiting: false,
                had: ms(now * share / 100),
                ..waits(0)
            })
        };
        assert_eq!((computes(100), computes(50), computes(5)), (Some(100), Some(200), None));
        let then_waits = reported_after(|now| Machine {
            is_waiting: now > 60,
            had: ms(now.min(60)),
            ..waits(now)
        });
        assert_eq!(
            then_waits,
            Some(110),
            "60 ms of work, and 40 from the first look at its wait on"
        );
    }
}
