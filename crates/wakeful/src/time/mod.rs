//! Time: sleeping, ticking, and giving up in time.
//!
//! - [`sleep`] and [`sleep_until`] wait for a moment.
//! - [`interval`] ticks.
//! - [`timeout`] lets a future run for so long and no longer.
//! - `pause`, `resume` and `advance` control the clock of a current-thread runtime, so that a test
//!   about minutes takes none. They need the feature `test-util`.
//!
//! Timers are kept by the worker that first polls them, are rounded up to a
//! sixteenth of a millisecond, and never fire early. A [`timeout`] counts from
//! when it was made, which is known to within another sixteenth.

#[cfg(feature = "test-util")]
mod control;
pub mod error;
mod instant;
mod interval;
#[cfg(feature = "sync")]
mod send_timeout;
mod sleep;
mod timeout;

#[cfg(feature = "test-util")]
pub use control::{advance, pause, resume};
pub use instant::Instant;
pub use interval::{Interval, MissedTickBehavior, interval, interval_at};
pub use sleep::{Sleep, sleep, sleep_until};
pub use std::time::Duration;
pub use timeout::{Timeout, timeout, timeout_at};
