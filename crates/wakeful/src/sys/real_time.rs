//! Real time, for code that must not follow the clock of a runtime.
//!
//! A runtime's clock (`driver::clock`) may be paused. These users need real time:
//!
//! - The watchdog, futile loops and the deadlock scan: they observe real threads and CPUs.
//! - Time limits of tests and shutdowns, and blocking-pool threads that wait for a closure: they wait
//!   for real threads.
//! - Timestamps of reports: a reader compares them with logs.
//!
//! Tasks observe none of this.

use std::time::{Instant, SystemTime};

/// Returns the real time.
#[inline]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Returns the time of day.
pub(crate) fn time_of_day() -> SystemTime {
    SystemTime::now()
}
