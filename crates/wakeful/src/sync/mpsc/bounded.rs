//! The bounded channel: its two ends.

use super::capacity::ReserveError;
use super::chan::Chan;
use super::error::{SendError, TryRecvError, TrySendError};
use super::futures::{ClosedFuture, RecvFuture, Reserve, ReserveMany, ReserveOwned, SendFuture};
use super::permit::{OwnedPermit, Permit, PermitIterator};
use super::rx::Rx;
use super::tail::CLOSED;
use super::tx::{Tx, WeakTx};
use crate::sync::Semaphore;
use crate::sys::sync::atomic::Ordering::*;
use crate::wait::block_on;
use std::fmt;
use std::panic::Location;
use std::task::{Context, Poll};

/// The largest capacity.
const MAX_CAPACITY: usize = Semaphore::MAX_PERMITS;

/// Makes a channel that holds up to `buffer` messages: whoever sends more waits
/// until the receiver has taken some.
///
/// Memory is taken as messages come in, not for `buffer` of them at once.
///
/// # Panics
///
/// If `buffer` is 0, or more than [`Semaphore::MAX_PERMITS`].
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() {
/// use wakeful::sync::mpsc;
///
/// let (tx, mut rx) = mpsc::channel(2);
/// wakeful::spawn(async move {
///     for number in 0..5 {
///         tx.send(number).await.unwrap();
///     }
/// });
/// let mut sum = 0;
/// while let Some(number) = rx.recv().await {
///     sum += number;
/// }
/// assert_eq!(sum, 10);
/// # }
/// ```
#[track_caller]
pub fn channel<T>(buffer: usize) -> (Sender<T>, Receiver<T>) {
    assert!(buffer > 0, "mpsc bounded channel requires buffer > 0");
    assert!(
        buffer <= MAX_CAPACITY,
        "a semaphore may not have more than MAX_PERMITS permits ({MAX_CAPACITY})"
    );
    let (chan, reader) = Chan::new(buffer as u64);
    (Sender { tx: Tx::first(chan.clone()) }, Receiver { rx: Rx::new(chan, reader) })
}

/// Sends messages to the [`Receiver`]. Clones send to the same one; the channel
/// ends when the last of them is dropped.
pub struct Sender<T> {
    tx: Tx<T>,
}

/// A sender that does not keep the channel open: it has to be
/// [upgraded](WeakSender::upgrade) to send.
pub struct WeakSender<T> {
    tx: WeakTx<T>,
}

/// Receives what the [`Sender`]s send, in order. Dropping it closes the channel
/// and drops the messages in it.
pub struct Receiver<T> {
    rx: Rx<T>,
}

impl<T> Sender<T> {
    #[inline]
    pub(super) fn chan(&self) -> &Chan<T> {
        self.tx.chan()
    }

    /// Sends a message, waiting for room if there is none.
    ///
    /// That it was sent does not mean that it will be received: the receiver may
    /// be dropped.
    ///
    /// Senders that wait are served in the order in which they came, and nobody
    /// overtakes them. What was done before a message was sent is seen by who
    /// receives it.
    ///
    /// # Errors
    ///
    /// If the receiver was closed or dropped; the message comes back.
    ///
    /// # Cancel safety
    ///
    /// Dropped before it is ready, the message was not sent and is dropped with
    /// it, and the place in the queue is lost. To keep the message,
    /// [`reserve`](Self::reserve) room first.
    #[inline]
    #[track_caller]
    pub fn send(&self, value: T) -> impl Future<Output = Result<(), SendError<T>>> {
        SendFuture::new(self.chan(), value, Location::caller())
    }

    /// Waits until the receiver was closed or dropped.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: once the channel is closed it stays so.
    #[track_caller]
    pub fn closed(&self) -> impl Future<Output = ()> {
        ClosedFuture::new(self.chan(), Location::caller())
    }

    /// Sends a message if there is room now and no other sender waits for it.
    ///
    /// # Errors
    ///
    /// If there is no room, or the receiver was closed or dropped; the message
    /// comes back.
    #[inline]
    pub fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
        self.chan().try_send(message)
    }

    /// As [`send`](Self::send), for threads that run no tasks: it blocks the
    /// thread while there is no room.
    ///
    /// # Errors
    ///
    /// If the receiver was closed or dropped; the message comes back.
    ///
    /// # Panics
    ///
    /// On a thread that runs tasks.
    #[track_caller]
    pub fn blocking_send(&self, value: T) -> Result<(), SendError<T>> {
        block_on::block_on(self.send(value))
    }

    /// Whether the receiver was closed or dropped.
    pub fn is_closed(&self) -> bool {
        self.chan().load_tail().has(CLOSED)
    }

    /// Waits for room for one message: the [`Permit`] then sends it without
    /// waiting.
    ///
    /// Fair as [`send`](Self::send).
    ///
    /// # Errors
    ///
    /// If the receiver was closed or dropped.
    ///
    /// # Cancel safety
    ///
    /// Dropped before it is ready, the place in the queue is lost, and nothing
    /// else.
    #[inline]
    #[track_caller]
    pub fn reserve(&self) -> impl Future<Output = Result<Permit<'_, T>, SendError<()>>> {
        Reserve::new(self.chan(), Location::caller())
    }

    /// Waits for room for `n` messages.
    ///
    /// Fair as [`send`](Self::send). What is freed while it waits is kept for it
    /// until it has all.
    ///
    /// # Errors
    ///
    /// If the receiver was closed or dropped, or if `n` is more than the
    /// [`max_capacity`](Self::max_capacity).
    ///
    /// # Cancel safety
    ///
    /// Dropped before it is ready, the place in the queue is lost, and what was
    /// kept for it goes to the next.
    #[track_caller]
    pub fn reserve_many(
        &self,
        n: usize,
    ) -> impl Future<Output = Result<PermitIterator<'_, T>, SendError<()>>> {
        ReserveMany::new(self.chan(), n, Location::caller())
    }

    /// As [`reserve`](Self::reserve), with a permit that owns the sender and so
    /// can be kept anywhere. Clone the sender first to go on using it.
    ///
    /// # Errors
    ///
    /// If the receiver was closed or dropped.
    ///
    /// # Cancel safety
    ///
    /// Dropped before it is ready, the sender is dropped with it.
    #[track_caller]
    pub fn reserve_owned(self) -> impl Future<Output = Result<OwnedPermit<T>, SendError<()>>> {
        ReserveOwned::new(self, Location::caller())
    }

    /// Room for one message, if there is some now and no other sender waits for
    /// it.
    ///
    /// # Errors
    ///
    /// If there is no room, or the receiver was closed or dropped.
    pub fn try_reserve(&self) -> Result<Permit<'_, T>, TrySendError<()>> {
        self.chan().try_reserve_slots(1).map_err(|error| try_send_error(error, ()))?;
        Ok(Permit::new(self.chan()))
    }

    /// Room for `n` messages, if there is so much now and no other sender waits
    /// for it.
    ///
    /// # Errors
    ///
    /// If there is not so much room, or the receiver was closed or dropped.
    pub fn try_reserve_many(&self, n: usize) -> Result<PermitIterator<'_, T>, TrySendError<()>> {
        if n > self.max_capacity() {
            return Err(TrySendError::Full(()));
        }
        self.chan().try_reserve_slots(n as u64).map_err(|error| try_send_error(error, ()))?;
        Ok(PermitIterator::new(self.chan(), n))
    }

    /// As [`try_reserve`](Self::try_reserve), with a permit that owns the sender.
    ///
    /// # Errors
    ///
    /// If there is no room, or the receiver was closed or dropped; the sender
    /// comes back.
    pub fn try_reserve_owned(self) -> Result<OwnedPermit<T>, TrySendError<Self>> {
        match self.chan().try_reserve_slots(1) {
            Ok(()) => Ok(OwnedPermit::new(self)),
            Err(error) => Err(try_send_error(error, self)),
        }
    }

    /// Whether two senders send to the same receiver.
    pub fn same_channel(&self, other: &Self) -> bool {
        self.tx.same_channel(&other.tx)
    }

    /// How many messages could be sent now without waiting: a permit counts as a
    /// message.
    pub fn capacity(&self) -> usize {
        self.chan().capacity() as usize
    }

    /// A sender that does not keep the channel open.
    #[must_use = "the sender itself stays as it is"]
    pub fn downgrade(&self) -> WeakSender<T> {
        WeakSender { tx: self.tx.downgrade() }
    }

    /// How many messages the channel can hold, as granted to [`channel`].
    pub fn max_capacity(&self) -> usize {
        self.chan().limit as usize
    }

    /// How many senders and owned permits there are.
    pub fn strong_count(&self) -> usize {
        self.chan().senders()
    }

    /// How many weak senders there are.
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

