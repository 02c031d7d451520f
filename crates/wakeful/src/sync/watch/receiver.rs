//! The side that watches.

use super::Shared;
use super::error::RecvError;
use crate::sys::sync::{Arc, RwLockReadGuard};
use crate::task::coop;
use crate::task::wait_kind::WaitKind;
use crate::wait;
use crate::wait::list::Waiter;
use crate::wait::wait_counter::NotEqual;
use std::ops::Deref;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// Watches the value that [`Sender`](super::Sender)s change.
///
/// A clone has seen what the original has seen.
#[derive(Debug)]
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
    /// The version that was seen last, without CLOSED.
    seen: u64,
}

/// The value, looked at.
///
/// While it is there the value cannot be changed, and a thread that wants to
/// send is blocked: keep it for as short as possible, and not over an `.await`.
/// A thread that already has one may block for ever if it asks for another while
/// somebody wants to send.
#[derive(Debug)]
pub struct Ref<'a, T> {
    value: RwLockReadGuard<'a, T>,
    has_changed: bool,
}

impl<'a, T> Ref<'a, T> {
    pub(super) fn new(value: RwLockReadGuard<'a, T>, has_changed: bool) -> Self {
        Self { value, has_changed }
    }

    /// Whether the receiver had not seen this value before. For a sender's own
    /// look always false.
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
    /// One more receiver, which has seen the version `seen`.
    pub(super) fn new(shared: Arc<Shared<T>>, seen: u64) -> Self {
        // Nobody waits for there to be more.
        let _ = shared.receivers.add(1);
        Self { shared, seen }
    }

    /// The value; whether it was seen stays as it is.
    pub fn borrow(&self) -> Ref<'_, T> {
        let value = self.shared.value.read();
        let has_changed = self.shared.look().0 != self.seen;
        Ref { value, has_changed }
    }

    /// The value, which counts as seen from now on.
    pub fn borrow_and_update(&mut self) -> Ref<'_, T> {
        self.shared.borrow_and_update(&mut self.seen)
    }

    /// Whether there is a value that was not seen, even if it equals the one
    /// before.
    ///
    /// # Errors
    ///
    /// If all senders are gone; also if the last value was not seen.
    pub fn has_changed(&self) -> Result<bool, RecvError> {
        match self.shared.look() {
            (_, true) => Err(RecvError(())),
            (version, false) => Ok(version != self.seen),
        }
    }

    /// Whether all senders are gone.
    pub fn is_closed(&self) -> bool {
        self.shared.look().1
    }

    /// The present value counts as not seen from now on, so that
    /// [`changed`](Self::changed) is ready at once.
    pub fn mark_changed(&mut self) {
        self.seen = self.seen.wrapping_sub(super::STEP);
    }

    /// The present value counts as seen from now on.
    pub fn mark_unchanged(&mut self) {
        self.seen = self.shared.look().0;
    }

    /// Waits for a value that was not seen, which then counts as seen. Several
    /// that come before it looks are one change.
    ///
    /// Ready at once if there is such a value.
    ///
    /// # Errors
    ///
    /// If all senders are gone and the last value was seen.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropped before it is ready, it has marked nothing as seen.
    #[track_caller]
    pub fn changed(&mut self) -> impl Future<Output = Result<(), RecvError>> {
        Changed { receiver: self, site: Location::caller(), waiter: Waiter::new() }
    }

    /// Waits for a value that `f` says yes to, which then counts as seen.
    ///
    /// `f` is asked about the present value first, seen or not, and then about
    /// each change, though it may miss some: it is always asked about the latest.
    /// As the answer holds the lock on the value, see [`Ref`].
    ///
    /// # Errors
    ///
    /// If all senders are gone, and `f` said no to the last value.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropped before it is ready, it has marked as seen only what
    /// `f` said no to.
    ///
    /// # Panics
    ///
    /// If `f` does, which does the channel no harm.
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
            asked: false,
            site: Location::caller(),
            waiter: Waiter::new(),
        }
    }

    /// Whether both are receivers of one channel.
    pub fn same_channel(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }
}

impl<T> Shared<T> {
    fn borrow_and_update(&self, seen: &mut u64) -> Ref<'_, T> {
        let value = self.value.read();
        // Under the lock, so it is this value's version.
        let (version, _) = self.look();
        let has_changed = version != *seen;
        *seen = version;
        Ref { value, has_changed }
    }

    /// Waits for another version than the one that was seen: `Ok` with it, or an
    /// error if there will be none.
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
            return Poll::Pending;
        };
        let version = number & !super::CLOSED;
        Poll::Ready(if version == seen { Err(RecvError(())) } else { Ok(version) })
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        Self::new(self.shared.clone(), self.seen)
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let moved = self.shared.receivers.sub(1);
        if moved.before == 1 {
            self.shared.receivers.wake_waiters(moved);
        }
    }
}

pin_project_lite::pin_project! {
    /// The future of [`Receiver::changed`].
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
    /// The future of [`Receiver::wait_for`].
    struct WaitFor<'a, T, F> {
        shared: &'a Shared<T>,
        seen: &'a mut u64,
        f: F,
        // `f` was asked about the value that was there at first.
        asked: bool,
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
            if *this.asked {
                let changed =
                    ready!(shared.poll_changed(this.waiter.as_ref(), **this.seen, cx, this.site));
                if let Err(error) = changed {
                    progress.made_progress();
                    return Poll::Ready(Err(error));
                }
            }
            *this.asked = true;
            let value = shared.borrow_and_update(this.seen);
            if (this.f)(&value) {
                progress.made_progress();
                return Poll::Ready(Ok(value));
            }
        }
    }
}
