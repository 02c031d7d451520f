//! Functions for code that also runs outside a simulation.

use super::with_current_host;
use crate::sim::oracle::ChoiceKind;
use std::panic::Location;
use std::time::{Duration, SystemTime};

/// Returns true if the program should take a rare path now. Always false outside a simulation.
///
/// Call it where a path is seldom taken in production: a cache miss, a full batch. In a simulation, one
/// of four calls returns true, as the seed decides. `name` documents the path in the source.
///
/// # Examples
///
/// ```
/// fn batch_size() -> usize {
///     if wakeful::sim::maybe("tiny batch") { 1 } else { 1024 }
/// }
/// assert_eq!(batch_size(), 1024);
/// ```
#[track_caller]
pub fn maybe(name: &str) -> bool {
    const PROBABILITY: u32 = 250_000;
    let _ = name;
    let site = Some(Location::caller());
    with_current_host(|host| host.world.chance(ChoiceKind::User, host.id, PROBABILITY, site))
        .unwrap_or(false)
}

/// Returns a number below `n` that the seed chooses. Returns 0 outside a simulation, or if `n` is 0.
///
/// Let 0 mean the usual case, because shrinking turns as many choices as possible into 0.
///
/// # Examples
///
/// ```
/// use wakeful::sim::{self, Simulation};
///
/// assert_eq!(sim::choose(10), 0);
/// let outcome = Simulation::new(3).run(|_| async { assert!(sim::choose(10) < 10) });
/// outcome.unwrap();
/// ```
#[track_caller]
pub fn choose(n: u64) -> u64 {
    let site = Some(Location::caller());
    with_current_host(|host| host.world.choose(ChoiceKind::User, host.id, n, site)).unwrap_or(0)
}

/// Returns the wall-clock time of the host that the calling code runs on.
///
/// Outside a simulation, this is the machine's clock. Simulated clocks start in the year 2030, and
/// [`HostClock::step`](super::HostClock::step) moves them. `SystemTime::now` reads the machine's clock
/// even in a simulation, so the seed does not decide its result.
///
/// # Examples
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use wakeful::sim::{self, Simulation};
///
/// let outcome = Simulation::new(1).run(|_| async {
///     let before = sim::system_time();
///     wakeful::time::sleep(Duration::from_secs(60)).await;
///     assert_eq!(sim::system_time(), before + Duration::from_secs(60));
/// });
/// outcome.unwrap();
/// ```
pub fn system_time() -> SystemTime {
    /// The first second of 2030, in Unix time.
    const BEGIN: Duration = Duration::from_secs(1_893_456_000);
    let Some(wall_ns) = with_current_host(|host| host.time.wall_ns()) else {
        return SystemTime::now();
    };
    let begin = SystemTime::UNIX_EPOCH + BEGIN;
    let offset = Duration::from_nanos(u64::try_from(wall_ns.unsigned_abs()).unwrap_or(u64::MAX));
    if wall_ns < 0 { begin - offset } else { begin + offset }
}
