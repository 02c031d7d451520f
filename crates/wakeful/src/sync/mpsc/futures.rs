//! What one awaits: a message, room for one, the receiver's end.

use super::bounded::Sender;
use super::capacity::{Asked, CapacityRequest, Refusal};
use super::chan::Chan;
use super::error::SendError;
use super::permit::{OwnedPermit, Permit, PermitIterator};
use super::rx::Rx;
use super::tail::CLOSED;
use crate::task::coop;
use crate::task::wait_kind::WaitKind;
use crate::wait;
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
    /// A wish for room. Its owner calls `cancel` before it is dropped.
    struct Request {
        #[pin]
        waiter: Waiter<CapacityRequest>,
        slots: u64,
    }
}

impl Request {
    #[inline]
    fn new(slots: u64) -> Self {
        Self { waiter: Waiter::new(), slots }
    }

    /// Ready when the slots are promised. Once it is ready it has forgotten them.
    #[cold]
    fn poll<T>(
        self: Pin<&mut Self>,
        chan: &Chan<T>,
        cx: &mut Context<'_>,
        site: Site,
    ) -> Poll<Result<(), Closed>> {
        let this = self.project();
        let (waiter, slots) = (this.waiter.as_ref(), *this.slots);
        let mut standing = waiter.state();
        if standing == WaiterState::Idle {
            match chan.ask(waiter, slots, cx.waker(), site) {
                Asked::Promised => return Poll::Ready(Ok(())),
                Asked::Closed => return Poll::Ready(Err(Closed)),
                Asked::Waiting => return Poll::Pending,
            }
        } else if standing == WaiterState::Waiting {
            standing = chan.room.update_waker(waiter, cx.waker());
        }
        match standing {
            WaiterState::Granted(Grant::One) if !chan.word().has(CLOSED) => {
                waiter.reset();
                Poll::Ready(Ok(()))
            }
            WaiterState::Granted(_) => {
                chan.give_up(waiter, slots);
                Poll::Ready(Err(Closed))
            }
            WaiterState::Idle | WaiterState::Waiting => {
                let target = chan.room.record.target(chan);
                wait::record_wait_keeping_link(WaitKind::MpscSend, target, site);
                Poll::Pending
            }
        }
    }

    /// Gives back what was promised, and the place in the queue.
    #[inline]
    fn cancel<T>(self: Pin<&mut Self>, chan: &Chan<T>) {
        let this = self.project();
        if this.waiter.state() != WaiterState::Idle {
            chan.give_up(this.waiter.as_ref(), *this.slots);
        }
    }
}

pin_project! {
    /// A message on its way; see [`Sender::send`].
    #[must_use = "futures do nothing unless polled"]
    pub(super) struct Sending<'a, T> {
        chan: &'a Chan<T>,
        value: Option<T>,
        #[pin]
        request: Request,
        site: Site,
    }

    impl<T> PinnedDrop for Sending<'_, T> {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            this.request.cancel(this.chan);
        }
    }
}

impl<'a, T> Sending<'a, T> {
    #[inline]
    pub(super) fn new(chan: &'a Chan<T>, value: T, site: Site) -> Self {
        Self { chan, value: Some(value), request: Request::new(1), site }
    }
}

impl<T> Future for Sending<'_, T> {
    type Output = Result<(), SendError<T>>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let progress = ready!(coop::poll_proceed(cx));
        assert!(this.value.is_some(), "polled after it was ready");
        if this.request.waiter.state() == WaiterState::Idle
            && let Ok(claim) = this.chan.claim()
        {
            let Some(value) = this.value.take() else { unreachable!("it was there above") };
            this.chan.fill(claim, value);
            progress.made_progress();
            return Poll::Ready(Ok(()));
        }
        let room = ready!(this.request.poll(this.chan, cx, this.site));
        progress.made_progress();
        let Some(value) = this.value.take() else { unreachable!("it was there above") };
        Poll::Ready(match room {
            Ok(()) => {
                this.chan.send_promised(value);
                Ok(())
            }
            Err(Closed) => Err(SendError(value)),
        })
    }
}

