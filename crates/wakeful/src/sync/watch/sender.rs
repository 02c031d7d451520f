//! The side that changes the value.

use super::error::SendError;
use super::{CLOSED, Receiver, Ref, STEP, Shared, channel};
use crate::sys::sync::Arc;
use crate::sys::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use crate::task::coop;
use crate::task::wait_kind::WaitKind;
use crate::wait;
use crate::wait::list::Waiter;
use crate::wait::wait_counter::Zero;
use std::mem;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// Changes the value that [`Receiver`]s watch. The channel is closed when the
/// last sender goes.
#[derive(Debug)]
pub struct Sender<T> {
    shared: Arc<Shared<T>>,
}

impl<T> Sender<T> {
    /// A channel that nobody watches yet; see [`subscribe`](Self::subscribe).
    pub fn new(init: T) -> Self {
        channel(init).0
    }

    pub(super) fn from_shared(shared: Arc<Shared<T>>) -> Self {
        Self { shared }
    }

    /// Puts a value in place of the one that is there.
    ///
    /// # Errors
    ///
    /// The value comes back if nobody watches, and is not kept for whoever
    /// subscribes later; [`send_replace`](Self::send_replace) would keep it.
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        if self.is_closed() {
            return Err(SendError(value));
        }
        self.send_replace(value);
        Ok(())
    }

    /// Changes the value in place, whether or not anybody watches.
    ///
    /// Nobody can look at the value meanwhile: `modify` should be quick, and must
    /// not look at the value through the channel.
    ///
    /// # Panics
    ///
    /// If `modify` does. What it changed until then stays and can be looked at,
    /// but is not announced.
    ///
    /// ```
    /// use wakeful::sync::watch;
    ///
    /// let (sender, receiver) = watch::channel(1);
    /// sender.send_modify(|value| *value += 1);
    /// assert_eq!(*receiver.borrow(), 2);
    /// ```
    pub fn send_modify<F>(&self, modify: F)
    where
        F: FnOnce(&mut T),
    {
        self.send_if_modified(|value| {
            modify(value);
            true
        });
    }

    /// Changes the value in place, and announces it only if `modify` says that it
    /// did change. Answers what `modify` said.
    ///
    /// As [`send_modify`](Self::send_modify) otherwise.
    pub fn send_if_modified<F>(&self, modify: F) -> bool
    where
        F: FnOnce(&mut T) -> bool,
    {
        let shared = &*self.shared;
        let moved = {
            let mut value = shared.value.write();
            if !modify(&mut value) {
                return false;
            }
            shared.version.add(STEP)
        };
        shared.version.wake_waiters(moved);
        true
    }

    /// Puts a value in place of the one that is there, which is the answer.
    /// Whether or not anybody watches.
    pub fn send_replace(&self, mut value: T) -> T {
        self.send_modify(|old| mem::swap(old, &mut value));
        value
    }

    /// The value. While the [`Ref`] is there the value cannot be changed:
    /// senders block their threads.
    pub fn borrow(&self) -> Ref<'_, T> {
        Ref::new(self.shared.value.read(), false)
    }

    /// Whether nobody watches.
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.shared.receivers.get() == 0
    }

    /// Waits until nobody watches.
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

    /// A new receiver, for which the present value counts as seen.
    pub fn subscribe(&self) -> Receiver<T> {
        Receiver::new(self.shared.clone(), self.shared.look().0)
    }

    /// How many watch.
    pub fn receiver_count(&self) -> usize {
        self.shared.receivers.get() as usize
    }

    /// How many senders there are.
    pub fn sender_count(&self) -> usize {
        self.shared.senders.load(Acquire)
    }

    /// Whether both are senders of one channel.
    pub fn same_channel(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        // Relaxed: we are one, so it does not become zero meanwhile.
        self.shared.senders.fetch_add(1, Relaxed);
        Self { shared: self.shared.clone() }
    }
}

impl<T: Default> Default for Sender<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        // AcqRel: the last one comes after whatever the others sent.
        if self.shared.senders.fetch_sub(1, AcqRel) == 1 {
            let moved = self.shared.version.set(CLOSED);
            self.shared.version.wake_waiters(moved);
        }
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
        let progress = ready!(coop::poll_proceed(cx));
        let shared = &*this.sender.shared;
        if shared.receivers.poll(this.waiter.as_ref(), Zero, cx).is_pending() {
            wait::record_secondary_wait(WaitKind::WatchClosed, shared, this.site);
            return Poll::Pending;
        }
        progress.made_progress();
        Poll::Ready(())
    }
}
