//! Shows other threads which task a thread polls, and since when.
//!
//! The thread stores the task's cell and a counter with each poll. It does not read the clock: the
//! watchdog observes the counter from time to time. If it finds the same value again, the poll has
//! lasted at least since the first of these observations.

use crate::sys::sync::ignore_poison;
use crate::sys::{backtrace, thread_state};
use crate::task::header::Header;
use crate::task::runnable::Runnable;
use crate::telemetry::starvation::ThreadProbe;
use std::ptr::{self, NonNull};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering::*};
use std::thread::ThreadId;
use std::time::Duration;

/// The current poll of one thread.
///
/// The thread writes the first four fields, and the watchdog writes the others. All but
/// `std_thread`, which has a lock, are written with plain stores. Any thread may read all of them.
/// The alignment separates the fields from others that workers read once per round: those reads
/// would slow down the stores of each poll.
#[repr(align(128))]
pub(crate) struct PollWatch {
    /// The number of polls that have started, wrapping. On a current-thread runtime it also counts
    /// the searches for a task that found none.
    activity: AtomicU32,
    /// The cell of the task that the thread polls or has just polled. Null while it runs no tasks.
    running: AtomicPtr<Header>,
    /// The kernel's id of the thread.
    thread: AtomicI32,
    /// The thread's `std::thread::ThreadId`, for metrics.
    std_thread: Mutex<Option<ThreadId>>,
    /// `activity` at the last observation.
    observed: AtomicU32,
    /// When that value was first observed, on the runtime's clock.
    observed_since_ns: AtomicU64,
    stuck: AtomicBool,
    /// The last `activity` that was observed more than once, which identifies a long poll.
    lasting: AtomicU32,
    /// For how long that poll was observed.
    lasting_ns: AtomicU64,
    /// The thread's CPU time when the poll was first observed.
    cpu_before_ns: AtomicU64,
    /// The number of observations in a row that found the thread waiting.
    waits: AtomicU32,
    /// The unstarved time (`starvation`) when the thread was first observed waiting in this poll, or
    /// UNKNOWN.
    unstarved_before_ns: AtomicU64,
    /// The CPU time that the poll had used up to that observation.
    cpu_before_wait_ns: AtomicU64,
    /// Whether the poll was reported.
    reported: AtomicBool,
}

/// A thread is blocked if it waits in this many observations in a row.
const MIN_WAITS: u32 = 2;
/// The value of `unstarved_before_ns` if the thread was not observed waiting in this poll.
const UNKNOWN: u64 = u64::MAX;

impl PollWatch {
    pub(crate) fn new() -> Self {
        Self {
            activity: AtomicU32::new(0),
            running: AtomicPtr::new(ptr::null_mut()),
            thread: AtomicI32::new(0),
            std_thread: Mutex::new(None),
            observed: AtomicU32::new(0),
            observed_since_ns: AtomicU64::new(0),
            stuck: AtomicBool::new(false),
            lasting: AtomicU32::new(0),
            lasting_ns: AtomicU64::new(0),
            cpu_before_ns: AtomicU64::new(0),
            waits: AtomicU32::new(0),
            unstarved_before_ns: AtomicU64::new(UNKNOWN),
            cpu_before_wait_ns: AtomicU64::new(0),
            reported: AtomicBool::new(false),
        }
    }

    /// Makes the calling thread the watched one.
    #[inline]
    pub(crate) fn bind_thread(&self) {
        let thread = backtrace::current_tid();
        if self.thread.load(Relaxed) != thread {
            self.bind_other(thread);
        }
    }

    /// Binds a thread other than the last one. The kernel reuses the id of an ended thread only
    /// after all other ids.
    #[cold]
    fn bind_other(&self, thread: i32) {
        *ignore_poison(self.std_thread.lock()) = Some(std::thread::current().id());
        self.thread.store(thread, Relaxed);
    }

