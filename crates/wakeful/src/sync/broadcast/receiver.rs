//! The receiving end of a broadcast channel.

use super::error::{RecvError, TryRecvError};
use super::{MAX_RECEIVERS, Shared, Tail};
use crate::sys::sync::Arc;
use crate::sys::sync::atomic::Ordering::Acquire;
use crate::task::coop;
use crate::task::futile::{self, FutileKind};
use crate::task::wait_kind::WaitKind;
use crate::wait::list::{Waiter, WaiterState};
use crate::wait::wait_counter::CounterChange;
use crate::wait::{self, block_on};
use std::fmt;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// The receiving end of a broadcast channel; gets a clone of every message sent while it exists.
///
/// Created by [`channel`](super::channel) and [`Sender::subscribe`](super::Sender::subscribe).
///
/// # Examples
///
/// ```
/// use wakeful::sync::broadcast;
///
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() {
/// let (tx, mut rx) = broadcast::channel(4);
/// let receiver = wakeful::spawn(async move {
///     let mut sum = 0;
///     while let Ok(number) = rx.recv().await {
///         sum += number;
///     }
///     sum
/// });
/// for number in 1..=3 {
///     tx.send(number).unwrap();
/// }
/// drop(tx);
/// assert_eq!(receiver.await.unwrap(), 6);
/// # }
/// ```
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
    /// The next position to receive.
    next: u64,
}

/// Why there is no message at a receiver's position.
enum Unavailable {
    /// The message was sent in the meantime: check again.
    Retry,
    Empty,
    Closed,
    /// This number of messages was overwritten.
    Lagged(u64),
}

impl Tail {
    fn unavailable_reason(&self, next: u64, capacity: u64) -> Unavailable {
        match self.position - next {
            0 if self.is_closed => Unavailable::Closed,
            0 => Unavailable::Empty,
            behind if behind > capacity => Unavailable::Lagged(behind - capacity),
            _ => Unavailable::Retry,
        }
    }
}

impl<T> Receiver<T> {
    #[track_caller]
    pub(super) fn new(shared: Arc<Shared<T>>) -> Self {
        assert!(shared.receivers.get() < MAX_RECEIVERS, "max receivers");
        let next = shared.tail.with(|tail| {
            // No task waits for the count to grow.
            let _ = shared.receivers.add(1);
            tail.position
        });
        Self { shared, next }
    }

    /// Returns the number of messages that were sent and not yet received.
    ///
    /// Overwritten messages count. If the number is more than the capacity (rounded up to a power
    /// of two), the next [`recv`](Self::recv) returns [`RecvError::Lagged`].
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::broadcast;
    ///
    /// let (tx, rx) = broadcast::channel(4);
    /// tx.send(1).unwrap();
    /// assert_eq!(rx.len(), 1);
    /// ```
    pub fn len(&self) -> usize {
        (self.shared.position() - self.next) as usize
    }

    /// Returns whether this receiver has received every message sent so far.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::broadcast;
    ///
    /// let (tx, rx) = broadcast::channel(4);
    /// assert!(rx.is_empty());
    /// tx.send(1).unwrap();
    /// assert!(!rx.is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether both receivers belong to the same channel.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::broadcast;
    ///
    /// let (_tx, rx) = broadcast::channel::<u32>(4);
    /// let (_tx, other) = broadcast::channel::<u32>(4);
    /// assert!(rx.same_channel(&rx.resubscribe()));
    /// assert!(!rx.same_channel(&other));
    /// ```
    pub fn same_channel(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Returns the number of senders.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::broadcast;
    ///
    /// let (tx, rx) = broadcast::channel::<u32>(4);
    /// let second = tx.clone();
    /// assert_eq!(rx.sender_strong_count(), 2);
    /// # drop((tx, second));
    /// ```
    pub fn sender_strong_count(&self) -> usize {
        self.shared.senders.load(Acquire)
    }

    /// Returns the number of weak senders.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::broadcast;
    ///
    /// let (tx, rx) = broadcast::channel::<u32>(4);
    /// let weak = tx.downgrade();
    /// assert_eq!(rx.sender_weak_count(), 1);
    /// # drop(weak);
    /// ```
    pub fn sender_weak_count(&self) -> usize {
        self.shared.weak_senders.load(Acquire)
    }

    /// Returns whether all senders were dropped. There may still be messages to receive.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::broadcast;
    ///
    /// let (tx, mut rx) = broadcast::channel(4);
    /// tx.send(1).unwrap();
    /// drop(tx);
    /// assert!(rx.is_closed());
    /// assert_eq!(rx.try_recv(), Ok(1), "it was sent before");
    /// ```
    pub fn is_closed(&self) -> bool {
        self.sender_strong_count() == 0
    }
}

impl<T> Shared<T> {
    /// If the message at `next` is present, calls `f` with it and advances `next`.
    #[inline]
    fn with_value<R>(&self, next: &mut u64, f: impl FnOnce(&T) -> R) -> Option<R> {
        self.ring.with_value(*next, |value| {
            // Before user code: a message whose clone panics counts as received.
            *next += 1;
            f(value)
        })
    }
}

impl<T: Clone> Receiver<T> {
    /// Creates another receiver of this channel, which receives messages sent from now on.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::broadcast::{self, error::TryRecvError};
    ///
    /// let (tx, rx) = broadcast::channel(4);
    /// tx.send(1).unwrap();
    /// let mut second = rx.resubscribe();
    /// assert_eq!(second.try_recv(), Err(TryRecvError::Empty));
    /// ```
    #[track_caller]
    pub fn resubscribe(&self) -> Self {
        Self::new(self.shared.clone())
    }

