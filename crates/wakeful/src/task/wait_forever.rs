//! Saying on purpose what would otherwise be a mistake: a task that waits with
//! no waker left.

use super::context;
use std::num::NonZeroU64;
use std::pin::Pin;
use std::task::{Context, Poll};

pin_project_lite::pin_project! {
    /// See [`may_wait_forever`].
    #[derive(Debug)]
    #[project = Projection]
    #[must_use = "futures do nothing unless polled"]
    pub struct MayWaitForever<F> {
        #[pin]
        inner: F,
        // The poll in which it was last pending.
        pending_in: Option<NonZeroU64>,
    }

    impl<F> PinnedDrop for MayWaitForever<F> {
        fn drop(this: Pin<&mut Self>) {
            this.project().settle();
        }
    }
}

// An idle task says so in the room that its cell has to spare.
const _: () = assert!(size_of::<MayWaitForever<std::future::Pending<()>>>() == 8);

impl<F> Projection<'_, F> {
    /// The future is not pending, or no longer: in this poll it exempts nobody.
    fn settle(self) {
        let pending_in = self.pending_in.take();
        if pending_in.is_some() && pending_in == context::poll_id() {
            context::unexempt_current();
        }
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
    MayWaitForever { inner: future, pending_in: None }
}

impl<F: Future> Future for MayWaitForever<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let mut this = self.project();
        let polled = this.inner.as_mut().poll(cx);
        if polled.is_ready() {
            this.settle();
            return polled;
        }
        let poll_id = context::poll_id();
        if poll_id.is_some() && std::mem::replace(this.pending_in, poll_id) != poll_id {
            context::exempt_current();
        }
        polled
    }
}
