//! Station 6 inside a poller: an alarm that ends whichever wait is going on when it
//! rings. A wait with a limit of its own has the kernel set a timer up and take it
//! down, which a thread that sleeps between requests pays each time (0.4 of 4 µs);
//! an alarm stays set over many waits.

use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use rustix::time::{timerfd_create, timerfd_settime};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

pub(crate) struct Alarm {
    fd: OwnedFd,
}

impl Alarm {
    pub(crate) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        Ok(Self { fd: timerfd_create(TimerfdClockId::Monotonic, flags)? })
    }

    /// To be watched, edge-triggered: every ring is news, whether the one before it was
    /// read or not.
    pub(crate) fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// It rings once, after so long; before that it does no more if it was set.
    pub(crate) fn set(&self, after: Duration) -> io::Result<()> {
        debug_assert!(!after.is_zero(), "that would switch it off");
        let never = Timespec { tv_sec: 0, tv_nsec: 0 };
        let after = Timespec {
            tv_sec: i64::try_from(after.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: after.subsec_nanos().into(),
        };
        let once = Itimerspec { it_interval: never, it_value: after };
        timerfd_settime(&self.fd, TimerfdTimerFlags::empty(), &once)?;
        Ok(())
    }
}
