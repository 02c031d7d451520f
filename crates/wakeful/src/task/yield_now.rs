//! `yield_now`: requeues the current task.

use super::context;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Yields to other tasks: requeues the current task behind those that are ready.
///
/// The order in which other tasks run is not specified, nor that any of them runs.
///
/// # Cancel safety
///
/// This function is cancel safe. Dropped before its first poll it has no effect.
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() {
/// let handle = wakeful::spawn(async {});
/// wakeful::task::yield_now().await;
/// assert!(handle.is_finished());
/// # }
/// ```
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
