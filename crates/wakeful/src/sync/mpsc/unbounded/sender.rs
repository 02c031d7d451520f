//! The sending end of an unbounded channel.

use crate::sync::mpsc::chan::Chan;
use crate::sync::mpsc::error::SendError;
use crate::sync::mpsc::futures::ClosedFuture;
use crate::sync::mpsc::tail::CLOSED;
use crate::sync::mpsc::tx::{Tx, WeakTx};
use crate::sys::sync::atomic::Ordering::*;
use std::fmt;
use std::panic::Location;

/// The sending end of an unbounded channel.
///
/// Clones send to the same [`UnboundedReceiver`](super::UnboundedReceiver). The channel is
/// disconnected when the last sender is dropped.
///
/// # Examples
///
/// ```
/// use wakeful::sync::mpsc;
///
/// let (tx, mut rx) = mpsc::unbounded_channel();
/// let second = tx.clone();
/// tx.send(1).unwrap();
/// second.send(2).unwrap();
/// assert_eq!((rx.try_recv(), rx.try_recv()), (Ok(1), Ok(2)));
/// ```
pub struct UnboundedSender<T> {
    tx: Tx<T>,
}

/// A sender that does not keep the channel open; created by [`UnboundedSender::downgrade`].
///
/// To send, [upgrade](WeakUnboundedSender::upgrade) it first.
///
/// # Examples
///
/// ```
/// use wakeful::sync::mpsc;
///
/// let (tx, mut rx) = mpsc::unbounded_channel();
/// let weak = tx.downgrade();
/// weak.upgrade().unwrap().send(1).unwrap();
/// drop(tx);
/// assert_eq!(rx.blocking_recv(), Some(1));
/// assert_eq!(rx.blocking_recv(), None, "the weak sender does not keep the channel open");
/// ```
pub struct WeakUnboundedSender<T> {
    tx: WeakTx<T>,
}

impl<T> UnboundedSender<T> {
    pub(super) fn new(tx: Tx<T>) -> Self {
        Self { tx }
    }

    fn chan(&self) -> &Chan<T> {
        self.tx.chan()
    }

    /// Sends a message without waiting.
    ///
    /// Works on any thread. `Ok` does not mean that the message is received: the receiver may be
    /// dropped first.
    ///
    /// # Errors
    ///
    /// Returns the message in a [`SendError`] if the receiver was closed or dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::mpsc::{self, error::SendError};
    ///
    /// let (tx, mut rx) = mpsc::unbounded_channel();
    /// assert_eq!(tx.send(1), Ok(()));
    /// assert_eq!(rx.try_recv(), Ok(1));
    /// drop(rx);
    /// assert_eq!(tx.send(2), Err(SendError(2)));
    /// ```
    #[inline]
    pub fn send(&self, message: T) -> Result<(), SendError<T>> {
        self.chan().send_unbounded(message)
    }

    /// Waits until the receiver is closed or dropped.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe. A closed channel stays closed.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::mpsc;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let (tx, rx) = mpsc::unbounded_channel::<u32>();
    /// wakeful::spawn(async move { drop(rx) });
    /// tx.closed().await;
    /// assert!(tx.is_closed());
    /// # }
    /// ```
    #[track_caller]
    pub fn closed(&self) -> impl Future<Output = ()> {
        ClosedFuture::new(self.chan(), Location::caller())
    }

    /// Returns whether the receiver was closed or dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::mpsc;
    ///
    /// let (tx, rx) = mpsc::unbounded_channel::<u32>();
    /// assert!(!tx.is_closed());
    /// drop(rx);
    /// assert!(tx.is_closed());
    /// ```
    pub fn is_closed(&self) -> bool {
        self.chan().load_tail().has(CLOSED)
    }

    /// Returns whether two senders send to the same receiver.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::mpsc;
    ///
    /// let (tx, _rx) = mpsc::unbounded_channel::<u32>();
    /// let (other, _rx) = mpsc::unbounded_channel::<u32>();
    /// assert!(tx.same_channel(&tx.clone()));
    /// assert!(!tx.same_channel(&other));
    /// ```
    pub fn same_channel(&self, other: &Self) -> bool {
        self.tx.same_channel(&other.tx)
    }

    /// Creates a sender that does not keep the channel open.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::mpsc;
    ///
    /// let (tx, _rx) = mpsc::unbounded_channel::<u32>();
    /// let weak = tx.downgrade();
    /// assert!(weak.upgrade().is_some());
    /// drop(tx);
    /// assert!(weak.upgrade().is_none());
    /// ```
    #[must_use = "the sender itself stays as it is"]
    pub fn downgrade(&self) -> WeakUnboundedSender<T> {
        WeakUnboundedSender { tx: self.tx.downgrade() }
    }

    /// Returns the number of senders.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::mpsc;
    ///
    /// let (tx, _rx) = mpsc::unbounded_channel::<u32>();
    /// let second = tx.clone();
    /// assert_eq!(tx.strong_count(), 2);
    /// # drop(second);
    /// ```
    pub fn strong_count(&self) -> usize {
        self.chan().senders()
    }

    /// Returns the number of weak senders.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::mpsc;
    ///
    /// let (tx, _rx) = mpsc::unbounded_channel::<u32>();
    /// let weak = tx.downgrade();
    /// assert_eq!(tx.weak_count(), 1);
    /// # drop(weak);
    /// ```
    pub fn weak_count(&self) -> usize {
        self.chan().weak_senders().load(Relaxed)
    }
}

impl<T> Clone for UnboundedSender<T> {
    fn clone(&self) -> Self {
        Self { tx: self.tx.clone() }
    }
}

impl<T> fmt::Debug for UnboundedSender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnboundedSender")
            .field("is_closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}

impl<T> WeakUnboundedSender<T> {
    /// Returns a sender, or `None` if all senders were dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::mpsc;
    ///
    /// let (tx, mut rx) = mpsc::unbounded_channel();
    /// let weak = tx.downgrade();
    /// weak.upgrade().unwrap().send(1).unwrap();
    /// assert_eq!(rx.try_recv(), Ok(1));
    /// drop(tx);
    /// assert!(weak.upgrade().is_none());
    /// ```
    pub fn upgrade(&self) -> Option<UnboundedSender<T>> {
        self.tx.upgrade().map(|tx| UnboundedSender { tx })
    }

    /// Returns the number of senders.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::mpsc;
    ///
    /// let (tx, _rx) = mpsc::unbounded_channel::<u32>();
    /// let weak = tx.downgrade();
    /// drop(tx);
    /// assert_eq!(weak.strong_count(), 0);
    /// ```
    pub fn strong_count(&self) -> usize {
        self.tx.chan().senders()
    }

    /// Returns the number of weak senders.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::mpsc;
    ///
    /// let (tx, _rx) = mpsc::unbounded_channel::<u32>();
    /// let weak = tx.downgrade();
    /// assert_eq!(weak.weak_count(), 1);
    /// ```
    pub fn weak_count(&self) -> usize {
        self.tx.chan().weak_senders().load(Relaxed)
    }
}

impl<T> Clone for WeakUnboundedSender<T> {
    fn clone(&self) -> Self {
        Self { tx: self.tx.clone() }
    }
}

impl<T> fmt::Debug for WeakUnboundedSender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeakUnboundedSender").finish_non_exhaustive()
    }
}
