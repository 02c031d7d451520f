//! A sender of a bounded channel that does not keep it open.

use super::Sender;
use crate::sync::mpsc::tx::WeakTx;
use crate::sys::sync::atomic::Ordering::*;
use std::fmt;

/// A sender that does not keep the channel open; created by [`Sender::downgrade`].
///
/// To send, [upgrade](WeakSender::upgrade) it first.
///
/// # Examples
///
/// ```
/// use wakeful::sync::mpsc;
///
/// let (tx, mut rx) = mpsc::channel(1);
/// let weak = tx.downgrade();
/// weak.upgrade().unwrap().try_send(1).unwrap();
/// drop(tx);
/// assert_eq!(rx.blocking_recv(), Some(1));
/// assert_eq!(rx.blocking_recv(), None, "the weak sender does not keep the channel open");
/// ```
pub struct WeakSender<T> {
    tx: WeakTx<T>,
}

impl<T> WeakSender<T> {
    pub(super) fn new(tx: WeakTx<T>) -> Self {
        Self { tx }
    }

    /// Returns a sender, or `None` if all senders were dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::mpsc;
    ///
    /// let (tx, mut rx) = mpsc::channel(1);
    /// let weak = tx.downgrade();
    /// weak.upgrade().unwrap().try_send(1).unwrap();
    /// assert_eq!(rx.try_recv(), Ok(1));
    /// # drop(tx);
    /// ```
    pub fn upgrade(&self) -> Option<Sender<T>> {
        self.tx.upgrade().map(Sender::new)
    }

    /// Returns the number of senders and owned permits.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::mpsc;
    ///
    /// let (tx, _rx) = mpsc::channel::<u32>(1);
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
    /// let (tx, _rx) = mpsc::channel::<u32>(1);
    /// let weak = tx.downgrade();
    /// assert_eq!(weak.weak_count(), 1);
    /// ```
    pub fn weak_count(&self) -> usize {
        self.tx.chan().weak_senders().load(Relaxed)
    }
}

impl<T> Clone for WeakSender<T> {
    fn clone(&self) -> Self {
        Self { tx: self.tx.clone() }
    }
}

impl<T> fmt::Debug for WeakSender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeakSender").finish_non_exhaustive()
    }
}
