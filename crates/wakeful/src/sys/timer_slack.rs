//! Timer slack: how late the kernel may end a sleep of a thread.
//!
//! By default, Linux may delay the timers of ordinary threads by 50 µs, to serve several at once.
//! A worker that sleeps until its next timer sets a smaller slack ([`TimerSlack`]). The watchdog
//! allows a larger one ([`RelaxedSleep`]), so that its timer can share an interrupt with another
//! timer.
//!
//! A new thread inherits the slack of the thread that starts it. So a larger slack is set only for
//! single sleeps, during which no thread can be started.

use std::cell::Cell;
use std::time::Duration;

/// A guard for the timer slack of the current thread. Dropping it restores the old slack.
#[derive(Debug)]
pub(crate) struct TimerSlack {
    /// The old slack in nanoseconds, if the slack was changed.
    before_ns: Cell<Option<u64>>,
    _thread: std::marker::PhantomData<*const ()>,
}

impl TimerSlack {
    pub(crate) const fn new() -> Self {
        Self { before_ns: Cell::new(None), _thread: std::marker::PhantomData }
    }

    /// Sets the minimal slack. From now on the sleeps of this thread end on time.
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

/// Sleeps of the current thread that the kernel may end late.
#[derive(Debug)]
pub(crate) struct RelaxedSleep {
    /// The slack outside of these sleeps.
    before_ns: u64,
    _thread: std::marker::PhantomData<*const ()>,
}

impl RelaxedSleep {
    pub(crate) fn new() -> Self {
        Self { before_ns: imp::current(), _thread: std::marker::PhantomData }
    }

    /// Calls `sleep`, whose end the kernel may delay by up to `slack`.
    pub(crate) fn sleep<R>(&self, slack: Duration, sleep: impl FnOnce() -> R) -> R {
        imp::set(slack.as_nanos() as u64);
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

    /// Sets the slack. If the kernel refuses, the old slack stays.
    pub(super) fn set(slack_ns: u64) {
        let _ = set_current_timer_slack(NonZeroU64::new(slack_ns));
    }

    /// Sets the slack. Returns the old one.
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
    fn the_old_slack_is_restored() {
        let before_ns = current_timer_slack().unwrap();
        let slack = TimerSlack::new();
        assert_eq!(current_timer_slack().unwrap(), before_ns, "unchanged until `minimize`");
        slack.minimize();
        slack.minimize();
        assert_eq!(current_timer_slack().unwrap(), 1);
        drop(slack);
        assert_eq!(current_timer_slack().unwrap(), before_ns);
    }

    #[test]
    fn only_the_sleep_has_the_larger_slack() {
        let before_ns = current_timer_slack().unwrap();
        let relaxed = RelaxedSleep::new();
        assert_eq!(current_timer_slack().unwrap(), before_ns);
        let slack = Duration::from_millis(4);
        let during_ns = relaxed.sleep(slack, || current_timer_slack().unwrap());
        assert_eq!((during_ns, current_timer_slack().unwrap()), (4_000_000, before_ns));
    }
}
