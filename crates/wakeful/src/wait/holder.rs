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
    /// A task or root; 0 if the holder is neither.
    pub(crate) task: u64,
    pub(crate) site: &'static Location<'static>,
    /// It was handed to a future of that task, which has not been polled since.
    pub(crate) granted: bool,
}

/// In a note, beside the task: see [`Held::granted`]. No id reaches this bit.
const GRANTED: u64 = 1 << 62;

impl Held {
    /// The current task, if it gets what it asks for.
    #[inline]
    pub(crate) fn by_current(site: &'static Location<'static>) -> Self {
        Self { task: context::current_id(), site, granted: false }
    }

    /// The same, handed over and not yet taken up.
    #[inline]
    pub(crate) fn granted(self) -> Self {
        Self { granted: true, ..self }
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
        self.task.store(held.task | if held.granted { GRANTED } else { 0 }, Relaxed);
        self.site.store(ptr::from_ref(held.site).cast_mut(), Relaxed);
    }

    #[inline]
    pub(crate) fn clear(&self) {
        self.site.store(ptr::null_mut(), Relaxed);
    }

    pub(crate) fn get(&self) -> Option<Held> {
        // SAFETY: only `set` stores here, and only `&'static`s.
        let site = unsafe { self.site.load(Relaxed).as_ref()? };
        let task = self.task.load(Relaxed);
        Some(Held { task: task & !GRANTED, site, granted: task & GRANTED != 0 })
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

    /// The current task takes up what was granted to a future made at `site`.
    pub(crate) fn take_up(&self, site: &'static Location<'static>) -> Place {
        match self.granted_at(site) {
            Some(place) => {
                self.0[place].set(site);
                Place(place as u8)
            }
            None => self.add(site),
        }
    }

    /// What was granted to a future made at `site` goes on to another.
    pub(crate) fn withdraw(&self, site: &'static Location<'static>) {
        if let Some(place) = self.granted_at(site) {
            self.0[place].clear();
        }
    }

    fn granted_at(&self, site: &'static Location<'static>) -> Option<usize> {
        let is_it = |held: Held| held.granted && ptr::eq(held.site, site);
        self.0.iter().position(|holder| holder.get().is_some_and(is_it))
    }

    /// Somebody has some from here on, if there is a place to note it.
    pub(crate) fn note(&self, held: Held) {
        if let Some(free) = self.0.iter().find(|holder| holder.get().is_none()) {
            free.note(held);
        }
    }

    /// The one holder of a thing that can have one only.
    #[inline]
    pub(crate) fn replace_first(&self, held: Option<Held>) {
        match held {
            Some(held) => self.0[0].note(held),
            None => self.0[0].clear(),
        }
    }

    /// Notes these instead of whoever was noted.
    pub(crate) fn replace(&self, held: impl IntoIterator<Item = Held>) {
        let mut held = held.into_iter();
        for holder in &self.0 {
            match held.next() {
                Some(held) => holder.note(held),
                None => holder.clear(),
            }
        }
    }

    /// Whether there may be holders that had no place.
    pub(crate) fn is_full(&self) -> bool {
        self.iter().count() == PLACES
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Held> {
        self.0.iter().filter_map(Holder::get)
    }
}
