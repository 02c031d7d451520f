//! The runtime's clock: timers, intervals and time-outs read it.
//!
//! The clock is part of the runtime's environment. The clock can be paused: then it stops until it
//! is advanced. In a simulation it follows the time of the world ([`simulated`]). Code that waits
//! for real threads or measures the machine uses `sys::real_time`.

pub(crate) mod clock_ns;
pub(crate) mod simulated;
pub(crate) mod tsc;

use crate::driver::clock::clock_ns::ClockNs;
use crate::driver::clock::simulated::HostTime;
use crate::driver::clock::tsc::TscInstant;
use crate::sys::sync::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::time::{Duration, Instant};

/// The resolution of timers, which are rounded up to a tick: 16 ticks are a millisecond.
const TICK_NS: u32 = 62_500;
const TICKS_PER_S: u64 = 1_000_000_000 / TICK_NS as u64;

/// The upper bound of the lag of [`Clock::now_approx`].
const APPROX_ERROR_TICKS: u64 = 9;
/// The last tick that a [`ClockNs`] can represent, centuries away.
const LAST_CLOCK_NS_TICK: u64 = u64::MAX / TICK_NS as u64;

const _: () = assert!(1_000_000_000 % TICK_NS == 0, "a second is a whole number of ticks");

/// The clock of one runtime.
#[derive(Debug)]
pub(crate) struct Clock {
    started: Instant,
    started_tsc: TscInstant,
    /// Whether the clock was ever paused or is simulated, so that `state` is valid.
    was_paused: AtomicBool,
    state: Mutex<ClockState>,
    /// The number of running blocking closures and file operations, whose real time cannot be
    /// skipped.
    auto_advance_holds: AtomicUsize,
}

/// The state of a clock that was ever paused or is simulated.
#[derive(Clone, Debug)]
enum ClockState {
    Paused(Duration),
    /// The clock showed `.0` at the real time `.1`, and has been running since.
    Running(Duration, Instant),
    Simulated(Arc<HostTime>),
}

/// Whether any clock of this process was paused or is simulated. Until then, callers need not
/// determine which clock to use.
static ANY_PAUSED: AtomicBool = AtomicBool::new(false);

/// Returns whether every clock of the process shows real time.
#[inline]
pub(crate) fn all_clocks_are_real() -> bool {
    !ANY_PAUSED.load(Relaxed)
}

/// The reason why a clock cannot be paused, resumed or advanced.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PauseError {
    AlreadyPaused,
    NotPaused,
}

impl Clock {
    pub(crate) fn new(start_paused: bool) -> Self {
        // The epoch must be before the start of every clock.
        let _ = tsc::epoch();
        let started = Instant::now();
        let state = if start_paused {
            ANY_PAUSED.store(true, Release);
            ClockState::Paused(Duration::ZERO)
        } else {
            ClockState::Running(Duration::ZERO, started)
        };
        Self {
            started,
            started_tsc: TscInstant::from_instant(started),
            was_paused: AtomicBool::new(start_paused),
            state: Mutex::new(state),
            auto_advance_holds: AtomicUsize::new(0),
        }
    }

    /// Creates the clock of a simulated host.
    pub(crate) fn simulated(time: Arc<HostTime>) -> Self {
        let started = time.started();
        ANY_PAUSED.store(true, Release);
        Self {
            started,
            started_tsc: TscInstant::from_instant(started),
            was_paused: AtomicBool::new(true),
            state: Mutex::new(ClockState::Simulated(time)),
            auto_advance_holds: AtomicUsize::new(0),
        }
    }

    /// Returns whether the clock was ever paused or is simulated, so that it does not show real time.
    #[inline]
    pub(crate) fn was_ever_paused(&self) -> bool {
        self.was_paused.load(Acquire)
    }

    /// Returns the time since the runtime started.
    #[inline]
    pub(crate) fn elapsed(&self) -> Duration {
        if !self.was_ever_paused() {
            return self.started.elapsed();
        }
        self.state.lock().elapsed()
    }

    /// Returns the approximate time since the runtime started, cheaper than
    /// [`elapsed`](Self::elapsed).
    ///
    /// Use it for measurements and diagnostics. Deadlines need an exact time or an upper bound.
    #[inline]
    pub(crate) fn now_approx(&self) -> ClockNs {
        if all_clocks_are_real() {
            ClockNs::from_ns(tsc::now_approx().ns_since(self.started_tsc))
        } else {
            ClockNs::from_elapsed(self.elapsed())
        }
    }

