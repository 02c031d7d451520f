//! Adaptive spinning: decides when a thread polls for work before it sleeps.
//!
//! Putting a thread to sleep and waking it costs both sides microseconds. If work arrives after a
//! shorter gap, spinning is cheaper. Otherwise it wastes CPU time. That is worse if the thread
//! shares its core with the thread that brings the work.
//!
//! So a thread spins only after short sleeps. Each unsuccessful spin doubles the number of short
//! sleeps before the next spin.

use std::sync::OnceLock;
use std::time::Instant;

/// A sleep shorter than this costs less than its system calls.
const SHORT_NS: u64 = 60_000;
/// The number of checks of a spin, and the pause between two checks. Together they take about as
/// long as waking a thread on another core.
const CHECKS: u32 = 64;
const PAUSE_NS: u32 = 500;
const MAX_BACKOFF: u32 = 64;

/// The spin state of one thread: whether spinning has paid off.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AdaptiveSpin {
    /// The short sleeps until the next spin.
    sleeps_left: u32,
    backoff: u32,
}

impl AdaptiveSpin {
    pub(crate) const fn new() -> Self {
        Self { sleeps_left: 1, backoff: 1 }
    }

    /// Returns whether the thread should spin before its next sleep.
    pub(crate) fn should_spin(&self) -> bool {
        self.sleeps_left == 0 && is_multicore()
    }

    /// Spins until `found` returns true. Returns false after the last check.
    ///
    /// The caller checks [`should_spin`](Self::should_spin) first.
    pub(crate) fn spin(&mut self, mut found: impl FnMut(u32) -> bool) -> bool {
        let pauses = pauses();
        for check in 0..CHECKS {
            if found(check) {
                self.backoff = 1;
                return true;
            }
            for _ in 0..pauses {
                std::hint::spin_loop();
            }
        }
        self.sleeps_left = self.backoff;
        self.backoff = (self.backoff * 2).min(MAX_BACKOFF);
        false
    }

    /// Records how long a sleep lasted.
    pub(crate) fn record_sleep(&mut self, ns: u64) {
        if ns < SHORT_NS {
            self.sleeps_left = self.sleeps_left.saturating_sub(1);
        } else {
            // The burst of work is over. The next burst must start with a short sleep.
            self.sleeps_left = self.sleeps_left.max(1);
        }
    }
}

/// Returns how many spin hints take [`PAUSE_NS`]. Measured once, since processors differ tenfold.
fn pauses() -> u32 {
    static PAUSES: OnceLock<u32> = OnceLock::new();
    *PAUSES.get_or_init(|| {
        const SAMPLE: u32 = 256;
        let started = Instant::now();
        for _ in 0..SAMPLE {
            std::hint::spin_loop();
        }
        let sample_ns = (started.elapsed().as_nanos() as u32).max(SAMPLE);
        (PAUSE_NS * SAMPLE / sample_ns).clamp(1, PAUSE_NS)
    })
}

/// Returns whether this process may run on more than one core.
///
/// On a single core, no other thread can bring work while this one spins.
pub(crate) fn is_multicore() -> bool {
    static SEVERAL: OnceLock<bool> = OnceLock::new();
    *SEVERAL.get_or_init(|| std::thread::available_parallelism().is_ok_and(|n| n.get() > 1))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{AdaptiveSpin, MAX_BACKOFF, SHORT_NS};

    #[test]
    fn spins_after_short_sleeps_and_backs_off_when_in_vain() {
        let mut spinner = AdaptiveSpin::new();
        assert_eq!(spinner.sleeps_left, 1, "no spin before the first short sleep");
        spinner.record_sleep(SHORT_NS);
        assert_eq!(spinner.sleeps_left, 1, "a long sleep does not count");
        let mut tries = Vec::new();
        for sleep in 0..1000 {
            spinner.record_sleep(1_000);
            if spinner.sleeps_left == 0 {
                assert!(!spinner.spin(|_| false));
                tries.push(sleep);
            }
        }
        let gaps: Vec<_> = tries.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps.is_sorted() && gaps.last() == Some(&MAX_BACKOFF), "{gaps:?}");
        spinner.sleeps_left = 0;
        assert!(spinner.spin(|check| check == 3));
        assert_eq!(spinner.sleeps_left, 0, "a successful spin is repeated");
    }
}
