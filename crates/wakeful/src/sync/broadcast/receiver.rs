//! The side that receives.

use super::error::{RecvError, TryRecvError};
use super::{MAX_RECEIVERS, Shared, Tail};
use crate::sys::sync::Arc;
use crate::sys::sync::atomic::Ordering::Acquire;
use crate::task::coop;
use crate::task::wait_kind::WaitKind;
use crate::wait::list::{Waiter, WaiterState};
use crate::wait::wait_counter::CounterChange;
use crate::wait::{self, block_on};
use std::fmt;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// Receives a clone of every value that is sent while it is there.
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
    /// The position that it passes next.
    next: u64,
}

/// Why there is no value at a receiver's position.
enum Missing {
    /// It was put there a moment ago.
    NotAnyMore,
    NotYet,
    Never,
    /// So many were overwritten.
    Missed(u64),
}

impl Tail {
    fn why_missing(&self, next: u64, capacity: u64) -> Missing {
        match self.position - next {
            0 if self.is_closed => Missing::Never,
            0 => Missing::NotYet,
            behind if behind > capacity => Missing::Missed(behind - capacity),
            _ => Missing::NotAnyMore,
        }
    }
}

impl<T> Receiver<T> {
    #[track_caller]
    pub(super) fn new(shared: Arc<Shared<T>>) -> Self {
        assert!(shared.receivers.get() < MAX_RECEIVERS, "max receivers");
        let next = shared.tail.with(|tail| {
            // Nobody waits for there to be more.
            let _ = shared.receivers.add(1);
            tail.position
        });
        Self { shared, next }
    }

    /// How many values were sent that it has not received, with those that were
    /// overwritten: if there are more than the capacity (rounded up to a power
    /// of two), the next call to [`recv`](Self::recv) says that it lags.
    pub fn len(&self) -> usize {
        (self.shared.position() - self.next) as usize
    }

    /// Whether it has received everything that was sent.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether both are receivers of one channel.
    pub fn same_channel(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// How many senders there are.
    pub fn sender_strong_count(&self) -> usize {
        self.shared.senders.load(Acquire)
    }

    /// How many weak senders there are.
    pub fn sender_weak_count(&self) -> usize {
        self.shared.weak_senders.load(Acquire)
    }

    /// Whether all senders are gone. There may still be values to receive.
    pub fn is_closed(&self) -> bool {
        self.sender_strong_count() == 0
    }
}

impl<T> Shared<T> {
    /// Passes the value at `next`, if it is there.
    #[inline]
    fn see<R>(&self, next: &mut u64, see: impl FnOnce(&T) -> R) -> Option<R> {
        self.ring.see(*next, |value| {
            // Before foreign code: a value whose clone panics is passed, too.
            *next += 1;
            see(value)
        })
    }
}

impl<T: Clone> Receiver<T> {
    /// A new receiver of the same channel, for values that are sent from now on.
    #[track_caller]
    pub fn resubscribe(&self) -> Self {
        Self::new(self.shared.clone())
    }

    /// Receives the next value.
    ///
    /// # Errors
    ///
    /// [`RecvError::Lagged`] if it was overwritten: the receiver then goes on
    /// with the oldest value that is there. [`RecvError::Closed`] if all senders
    /// are gone and everything was received.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropped before it is ready, it has received nothing.
    ///
    /// # Panics
    ///
    /// If the value's `clone` does. The value then counts as received.
    #[track_caller]
    #[inline]
    pub fn recv(&mut self) -> impl Future<Output = Result<T, RecvError>> {
        Recv { receiver: self, site: Location::caller(), waiter: Waiter::new() }
    }

    /// Receives the next value if it is there. Does not wait.
    ///
    /// # Errors
    ///
    /// As for [`recv`](Self::recv), and [`TryRecvError::Empty`] if there is no
    /// value yet.
    pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
        loop {
            if let Some(value) = self.shared.see(&mut self.next, T::clone) {
                return Ok(value);
            }
            let (next, capacity) = (self.next, self.shared.ring.capacity());
            match self.shared.tail.with(|tail| tail.why_missing(next, capacity)) {
                Missing::NotAnyMore => {}
                Missing::NotYet => return Err(TryRecvError::Empty),
                Missing::Never => return Err(TryRecvError::Closed),
                Missing::Missed(missed) => {
                    self.next += missed;
                    return Err(TryRecvError::Lagged(missed));
                }
            }
        }
    }

    /// Receives the next value, waiting with the thread instead of a task.
    ///
    /// # Errors
    ///
    /// As for [`recv`](Self::recv).
    ///
    /// # Panics
    ///
    /// On a thread that drives tasks: they would wait with it.
    #[track_caller]
    pub fn blocking_recv(&mut self) -> Result<T, RecvError> {
        block_on::block_on(self.recv())
    }

    #[inline]
    fn poll_recv(
        &mut self,
        waiter: Pin<&Waiter<u64>>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<T, RecvError>> {
        loop {
            match waiter.state() {
                WaiterState::Idle => {}
                WaiterState::Granted(_) => waiter.reset(),
                WaiterState::Waiting => {
                    let standing = self.shared.tail.update_waker(waiter, cx.waker());
                    if standing == WaiterState::Waiting {
                        return Poll::Pending;
                    }
                    continue;
                }
            }
            if let Some(value) = self.shared.see(&mut self.next, T::clone) {
                return Poll::Ready(Ok(value));
            }
            match self.enter(waiter, cx) {
                Missing::NotAnyMore => {}
                Missing::NotYet => return Poll::Pending,
                Missing::Never => return Poll::Ready(Err(RecvError::Closed)),
                Missing::Missed(missed) => {
                    self.next += missed;
                    return Poll::Ready(Err(RecvError::Lagged(missed)));
                }
            }
        }
    }

    /// Starts to wait, if the value is still to come.
    fn enter(&self, waiter: Pin<&Waiter<u64>>, cx: &mut Context<'_>) -> Missing {
        let (next, capacity) = (self.next, self.shared.ring.capacity());
        let mut waker = Some(cx.waker().clone());
        // What is left over is dropped after the lock.
        self.shared.tail.with(|tail| {
            let missing = tail.why_missing(next, capacity);
            if let Missing::NotYet = missing {
                tail.push_back(waiter, next, waker.take());
            }
            missing
        })
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        /// Tells those who wait for the last receiver to go, also if the drop of
        /// a value panics.
        struct Gone<'a, T>(&'a Shared<T>, CounterChange);
        impl<T> Drop for Gone<'_, T> {
            fn drop(&mut self) {
                if self.1.before == 1 {
                    self.0.receivers.wake_waiters(self.1);
                }
            }
        }

        let Receiver { shared, next } = self;
        let (until, moved) = shared.tail.with(|tail| (tail.position, shared.receivers.sub(1)));
        let _gone = Gone(shared, moved);
        while *next < until {
            if shared.see(next, |_| ()).is_none() {
                // Overwritten.
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
    /// The future of [`Receiver::recv`].
    struct Recv<'a, T> {
        receiver: &'a mut Receiver<T>,
        site: &'static Location<'static>,
        #[pin]
        waiter: Waiter<u64>,
    }

    impl<T> PinnedDrop for Recv<'_, T> {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            // Everybody is told of a value, so there is nothing to pass on.
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
        let polled = this.receiver.poll_recv(this.waiter.as_ref(), cx);
        if polled.is_pending() {
            wait::record_wait(WaitKind::BroadcastRecv, &*this.receiver.shared, this.site);
        } else {
            progress.made_progress();
        }
        polled
    }
}