    /// Returns the last completed tick, if `tick` may be completed at the approximate time `now`.
    ///
    /// `None` means that `tick` is certainly not completed yet.
    #[inline]
    pub(crate) fn tick_if_due(&self, tick: u64, now: ClockNs) -> Option<u64> {
        let is_near = now.ns() / u64::from(TICK_NS) + APPROX_ERROR_TICKS >= tick;
        (is_near || tick >= LAST_CLOCK_NS_TICK).then(|| self.tick())
    }

    /// Returns the current time as an `Instant`, comparable with real ones.
    #[inline]
    pub(crate) fn now(&self) -> Instant {
        if !self.was_ever_paused() {
            return Instant::now();
        }
        self.started + self.elapsed()
    }

    /// Returns the present time or slightly later, cheaper than [`now`](Self::now).
    ///
    /// Deadlines of timeouts are counted from it.
    #[inline(always)]
    pub(crate) fn now_upper_bound(&self) -> TscInstant {
        // A global flag, so that the fast path does not touch this clock.
        if all_clocks_are_real() { tsc::now_upper_bound() } else { self.exact_now() }
    }

    #[cold]
    fn exact_now(&self) -> TscInstant {
        TscInstant::from_instant(self.now())
    }

    /// Returns the last completed tick.
    pub(crate) fn tick(&self) -> u64 {
        tick_of(self.elapsed())
    }

    /// Returns the first tick that is completed at `deadline` or later, so that timers are never
    /// early.
    pub(crate) fn tick_at(&self, deadline: Instant) -> u64 {
        let after = deadline.saturating_duration_since(self.started);
        ticks(after, after.subsec_nanos().div_ceil(TICK_NS))
    }

    #[inline]
    pub(crate) fn is_paused(&self) -> bool {
        self.was_ever_paused() && self.is_paused_now()
    }

    #[cold]
    fn is_paused_now(&self) -> bool {
        matches!(*self.state.lock(), ClockState::Paused(_))
    }

    /// Pauses the clock at the end of the current tick.
    ///
    /// Whole milliseconds from there on are whole ticks, so timers fire exactly on time. The clock
    /// of a simulated host always behaves like a paused one, so this has no effect on it.
    pub(crate) fn pause(&self) -> Result<(), PauseError> {
        let mut state = self.state.lock();
        match *state {
            ClockState::Paused(_) => return Err(PauseError::AlreadyPaused),
            ClockState::Simulated(_) => return Ok(()),
            ClockState::Running(..) => {}
        }
        *state = ClockState::Paused(time_of(tick_of(state.elapsed()) + 1));
        self.was_paused.store(true, Release);
        ANY_PAUSED.store(true, Release);
        Ok(())
    }

    /// Lets a paused clock run from its current time. Has no effect on a simulated host's clock.
    pub(crate) fn resume(&self) -> Result<(), PauseError> {
        let mut state = self.state.lock();
        match *state {
            ClockState::Paused(at) => *state = ClockState::Running(at, Instant::now()),
            ClockState::Running(..) => return Err(PauseError::NotPaused),
            ClockState::Simulated(_) => {}
        }
        Ok(())
    }

    /// Advances a paused clock, or a simulated host's clock.
    pub(crate) fn advance(&self, by: Duration) -> Result<(), PauseError> {
        let mut state = self.state.lock();
        match &*state {
            ClockState::Paused(at) => *state = ClockState::Paused(*at + by),
            ClockState::Running(..) => return Err(PauseError::NotPaused),
            ClockState::Simulated(time) => time.advance(by),
        }
        Ok(())
    }

    /// Advances a paused clock to the end of `tick`. Has no effect on a running clock.
    pub(crate) fn advance_to(&self, tick: u64) {
        let mut state = self.state.lock();
        if let ClockState::Paused(at) = *state {
            *state = ClockState::Paused(at.max(time_of(tick)));
        }
    }

    /// Prevents the runtime from auto-advancing a paused clock, until the matching
    /// [`release_auto_advance`](Self::release_auto_advance).
    pub(crate) fn hold_auto_advance(&self) {
        self.auto_advance_holds.fetch_add(1, SeqCst);
    }

    /// Ends one [`hold_auto_advance`](Self::hold_auto_advance).
    ///
    /// Returns true if the runtime may now auto-advance its paused clock again.
    #[must_use]
    pub(crate) fn release_auto_advance(&self) -> bool {
        self.auto_advance_holds.fetch_sub(1, SeqCst) == 1 && self.is_paused()
    }

    /// Returns whether the runtime must not auto-advance a paused clock.
    pub(crate) fn is_auto_advance_held(&self) -> bool {
        self.auto_advance_holds.load(SeqCst) > 0
    }

