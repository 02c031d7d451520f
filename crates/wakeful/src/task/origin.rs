//! The origin of a task: its spawn site, its name, and the data that a hook attached.

use super::data::Attached;
use std::panic::Location;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, Ordering::*};

/// The spawn site of a task, its name and its data, in one word.
///
/// Most tasks have neither name nor data, and allocate nothing for them. The lowest bit
/// distinguishes the two forms: clear for a `&'static Location`, set for a leaked [`Details`].
#[derive(Clone, Copy)]
pub(crate) struct Origin(NonNull<u8>);

struct Details {
    name: Option<Box<str>>,
    spawned_at: &'static Location<'static>,
    attached: Option<Attached>,
    /// The origin before data was attached. A dump may still be reading it.
    replaced: Option<Origin>,
}

const DETAILED: usize = 1;
const _: () =
    assert!(align_of::<Location<'static>>() > DETAILED && align_of::<Details>() > DETAILED);

impl Origin {
    /// Creates an origin from the site of the caller, without a name.
    #[track_caller]
    pub(crate) fn here() -> Self {
        Self::at(Location::caller(), None)
    }

    /// Creates an origin from a site and a name, which [`release`](Self::release) frees.
    pub(crate) fn at(spawned_at: &'static Location<'static>, name: Option<&str>) -> Self {
        match name {
            None => Self(NonNull::from(spawned_at).cast()),
            Some(name) => {
                let name = Some(name.into());
                Self::detailed(Details { name, spawned_at, attached: None, replaced: None })
            }
        }
    }

    fn detailed(details: Details) -> Self {
        let ptr = NonNull::from(Box::leak(Box::new(details))).cast::<u8>();
        Self(ptr.map_addr(|addr| addr | DETAILED))
    }

    /// Returns this origin with data. The new origin owns this one.
    pub(super) fn with_data(self, attached: Attached) -> Self {
        let (name, spawned_at) = (self.name().map(Into::into), self.spawned_at());
        Self::detailed(Details { name, spawned_at, attached: Some(attached), replaced: Some(self) })
    }

    fn details(&self) -> Option<&Details> {
        // SAFETY: the result borrows from this origin, which is not used after `release`.
        unsafe { self.details_of_task() }
    }

    /// Returns the details, which live as long as the task's cell.
    ///
    /// # Safety
    ///
    /// The result must not be used after [`release`](Self::release).
    unsafe fn details_of_task<'a>(self) -> Option<&'a Details> {
        if self.0.addr().get() & DETAILED == 0 {
            return None;
        }
        // SAFETY: the bit says that `detailed` leaked the details. They live until `release`.
        Some(unsafe { &*self.0.as_ptr().map_addr(|addr| addr & !DETAILED).cast::<Details>() })
    }

    /// Returns the attachment of the task, if a hook has set data.
    ///
    /// # Safety
    ///
    /// The result must not be used after [`release`](Self::release).
    pub(super) unsafe fn attached<'a>(self) -> Option<&'a Attached> {
        // SAFETY: by contract.
        unsafe { self.details_of_task() }?.attached.as_ref()
    }

    /// Returns the word as an address: of the site, or of the details with the lowest bit set.
    #[inline]
    pub(super) fn address(self) -> usize {
        self.0.addr().get()
    }

    pub(crate) fn name(&self) -> Option<&str> {
        self.details()?.name.as_deref()
    }

    pub(crate) fn spawned_at(&self) -> &'static Location<'static> {
        match self.details() {
            Some(details) => details.spawned_at,
            // SAFETY: without the bit, `at` stored a `&'static Location`.
            None => unsafe { self.0.cast().as_ref() },
        }
    }

    /// Frees name and data. The arena calls this when it frees the cell.
    pub(crate) fn release(self) {
        if self.0.addr().get() & DETAILED != 0 {
            self.release_details();
        }
    }

    #[inline(never)]
    fn release_details(self) {
        let ptr = self.0.as_ptr().map_addr(|addr| addr & !DETAILED).cast::<Details>();
        // SAFETY: `detailed` leaked the details, and they are released once, when the cell is
        // freed.
        let details = unsafe { Box::from_raw(ptr) };
        if let Some(replaced) = details.replaced {
            replaced.release();
        }
    }
}

/// The origin of a task, in its header.
///
/// A std atomic even in models, because models attach no data.
pub(crate) struct OriginCell(AtomicPtr<u8>);

impl OriginCell {
    pub(super) fn new(origin: Origin) -> Self {
        Self(AtomicPtr::new(origin.0.as_ptr()))
    }

    /// Returns the origin. Pairs with `attach`, because a dump may read while a spawn hook runs.
    #[inline]
    pub(crate) fn get(&self) -> Origin {
        // SAFETY: only addresses of origins are stored, which are not null.
        Origin(unsafe { NonNull::new_unchecked(self.0.load(Acquire)) })
    }

    /// Writes the origin of a new task. The state word publishes it.
    #[inline]
    pub(super) fn set(&self, origin: Origin) {
        self.0.store(origin.0.as_ptr(), Relaxed);
    }

    /// Replaces the origin of a task that was not polled yet with one that owns the former origin.
    pub(super) fn attach(&self, attached: Attached) {
        self.0.store(self.get().with_data(attached).0.as_ptr(), Release);
    }
}