    /// Receives the next message, waiting until it is sent.
    ///
    /// # Errors
    ///
    /// Returns [`RecvError::Lagged`] if messages were overwritten before this receiver got them.
    /// The next call returns the oldest message that is still there. Returns [`RecvError::Closed`]
    /// if all senders were dropped and every message was received.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe. If the future is dropped before it completes, no message was
    /// received.
    ///
    /// # Panics
    ///
    /// Panics if the `clone` of the message panics. The message then counts as received.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::broadcast::{self, error::RecvError};
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let (tx, mut rx) = broadcast::channel(4);
    /// tx.send("hello").unwrap();
    /// drop(tx);
    /// assert_eq!(rx.recv().await, Ok("hello"));
    /// assert_eq!(rx.recv().await, Err(RecvError::Closed));
    /// # }
    /// ```
    #[track_caller]
    #[inline]
    pub fn recv(&mut self) -> impl Future<Output = Result<T, RecvError>> {
        Recv { receiver: self, site: Location::caller(), waiter: Waiter::new() }
    }

    /// Receives the next message if it was sent, without waiting.
    ///
    /// # Errors
    ///
    /// Returns [`TryRecvError::Empty`] if no message was sent, and [`TryRecvError::Closed`] if all
    /// senders were dropped and every message was received. Returns [`TryRecvError::Lagged`] if
    /// messages were overwritten before this receiver got them.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::broadcast::{self, error::TryRecvError};
    ///
    /// let (tx, mut rx) = broadcast::channel(4);
    /// assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
    /// tx.send(1).unwrap();
    /// assert_eq!(rx.try_recv(), Ok(1));
    /// ```
    #[track_caller]
    pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
        loop {
            if let Some(value) = self.shared.with_value(&mut self.next, T::clone) {
                return Ok(value);
            }
            let (next, capacity) = (self.next, self.shared.ring.capacity());
            match self.shared.tail.with(|tail| tail.unavailable_reason(next, capacity)) {
                Unavailable::Retry => {}
                Unavailable::Empty => return Err(TryRecvError::Empty),
                Unavailable::Closed => {
                    self.count_end(FutileKind::BroadcastTryRecv, Location::caller());
                    return Err(TryRecvError::Closed);
                }
                Unavailable::Lagged(missed) => {
                    self.next += missed;
                    return Err(TryRecvError::Lagged(missed));
                }
            }
        }
    }

    /// Receives the next message, blocking the calling thread until it is sent.
    ///
    /// This is for code outside of tasks.
    ///
    /// # Errors
    ///
    /// Returns [`RecvError::Lagged`] if messages were overwritten before this receiver got them,
    /// and [`RecvError::Closed`] if all senders were dropped and every message was received.
    ///
    /// # Panics
    ///
    /// Panics if called on a thread that drives tasks, because blocking would stall those tasks.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::broadcast;
    ///
    /// let (tx, mut rx) = broadcast::channel(4);
    /// let thread = std::thread::spawn(move || rx.blocking_recv());
    /// tx.send(1).unwrap();
    /// assert_eq!(thread.join().unwrap(), Ok(1));
    /// ```
    #[track_caller]
    pub fn blocking_recv(&mut self) -> Result<T, RecvError> {
        block_on::block_on(self.recv())
    }

