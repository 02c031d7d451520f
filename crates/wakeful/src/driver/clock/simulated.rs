//! The virtual time of a simulation, and each host's view of it.
//!
//! [`WorldTime`] is the common time of all hosts of a simulated world. When no task can run, it
//! moves to the next event. [`HostTime`] is the clock of one host, which may run faster or slower
//! than the world's time.

use crate::sys::sync::ignore_poison;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The time of a simulated world.
#[derive(Debug)]
pub(crate) struct WorldTime {
    /// The `Instant` of time 0, on all hosts.
    started: Instant,
    /// Written by the simulation's thread. Another thread may read an older time.
    now_ns: AtomicU64,
}

impl WorldTime {
    pub(crate) fn new() -> Arc<Self> {
        // No clock shows a time before the epoch of `TscInstant`.
        let _ = super::tsc::epoch();
        Arc::new(Self { started: Instant::now(), now_ns: AtomicU64::new(0) })
    }

    /// Returns the nanoseconds since the world began.
    #[inline]
    pub(crate) fn now_ns(&self) -> u64 {
        self.now_ns.load(Relaxed)
    }

    /// Moves the time forward to `ns`. Does nothing if the time is already later.
    pub(crate) fn advance_to(&self, ns: u64) {
        self.now_ns.fetch_max(ns, Relaxed);
    }
}

/// The clock of one host, from one start of the host to the next.
#[derive(Debug)]
pub(crate) struct HostTime {
    world: Arc<WorldTime>,
    /// The time of the world when the host started.
    started_ns: u64,
    rate: Mutex<Rate>,
    /// The offset of the host's wall clock from its other clock.
    wall_ns: AtomicI64,
}

/// The rate of a host's clock, since a given time.
#[derive(Clone, Copy, Debug)]
struct Rate {
    /// The time of the world from which the clock runs at this rate.
    since_ns: u64,
    /// The host's time at that moment.
    elapsed_ns: u64,
    /// The difference from the world's rate, in millionths; positive is faster.
    drift_ppm: i32,
}

const MILLION: i128 = 1_000_000;

impl Rate {
    fn elapsed_at(&self, world_ns: u64) -> u64 {
        let passed = world_ns.saturating_sub(self.since_ns);
        if self.drift_ppm == 0 {
            return self.elapsed_ns.saturating_add(passed);
        }
        let passed = i128::from(passed);
        let passed = passed * (MILLION + i128::from(self.drift_ppm)) / MILLION;
        self.elapsed_ns.saturating_add(u64::try_from(passed).unwrap_or(u64::MAX))
    }

    /// Returns the first time of the world at which the clock shows `elapsed_ns` or more.
    fn reached_at(&self, elapsed_ns: u64) -> u64 {
        let left = elapsed_ns.saturating_sub(self.elapsed_ns);
        if self.drift_ppm == 0 {
            return self.since_ns.saturating_add(left);
        }
        let left = i128::from(left) * MILLION;
        let rate = MILLION + i128::from(self.drift_ppm);
        let world = (left + rate - 1) / rate;
        self.since_ns.saturating_add(u64::try_from(world).unwrap_or(u64::MAX))
    }
}

impl HostTime {
    /// Creates the clock of a host that starts now. `drift_ppm` must be above -1,000,000.
    pub(crate) fn new(world: Arc<WorldTime>, drift_ppm: i32) -> Arc<Self> {
        let started_ns = world.now_ns();
        let rate = Rate { since_ns: started_ns, elapsed_ns: 0, drift_ppm };
        Arc::new(Self { world, started_ns, rate: Mutex::new(rate), wall_ns: AtomicI64::new(0) })
    }

    fn rate(&self) -> Rate {
        *ignore_poison(self.rate.lock())
    }

    /// Returns when the host started, comparable with the `Instant`s of all hosts of the world.
    pub(super) fn started(&self) -> Instant {
        self.world.started + Duration::from_nanos(self.started_ns)
    }

