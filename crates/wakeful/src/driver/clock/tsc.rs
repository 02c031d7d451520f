//! The present moment at half the price: what a time limit is counted from, and what
//! schedulers measure with.
//!
//! Most of what a `timeout` costs whose future is ready at once is asking what
//! time it is. The system's coarse clock is cheap, but says only what is in the
//! past already, and how far is anybody's guess: a limit counted from there may
//! end early. So here the time is bounded from above. Each thread keeps an
//! *anchor*, an exact time with the processor's own count of cycles at it, and
//! the cycles since then are converted at a rate that is too high for sure. What
//! comes out is never before the present, and late by a few microseconds. What is only
//! measured or told asks for the likely rate instead.
//!
//! This holds where the kernel itself tells the time by that counter, so that
//! the two cannot disagree: by default Linux on x86-64, outside of most virtual
//! machines. Everywhere else the exact clock is asked.
#![cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// An anchor serves for so many cycles, a tenth of a millisecond or two: too
/// short for the conversion to be late by more than one tick.
const WINDOW: u64 = 1 << 18;
/// The same for [`about`], which is to be behind by half a millisecond at most.
const LONG_WINDOW: u64 = 8 * WINDOW;
/// How far ahead of the instructions before it a processor may read its counter,
/// amply.
const SLACK_NS: u64 = 1_000;
/// The kernel makes its clock run faster or slower than the counter by 11 % at
/// most. This is between the slowest, when it was measured, and the fastest.
const fn too_high(rate: u128) -> u128 {
    rate + rate / 4
}
/// What the rate was when it was measured, less a thousandth for what was between the
/// looks at counter and clock.
const fn likely(too_high: u64) -> u64 {
    let rate = too_high - too_high / 5;
    rate - rate / 1024
}
/// Bits after the point of a rate.
const POINT: u32 = 32;
/// How long the counter is watched to learn its rate.
const WATCH: Duration = Duration::from_millis(10);

/// Nanoseconds per cycle, too high for sure; 0 while it is not known.
static RATE: AtomicU64 = AtomicU64::new(0);

/// A moment in one word, so that adding to it takes two instructions: the
/// nanoseconds since the first clock was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TscInstant(u64);

impl TscInstant {
    /// Stands for all moments that are too far away for a word, which holds 584
    /// years.
    const FAR: TscInstant = TscInstant(u64::MAX);

    /// What was before the first clock, and so before every present, counts as
    /// just then.
    pub(crate) fn at(instant: Instant) -> TscInstant {
        TscInstant(in_ns(instant.saturating_duration_since(epoch())))
    }

    /// `duration` later.
    #[inline]
    pub(crate) fn after(self, duration: Duration) -> TscInstant {
        TscInstant(self.0.saturating_add(in_ns(duration)))
    }

    /// How many nanoseconds after `earlier` it is.
    #[inline]
    pub(crate) fn ns_since(self, earlier: TscInstant) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// `None` if it is too far away to be told.
    pub(crate) fn instant(self) -> Option<Instant> {
        let told = self != TscInstant::FAR;
        told.then(|| epoch().checked_add(Duration::from_nanos(self.0))).flatten()
    }
}

/// Where moments are counted from. Every clock asks for it before it starts, so
/// none shows an earlier time, even if it is paused.
pub(super) fn epoch() -> Instant {
    static EPOCH: OnceLock<Instant> = OnceLock::new();
    *EPOCH.get_or_init(Instant::now)
}

#[inline]
fn in_ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[derive(Clone, Copy)]
struct Anchor {
    /// Read before `at`.
    cycles: u64,
    at: TscInstant,
    /// For how many cycles it serves: none, while there is no rate.
    window: u64,
    rate: u64,
    long_window: u64,
    /// What the rate most likely is, or hardly less.
    likely_rate: u64,
}

impl Anchor {
    const fn of(cycles: u64, at: TscInstant, rate: u64) -> Self {
        let (window, long_window) = if rate == 0 { (0, 0) } else { (WINDOW, LONG_WINDOW) };
        Self { cycles, at, window, rate, long_window, likely_rate: likely(rate) }
    }
}

