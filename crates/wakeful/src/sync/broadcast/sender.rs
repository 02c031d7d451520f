//! The sending end of a broadcast channel.

use super::error::SendError;
use super::ring::PutOutcome;
use super::{Receiver, Shared, new_shared};
use crate::sys::sync::Arc;
use crate::sys::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use crate::task::wait_kind::WaitKind;
use crate::wait;
use crate::wait::list::Waiter;
use crate::wait::wait_counter::Zero;
use std::fmt;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The sending end of a broadcast channel.
///
/// Clones send to the same [`Receiver`]s. The channel is closed when the last sender is dropped.
///
/// # Examples
///
/// ```
/// use wakeful::sync::broadcast;
///
/// let (tx, mut rx) = broadcast::channel(4);
/// let second = tx.clone();
/// tx.send(1).unwrap();
/// second.send(2).unwrap();
/// assert_eq!((rx.try_recv(), rx.try_recv()), (Ok(1), Ok(2)));
/// ```
pub struct Sender<T> {
    shared: Arc<Shared<T>>,
}

/// A sender that does not keep the channel open; created by [`Sender::downgrade`].
///
/// To send, [upgrade](Self::upgrade) it first.
///
/// # Examples
///
/// ```
/// use wakeful::sync::broadcast;
///
/// let (sender, _receiver) = broadcast::channel::<u32>(4);
/// let weak = sender.downgrade();
/// assert!(weak.upgrade().is_some());
/// drop(sender);
/// assert!(weak.upgrade().is_none());
/// ```
pub struct WeakSender<T> {
    shared: Arc<Shared<T>>,
}

/// The result of an attempt to send, which is handled after the lock is released.
enum SendOutcome<T> {
    /// There is no receiver.
    NoReceivers(T),
    Sent {
        receivers: usize,
        old: Option<T>,
        is_awaited: bool,
    },
    /// A receiver is cloning the message at this position, which the new one would overwrite.
    Busy(T, u64),
}

impl<T> Sender<T> {
    /// Creates a channel without receivers; [`subscribe`](Self::subscribe) creates them.
    ///
    /// # Panics
    ///
    /// Panics if `capacity` is 0 or more than `usize::MAX / 2`.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::broadcast;
    ///
    /// let tx = broadcast::Sender::new(4);
    /// assert!(tx.send(1).is_err(), "there is no receiver");
    /// let mut rx = tx.subscribe();
    /// tx.send(2).unwrap();
    /// assert_eq!(rx.try_recv(), Ok(2));
    /// ```
    #[track_caller]
    pub fn new(capacity: usize) -> Self {
        Self { shared: new_shared(capacity) }
    }

    /// Sends a message to all current receivers and returns their number.
    ///
    /// A receiver may still be dropped, or lag behind, before it receives the message. `send` does
    /// not wait for receivers, except while one clones the message that is to be overwritten.
    ///
    /// # Errors
    ///
    /// Returns the message in a [`SendError`] if there is no receiver.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::broadcast;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let (tx, mut rx) = broadcast::channel(4);
    /// assert_eq!(tx.send("hello").unwrap(), 1);
    /// assert_eq!(rx.recv().await, Ok("hello"));
    /// drop(rx);
    /// assert!(tx.send("no receiver").is_err());
    /// # }
    /// ```
    #[inline]
    pub fn send(&self, value: T) -> Result<usize, SendError<T>> {
        let mut value = value;
        loop {
            match self.shared.send(value) {
                SendOutcome::Sent { receivers, old, is_awaited } => {
                    if is_awaited {
                        self.shared.wake_receivers();
                    }
                    drop(old);
                    return Ok(receivers);
                }
                SendOutcome::NoReceivers(value) => return Err(SendError(value)),
                SendOutcome::Busy(back, position) => {
                    self.shared.ring.wait(position);
                    value = back;
                }
            }
        }
    }

