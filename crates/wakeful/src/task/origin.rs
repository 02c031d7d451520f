//! Where a task was spawned, and its name.

use std::panic::Location;
use std::ptr::NonNull;

/// The spawn site of a task and its name, in one word.
///
/// Most tasks have no name, so only a named task allocates. The lowest bit tells the two forms
/// apart: clear for a `&'static Location`, set for a leaked [`Named`].
#[derive(Clone, Copy)]
pub(crate) struct Origin(NonNull<u8>);

struct Named {
    name: Box<str>,
    spawned_at: &'static Location<'static>,
}

const NAMED: usize = 1;
const _: () = assert!(align_of::<Location<'static>>() > NAMED && align_of::<Named>() > NAMED);

impl Origin {
    /// The site of the caller, without a name.
    #[track_caller]
    pub(crate) fn here() -> Self {
        Self::at(Location::caller(), None)
    }

    /// The given site and name. A name is allocated, and freed by [`release`](Self::release).
    pub(crate) fn at(spawned_at: &'static Location<'static>, name: Option<&str>) -> Self {
        match name {
            None => Self(NonNull::from(spawned_at).cast()),
            Some(name) => {
                let named = Box::new(Named { name: name.into(), spawned_at });
                let ptr = NonNull::from(Box::leak(named)).cast::<u8>();
                Self(ptr.map_addr(|addr| addr | NAMED))
            }
        }
    }

    fn named(&self) -> Option<&Named> {
        if self.0.addr().get() & NAMED == 0 {
            return None;
        }
        // SAFETY: the bit says that `at` leaked a `Named` here. It lives until `release`, which
        // ends this origin.
        Some(unsafe { &*self.0.as_ptr().map_addr(|addr| addr & !NAMED).cast::<Named>() })
    }

    /// Returns the word as an address: that of the site, or that of a name, with its lowest bit set.
    #[inline]
    pub(super) fn address(self) -> usize {
        self.0.addr().get()
    }

    pub(crate) fn name(&self) -> Option<&str> {
        self.named().map(|named| &*named.name)
    }

    pub(crate) fn spawned_at(&self) -> &'static Location<'static> {
        match self.named() {
            Some(named) => named.spawned_at,
            // SAFETY: without the bit, `at` stored a `&'static Location`.
            None => unsafe { self.0.cast().as_ref() },
        }
    }

    /// Frees the name. The arena calls this when it frees the cell.
    pub(crate) fn release(self) {
        if self.0.addr().get() & NAMED != 0 {
            let ptr = self.0.as_ptr().map_addr(|addr| addr & !NAMED).cast::<Named>();
            // SAFETY: `at` leaked it, and it is released once: the cell is being freed.
            drop(unsafe { Box::from_raw(ptr) });
        }
    }
}