    /// Returns the number of closures and file operations that keep a paused clock from advancing.
    pub(crate) fn auto_advance_holds(&self) -> usize {
        self.auto_advance_holds.load(SeqCst)
    }

    /// Returns the time until `tick` is completed.
    pub(crate) fn until(&self, tick: u64) -> Duration {
        time_of(tick).saturating_sub(self.elapsed())
    }
}

impl ClockState {
    fn elapsed(&self) -> Duration {
        match self {
            ClockState::Paused(at) => *at,
            ClockState::Running(at, since) => *at + since.elapsed(),
            ClockState::Simulated(time) => time.elapsed(),
        }
    }
}

/// Returns the last tick that is completed after `elapsed`.
pub(crate) fn tick_of(elapsed: Duration) -> u64 {
    ticks(elapsed, elapsed.subsec_nanos() / TICK_NS)
}

/// Returns the whole seconds of `time` in ticks, plus `rest`. 2^64 ticks are 36 million years.
fn ticks(time: Duration, rest: u32) -> u64 {
    time.as_secs().saturating_mul(TICKS_PER_S).saturating_add(u64::from(rest))
}

/// Returns when `tick` is completed, as the time since the runtime started.
pub(crate) fn time_of(tick: u64) -> Duration {
    Duration::new(tick / TICKS_PER_S, (tick % TICKS_PER_S) as u32 * TICK_NS)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn paused_clock_moves_only_when_advanced() {
        let clock = Clock::new(true);
        assert_eq!(clock.elapsed(), Duration::ZERO);
        clock.advance(Duration::from_millis(5)).unwrap();
        assert_eq!((clock.elapsed(), clock.tick()), (Duration::from_millis(5), 80));
        clock.advance_to(81);
        assert_eq!(clock.elapsed(), time_of(81));
        clock.advance_to(7);
        assert_eq!(clock.tick(), 81, "the clock does not go back");
        assert_eq!(clock.pause(), Err(PauseError::AlreadyPaused));
        clock.resume().unwrap();
        assert!(clock.elapsed() >= time_of(81));
        assert_eq!(clock.resume(), Err(PauseError::NotPaused));
    }

    #[test]
    fn tick_if_due_reads_the_exact_clock_only_near_the_tick() {
        let clock = Clock::new(true);
        clock.advance_to(100);
        assert_eq!(clock.tick_if_due(100 + APPROX_ERROR_TICKS + 1, clock.now_approx()), None);
        assert_eq!(clock.tick_if_due(100 + APPROX_ERROR_TICKS, clock.now_approx()), Some(100));
        assert_eq!(clock.tick_if_due(7, clock.now_approx()), Some(100));
        assert_eq!(
            clock.tick_if_due(7, ClockNs::from_elapsed(Duration::MAX)),
            Some(100),
            "no overflow"
        );
        let later = time_of(LAST_CLOCK_NS_TICK) * 2;
        clock.advance_to(tick_of(later));
        let tick = clock.tick_if_due(tick_of(later), clock.now_approx());
        assert_eq!(tick, Some(tick_of(later)), "beyond the range of ClockNs");
    }

    #[test]
    fn deadline_is_rounded_up() {
        let clock = Clock::new(true);
        let at = |ns| clock.tick_at(clock.now() + Duration::from_nanos(ns));
        assert_eq!([at(0), at(1), at(62_500), at(62_501)], [0, 1, 1, 2]);
        assert_eq!(at(1_000_000_000), 16_000, "whole milliseconds are whole ticks");
    }

    #[test]
    fn pause_stops_at_the_end_of_a_tick_and_does_not_go_back() {
        let clock = Clock::new(false);
        let before = clock.elapsed();
        clock.pause().unwrap();
        assert!(clock.elapsed() >= before);
        assert_eq!(clock.elapsed(), time_of(clock.tick()));
        let in_a_second = clock.tick_at(clock.now() + Duration::from_secs(1));
        assert_eq!(in_a_second - clock.tick(), TICKS_PER_S);
    }

    #[test]
    fn ticks_and_times_agree_over_the_whole_range() {
        for tick in [0, 1, 15_999, 16_000, 1 << 40, u64::MAX - 2, u64::MAX] {
            assert_eq!(tick_of(time_of(tick)), tick);
        }
        assert_eq!(tick_of(Duration::MAX), u64::MAX);
        let clock = Clock::new(true);
        let far = clock.now() + Duration::from_secs(86_400 * 365 * 1_000);
        clock.advance_to(clock.tick_at(far));
        assert!(clock.now() >= far, "the clock reaches a time a thousand years away");
    }
}
