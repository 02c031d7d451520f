//! [`Interval`]: periodic ticks.

use super::Instant;
use super::sleep::{Sleep, sleep_until};
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

/// Creates an [`Interval`] that ticks every `period`; the first tick completes immediately.
///
/// The period counts from one deadline to the next, not from the end of the work in between.
/// [`MissedTickBehavior`] determines what happens when the work takes longer than a period.
///
/// # Panics
///
/// Panics if `period` is zero, or if called outside of a runtime with timers enabled; see
/// [`enable_time`](crate::runtime::Builder::enable_time).
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use wakeful::time::{Duration, Instant, interval};
///
/// let start = Instant::now();
/// let mut interval = interval(Duration::from_millis(10));
/// interval.tick().await; // completes immediately
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

/// Creates an [`Interval`] that ticks every `period`, for the first time at `start`.
///
/// # Panics
///
/// Panics if `period` is zero, or if called outside of a runtime with timers enabled; see
/// [`enable_time`](crate::runtime::Builder::enable_time).
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use wakeful::time::{Duration, Instant, interval_at};
///
/// let start = Instant::now();
/// let mut interval = interval_at(start + Duration::from_millis(50), Duration::from_millis(10));
/// interval.tick().await;
/// assert_eq!(start.elapsed(), Duration::from_millis(50));
/// # }
/// ```
#[track_caller]
pub fn interval_at(start: Instant, period: Duration) -> Interval {
    assert!(period > Duration::ZERO, "`period` must be non-zero.");
    Interval {
        delay: Box::pin(sleep_until(start)),
        period,
        missed_tick_behavior: MissedTickBehavior::default(),
    }
}

/// The policy by which an [`Interval`] schedules ticks after a late one.
///
/// A tick is late if it is taken more than 5 ms after its deadline. Set the behavior with
/// [`Interval::set_missed_tick_behavior`].
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use wakeful::time::{self, Duration, Instant, MissedTickBehavior};
///
/// let start = Instant::now();
/// let mut interval = time::interval(Duration::from_millis(10));
/// interval.set_missed_tick_behavior(MissedTickBehavior::Skip);
/// interval.tick().await;
/// time::advance(Duration::from_millis(35)).await; // misses the ticks at 10, 20 and 30 ms
/// interval.tick().await; // the late tick
/// interval.tick().await;
/// assert_eq!(start.elapsed(), Duration::from_millis(40));
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissedTickBehavior {
    /// Ticks without delay until all missed ticks have been taken.
    #[default]
    Burst,
    /// Schedules the next tick one period after the late tick was taken.
    Delay,
    /// Schedules the next tick at the next multiple of the period, counted from the late deadline.
    Skip,
}

