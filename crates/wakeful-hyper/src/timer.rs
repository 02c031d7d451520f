//! hyper's time-outs and keep-alive, by the runtime's clock.

use hyper::rt;
use pin_project_lite::pin_project;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use wakeful::time;

/// Sleeps on the timers of the runtime that polls the connection.
///
/// It goes by the clock of that runtime: under `time::pause` no real time passes.
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
    /// Needs no runtime; its sleeps do.
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

    /// Moves our own sleep without making a new one.
    fn reset(&self, sleep: &mut Pin<Box<dyn rt::Sleep>>, new_deadline: Instant) {
        match sleep.as_mut().downcast_mut_pin::<Sleep>() {
            Some(sleep) => sleep.project().inner.reset(new_deadline.into()),
            None => *sleep = self.sleep_until(new_deadline),
        }
    }
}

pin_project! {
    /// A type of ours, since neither the trait nor what is inside is.
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
