//! The sending end of a oneshot channel.

use super::shared::{RegisterOutcome, SenderEnd};
use crate::task::coop;
use crate::task::wait_kind::WaitKind;
use crate::wait;
use std::fmt;
use std::marker::PhantomPinned;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// The sending end of a oneshot channel, created by [`channel`](super::channel).
///
/// If it is dropped without sending, the receiver gets an error.
///
/// # Examples
///
/// ```
/// use wakeful::sync::{mpsc, oneshot};
///
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() {
/// // A request carries the sender of its reply.
/// let (requests, mut received) = mpsc::channel::<(u32, oneshot::Sender<u32>)>(8);
/// wakeful::spawn(async move {
///     while let Some((number, reply)) = received.recv().await {
///         reply.send(number * 2).ok();
///     }
/// });
/// let (reply, response) = oneshot::channel();
/// requests.send((21, reply)).await.unwrap();
/// assert_eq!(response.await, Ok(42));
/// # }
/// ```
pub struct Sender<T> {
    end: SenderEnd<T>,
}

impl<T> Sender<T> {
    pub(super) fn new(end: SenderEnd<T>) -> Self {
        Self { end }
    }

    /// Sends the message without waiting.
    ///
    /// Works on any thread. `Ok` does not mean that the message is received: the receiver may be
    /// dropped first.
    ///
    /// # Errors
    ///
    /// Returns the message if the receiver was dropped or [closed](super::Receiver::close).
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::oneshot;
    ///
    /// let (tx, mut rx) = oneshot::channel();
    /// assert_eq!(tx.send(1), Ok(()));
    /// assert_eq!(rx.try_recv(), Ok(1));
    ///
    /// let (tx, rx) = oneshot::channel();
    /// drop(rx);
    /// assert_eq!(tx.send(2), Err(2));
    /// ```
    #[inline]
    pub fn send(self, t: T) -> Result<(), T> {
        self.end.send(t)
    }

    /// Waits until the receiver is dropped or [closed](super::Receiver::close).
    ///
    /// Use this to stop a computation whose result is no longer needed.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe. A closed receiver stays closed. The sender keeps the waker of
    /// the last poll: see [wakers](crate::sync#wakers).
    ///
    /// # Examples
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
    #[track_caller]
    pub fn closed(&mut self) -> impl Future<Output = ()> {
        Closed { sender: self, site: Location::caller(), _pinned: PhantomPinned }
    }

    /// Returns whether the receiver was dropped or closed, so that [`send`](Self::send) would fail.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::oneshot;
    ///
    /// let (tx, rx) = oneshot::channel::<u32>();
    /// assert!(!tx.is_closed());
    /// drop(rx);
    /// assert!(tx.is_closed());
    /// ```
    pub fn is_closed(&self) -> bool {
        self.end.is_closed()
    }

    /// Polls whether the receiver is gone; the poll form of [`closed`](Self::closed).
    ///
    /// On `Pending`, the task of the most recent call is woken when the receiver is dropped or
    /// closed.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::future::poll_fn;
    /// use wakeful::sync::oneshot;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let (mut tx, rx) = oneshot::channel::<u32>();
    /// drop(rx);
    /// poll_fn(|cx| tx.poll_closed(cx)).await;
    /// # }
    /// ```
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
        if self.end.is_closed() || self.end.register(cx.waker()) == RegisterOutcome::Ended {
            progress.made_progress();
            return Poll::Ready(());
        }
        wait::record_wait(WaitKind::OneshotClosed, self.end.shared(), site);
        Poll::Pending
    }
}

impl<T: fmt::Debug> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("is_closed", &self.is_closed()).finish_non_exhaustive()
    }
}

pin_project_lite::pin_project! {
    /// Future returned by [`Sender::closed`].
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
