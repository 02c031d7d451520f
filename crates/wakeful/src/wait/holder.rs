//! Who has what others wait for: the task and the place in the program where it
//! got it. Plain stores, always on; read by whoever asks why a task is not
//! running. Not part of any protocol, so std's atomics also in models.

use crate::task::context;
use std::panic::Location;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering::*};

/// A note of one holder. Readers may see a note that was just replaced, and
/// never half of a place.
#[derive(Debug)]
pub(crate) struct Holder {
    /// 0 for a holder that is no task; in one of several places, [`FREE`] while it is
    /// nobody's.
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
/// In a place of [`Holders`]: it may be claimed.
const FREE: u64 = u64::MAX;

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

    #[inline]
    fn word(self) -> u64 {
        self.task | if self.granted { GRANTED } else { 0 }
    }
}

impl Holder {
    pub(crate) const fn nobody() -> Self {
        Self { task: AtomicU64::new(FREE), site: AtomicPtr::new(ptr::null_mut()) }
    }

    /// The current task has it from here on.
    #[inline]
    pub(crate) fn set(&self, site: &'static Location<'static>) {
        self.note(Held::by_current(site));
    }

    /// Whoever it is has it from here on.
    #[inline]
    pub(crate) fn note(&self, held: Held) {
        self.task.store(held.word(), Relaxed);
        self.site.store(ptr::from_ref(held.site).cast_mut(), Relaxed);
    }

    #[inline]
    pub(crate) fn clear(&self) {
        self.site.store(ptr::null_mut(), Relaxed);
    }

    /// Notes it in a place that is nobody's, or answers that it is somebody's. Of
    /// several at the same moment one gets it.
    #[inline]
    fn claim(&self, held: Held) -> bool {
        let is_free = self.task.load(Relaxed) == FREE
            && self.task.compare_exchange(FREE, held.word(), SeqCst, Relaxed).is_ok();
        if is_free {
            self.site.store(ptr::from_ref(held.site).cast_mut(), Relaxed);
        }
        is_free
    }

    /// Somebody has claimed it and not said where.
    fn is_arriving(&self) -> bool {
        self.task.load(SeqCst) != FREE && self.site.load(Relaxed).is_null()
    }

    /// The end of what `claim` began.
    #[inline]
    fn free(&self) {
        self.clear();
        // Release: whoever claims it next stores its site later than this one's end.
        self.task.store(FREE, Release);
    }

    pub(crate) fn get(&self) -> Option<Held> {
        // SAFETY: only `&'static`s are stored here.
        let site = unsafe { self.site.load(Relaxed).as_ref()? };
        let task = self.task.load(Relaxed);
        if task == FREE {
            return None;
        }
        Some(Held { task: task & !GRANTED, site, granted: task & GRANTED != 0 })
    }
}

/// The holders of something that several can have: a few by name, the others by
/// number. Each holder is one of the named, in a place that is its own until it leaves,
/// or one of the others; so as long as there are no others, all are known.
///
/// While there are others, newcomers are only counted, but for one: to name four of
/// ten, and others every moment, would cost more than it tells.
#[derive(Debug)]
pub(crate) struct Holders {
    others: AtomicU32,
    places: [Holder; PLACES],
}

/// How many holders are named at most.
const PLACES: usize = 4;

/// Where a holder's note stands, or that it is one of the others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place(u8);

impl Place {
    const OTHERS: Place = Place(PLACES as u8);

    /// As the remark that a waiter is left, which is 0 if it is left none.
    pub(crate) fn to_remark(self) -> u32 {
        u32::from(self.0) + 1
    }

    pub(crate) fn from_remark(remark: u32) -> Option<Self> {
        remark.checked_sub(1).map(|place| Self(place as u8))
    }

    pub(crate) fn is_named(self) -> bool {
        usize::from(self.0) < PLACES
    }
}

impl Holders {
    pub(crate) const fn nobody() -> Self {
        Self { others: AtomicU32::new(0), places: [const { Holder::nobody() }; PLACES] }
    }

    /// The current task has some from here on.
    #[inline]
    pub(crate) fn add(&self, site: &'static Location<'static>) -> Place {
        self.note(Held::by_current(site))
    }

    /// Somebody has some from here on.
    #[inline]
    pub(crate) fn note(&self, held: Held) -> Place {
        let open = if self.others.load(Relaxed) == 0 { PLACES } else { 1 };
        match self.places[..open].iter().position(|holder| holder.claim(held)) {
            Some(place) => Place(place as u8),
            None => {
                self.others.fetch_add(1, SeqCst);
                Place::OTHERS
            }
        }
    }

