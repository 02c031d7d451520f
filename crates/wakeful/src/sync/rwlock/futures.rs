//! The futures that wait for a reader-writer lock.
//!
//! Reading and writing share one future. They differ in the number of permits they request, and in
//! the guard they make.

use super::RwLock;
use super::raw::{Access, OwnedRawGuard, RawGuard};
use crate::sync::acquire::PermitRequest;
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

pin_project_lite::pin_project! {
    /// Future returned by [`RwLock::read`] and [`RwLock::write`].
    pub(super) struct Acquire<'a, T: ?Sized, F> {
        lock: &'a RwLock<T>,
        access: Access,
        // Makes the guard from the lock and the acquired permits.
        guard: F,
        #[pin]
        request: PermitRequest,
    }

    impl<T: ?Sized, F> PinnedDrop for Acquire<'_, T, F> {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            this.lock.raw.cancel(this.request);
        }
    }
}

impl<'a, T: ?Sized, F> Acquire<'a, T, F> {
    #[inline]
    pub(super) fn new(
        lock: &'a RwLock<T>,
        access: Access,
        site: &'static Location<'static>,
        guard: F,
    ) -> Self {
        Self { lock, access, guard, request: lock.raw.request(access, site) }
    }
}

impl<'a, T, G, F> Future for Acquire<'a, T, F>
where
    T: ?Sized,
    F: Fn(&'a RwLock<T>, RawGuard<'a>) -> G,
{
    type Output = G;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<G> {
        let this = self.project();
        let lock: &'a RwLock<T> = this.lock;
        let held = ready!(lock.raw.poll_acquire(this.request, *this.access, cx));
        Poll::Ready((this.guard)(lock, RawGuard::new(&lock.raw, held)))
    }
}

pin_project_lite::pin_project! {
    /// Future returned by [`RwLock::read_owned`] and [`RwLock::write_owned`].
    pub(super) struct AcquireOwned<T: ?Sized, F> {
        // `Some` until the future has completed.
        lock: Option<Arc<RwLock<T>>>,
        access: Access,
        // Makes the guard from the acquired permits.
        guard: F,
        #[pin]
        request: PermitRequest,
    }

    impl<T: ?Sized, F> PinnedDrop for AcquireOwned<T, F> {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            if let Some(lock) = this.lock {
                lock.raw.cancel(this.request);
            }
        }
    }
}

impl<T: ?Sized, F> AcquireOwned<T, F> {
    #[inline]
    pub(super) fn new(
        lock: Arc<RwLock<T>>,
        access: Access,
        site: &'static Location<'static>,
        guard: F,
    ) -> Self {
        let request = lock.raw.request(access, site);
        Self { lock: Some(lock), access, guard, request }
    }
}

impl<T, G, F> Future for AcquireOwned<T, F>
where
    T: ?Sized,
    F: Fn(OwnedRawGuard<T>) -> G,
{
    type Output = G;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<G> {
        let this = self.project();
        let lock =
            this.lock.as_ref().expect("future of an owned `RwLock` guard polled after completion");
        let held = ready!(lock.raw.poll_acquire(this.request, *this.access, cx));
        let lock = this.lock.take().expect("checked above");
        Poll::Ready((this.guard)(OwnedRawGuard::new(lock, held)))
    }
}