thread_local! {
    static ANCHOR: Cell<Anchor> = const { Cell::new(Anchor::of(0, TscInstant::FAR, 0)) };
}

/// A moment at or shortly after the present, in real time.
#[inline(always)]
pub(super) fn soon() -> TscInstant {
    let cycles = cycles();
    let anchor = ANCHOR.get();
    // A counter that was set back gives a large number here.
    let passed = cycles.wrapping_sub(anchor.cycles);
    if passed < anchor.window {
        return TscInstant(anchor.at.0.wrapping_add(to_ns(passed, anchor.rate)));
    }
    anew(cycles)
}

/// About now, in real time: most likely a little before the present, by a thousandth of
/// the long window, and never by more than a quarter of it; after it, if at all, by what a
/// thread was kept from running between the looks at counter and clock, which is less than
/// the long window.
#[inline(always)]
pub(super) fn about() -> TscInstant {
    let cycles = cycles();
    let anchor = ANCHOR.get();
    let passed = cycles.wrapping_sub(anchor.cycles);
    if passed < anchor.long_window {
        return TscInstant(anchor.at.0.wrapping_add((passed * anchor.likely_rate) >> POINT));
    }
    anew(cycles)
}

/// How long `cycles`, which are at most a window, can have taken.
#[inline]
fn to_ns(cycles: u64, rate: u64) -> u64 {
    ((cycles * rate) >> POINT) + SLACK_NS
}

/// The exact time, for an anchor of the thread, whose counter was read a moment ago.
#[cold]
fn anew(cycles: u64) -> TscInstant {
    let rate = RATE.load(Relaxed);
    let at = TscInstant::at(if rate == 0 { learn() } else { Instant::now() });
    ANCHOR.set(Anchor::of(cycles, at, rate));
    at
}

/// The exact time; and the rate, once the counter was watched for long enough.
fn learn() -> Instant {
    static FIRST: OnceLock<Option<Sample>> = OnceLock::new();
    let Some(first) = FIRST.get_or_init(|| kernel_counts_cycles().then(Sample::now)) else {
        return Instant::now();
    };
    let second = Sample::now();
    if let Some(rate) = rate_between(first, &second) {
        RATE.store(rate, Relaxed);
    }
    second.at
}

/// The exact time, and the counter on both sides of it.
struct Sample {
    before: u64,
    at: Instant,
    after: u64,
}

impl Sample {
    fn now() -> Self {
        Self { before: cycles(), at: Instant::now(), after: cycles() }
    }

    fn width(&self) -> u64 {
        self.after.saturating_sub(self.before)
    }
}

/// A rate that is too high for sure, and hardly more than it has to be.
fn rate_between(first: &Sample, second: &Sample) -> Option<u64> {
    let time = second.at.checked_duration_since(first.at).filter(|time| *time >= WATCH)?;
    // The shortest it can have been; a thread that was held up between two looks
    // tries again.
    let cycles = second.before.checked_sub(first.after)?;
    if first.width().max(second.width()) > cycles / 64 {
        return None;
    }
    let rate = (time.as_nanos() << POINT).checked_div(u128::from(cycles))?;
    // At a cycle a nanosecond or faster, nothing here overflows, and windows are short;
    // slower ones are not worth it.
    u64::try_from(too_high(rate)).ok().filter(|_| rate <= 1 << POINT)
}

