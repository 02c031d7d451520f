//! The current time from the processor's time-stamp counter (TSC), at half the cost of
//! `clock_gettime`.
//!
//! Reading the time is most of the cost of a `timeout` whose future is ready at once. The kernel's
//! coarse clock is cheap, but lags by an unknown time, so a deadline counted from it could fire
//! early. This module bounds the time from above instead.
//!
//! Each thread keeps an *anchor*: an exact time, with the TSC count at that time. The cycles since
//! the anchor are converted with a rate that is certainly too high. The result
//! ([`now_upper_bound`]) is never before the present, and less than one timer tick (62.5 µs) after
//! it. Measurements and diagnostics use the likely rate instead ([`now_approx`]).
//!
//! This is correct where the kernel itself computes its clock from the TSC, so that the two cannot
//! disagree. This is the default of Linux on x86-64, except in most virtual machines. In all other
//! cases this module reads the exact clock.
#![cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The number of cycles for which an anchor of [`now_upper_bound`] is valid: 0.1 to 0.2 ms. Within
/// that time the conversion is late by less than one timer tick.
const WINDOW: u64 = 1 << 18;
/// The number of cycles for which an anchor of [`now_approx`] is valid, with a lag of at most 0.5
/// ms.
const LONG_WINDOW: u64 = 8 * WINDOW;
/// A generous bound on how early a processor may read its counter through out-of-order execution.
const SLACK_NS: u64 = 1_000;
/// Returns a rate that is certainly too high.
///
/// The kernel lets its clock run up to 11 % faster or slower than the counter. The rate may have
/// been measured when the clock was slowest. A margin of 25 % covers the change to the fastest.
const fn upper_bound_rate(rate: u128) -> u128 {
    rate + rate / 4
}
/// Returns the measured rate, less a thousandth for the time between reading counter and clock.
const fn likely_rate(upper_bound: u64) -> u64 {
    let rate = upper_bound - upper_bound / 5;
    rate - rate / 1024
}
/// The number of fraction bits of a rate.
const FRACTION_BITS: u32 = 32;
/// The minimum time between the two samples from which the rate is computed.
const CALIBRATION: Duration = Duration::from_millis(10);

/// The rate in nanoseconds per cycle, certainly too high. 0 while unknown.
static RATE: AtomicU64 = AtomicU64::new(0);

/// A point in time in one word: nanoseconds since the process created its first clock.
///
/// Adding a duration to it takes two instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TscInstant(u64);

impl TscInstant {
    /// Represents all times more than 584 years after the epoch.
    const FAR_FUTURE: TscInstant = TscInstant(u64::MAX);

    /// Converts an `Instant`. Times before the epoch, which no clock shows, become the epoch.
    pub(crate) fn from_instant(instant: Instant) -> TscInstant {
        TscInstant(to_saturating_ns(instant.saturating_duration_since(epoch())))
    }

    /// Returns the time `duration` later. Saturates at [`FAR_FUTURE`](Self::FAR_FUTURE).
    #[inline]
    pub(crate) fn after(self, duration: Duration) -> TscInstant {
        TscInstant(self.0.saturating_add(to_saturating_ns(duration)))
    }

    /// Returns the nanoseconds since `earlier`, or 0 if `earlier` is later.
    #[inline]
    pub(crate) fn ns_since(self, earlier: TscInstant) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// Converts to an `Instant`. Returns `None` for [`FAR_FUTURE`](Self::FAR_FUTURE).
    pub(crate) fn to_instant(self) -> Option<Instant> {
        let is_known = self != TscInstant::FAR_FUTURE;
        is_known.then(|| epoch().checked_add(Duration::from_nanos(self.0))).flatten()
    }
}

/// Returns the time that a [`TscInstant`] counts from.
///
/// Every clock calls this before it starts. So no clock shows an earlier time, even if it is
/// paused.
pub(super) fn epoch() -> Instant {
    static EPOCH: OnceLock<Instant> = OnceLock::new();
    *EPOCH.get_or_init(Instant::now)
}

#[inline]
fn to_saturating_ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// An exact time and the counter at that time, from which later readings are computed.
#[derive(Clone, Copy)]
struct Anchor {
    /// The counter, read before `at`.
    cycles: u64,
    at: TscInstant,
    /// The number of cycles for which the anchor is valid for [`now_upper_bound`]. 0 while the rate
    /// is unknown.
    window: u64,
    rate: u64,
    /// The number of cycles for which the anchor is valid for [`now_approx`].
    long_window: u64,
    /// The likely rate, or slightly less.
    likely_rate: u64,
}

