//! How a method of an extension trait becomes a future.

use crate::task::context;
use std::marker::PhantomPinned;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};

/// What an operation does when it is polled. It borrows what it reads from or
/// writes to, which may move, so it may itself.
pub trait Step {
    type Output;

    fn step(&mut self, cx: &mut Context<'_>) -> Poll<Self::Output>;
}

pin_project_lite::pin_project! {
    /// A [`Step`] as a future, which knows where it was asked for: a task that
    /// waits in it is listed with that place.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    pub struct Operation<S> {
        step: S,
        site: &'static Location<'static>,
        // Not `Unpin`, so that a step may be pinned one day.
        #[pin]
        _pinned: PhantomPinned,
    }
}

impl<S: Step> Operation<S> {
    #[inline]
    #[track_caller]
    pub(super) fn new(step: S) -> Self {
        Self { step, site: Location::caller(), _pinned: PhantomPinned }
    }
}

impl<S: Step> Future for Operation<S> {
    type Output = S::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<S::Output> {
        let me = self.project();
        let polled = me.step.step(cx);
        if polled.is_pending() {
            context::set_wait_site(me.site);
        }
        polled
    }
}
