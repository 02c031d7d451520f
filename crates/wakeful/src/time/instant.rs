//! [`Instant`]: a point in time on the clock of the current runtime.

use crate::driver::clock;
use crate::runtime::context;
use crate::sys::real_time;
use std::fmt;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::time::Duration;

/// A point in time on the clock of the current runtime.
///
/// Works like [`std::time::Instant`], except that [`now`](Self::now) reads the runtime's clock,
/// which may be paused (`time::pause`). Subtracting a later instant gives zero instead of a panic.
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use wakeful::time::{Duration, Instant, sleep};
///
/// let start = Instant::now();
/// sleep(Duration::from_secs(5)).await;
/// assert_eq!(start.elapsed(), Duration::from_secs(5));
/// assert_eq!(start + Duration::from_secs(5), Instant::now());
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(std::time::Instant);

impl Instant {
    /// Returns the current time.
    ///
    /// Outside of a runtime this is [`std::time::Instant::now`].
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::time::Instant;
    ///
    /// let now = Instant::now();
    /// assert!(Instant::now() >= now);
    /// ```
    #[inline]
    pub fn now() -> Instant {
        if clock::all_clocks_are_real() {
            return Instant(real_time::now());
        }
        let own = context::with_current(|shared| shared.clock().now());
        Instant(own.unwrap_or_else(real_time::now))
    }

    /// Converts from [`std::time::Instant`].
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::time::Instant;
    ///
    /// let std = std::time::Instant::now();
    /// assert_eq!(Instant::from_std(std).into_std(), std);
    /// ```
    pub fn from_std(std: std::time::Instant) -> Instant {
        Instant(std)
    }

    /// Converts into [`std::time::Instant`].
    ///
    /// Use it for code that takes an instant of the standard library. If the clock is paused or was
    /// moved, the result differs from [`std::time::Instant::now`].
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::time::Instant;
    ///
    /// let now = std::time::Instant::now();
    /// assert_eq!(Instant::from_std(now).into_std(), now);
    /// ```
    pub fn into_std(self) -> std::time::Instant {
        self.0
    }

    /// Returns an instant 30 years from now, the result of sums that overflow.
    pub(crate) fn far_future() -> Instant {
        // The largest representable instant differs between systems.
        Instant::now() + Duration::from_secs(86_400 * 365 * 30)
    }

    /// Returns the time since `earlier`, or zero if `earlier` is later than `self`.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::time::{Duration, Instant};
    ///
    /// let start = Instant::now();
    /// let later = start + Duration::from_secs(1);
    /// assert_eq!(later.duration_since(start), Duration::from_secs(1));
    /// assert_eq!(start.duration_since(later), Duration::ZERO);
    /// ```
    pub fn duration_since(&self, earlier: Instant) -> Duration {
        self.0.saturating_duration_since(earlier.0)
    }

    /// Returns the time since `earlier`, or `None` if `earlier` is later than `self`.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::time::{Duration, Instant};
    ///
    /// let start = Instant::now();
    /// assert_eq!(start.checked_duration_since(start + Duration::from_secs(1)), None);
    /// ```
    pub fn checked_duration_since(&self, earlier: Instant) -> Option<Duration> {
        self.0.checked_duration_since(earlier.0)
    }

    /// Returns the time since `earlier`, or zero if `earlier` is later than `self`.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use wakeful::time::Instant;
    ///
    /// let earlier = Instant::now();
    /// let later = earlier + Duration::from_secs(1);
    /// assert_eq!(later.saturating_duration_since(earlier), Duration::from_secs(1));
    /// assert_eq!(earlier.saturating_duration_since(later), Duration::ZERO);
    /// ```
    pub fn saturating_duration_since(&self, earlier: Instant) -> Duration {
        self.0.saturating_duration_since(earlier.0)
    }

    /// Returns the time since this instant, on the clock of the current runtime.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use wakeful::time::{Duration, Instant, advance};
    ///
    /// let start = Instant::now();
    /// advance(Duration::from_millis(10)).await;
    /// assert_eq!(start.elapsed(), Duration::from_millis(10));
    /// # }
    /// ```
    pub fn elapsed(&self) -> Duration {
        Instant::now().saturating_duration_since(*self)
    }

    /// Returns `self + duration`, or `None` if the result is not representable.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::time::{Duration, Instant};
    ///
    /// let now = Instant::now();
    /// assert_eq!(now.checked_add(Duration::from_secs(1)), Some(now + Duration::from_secs(1)));
    /// assert_eq!(now.checked_add(Duration::MAX), None);
    /// ```
    pub fn checked_add(&self, duration: Duration) -> Option<Instant> {
        self.0.checked_add(duration).map(Instant)
    }

    /// Returns `self - duration`, or `None` if the result is not representable.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use wakeful::time::Instant;
    ///
    /// let now = Instant::now();
    /// let earlier = (now + Duration::from_secs(2)).checked_sub(Duration::from_secs(2));
    /// assert_eq!(earlier, Some(now));
    /// assert_eq!(now.checked_sub(Duration::MAX), None);
    /// ```
    pub fn checked_sub(&self, duration: Duration) -> Option<Instant> {
        self.0.checked_sub(duration).map(Instant)
    }
}

impl From<std::time::Instant> for Instant {
    fn from(std: std::time::Instant) -> Instant {
        Instant::from_std(std)
    }
}

impl From<Instant> for std::time::Instant {
    fn from(instant: Instant) -> std::time::Instant {
        instant.into_std()
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;

    fn add(self, duration: Duration) -> Instant {
        Instant(self.0 + duration)
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, duration: Duration) {
        self.0 += duration;
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Instant) -> Duration {
        self.0.saturating_duration_since(earlier.0)
    }
}

impl Sub<Duration> for Instant {
    type Output = Instant;

    fn sub(self, duration: Duration) -> Instant {
        Instant(self.0 - duration)
    }
}

impl SubAssign<Duration> for Instant {
    fn sub_assign(&mut self, duration: Duration) {
        self.0 -= duration;
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