    /// Whoever is there has none any more.
    #[inline]
    pub(crate) fn remove(&self, place: Place) {
        match self.places.get(usize::from(place.0)) {
            Some(holder) => holder.free(),
            None => {
                self.others.fetch_sub(1, Relaxed);
            }
        }
    }

    /// The current task takes up what was granted to a future of it.
    #[inline]
    pub(crate) fn take_up(&self, place: Place, site: &'static Location<'static>) {
        if let Some(holder) = self.places.get(usize::from(place.0)) {
            holder.set(site);
        }
    }

    /// The one holder of a thing that can have one only.
    #[inline]
    pub(crate) fn replace_first(&self, held: Option<Held>) {
        match held {
            Some(held) => self.places[0].note(held),
            None => self.places[0].clear(),
        }
    }

    /// Notes those of another thing instead of whoever was noted. What is the same
    /// stays untouched, for the sake of others who read it.
    pub(crate) fn copy(&self, from: &Holders) {
        let is_unnamed =
            from.others.load(SeqCst) > 0 || from.places.iter().any(Holder::is_arriving);
        let others = u32::from(is_unnamed);
        if self.others.load(Relaxed) != others {
            self.others.store(others, Relaxed);
        }
        for (to, from) in self.places.iter().zip(&from.places) {
            match (to.get(), from.get()) {
                (old, new) if old == new => {}
                (_, Some(held)) => to.note(held),
                (_, None) => to.clear(),
            }
        }
    }

    /// Notes nobody.
    pub(crate) fn clear(&self) {
        self.copy(&Holders::nobody());
    }

    /// Whether there are some that have no name here.
    pub(crate) fn has_others(&self) -> bool {
        self.others.load(Relaxed) > 0
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Held> {
        self.places.iter().filter_map(Holder::get)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn named(holders: &Holders) -> usize {
        holders.iter().count()
    }

    #[test]
    fn all_are_named_until_there_are_too_many() {
        let holders = Holders::nobody();
        let site = Location::caller();
        let mut places: Vec<Place> = (0..PLACES).map(|_| holders.add(site)).collect();
        assert_eq!((named(&holders), holders.has_others()), (PLACES, false));
        let fifth = holders.add(site);
        assert!(!fifth.is_named() && holders.has_others());
        // Two of the named leave: those left are not all.
        places.drain(..2).for_each(|place| holders.remove(place));
        assert_eq!((named(&holders), holders.has_others()), (2, true));
        // One who comes now is named, the next is not.
        let sixth = holders.add(site);
        let seventh = holders.add(site);
        assert!(sixth.is_named() && !seventh.is_named());
        for other in [fifth, seventh] {
            assert!(holders.has_others());
            holders.remove(other);
        }
        assert_eq!((named(&holders), holders.has_others()), (3, false), "all are known again");
    }

    #[test]
    fn what_is_granted_is_taken_up_in_its_own_place() {
        let holders = Holders::nobody();
        let site = Location::caller();
        let grant = || Held { task: 7, site, granted: true };
        let places = [holders.note(grant()), holders.note(grant())];
        let again = places.map(|place| Place::from_remark(place.to_remark()).unwrap());
        holders.take_up(again[1], site);
        let granted: Vec<bool> = holders.iter().map(|held| held.granted).collect();
        assert_eq!(granted, [true, false]);
        assert!(Place::from_remark(0).is_none());
        let plate = Holders::nobody();
        plate.copy(&holders);
        assert!(plate.iter().eq(holders.iter()));
        plate.clear();
        assert_eq!(named(&plate), 0);
    }

    #[test]
    fn a_place_has_one_holder_at_a_time() {
        const ROUNDS: u64 = 20_000;
        let holders = Holders::nobody();
        let site = Location::caller();
        std::thread::scope(|scope| {
            for me in 1..=6 {
                let holders = &holders;
                scope.spawn(move || {
                    for _ in 0..ROUNDS {
                        let place = holders.note(Held { task: me, site, granted: false });
                        if place.is_named() {
                            let noted = holders.places[usize::from(place.0)].get();
                            assert_eq!(noted.map(|held| held.task), Some(me), "it is mine");
                        }
                        holders.remove(place);
                    }
                });
            }
        });
        assert_eq!((named(&holders), holders.has_others()), (0, false));
    }
}