    /// Returns the time on the host's clock: the time since the host started.
    pub(crate) fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.rate().elapsed_at(self.world.now_ns()))
    }

    /// Returns the first time of the world, in nanoseconds, at which the host's clock shows `elapsed`.
    pub(crate) fn world_ns_at(&self, elapsed: Duration) -> u64 {
        self.rate().reached_at(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Makes the clock run faster by this many millionths from now on, or slower if negative.
    ///
    /// `drift_ppm` must be above -1,000,000, so that the clock does not stop.
    pub(crate) fn set_drift(&self, drift_ppm: i32) {
        let mut rate = ignore_poison(self.rate.lock());
        let since_ns = self.world.now_ns();
        *rate = Rate { since_ns, elapsed_ns: rate.elapsed_at(since_ns), drift_ppm };
    }

    /// Advances the host's clock, but not the time of the world.
    pub(super) fn advance(&self, by: Duration) {
        let mut rate = ignore_poison(self.rate.lock());
        let since_ns = self.world.now_ns();
        let by_ns = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        let elapsed_ns = rate.elapsed_at(since_ns).saturating_add(by_ns);
        *rate = Rate { since_ns, elapsed_ns, drift_ppm: rate.drift_ppm };
    }

    /// Moves the host's wall clock, and no other clock.
    pub(crate) fn step_wall(&self, ns: i64) {
        self.wall_ns.fetch_add(ns, Relaxed);
    }

    /// Returns how far the wall clock is ahead of the world's time.
    pub(crate) fn wall_ahead_ns(&self) -> i64 {
        let ahead = self.wall_ns() - i128::from(self.world.now_ns());
        i64::try_from(ahead).unwrap_or(if ahead < 0 { i64::MIN } else { i64::MAX })
    }

    /// Returns the time on the host's wall clock since the world began.
    pub(crate) fn wall_ns(&self) -> i128 {
        let elapsed = i128::from(self.rate().elapsed_at(self.world.now_ns()));
        i128::from(self.started_ns) + elapsed + i128::from(self.wall_ns.load(Relaxed))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_host_starts_at_zero_and_follows_the_world() {
        let world = WorldTime::new();
        world.advance_to(5 * SECOND);
        let host = HostTime::new(world.clone(), 0);
        assert_eq!(host.elapsed(), Duration::ZERO);
        world.advance_to(7 * SECOND);
        assert_eq!(host.elapsed(), Duration::from_secs(2));
        assert_eq!(host.world_ns_at(Duration::from_secs(3)), 8 * SECOND);
        world.advance_to(SECOND);
        assert_eq!(world.now_ns(), 7 * SECOND, "the time does not go back");
        let other = HostTime::new(world, 0);
        assert_eq!(other.started() - host.started(), Duration::from_secs(2));
    }

    #[test]
    fn drift_applies_from_now_on_and_a_deadline_is_never_early() {
        let world = WorldTime::new();
        let host = HostTime::new(world.clone(), 0);
        world.advance_to(SECOND);
        host.set_drift(200);
        world.advance_to(2 * SECOND);
        assert_eq!(host.elapsed(), Duration::from_nanos(2 * SECOND + 200_000));
        host.set_drift(-500_000);
        world.advance_to(4 * SECOND);
        assert_eq!(host.elapsed(), Duration::from_nanos(3 * SECOND + 200_000));
        for drift in [-999_999, -7, 0, 1, 200, 1_000_003] {
            host.set_drift(drift);
            for after in [0, 1, 62_500, 12_345_678_901] {
                let deadline = host.elapsed() + Duration::from_nanos(after);
                let at = host.world_ns_at(deadline);
                let shows = |ns| Duration::from_nanos(host.rate().elapsed_at(ns));
                assert!(shows(at) >= deadline, "{drift} ppm, {after} ns");
                assert!(after == 0 || shows(at - 1) < deadline, "{drift} ppm, {after} ns");
            }
        }
    }

    #[test]
    fn a_clock_that_was_advanced_is_ahead_of_the_world() {
        let world = WorldTime::new();
        let (host, other) = (HostTime::new(world.clone(), 0), HostTime::new(world.clone(), 0));
        world.advance_to(SECOND);
        host.advance(Duration::from_secs(5));
        assert_eq!(host.elapsed(), Duration::from_secs(6));
        assert_eq!((other.elapsed(), world.now_ns()), (Duration::from_secs(1), SECOND));
        assert_eq!(host.world_ns_at(Duration::from_secs(8)), 3 * SECOND);
        assert_eq!(host.world_ns_at(Duration::from_secs(2)), SECOND, "it is due");
    }

    #[test]
    fn a_step_moves_the_wall_clock_alone() {
        let world = WorldTime::new();
        world.advance_to(SECOND);
        let host = HostTime::new(world, 0);
        host.step_wall(-3 * SECOND as i64);
        assert_eq!((host.elapsed(), host.wall_ns()), (Duration::ZERO, -2 * i128::from(SECOND)));
    }
}
