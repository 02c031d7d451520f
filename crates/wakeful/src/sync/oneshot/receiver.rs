//! The end that receives.

use super::error::{RecvError, TryRecvError};
use super::shared::{Found, Receiving, Waiting};
use crate::task::coop;
use crate::task::wait_kind::WaitKind;
use crate::wait::{self, block_on};
use std::fmt;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// Receives the value of its [`Sender`](super::Sender): a future.
///
/// It fails if the sender goes away without sending, and after
/// [`close`](Self::close) if there is no value by then.
///
/// # Cancel safety
///
/// Awaiting `&mut receiver` is cancel safe: if that future is dropped, the
/// value is still there or still to come. The receiver keeps the waker of the
/// task that asked last until it is dropped itself.
///
/// # Panics
///
/// Awaiting it once more after it was ready.
pub struct Receiver<T> {
    /// None once it was ready.
    end: Option<Receiving<T>>,
    /// Where the channel was made: a receiver that is awaited has no other
    /// place to name.
    site: &'static Location<'static>,
}

impl<T> Receiver<T> {
    pub(super) fn new(end: Receiving<T>, site: &'static Location<'static>) -> Self {
        Self { end: Some(end), site }
    }

    /// Lets every `send` from now on fail. A value that was sent before can
    /// still be received.
    ///
    /// Nothing happens if the value was received, or it was closed before.
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

    /// Whether it was ready: with a value or with an error. It must not be
    /// awaited again.
    pub fn is_terminated(&self) -> bool {
        self.end.is_none()
    }

    /// Whether there is no value to receive. Says nothing about whether it may
    /// be awaited: see [`is_terminated`](Self::is_terminated).
    pub fn is_empty(&self) -> bool {
        self.end.as_ref().is_none_or(|end| end.look() != Found::Value)
    }

    /// The value, if there is one. Does not wait.
    ///
    /// # Errors
    ///
    /// [`TryRecvError::Empty`] if none was sent yet, [`TryRecvError::Closed`] if
    /// none will come.
    pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
        match self.end.as_ref().map(Receiving::look) {
            None => Err(TryRecvError::Closed),
            Some(Found::Nothing) => Err(TryRecvError::Empty),
            Some(Found::Value | Found::End) => self.finish().ok_or(TryRecvError::Closed),
        }
    }

    /// Waits with the thread instead of a task.
    ///
    /// # Errors
    ///
    /// If the sender goes away without sending.
    ///
    /// # Panics
    ///
    /// On a thread that drives tasks: they would wait with it.
    #[track_caller]
    pub fn blocking_recv(self) -> Result<T, RecvError> {
        block_on::block_on(self)
    }

    /// The end of this receiver.
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
        if end.look() == Found::Nothing && end.register(cx.waker()) == Waiting::Registered {
            wait::record_wait(WaitKind::OneshotRecv, end.shared(), site);
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
