//! Saying on purpose what would otherwise be a mistake: a task that waits with
//! no waker left.

use super::context;
use std::pin::Pin;
use std::task::{Context, Poll};

pin_project_lite::pin_project! {
    /// See [`may_wait_forever`].
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct MayWaitForever<F> {
        #[pin]
        inner: F,
    }
}

/// Tells the runtime that `future` may legitimately never be woken, so that a
/// task waiting in it is not reported as an orphan.
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() {
/// // Keeps something alive until the task is aborted.
/// let task = wakeful::spawn(wakeful::task::may_wait_forever(std::future::pending::<()>()));
/// # wakeful::task::yield_now().await;
/// task.abort();
/// assert!(!task.await.unwrap_err().is_orphaned());
/// # }
/// ```
pub fn may_wait_forever<F: Future>(future: F) -> MayWaitForever<F> {
    MayWaitForever { inner: future }
}

impl<F: Future> Future for MayWaitForever<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let polled = self.project().inner.poll(cx);
        if polled.is_pending() {
            context::exempt_current();
        }
        polled
    }
}
