//! A time of a runtime's clock in one word.
//!
//! Schedulers read the clock in every iteration of their loop. With a `Duration`, its separate
//! seconds would be half of that cost.

use std::time::Duration;

/// Nanoseconds since the runtime started. The word holds 584 years.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ClockNs(u64);

impl ClockNs {
    pub(crate) const START: ClockNs = ClockNs(0);

    #[inline]
    pub(crate) const fn from_ns(ns: u64) -> Self {
        Self(ns)
    }

    /// Converts the time since the runtime's start. Saturates after 584 years.
    #[inline]
    pub(crate) fn from_elapsed(elapsed: Duration) -> Self {
        Self(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX))
    }

    #[inline]
    pub(crate) fn ns(self) -> u64 {
        self.0
    }

    /// Returns the lower 32 bits of the milliseconds since the runtime started.
    #[inline]
    pub(crate) fn ms(self) -> u32 {
        (self.0 / 1_000_000) as u32
    }

    /// Returns the nanoseconds since `earlier`, or 0 if `earlier` is later.
    #[inline]
    pub(crate) fn ns_since(self, earlier: ClockNs) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// Returns the time since `earlier`, or zero if `earlier` is later.
    #[inline]
    pub(crate) fn since(self, earlier: ClockNs) -> Duration {
        Duration::from_nanos(self.ns_since(earlier))
    }

    /// Returns the time since the runtime started.
    #[inline]
    pub(crate) fn time(self) -> Duration {
        Duration::from_nanos(self.0)
    }
}
