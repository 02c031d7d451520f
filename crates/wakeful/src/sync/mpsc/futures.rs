//! The futures of a channel: sending, reserving, receiving, and waiting for its end.

use super::bounded::Sender;
use super::capacity::{CapacityRequest, RequestOutcome, ReserveError};
use super::chan::Chan;
use super::error::SendError;
use super::permit::{OwnedPermit, Permit, PermitIterator};
use super::rx::Rx;
use super::tail::CLOSED;
use crate::task::coop;
use crate::task::wait_kind::WaitKind;
use crate::wait;
use crate::wait::describe::describe_wait;
use crate::wait::list::{Grant, Waiter, WaiterState};
use pin_project_lite::pin_project;
use std::marker::PhantomPinned;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

type Site = &'static Location<'static>;

/// The channel is closed.
struct Closed;

pin_project! {
    /// The part of a future that waits for capacity. The enclosing future calls `cancel` when
    /// dropped.
    struct CapacityWait {
        #[pin]
        waiter: Waiter<CapacityRequest>,
        slots: u64,
    }
}

impl CapacityWait {
    #[inline]
    fn new(slots: u64) -> Self {
        Self { waiter: Waiter::new(), slots }
    }

    /// Completes when the slots are reserved. From then on the caller owns them.
    #[cold]
    fn poll<T>(
        self: Pin<&mut Self>,
        chan: &Chan<T>,
        cx: &mut Context<'_>,
        site: Site,
    ) -> Poll<Result<(), Closed>> {
        let this = self.project();
        let (waiter, slots) = (this.waiter.as_ref(), *this.slots);
        let mut waiter_state = waiter.state();
        if waiter_state == WaiterState::Idle {
            match chan.request_capacity(waiter, slots, cx.waker(), site) {
                RequestOutcome::Reserved => return Poll::Ready(Ok(())),
                RequestOutcome::Closed => return Poll::Ready(Err(Closed)),
                RequestOutcome::Waiting => return Poll::Pending,
            }
        } else if waiter_state == WaiterState::Waiting {
            waiter_state = chan.send_waiters.update_waker(waiter, cx.waker());
        }
        match waiter_state {
            WaiterState::Granted(Grant::One) if !chan.load_tail().has(CLOSED) => {
                waiter.reset();
                Poll::Ready(Ok(()))
            }
            WaiterState::Granted(_) => {
                chan.cancel_request(waiter, slots);
                Poll::Ready(Err(Closed))
            }
            WaiterState::Idle | WaiterState::Waiting => {
                let target = chan.send_waiters.record.target(chan);
                wait::record_wait_keeping_link(WaitKind::MpscSend, target, site);
                describe_wait(|| chan.describe_to_sender(slots));
                Poll::Pending
            }
        }
    }

    /// Leaves the wait list and releases slots that were granted.
    #[inline]
    fn cancel<T>(self: Pin<&mut Self>, chan: &Chan<T>) {
        let this = self.project();
        if this.waiter.state() != WaiterState::Idle {
            chan.cancel_request(this.waiter.as_ref(), *this.slots);
        }
    }
}

pin_project! {
    /// Future returned by [`Sender::send`].
    #[must_use = "futures do nothing unless polled"]
    pub(super) struct SendFuture<'a, T> {
        chan: &'a Chan<T>,
        value: Option<T>,
        #[pin]
        request: CapacityWait,
        site: Site,
    }

    impl<T> PinnedDrop for SendFuture<'_, T> {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            this.request.cancel(this.chan);
        }
    }
}

impl<'a, T> SendFuture<'a, T> {
    #[inline]
    pub(super) fn new(chan: &'a Chan<T>, value: T, site: Site) -> Self {
        Self { chan, value: Some(value), request: CapacityWait::new(1), site }
    }
}

impl<T> Future for SendFuture<'_, T> {
    type Output = Result<(), SendError<T>>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let progress = ready!(coop::poll_proceed(cx));
        assert!(this.value.is_some(), "`Sender::send` polled after completion");
        if this.request.waiter.state() == WaiterState::Idle
            && let Ok(claim) = this.chan.claim()
        {
            let Some(value) = this.value.take() else { unreachable!("checked above") };
            this.chan.fill(claim, value);
            progress.made_progress();
            return Poll::Ready(Ok(()));
        }
        let room = ready!(this.request.poll(this.chan, cx, this.site));
        progress.made_progress();
        let Some(value) = this.value.take() else { unreachable!("checked above") };
        Poll::Ready(match room {
            Ok(()) => {
                this.chan.send_reserved(value);
                Ok(())
            }
            Err(Closed) => Err(SendError(value)),
        })
    }
}

/// Polls for the slots of `request` and spends budget.
#[inline]
fn poll_reserve<T>(
    request: Pin<&mut CapacityWait>,
    chan: &Chan<T>,
    cx: &mut Context<'_>,
    site: Site,
) -> Poll<Result<(), SendError<()>>> {
    let progress = ready!(coop::poll_proceed(cx));
    let result = if request.waiter.state() == WaiterState::Idle {
        match chan.try_reserve_slots(request.slots) {
            Ok(()) => Ok(()),
            Err(ReserveError::Closed) => Err(Closed),
            Err(ReserveError::Full) => ready!(request.poll(chan, cx, site)),
        }
    } else {
        ready!(request.poll(chan, cx, site))
    };
    progress.made_progress();
    Poll::Ready(result.map_err(|Closed| SendError(())))
}

