//! Control of a runtime's clock, for tests.

use crate::driver::clock::PauseError;
use crate::runtime::task_api::spawn::no_runtime;
use crate::runtime::{Flavor, RuntimeInner, context};
use std::time::Duration;

/// Pauses the clock of the current runtime.
///
/// A paused clock moves only in two ways. [`advance`] moves it explicitly. And when the runtime has
/// nothing to run, the clock jumps to the next timer, unless a
/// [`spawn_blocking`](crate::task::spawn_blocking) closure is running. A test that spans minutes
/// then finishes immediately.
///
/// In a simulation the clock always moves in these two ways only, so `pause` and [`resume`] have no
/// effect there.
///
/// Only a current-thread runtime can be paused, which is what `#[wakeful::test]` creates. To start
/// with a paused clock, use `#[wakeful::test(start_paused = true)]` or
/// [`Builder::start_paused`](crate::runtime::Builder::start_paused).
///
/// # Panics
///
/// Panics if called outside of a current-thread runtime, or if the clock is already paused.
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() {
/// use wakeful::time::{self, Duration, Instant};
///
/// time::pause();
/// let start = Instant::now();
/// time::sleep(Duration::from_secs(3600)).await; // returns immediately
/// assert_eq!(start.elapsed(), Duration::from_secs(3600));
/// # }
/// ```
#[track_caller]
pub fn pause() {
    if let Err(error) = with_clock("time::pause()", |shared| shared.clock().pause()) {
        fail(error);
    }
}

/// Resumes the clock of the current runtime after [`pause`].
///
/// # Panics
///
/// Panics if called outside of a current-thread runtime, or if the clock is not paused.
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() {
/// use wakeful::time::{self, Duration, Instant};
///
/// time::pause();
/// time::advance(Duration::from_secs(60)).await;
/// time::resume();
///
/// let start = Instant::now();
/// std::thread::sleep(Duration::from_millis(1));
/// assert!(start.elapsed() >= Duration::from_millis(1));
/// # }
/// ```
#[track_caller]
pub fn resume() {
    if let Err(error) = with_clock("time::resume()", |shared| shared.clock().resume()) {
        fail(error);
    }
}

/// Advances a paused clock by `duration` and fires the timers that are due.
///
/// Yields once afterwards, so tasks that the timers woke may have run when this returns. It does
/// not wait until they are done.
///
/// In a simulation it moves the clock of the calling host. Other hosts and the network are not
/// affected.
///
/// # Panics
///
/// Panics if called outside of a current-thread runtime, or if the clock is not paused.
///
/// # Cancel safety
///
/// The clock moves with the first poll. Dropping the future after that only skips the yield.
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use wakeful::time::{self, Duration, Instant};
///
/// let start = Instant::now();
/// time::advance(Duration::from_millis(250)).await;
/// assert_eq!(start.elapsed(), Duration::from_millis(250));
/// # }
/// ```
pub async fn advance(duration: Duration) {
    if let Err(error) = with_clock("time::advance()", |shared| shared.clock().advance(duration)) {
        fail(error);
    }
    context::with_current(RuntimeInner::fire_due_timers);
    crate::task::yield_now().await;
}

#[cold]
#[track_caller]
fn fail(error: PauseError) -> ! {
    match error {
        PauseError::AlreadyPaused => panic!("time is already frozen"),
        PauseError::NotPaused => panic!("time is not frozen"),
    }
}

#[track_caller]
fn with_clock(
    what: &str,
    f: impl FnOnce(&RuntimeInner) -> Result<(), PauseError>,
) -> Result<(), PauseError> {
    let result = context::with_current(|shared| match &shared.flavor {
        Flavor::Current(scheduler) => {
            let result = f(shared);
            // The caller may be another thread: a blocking closure, or a thread with an
            // `EnterGuard`. The change alters how long the runtime's thread may sleep.
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
