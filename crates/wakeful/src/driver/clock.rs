//! The runtime's clock: the one place that asks the operating system what time
//! it is. Part of the seam for simulation: a paused clock stands still.

use std::time::{Duration, Instant};

use crate::sys::sync::Mutex;

/// Time as one runtime sees it.
#[derive(Debug)]
pub(crate) struct Clock {
    started: Instant,
    /// Where the clock stands, while it is paused.
    paused: Option<Mutex<Duration>>,
}

impl Clock {
    pub(crate) fn new(start_paused: bool) -> Self {
        Self { started: Instant::now(), paused: start_paused.then(|| Mutex::new(Duration::ZERO)) }
    }

    /// Time since the runtime started.
    pub(crate) fn elapsed(&self) -> Duration {
        match &self.paused {
            Some(at) => *at.lock(),
            None => self.started.elapsed(),
        }
    }

    /// Milliseconds since the runtime started; wraps after 49 days.
    pub(crate) fn now_ms(&self) -> u32 {
        self.elapsed().as_millis() as u32
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Clock;
    use std::time::Duration;

    #[test]
    fn a_paused_clock_stands_still_and_a_running_one_never_goes_back() {
        let paused = Clock::new(true);
        assert_eq!(paused.elapsed(), Duration::ZERO);
        let running = Clock::new(false);
        let first = running.elapsed();
        assert!(running.elapsed() >= first);
        assert_eq!(paused.now_ms(), 0);
    }
}
