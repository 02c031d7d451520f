//! Real time, for code that must not follow the clock of a runtime.
//!
//! The clock of a runtime (`driver::clock`) may be paused. These users need real time:
//!
//! - The watchdog, futile loops and the questions of the deadlock scan: they observe real threads and
//!   CPUs.
//! - Time limits of tests and shutdowns, and threads of the blocking pool that wait for a closure: they
//!   wait for real threads.
//! - Stamps of reports: a reader compares them with logs.
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