    /// Returns the thread that was bound last.
    pub(crate) fn std_thread(&self) -> Option<ThreadId> {
        *ignore_poison(self.std_thread.lock())
    }

    /// Copies the state of a thread that publishes it in a separate record, as a thread in
    /// `block_on` does.
    ///
    /// Only the watchdog calls it. `is_polling` says that the thread is in the poll with the number
    /// `activity`.
    pub(crate) fn mirror(&self, thread: i32, activity: u32, is_polling: bool) {
        self.thread.store(thread, Relaxed);
        self.set_activity(activity);
        // Neither null nor the cell of a task.
        let placeholder = NonNull::dangling().as_ptr();
        self.set_running(if is_polling { placeholder } else { ptr::null_mut() });
    }

    pub(crate) fn thread(&self) -> i32 {
        self.thread.load(Relaxed)
    }

    #[inline]
    pub(crate) fn activity(&self) -> u32 {
        self.activity.load(Relaxed)
    }

    /// Starts a poll. It ends when the next one starts, or with
    /// [`clear_running`](Self::clear_running).
    #[inline]
    pub(crate) fn start_poll(&self, task: &Runnable) {
        self.set_activity(self.activity().wrapping_add(1));
        self.set_running(task.cell());
    }

    #[inline]
    pub(crate) fn set_running(&self, cell: *mut Header) {
        // Release pairs with the Acquire in `running`: a thread that sees the cell sees an
        // initialized task, and the poll's number.
        self.running.store(cell, Release);
    }

    /// Records that the thread runs no task.
    #[inline]
    pub(crate) fn clear_running(&self) {
        self.running.store(ptr::null_mut(), Relaxed);
    }

    /// Sets the number of polls that have started.
    #[inline]
    pub(crate) fn set_activity(&self, activity: u32) {
        self.activity.store(activity, Relaxed);
    }

    /// Returns the cell of the task in the current poll, and since when it was observed, if it was.
    pub(crate) fn current_poll(&self) -> Option<(NonNull<Header>, Option<Duration>)> {
        let running = self.running()?;
        let is_observed = self.observed.load(Acquire) == self.activity.load(Acquire);
        let since = is_observed.then(|| Duration::from_nanos(self.observed_since_ns.load(Relaxed)));
        Some((running, since))
    }

    pub(crate) fn running(&self) -> Option<NonNull<Header>> {
        NonNull::new(self.running.load(Acquire))
    }

    /// Observes the thread at the time `now`. Only the watchdog calls it.
    ///
    /// Returns for how long the current poll was observed, zero the first time. Returns `None` if
    /// the thread is in no poll.
    pub(crate) fn observe(&self, now: Duration) -> Option<Duration> {
        let activity = self.activity.load(Acquire);
        if self.observed.load(Relaxed) != activity {
            self.observed_since_ns.store(now.as_nanos() as u64, Relaxed);
            self.observed.store(activity, Release);
            self.stuck.store(false, Relaxed);
            self.reported.store(false, Relaxed);
            self.waits.store(0, Relaxed);
            self.unstarved_before_ns.store(UNKNOWN, Relaxed);
            self.cpu_before_ns.store(self.cpu_ns(), Relaxed);
        }
        self.running()?;
        let since = Duration::from_nanos(self.observed_since_ns.load(Relaxed));
        let observed = now.saturating_sub(since);
        if !observed.is_zero() {
            self.lasting_ns.store(observed.as_nanos() as u64, Relaxed);
            self.lasting.store(activity, Release);
        }
        Some(observed)
    }

    /// Returns for how long the last long poll was observed, if it started after the poll
    /// `activity`. Only the watched thread calls it.
    pub(crate) fn lasting_ns_since(&self, activity: u32) -> Option<u64> {
        let nth = self.lasting.load(Acquire).wrapping_sub(activity);
        let is_since = (1..=self.activity().wrapping_sub(activity)).contains(&nth);
        is_since.then(|| self.lasting_ns.load(Relaxed))
    }

