//! `may_wait_forever`: exempts a future from the orphan check.

use super::context;
use std::num::NonZeroU64;
use std::pin::Pin;
use std::task::{Context, Poll};

pin_project_lite::pin_project! {
    /// The future of [`may_wait_forever`], which the orphan check ignores.
    #[derive(Debug)]
    #[project = Projection]
    #[must_use = "futures do nothing unless polled"]
    pub struct MayWaitForever<F> {
        #[pin]
        inner: F,
        // The poll in which the future was last pending and exempted its task.
        pending_in: Option<NonZeroU64>,
    }

    impl<F> PinnedDrop for MayWaitForever<F> {
        fn drop(this: Pin<&mut Self>) {
            this.project().revert_exemption();
        }
    }
}

// The future's eight bytes fit into the unused space of the smallest cell.
const _: () = assert!(size_of::<MayWaitForever<std::future::Pending<()>>>() == 8);

impl<F> Projection<'_, F> {
    /// Reverts the exemption of the task, if this poll made it.
    fn revert_exemption(self) {
        let pending_in = self.pending_in.take();
        if pending_in.is_some() && pending_in == context::poll_id() {
            context::unexempt_current();
        }
    }
}

/// Exempts a future from the orphan check: it may wait without a live waker.
///
/// Otherwise a task that waits without a live waker is reported as an orphan. Use this for a task
/// that only keeps a value alive until it is aborted.
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() {
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
            this.revert_exemption();
            return polled;
        }
        let poll_id = context::poll_id();
        if poll_id.is_some() && std::mem::replace(this.pending_in, poll_id) != poll_id {
            context::exempt_current();
        }
        polled
    }
}
