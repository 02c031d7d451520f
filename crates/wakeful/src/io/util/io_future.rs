//! [`IoFuture`]: the future returned by the methods of the extension traits.

use crate::task::{context, futile};
use std::marker::PhantomPinned;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};

/// An operation on a reader or writer.
///
/// An operation borrows an `Unpin` reader or writer, so it may be moved between polls.
pub trait IoOp {
    type Output;

    /// Polls the operation.
    fn poll_op(&mut self, cx: &mut Context<'_>) -> Poll<Self::Output>;

    /// Returns whether the output means end of file.
    #[inline]
    fn is_end(_output: &Self::Output) -> bool {
        false
    }
}

pin_project_lite::pin_project! {
    /// The future of an I/O operation, with its call site.
    ///
    /// Diagnostics show the call site of a task that waits in this future.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    pub struct IoFuture<Op> {
        op: Op,
        site: &'static Location<'static>,
        // Makes the future `!Unpin`, so that an operation may become self-referential later.
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
        match &polled {
            Poll::Pending => context::set_wait_site(me.site),
            Poll::Ready(output) if Op::is_end(output) => futile::set_site(me.site),
            Poll::Ready(_) => {}
        }
        polled
    }
}