    /// Creates a receiver of messages sent from now on.
    ///
    /// # Panics
    ///
    /// Panics if there are more than `usize::MAX / 4` receivers.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::broadcast;
    ///
    /// let (tx, mut first) = broadcast::channel(4);
    /// tx.send(1).unwrap();
    /// let mut second = tx.subscribe();
    /// tx.send(2).unwrap();
    /// assert_eq!(first.try_recv(), Ok(1));
    /// assert_eq!(second.try_recv(), Ok(2), "it subscribed after 1 was sent");
    /// ```
    #[track_caller]
    pub fn subscribe(&self) -> Receiver<T> {
        Receiver::new(self.shared.clone())
    }

    /// Creates a sender that does not keep the channel open.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::broadcast;
    ///
    /// let (tx, rx) = broadcast::channel::<u32>(4);
    /// let weak = tx.downgrade();
    /// drop(tx);
    /// assert!(rx.is_closed(), "a weak sender does not count");
    /// # drop(weak);
    /// ```
    #[must_use = "the sender itself stays as it is"]
    pub fn downgrade(&self) -> WeakSender<T> {
        self.shared.weak_senders.fetch_add(1, Relaxed);
        WeakSender { shared: self.shared.clone() }
    }

    /// Returns the number of messages that some receiver has not received.
    ///
    /// Only receivers that existed when a message was sent count.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::broadcast;
    ///
    /// let (tx, mut rx) = broadcast::channel(4);
    /// tx.send(1).unwrap();
    /// assert_eq!(tx.len(), 1);
    /// rx.try_recv().unwrap();
    /// assert!(tx.is_empty());
    /// ```
    pub fn len(&self) -> usize {
        self.shared.ring.len(self.shared.position())
    }

    /// Returns whether all receivers have received everything.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::broadcast;
    ///
    /// let (tx, _rx) = broadcast::channel(4);
    /// assert!(tx.is_empty());
    /// tx.send(1).unwrap();
    /// assert!(!tx.is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of receivers.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::broadcast;
    ///
    /// let (tx, rx) = broadcast::channel::<u32>(4);
    /// let second = tx.subscribe();
    /// assert_eq!(tx.receiver_count(), 2);
    /// # drop((rx, second));
    /// ```
    pub fn receiver_count(&self) -> usize {
        self.shared.receivers.get() as usize
    }

