//! The receiving end of a watch channel.

use super::Shared;
use super::error::RecvError;
use crate::sys::sync::{Arc, RwLockReadGuard};
use crate::task::coop;
use crate::task::futile::{self, FutileKind};
use crate::task::wait_kind::WaitKind;
use crate::wait;
use crate::wait::list::Waiter;
use crate::wait::wait_counter::NotEqual;
use std::ops::Deref;
use std::panic::Location;
use std::pin::Pin;
use std::ptr;
use std::task::{Context, Poll, ready};

/// The receiving end of a watch channel, which observes changes of the value.
///
/// A clone starts with the same last seen value as the original.
///
/// # Examples
///
/// ```
/// use wakeful::sync::watch;
///
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() {
/// let (tx, mut rx) = watch::channel("starting");
/// wakeful::spawn(async move { tx.send("ready") });
/// rx.changed().await.unwrap();
/// assert_eq!(*rx.borrow_and_update(), "ready");
/// # }
/// ```
#[derive(Debug)]
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
    /// The version that was seen last, without CLOSED.
    seen: u64,
}

/// A reference to the value of a watch channel, which holds a read lock.
///
/// While a `Ref` exists, the value cannot be changed, and a sender blocks its thread. So drop it
/// soon, and do not hold it across an `.await`. A thread that already holds a `Ref` may deadlock if
/// it requests another one while a sender is waiting.
///
/// # Examples
///
/// ```
/// use wakeful::sync::watch;
///
/// let (tx, rx) = watch::channel(vec![1, 2]);
/// let length = rx.borrow().len(); // the `Ref` is dropped at the end of the statement
/// tx.send(vec![3]).unwrap();
/// assert_eq!((length, rx.borrow().len()), (2, 1));
/// ```
#[derive(Debug)]
pub struct Ref<'a, T> {
    value: RwLockReadGuard<'a, T>,
    has_changed: bool,
}

impl<'a, T> Ref<'a, T> {
    pub(super) fn new(value: RwLockReadGuard<'a, T>, has_changed: bool) -> Self {
        Self { value, has_changed }
    }

    /// Returns whether the receiver had not seen this value before.
    ///
    /// Always false for a [`Ref`] of a sender.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::watch;
    ///
    /// let (tx, mut rx) = watch::channel(1);
    /// tx.send(2).unwrap();
    /// assert!(rx.borrow_and_update().has_changed());
    /// assert!(!rx.borrow_and_update().has_changed());
    /// ```
    pub fn has_changed(&self) -> bool {
        self.has_changed
    }
}

impl<T> Deref for Ref<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> Receiver<T> {
    /// Adds a receiver that has seen the version `seen`.
    pub(super) fn new(shared: Arc<Shared<T>>, seen: u64) -> Self {
        // No task waits for the count to grow.
        let _ = shared.receivers.add(1);
        Self { shared, seen }
    }

