//! Looking around a little longer before going to sleep, where that pays.
//!
//! Putting a thread to sleep and waking it costs both sides microseconds. When
//! work keeps coming after a gap shorter than that, looking around for a moment
//! is cheaper; when it does not, it is a waste, and worse where the core is
//! shared with whoever is to bring the work. So a thread spins only after it was
//! seen to sleep for a short time, and each spin in vain doubles how many short
//! sleeps it takes until it tries again.

use std::sync::OnceLock;
use std::time::Instant;

/// A sleep shorter than this was hardly worth the system calls.
const SHORT_NS: u64 = 60_000;
/// How often it looks, and how long it pauses between two looks: in all about as
/// long as it takes to wake a thread on another core.
const LOOKS: u32 = 64;
const PAUSE_NS: u32 = 500;
const MAX_BACKOFF: u32 = 64;

/// One thread's experience with spinning.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AdaptiveSpin {
    /// Short sleeps until it is worth another try.
    wait: u32,
    backoff: u32,
}

impl AdaptiveSpin {
    pub(crate) const fn new() -> Self {
        Self { wait: 1, backoff: 1 }
    }

    /// Whether to spin before the coming sleep.
    pub(crate) fn should_spin(&self) -> bool {
        self.wait == 0 && is_multicore()
    }

    /// Looks until `found` answers true, or in vain. Call it if it is due.
    pub(crate) fn spin(&mut self, mut found: impl FnMut(u32) -> bool) -> bool {
        let pauses = pauses();
        for look in 0..LOOKS {
            if found(look) {
                self.backoff = 1;
                return true;
            }
            for _ in 0..pauses {
                std::hint::spin_loop();
            }
        }
        self.wait = self.backoff;
        self.backoff = (self.backoff * 2).min(MAX_BACKOFF);
        false
    }

    /// Learns from a sleep.
    pub(crate) fn record_sleep(&mut self, ns: u64) {
        if ns < SHORT_NS {
            self.wait = self.wait.saturating_sub(1);
        } else {
            // Out of rhythm: the next burst has to show itself first.
            self.wait = self.wait.max(1);
        }
    }
}

/// How many spin hints take [`PAUSE_NS`]: processors differ tenfold, so it is
/// measured, once.
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

/// Whether this process has more than one core to run on. On a single one, whoever
/// is to bring work cannot do so while we spin.
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
        assert_eq!(spinner.wait, 1, "not before a short sleep was seen");
        spinner.record_sleep(SHORT_NS);
        assert_eq!(spinner.wait, 1, "a long sleep is no reason");
        let mut tries = Vec::new();
        for sleep in 0..1000 {
            spinner.record_sleep(1_000);
            if spinner.wait == 0 {
                assert!(!spinner.spin(|_| false));
                tries.push(sleep);
            }
        }
        let gaps: Vec<_> = tries.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps.is_sorted() && gaps.last() == Some(&MAX_BACKOFF), "{gaps:?}");
        spinner.wait = 0;
        assert!(spinner.spin(|look| look == 3));
        assert_eq!(spinner.wait, 0, "what paid off is tried again");
    }
}
