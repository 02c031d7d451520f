//! The part of a future that waits for permits.

use super::permit_owners::OwnerIndex;
use super::raw_semaphore::{AcquireOutcome, Closed, Demand, RawSemaphore, check_permits};
use crate::task::context;
use crate::task::coop::{self, RestoreOnPending};
use crate::task::futile::{self, FutileKind};
use crate::task::wait_kind::WaitKind;
use crate::wait::describe::describe_wait;
use crate::wait::list::{Grant, Waiter, WaiterState};
use crate::wait::record_wait_keeping_link;
use std::panic::Location;
use std::pin::Pin;
use std::ptr;
use std::task::{Context, Poll};

pin_project_lite::pin_project! {
    /// The part of a future that waits for permits.
    ///
    /// The enclosing future calls [`cancel`](Self::cancel) when dropped.
    pub(super) struct PermitRequest {
        // `None` until too few permits are available, so that an uncontended request moves and
        // checks little.
        #[pin]
        waiter: Option<Waiter<Demand>>,
        requested: usize,
        site: &'static Location<'static>,
    }
}

impl PermitRequest {
    /// Creates a request for `requested` permits.
    ///
    /// # Panics
    ///
    /// Panics if a semaphore cannot have that many.
    #[inline]
    #[track_caller]
    pub(super) fn new(requested: usize, site: &'static Location<'static>) -> Self {
        check_permits(requested);
        Self { waiter: None, requested, site }
    }

    pub(super) fn requested(&self) -> usize {
        self.requested
    }

    /// Polls for the permits and returns where the task is recorded as an owner. `permits` is the
    /// same in every call.
    #[inline(always)]
    pub(super) fn poll(
        self: Pin<&mut Self>,
        permits: &RawSemaphore,
        kind: WaitKind,
        cx: &mut Context<'_>,
    ) -> Poll<Result<OwnerIndex, Closed>> {
        let progress = coop::try_proceed();
        if let (Some(progress), None) = (&progress, &self.waiter)
            && permits.try_acquire_first(self.requested, self.site)
        {
            progress.made_progress();
            return Poll::Ready(Ok(OwnerIndex::FIRST));
        }
        self.poll_slow(permits, kind, progress, cx)
    }

    #[inline(never)]
    fn poll_slow(
        mut self: Pin<&mut Self>,
        permits: &RawSemaphore,
        kind: WaitKind,
        progress: Option<RestoreOnPending>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<OwnerIndex, Closed>> {
        if let (Some(progress), None) = (&progress, &self.waiter) {
            match permits.try_acquire_slow(self.requested, self.site) {
                AcquireOutcome::Acquired(owner) => {
                    progress.made_progress();
                    return Poll::Ready(Ok(owner));
                }
                AcquireOutcome::Closed => {
                    let address = ptr::from_ref(permits).addr() as u64;
                    futile::count(FutileKind::SemaphoreAcquire, address, Some(self.site));
                    return Poll::Ready(Err(Closed));
                }
                AcquireOutcome::NoPermits => {}
            }
        }
        // A task without budget still enqueues itself, so that it gets its place in the queue.
        if progress.is_none() && self.could_proceed(permits) {
            context::yield_out_of_budget(cx.waker());
            return Poll::Pending;
        }
        match self.as_mut().wait(permits, kind, cx) {
            AcquireOutcome::Acquired(owner) => {
                if let Some(progress) = progress {
                    progress.made_progress();
                }
                Poll::Ready(Ok(owner))
            }
            AcquireOutcome::Closed => Poll::Ready(Err(Closed)),
            AcquireOutcome::NoPermits => Poll::Pending,
        }
    }

    fn could_proceed(&self, permits: &RawSemaphore) -> bool {
        let available = match &self.waiter {
            None => permits.available() >= self.requested,
            Some(waiter) => waiter.state() != WaiterState::Waiting,
        };
        available && !permits.is_closed()
    }

    fn wait(
        self: Pin<&mut Self>,
        permits: &RawSemaphore,
        kind: WaitKind,
        cx: &Context<'_>,
    ) -> AcquireOutcome {
        let mut this = self.project();
        if this.waiter.is_none() {
            this.waiter.set(Some(Waiter::new()));
        }
        let waiter = this.waiter.into_ref().as_pin_ref().expect("set above");
        let requested = *this.requested;
        let mut waiter_state = waiter.state();
        if waiter_state == WaiterState::Waiting {
            waiter_state = permits.update_waker(waiter, cx.waker());
        }
        match waiter_state {
            WaiterState::Idle => {
                permits.enqueue(waiter, requested, (kind, this.site), cx.waker().clone())
            }
            WaiterState::Waiting => {
                record_wait_keeping_link(kind, permits.target(), this.site);
                if kind == WaitKind::Semaphore {
                    describe_wait(|| permits.describe_to_waiter(requested));
                }
                AcquireOutcome::NoPermits
            }
            WaiterState::Granted(Grant::Closed) => AcquireOutcome::Closed,
            WaiterState::Granted(_) => {
                if permits.is_closed() {
                    permits.release_grant(waiter, requested);
                    return AcquireOutcome::Closed;
                }
                AcquireOutcome::Acquired(permits.accept_grant(waiter, this.site))
            }
        }
    }

    /// Leaves the wait list and releases permits that were granted and not yet accepted.
    #[inline]
    pub(super) fn cancel(self: Pin<&mut Self>, permits: &RawSemaphore) {
        let this = self.project();
        if let Some(waiter) = this.waiter.into_ref().as_pin_ref() {
            permits.cancel(waiter, *this.requested);
        }
    }
}
