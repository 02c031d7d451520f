//! Waiting for a read-write lock. One future for both kinds of access: they differ in
//! how much they ask for and in the guard that comes of it.

use super::RwLock;
use super::raw::{Hold, OwnedHold, Share};
use crate::sync::acquire::PermitRequest;
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

pin_project_lite::pin_project! {
    /// The future of [`RwLock::read`] and [`RwLock::write`].
    pub(super) struct Acquire<'a, T: ?Sized, F> {
        lock: &'a RwLock<T>,
        share: Share,
        // Makes the guard.
        guard: F,
        #[pin]
        acquiring: PermitRequest,
    }

    impl<T: ?Sized, F> PinnedDrop for Acquire<'_, T, F> {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            this.lock.raw.cancel(this.acquiring);
        }
    }
}

impl<'a, T: ?Sized, F> Acquire<'a, T, F> {
    #[inline]
    pub(super) fn new(
        lock: &'a RwLock<T>,
        share: Share,
        site: &'static Location<'static>,
        guard: F,
    ) -> Self {
        Self { lock, share, guard, acquiring: lock.raw.acquire(share, site) }
    }
}

impl<'a, T, G, F> Future for Acquire<'a, T, F>
where
    T: ?Sized,
    F: Fn(&'a RwLock<T>, Hold<'a>) -> G,
{
    type Output = G;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<G> {
        let this = self.project();
        let lock: &'a RwLock<T> = this.lock;
        let portion = ready!(lock.raw.poll_acquire(this.acquiring, *this.share, cx));
        Poll::Ready((this.guard)(lock, Hold::new(&lock.raw, portion)))
    }
}

pin_project_lite::pin_project! {
    /// The future of [`RwLock::read_owned`] and [`RwLock::write_owned`].
    pub(super) struct AcquireOwned<T: ?Sized, F> {
        // There until the future is done.
        lock: Option<Arc<RwLock<T>>>,
        share: Share,
        // Makes the guard.
        guard: F,
        #[pin]
        acquiring: PermitRequest,
    }

    impl<T: ?Sized, F> PinnedDrop for AcquireOwned<T, F> {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            if let Some(lock) = this.lock {
                lock.raw.cancel(this.acquiring);
            }
        }
    }
}

impl<T: ?Sized, F> AcquireOwned<T, F> {
    #[inline]
    pub(super) fn new(
        lock: Arc<RwLock<T>>,
        share: Share,
        site: &'static Location<'static>,
        guard: F,
    ) -> Self {
        let acquiring = lock.raw.acquire(share, site);
        Self { lock: Some(lock), share, guard, acquiring }
    }
}

impl<T, G, F> Future for AcquireOwned<T, F>
where
    T: ?Sized,
    F: Fn(OwnedHold<T>) -> G,
{
    type Output = G;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<G> {
        let this = self.project();
        let lock = this.lock.as_ref().expect("polled after it was done");
        let portion = ready!(lock.raw.poll_acquire(this.acquiring, *this.share, cx));
        let lock = this.lock.take().expect("it was there a moment ago");
        Poll::Ready((this.guard)(OwnedHold::new(lock, portion)))
    }
}