    /// Returns a reference to the value, without marking it as seen.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::watch;
    ///
    /// let (_tx, rx) = watch::channel("value");
    /// assert_eq!(*rx.borrow(), "value");
    /// ```
    pub fn borrow(&self) -> Ref<'_, T> {
        let value = self.shared.value.read();
        let has_changed = self.shared.load_version().0 != self.seen;
        Ref { value, has_changed }
    }

    /// Returns a reference to the value and marks it as seen.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::watch;
    ///
    /// let (tx, mut rx) = watch::channel(1);
    /// tx.send(2).unwrap();
    /// assert_eq!(*rx.borrow_and_update(), 2);
    /// assert!(!rx.has_changed().unwrap());
    /// ```
    pub fn borrow_and_update(&mut self) -> Ref<'_, T> {
        self.shared.borrow_and_update(&mut self.seen)
    }

    /// Returns whether a value was sent that this receiver has not seen.
    ///
    /// A value that equals the previous one counts, too.
    ///
    /// # Errors
    ///
    /// Returns [`RecvError`] if all senders were dropped, even if the last value was not seen.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::watch;
    ///
    /// let (tx, rx) = watch::channel(1);
    /// assert!(!rx.has_changed().unwrap());
    /// tx.send(1).unwrap();
    /// assert!(rx.has_changed().unwrap());
    /// drop(tx);
    /// assert!(rx.has_changed().is_err());
    /// ```
    pub fn has_changed(&self) -> Result<bool, RecvError> {
        match self.shared.load_version() {
            (_, true) => Err(RecvError(())),
            (version, false) => Ok(version != self.seen),
        }
    }

    /// Returns whether all senders were dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::watch;
    ///
    /// let (tx, rx) = watch::channel(1);
    /// assert!(!rx.is_closed());
    /// drop(tx);
    /// assert!(rx.is_closed());
    /// assert_eq!(*rx.borrow(), 1, "the last value stays");
    /// ```
    pub fn is_closed(&self) -> bool {
        self.shared.load_version().1
    }

    /// Marks the current value as not seen, so that [`changed`](Self::changed) completes
    /// immediately.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::watch;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let (_tx, mut rx) = watch::channel("initial");
    /// rx.mark_changed();
    /// rx.changed().await.unwrap();
    /// assert_eq!(*rx.borrow(), "initial");
    /// # }
    /// ```
    pub fn mark_changed(&mut self) {
        self.seen = self.seen.wrapping_sub(super::STEP);
    }

    /// Marks the current value as seen.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::watch;
    ///
    /// let (tx, mut rx) = watch::channel(1);
    /// tx.send(2).unwrap();
    /// rx.mark_unchanged();
    /// assert!(!rx.has_changed().unwrap());
    /// ```
    pub fn mark_unchanged(&mut self) {
        self.seen = self.shared.load_version().0;
    }

    /// Waits for a value that this receiver has not seen, and marks it as seen.
    ///
    /// Completes immediately if there is such a value. Several values sent before it completes
    /// count as one change.
    ///
    /// # Errors
    ///
    /// Returns [`RecvError`] if all senders were dropped and the last value was seen.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe. If the future is dropped before it completes, no value was
    /// marked as seen.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::watch;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let (tx, mut rx) = watch::channel("old");
    /// wakeful::spawn(async move { tx.send("new") });
    /// rx.changed().await.unwrap();
    /// assert_eq!(*rx.borrow(), "new");
    /// assert!(rx.changed().await.is_err(), "the sender was dropped");
    /// # }
    /// ```
    #[track_caller]
    pub fn changed(&mut self) -> impl Future<Output = Result<(), RecvError>> {
        Changed { receiver: self, site: Location::caller(), waiter: Waiter::new() }
    }

    /// Waits for a value for which `f` returns true, and marks it as seen.
    ///
    /// `f` is called with the current value first, seen or not, and then after each change. It may
    /// miss values, because it is always called with the latest one. The returned [`Ref`] holds a
    /// read lock on the value.
    ///
    /// # Errors
    ///
    /// Returns [`RecvError`] if all senders were dropped, and `f` returned false for the last
    /// value.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe. If the future is dropped before it completes, only values for
    /// which `f` returned false were marked as seen.
    ///
    /// # Panics
    ///
    /// Panics if `f` panics. The channel stays usable.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::watch;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let (sender, mut receiver) = watch::channel(0);
    /// wakeful::spawn(async move {
    ///     for level in 1..10 {
    ///         sender.send(level).ok();
    ///     }
    /// });
    /// assert_eq!(*receiver.wait_for(|level| *level > 8).await.unwrap(), 9);
    /// # }
    /// ```
    #[track_caller]
    pub fn wait_for<'a>(
        &'a mut self,
        f: impl FnMut(&T) -> bool,
    ) -> impl Future<Output = Result<Ref<'a, T>, RecvError>> {
        WaitFor {
            shared: &self.shared,
            seen: &mut self.seen,
            f,
            checked: false,
            site: Location::caller(),
            waiter: Waiter::new(),
        }
    }

    /// Returns whether both receivers belong to the same channel.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::watch;
    ///
    /// let (_tx, rx) = watch::channel(1);
    /// let (_tx, other) = watch::channel(1);
    /// assert!(rx.same_channel(&rx.clone()));
    /// assert!(!rx.same_channel(&other));
    /// ```
    pub fn same_channel(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }
}

