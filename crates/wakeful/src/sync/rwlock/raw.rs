//! A share of a read-write lock: what a guard gives back.
//!
//! The lock is a number of permits, as many as there can be readers. A reader has
//! one, a writer all. So the permits' protocol is the lock's, and its order is theirs:
//! a writer that waits has the permits of readers that are done put aside for it, and
//! readers that come after it wait behind it.

use super::RwLock;
use crate::sync::acquire::PermitRequest;
use crate::sync::permit_owners::OwnerIndex;
use crate::sync::raw_semaphore::{Closed, RawSemaphore, Taken};
use crate::sys::sync::const_unless_model;
use crate::task::wait_kind::WaitKind;
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// The lock without the value.
pub(super) struct RawRwLock {
    permits: RawSemaphore,
    /// How many permits there are in all.
    max_readers: u32,
}

/// How much of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Share {
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
    fn permits_of(&self, share: Share) -> u32 {
        match share {
            Share::Read => 1,
            Share::Write => self.max_readers,
        }
    }

    /// What to wait with.
    #[inline]
    pub(super) fn acquire(&self, share: Share, site: &'static Location<'static>) -> PermitRequest {
        PermitRequest::new(self.permits_of(share) as usize, site)
    }

    #[inline]
    pub(super) fn poll_acquire(
        &self,
        acquiring: Pin<&mut PermitRequest>,
        share: Share,
        cx: &mut Context<'_>,
    ) -> Poll<HeldPermits> {
        let kind = match share {
            Share::Read => WaitKind::RwLockRead,
            Share::Write => WaitKind::RwLockWrite,
        };
        match ready!(acquiring.poll(&self.permits, kind, cx)) {
            Ok(spot) => Poll::Ready(HeldPermits { permits: self.permits_of(share), spot }),
            Err(Closed) => unreachable!("nobody closes the permits of a lock"),
        }
    }

    #[inline]
    pub(super) fn cancel(&self, acquiring: Pin<&mut PermitRequest>) {
        acquiring.cancel(&self.permits);
    }

    /// None if it is not to be had at once.
    #[inline]
    pub(super) fn try_acquire(
        &self,
        share: Share,
        site: &'static Location<'static>,
    ) -> Option<HeldPermits> {
        let permits = self.permits_of(share);
        match self.permits.try_take(permits as usize, site) {
            Taken::Yes(spot) => Some(HeldPermits { permits, spot }),
            Taken::Short | Taken::Closed => None,
        }
    }

    #[inline]
    fn give_back(&self, portion: &HeldPermits) {
        self.permits.put(portion.permits as usize, portion.spot);
    }

    /// From a writer's portion to a reader's, without letting go in between.
    fn downgrade(&self, portion: &mut HeldPermits) {
        let unneeded = portion.permits - 1;
        portion.permits = 1;
        if unneeded > 0 {
            self.permits.put(unneeded as usize, OwnerIndex::NOWHERE);
        }
    }
}

/// Permits of a lock, which whoever has this gives back.
#[must_use]
pub(super) struct HeldPermits {
    permits: u32,
    spot: OwnerIndex,
}

/// A share of a borrowed lock, given back when dropped.
pub(super) struct Hold<'a> {
    raw: &'a RawRwLock,
    portion: HeldPermits,
}

impl<'a> Hold<'a> {
    #[inline]
    pub(super) fn new(raw: &'a RawRwLock, portion: HeldPermits) -> Self {
        Self { raw, portion }
    }

    /// From a writer's share to a reader's.
    pub(super) fn downgrade(mut self) -> Self {
        self.raw.downgrade(&mut self.portion);
        self
    }
}

impl Drop for Hold<'_> {
    #[inline]
    fn drop(&mut self) {
        self.raw.give_back(&self.portion);
    }
}

/// A share of a lock, given back when dropped, together with a share in its memory.
pub(super) struct OwnedHold<T: ?Sized> {
    pub(super) lock: Arc<RwLock<T>>,
    portion: HeldPermits,
}

impl<T: ?Sized> OwnedHold<T> {
    #[inline]
    pub(super) fn new(lock: Arc<RwLock<T>>, portion: HeldPermits) -> Self {
        lock.raw.permits.go_anywhere();
        Self { lock, portion }
    }

    /// From a writer's share to a reader's.
    pub(super) fn downgrade(mut self) -> Self {
        self.lock.raw.downgrade(&mut self.portion);
        self
    }
}

impl<T: ?Sized> Drop for OwnedHold<T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.raw.give_back(&self.portion);
    }
}
