//! Timers for hyper's timeouts and keep-alive.

use hyper::rt;
use pin_project_lite::pin_project;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use wakeful::time;

/// A source of timers for hyper, on the runtime that polls the connection.
///
/// The timers follow the clock of that runtime. With a paused clock, they take no real time.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use wakeful_hyper::Timer;
///
/// let mut server = hyper::server::conn::http1::Builder::new();
/// server.timer(Timer::new()).header_read_timeout(Duration::from_secs(10));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Timer;

impl Timer {
    /// Creates a timer source.
    ///
    /// This needs no runtime, but creating a sleep does.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful_hyper::Timer;
    ///
    /// let mut server = hyper::server::conn::http1::Builder::new();
    /// server.timer(Timer::new());
    /// ```
    pub fn new() -> Self {
        Self
    }
}

impl rt::Timer for Timer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn rt::Sleep>> {
        Box::pin(Sleep { inner: time::sleep(duration) })
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn rt::Sleep>> {
        Box::pin(Sleep { inner: time::sleep_until(deadline.into()) })
    }

    fn now(&self) -> Instant {
        time::Instant::now().into_std()
    }

    /// Changes the deadline of a sleep without allocating a new one.
    fn reset(&self, sleep: &mut Pin<Box<dyn rt::Sleep>>, new_deadline: Instant) {
        match sleep.as_mut().downcast_mut_pin::<Sleep>() {
            Some(sleep) => sleep.project().inner.reset(new_deadline.into()),
            None => *sleep = self.sleep_until(new_deadline),
        }
    }
}

pin_project! {
    /// A wrapper, because hyper's trait cannot be implemented for the foreign type `time::Sleep`.
    struct Sleep {
        #[pin]
        inner: time::Sleep,
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.project().inner.poll(cx)
    }
}

impl rt::Sleep for Sleep {}