impl<T> WeakSender<T> {
    /// A sender, unless all of them are gone.
    pub fn upgrade(&self) -> Option<Sender<T>> {
        self.tx.upgrade().map(|tx| Sender { tx })
    }

    /// How many senders and owned permits there are.
    pub fn strong_count(&self) -> usize {
        self.tx.chan().senders()
    }

    /// How many weak senders there are.
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

impl<T> Receiver<T> {
    /// Receives the next message, waiting for it if there is none. `None` says
    /// that no more will come: the senders are gone, or the channel was
    /// [closed](Self::close) and all permits are used or dropped.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropped before it is ready, no message was taken. The receiver keeps
    /// the waker of the last poll: see [wakers](crate::sync#wakers).
    #[inline]
    #[track_caller]
    pub fn recv(&mut self) -> impl Future<Output = Option<T>> {
        RecvFuture::new(&mut self.rx, |rx, cx, site| rx.poll_recv(cx, site), Location::caller())
    }

    /// Receives up to `limit` messages, those that are there, and appends them to
    /// `buffer`; waits if there is none. Gives back how many: 0 only if no more
    /// will come, or if `limit` is 0.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropped before it is ready, no message was taken. The receiver keeps
    /// the waker of the last poll: see [wakers](crate::sync#wakers).
    #[track_caller]
    pub fn recv_many(&mut self, buffer: &mut Vec<T>, limit: usize) -> impl Future<Output = usize> {
        RecvFuture::new(
            &mut self.rx,
            move |rx, cx, site| rx.poll_recv_many(cx, buffer, limit, site),
            Location::caller(),
        )
    }

