//! `yield_now`: requeues the current task.

use super::context;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Yields to other tasks, by requeueing the current task behind the tasks that are ready.
///
/// It is not specified in which order other tasks run, or whether any of them runs.
///
/// # Cancel safety
///
/// This function is cancel safe. A future that is dropped before its first poll has no effect.
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
