//! A kernel timer that one thread waits for and other threads set.
//!
//! Normally a thread that waits with a timeout must be woken to change the timeout. One system call
//! sets this timer instead, while the thread stays asleep.

use super::park::Interrupt;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};
use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::time::Duration;

/// A `timerfd`. After it has expired, waits return at once until the timer is set again.
///
/// It takes a descriptor when it is opened. Before that it does nothing.
#[derive(Debug, Default)]
pub(crate) struct TimerFd(OnceLock<OwnedFd>);

impl TimerFd {
    /// Opens the timer, which is not set. Returns false if the kernel refuses, for example because no
    /// descriptor is free.
    pub(crate) fn open(&self) -> bool {
        if self.0.get().is_none() {
            let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
            let Ok(fd) = timerfd_create(TimerfdClockId::Monotonic, flags) else { return false };
            // If another thread was faster, its descriptor stays.
            let _ = self.0.set(fd);
        }
        true
    }

    /// Sets the timer to expire after this time. A wait in progress continues until then.
    pub(crate) fn set(&self, after: Duration) {
        let Some(fd) = self.0.get() else { return };
        // Zero would stop the timer.
        let after = after.max(Duration::from_nanos(1));
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let setting = Itimerspec { it_interval: zero, it_value: timespec(after) };
        // Fails only for an invalid descriptor or time.
        let _ = timerfd_settime(fd, TimerfdTimerFlags::empty(), &setting);
    }

    /// Waits until the timer has expired, at most for `limit`. May return early.
    pub(crate) fn wait(&self, limit: Option<Duration>) {
        let Some(fd) = self.0.get() else { return };
        let limit = limit.map(timespec);
        // A signal ends the wait early.
        let _ = poll(&mut [PollFd::new(fd, PollFlags::IN)], limit.as_ref());
    }
}

impl Interrupt for TimerFd {
    fn interrupt(&self) {
        self.set(Duration::ZERO);
    }
}

/// Converts a duration, limited to about a century.
fn timespec(duration: Duration) -> Timespec {
    let tv_sec = duration.as_secs().min(u64::from(u32::MAX)) as i64;
    Timespec { tv_sec, tv_nsec: i64::from(duration.subsec_nanos()) as _ }
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use super::{Interrupt, TimerFd};
    use std::sync::Arc;
    use std::thread;
    use std::time::{Duration, Instant};

    /// A duration that is waited for only if there is a bug.
    const NEVER: Duration = Duration::from_secs(600);

    fn open_timer() -> TimerFd {
        let timer = TimerFd::default();
        assert!(timer.open());
        timer
    }

    #[test]
    fn a_wait_lasts_until_the_timer_expires() {
        let timer = open_timer();
        let (started, after) = (Instant::now(), Duration::from_millis(2));
        timer.set(after);
        timer.wait(Some(NEVER));
        assert!((after..NEVER).contains(&started.elapsed()));
        timer.wait(None);
    }

    #[test]
    fn setting_the_timer_again_forgets_that_it_has_expired() {
        let timer = open_timer();
        timer.interrupt();
        timer.wait(None);
        timer.set(NEVER);
        let (started, limit) = (Instant::now(), Duration::from_millis(2));
        timer.wait(Some(limit));
        assert!(started.elapsed() >= limit);
    }

    #[test]
    fn another_thread_ends_a_wait() {
        let timer = Arc::new(open_timer());
        timer.set(NEVER);
        let waits = thread::spawn({
            let timer = timer.clone();
            move || timer.wait(None)
        });
        timer.interrupt();
        waits.join().unwrap();
    }
}
