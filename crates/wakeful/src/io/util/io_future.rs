//! How a method of an extension trait becomes a future.

use crate::task::context;
use std::marker::PhantomPinned;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};

/// What an operation does when it is polled. It borrows what it reads from or
/// writes to, which may move, so it may itself.
pub trait IoOp {
    type Output;

    fn poll_op(&mut self, cx: &mut Context<'_>) -> Poll<Self::Output>;
}

pin_project_lite::pin_project! {
    /// A [`IoOp`] as a future, which knows where it was asked for: a task that
    /// waits in it is listed with that place.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    pub struct IoFuture<Op> {
        op: Op,
        site: &'static Location<'static>,
        // Not `Unpin`, so that a step may be pinned one day.
        #[pin]
        _pinned: PhantomPinned,
    }
}

impl<Op: IoOp> IoFuture<Op> {
    #[inline]
    #[track_caller]
    pub(super) fn new(op: Op) -> Self {
        Self { op, site: Location::caller(), _pinned: PhantomPinned }
    }
}

impl<Op: IoOp> Future for IoFuture<Op> {
    type Output = Op::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Op::Output> {
        let me = self.project();
        let polled = me.op.poll_op(cx);
        if polled.is_pending() {
            context::waiting_site(me.site);
        }
        polled
    }
}
