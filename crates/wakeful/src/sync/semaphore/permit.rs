//! Guards of acquired semaphore permits.

use super::Semaphore;
use crate::sync::permit_owners::OwnerIndex;
use std::panic::Location;
use std::sync::Arc;

/// Permits of a [`Semaphore`]; returns them to the semaphore when dropped.
///
/// Returned by [`Semaphore::acquire`], [`acquire_many`](Semaphore::acquire_many) and their
/// variants. Bind the guard to a named variable: `let _ = ...` drops it immediately.
///
/// # Examples
///
/// ```
/// use wakeful::sync::Semaphore;
///
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() {
/// let semaphore = Semaphore::new(1);
/// {
///     let _permit = semaphore.acquire().await.unwrap();
///     assert_eq!(semaphore.available_permits(), 0);
/// } // returns the permit
/// assert_eq!(semaphore.available_permits(), 1);
/// # }
/// ```
#[must_use = "the permits return to the semaphore at once if this is not kept"]
#[clippy::has_significant_drop]
#[derive(Debug)]
pub struct SemaphorePermit<'a> {
    sem: &'a Semaphore,
    permits: usize,
    owner: OwnerIndex,
}

/// Owned permits of a [`Semaphore`]; keeps the semaphore alive and returns the permits when
/// dropped.
///
/// Returned by [`Semaphore::acquire_owned`], [`acquire_many_owned`](Semaphore::acquire_many_owned)
/// and their variants. The guard borrows nothing, so it can be moved into a spawned task.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use wakeful::sync::Semaphore;
///
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() {
/// let semaphore = Arc::new(Semaphore::new(1));
/// let permit = semaphore.clone().acquire_owned().await.unwrap();
/// wakeful::spawn(async move { drop(permit) }).await.unwrap();
/// assert_eq!(semaphore.available_permits(), 1);
/// # }
/// ```
#[must_use = "the permits return to the semaphore at once if this is not kept"]
#[clippy::has_significant_drop]
#[derive(Debug)]
pub struct OwnedSemaphorePermit {
    sem: Arc<Semaphore>,
    permits: usize,
    owner: OwnerIndex,
}

impl<'a> SemaphorePermit<'a> {
    /// Creates the guard of permits that the caller has just acquired.
    #[inline]
    pub(super) fn new(sem: &'a Semaphore, permits: usize, owner: OwnerIndex) -> Self {
        Self { sem, permits, owner }
    }

    /// Permanently removes the permits from the semaphore.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::Semaphore;
    ///
    /// let semaphore = Semaphore::new(3);
    /// semaphore.try_acquire().unwrap().forget();
    /// assert_eq!(semaphore.available_permits(), 2);
    /// ```
    pub fn forget(mut self) {
        self.permits = 0;
    }

    /// Merges the permits of `other` into this guard.
    ///
    /// # Panics
    ///
    /// Panics if `other` belongs to another semaphore.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::Semaphore;
    ///
    /// let semaphore = Semaphore::new(5);
    /// let mut permit = semaphore.try_acquire_many(2).unwrap();
    /// permit.merge(semaphore.try_acquire().unwrap());
    /// assert_eq!(permit.num_permits(), 3);
    /// ```
    #[track_caller]
    pub fn merge(&mut self, mut other: Self) {
        assert!(
            std::ptr::eq(self.sem, other.sem),
            "merging permits from different semaphore instances"
        );
        self.permits = merged(self.permits, other.permits);
        other.permits = 0;
        self.owner.keep_one(&mut other.owner);
    }

    /// Splits off `n` permits into a new guard, or returns `None` if there are fewer.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::Semaphore;
    ///
    /// let semaphore = Semaphore::new(5);
    /// let mut permit = semaphore.try_acquire_many(3).unwrap();
    /// let two = permit.split(2).unwrap();
    /// assert_eq!((permit.num_permits(), two.num_permits()), (1, 2));
    /// assert!(permit.split(2).is_none());
    /// ```
    #[track_caller]
    pub fn split(&mut self, n: usize) -> Option<Self> {
        self.permits = self.permits.checked_sub(n)?;
        let owner = self.sem.permits.record_split(Location::caller());
        Some(Self::new(self.sem, n, owner))
    }

    /// Returns the semaphore that the permits belong to.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::Semaphore;
    ///
    /// let semaphore = Semaphore::new(2);
    /// let permit = semaphore.try_acquire().unwrap();
    /// assert_eq!(permit.semaphore().available_permits(), 1);
    /// ```
    pub fn semaphore(&self) -> &Semaphore {
        self.sem
    }

    /// Returns the number of permits that this guard holds.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::Semaphore;
    ///
    /// let semaphore = Semaphore::new(3);
    /// assert_eq!(semaphore.try_acquire_many(2).unwrap().num_permits(), 2);
    /// ```
    pub fn num_permits(&self) -> usize {
        self.permits
    }
}

impl Drop for SemaphorePermit<'_> {
    #[inline]
    fn drop(&mut self) {
        self.sem.release(self.permits, self.owner);
    }
}

