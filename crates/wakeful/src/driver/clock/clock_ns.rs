//! A moment on a runtime's clock in one word: schedulers look at the clock with every turn,
//! and half of what that costs would be the seconds of a `Duration`.

use std::time::Duration;

/// Nanoseconds since the runtime started: 584 years.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ClockNs(u64);

impl ClockNs {
    pub(crate) const START: ClockNs = ClockNs(0);

    #[inline]
    pub(crate) const fn from_ns(ns: u64) -> Self {
        Self(ns)
    }

    /// So long after the start; what is too far away for a word is as far as it reaches.
    #[inline]
    pub(crate) fn after(elapsed: Duration) -> Self {
        Self(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX))
    }

    #[inline]
    pub(crate) fn ns(self) -> u64 {
        self.0
    }

    /// The lower half of the milliseconds.
    #[inline]
    pub(crate) fn ms(self) -> u32 {
        (self.0 / 1_000_000) as u32
    }

    /// How long after `earlier` it is, in nanoseconds; 0 if it is not.
    #[inline]
    pub(crate) fn ns_since(self, earlier: ClockNs) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    #[inline]
    pub(crate) fn since(self, earlier: ClockNs) -> Duration {
        Duration::from_nanos(self.ns_since(earlier))
    }

    /// How long after the start it is.
    #[inline]
    pub(crate) fn time(self) -> Duration {
        Duration::from_nanos(self.0)
    }
}
