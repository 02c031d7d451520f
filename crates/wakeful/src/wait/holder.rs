//! Who has what others wait for: the task and the place in the program where it
//! got it. Plain stores, always on; read by whoever asks why a task is not
//! running. Not part of any protocol, so std's atomics also in models.

use crate::task::context;
use std::panic::Location;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::Relaxed};

/// A note of one holder. Readers may see a note that was just replaced, and
/// never half of a place.
#[derive(Debug)]
pub(crate) struct Holder {
    /// 0 for a holder that is no task.
    task: AtomicU64,
    /// Null while there is no holder.
    site: AtomicPtr<Location<'static>>,
}

/// A copy of a [`Holder`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    /// 0 if the holder is no task.
    pub(crate) task: u64,
    pub(crate) site: &'static Location<'static>,
}

impl Held {
    /// The current task, if it gets what it asks for.
    #[inline]
    pub(crate) fn by_current(site: &'static Location<'static>) -> Self {
        Self { task: context::current_id(), site }
    }
}

impl Holder {
    pub(crate) const fn nobody() -> Self {
        Self { task: AtomicU64::new(0), site: AtomicPtr::new(ptr::null_mut()) }
    }

    /// The current task has it from here on.
    #[inline]
    pub(crate) fn set(&self, site: &'static Location<'static>) {
        self.note(Held::by_current(site));
    }

    /// Whoever it is has it from here on.
    #[inline]
    pub(crate) fn note(&self, held: Held) {
        self.task.store(held.task, Relaxed);
        self.site.store(ptr::from_ref(held.site).cast_mut(), Relaxed);
    }

    #[inline]
    pub(crate) fn clear(&self) {
        self.site.store(ptr::null_mut(), Relaxed);
    }

    #[allow(dead_code, reason = "read by the detectors, which come with `inspect`")]
    pub(crate) fn get(&self) -> Option<Held> {
        // SAFETY: only `set` stores here, and only `&'static`s.
        let site = unsafe { self.site.load(Relaxed).as_ref()? };
        Some(Held { task: self.task.load(Relaxed), site })
    }
}

/// The last few holders of something that several can have. Which of them a
/// release takes off is the holder's to say, by the place it got.
#[derive(Debug)]
pub(crate) struct Holders([Holder; PLACES]);

/// How many holders are remembered; more are there, but not named.
const PLACES: usize = 4;

/// Where a holder's note stands, if there was room for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place(u8);

impl Place {
    /// For a holder that was not noted.
    pub(crate) const NONE: Place = Place(PLACES as u8);
}

impl Holders {
    pub(crate) const fn nobody() -> Self {
        Self([const { Holder::nobody() }; PLACES])
    }

    /// The current task has some from here on. Two that come at the same moment
    /// may take the same place; then the later one's note stands.
    #[inline]
    pub(crate) fn add(&self, site: &'static Location<'static>) -> Place {
        let free = |holder: &Holder| holder.site.load(Relaxed).is_null();
        match self.0.iter().position(free) {
            Some(place) => {
                self.0[place].set(site);
                Place(place as u8)
            }
            None => Place::NONE,
        }
    }

    #[inline]
    pub(crate) fn remove(&self, place: Place) {
        if let Some(holder) = self.0.get(usize::from(place.0)) {
            holder.clear();
        }
    }

    #[allow(dead_code, reason = "read by the detectors, which come with `inspect`")]
    pub(crate) fn iter(&self) -> impl Iterator<Item = Held> {
        self.0.iter().filter_map(Holder::get)
    }
}
