//! Giving the others a turn.

use super::context;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Puts the current task behind everything else that is ready to run.
///
/// There is no promise about the order in which others run, nor that any other
/// task does.
///
/// # Cancel safety
///
/// Cancel safe; dropped before it is awaited it does nothing.
#[track_caller]
pub fn yield_now() -> YieldNow {
    YieldNow { yielded: false, site: Location::caller() }
}

/// The future of [`yield_now`].
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct YieldNow {
    yielded: bool,
    site: &'static Location<'static>,
}

impl Future for YieldNow {
    type Output = ();

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.yielded {
            return Poll::Ready(());
        }
        self.yielded = true;
        context::yield_task(cx.waker(), self.site);
        Poll::Pending
    }
}
