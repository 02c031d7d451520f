//! The sending end of a bounded channel.

use super::WeakSender;
use crate::sync::mpsc::capacity::ReserveError;
use crate::sync::mpsc::chan::Chan;
use crate::sync::mpsc::error::{SendError, TrySendError};
use crate::sync::mpsc::futures::{ClosedFuture, Reserve, ReserveMany, ReserveOwned, SendFuture};
use crate::sync::mpsc::permit::{OwnedPermit, Permit, PermitIterator};
use crate::sync::mpsc::tail::CLOSED;
use crate::sync::mpsc::tx::Tx;
use crate::sys::sync::atomic::Ordering::*;
use crate::wait::block_on;
use std::fmt;
use std::panic::Location;

/// The sending end of a bounded channel.
///
/// Clones send to the same [`Receiver`](super::Receiver). The channel is disconnected when the last
/// sender is dropped.
///
/// # Examples
///
/// ```
/// use wakeful::sync::mpsc;
///
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() {
/// let (tx, mut rx) = mpsc::channel(4);
/// for number in 0..2 {
///     let tx = tx.clone();
///     wakeful::spawn(async move { tx.send(number).await });
/// }
/// drop(tx);
/// let mut sum = 0;
/// while let Some(number) = rx.recv().await {
///     sum += number;
/// }
/// assert_eq!(sum, 1);
/// # }
/// ```
pub struct Sender<T> {
    tx: Tx<T>,
}

impl<T> Sender<T> {
    pub(super) fn new(tx: Tx<T>) -> Self {
        Self { tx }
    }

    #[inline]
    pub(in crate::sync::mpsc) fn chan(&self) -> &Chan<T> {
        self.tx.chan()
    }

    /// Sends a message, waiting while the channel is full.
    ///
    /// `Ok` does not mean that the message is received: the receiver may be dropped first.
    ///
    /// Waiting senders get free slots in the order in which they began to wait, and no sender
    /// overtakes them.
    ///
    /// # Errors
    ///
    /// Returns the message in a [`SendError`] if the receiver was closed or dropped.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before it completes, the message was not sent and is dropped with
    /// it. The sender loses its place in the queue. To keep the message, use
    /// [`reserve`](Self::reserve) first.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::mpsc;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let (tx, mut rx) = mpsc::channel(1);
    /// wakeful::spawn(async move {
    ///     tx.send("first").await.unwrap();
    ///     tx.send("second").await.unwrap(); // waits for the receiver
    /// });
    /// assert_eq!(rx.recv().await, Some("first"));
    /// assert_eq!(rx.recv().await, Some("second"));
    /// assert_eq!(rx.recv().await, None);
    /// # }
    /// ```
    #[inline]
    #[track_caller]
    pub fn send(&self, value: T) -> impl Future<Output = Result<(), SendError<T>>> {
        SendFuture::new(self.chan(), value, Location::caller())
    }

    /// Waits until the receiver is closed or dropped.
    ///
    /// Use this to stop work whose result is no longer needed.
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
    /// let (tx, rx) = mpsc::channel::<u32>(1);
    /// wakeful::spawn(async move { drop(rx) });
    /// tx.closed().await;
    /// assert!(tx.is_closed());
    /// # }
    /// ```
    #[track_caller]
    pub fn closed(&self) -> impl Future<Output = ()> {
        ClosedFuture::new(self.chan(), Location::caller())
    }

    /// Sends a message if the channel has free capacity now.
    ///
    /// Does not overtake waiting senders.
    ///
    /// # Errors
    ///
    /// Returns the message in a [`TrySendError`] if the channel is full, or if the receiver was
    /// closed or dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::mpsc::{self, error::TrySendError};
    ///
    /// let (tx, rx) = mpsc::channel(1);
    /// assert_eq!(tx.try_send(1), Ok(()));
    /// assert_eq!(tx.try_send(2), Err(TrySendError::Full(2)));
    /// drop(rx);
    /// assert_eq!(tx.try_send(3), Err(TrySendError::Closed(3)));
    /// ```
    #[inline]
    pub fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
        self.chan().try_send(message)
    }

    /// Sends a message, blocking the calling thread while the channel is full.
    ///
    /// This is for code outside of tasks, for example a plain thread.
    ///
    /// # Errors
    ///
    /// Returns the message in a [`SendError`] if the receiver was closed or dropped.
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
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let (tx, mut rx) = mpsc::channel(1);
    /// let thread = std::thread::spawn(move || tx.blocking_send("from a thread").unwrap());
    /// assert_eq!(rx.recv().await, Some("from a thread"));
    /// # thread.join().unwrap();
    /// # }
    /// ```
    #[track_caller]
    pub fn blocking_send(&self, value: T) -> Result<(), SendError<T>> {
        block_on::block_on(self.send(value))
    }

    /// Returns whether the receiver was closed or dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::mpsc;
    ///
    /// let (tx, rx) = mpsc::channel::<u32>(1);
    /// assert!(!tx.is_closed());
    /// drop(rx);
    /// assert!(tx.is_closed());
    /// ```
    pub fn is_closed(&self) -> bool {
        self.chan().load_tail().has(CLOSED)
    }

    /// Reserves capacity for one message, waiting while the channel is full.
    ///
    /// The returned [`Permit`] sends the message without waiting. Waiting senders get free slots in
    /// the order in which they began to wait (FIFO).
    ///
    /// # Errors
    ///
    /// Returns [`SendError`] if the receiver was closed or dropped.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe. If the future is dropped before it completes, the sender loses
    /// only its place in the queue.
    ///
    /// # Examples
    ///
    /// A message is created only once there is capacity for it:
    ///
    /// ```
    /// use wakeful::sync::mpsc;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let (tx, mut rx) = mpsc::channel(1);
    /// let permit = tx.reserve().await.unwrap();
    /// permit.send(String::from("computed late"));
    /// assert_eq!(rx.recv().await.unwrap(), "computed late");
    /// # }
    /// ```
    #[inline]
    #[track_caller]
    pub fn reserve(&self) -> impl Future<Output = Result<Permit<'_, T>, SendError<()>>> {
        Reserve::new(self.chan(), Location::caller())
    }

    /// Reserves capacity for `n` messages, waiting until there is enough.
    ///
    /// Slots that become free in the meantime are kept for this sender until it has all of them.
    ///
    /// # Errors
    ///
    /// Returns [`SendError`] if the receiver was closed or dropped, or if `n` is more than the
    /// [`max_capacity`](Self::max_capacity).
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe. If the future is dropped before it completes, the sender loses
    /// its place in the queue. The slots that were kept for it go to the next waiter.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::mpsc;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let (tx, mut rx) = mpsc::channel(2);
    /// for (number, permit) in tx.reserve_many(2).await.unwrap().enumerate() {
    ///     permit.send(number);
    /// }
    /// assert_eq!(rx.recv().await, Some(0));
    /// assert_eq!(rx.recv().await, Some(1));
    /// # }
    /// ```
    #[track_caller]
    pub fn reserve_many(
        &self,
        n: usize,
    ) -> impl Future<Output = Result<PermitIterator<'_, T>, SendError<()>>> {
        ReserveMany::new(self.chan(), n, Location::caller())
    }

    /// Reserves capacity for one message; the permit owns the sender.
    ///
    /// Waits like [`reserve`](Self::reserve). The permit borrows nothing. Clone the sender first if
    /// you need it afterwards.
    ///
    /// # Errors
    ///
    /// Returns [`SendError`] if the receiver was closed or dropped.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before it completes, the sender is dropped with it.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::mpsc;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let (tx, mut rx) = mpsc::channel(1);
    /// let permit = tx.clone().reserve_owned().await.unwrap();
    /// wakeful::spawn(async move { permit.send("from a task") });
    /// assert_eq!(rx.recv().await, Some("from a task"));
    /// # }
    /// ```
    #[track_caller]
    pub fn reserve_owned(self) -> impl Future<Output = Result<OwnedPermit<T>, SendError<()>>> {
        ReserveOwned::new(self, Location::caller())
    }

    /// Reserves capacity for one message if some is available now.
    ///
    /// Does not overtake waiting senders.
    ///
    /// # Errors
    ///
    /// Returns [`TrySendError`] if the channel is full, or if the receiver was closed or dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::mpsc;
    ///
    /// let (tx, mut rx) = mpsc::channel(1);
    /// let permit = tx.try_reserve().unwrap();
    /// assert!(tx.try_reserve().is_err());
    /// permit.send(1);
    /// assert_eq!(rx.try_recv(), Ok(1));
    /// ```
    pub fn try_reserve(&self) -> Result<Permit<'_, T>, TrySendError<()>> {
        self.chan().try_reserve_slots(1).map_err(|error| try_send_error(error, ()))?;
        Ok(Permit::new(self.chan()))
    }

    /// Reserves capacity for `n` messages if enough is available now.
    ///
    /// Does not overtake waiting senders.
    ///
    /// # Errors
    ///
    /// Returns [`TrySendError`] if there is not enough capacity, or if the receiver was closed or
    /// dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::mpsc;
    ///
    /// let (tx, _rx) = mpsc::channel::<u32>(2);
    /// assert_eq!(tx.try_reserve_many(2).unwrap().len(), 2);
    /// assert!(tx.try_reserve_many(3).is_err());
    /// ```
    pub fn try_reserve_many(&self, n: usize) -> Result<PermitIterator<'_, T>, TrySendError<()>> {
        if n > self.max_capacity() {
            return Err(TrySendError::Full(()));
        }
        self.chan().try_reserve_slots(n as u64).map_err(|error| try_send_error(error, ()))?;
        Ok(PermitIterator::new(self.chan(), n))
    }

    /// Reserves capacity for one message if some is available now; the permit owns the sender.
    ///
    /// # Errors
    ///
    /// Returns the sender in a [`TrySendError`] if the channel is full, or if the receiver was
    /// closed or dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::mpsc;
    ///
    /// let (tx, mut rx) = mpsc::channel(1);
    /// let tx = tx.try_reserve_owned().unwrap().send(1);
    /// assert_eq!(rx.try_recv(), Ok(1));
    /// # drop(tx);
    /// ```
    pub fn try_reserve_owned(self) -> Result<OwnedPermit<T>, TrySendError<Self>> {
        match self.chan().try_reserve_slots(1) {
            Ok(()) => Ok(OwnedPermit::new(self)),
            Err(error) => Err(try_send_error(error, self)),
        }
    }

    /// Returns whether two senders send to the same receiver.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::mpsc;
    ///
    /// let (tx, _rx) = mpsc::channel::<u32>(1);
    /// let (other, _rx) = mpsc::channel::<u32>(1);
    /// assert!(tx.same_channel(&tx.clone()));
    /// assert!(!tx.same_channel(&other));
    /// ```
    pub fn same_channel(&self, other: &Self) -> bool {
        self.tx.same_channel(&other.tx)
    }

    /// Returns the number of messages that can be sent now without waiting.
    ///
    /// A slot held by a permit is not free.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::mpsc;
    ///
    /// let (tx, _rx) = mpsc::channel(5);
    /// tx.try_send(1).unwrap();
    /// let permit = tx.try_reserve().unwrap();
    /// assert_eq!((tx.capacity(), tx.max_capacity()), (3, 5));
    /// # drop(permit);
    /// ```
    pub fn capacity(&self) -> usize {
        self.chan().capacity() as usize
    }

    /// Creates a sender that does not keep the channel open.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::mpsc;
    ///
    /// let (tx, _rx) = mpsc::channel::<u32>(1);
    /// let weak = tx.downgrade();
    /// assert!(weak.upgrade().is_some());
    /// drop(tx);
    /// assert!(weak.upgrade().is_none());
    /// ```
    #[must_use = "the sender itself stays as it is"]
    pub fn downgrade(&self) -> WeakSender<T> {
        WeakSender::new(self.tx.downgrade())
    }

    /// Returns the capacity that was passed to [`channel`](super::channel).
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::mpsc;
    ///
    /// let (tx, _rx) = mpsc::channel(5);
    /// tx.try_send(1).unwrap();
    /// assert_eq!(tx.max_capacity(), 5, "it does not depend on the messages");
    /// ```
    pub fn max_capacity(&self) -> usize {
        self.chan().limit as usize
    }

    /// Returns the number of senders and owned permits.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::mpsc;
    ///
    /// let (tx, _rx) = mpsc::channel::<u32>(1);
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
    /// let (tx, _rx) = mpsc::channel::<u32>(1);
    /// let weak = tx.downgrade();
    /// assert_eq!(tx.weak_count(), 1);
    /// # drop(weak);
    /// ```
    pub fn weak_count(&self) -> usize {
        self.chan().weak_senders().load(Relaxed)
    }
}

fn try_send_error<V>(error: ReserveError, value: V) -> TrySendError<V> {
    match error {
        ReserveError::Full => TrySendError::Full(value),
        ReserveError::Closed => TrySendError::Closed(value),
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self { tx: self.tx.clone() }
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender")
            .field("capacity", &self.capacity())
            .field("max_capacity", &self.max_capacity())
            .field("is_closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}