/// Whether the kernel computes its clock from what `cycles` reads. It has then
/// found the counters of all cores to agree.
fn kernel_counts_cycles() -> bool {
    const SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    cfg!(target_arch = "x86_64")
        && std::fs::read_to_string(SOURCE).is_ok_and(|source| source.trim() == "tsc")
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn cycles() -> u64 {
    // SAFETY: every x86-64 processor has the instruction, and the kernel lets
    // programs use it.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
fn cycles() -> u64 {
    0 // not asked for: see `kernel_counts_cycles`
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn sighting(start: Instant, ns: u64, before: u64, after: u64) -> Sample {
        Sample { before, at: start + Duration::from_nanos(ns), after }
    }

    #[test]
    fn is_never_before_the_present_and_hardly_after_it() {
        let mut latest = Duration::ZERO;
        for _ in 0..200_000 {
            let before = Instant::now();
            let soon = soon().instant().unwrap();
            let after = Instant::now();
            assert!(soon >= before, "{:?} too early", before - soon);
            latest = latest.max(soon.saturating_duration_since(after));
        }
        assert!(latest < Duration::from_millis(1), "{latest:?} in the future");
    }

    #[test]
    fn about_now_is_behind_by_half_a_millisecond_at_most_and_ahead_by_a_window() {
        let off = Duration::from_nanos(9 * 62_500);
        // Of a cycle a nanosecond.
        let window = Duration::from_nanos(LONG_WINDOW);
        for _ in 0..200_000 {
            let before = Instant::now();
            let about = about().instant().unwrap();
            let after = Instant::now();
            assert!(about + off > before, "{:?} too early", before - about);
            assert!(about < after + window, "{:?} in the future", about - after);
        }
    }

    #[test]
    fn the_likely_rate_is_that_of_the_counter_or_hardly_less() {
        let exact = (1u64 << POINT) * 2 / 5;
        let likely = likely(too_high(exact.into()) as u64);
        assert!(likely < exact && exact - likely < exact / 500, "{likely} of {exact}");
    }

    #[test]
    fn the_rate_is_too_high_even_if_a_look_was_slow() {
        let start = Instant::now();
        let first = sighting(start, 0, 1_000, 1_100);
        // 2.5 cycles a nanosecond.
        let rate = |ns, before, after| rate_between(&first, &sighting(start, ns, before, after));
        let exact = (1u64 << POINT) * 2 / 5;
        let found = rate(20_000_000, 50_001_000, 50_001_100).unwrap();
        assert!((exact * 5 / 4..exact * 13 / 10).contains(&found), "{found}");
        // Seen late: more time than the cycles account for.
        assert!(rate(20_100_000, 50_001_000, 50_251_000).unwrap() > found);
        assert_eq!(rate(30_000_000, 50_001_000, 75_001_000), None, "held up for too long");
        assert_eq!(rate(9_999_999, 25_001_000, 25_001_100), None, "watched too shortly");
        assert_eq!(rate(20_000_000, 900, 950), None, "set back");
        assert_eq!(rate(20_000_000, 12_000_000, 12_000_100), None, "too slow a counter");
    }

    #[test]
    fn an_anchor_is_late_by_a_tick_at_most() {
        let slowest = (2 << POINT) - 1;
        assert!(to_ns(WINDOW, slowest) < 1_000_000, "nothing overflows");
        // At 2 GHz: by a quarter of the window.
        let rate = too_high((1u128 << POINT) / 2) as u64;
        let late = to_ns(WINDOW, rate) - WINDOW / 2;
        assert!(late < 62_500, "{late} ns");
    }

    #[test]
    fn moments_and_instants_agree_up_to_centuries() {
        let start = Instant::now();
        let moment = TscInstant::at(start);
        let an_hour = Duration::from_secs(3_600);
        assert_eq!(moment.after(an_hour).instant(), Some(start + an_hour));
        let centuries = Duration::from_secs(86_400 * 365 * 500);
        assert_eq!(moment.after(centuries), TscInstant::at(start + centuries));
        assert_eq!(moment.after(Duration::from_secs(u64::MAX / 2)).instant(), None);
        assert_eq!(moment.after(Duration::MAX), TscInstant::at(start + 2 * centuries));
        assert_eq!(moment.after(Duration::MAX).after(an_hour), TscInstant::FAR, "no way back");
        if let Some(before) = start.checked_sub(Duration::from_secs(1)) {
            assert!(TscInstant::at(before) <= moment);
        }
    }
}
