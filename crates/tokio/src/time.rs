//! Sleeps, intervals and timeouts; see `wakeful::time`.

pub use wakeful::time::{
    Duration, Instant, Interval, MissedTickBehavior, Sleep, Timeout, error, interval, interval_at,
    sleep, sleep_until, timeout, timeout_at,
};

#[cfg(feature = "test-util")]
pub use wakeful::time::{advance, pause, resume};