impl<T> Shared<T> {
    fn borrow_and_update(&self, seen: &mut u64) -> Ref<'_, T> {
        let value = self.value.read();
        // Read under the lock, so this is the version of the value.
        let (version, _) = self.load_version();
        let has_changed = version != *seen;
        *seen = version;
        Ref { value, has_changed }
    }

    /// Waits for a version other than `seen` and returns it, or an error if there will be none.
    #[inline]
    fn poll_changed(
        &self,
        waiter: Pin<&Waiter<NotEqual>>,
        seen: u64,
        cx: &mut Context<'_>,
        site: &'static Location<'static>,
    ) -> Poll<Result<u64, RecvError>> {
        let Poll::Ready(number) = self.version.poll(waiter, NotEqual(seen), cx) else {
            wait::record_wait(WaitKind::WatchChanged, self, site);
            wait::describe::describe_wait(|| self.describe());
            return Poll::Pending;
        };
        let version = number & !super::CLOSED;
        if version == seen {
            futile::count(FutileKind::WatchChanged, ptr::from_ref(self).addr() as u64, Some(site));
            return Poll::Ready(Err(RecvError(())));
        }
        Poll::Ready(Ok(version))
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        Self::new(self.shared.clone(), self.seen)
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let change = self.shared.receivers.sub(1);
        if change.before == 1 {
            self.shared.receivers.wake_waiters(change);
        }
    }
}

pin_project_lite::pin_project! {
    /// Future returned by [`Receiver::changed`].
    struct Changed<'a, T> {
        receiver: &'a mut Receiver<T>,
        site: &'static Location<'static>,
        #[pin]
        waiter: Waiter<NotEqual>,
    }

    impl<T> PinnedDrop for Changed<'_, T> {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            this.receiver.shared.version.cancel(this.waiter.as_ref());
        }
    }
}

impl<T> Future for Changed<'_, T> {
    type Output = Result<(), RecvError>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let Receiver { shared, seen } = &mut **this.receiver;
        let progress = ready!(coop::poll_proceed(cx));
        let changed = ready!(shared.poll_changed(this.waiter.as_ref(), *seen, cx, this.site));
        progress.made_progress();
        Poll::Ready(changed.map(|version| *seen = version))
    }
}

pin_project_lite::pin_project! {
    /// Future returned by [`Receiver::wait_for`].
    struct WaitFor<'a, T, F> {
        shared: &'a Shared<T>,
        seen: &'a mut u64,
        f: F,
        // `f` was called with the initial value.
        checked: bool,
        site: &'static Location<'static>,
        #[pin]
        waiter: Waiter<NotEqual>,
    }

    impl<T, F> PinnedDrop for WaitFor<'_, T, F> {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            this.shared.version.cancel(this.waiter.as_ref());
        }
    }
}

impl<'a, T, F: FnMut(&T) -> bool> Future for WaitFor<'a, T, F> {
    type Output = Result<Ref<'a, T>, RecvError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let shared: &'a Shared<T> = this.shared;
        let progress = ready!(coop::poll_proceed(cx));
        loop {
            if *this.checked {
                let changed =
                    ready!(shared.poll_changed(this.waiter.as_ref(), **this.seen, cx, this.site));
                if let Err(error) = changed {
                    progress.made_progress();
                    return Poll::Ready(Err(error));
                }
            }
            *this.checked = true;
            let value = shared.borrow_and_update(this.seen);
            if (this.f)(&value) {
                progress.made_progress();
                return Poll::Ready(Ok(value));
            }
        }
    }
}