    /// Returns whether both senders belong to the same channel.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::broadcast;
    ///
    /// let (tx, _rx) = broadcast::channel::<u32>(4);
    /// let (other, _rx) = broadcast::channel::<u32>(4);
    /// assert!(tx.same_channel(&tx.clone()));
    /// assert!(!tx.same_channel(&other));
    /// ```
    pub fn same_channel(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Waits until there is no receiver.
    ///
    /// If a receiver subscribes right after the last one was dropped, this may or may not complete.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::broadcast;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let (tx, rx) = broadcast::channel::<u32>(4);
    /// wakeful::spawn(async move { drop(rx) });
    /// tx.closed().await;
    /// assert_eq!(tx.receiver_count(), 0);
    /// # }
    /// ```
    #[track_caller]
    pub fn closed(&self) -> impl Future<Output = ()> {
        Closed { sender: self, site: Location::caller(), waiter: Waiter::new() }
    }

    /// Returns the number of senders.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::broadcast;
    ///
    /// let (tx, _rx) = broadcast::channel::<u32>(4);
    /// let second = tx.clone();
    /// assert_eq!(tx.strong_count(), 2);
    /// # drop(second);
    /// ```
    pub fn strong_count(&self) -> usize {
        self.shared.senders.load(Acquire)
    }

    /// Returns the number of weak senders.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::broadcast;
    ///
    /// let (tx, _rx) = broadcast::channel::<u32>(4);
    /// let weak = tx.downgrade();
    /// assert_eq!(tx.weak_count(), 1);
    /// # drop(weak);
    /// ```
    pub fn weak_count(&self) -> usize {
        self.shared.weak_senders.load(Acquire)
    }
}

impl<T> Shared<T> {
    #[inline]
    fn send(&self, value: T) -> SendOutcome<T> {
        self.tail.with(|tail| {
            let receivers = self.receivers.get() as usize;
            if receivers == 0 {
                return SendOutcome::NoReceivers(value);
            }
            match self.ring.put(tail.position, value, receivers) {
                PutOutcome::Stored(old) => {
                    tail.position += 1;
                    SendOutcome::Sent { receivers, old, is_awaited: !tail.is_empty() }
                }
                PutOutcome::Busy(value) => SendOutcome::Busy(value, tail.position),
            }
        })
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        // Relaxed: the caller is a sender, so the count cannot become 0 in between.
        self.shared.senders.fetch_add(1, Relaxed);
        Self { shared: self.shared.clone() }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        // AcqRel: the last drop comes after everything that other senders sent.
        if self.shared.senders.fetch_sub(1, AcqRel) == 1 {
            self.shared.tail.with(|tail| tail.is_closed = true);
            self.shared.wake_receivers();
        }
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("broadcast::Sender")
    }
}

impl<T> WeakSender<T> {
    /// Returns a sender, or `None` if all senders were dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::broadcast;
    ///
    /// let (tx, mut rx) = broadcast::channel(4);
    /// let weak = tx.downgrade();
    /// weak.upgrade().unwrap().send(1).unwrap();
    /// assert_eq!(rx.try_recv(), Ok(1));
    /// drop(tx);
    /// assert!(weak.upgrade().is_none());
    /// ```
    #[must_use]
    pub fn upgrade(&self) -> Option<Sender<T>> {
        self.shared
            .senders
            .fetch_update(Relaxed, Acquire, |senders| (senders != 0).then_some(senders + 1))
            .ok()?;
        Some(Sender { shared: self.shared.clone() })
    }

    /// Returns the number of senders.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::broadcast;
    ///
    /// let (tx, _rx) = broadcast::channel::<u32>(4);
    /// let weak = tx.downgrade();
    /// assert_eq!(weak.strong_count(), 1);
    /// drop(tx);
    /// assert_eq!(weak.strong_count(), 0);
    /// ```
    pub fn strong_count(&self) -> usize {
        self.shared.senders.load(Acquire)
    }

    /// Returns the number of weak senders.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::broadcast;
    ///
    /// let (tx, _rx) = broadcast::channel::<u32>(4);
    /// let weak = tx.downgrade();
    /// let second = weak.clone();
    /// assert_eq!(weak.weak_count(), 2);
    /// # drop(second);
    /// ```
    pub fn weak_count(&self) -> usize {
        self.shared.weak_senders.load(Acquire)
    }
}

impl<T> Clone for WeakSender<T> {
    fn clone(&self) -> Self {
        self.shared.weak_senders.fetch_add(1, Relaxed);
        Self { shared: self.shared.clone() }
    }
}

impl<T> Drop for WeakSender<T> {
    fn drop(&mut self) {
        self.shared.weak_senders.fetch_sub(1, AcqRel);
    }
}

impl<T> fmt::Debug for WeakSender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("broadcast::WeakSender")
    }
}

pin_project_lite::pin_project! {
    /// Future returned by [`Sender::closed`].
    struct Closed<'a, T> {
        sender: &'a Sender<T>,
        site: &'static Location<'static>,
        #[pin]
        waiter: Waiter<Zero>,
    }

    impl<T> PinnedDrop for Closed<'_, T> {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            this.sender.shared.receivers.cancel(this.waiter.as_ref());
        }
    }
}

impl<T> Future for Closed<'_, T> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        let shared = &*this.sender.shared;
        if shared.receivers.poll(this.waiter.as_ref(), Zero, cx).is_pending() {
            wait::record_wait(WaitKind::BroadcastClosed, shared, this.site);
            return Poll::Pending;
        }
        Poll::Ready(())
    }
}