pin_project! {
    /// Future returned by [`Sender::reserve_many`].
    #[must_use = "futures do nothing unless polled"]
    pub(super) struct ReserveMany<'a, T> {
        chan: &'a Chan<T>,
        n: usize,
        #[pin]
        request: CapacityWait,
        site: Site,
    }

    impl<T> PinnedDrop for ReserveMany<'_, T> {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            this.request.cancel(this.chan);
        }
    }
}

impl<'a, T> ReserveMany<'a, T> {
    #[inline]
    pub(super) fn new(chan: &'a Chan<T>, n: usize, site: Site) -> Self {
        Self { chan, n, request: CapacityWait::new(n as u64), site }
    }
}

impl<'a, T> Future for ReserveMany<'a, T> {
    type Output = Result<PermitIterator<'a, T>, SendError<()>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let (chan, n) = (*this.chan, *this.n);
        if n as u64 > chan.limit {
            return Poll::Ready(Err(SendError(())));
        }
        poll_reserve(this.request, chan, cx, this.site).map_ok(|()| PermitIterator::new(chan, n))
    }
}

pin_project! {
    /// Future returned by [`Sender::reserve`].
    #[must_use = "futures do nothing unless polled"]
    pub(super) struct Reserve<'a, T> {
        #[pin]
        many: ReserveMany<'a, T>,
    }
}

impl<'a, T> Reserve<'a, T> {
    #[inline]
    pub(super) fn new(chan: &'a Chan<T>, site: Site) -> Self {
        Self { many: ReserveMany::new(chan, 1, site) }
    }
}

impl<'a, T> Future for Reserve<'a, T> {
    type Output = Result<Permit<'a, T>, SendError<()>>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project().many.project();
        let chan = *this.chan;
        poll_reserve(this.request, chan, cx, this.site).map_ok(|()| Permit::new(chan))
    }
}

pin_project! {
    /// Future returned by [`Sender::reserve_owned`].
    #[must_use = "futures do nothing unless polled"]
    pub(super) struct ReserveOwned<T> {
        // `None` once it was moved into the permit.
        sender: Option<Sender<T>>,
        #[pin]
        request: CapacityWait,
        site: Site,
    }

    impl<T> PinnedDrop for ReserveOwned<T> {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            if let Some(sender) = this.sender {
                this.request.cancel(sender.chan());
            }
        }
    }
}

impl<T> ReserveOwned<T> {
    pub(super) fn new(sender: Sender<T>, site: Site) -> Self {
        Self { sender: Some(sender), request: CapacityWait::new(1), site }
    }
}

impl<T> Future for ReserveOwned<T> {
    type Output = Result<OwnedPermit<T>, SendError<()>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let sender = this.sender.as_ref().expect("`Sender::reserve_owned` polled after completion");
        ready!(poll_reserve(this.request, sender.chan(), cx, this.site))?;
        let sender = this.sender.take().expect("checked above");
        Poll::Ready(Ok(OwnedPermit::new(sender)))
    }
}

pin_project! {
    /// Future returned by `recv` and `recv_many`; delegates to `poll`.
    #[must_use = "futures do nothing unless polled"]
    pub(super) struct RecvFuture<'a, T, F> {
        rx: &'a mut Rx<T>,
        poll: F,
        site: Site,
        #[pin]
        _pinned: PhantomPinned,
    }
}

impl<'a, T, F> RecvFuture<'a, T, F> {
    #[inline]
    pub(super) fn new<R>(rx: &'a mut Rx<T>, poll: F, site: Site) -> Self
    where
        F: FnMut(&mut Rx<T>, &mut Context<'_>, Site) -> Poll<R>,
    {
        Self { rx, poll, site, _pinned: PhantomPinned }
    }
}

impl<T, F, R> Future for RecvFuture<'_, T, F>
where
    F: FnMut(&mut Rx<T>, &mut Context<'_>, Site) -> Poll<R>,
{
    type Output = R;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<R> {
        let this = self.project();
        (this.poll)(this.rx, cx, this.site)
    }
}

pin_project! {
    /// The future of `closed`: waits until the receiver is closed or dropped.
    #[must_use = "futures do nothing unless polled"]
    pub(super) struct ClosedFuture<'a, T> {
        chan: &'a Chan<T>,
        #[pin]
        waiter: Waiter<()>,
        site: Site,
    }

    impl<T> PinnedDrop for ClosedFuture<'_, T> {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            let _ = this.chan.closed_waiters.cancel(this.waiter.as_ref());
        }
    }
}

impl<'a, T> ClosedFuture<'a, T> {
    pub(super) fn new(chan: &'a Chan<T>, site: Site) -> Self {
        Self { chan, waiter: Waiter::new(), site }
    }
}

impl<T> Future for ClosedFuture<'_, T> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        let (list, waiter) = (&this.chan.closed_waiters, this.waiter.as_ref());
        if this.chan.load_tail().has(CLOSED) {
            let _ = list.cancel(waiter);
            return Poll::Ready(());
        }
        if waiter.state() == WaiterState::Idle {
            let waker = cx.waker().clone();
            let unneeded = list.with(|list| {
                // The closing thread sets the flag before it takes the lock.
                if this.chan.load_tail().has(CLOSED) {
                    return Some(waker);
                }
                list.push_back(waiter, (), Some(waker));
                None
            });
            if unneeded.is_some() {
                return Poll::Ready(());
            }
        } else if let WaiterState::Granted(_) = list.update_waker(waiter, cx.waker()) {
            return Poll::Ready(());
        }
        wait::record_wait(WaitKind::MpscClosed, *this.chan, this.site);
        Poll::Pending
    }
}
