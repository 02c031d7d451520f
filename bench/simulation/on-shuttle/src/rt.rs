//! The runtime functions that the programs call, on shuttle.

use crate::programs::{Either, race};
pub use shuttle::future::yield_now;
use shuttle::rand::Rng;
use std::time::Duration;
pub use tokio::spawn;
pub use tokio::sync::{Mutex, Notify, mpsc};

pub fn choose(n: u64) -> u64 {
    shuttle::rand::thread_rng().gen_range(0..n)
}

/// Yields once per millisecond: shuttle has no clock, so the scheduler decides how long a sleep
/// is in relation to other sleeps.
pub async fn sleep(duration: Duration) {
    for _ in 0..duration.as_millis() {
        yield_now().await;
    }
}

pub async fn timeout<F: Future>(limit: Duration, future: F) -> Result<F::Output, ()> {
    match race(future, sleep(limit)).await {
        Either::First(output) => Ok(output),
        Either::Second(()) => Err(()),
    }
}