    /// Receives the next message if it is there. A message that is being sent on
    /// another thread at this moment counts as there.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
        self.rx.try_recv()
    }

    /// As [`recv`](Self::recv), for threads that run no tasks: it blocks the
    /// thread while there is no message.
    ///
    /// # Panics
    ///
    /// On a thread that runs tasks.
    #[track_caller]
    pub fn blocking_recv(&mut self) -> Option<T> {
        block_on::block_on(self.recv())
    }

    /// As [`recv_many`](Self::recv_many), for threads that run no tasks.
    ///
    /// # Panics
    ///
    /// On a thread that runs tasks.
    #[track_caller]
    pub fn blocking_recv_many(&mut self, buffer: &mut Vec<T>, limit: usize) -> usize {
        block_on::block_on(self.recv_many(buffer, limit))
    }

    /// Closes the channel: nothing can be sent any more, apart from what
    /// [`Permit`]s were granted for. What is in it can still be received.
    pub fn close(&mut self) {
        self.rx.chan().close();
    }

    /// Whether the channel was closed, or all senders are gone. Messages may
    /// still be in it.
    pub fn is_closed(&self) -> bool {
        self.rx.is_closed()
    }

    /// Whether there is no message.
    pub fn is_empty(&self) -> bool {
        self.rx.len() == 0
    }

    /// How many messages there are.
    pub fn len(&self) -> usize {
        self.rx.len()
    }

    /// How many messages could be sent now without waiting: a permit counts as a
    /// message.
    pub fn capacity(&self) -> usize {
        self.rx.chan().capacity() as usize
    }

    /// How many messages the channel can hold, as granted to [`channel`].
    pub fn max_capacity(&self) -> usize {
        self.rx.chan().limit as usize
    }

    /// As [`recv`](Self::recv), for futures written by hand. When it is pending,
    /// the task of the last call is woken when there is a message, or the end.
    #[track_caller]
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        self.rx.poll_recv(cx, Location::caller())
    }

    /// As [`recv_many`](Self::recv_many), for futures written by hand.
    #[track_caller]
    pub fn poll_recv_many(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut Vec<T>,
        limit: usize,
    ) -> Poll<usize> {
        self.rx.poll_recv_many(cx, buffer, limit, Location::caller())
    }

    /// How many senders and owned permits there are.
    pub fn sender_strong_count(&self) -> usize {
        self.rx.chan().senders()
    }

    /// How many weak senders there are.
    pub fn sender_weak_count(&self) -> usize {
        self.rx.chan().weak_senders().load(Relaxed)
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver")
            .field("len", &self.len())
            .field("max_capacity", &self.max_capacity())
            .field("is_closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}

impl<T> Unpin for Receiver<T> {}
