//! Taking the clock into one's own hands, for tests.

use crate::driver::clock::PauseError;
use crate::runtime::task_api::spawn::no_runtime;
use crate::runtime::{Flavor, Shared, context};
use std::time::Duration;

/// Stops the current runtime's clock.
///
/// From then on time moves only by [`advance`], and by itself when there is
/// nothing else to do: as soon as every task waits, the clock jumps to the next
/// timer. It does not jump while a `spawn_blocking` closure runs. So a test about
/// minutes takes none.
///
/// # Panics
///
/// Outside of a current-thread runtime, and if the clock stands already.
#[track_caller]
pub fn pause() {
    if with_clock("time::pause()", |shared| shared.clock().pause()).is_err() {
        panic!("time is already frozen");
    }
}

/// Lets a paused clock run again.
///
/// # Panics
///
/// Outside of a current-thread runtime, and if the clock was not paused.
#[track_caller]
pub fn resume() {
    if with_clock("time::resume()", |shared| shared.clock().resume()).is_err() {
        panic!("time is not frozen");
    }
}

/// Moves a paused clock forward and lets the timers fire that are due.
///
/// It yields once after that, so tasks that were woken may have had a turn when this returns;
/// it does not wait until they are done.
///
/// # Panics
///
/// Outside of a current-thread runtime, and if the clock was not paused.
pub async fn advance(duration: Duration) {
    if with_clock("time::advance()", |shared| shared.clock().advance(duration)).is_err() {
        panic!("time is not frozen");
    }
    context::with_current(Shared::turn_timers);
    crate::task::yield_now().await;
}

#[track_caller]
fn with_clock(
    what: &str,
    f: impl FnOnce(&Shared) -> Result<(), PauseError>,
) -> Result<(), PauseError> {
    let result = context::with_current(|shared| match &shared.flavor {
        Flavor::Current(scheduler) => {
            let result = f(shared);
            // From another thread (a closure's, or one under a guard) it changes
            // how long the runtime's own may sleep.
            scheduler.wake_holder();
            Some(result)
        }
        Flavor::Multi(_) => None,
    });
    match result {
        Some(Some(result)) => result,
        Some(None) => panic!(
            "`{what}` requires the `current_thread` Tokio runtime. This is the default Runtime \
             used by `#[tokio::test]`."
        ),
        None => no_runtime(),
    }
}
