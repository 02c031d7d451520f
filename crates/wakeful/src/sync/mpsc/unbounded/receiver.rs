//! The receiving end of an unbounded channel.

use crate::sync::mpsc::error::TryRecvError;
use crate::sync::mpsc::futures::RecvFuture;
use crate::sync::mpsc::rx::Rx;
use crate::sys::sync::atomic::Ordering::*;
use crate::wait::block_on;
use std::fmt;
use std::panic::Location;
use std::task::{Context, Poll};

/// The receiving end of an unbounded channel; yields messages in the order in which they were sent.
///
/// Dropping the receiver closes the channel and drops the messages in it.
///
/// # Examples
///
/// ```
/// use wakeful::sync::mpsc;
///
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() {
/// let (tx, mut rx) = mpsc::unbounded_channel();
/// wakeful::spawn(async move {
///     for number in 0..3 {
///         tx.send(number).unwrap();
///     }
/// });
/// let mut received = Vec::new();
/// while let Some(number) = rx.recv().await {
///     received.push(number);
/// }
/// assert_eq!(received, [0, 1, 2]);
/// # }
/// ```
pub struct UnboundedReceiver<T> {
    rx: Rx<T>,
}

impl<T> UnboundedReceiver<T> {
    pub(super) fn new(rx: Rx<T>) -> Self {
        Self { rx }
    }

    /// Receives the next message, waiting until there is one.
    ///
    /// Returns `None` if no message can arrive: all senders were dropped, or the channel was
    /// [closed](Self::close).
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe. If the future is dropped before it completes, no message was
    /// taken. The receiver keeps the waker of the last poll: see [wakers](crate::sync#wakers).
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::mpsc;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let (tx, mut rx) = mpsc::unbounded_channel();
    /// wakeful::spawn(async move { tx.send(1) });
    /// assert_eq!(rx.recv().await, Some(1));
    /// assert_eq!(rx.recv().await, None);
    /// # }
    /// ```
    #[inline]
    #[track_caller]
    pub fn recv(&mut self) -> impl Future<Output = Option<T>> {
        RecvFuture::new(&mut self.rx, |rx, cx, site| rx.poll_recv(cx, site), Location::caller())
    }

    /// Receives up to `limit` available messages into `buffer`, waiting until there is one.
    ///
    /// Returns the number of messages received, which is 0 only if no message can arrive, or if
    /// `limit` is 0.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe. If the future is dropped before it completes, no message was
    /// taken. The receiver keeps the waker of the last poll: see [wakers](crate::sync#wakers).
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::mpsc;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let (tx, mut rx) = mpsc::unbounded_channel();
    /// tx.send("first").unwrap();
    /// tx.send("second").unwrap();
    /// let mut buffer = Vec::new();
    /// assert_eq!(rx.recv_many(&mut buffer, 10).await, 2);
    /// # }
    /// ```
    #[track_caller]
    pub fn recv_many(&mut self, buffer: &mut Vec<T>, limit: usize) -> impl Future<Output = usize> {
        RecvFuture::new(
            &mut self.rx,
            move |rx, cx, site| rx.poll_recv_many(cx, buffer, limit, site),
            Location::caller(),
        )
    }

    /// Receives the next message if there is one.
    ///
    /// A message that another thread is sending right now counts as available.
    ///
    /// # Errors
    ///
    /// Returns [`TryRecvError::Empty`] if there is none, and [`TryRecvError::Disconnected`] if none
    /// can arrive.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::mpsc::{self, error::TryRecvError};
    ///
    /// let (tx, mut rx) = mpsc::unbounded_channel();
    /// tx.send(1).unwrap();
    /// assert_eq!(rx.try_recv(), Ok(1));
    /// assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
    /// ```
    #[track_caller]
    pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
        self.rx.try_recv()
    }

    /// Receives the next message, blocking the calling thread until there is one.
    ///
    /// Returns `None` if no message can arrive. This is for code outside of tasks.
    ///
    /// # Panics
    ///
    /// Panics if called on a thread that drives tasks, because blocking would stall those tasks.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::mpsc;
    ///
    /// let (tx, mut rx) = mpsc::unbounded_channel();
    /// std::thread::spawn(move || tx.send(1));
    /// assert_eq!(rx.blocking_recv(), Some(1));
    /// ```
    #[track_caller]
    pub fn blocking_recv(&mut self) -> Option<T> {
        block_on::block_on(self.recv())
    }

    /// Receives up to `limit` messages into `buffer`, blocking the calling thread until there is
    /// one.
    ///
    /// Returns the number of messages received, as [`recv_many`](Self::recv_many) does. This is for
    /// code outside of tasks.
    ///
    /// # Panics
    ///
    /// Panics if called on a thread that drives tasks, because blocking would stall those tasks.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::mpsc;
    ///
    /// let (tx, mut rx) = mpsc::unbounded_channel();
    /// tx.send(1).unwrap();
    /// tx.send(2).unwrap();
    /// let mut buffer = Vec::new();
    /// assert_eq!(rx.blocking_recv_many(&mut buffer, 10), 2);
    /// assert_eq!(buffer, [1, 2]);
    /// ```
    #[track_caller]
    pub fn blocking_recv_many(&mut self, buffer: &mut Vec<T>, limit: usize) -> usize {
        block_on::block_on(self.recv_many(buffer, limit))
    }

    /// Closes the channel, keeping the messages in it.
    ///
    /// Later sends fail. The messages in the channel can still be received.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::mpsc;
    ///
    /// let (tx, mut rx) = mpsc::unbounded_channel();
    /// tx.send("in time").unwrap();
    /// rx.close();
    /// assert!(tx.send("too late").is_err());
    /// assert_eq!(rx.blocking_recv(), Some("in time"));
    /// assert_eq!(rx.blocking_recv(), None);
    /// ```
    pub fn close(&mut self) {
        self.rx.chan().close();
    }

    /// Returns whether the channel was closed, or all senders were dropped.
    ///
    /// The channel may still contain messages.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::mpsc;
    ///
    /// let (tx, mut rx) = mpsc::unbounded_channel();
    /// tx.send(1).unwrap();
    /// drop(tx);
    /// assert!(rx.is_closed());
    /// assert_eq!(rx.try_recv(), Ok(1), "it was sent before");
    /// ```
    pub fn is_closed(&self) -> bool {
        self.rx.is_closed()
    }

    /// Returns whether the channel has no message.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::mpsc;
    ///
    /// let (tx, rx) = mpsc::unbounded_channel();
    /// assert!(rx.is_empty());
    /// tx.send(1).unwrap();
    /// assert!(!rx.is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.rx.len() == 0
    }

    /// Returns the number of messages in the channel.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::mpsc;
    ///
    /// let (tx, rx) = mpsc::unbounded_channel();
    /// tx.send(1).unwrap();
    /// tx.send(2).unwrap();
    /// assert_eq!(rx.len(), 2);
    /// ```
    pub fn len(&self) -> usize {
        self.rx.len()
    }

    /// Polls for the next message: the poll form of [`recv`](Self::recv).
    ///
    /// On `Pending`, the task of the most recent call is woken when a message arrives, or when no
    /// more can arrive.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::future::poll_fn;
    /// use wakeful::sync::mpsc;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let (tx, mut rx) = mpsc::unbounded_channel();
    /// tx.send(1).unwrap();
    /// assert_eq!(poll_fn(|cx| rx.poll_recv(cx)).await, Some(1));
    /// # }
    /// ```
    #[track_caller]
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        self.rx.poll_recv(cx, Location::caller())
    }

    /// Polls for messages: the poll form of [`recv_many`](Self::recv_many).
    ///
    /// On `Pending`, the task of the most recent call is woken when a message arrives, or when no
    /// more can arrive.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::future::poll_fn;
    /// use wakeful::sync::mpsc;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let (tx, mut rx) = mpsc::unbounded_channel();
    /// tx.send(1).unwrap();
    /// let mut buffer = Vec::new();
    /// let received = poll_fn(|cx| rx.poll_recv_many(cx, &mut buffer, 10)).await;
    /// assert_eq!((received, buffer), (1, vec![1]));
    /// # }
    /// ```
    #[track_caller]
    pub fn poll_recv_many(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut Vec<T>,
        limit: usize,
    ) -> Poll<usize> {
        self.rx.poll_recv_many(cx, buffer, limit, Location::caller())
    }

    /// Returns the number of senders.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::mpsc;
    ///
    /// let (tx, rx) = mpsc::unbounded_channel::<u32>();
    /// let second = tx.clone();
    /// assert_eq!(rx.sender_strong_count(), 2);
    /// # drop((tx, second));
    /// ```
    pub fn sender_strong_count(&self) -> usize {
        self.rx.chan().senders()
    }

    /// Returns the number of weak senders.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::mpsc;
    ///
    /// let (tx, rx) = mpsc::unbounded_channel::<u32>();
    /// let weak = tx.downgrade();
    /// assert_eq!(rx.sender_weak_count(), 1);
    /// # drop(weak);
    /// ```
    pub fn sender_weak_count(&self) -> usize {
        self.rx.chan().weak_senders().load(Relaxed)
    }
}

impl<T> fmt::Debug for UnboundedReceiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnboundedReceiver")
            .field("len", &self.len())
            .field("is_closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}
