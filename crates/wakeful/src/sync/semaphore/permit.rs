//! What a semaphore gives out.

use super::Semaphore;
use crate::sync::permit_owners::OwnerIndex;
use std::panic::Location;
use std::sync::Arc;

/// Permits of a [`Semaphore`], which go back to it when this is dropped.
#[must_use = "the permits go back at once if this is not kept"]
#[clippy::has_significant_drop]
#[derive(Debug)]
pub struct SemaphorePermit<'a> {
    sem: &'a Semaphore,
    permits: usize,
    spot: OwnerIndex,
}

/// Permits of a [`Semaphore`], which go back to it when this is dropped. It keeps
/// the semaphore alive.
#[must_use = "the permits go back at once if this is not kept"]
#[clippy::has_significant_drop]
#[derive(Debug)]
pub struct OwnedSemaphorePermit {
    sem: Arc<Semaphore>,
    permits: usize,
    spot: OwnerIndex,
}

impl<'a> SemaphorePermit<'a> {
    /// For whoever just took them.
    #[inline]
    pub(super) fn new(sem: &'a Semaphore, permits: usize, spot: OwnerIndex) -> Self {
        Self { sem, permits, spot }
    }

    /// Keeps the permits from going back, for good.
    pub fn forget(mut self) {
        self.permits = 0;
    }

    /// Adds the permits of another one to this.
    ///
    /// # Panics
    ///
    /// If the other is one of another semaphore.
    #[track_caller]
    pub fn merge(&mut self, mut other: Self) {
        assert!(
            std::ptr::eq(self.sem, other.sem),
            "merging permits from different semaphore instances"
        );
        self.permits = merged(self.permits, other.permits);
        other.permits = 0;
        self.spot.stay_somewhere(&mut other.spot);
    }

    /// Takes `n` permits out of this, as one of their own; None if there are fewer.
    #[track_caller]
    pub fn split(&mut self, n: usize) -> Option<Self> {
        self.permits = self.permits.checked_sub(n)?;
        let spot = self.sem.permits.note_split(Location::caller());
        Some(Self::new(self.sem, n, spot))
    }

    /// The semaphore it is one of.
    pub fn semaphore(&self) -> &Semaphore {
        self.sem
    }

    /// How many permits it stands for.
    pub fn num_permits(&self) -> usize {
        self.permits
    }
}

impl Drop for SemaphorePermit<'_> {
    #[inline]
    fn drop(&mut self) {
        self.sem.give_back(self.permits, self.spot);
    }
}

impl OwnedSemaphorePermit {
    /// For whoever just took them.
    #[inline]
    pub(super) fn new(sem: Arc<Semaphore>, permits: usize, spot: OwnerIndex) -> Self {
        sem.permits.go_anywhere();
        Self { sem, permits, spot }
    }

    /// Keeps the permits from going back, for good.
    pub fn forget(mut self) {
        self.permits = 0;
    }

    /// Adds the permits of another one to this.
    ///
    /// # Panics
    ///
    /// If the other is one of another semaphore.
    #[track_caller]
    pub fn merge(&mut self, mut other: Self) {
        assert!(
            Arc::ptr_eq(&self.sem, &other.sem),
            "merging permits from different semaphore instances"
        );
        self.permits = merged(self.permits, other.permits);
        other.permits = 0;
        self.spot.stay_somewhere(&mut other.spot);
    }

    /// Takes `n` permits out of this, as one of their own; None if there are fewer.
    #[track_caller]
    pub fn split(&mut self, n: usize) -> Option<Self> {
        self.permits = self.permits.checked_sub(n)?;
        let spot = self.sem.permits.note_split(Location::caller());
        Some(Self::new(self.sem.clone(), n, spot))
    }

    /// The semaphore it is one of.
    pub fn semaphore(&self) -> &Arc<Semaphore> {
        &self.sem
    }

    /// How many permits it stands for.
    pub fn num_permits(&self) -> usize {
        self.permits
    }
}

impl Drop for OwnedSemaphorePermit {
    #[inline]
    fn drop(&mut self) {
        self.sem.give_back(self.permits, self.spot);
    }
}

#[track_caller]
fn merged(permits: usize, more: usize) -> usize {
    permits.checked_add(more).expect("number of permits overflowed")
}