impl MissedTickBehavior {
    /// Returns the deadline of the next tick, after the tick due at `due` was taken at `now`.
    fn next(self, due: Instant, now: Instant, period: Duration) -> Instant {
        match self {
            MissedTickBehavior::Burst => due.checked_add(period),
            MissedTickBehavior::Delay => now.checked_add(period),
            MissedTickBehavior::Skip => {
                let late_ns = now.saturating_duration_since(due).as_nanos();
                // Less than a period, so it fits into a `Duration`.
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

/// A periodic timer, created by [`interval`] or [`interval_at`].
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use wakeful::time::{Duration, interval};
///
/// let mut interval = interval(Duration::from_secs(1));
/// for _ in 0..3 {
///     interval.tick().await;
///     // do the periodic work
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct Interval {
    delay: Pin<Box<Sleep>>,
    period: Duration,
    missed_tick_behavior: MissedTickBehavior,
}

/// A tick that is taken later than this after its deadline counts as missed.
const TOLERANCE: Duration = Duration::from_millis(5);

impl Interval {
    /// Waits for the next tick and returns its deadline.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. If the future is dropped, the next call returns the same tick.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use wakeful::time::{Duration, interval};
    ///
    /// let mut interval = interval(Duration::from_millis(10));
    /// let first = interval.tick().await;
    /// let second = interval.tick().await;
    /// assert_eq!(second - first, Duration::from_millis(10));
    /// # }
    /// ```
    pub async fn tick(&mut self) -> Instant {
        poll_fn(|cx| self.poll_tick(cx)).await
    }

    /// Polls for the next tick; see [`tick`](Self::tick).
    ///
    /// On `Pending`, the task of the most recent call is woken at the deadline.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::future::poll_fn;
    /// use std::time::Duration;
    /// use wakeful::time::{Instant, interval};
    ///
    /// let start = Instant::now();
    /// let mut interval = interval(Duration::from_secs(1));
    /// poll_fn(|cx| interval.poll_tick(cx)).await; // the first tick is immediate
    /// let tick = poll_fn(|cx| interval.poll_tick(cx)).await;
    /// assert_eq!(tick - start, Duration::from_secs(1));
    /// # }
    /// ```
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

    /// Schedules the next tick one period from now.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use wakeful::time::{self, Duration, Instant};
    ///
    /// let mut interval = time::interval(Duration::from_millis(100));
    /// interval.tick().await;
    /// time::advance(Duration::from_millis(50)).await;
    /// interval.reset();
    /// let start = Instant::now();
    /// interval.tick().await;
    /// assert_eq!(start.elapsed(), Duration::from_millis(100));
    /// # }
    /// ```
    pub fn reset(&mut self) {
        self.reset_after(self.period);
    }

    /// Resets the interval so that the next tick completes immediately.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use wakeful::time::{Duration, Instant, interval};
    ///
    /// let mut interval = interval(Duration::from_millis(100));
    /// interval.tick().await;
    /// interval.reset_immediately();
    /// let start = Instant::now();
    /// interval.tick().await;
    /// assert_eq!(start.elapsed(), Duration::ZERO);
    /// # }
    /// ```
    pub fn reset_immediately(&mut self) {
        self.delay.as_mut().reset(Instant::now());
    }

    /// Schedules the next tick after the duration `after`, counted from now.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use wakeful::time::{Duration, Instant, interval};
    ///
    /// let mut interval = interval(Duration::from_millis(100));
    /// interval.tick().await;
    /// let start = Instant::now();
    /// interval.reset_after(Duration::from_millis(5));
    /// interval.tick().await;
    /// assert_eq!(start.elapsed(), Duration::from_millis(5));
    /// # }
    /// ```
    pub fn reset_after(&mut self, after: Duration) {
        let deadline = Instant::now().checked_add(after).unwrap_or_else(Instant::far_future);
        self.delay.as_mut().reset(deadline);
    }

    /// Schedules the next tick at `deadline`.
    ///
    /// The ticks after it follow at the usual period.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::time::Duration;
    /// use wakeful::time::{Instant, interval};
    ///
    /// let start = Instant::now();
    /// let mut interval = interval(Duration::from_secs(1));
    /// interval.tick().await;
    /// interval.reset_at(start + Duration::from_secs(10));
    /// assert_eq!(interval.tick().await - start, Duration::from_secs(10));
    /// assert_eq!(interval.tick().await - start, Duration::from_secs(11));
    /// # }
    /// ```
    pub fn reset_at(&mut self, deadline: Instant) {
        self.delay.as_mut().reset(deadline);
    }

    /// Returns the policy for missed ticks.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use std::time::Duration;
    /// use wakeful::time::{MissedTickBehavior, interval};
    ///
    /// let mut interval = interval(Duration::from_secs(1));
    /// assert_eq!(interval.missed_tick_behavior(), MissedTickBehavior::Burst);
    /// interval.set_missed_tick_behavior(MissedTickBehavior::Skip);
    /// assert_eq!(interval.missed_tick_behavior(), MissedTickBehavior::Skip);
    /// # }
    /// ```
    pub fn missed_tick_behavior(&self) -> MissedTickBehavior {
        self.missed_tick_behavior
    }

    /// Sets the policy for missed ticks; the default is [`MissedTickBehavior::Burst`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use wakeful::time::{Duration, MissedTickBehavior, interval};
    ///
    /// let mut interval = interval(Duration::from_millis(100));
    /// interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    /// assert_eq!(interval.missed_tick_behavior(), MissedTickBehavior::Delay);
    /// # }
    /// ```
    pub fn set_missed_tick_behavior(&mut self, behavior: MissedTickBehavior) {
        self.missed_tick_behavior = behavior;
    }

    /// Returns the time between two ticks.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use std::time::Duration;
    ///
    /// let interval = wakeful::time::interval(Duration::from_millis(20));
    /// assert_eq!(interval.period(), Duration::from_millis(20));
    /// # }
    /// ```
    pub fn period(&self) -> Duration {
        self.period
    }
}
