//! The receiving end of a oneshot channel.

use super::error::{RecvError, TryRecvError};
use super::shared::{ReceiverEnd, RegisterOutcome, ValueState};
use crate::task::coop;
use crate::task::futile::{self, FutileKind};
use crate::task::wait_kind::WaitKind;
use crate::wait::describe::describe_wait;
use crate::wait::{self, block_on};
use std::fmt;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// The receiving end of a oneshot channel: a future that resolves to the message.
///
/// Resolves to an error if the sender is dropped without sending, or if the receiver was
/// [closed](Self::close) before a message was sent.
///
/// # Cancel safety
///
/// Awaiting `&mut receiver` is cancel safe: if that future is dropped, the message can still be
/// received. The receiver keeps the waker of the last poll: see [wakers](crate::sync#wakers).
///
/// # Panics
///
/// Panics if polled again after it has completed.
///
/// # Examples
///
/// ```
/// use wakeful::sync::oneshot;
///
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() {
/// let (tx, rx) = oneshot::channel::<u32>();
/// drop(tx);
/// assert!(rx.await.is_err(), "the sender was dropped");
/// # }
/// ```
pub struct Receiver<T> {
    /// `None` once the receiver has completed.
    end: Option<ReceiverEnd<T>>,
    /// Where the channel was created. An awaited receiver has no other site to report.
    site: &'static Location<'static>,
}

impl<T> Receiver<T> {
    pub(super) fn new(end: ReceiverEnd<T>, site: &'static Location<'static>) -> Self {
        Self { end: Some(end), site }
    }

    /// Closes the channel; later sends fail.
    ///
    /// A message that was already sent can still be received. Has no effect if the message was
    /// received, or if the channel was already closed.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::oneshot;
    ///
    /// let (sender, mut receiver) = oneshot::channel();
    /// receiver.close();
    /// assert_eq!(sender.send(1), Err(1));
    /// assert!(receiver.try_recv().is_err());
    /// ```
    pub fn close(&mut self) {
        if let Some(end) = &mut self.end {
            end.close();
        }
    }

    /// Returns whether the receiver has completed, with a message or with an error.
    ///
    /// A terminated receiver must not be awaited again.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::oneshot;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let (tx, mut rx) = oneshot::channel();
    /// tx.send(1).unwrap();
    /// assert!(!rx.is_terminated());
    /// (&mut rx).await.unwrap();
    /// assert!(rx.is_terminated());
    /// # }
    /// ```
    pub fn is_terminated(&self) -> bool {
        self.end.is_none()
    }

    /// Returns whether there is no message to receive now.
    ///
    /// An empty receiver may be terminated, and must then not be awaited: see
    /// [`is_terminated`](Self::is_terminated).
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::oneshot;
    ///
    /// let (tx, rx) = oneshot::channel();
    /// assert!(rx.is_empty());
    /// tx.send(1).unwrap();
    /// assert!(!rx.is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.end.as_ref().is_none_or(|end| end.value_state() != ValueState::Ready)
    }

    /// Receives the message if it was sent, without waiting.
    ///
    /// # Errors
    ///
    /// Returns [`TryRecvError::Empty`] if no message was sent yet, and [`TryRecvError::Closed`] if
    /// none can arrive.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::oneshot::{self, error::TryRecvError};
    ///
    /// let (tx, mut rx) = oneshot::channel();
    /// assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
    /// tx.send(1).unwrap();
    /// assert_eq!(rx.try_recv(), Ok(1));
    /// assert_eq!(rx.try_recv(), Err(TryRecvError::Closed));
    /// ```
    #[track_caller]
    pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
        match self.end.as_ref().map(ReceiverEnd::value_state) {
            None => {
                let address = std::ptr::from_ref(self).addr() as u64;
                futile::count(FutileKind::OneshotTryRecv, address, Some(Location::caller()));
                Err(TryRecvError::Closed)
            }
            Some(ValueState::Empty) => Err(TryRecvError::Empty),
            Some(ValueState::Ready | ValueState::Never) => {
                self.finish().ok_or(TryRecvError::Closed)
            }
        }
    }

    /// Receives the message, blocking the calling thread until it is sent.
    ///
    /// This is for code outside of tasks.
    ///
    /// # Errors
    ///
    /// Returns [`RecvError`] if the sender is dropped without sending.
    ///
    /// # Panics
    ///
    /// Panics if called on a thread that drives tasks, because blocking would stall those tasks.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::oneshot;
    ///
    /// let (tx, rx) = oneshot::channel();
    /// std::thread::spawn(move || tx.send(1));
    /// assert_eq!(rx.blocking_recv(), Ok(1));
    /// ```
    #[track_caller]
    pub fn blocking_recv(self) -> Result<T, RecvError> {
        block_on::block_on(self)
    }

    /// Terminates this receiver and returns the message if one was sent.
    #[inline]
    fn finish(&mut self) -> Option<T> {
        self.end.take()?.finish()
    }
}

impl<T> Future for Receiver<T> {
    type Output = Result<T, RecvError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let site = self.site;
        let Some(end) = &mut self.end else {
            panic!("called after complete");
        };
        let progress = ready!(coop::poll_proceed(cx));
        if end.value_state() == ValueState::Empty
            && end.register(cx.waker()) == RegisterOutcome::Registered
        {
            wait::record_wait(WaitKind::OneshotRecv, end.shared(), site);
            describe_wait(|| format!("channel created at {site}, its sender is alive"));
            return Poll::Pending;
        }
        progress.made_progress();
        Poll::Ready(self.finish().ok_or(RecvError(())))
    }
}

impl<T: fmt::Debug> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver")
            .field("is_terminated", &self.is_terminated())
            .field("is_empty", &self.is_empty())
            .finish_non_exhaustive()
    }
}
