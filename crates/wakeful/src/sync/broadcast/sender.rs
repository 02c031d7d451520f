//! The side that sends.

use super::error::SendError;
use super::ring::Put;
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

/// Sends values to all [`Receiver`]s. The channel is closed when the last sender
/// goes.
pub struct Sender<T> {
    shared: Arc<Shared<T>>,
}

/// A sender that does not keep the channel open.
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

/// What came of an attempt to send, to be dealt with after the lock.
enum Sent<T> {
    /// There is no receiver.
    Nobody(T),
    Done {
        receivers: usize,
        old: Option<T>,
        is_awaited: bool,
    },
    /// Somebody looks at the value that this one, at that position, overwrites.
    Busy(T, u64),
}

impl<T> Sender<T> {
    /// A channel without receivers; see [`channel`](super::channel) and
    /// [`subscribe`](Self::subscribe).
    ///
    /// # Panics
    ///
    /// If `capacity` is 0 or above `usize::MAX / 2`.
    #[track_caller]
    pub fn new(capacity: usize) -> Self {
        Self { shared: new_shared(capacity) }
    }

    /// Sends the value to all receivers there are; answers how many.
    ///
    /// They may still go away, or lag behind, before they have seen it. There is
    /// nothing to wait for, except that a receiver may be cloning the value that
    /// is overwritten.
    ///
    /// # Errors
    ///
    /// The value comes back if there is no receiver.
    #[inline]
    pub fn send(&self, value: T) -> Result<usize, SendError<T>> {
        let mut value = value;
        loop {
            match self.shared.send(value) {
                Sent::Done { receivers, old, is_awaited } => {
                    if is_awaited {
                        self.shared.call_receivers();
                    }
                    drop(old);
                    return Ok(receivers);
                }
                Sent::Nobody(value) => return Err(SendError(value)),
                Sent::Busy(back, position) => {
                    self.shared.ring.wait(position);
                    value = back;
                }
            }
        }
    }

    /// A new receiver, for values that are sent from now on.
    ///
    /// # Panics
    ///
    /// If there are more than a quarter of `usize::MAX`.
    #[track_caller]
    pub fn subscribe(&self) -> Receiver<T> {
        Receiver::new(self.shared.clone())
    }

    /// A sender that does not keep the channel open.
    #[must_use = "the sender itself stays as it is"]
    pub fn downgrade(&self) -> WeakSender<T> {
        self.shared.weak_senders.fetch_add(1, Relaxed);
        WeakSender { shared: self.shared.clone() }
    }

    /// How many values are there that some receiver has not seen. Counted as
    /// they were when they were sent, receivers that came later do not matter.
    pub fn len(&self) -> usize {
        self.shared.ring.len(self.shared.position())
    }

    /// Whether all receivers have seen everything.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many receivers there are.
    pub fn receiver_count(&self) -> usize {
        self.shared.receivers.get() as usize
    }

    /// Whether both are senders of one channel.
    pub fn same_channel(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Waits until there is no receiver.
    ///
    /// If somebody subscribes right after, this may or may not have noticed.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    #[track_caller]
    pub fn closed(&self) -> impl Future<Output = ()> {
        Closed { sender: self, site: Location::caller(), waiter: Waiter::new() }
    }

    /// How many senders there are.
    pub fn strong_count(&self) -> usize {
        self.shared.senders.load(Acquire)
    }

    /// How many weak senders there are.
    pub fn weak_count(&self) -> usize {
        self.shared.weak_senders.load(Acquire)
    }
}

impl<T> Shared<T> {
    #[inline]
    fn send(&self, value: T) -> Sent<T> {
        self.tail.with(|tail| {
            let receivers = self.receivers.get() as usize;
            if receivers == 0 {
                return Sent::Nobody(value);
            }
            match self.ring.put(tail.position, value, receivers) {
                Put::Done(old) => {
                    tail.position += 1;
                    Sent::Done { receivers, old, is_awaited: !tail.is_empty() }
                }
                Put::Busy(value) => Sent::Busy(value, tail.position),
            }
        })
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        // Relaxed: we are one, so it does not become zero meanwhile.
        self.shared.senders.fetch_add(1, Relaxed);
        Self { shared: self.shared.clone() }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        // AcqRel: the last one comes after whatever the others sent.
        if self.shared.senders.fetch_sub(1, AcqRel) == 1 {
            self.shared.tail.with(|tail| tail.is_closed = true);
            self.shared.call_receivers();
        }
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("broadcast::Sender")
    }
}

impl<T> WeakSender<T> {
    /// A sender, unless the last one has gone.
    #[must_use]
    pub fn upgrade(&self) -> Option<Sender<T>> {
        self.shared
            .senders
            .fetch_update(Relaxed, Acquire, |senders| (senders != 0).then_some(senders + 1))
            .ok()?;
        Some(Sender { shared: self.shared.clone() })
    }

    /// How many senders there are.
    pub fn strong_count(&self) -> usize {
        self.shared.senders.load(Acquire)
    }

    /// How many weak senders there are.
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
    /// The future of [`Sender::closed`].
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
            wait::record_secondary_wait(WaitKind::BroadcastClosed, shared, this.site);
            return Poll::Pending;
        }
        Poll::Ready(())
    }
}
