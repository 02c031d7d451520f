//! Waiting for permits: the part of a future that does.

use super::permit_owners::OwnerIndex;
use super::raw_semaphore::{Ask, Closed, RawSemaphore, Taken, check_permits};
use crate::task::context;
use crate::task::coop::{self, RestoreOnPending};
use crate::task::wait_kind::WaitKind;
use crate::wait::list::{Grant, Waiter, WaiterState};
use crate::wait::record_wait_keeping_link;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};

pin_project_lite::pin_project! {
    /// The part of a future that waits for permits. Whoever it is part of calls
    /// [`cancel`](Self::cancel) when it is dropped.
    pub(super) struct PermitRequest {
        // None until it has to wait: then there is little to move around, and little
        // to look at, where permits are there.
        #[pin]
        waiter: Option<Waiter<Ask>>,
        wanted: usize,
        site: &'static Location<'static>,
    }
}

impl PermitRequest {
    /// # Panics
    ///
    /// If there can never be that many.
    #[inline]
    #[track_caller]
    pub(super) fn new(wanted: usize, site: &'static Location<'static>) -> Self {
        check_permits(wanted);
        Self { waiter: None, wanted, site }
    }

    pub(super) fn wanted(&self) -> usize {
        self.wanted
    }

    /// Always with the same `permits`. Answers where the task is noted as a holder.
    #[inline(always)]
    pub(super) fn poll(
        self: Pin<&mut Self>,
        permits: &RawSemaphore,
        kind: WaitKind,
        cx: &mut Context<'_>,
    ) -> Poll<Result<OwnerIndex, Closed>> {
        let progress = coop::try_proceed();
        if let (Some(progress), None) = (&progress, &self.waiter)
            && permits.try_take_first(self.wanted, self.site)
        {
            progress.made_progress();
            return Poll::Ready(Ok(OwnerIndex::FIRST));
        }
        self.poll_slowly(permits, kind, progress, cx)
    }

    #[inline(never)]
    fn poll_slowly(
        mut self: Pin<&mut Self>,
        permits: &RawSemaphore,
        kind: WaitKind,
        progress: Option<RestoreOnPending>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<OwnerIndex, Closed>> {
        if let (Some(progress), None) = (&progress, &self.waiter) {
            match permits.try_take_any(self.wanted, self.site) {
                Taken::Yes(spot) => {
                    progress.made_progress();
                    return Poll::Ready(Ok(spot));
                }
                Taken::Closed => return Poll::Ready(Err(Closed)),
                Taken::Short => {}
            }
        }
        // Without budget it still queues up, so that it keeps its place.
        if progress.is_none() && self.could_go_on(permits) {
            context::yield_out_of_budget(cx.waker());
            return Poll::Pending;
        }
        match self.as_mut().wait(permits, kind, cx) {
            Taken::Yes(spot) => {
                if let Some(progress) = progress {
                    progress.made_progress();
                }
                Poll::Ready(Ok(spot))
            }
            Taken::Closed => Poll::Ready(Err(Closed)),
            Taken::Short => Poll::Pending,
        }
    }

    fn could_go_on(&self, permits: &RawSemaphore) -> bool {
        let there = match &self.waiter {
            None => permits.available() >= self.wanted,
            Some(waiter) => waiter.state() != WaiterState::Waiting,
        };
        there && !permits.is_closed()
    }

    fn wait(
        self: Pin<&mut Self>,
        permits: &RawSemaphore,
        kind: WaitKind,
        cx: &Context<'_>,
    ) -> Taken {
        let mut this = self.project();
        if this.waiter.is_none() {
            this.waiter.set(Some(Waiter::new()));
        }
        let waiter = this.waiter.into_ref().as_pin_ref().expect("it is there by now");
        let wanted = *this.wanted;
        let mut standing = waiter.state();
        if standing == WaiterState::Waiting {
            standing = permits.update_waker(waiter, cx.waker());
        }
        match standing {
            WaiterState::Idle => {
                permits.enqueue(waiter, wanted, (kind, this.site), cx.waker().clone())
            }
            WaiterState::Waiting => {
                record_wait_keeping_link(kind, permits.target(), this.site);
                Taken::Short
            }
            WaiterState::Granted(Grant::Closed) => Taken::Closed,
            WaiterState::Granted(_) => {
                if permits.is_closed() {
                    permits.pass_on(waiter, wanted);
                    return Taken::Closed;
                }
                Taken::Yes(permits.take_up(waiter, this.site))
            }
        }
    }

    /// Gives back what it got and nobody saw.
    #[inline]
    pub(super) fn cancel(self: Pin<&mut Self>, permits: &RawSemaphore) {
        let this = self.project();
        if let Some(waiter) = this.waiter.into_ref().as_pin_ref() {
            permits.give_up(waiter, *this.wanted);
        }
    }
}
