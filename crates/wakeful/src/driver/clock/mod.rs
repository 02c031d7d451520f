//! The runtime's clock: whatever the runtime promises about time, it reads here.
//! Part of the seam for simulation: a paused clock stands still until it is
//! moved. Only what waits for real threads (shutdown, the blocking pool's idle
//! threads) or measures the machine (spinning) asks the system itself.

pub(crate) mod clock_ns;
pub(crate) mod tsc;

use crate::driver::clock::clock_ns::ClockNs;
use crate::driver::clock::tsc::TscInstant;
use crate::sys::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::time::{Duration, Instant};

/// Timers are rounded up to this: 16 ticks make a millisecond.
const TICK_NS: u32 = 62_500;
const TICKS_PER_S: u64 = 1_000_000_000 / TICK_NS as u64;

/// [`Clock::about`] is behind by less than so many ticks.
const ABOUT_TICKS: u64 = 9;
/// The last tick that it can tell of, in centuries.
const LAST_STAMPED: u64 = u64::MAX / TICK_NS as u64;

const _: () = assert!(1_000_000_000 % TICK_NS == 0, "a second is a whole number of ticks");

/// Time as one runtime sees it.
#[derive(Debug)]
pub(crate) struct Clock {
    started: Instant,
    started_at: TscInstant,
    /// The clock was paused at some time, so `hand` counts.
    moved: AtomicBool,
    hand: Mutex<Hand>,
    /// Closures at work elsewhere, whose time cannot be skipped.
    held_by: AtomicUsize,
}

/// Where a clock stands that was paused at some time.
#[derive(Clone, Copy, Debug)]
enum Hand {
    Paused(Duration),
    /// It stood at `.0` when the real time was `.1`, and runs since.
    Running(Duration, Instant),
}

/// Some clock of this process was paused: until then nobody needs to ask which
/// clock is meant.
static ANY_MOVED: AtomicBool = AtomicBool::new(false);

/// Whether real time is everybody's time.
#[inline]
pub(crate) fn all_real() -> bool {
    !ANY_MOVED.load(Relaxed)
}

/// Now, in real time: where there is no runtime to ask.
#[inline]
pub(crate) fn real_now() -> Instant {
    Instant::now()
}

/// What is wrong with pausing or resuming.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PauseError {
    AlreadyPaused,
    NotPaused,
}

impl Clock {
    pub(crate) fn new(start_paused: bool) -> Self {
        let _before_all_clocks = tsc::epoch();
        let started = Instant::now();
        let hand = if start_paused {
            ANY_MOVED.store(true, Release);
            Hand::Paused(Duration::ZERO)
        } else {
            Hand::Running(Duration::ZERO, started)
        };
        Self {
            started,
            started_at: TscInstant::at(started),
            moved: AtomicBool::new(start_paused),
            hand: Mutex::new(hand),
            held_by: AtomicUsize::new(0),
        }
    }

    /// Whether the clock was ever paused: then it does not show real time.
    #[inline]
    pub(crate) fn has_moved(&self) -> bool {
        self.moved.load(Acquire)
    }

    /// Time since the runtime started.
    #[inline]
    pub(crate) fn elapsed(&self) -> Duration {
        if !self.has_moved() {
            return self.started.elapsed();
        }
        self.hand.lock().elapsed()
    }

    /// About as much, for less: for what is measured or told, not for what is promised.
    #[inline]
    pub(crate) fn about(&self) -> ClockNs {
        if all_real() {
            ClockNs::from_ns(tsc::about().ns_since(self.started_at))
        } else {
            ClockNs::after(self.elapsed())
        }
    }

    /// The tick that is over, if `tick` may be one of those by now, which is `about`.
    #[inline]
    pub(crate) fn tick_if_due(&self, tick: u64, about: ClockNs) -> Option<u64> {
        let is_near = about.ns() / u64::from(TICK_NS) + ABOUT_TICKS >= tick;
        (is_near || tick >= LAST_STAMPED).then(|| self.tick())
    }

    /// Now, on a scale that real instants share.
    #[inline]
    pub(crate) fn now(&self) -> Instant {
        if !self.has_moved() {
            return Instant::now();
        }
        self.started + self.elapsed()
    }

    /// A moment at or shortly after the present, for less: what a time limit is
    /// counted from.
    #[inline(always)]
    pub(crate) fn soon(&self) -> TscInstant {
        // One word for all clocks: this one need not be looked for.
        if all_real() { tsc::soon() } else { self.present() }
    }

    #[cold]
    fn present(&self) -> TscInstant {
        TscInstant::at(self.now())
    }

    /// The tick that is over.
    pub(crate) fn tick(&self) -> u64 {
        tick_of(self.elapsed())
    }

    /// The first tick that is over at `deadline` or later: timers are never
    /// early.
    pub(crate) fn tick_at(&self, deadline: Instant) -> u64 {
        let after = deadline.saturating_duration_since(self.started);
        ticks(after, after.subsec_nanos().div_ceil(TICK_NS))
    }

    #[inline]
    pub(crate) fn is_paused(&self) -> bool {
        self.has_moved() && self.stands()
    }

    #[cold]
    fn stands(&self) -> bool {
        matches!(*self.hand.lock(), Hand::Paused(_))
    }

    /// Stops the clock, at the end of the current tick: then whole milliseconds
    /// from there on are whole ticks, and a timer is late by nothing at all.
    pub(crate) fn pause(&self) -> Result<(), PauseError> {
        let mut hand = self.hand.lock();
        if matches!(*hand, Hand::Paused(_)) {
            return Err(PauseError::AlreadyPaused);
        }
        *hand = Hand::Paused(time_of(tick_of(hand.elapsed()) + 1));
        self.moved.store(true, Release);
        ANY_MOVED.store(true, Release);
        Ok(())
    }

