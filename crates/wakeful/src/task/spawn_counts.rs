//! How many tasks were spawned in an arena, by the place of the spawn.
//!
//! One thread at a time counts: the holder of the arena's allocator (ARENA-1). So a count is a plain
//! load and store. Any thread may read.
//!
//! Most spawns follow one at the same place, so the slot of the last spawn is tried first. Otherwise
//! the address of the spawn's [`Location`] selects a slot, which stays that of the place for good. The
//! first table is part of the arena. The second one is allocated if a program spawns at more places.
//! Beyond that, only the total counts.
//!
//! - COUNT-1. `last` points to a slot of these tables, or to `NO_SLOT`. The tables do not move after the
//!   first count, and are freed with the arena.

use super::origin::Origin;
use std::panic::Location;
use std::ptr;
// The atomics of std, also in models: a model has no two threads that count.
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::*};

const FIRST: usize = 64;
const SECOND: usize = 1024;
/// A place has one of the first 8 slots from its own, which its address selects.
const PROBES: usize = 8;

/// Spawns by place.
pub(super) struct SpawnCounts {
    /// The slot of the last spawn (COUNT-1). Only the thread that counts reads it.
    last: AtomicPtr<Slot>,
    first: [Slot; FIRST],
    second: OnceLock<Box<[Slot; SECOND]>>,
    /// Spawns at places that have no slot.
    unlisted: AtomicU64,
}

struct Slot {
    /// Null if the slot is free. Written once.
    site: AtomicPtr<Location<'static>>,
    count: AtomicU64,
}

/// The slot of no place: no place is null.
static NO_SLOT: Slot = Slot::free();

impl Slot {
    const fn free() -> Self {
        Self { site: AtomicPtr::new(ptr::null_mut()), count: AtomicU64::new(0) }
    }

    /// Returns whether the slot is this place's, which may have to take it first.
    fn is_for(&self, site: &'static Location<'static>) -> bool {
        let owner = self.site.load(Relaxed);
        if owner.is_null() {
            // Release pairs with the Acquire load of `read`, which follows the address.
            self.site.store(ptr::from_ref(site).cast_mut(), Release);
            return true;
        }
        ptr::eq(owner, site)
    }
}

/// Adds one. Only one thread at a time writes (ARENA-1).
#[inline]
fn increment(count: &AtomicU64) {
    count.store(count.load(Relaxed) + 1, Relaxed);
}

/// Returns the first slot for a place. Locations are aligned to 8 bytes and 24 bytes long, so
/// neighbours have different slots.
fn start_of(address: usize, slots: usize) -> usize {
    (address >> 3) & (slots - 1)
}

impl SpawnCounts {
    pub(super) fn new() -> Self {
        Self {
            last: AtomicPtr::new((&raw const NO_SLOT).cast_mut()),
            first: [const { Slot::free() }; FIRST],
            second: OnceLock::new(),
            unlisted: AtomicU64::new(0),
        }
    }

    /// Counts a spawn. The caller holds the arena's allocator (ARENA-1), so the arena does not move.
    #[inline]
    pub(super) fn add(&self, origin: Origin) {
        // SAFETY: COUNT-1. The thread that counts wrote the pointer, or the one before it, from which
        // it received the allocator.
        let last = unsafe { &*self.last.load(Relaxed) };
        // The address of a name never equals that of a place: its lowest bit is set.
        if last.site.load(Relaxed).addr() == origin.address() {
            return increment(&last.count);
        }
        self.add_slow(origin.spawned_at());
    }

    #[cold]
    fn add_slow(&self, site: &'static Location<'static>) {
        let slot = find(&self.first, site).or_else(|| {
            let second = self.second.get_or_init(|| Box::new([const { Slot::free() }; SECOND]));
            find(&second[..], site)
        });
        let Some(slot) = slot else { return increment(&self.unlisted) };
        self.last.store(ptr::from_ref(slot).cast_mut(), Relaxed);
        increment(&slot.count);
    }

    fn slots(&self) -> impl Iterator<Item = &Slot> {
        self.first.iter().chain(self.second.get().into_iter().flat_map(|second| second.iter()))
    }

    /// Returns the number of all spawns.
    pub(super) fn total(&self) -> u64 {
        let listed: u64 = self.slots().map(|slot| slot.count.load(Relaxed)).sum();
        listed + self.unlisted.load(Relaxed)
    }

    /// Calls `f` with each place and the number of its spawns. Any thread may call this.
    pub(super) fn read(&self, mut f: impl FnMut(&'static Location<'static>, u64)) {
        for slot in self.slots() {
            // Acquire pairs with the Release store of `is_for`.
            let site = slot.site.load(Acquire);
            // SAFETY: only `is_for` stores here, a `&'static`; null is free.
            if let Some(site) = unsafe { site.as_ref() } {
                f(site, slot.count.load(Relaxed));
            }
        }
    }
}

fn find<'a>(slots: &'a [Slot], site: &'static Location<'static>) -> Option<&'a Slot> {
    let start = start_of(ptr::from_ref(site).addr(), slots.len());
    (0..PROBES).map(|step| &slots[(start + step) % slots.len()]).find(|slot| slot.is_for(site))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Leaks places that are as far apart as the compiler's.
    fn places(count: usize) -> Vec<&'static Location<'static>> {
        let places: Vec<Location<'static>> = vec![*Location::caller(); count];
        places.leak().iter().collect()
    }

    #[test]
    fn each_place_has_its_count_and_none_is_lost() {
        // Up to 200 places each have a slot. Of 5,000, some are only part of the total.
        for (number, all_listed) in [(1, true), (60, true), (200, true), (5_000, false)] {
            let (counts, places) = (SpawnCounts::new(), places(number));
            let mut expected = 0;
            for round in 1..=3 {
                for (index, place) in places.iter().enumerate() {
                    for _ in 0..=(index % round) {
                        counts.add(Origin::at(place, None));
                        expected += 1;
                    }
                }
            }
            assert_eq!(counts.total(), expected, "{number} places");
            let mut read = BTreeMap::new();
            counts.read(|place, count| {
                assert!(read.insert(ptr::from_ref(place).addr(), count).is_none());
            });
            assert_eq!(read.len() == number, all_listed, "{number} places, {} read", read.len());
            let listed: u64 = read.values().sum();
            assert_eq!(listed + counts.unlisted.load(Relaxed), expected, "{number} places");
        }
    }

    #[test]
    fn named_spawns_count_for_their_place() {
        let (counts, place) = (SpawnCounts::new(), Location::caller());
        for name in ["a", "b"] {
            let origin = Origin::at(place, Some(name));
            counts.add(origin);
            origin.release();
        }
        counts.add(Origin::at(place, None));
        let mut read = Vec::new();
        counts.read(|place, count| read.push((place.line(), count)));
        assert_eq!(read, [(place.line(), 3)]);
    }
}
