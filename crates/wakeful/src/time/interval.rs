//! Ticking.

use super::Instant;
use super::sleep::{Sleep, sleep_until};
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

/// Ticks every `period`, for the first time at once.
///
/// # Panics
///
/// If `period` is zero, and outside of a runtime with timers.
///
/// ```
/// # #[wakeful::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use wakeful::time::{Duration, Instant, interval};
///
/// let start = Instant::now();
/// let mut interval = interval(Duration::from_millis(10));
/// interval.tick().await; // at once
/// interval.tick().await;
/// interval.tick().await;
/// assert_eq!(start.elapsed(), Duration::from_millis(20));
/// # }
/// ```
#[track_caller]
pub fn interval(period: Duration) -> Interval {
    assert!(period > Duration::ZERO, "`period` must be non-zero.");
    interval_at(Instant::now(), period)
}

/// Ticks every `period`, for the first time at `start`.
///
/// # Panics
///
/// If `period` is zero, and outside of a runtime with timers.
#[track_caller]
pub fn interval_at(start: Instant, period: Duration) -> Interval {
    assert!(period > Duration::ZERO, "`period` must be non-zero.");
    Interval {
        delay: Box::pin(sleep_until(start)),
        period,
        missed_tick_behavior: MissedTickBehavior::default(),
    }
}

/// What an [`Interval`] does after a tick was taken too late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissedTickBehavior {
    /// Catches up: ticks at once until it is in time again.
    #[default]
    Burst,
    /// Takes it easy: the next tick comes a whole period after the late one.
    Delay,
    /// Leaves out: the next tick comes at the next multiple of the period.
    Skip,
}

impl MissedTickBehavior {
    /// When the next tick is due, after one that was due at `due` came at `now`.
    fn next(self, due: Instant, now: Instant, period: Duration) -> Instant {
        match self {
            MissedTickBehavior::Burst => due.checked_add(period),
            MissedTickBehavior::Delay => now.checked_add(period),
            MissedTickBehavior::Skip => {
                let late_ns = now.saturating_duration_since(due).as_nanos();
                // Less than a period, so it fits as the period does.
                let into_period = late_ns % period.as_nanos();
                let into_period = Duration::new(
                    (into_period / 1_000_000_000) as u64,
                    (into_period % 1_000_000_000) as u32,
                );
                now.checked_add(period - into_period)
            }
        }
        .unwrap_or_else(Instant::far_future)
    }
}

/// Ticks again and again; from [`interval`] and [`interval_at`].
#[derive(Debug)]
pub struct Interval {
    delay: Pin<Box<Sleep>>,
    period: Duration,
    missed_tick_behavior: MissedTickBehavior,
}

/// A tick that is taken later than this is late.
const TOLERANCE: Duration = Duration::from_millis(5);

impl Interval {
    /// Waits for the next tick, and says when it was due.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a tick that was not taken is not lost.
    pub async fn tick(&mut self) -> Instant {
        poll_fn(|cx| self.poll_tick(cx)).await
    }

    /// As [`tick`](Self::tick), to be polled by hand.
    pub fn poll_tick(&mut self, cx: &mut Context<'_>) -> Poll<Instant> {
        ready!(self.delay.as_mut().poll(cx));
        let due = self.delay.deadline();
        let now = Instant::now();
        let next = if now > due + TOLERANCE {
            self.missed_tick_behavior.next(due, now, self.period)
        } else {
            due.checked_add(self.period).unwrap_or_else(Instant::far_future)
        };
        self.delay.as_mut().reset(next);
        Poll::Ready(due)
    }

    /// Starts over: the next tick comes a period from now.
    pub fn reset(&mut self) {
        self.reset_after(self.period);
    }

    /// Starts over with a tick at once.
    pub fn reset_immediately(&mut self) {
        self.delay.as_mut().reset(Instant::now());
    }

    /// Starts over: the next tick comes after `after`.
    pub fn reset_after(&mut self, after: Duration) {
        let deadline = Instant::now().checked_add(after).unwrap_or_else(Instant::far_future);
        self.delay.as_mut().reset(deadline);
    }

    /// Starts over: the next tick comes at `deadline`.
    pub fn reset_at(&mut self, deadline: Instant) {
        self.delay.as_mut().reset(deadline);
    }

    /// What happens after late ticks.
    pub fn missed_tick_behavior(&self) -> MissedTickBehavior {
        self.missed_tick_behavior
    }

    /// Says what happens after late ticks.
    pub fn set_missed_tick_behavior(&mut self, behavior: MissedTickBehavior) {
        self.missed_tick_behavior = behavior;
    }

    /// The time between two ticks.
    pub fn period(&self) -> Duration {
        self.period
    }
}