impl OwnedSemaphorePermit {
    /// Creates the guard of permits that the caller has just acquired.
    #[inline]
    pub(super) fn new(sem: Arc<Semaphore>, permits: usize, owner: OwnerIndex) -> Self {
        sem.permits.mark_movable();
        Self { sem, permits, owner }
    }

    /// Permanently removes the permits from the semaphore.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use wakeful::sync::Semaphore;
    ///
    /// let semaphore = Arc::new(Semaphore::new(3));
    /// semaphore.clone().try_acquire_owned().unwrap().forget();
    /// assert_eq!(semaphore.available_permits(), 2);
    /// ```
    pub fn forget(mut self) {
        self.permits = 0;
    }

    /// Merges the permits of `other` into this guard.
    ///
    /// # Panics
    ///
    /// Panics if `other` belongs to another semaphore.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use wakeful::sync::Semaphore;
    ///
    /// let semaphore = Arc::new(Semaphore::new(5));
    /// let mut permit = semaphore.clone().try_acquire_many_owned(2).unwrap();
    /// permit.merge(semaphore.clone().try_acquire_owned().unwrap());
    /// assert_eq!(permit.num_permits(), 3);
    /// ```
    #[track_caller]
    pub fn merge(&mut self, mut other: Self) {
        assert!(
            Arc::ptr_eq(&self.sem, &other.sem),
            "merging permits from different semaphore instances"
        );
        self.permits = merged(self.permits, other.permits);
        other.permits = 0;
        self.owner.keep_one(&mut other.owner);
    }

    /// Splits off `n` permits into a new guard, or returns `None` if there are fewer.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use wakeful::sync::Semaphore;
    ///
    /// let semaphore = Arc::new(Semaphore::new(5));
    /// let mut permit = semaphore.try_acquire_many_owned(3).unwrap();
    /// let two = permit.split(2).unwrap();
    /// assert_eq!((permit.num_permits(), two.num_permits()), (1, 2));
    /// ```
    #[track_caller]
    pub fn split(&mut self, n: usize) -> Option<Self> {
        self.permits = self.permits.checked_sub(n)?;
        let owner = self.sem.permits.record_split(Location::caller());
        Some(Self::new(self.sem.clone(), n, owner))
    }

    /// Returns the semaphore that the permits belong to.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use wakeful::sync::Semaphore;
    ///
    /// let semaphore = Arc::new(Semaphore::new(2));
    /// let permit = semaphore.clone().try_acquire_owned().unwrap();
    /// assert!(Arc::ptr_eq(permit.semaphore(), &semaphore));
    /// ```
    pub fn semaphore(&self) -> &Arc<Semaphore> {
        &self.sem
    }

    /// Returns the number of permits that this guard holds.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use wakeful::sync::Semaphore;
    ///
    /// let semaphore = Arc::new(Semaphore::new(3));
    /// assert_eq!(semaphore.try_acquire_many_owned(2).unwrap().num_permits(), 2);
    /// ```
    pub fn num_permits(&self) -> usize {
        self.permits
    }
}

impl Drop for OwnedSemaphorePermit {
    #[inline]
    fn drop(&mut self) {
        self.sem.release(self.permits, self.owner);
    }
}

#[track_caller]
fn merged(permits: usize, more: usize) -> usize {
    permits.checked_add(more).expect("number of permits overflowed")
}
