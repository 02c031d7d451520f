//! The sending end of a watch channel.

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

/// The sending end of a watch channel, which changes the value that [`Receiver`]s observe.
///
/// The channel is closed when the last sender is dropped.
///
/// # Examples
///
/// ```
/// use wakeful::sync::watch;
///
/// let (tx, rx) = watch::channel(1);
/// let second = tx.clone();
/// tx.send(2).unwrap();
/// second.send_modify(|value| *value += 1);
/// assert_eq!(*rx.borrow(), 3);
/// ```
#[derive(Debug)]
pub struct Sender<T> {
    shared: Arc<Shared<T>>,
}

impl<T> Sender<T> {
    /// Creates a channel without receivers; [`subscribe`](Self::subscribe) creates them.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::watch;
    ///
    /// let tx = watch::Sender::new(1);
    /// let rx = tx.subscribe();
    /// assert_eq!(*rx.borrow(), 1);
    /// ```
    #[track_caller]
    pub fn new(init: T) -> Self {
        channel(init).0
    }

    pub(super) fn from_shared(shared: Arc<Shared<T>>) -> Self {
        Self { shared }
    }

    /// Replaces the value and notifies all receivers.
    ///
    /// # Errors
    ///
    /// Returns the value in a [`SendError`] if there is no receiver. The channel keeps the old
    /// value; use [`send_replace`](Self::send_replace) to store the value for later receivers.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::watch;
    ///
    /// let (tx, rx) = watch::channel(1);
    /// tx.send(2).unwrap();
    /// assert_eq!(*rx.borrow(), 2);
    /// drop(rx);
    /// assert!(tx.send(3).is_err());
    /// assert_eq!(*tx.borrow(), 2);
    /// ```
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        if self.is_closed() {
            return Err(SendError(value));
        }
        self.send_replace(value);
        Ok(())
    }

    /// Changes the value in place and notifies all receivers, if any.
    ///
    /// No receiver can read the value while `modify` runs. So `modify` should be fast, and must not
    /// access the value through the channel.
    ///
    /// # Panics
    ///
    /// Panics if `modify` panics. Its changes stay and can be read, but receivers are not notified.
    ///
    /// # Examples
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

    /// Changes the value in place and notifies receivers only if `modify` returns true.
    ///
    /// Returns the result of `modify`. No receiver can read the value while `modify` runs, so
    /// `modify` should be fast.
    ///
    /// # Panics
    ///
    /// Panics if `modify` panics. Its changes stay and can be read, but receivers are not notified.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::watch;
    ///
    /// let (tx, rx) = watch::channel(5);
    /// let raise = |new: i32| {
    ///     tx.send_if_modified(|value| {
    ///         let is_higher = new > *value;
    ///         *value = new.max(*value);
    ///         is_higher
    ///     })
    /// };
    /// assert!(!raise(3));
    /// assert!(!rx.has_changed().unwrap());
    /// assert!(raise(7));
    /// assert!(rx.has_changed().unwrap());
    /// ```
    pub fn send_if_modified<F>(&self, modify: F) -> bool
    where
        F: FnOnce(&mut T) -> bool,
    {
        let shared = &*self.shared;
        let change = {
            let mut value = shared.value.write();
            if !modify(&mut value) {
                return false;
            }
            shared.version.add(STEP)
        };
        shared.version.wake_waiters(change);
        true
    }

    /// Replaces the value and returns the old one, even if there is no receiver.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::watch;
    ///
    /// let tx = watch::Sender::new(1);
    /// assert_eq!(tx.send_replace(2), 1);
    /// assert_eq!(*tx.borrow(), 2);
    /// ```
    pub fn send_replace(&self, mut value: T) -> T {
        self.send_modify(|old| mem::swap(old, &mut value));
        value
    }

    /// Returns a reference to the value.
    ///
    /// While the [`Ref`] exists the value cannot be changed: senders block their threads.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::watch;
    ///
    /// let (tx, _rx) = watch::channel(1);
    /// tx.send(2).unwrap();
    /// assert_eq!(*tx.borrow(), 2);
    /// ```
    pub fn borrow(&self) -> Ref<'_, T> {
        Ref::new(self.shared.value.read(), false)
    }

    /// Returns whether there is no receiver.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::watch;
    ///
    /// let (tx, rx) = watch::channel(1);
    /// assert!(!tx.is_closed());
    /// drop(rx);
    /// assert!(tx.is_closed());
    /// ```
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.shared.receivers.get() == 0
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
    /// use wakeful::sync::watch;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let (tx, rx) = watch::channel(1);
    /// wakeful::spawn(async move { drop(rx) });
    /// tx.closed().await;
    /// assert!(tx.is_closed());
    /// # }
    /// ```
    #[track_caller]
    pub fn closed(&self) -> impl Future<Output = ()> {
        Closed { sender: self, site: Location::caller(), waiter: Waiter::new() }
    }

    /// Creates a receiver, for which the current value counts as seen.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::watch;
    ///
    /// let (tx, _rx) = watch::channel(1);
    /// let rx = tx.subscribe();
    /// assert!(!rx.has_changed().unwrap());
    /// ```
    pub fn subscribe(&self) -> Receiver<T> {
        Receiver::new(self.shared.clone(), self.shared.load_version().0)
    }

    /// Returns the number of receivers.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::watch;
    ///
    /// let (tx, rx) = watch::channel(1);
    /// let second = rx.clone();
    /// assert_eq!(tx.receiver_count(), 2);
    /// # drop((rx, second));
    /// ```
    pub fn receiver_count(&self) -> usize {
        self.shared.receivers.get() as usize
    }

    /// Returns the number of senders.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::watch;
    ///
    /// let (tx, _rx) = watch::channel(1);
    /// let second = tx.clone();
    /// assert_eq!(tx.sender_count(), 2);
    /// # drop(second);
    /// ```
    pub fn sender_count(&self) -> usize {
        self.shared.senders.load(Acquire)
    }

    /// Returns whether both senders belong to the same channel.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::watch;
    ///
    /// let (tx, _rx) = watch::channel(1);
    /// let (other, _rx) = watch::channel(1);
    /// assert!(tx.same_channel(&tx.clone()));
    /// assert!(!tx.same_channel(&other));
    /// ```
    pub fn same_channel(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        // Relaxed: the caller is a sender, so the count cannot become 0 in between.
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
        // AcqRel: the last drop comes after everything that other senders sent.
        if self.shared.senders.fetch_sub(1, AcqRel) == 1 {
            let change = self.shared.version.set(CLOSED);
            self.shared.version.wake_waiters(change);
        }
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
        let progress = ready!(coop::poll_proceed(cx));
        let shared = &*this.sender.shared;
        if shared.receivers.poll(this.waiter.as_ref(), Zero, cx).is_pending() {
            wait::record_wait(WaitKind::WatchClosed, shared, this.site);
            return Poll::Pending;
        }
        progress.made_progress();
        Poll::Ready(())
    }
}
