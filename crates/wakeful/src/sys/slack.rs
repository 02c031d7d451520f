//! How far the kernel may put off the end of a thread's sleep.
//!
//! By default Linux lets timers of ordinary threads be late by 50 µs, so that
//! several can be served at once. A thread that sleeps until its next timer asks
//! for less, and gives back what it had when it has done so for the last time.

use std::cell::Cell;

/// The slack of the thread that made it, which must not leave it.
#[derive(Debug)]
pub(crate) struct Slack {
    /// What it was before, in nanoseconds, if it was changed.
    before_ns: Cell<Option<u64>>,
    _thread: std::marker::PhantomData<*const ()>,
}

impl Slack {
    pub(crate) const fn new() -> Self {
        Self { before_ns: Cell::new(None), _thread: std::marker::PhantomData }
    }

    /// From here on this thread's sleeps end in time.
    #[inline]
    pub(crate) fn take_up(&self) {
        if self.before_ns.get().is_none() {
            self.before_ns.set(Some(imp::replace(1)));
        }
    }
}

impl Drop for Slack {
    fn drop(&mut self) {
        if let Some(before_ns) = self.before_ns.take() {
            imp::replace(before_ns);
        }
    }
}

#[cfg(all(target_os = "linux", not(loom)))]
mod imp {
    use rustix::thread::{current_timer_slack, set_current_timer_slack};
    use std::num::NonZeroU64;

    /// Sets this thread's slack and gives back the one before. If the kernel
    /// refuses, sleeps are a little longer.
    pub(super) fn replace(slack_ns: u64) -> u64 {
        let before_ns = current_timer_slack().unwrap_or(0);
        let _ = set_current_timer_slack(NonZeroU64::new(slack_ns));
        before_ns
    }
}

#[cfg(not(all(target_os = "linux", not(loom))))]
mod imp {
    pub(super) fn replace(_slack_ns: u64) -> u64 {
        0
    }
}

#[cfg(all(test, target_os = "linux", not(loom)))]
mod tests {
    use super::Slack;
    use rustix::thread::current_timer_slack;

    #[test]
    fn a_thread_gets_back_what_it_had() {
        let before_ns = current_timer_slack().unwrap();
        let slack = Slack::new();
        assert_eq!(current_timer_slack().unwrap(), before_ns, "not before it is needed");
        slack.take_up();
        slack.take_up();
        assert_eq!(current_timer_slack().unwrap(), 1);
        drop(slack);
        assert_eq!(current_timer_slack().unwrap(), before_ns);
    }
}