    /// Returns whether polls have started since the last observation.
    pub(crate) fn has_moved(&self) -> bool {
        self.activity.load(Acquire) != self.observed.load(Relaxed)
    }

    /// Returns whether the thread is still in the poll of the last observation.
    pub(crate) fn is_in_observed_poll(&self) -> bool {
        self.running().is_some() && self.activity.load(Acquire) == self.observed.load(Relaxed)
    }

    pub(crate) fn set_stuck(&self, stuck: bool) {
        self.stuck.store(stuck, Relaxed);
    }

    /// Returns whether the watchdog found the thread stuck in the poll that it is still in.
    pub(crate) fn is_stuck(&self) -> bool {
        self.stuck.load(Relaxed) && self.is_in_observed_poll()
    }

    /// Returns whether the poll of the last observation was reported.
    pub(crate) fn is_reported(&self) -> bool {
        self.reported.load(Relaxed)
    }

    fn cpu_ns(&self) -> u64 {
        thread_state::cpu_time(self.thread()).map_or(0, |time| time.as_nanos() as u64)
    }

    /// Claims the report of a poll that has blocked its thread for `after`. Returns true once per
    /// poll.
    ///
    /// `observed` is the time for which the poll was observed. Of that time, the CPU time of the
    /// thread counts, or the time for which it waits in the kernel.
    ///
    /// On a busy machine a thread may be starved, or may wait for a starved thread: for a lock, or
    /// inside the kernel for the process's memory map. So a wait counts only for the unstarved time
    /// (`starvation`). A sleep for a fixed time counts in full, because no other thread could end
    /// it. The start of a child process does not count: the thread waits for the child, which may
    /// be starved too and is not sampled.
    pub(crate) fn claim_report(
        &self,
        observed: Duration,
        after: Duration,
        probe: &mut dyn ThreadProbe,
    ) -> bool {
        if self.is_reported() || !self.is_in_observed_poll() {
            return false;
        }
        let thread = self.thread();
        let cpu_ns = probe.cpu_time(thread).as_nanos() as u64;
        let cpu_time =
            Duration::from_nanos(cpu_ns.saturating_sub(self.cpu_before_ns.load(Relaxed)));
        let is_waiting = probe.is_waiting(thread);
        self.waits.store(if is_waiting { self.waits.load(Relaxed) + 1 } else { 0 }, Relaxed);
        let blocked = match () {
            () if !is_waiting => Duration::ZERO,
            () if probe.is_in_timed_sleep(thread) => observed,
            () if probe.is_starting_process(thread) => {
                self.unstarved_before_ns.store(UNKNOWN, Relaxed);
                Duration::ZERO
            }
            () => self.blocked_time(probe.unstarved_time(), cpu_time),
        };
        let is_blocked = self.waits.load(Relaxed) >= MIN_WAITS && blocked >= after;
        let is_at_fault = observed >= after && (is_blocked || cpu_time >= after);
        is_at_fault && self.is_in_observed_poll() && !self.reported.swap(true, Relaxed)
    }

