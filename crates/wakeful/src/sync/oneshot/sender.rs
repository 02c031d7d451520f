//! The end that sends.

use super::shared::{Sending, Waiting};
use crate::task::coop;
use crate::task::wait_kind::WaitKind;
use crate::wait;
use std::fmt;
use std::marker::PhantomPinned;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// Sends one value to its [`Receiver`](super::Receiver).
///
/// Dropped without sending, it lets the receiver fail.
pub struct Sender<T> {
    end: Sending<T>,
}

impl<T> Sender<T> {
    pub(super) fn new(end: Sending<T>) -> Self {
        Self { end }
    }

    /// Sends the value; there is never anything to wait for.
    ///
    /// `Ok` does not say that the value is received: the receiver may go away
    /// without having looked.
    ///
    /// # Errors
    ///
    /// The value comes back if the receiver has gone away or was
    /// [closed](super::Receiver::close).
    #[inline]
    pub fn send(self, t: T) -> Result<(), T> {
        self.end.send(t)
    }

    /// Waits until the receiver goes away or is
    /// [closed](super::Receiver::close): nobody wants the value any more.
    ///
    /// ```
    /// use wakeful::sync::oneshot;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let (mut sender, receiver) = oneshot::channel::<u32>();
    /// wakeful::spawn(async move { drop(receiver) });
    /// sender.closed().await;
    /// assert_eq!(sender.send(1), Err(1));
    /// # }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: once the receiver is closed it stays so. The sender keeps the waker of
    /// the last poll: see [wakers](crate::sync#wakers).
    #[track_caller]
    pub fn closed(&mut self) -> impl Future<Output = ()> {
        Closed { sender: self, site: Location::caller(), _pinned: PhantomPinned }
    }

    /// Whether the receiver has gone away or was closed, so that
    /// [`send`](Self::send) would fail.
    pub fn is_closed(&self) -> bool {
        self.end.is_closed()
    }

    /// As [`closed`](Self::closed), for futures written by hand: if it is
    /// `Pending`, the task of the latest call is woken when the receiver goes
    /// away or is closed.
    #[track_caller]
    pub fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_closed_at(cx, Location::caller())
    }

    fn poll_closed_at(
        &mut self,
        cx: &mut Context<'_>,
        site: &'static Location<'static>,
    ) -> Poll<()> {
        let progress = ready!(coop::poll_proceed(cx));
        if self.end.is_closed() || self.end.register(cx.waker()) == Waiting::Over {
            progress.made_progress();
            return Poll::Ready(());
        }
        wait::record_secondary_wait(WaitKind::OneshotClosed, self.end.shared(), site);
        Poll::Pending
    }
}

impl<T: fmt::Debug> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("is_closed", &self.is_closed()).finish_non_exhaustive()
    }
}

pin_project_lite::pin_project! {
    /// The future of [`Sender::closed`].
    struct Closed<'a, T> {
        sender: &'a mut Sender<T>,
        site: &'static Location<'static>,
        #[pin]
        _pinned: PhantomPinned,
    }
}

impl<T> Future for Closed<'_, T> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        this.sender.poll_closed_at(cx, this.site)
    }
}
