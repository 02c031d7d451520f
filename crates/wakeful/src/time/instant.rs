//! A moment, on the clock of the current runtime.

use crate::driver::clock::{self, Clock};
use crate::runtime::context;
use std::fmt;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::time::Duration;

/// A moment in time; like std's, but [`now`](Self::now) asks the current
/// runtime's clock, which may be [paused](super::pause).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(std::time::Instant);

impl Instant {
    /// This moment.
    #[inline]
    pub fn now() -> Instant {
        if clock::all_real() {
            return Instant(std::time::Instant::now());
        }
        let own = context::with_current(|shared| shared.clock().now());
        Instant(own.unwrap_or_else(std::time::Instant::now))
    }

    /// The same moment, from std's type.
    pub fn from_std(std: std::time::Instant) -> Instant {
        Instant(std)
    }

    /// The same moment, in std's type.
    pub fn into_std(self) -> std::time::Instant {
        self.0
    }

    /// So far away that nobody will be there: for sums that overflow.
    pub(crate) fn far_future() -> Instant {
        // 30 years; what the operating systems can hold differs.
        Instant::now() + Duration::from_secs(86_400 * 365 * 30)
    }

    /// Time since `earlier`; zero if that is later.
    pub fn duration_since(&self, earlier: Instant) -> Duration {
        self.0.saturating_duration_since(earlier.0)
    }

    /// Time since `earlier`; `None` if that is later.
    pub fn checked_duration_since(&self, earlier: Instant) -> Option<Duration> {
        self.0.checked_duration_since(earlier.0)
    }

    /// Time since `earlier`; zero if that is later.
    pub fn saturating_duration_since(&self, earlier: Instant) -> Duration {
        self.0.saturating_duration_since(earlier.0)
    }

    /// Time since this moment.
    pub fn elapsed(&self) -> Duration {
        Instant::now().saturating_duration_since(*self)
    }

    /// `self + duration`, if there is such a moment.
    pub fn checked_add(&self, duration: Duration) -> Option<Instant> {
        self.0.checked_add(duration).map(Instant)
    }

    /// `self - duration`, if there is such a moment.
    pub fn checked_sub(&self, duration: Duration) -> Option<Instant> {
        self.0.checked_sub(duration).map(Instant)
    }
}

impl From<std::time::Instant> for Instant {
    fn from(std: std::time::Instant) -> Instant {
        Instant::from_std(std)
    }
}

impl From<Instant> for std::time::Instant {
    fn from(instant: Instant) -> std::time::Instant {
        instant.into_std()
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;

    fn add(self, duration: Duration) -> Instant {
        Instant(self.0 + duration)
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, duration: Duration) {
        self.0 += duration;
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Instant) -> Duration {
        self.0.saturating_duration_since(earlier.0)
    }
}

impl Sub<Duration> for Instant {
    type Output = Instant;

    fn sub(self, duration: Duration) -> Instant {
        Instant(self.0 - duration)
    }
}

impl SubAssign<Duration> for Instant {
    fn sub_assign(&mut self, duration: Duration) {
        self.0 -= duration;
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Roughly when something happened, for the price of a coarse clock: exact
/// enough to start a time limit with, which may be late but never early.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rough {
    /// What the coarse clock said, in nanoseconds: at or before the moment
    /// itself.
    coarse_ns: u64,
    /// The poll during which it happened.
    poll: u64,
}

/// The coarse clock is behind by more than its step when the processor that
/// moves it was held up, be it by a hypervisor; it is trusted to within this.
const TRUST: Duration = Duration::from_millis(20);

impl Rough {
    /// The present moment; `None` if this clock can only be asked exactly.
    #[inline]
    pub(super) fn now(clock: &Clock) -> Option<Self> {
        if !clock::all_real() && clock.has_moved() {
            return None;
        }
        let coarse_ns = clock::coarse()?.as_nanos() as u64; // wraps after 584 years
        Some(Self { coarse_ns, poll: crate::task::context::poll_id() })
    }

    /// A moment at or after the one meant: the present, if it is the same poll
    /// still, or what the coarse clock's resolution allows for.
    pub(super) fn instant(self, clock: &Clock) -> Instant {
        if self.poll == crate::task::context::poll_id() || clock.has_moved() {
            return Instant(clock.now());
        }
        // The moment was at most so long after what the clock said; and the
        // present is asked for last, so that it is not before `later`.
        let then = Duration::from_nanos(self.coarse_ns);
        let later = clock::coarse().unwrap_or(then);
        let ago = later.saturating_sub(then + clock::coarse_step() + TRUST);
        let now = clock.now();
        Instant(now.checked_sub(ago).unwrap_or(now))
    }
}
