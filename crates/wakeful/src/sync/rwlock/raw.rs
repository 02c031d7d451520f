//! The reader-writer lock without its value, built on a semaphore.
//!
//! The semaphore has one permit per possible reader. A reader holds one permit; a writer holds all
//! of them. So the lock inherits the semaphore's protocol and fairness. Permits that readers
//! release are collected for a waiting writer. Readers that come after that writer wait behind it.

use super::RwLock;
use crate::sync::acquire::PermitRequest;
use crate::sync::permit_owners::OwnerIndex;
use crate::sync::raw_semaphore::{AcquireOutcome, Closed, RawSemaphore};
use crate::sys::sync::const_unless_model;
use crate::task::wait_kind::WaitKind;
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// A reader-writer lock without a value.
pub(super) struct RawRwLock {
    permits: RawSemaphore,
    /// The number of all permits.
    max_readers: u32,
}

/// The kind of access that a guard gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

impl RawRwLock {
    const_unless_model! {
        pub(super) fn new(max_readers: u32) -> Self {
            Self {
                permits: RawSemaphore::new(max_readers as usize),
                max_readers,
            }
        }
    }

    #[inline]
    fn permits_for(&self, access: Access) -> u32 {
        match access {
            Access::Read => 1,
            Access::Write => self.max_readers,
        }
    }

    /// Creates a request that [`poll_acquire`](Self::poll_acquire) takes.
    #[inline]
    pub(super) fn request(
        &self,
        access: Access,
        site: &'static Location<'static>,
    ) -> PermitRequest {
        PermitRequest::new(self.permits_for(access) as usize, site)
    }

    #[inline]
    pub(super) fn poll_acquire(
        &self,
        request: Pin<&mut PermitRequest>,
        access: Access,
        cx: &mut Context<'_>,
    ) -> Poll<HeldPermits> {
        let kind = match access {
            Access::Read => WaitKind::RwLockRead,
            Access::Write => WaitKind::RwLockWrite,
        };
        match ready!(request.poll(&self.permits, kind, cx)) {
            Ok(owner) => Poll::Ready(HeldPermits { permits: self.permits_for(access), owner }),
            Err(Closed) => unreachable!("the semaphore of a lock is never closed"),
        }
    }

    #[inline]
    pub(super) fn cancel(&self, request: Pin<&mut PermitRequest>) {
        request.cancel(&self.permits);
    }

    /// Acquires the permits if no waiting is needed.
    #[inline]
    pub(super) fn try_acquire(
        &self,
        access: Access,
        site: &'static Location<'static>,
    ) -> Option<HeldPermits> {
        let permits = self.permits_for(access);
        match self.permits.try_acquire(permits as usize, site) {
            AcquireOutcome::Acquired(owner) => Some(HeldPermits { permits, owner }),
            AcquireOutcome::NoPermits | AcquireOutcome::Closed => None,
        }
    }

    #[inline]
    fn release(&self, held: &HeldPermits) {
        self.permits.release(held.permits as usize, held.owner);
    }

    /// Releases all permits of a writer but one, so that it becomes a reader.
    fn downgrade(&self, held: &mut HeldPermits) {
        let unneeded = held.permits - 1;
        held.permits = 1;
        if unneeded > 0 {
            self.permits.release(unneeded as usize, OwnerIndex::NONE);
        }
    }
}

/// Acquired permits, which the owner returns with `release`.
#[must_use]
pub(super) struct HeldPermits {
    permits: u32,
    owner: OwnerIndex,
}

/// Permits of a borrowed lock, which it releases when dropped.
pub(super) struct RawGuard<'a> {
    raw: &'a RawRwLock,
    held: HeldPermits,
}

impl<'a> RawGuard<'a> {
    #[inline]
    pub(super) fn new(raw: &'a RawRwLock, held: HeldPermits) -> Self {
        Self { raw, held }
    }

    /// Turns exclusive into shared access.
    pub(super) fn downgrade(mut self) -> Self {
        self.raw.downgrade(&mut self.held);
        self
    }
}

impl Drop for RawGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.raw.release(&self.held);
    }
}

/// Permits of a lock that is kept alive through an `Arc`; releases them when dropped.
pub(super) struct OwnedRawGuard<T: ?Sized> {
    pub(super) lock: Arc<RwLock<T>>,
    held: HeldPermits,
}

impl<T: ?Sized> OwnedRawGuard<T> {
    #[inline]
    pub(super) fn new(lock: Arc<RwLock<T>>, held: HeldPermits) -> Self {
        lock.raw.permits.mark_movable();
        Self { lock, held }
    }

    /// Turns exclusive into shared access.
    pub(super) fn downgrade(mut self) -> Self {
        self.lock.raw.downgrade(&mut self.held);
        self
    }
}

impl<T: ?Sized> Drop for OwnedRawGuard<T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.raw.release(&self.held);
    }
}