impl Anchor {
    const fn new(cycles: u64, at: TscInstant, rate: u64) -> Self {
        let (window, long_window) = if rate == 0 { (0, 0) } else { (WINDOW, LONG_WINDOW) };
        Self { cycles, at, window, rate, long_window, likely_rate: likely_rate(rate) }
    }
}

thread_local! {
    static ANCHOR: Cell<Anchor> = const { Cell::new(Anchor::new(0, TscInstant::FAR_FUTURE, 0)) };
}

/// Returns the present real time, or slightly later.
#[inline(always)]
pub(super) fn now_upper_bound() -> TscInstant {
    let cycles = cycles();
    let anchor = ANCHOR.get();
    // Wraps to a large number if the counter was set back.
    let passed = cycles.wrapping_sub(anchor.cycles);
    if passed < anchor.window {
        return TscInstant(anchor.at.0.wrapping_add(upper_bound_ns(passed, anchor.rate)));
    }
    renew_anchor(cycles)
}

/// Returns the approximate present, in real time.
///
/// The result usually lags by a thousandth of the long window, and never by more than a quarter of
/// it. It is ahead only if the thread was descheduled between reading the counter and the clock,
/// and by less than the long window.
#[inline(always)]
pub(super) fn now_approx() -> TscInstant {
    let cycles = cycles();
    let anchor = ANCHOR.get();
    let passed = cycles.wrapping_sub(anchor.cycles);
    if passed < anchor.long_window {
        return TscInstant(
            anchor.at.0.wrapping_add((passed * anchor.likely_rate) >> FRACTION_BITS),
        );
    }
    renew_anchor(cycles)
}

/// Returns an upper bound of the time that `cycles`, at most a window, have taken.
#[inline]
fn upper_bound_ns(cycles: u64, rate: u64) -> u64 {
    ((cycles * rate) >> FRACTION_BITS) + SLACK_NS
}

/// Creates a new anchor for the thread from the exact time and the counter just read, and returns
/// that time.
#[cold]
fn renew_anchor(cycles: u64) -> TscInstant {
    let rate = RATE.load(Relaxed);
    let at = TscInstant::from_instant(if rate == 0 { calibrate() } else { Instant::now() });
    ANCHOR.set(Anchor::new(cycles, at, rate));
    at
}

/// Returns the exact time. Stores the rate once the samples are far enough apart.
fn calibrate() -> Instant {
    static FIRST: OnceLock<Option<Sample>> = OnceLock::new();
    let Some(first) = FIRST.get_or_init(|| kernel_clock_is_tsc().then(Sample::now)) else {
        return Instant::now();
    };
    let second = Sample::now();
    if let Some(rate) = rate_between(first, &second) {
        RATE.store(rate, Relaxed);
    }
    second.at
}

/// An exact time, with the counter before and after the clock was read.
struct Sample {
    before: u64,
    at: Instant,
    after: u64,
}

impl Sample {
    fn now() -> Self {
        Self { before: cycles(), at: Instant::now(), after: cycles() }
    }

    /// Returns the duration of the sample, in cycles.
    fn width(&self) -> u64 {
        self.after.saturating_sub(self.before)
    }
}

/// Computes a rate that is certainly too high, from two samples. `None` if they are unsuitable.
fn rate_between(first: &Sample, second: &Sample) -> Option<u64> {
    let time = second.at.checked_duration_since(first.at).filter(|time| *time >= CALIBRATION)?;
    // The minimum number of cycles that have passed. If the thread was descheduled during a sample,
    // calibration is retried later.
    let cycles = second.before.checked_sub(first.after)?;
    if first.width().max(second.width()) > cycles / 64 {
        return None;
    }
    let rate = (time.as_nanos() << FRACTION_BITS).checked_div(u128::from(cycles))?;
    // For counters of 1 GHz or more, nothing here overflows and windows are short. Slower counters
    // are not used.
    u64::try_from(upper_bound_rate(rate)).ok().filter(|_| rate <= 1 << FRACTION_BITS)
}

