//! Timers: sleeping, periodic ticks, and time limits for futures.
//!
//! - [`sleep`] and [`sleep_until`] wait for a duration or until a deadline.
//! - [`interval`] yields a tick every period.
//! - [`timeout`] and [`timeout_at`] bound how long a future may take.
//! - [`Instant`] is a point in time on the clock of the current runtime.
//! - `pause`, `resume` and `advance` control the clock of a current-thread runtime, so that tests
//!   need not wait in real time. They need the Cargo feature `test-util`.
//!
//! All timers need a runtime with timers enabled:
//! [`Builder::enable_time`](crate::runtime::Builder::enable_time), which `#[wakeful::main]` and
//! `#[wakeful::test]` call.
//!
//! # Precision
//!
//! Deadlines are rounded up to a multiple of 1/16 ms, and a timer never fires early. A [`timeout`]
//! measures from the call that created it, with an error of at most another 1/16 ms. The worker
//! that first polls a timer owns it and fires it.
//!
//! # Examples
//!
//! ```
//! # #[wakeful::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! use wakeful::time::{Duration, interval, sleep, timeout};
//!
//! // A time limit for one operation.
//! let slow = sleep(Duration::from_secs(60));
//! assert!(timeout(Duration::from_millis(10), slow).await.is_err());
//!
//! // Something periodic.
//! let mut ticks = interval(Duration::from_millis(5));
//! for _ in 0..3 {
//!     ticks.tick().await;
//! }
//! # }
//! ```

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
