//! How far the kernel may put off the end of a thread's sleep.
//!
//! By default Linux lets timers of ordinary threads be late by 50 µs, so that
//! several can be served at once. A thread that sleeps until its next timer asks
//! for less, and gives back what it had when it has done so for the last time. One that
//! only looks around now and then allows more: its timer then goes off with an interrupt
//! that comes anyway, and what else runs on that core is not interrupted once more.
//!
//! A new thread has the slack of the one that starts it. So the latter is allowed for
//! single sleeps only, in which nothing can be started.

use std::cell::Cell;
use std::time::Duration;

/// The slack of the thread that made it, which must not leave it.
#[derive(Debug)]
pub(crate) struct TimerSlack {
    /// What it was before, in nanoseconds, if it was changed.
    before_ns: Cell<Option<u64>>,
    _thread: std::marker::PhantomData<*const ()>,
}

impl TimerSlack {
    pub(crate) const fn new() -> Self {
        Self { before_ns: Cell::new(None), _thread: std::marker::PhantomData }
    }

    /// From here on this thread's sleeps end in time.
    #[inline]
    pub(crate) fn minimize(&self) {
        if self.before_ns.get().is_none() {
            self.before_ns.set(Some(imp::replace(1)));
        }
    }
}

impl Drop for TimerSlack {
    fn drop(&mut self) {
        if let Some(before_ns) = self.before_ns.take() {
            imp::replace(before_ns);
        }
    }
}

/// Allows sleeps of the thread that made it to be late.
#[derive(Debug)]
pub(crate) struct RelaxedSleep {
    /// The slack it has otherwise.
    before_ns: u64,
    _thread: std::marker::PhantomData<*const ()>,
}

impl RelaxedSleep {
    pub(crate) fn new() -> Self {
        Self { before_ns: imp::current(), _thread: std::marker::PhantomData }
    }

    /// Calls `sleep`, which may last longer by so much.
    pub(crate) fn sleep<R>(&self, late: Duration, sleep: impl FnOnce() -> R) -> R {
        imp::set(late.as_nanos() as u64);
        let slept = sleep();
        imp::set(self.before_ns);
        slept
    }
}

#[cfg(not(all(test, loom)))]
mod imp {
    use rustix::thread::{current_timer_slack, set_current_timer_slack};
    use std::num::NonZeroU64;

    pub(super) fn current() -> u64 {
        current_timer_slack().unwrap_or(0)
    }

    /// If the kernel refuses, sleeps are as long as they were.
    pub(super) fn set(slack_ns: u64) {
        let _ = set_current_timer_slack(NonZeroU64::new(slack_ns));
    }

    /// Sets this thread's slack and gives back the one before.
    pub(super) fn replace(slack_ns: u64) -> u64 {
        let before_ns = current();
        set(slack_ns);
        before_ns
    }
}

#[cfg(all(test, loom))]
mod imp {
    pub(super) fn current() -> u64 {
        0
    }

    pub(super) fn set(_slack_ns: u64) {}

    pub(super) fn replace(_slack_ns: u64) -> u64 {
        0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{RelaxedSleep, TimerSlack};
    use rustix::thread::current_timer_slack;
    use std::time::Duration;

    #[test]
    fn a_thread_gets_back_what_it_had() {
        let before_ns = current_timer_slack().unwrap();
        let slack = TimerSlack::new();
        assert_eq!(current_timer_slack().unwrap(), before_ns, "not before it is needed");
        slack.minimize();
        slack.minimize();
        assert_eq!(current_timer_slack().unwrap(), 1);
        drop(slack);
        assert_eq!(current_timer_slack().unwrap(), before_ns);
    }

    #[test]
    fn only_the_sleep_itself_may_be_late() {
        let before_ns = current_timer_slack().unwrap();
        let leisure = RelaxedSleep::new();
        assert_eq!(current_timer_slack().unwrap(), before_ns);
        let late = Duration::from_millis(4);
        let during_ns = leisure.sleep(late, || current_timer_slack().unwrap());
        assert_eq!((during_ns, current_timer_slack().unwrap()), (4_000_000, before_ns));
    }
}