    pub(crate) fn resume(&self) -> Result<(), PauseError> {
        let mut hand = self.hand.lock();
        let Hand::Paused(at) = *hand else { return Err(PauseError::NotPaused) };
        *hand = Hand::Running(at, Instant::now());
        Ok(())
    }

    pub(crate) fn advance(&self, by: Duration) -> Result<(), PauseError> {
        let mut hand = self.hand.lock();
        let Hand::Paused(at) = *hand else { return Err(PauseError::NotPaused) };
        *hand = Hand::Paused(at + by);
        Ok(())
    }

    /// Moves a paused clock forward to where `tick` is over.
    pub(crate) fn advance_to(&self, tick: u64) {
        let mut hand = self.hand.lock();
        if let Hand::Paused(at) = *hand {
            *hand = Hand::Paused(at.max(time_of(tick)));
        }
    }

    /// Keeps a paused clock from being moved by the runtime.
    pub(crate) fn hold(&self) {
        self.held_by.fetch_add(1, SeqCst);
    }

    /// Ends one `hold`. True: a paused clock may move by itself again.
    #[must_use]
    pub(crate) fn release(&self) -> bool {
        self.held_by.fetch_sub(1, SeqCst) == 1 && self.is_paused()
    }

    pub(crate) fn is_held(&self) -> bool {
        self.held_by.load(SeqCst) > 0
    }

    /// How long until `tick` is over.
    pub(crate) fn until(&self, tick: u64) -> Duration {
        time_of(tick).saturating_sub(self.elapsed())
    }
}

impl Hand {
    fn elapsed(&self) -> Duration {
        match *self {
            Hand::Paused(at) => at,
            Hand::Running(at, since) => at + since.elapsed(),
        }
    }
}

/// The tick that is over after `elapsed`.
pub(crate) fn tick_of(elapsed: Duration) -> u64 {
    ticks(elapsed, elapsed.subsec_nanos() / TICK_NS)
}

/// The whole seconds of `time` in ticks, and `rest` more; 2^64 of them are 36
/// million years.
fn ticks(time: Duration, rest: u32) -> u64 {
    time.as_secs().saturating_mul(TICKS_PER_S).saturating_add(u64::from(rest))
}

/// When `tick` is over, after the runtime started.
pub(crate) fn time_of(tick: u64) -> Duration {
    Duration::new(tick / TICKS_PER_S, (tick % TICKS_PER_S) as u32 * TICK_NS)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_paused_clock_moves_only_when_it_is_moved() {
        let clock = Clock::new(true);
        assert_eq!(clock.elapsed(), Duration::ZERO);
        clock.advance(Duration::from_millis(5)).unwrap();
        assert_eq!((clock.elapsed(), clock.tick()), (Duration::from_millis(5), 80));
        clock.advance_to(81);
        assert_eq!(clock.elapsed(), time_of(81));
        clock.advance_to(7);
        assert_eq!(clock.tick(), 81, "never back");
        assert_eq!(clock.pause(), Err(PauseError::AlreadyPaused));
        clock.resume().unwrap();
        assert!(clock.elapsed() >= time_of(81));
        assert_eq!(clock.resume(), Err(PauseError::NotPaused));
    }

    #[test]
    fn whether_a_tick_is_over_is_looked_at_exactly_when_it_may_be() {
        let clock = Clock::new(true);
        clock.advance_to(100);
        assert_eq!(clock.tick_if_due(100 + ABOUT_TICKS + 1, clock.about()), None);
        assert_eq!(clock.tick_if_due(100 + ABOUT_TICKS, clock.about()), Some(100));
        assert_eq!(clock.tick_if_due(7, clock.about()), Some(100));
        assert_eq!(
            clock.tick_if_due(7, ClockNs::after(Duration::MAX)),
            Some(100),
            "nothing overflows"
        );
        let later = time_of(LAST_STAMPED) * 2;
        clock.advance_to(tick_of(later));
        let tick = clock.tick_if_due(tick_of(later), clock.about());
        assert_eq!(tick, Some(tick_of(later)), "a stamp does not reach there");
    }

    #[test]
    fn a_deadline_is_rounded_up_and_never_down() {
        let clock = Clock::new(true);
        let at = |ns| clock.tick_at(clock.now() + Duration::from_nanos(ns));
        assert_eq!([at(0), at(1), at(62_500), at(62_501)], [0, 1, 1, 2]);
        assert_eq!(at(1_000_000_000), 16_000, "whole milliseconds are whole ticks");
    }

    #[test]
    fn a_clock_stops_between_two_ticks_and_never_goes_back() {
        let clock = Clock::new(false);
        let before = clock.elapsed();
        clock.pause().unwrap();
        assert!(clock.elapsed() >= before);
        assert_eq!(clock.elapsed(), time_of(clock.tick()));
        let in_a_second = clock.tick_at(clock.now() + Duration::from_secs(1));
        assert_eq!(in_a_second - clock.tick(), TICKS_PER_S);
    }

    #[test]
    fn ticks_and_times_agree_however_far_away() {
        for tick in [0, 1, 15_999, 16_000, 1 << 40, u64::MAX - 2, u64::MAX] {
            assert_eq!(tick_of(time_of(tick)), tick);
        }
        assert_eq!(tick_of(Duration::MAX), u64::MAX);
        let clock = Clock::new(true);
        let far = clock.now() + Duration::from_secs(86_400 * 365 * 1_000);
        clock.advance_to(clock.tick_at(far));
        assert!(clock.now() >= far, "a thousand years are not too far to get there");
    }
}
