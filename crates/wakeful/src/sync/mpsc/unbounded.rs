//! The unbounded channel: its two ends.

use super::chan::{Chan, UNBOUNDED};
use super::error::{SendError, TryRecvError};
use super::futures::{ClosedFuture, RecvFuture};
use super::rx::Rx;
use super::tail::CLOSED;
use super::tx::{Tx, WeakTx};
use crate::sys::sync::atomic::Ordering::*;
use crate::wait::block_on;
use std::fmt;
use std::panic::Location;
use std::task::{Context, Poll};

/// Makes a channel without a limit: sending never waits, and a receiver that is
/// too slow lets the messages pile up in memory.
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() {
/// let (tx, mut rx) = wakeful::sync::mpsc::unbounded_channel();
/// tx.send("hello").unwrap();
/// drop(tx);
/// assert_eq!(rx.recv().await, Some("hello"));
/// assert_eq!(rx.recv().await, None);
/// # }
/// ```
pub fn unbounded_channel<T>() -> (UnboundedSender<T>, UnboundedReceiver<T>) {
    let (chan, reader) = Chan::new(UNBOUNDED);
    (
        UnboundedSender { tx: Tx::first(chan.clone()) },
        UnboundedReceiver { rx: Rx::new(chan, reader) },
    )
}

/// Sends messages to the [`UnboundedReceiver`]. Clones send to the same one; the
/// channel ends when the last of them is dropped.
pub struct UnboundedSender<T> {
    tx: Tx<T>,
}

/// A sender that does not keep the channel open: it has to be
/// [upgraded](WeakUnboundedSender::upgrade) to send.
pub struct WeakUnboundedSender<T> {
    tx: WeakTx<T>,
}

/// Receives what the [`UnboundedSender`]s send, in order. Dropping it closes the
/// channel and drops the messages in it.
pub struct UnboundedReceiver<T> {
    rx: Rx<T>,
}

impl<T> UnboundedSender<T> {
    fn chan(&self) -> &Chan<T> {
        self.tx.chan()
    }

    /// Sends a message, at once and from anywhere.
    ///
    /// That it was sent does not mean that it will be received: the receiver may
    /// be dropped. What was done before is seen by who receives it.
    ///
    /// # Errors
    ///
    /// If the receiver was closed or dropped; the message comes back.
    #[inline]
    pub fn send(&self, message: T) -> Result<(), SendError<T>> {
        self.chan().send_unbounded(message)
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

    /// Whether the receiver was closed or dropped.
    pub fn is_closed(&self) -> bool {
        self.chan().load_tail().has(CLOSED)
    }

    /// Whether two senders send to the same receiver.
    pub fn same_channel(&self, other: &Self) -> bool {
        self.tx.same_channel(&other.tx)
    }

    /// A sender that does not keep the channel open.
    #[must_use = "the sender itself stays as it is"]
    pub fn downgrade(&self) -> WeakUnboundedSender<T> {
        WeakUnboundedSender { tx: self.tx.downgrade() }
    }

    /// How many senders there are.
    pub fn strong_count(&self) -> usize {
        self.chan().senders()
    }

    /// How many weak senders there are.
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
    /// A sender, unless all of them are gone.
    pub fn upgrade(&self) -> Option<UnboundedSender<T>> {
        self.tx.upgrade().map(|tx| UnboundedSender { tx })
    }

    /// How many senders there are.
    pub fn strong_count(&self) -> usize {
        self.tx.chan().senders()
    }

    /// How many weak senders there are.
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

impl<T> UnboundedReceiver<T> {
    /// Receives the next message, waiting for it if there is none. `None` says
    /// that no more will come: the senders are gone, or the channel was
    /// [closed](Self::close).
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

    /// Closes the channel: nothing can be sent any more. What is in it can still
    /// be received.
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

    /// How many senders there are.
    pub fn sender_strong_count(&self) -> usize {
        self.rx.chan().senders()
    }

    /// How many weak senders there are.
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
