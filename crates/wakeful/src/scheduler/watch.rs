//! What is seen from outside of a thread that polls tasks: which task it polls, and
//! since when, as far as the monitor has looked.

use crate::sys::{backtrace, thread_state};
use crate::task::header::Header;
use crate::task::runnable::Runnable;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering::*};
use std::time::Duration;

/// Written by the thread with every poll, by plain stores; read by anybody. Apart from
/// what other workers look at with every turn: these would wait for the cache line, and
/// the thread for its return.
#[repr(align(128))]
pub(crate) struct Watched {
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
    /// The poll was reported.
    reported: AtomicBool,
}

/// A poll that waits is long if it waits in so many looks in a row.
const WAITS: u32 = 2;

impl Watched {
    pub(super) fn new() -> Self {
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
            reported: AtomicBool::new(false),
        }
    }

    /// The calling thread is the one.
    pub(super) fn sit_down(&self) {
        self.thread.store(backtrace::this_thread(), Relaxed);
    }

    /// Says of a thread what it has said elsewhere: by the one who looks. `is_polling`: it
    /// is in the poll of this count.
    pub(super) fn mirror(&self, thread: i32, activity: u32, is_polling: bool) {
        self.thread.store(thread, Relaxed);
        self.set_activity(activity);
        // Not the cell of a task.
        let somebody = NonNull::dangling().as_ptr();
        self.set_running(if is_polling { somebody } else { ptr::null_mut() });
    }

    pub(super) fn thread(&self) -> i32 {
        self.thread.load(Relaxed)
    }

    #[inline]
    pub(super) fn activity(&self) -> u32 {
        self.activity.load(Relaxed)
    }

    /// A poll starts. Its end is not said: the next poll starts, or `runs_nothing`.
    #[inline]
    pub(super) fn start_poll(&self, task: &Runnable) {
        self.set_activity(self.activity().wrapping_add(1));
        self.set_running(task.cell());
    }

    #[inline]
    pub(super) fn set_running(&self, cell: *mut Header) {
        // Release: who sees the task sees that it was made, and the count.
        self.running.store(cell, Release);
    }

    /// The thread runs no tasks, for a moment or longer.
    #[inline]
    pub(super) fn runs_nothing(&self) {
        self.running.store(ptr::null_mut(), Relaxed);
    }

    /// How many polls have started.
    #[inline]
    pub(super) fn set_activity(&self, activity: u32) {
        self.activity.store(activity, Relaxed);
    }

    /// The cell of the task that is polled, and since when if that was seen.
    pub(super) fn polls(&self) -> Option<(NonNull<Header>, Option<Duration>)> {
        let running = self.running()?;
        let seen = self.seen.load(Acquire) == self.activity.load(Acquire);
        let since = seen.then(|| Duration::from_nanos(self.since_ns.load(Relaxed)));
        Some((running, since))
    }

    pub(super) fn running(&self) -> Option<NonNull<Header>> {
        NonNull::new(self.running.load(Acquire))
    }

    /// The monitor's look: for how long it has seen the thread in this poll, zero if
    /// it sees it for the first time; None if it is in none.
    pub(super) fn look(&self, now: Duration) -> Option<Duration> {
        let activity = self.activity.load(Acquire);
        if self.seen.load(Relaxed) != activity {
            self.since_ns.store(now.as_nanos() as u64, Relaxed);
            self.seen.store(activity, Release);
            self.stuck.store(false, Relaxed);
            self.reported.store(false, Relaxed);
            self.waits.store(0, Relaxed);
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
    pub(super) fn lasted_since(&self, activity: u32) -> Option<u64> {
        let nth = self.lasted.load(Acquire).wrapping_sub(activity);
        let is_since = (1..=self.activity().wrapping_sub(activity)).contains(&nth);
        is_since.then(|| self.lasted_ns.load(Relaxed))
    }

    /// Whether polls have started since the last look.
    pub(super) fn has_moved(&self) -> bool {
        self.activity.load(Acquire) != self.seen.load(Relaxed)
    }

    /// Whether it is in the poll of the last look.
    pub(super) fn is_where_it_was(&self) -> bool {
        self.running().is_some() && self.activity.load(Acquire) == self.seen.load(Relaxed)
    }

    pub(super) fn set_stuck(&self, stuck: bool) {
        self.stuck.store(stuck, Relaxed);
    }

    /// Whether the monitor has found it stuck, and it has not moved since.
    pub(super) fn is_stuck(&self) -> bool {
        self.stuck.load(Relaxed) && self.is_where_it_was()
    }

    /// Whether the poll of the last look was reported.
    pub(super) fn is_reported(&self) -> bool {
        self.reported.load(Relaxed)
    }

    fn processor_ns(&self) -> u64 {
        thread_state::processor_time(self.thread()).map_or(0, |time| time.as_nanos() as u64)
    }

    /// Whether the poll that it is in has lasted for `after` by its own fault: it waits in
    /// the kernel, or it has had the processor for so long. A thread that others keep from running on
    /// a busy machine does neither. True once per poll. `stuck`: for how long it was seen in it.
    pub(super) fn is_to_report(&self, stuck: Duration, after: Duration) -> bool {
        if self.is_reported() || !self.is_where_it_was() {
            return false;
        }
        if thread_state::is_waiting(self.thread()) {
            self.waits.store(self.waits.load(Relaxed) + 1, Relaxed);
        } else {
            self.waits.store(0, Relaxed);
        }
        if stuck < after {
            return false;
        }
        let had = self.processor_ns().saturating_sub(self.had_ns.load(Relaxed));
        let computes = Duration::from_nanos(had) >= after;
        let at_fault = self.waits.load(Relaxed) >= WAITS || computes;
        at_fault && self.is_where_it_was() && !self.reported.swap(true, Relaxed)
    }
}
