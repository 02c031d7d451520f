//! The time that a task must spin, or repeat a futile call, before the detectors report it.
//!
//! It is one second in every program. Some tests of the runtime shorten it, because a test of these
//! detectors keeps a CPU busy for the whole window.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The window in nanoseconds. No model has these detectors, so this is not a loom atomic.
///
/// `Relaxed`: no other memory is published with it. A detector that still reads the old value uses
/// the old window.
static WINDOW_NS: AtomicU64 = AtomicU64::new(1_000_000_000);

/// Returns the window.
pub(crate) fn get() -> Duration {
    Duration::from_nanos(WINDOW_NS.load(Relaxed))
}

/// Sets the window for the whole process.
#[cfg(feature = "test-util")]
pub(crate) fn set(window: Duration) {
    let window_ns = u64::try_from(window.as_nanos()).unwrap_or(u64::MAX);
    WINDOW_NS.store(window_ns, Relaxed);
}