    #[inline]
    fn poll_recv(
        &mut self,
        waiter: Pin<&Waiter<u64>>,
        cx: &mut Context<'_>,
        site: &'static Location<'static>,
    ) -> Poll<Result<T, RecvError>> {
        loop {
            match waiter.state() {
                WaiterState::Idle => {}
                WaiterState::Granted(_) => waiter.reset(),
                WaiterState::Waiting => {
                    let waiter_state = self.shared.tail.update_waker(waiter, cx.waker());
                    if waiter_state == WaiterState::Waiting {
                        return Poll::Pending;
                    }
                    continue;
                }
            }
            if let Some(value) = self.shared.with_value(&mut self.next, T::clone) {
                return Poll::Ready(Ok(value));
            }
            match self.enqueue(waiter, cx) {
                Unavailable::Retry => {}
                Unavailable::Empty => return Poll::Pending,
                Unavailable::Closed => {
                    self.count_end(FutileKind::BroadcastRecv, site);
                    return Poll::Ready(Err(RecvError::Closed));
                }
                Unavailable::Lagged(missed) => {
                    self.next += missed;
                    return Poll::Ready(Err(RecvError::Lagged(missed)));
                }
            }
        }
    }

    /// Counts that a call at `site` returns the end of the channel.
    #[cold]
    fn count_end(&self, kind: FutileKind, site: &'static Location<'static>) {
        futile::count(kind, std::ptr::from_ref(&*self.shared).addr() as u64, Some(site));
    }

    /// Adds the waiter to the list if the message was not sent yet.
    fn enqueue(&self, waiter: Pin<&Waiter<u64>>, cx: &mut Context<'_>) -> Unavailable {
        let (next, capacity) = (self.next, self.shared.ring.capacity());
        let mut waker = Some(cx.waker().clone());
        // A waker that was not queued is dropped after the lock is released.
        self.shared.tail.with(|tail| {
            let reason = tail.unavailable_reason(next, capacity);
            if let Unavailable::Empty = reason {
                tail.push_back(waiter, next, waker.take());
            }
            reason
        })
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        /// Wakes the tasks in `closed` if this was the last receiver, even if the drop of a message
        /// panics.
        struct NotifyClosed<'a, T>(&'a Shared<T>, CounterChange);
        impl<T> Drop for NotifyClosed<'_, T> {
            fn drop(&mut self) {
                if self.1.before == 1 {
                    self.0.receivers.wake_waiters(self.1);
                }
            }
        }

        let Receiver { shared, next } = self;
        let (until, change) = shared.tail.with(|tail| (tail.position, shared.receivers.sub(1)));
        let _notify = NotifyClosed(shared, change);
        while *next < until {
            if shared.with_value(next, |_| ()).is_none() {
                // Overwritten: continue with the oldest message.
                let oldest = shared.position() - shared.ring.capacity();
                *next = oldest.max(*next);
            }
        }
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("broadcast::Receiver")
    }
}

pin_project_lite::pin_project! {
    /// Future returned by [`Receiver::recv`].
    struct Recv<'a, T> {
        receiver: &'a mut Receiver<T>,
        site: &'static Location<'static>,
        #[pin]
        waiter: Waiter<u64>,
    }

    impl<T> PinnedDrop for Recv<'_, T> {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            // A grant need not be passed on: all receivers are notified of a message.
            this.receiver.shared.tail.cancel(this.waiter.as_ref());
        }
    }
}

impl<T: Clone> Future for Recv<'_, T> {
    type Output = Result<T, RecvError>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let progress = ready!(coop::poll_proceed(cx));
        let polled = this.receiver.poll_recv(this.waiter.as_ref(), cx, this.site);
        if polled.is_pending() {
            wait::record_wait(WaitKind::BroadcastRecv, &*this.receiver.shared, this.site);
            wait::describe::describe_wait(|| this.receiver.shared.describe());
        } else {
            progress.made_progress();
        }
        polled
    }
}