    /// Returns for how long the poll ran before its wait, plus the unstarved time of the wait.
    ///
    /// The wait is measured from the first observation that finds the thread waiting. `unstarved` is
    /// the unstarved time of the process so far, `cpu_time` the CPU time of the poll.
    fn blocked_time(&self, unstarved: Duration, cpu_time: Duration) -> Duration {
        if self.unstarved_before_ns.load(Relaxed) == UNKNOWN {
            self.unstarved_before_ns.store(unstarved.as_nanos() as u64, Relaxed);
            self.cpu_before_wait_ns.store(cpu_time.as_nanos() as u64, Relaxed);
        }
        let [unstarved_before, cpu_before_wait] =
            [&self.unstarved_before_ns, &self.cpu_before_wait_ns]
                .map(|ns| Duration::from_nanos(ns.load(Relaxed)));
        cpu_before_wait + unstarved.saturating_sub(unstarved_before)
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

    /// A machine whose threads are all in the same state.
    struct Machine {
        is_waiting: bool,
        is_sleeping: bool,
        is_starting_process: bool,
        cpu_time: Duration,
        unstarved: Duration,
    }

    impl ThreadProbe for Machine {
        fn is_waiting(&self, _thread: i32) -> bool {
            self.is_waiting
        }

        fn is_in_timed_sleep(&self, _thread: i32) -> bool {
            self.is_sleeping
        }

        fn cpu_time(&self, _thread: i32) -> Duration {
            self.cpu_time
        }

        fn is_starting_process(&self, _thread: i32) -> bool {
            self.is_starting_process
        }

        fn unstarved_time(&mut self) -> Duration {
            self.unstarved
        }
    }

    /// Waits for another thread, on a machine where no thread lacked a CPU for `unstarved`
    /// milliseconds.
    fn waits(unstarved: u64) -> Machine {
        let unstarved = ms(unstarved);
        Machine {
            is_waiting: true,
            is_sleeping: false,
            is_starting_process: false,
            cpu_time: ms(0),
            unstarved,
        }
    }

    const AFTER: Duration = Duration::from_millis(100);

    /// Returns after how many milliseconds a poll is reported that is observed every 10 ms, up to a
    /// second. `machine` gives the state of the machine at each observation.
    fn reported_after(machine: impl Fn(u64) -> Machine) -> Option<u64> {
        let poll_watch = PollWatch::new();
        poll_watch.mirror(1, 2, true);
        poll_watch.observe(ms(0));
        (10..=1000).step_by(10).find(|now| {
            let observed = poll_watch.observe(ms(*now)).unwrap();
            poll_watch.claim_report(observed, AFTER, &mut machine(*now))
        })
    }

    /// Waits for a lock, while some thread lacks a CPU for this share of the time.
    fn waits_with(starved_percent: u64) -> Option<u64> {
        reported_after(|now| waits(now * (100 - starved_percent) / 100))
    }

    #[test]
    fn waiting_for_a_thread_that_lacks_a_cpu_does_not_count() {
        assert_eq!(waits_with(0), Some(110), "from the first observation on");
        assert_eq!(waits_with(50), Some(210));
        assert_eq!(waits_with(90), None, "not within a second");
        assert_eq!(waits_with(100), None);
    }

    #[test]
    fn a_busy_machine_delays_the_report() {
        assert_eq!(reported_after(|now| waits(now.saturating_sub(300))), Some(400));
    }

    #[test]
    fn a_thread_that_sleeps_is_reported_on_any_machine() {
        assert_eq!(reported_after(|_| Machine { is_sleeping: true, ..waits(0) }), Some(100));
    }

    #[test]
    fn starting_a_process_does_not_count() {
        let starts = |now| Machine { is_starting_process: true, ..waits(now) };
        assert_eq!(reported_after(starts), None);
        let then_waits = |now| Machine { is_starting_process: now <= 300, ..waits(now) };
        assert_eq!(
            reported_after(then_waits),
            Some(410),
            "from the first observation after that on"
        );
    }

    #[test]
    fn the_cpu_time_of_the_poll_counts() {
        let computes = |share: u64| {
            reported_after(move |now| Machine {
                is_waiting: false,
                cpu_time: ms(now * share / 100),
                ..waits(0)
            })
        };
        assert_eq!((computes(100), computes(50), computes(5)), (Some(100), Some(200), None));
        let then_waits = reported_after(|now| Machine {
            is_waiting: now > 60,
            cpu_time: ms(now.min(60)),
            ..waits(now)
        });
        assert_eq!(then_waits, Some(110), "60 ms of work, and 40 ms since its wait was observed");
    }
}