/// Room for `request`, with budget.
#[inline]
fn poll_reserve<T>(
    request: Pin<&mut Request>,
    chan: &Chan<T>,
    cx: &mut Context<'_>,
    site: Site,
) -> Poll<Result<(), SendError<()>>> {
    let progress = ready!(coop::poll_proceed(cx));
    let result = if request.waiter.state() == WaiterState::Idle {
        match chan.try_promise(request.slots) {
            Ok(()) => Ok(()),
            Err(Refusal::Closed) => Err(Closed),
            Err(Refusal::Full) => ready!(request.poll(chan, cx, site)),
        }
    } else {
        ready!(request.poll(chan, cx, site))
    };
    progress.made_progress();
    Poll::Ready(result.map_err(|Closed| SendError(())))
}

pin_project! {
    /// Room for `n` messages; see [`Sender::reserve_many`].
    #[must_use = "futures do nothing unless polled"]
    pub(super) struct ReserveMany<'a, T> {
        chan: &'a Chan<T>,
        n: usize,
        #[pin]
        request: Request,
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
        Self { chan, n, request: Request::new(n as u64), site }
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
    /// Room for one message; see [`Sender::reserve`].
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
    /// Room for one message, kept with the sender; see [`Sender::reserve_owned`].
    #[must_use = "futures do nothing unless polled"]
    pub(super) struct ReserveOwned<T> {
        // None once it went into a permit.
        sender: Option<Sender<T>>,
        #[pin]
        request: Request,
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
        Self { sender: Some(sender), request: Request::new(1), site }
    }
}

impl<T> Future for ReserveOwned<T> {
    type Output = Result<OwnedPermit<T>, SendError<()>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let sender = this.sender.as_ref().expect("polled after it was ready");
        ready!(poll_reserve(this.request, sender.chan(), cx, this.site))?;
        let sender = this.sender.take().expect("it was there a moment ago");
        Poll::Ready(Ok(OwnedPermit::new(sender)))
    }
}

pin_project! {
    /// What `poll` receives: one message, or several.
    #[must_use = "futures do nothing unless polled"]
    pub(super) struct Receiving<'a, T, F> {
        rx: &'a mut Rx<T>,
        poll: F,
        site: Site,
        #[pin]
        _pinned: PhantomPinned,
    }
}

impl<'a, T, F> Receiving<'a, T, F> {
    #[inline]
    pub(super) fn new<R>(rx: &'a mut Rx<T>, poll: F, site: Site) -> Self
    where
        F: FnMut(&mut Rx<T>, &mut Context<'_>, Site) -> Poll<R>,
    {
        Self { rx, poll, site, _pinned: PhantomPinned }
    }
}

impl<T, F, R> Future for Receiving<'_, T, F>
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
    /// The receiver's end.
    #[must_use = "futures do nothing unless polled"]
    pub(super) struct Closing<'a, T> {
        chan: &'a Chan<T>,
        #[pin]
        waiter: Waiter<()>,
        site: Site,
    }

    impl<T> PinnedDrop for Closing<'_, T> {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            let _ = this.chan.closing.cancel(this.waiter.as_ref());
        }
    }
}

impl<'a, T> Closing<'a, T> {
    pub(super) fn new(chan: &'a Chan<T>, site: Site) -> Self {
        Self { chan, waiter: Waiter::new(), site }
    }
}

impl<T> Future for Closing<'_, T> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        let (list, waiter) = (&this.chan.closing, this.waiter.as_ref());
        if this.chan.word().has(CLOSED) {
            let _ = list.cancel(waiter);
            return Poll::Ready(());
        }
        if waiter.state() == WaiterState::Idle {
            let waker = cx.waker().clone();
            let unneeded = list.with(|list| {
                // The closer sets the bit before it takes the lock.
                if this.chan.word().has(CLOSED) {
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
        wait::record_secondary_wait(WaitKind::MpscClosed, *this.chan, this.site);
        Poll::Pending
    }
}