/// Returns whether the kernel computes its clock from the counter that `cycles` reads.
///
/// The kernel has then verified that the counters of all cores agree.
fn kernel_clock_is_tsc() -> bool {
    const SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    cfg!(target_arch = "x86_64")
        && std::fs::read_to_string(SOURCE).is_ok_and(|source| source.trim() == "tsc")
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn cycles() -> u64 {
    // SAFETY: every x86-64 processor has the instruction, and Linux permits it in user mode.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
fn cycles() -> u64 {
    0 // unused: `kernel_clock_is_tsc` returns false
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn sample(start: Instant, ns: u64, before: u64, after: u64) -> Sample {
        Sample { before, at: start + Duration::from_nanos(ns), after }
    }

    #[test]
    fn upper_bound_is_never_before_the_present_and_at_most_1_ms_after() {
        let mut latest = Duration::ZERO;
        for _ in 0..200_000 {
            let before = Instant::now();
            let bound = now_upper_bound().to_instant().unwrap();
            let after = Instant::now();
            assert!(bound >= before, "{:?} too early", before - bound);
            latest = latest.max(bound.saturating_duration_since(after));
        }
        assert!(latest < Duration::from_millis(1), "{latest:?} in the future");
    }

    #[test]
    fn approx_is_behind_by_at_most_half_a_millisecond_and_ahead_by_a_window() {
        let off = Duration::from_nanos(9 * 62_500);
        // At 1 GHz.
        let window = Duration::from_nanos(LONG_WINDOW);
        for _ in 0..200_000 {
            let before = Instant::now();
            let approx = now_approx().to_instant().unwrap();
            let after = Instant::now();
            assert!(approx + off > before, "{:?} too early", before - approx);
            assert!(approx < after + window, "{:?} in the future", approx - after);
        }
    }

    #[test]
    fn likely_rate_is_the_exact_rate_or_slightly_less() {
        let exact = (1u64 << FRACTION_BITS) * 2 / 5;
        let likely = likely_rate(upper_bound_rate(exact.into()) as u64);
        assert!(likely < exact && exact - likely < exact / 500, "{likely} of {exact}");
    }

    #[test]
    fn measured_rate_is_an_upper_bound_even_if_a_sample_was_slow() {
        let start = Instant::now();
        let first = sample(start, 0, 1_000, 1_100);
        // 2.5 GHz.
        let rate = |ns, before, after| rate_between(&first, &sample(start, ns, before, after));
        let exact = (1u64 << FRACTION_BITS) * 2 / 5;
        let found = rate(20_000_000, 50_001_000, 50_001_100).unwrap();
        assert!((exact * 5 / 4..exact * 13 / 10).contains(&found), "{found}");
        // A slow second sample: more time than the cycles account for.
        assert!(rate(20_100_000, 50_001_000, 50_251_000).unwrap() > found);
        assert_eq!(rate(30_000_000, 50_001_000, 75_001_000), None, "descheduled for too long");
        assert_eq!(rate(9_999_999, 25_001_000, 25_001_100), None, "samples too close together");
        assert_eq!(rate(20_000_000, 900, 950), None, "counter was set back");
        assert_eq!(rate(20_000_000, 12_000_000, 12_000_100), None, "counter too slow");
    }

    #[test]
    fn anchor_is_late_by_less_than_a_tick() {
        let slowest = (2 << FRACTION_BITS) - 1;
        assert!(upper_bound_ns(WINDOW, slowest) < 1_000_000, "no overflow");
        // At 2 GHz it is late by a quarter of the window.
        let rate = upper_bound_rate((1u128 << FRACTION_BITS) / 2) as u64;
        let late = upper_bound_ns(WINDOW, rate) - WINDOW / 2;
        assert!(late < 62_500, "{late} ns");
    }

    #[test]
    fn tsc_instant_and_instant_agree_up_to_centuries() {
        let start = Instant::now();
        let tsc = TscInstant::from_instant(start);
        let an_hour = Duration::from_secs(3_600);
        assert_eq!(tsc.after(an_hour).to_instant(), Some(start + an_hour));
        let centuries = Duration::from_secs(86_400 * 365 * 500);
        assert_eq!(tsc.after(centuries), TscInstant::from_instant(start + centuries));
        assert_eq!(tsc.after(Duration::from_secs(u64::MAX / 2)).to_instant(), None);
        assert_eq!(tsc.after(Duration::MAX), TscInstant::from_instant(start + 2 * centuries));
        assert_eq!(
            tsc.after(Duration::MAX).after(an_hour),
            TscInstant::FAR_FUTURE,
            "far future saturates"
        );
        if let Some(before) = start.checked_sub(Duration::from_secs(1)) {
            assert!(TscInstant::from_instant(before) <= tsc);
        }
    }
}
