//! How many tasks were spawned in an arena, by the site of the spawn.
//!
//! One thread at a time counts: the holder of the arena's allocator (ARENA-1). So a count is a plain
//! load and store. Any thread may read.
//!
//! Most spawns follow one at the same site, so the slot of the last spawn is tried first. Otherwise
//! the address of the spawn's [`Location`] selects a slot, which stays that of the site for good. The
//! first table is allocated with the first spawn, so that a runtime without tasks starts and stops
//! quickly. The second one is allocated if a program spawns at more sites. Beyond that, only the total
//! counts.
//!
//! - COUNT-1. `last` points to a slot of these tables, or to `NO_SLOT`. The tables are boxed, so they do
//!   not move. They are freed with the arena.

use super::origin::Origin;
use std::panic::Location;
use std::ptr;
// The atomics of std, also in models: a model has no two threads that count.
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::*};

const FIRST: usize = 64;
const SECOND: usize = 1024;
/// How many slots are tried for a site. Its address selects the first.
const PROBES: usize = 8;

/// Spawns by site.
pub(super) struct SpawnCounts {
    /// The slot of the last spawn (COUNT-1). Only the thread that counts reads it.
    last: AtomicPtr<Slot>,
    first: Table<FIRST>,
    second: Table<SECOND>,
    /// Spawns at sites that have no slot.
    unlisted: AtomicU64,
}

type Table<const SLOTS: usize> = OnceLock<Box<[Slot; SLOTS]>>;

struct Slot {
    /// Null if the slot is free. Written once.
    site: AtomicPtr<Location<'static>>,
    count: AtomicU64,
}

/// The slot that `last` points to before the first spawn. No spawn counts there, because no site has
/// the address null.
static NO_SLOT: Slot = Slot::free();

impl Slot {
    const fn free() -> Self {
        Self { site: AtomicPtr::new(ptr::null_mut()), count: AtomicU64::new(0) }
    }

    /// Claims the slot for a site, if it is free. Returns false if another site has it.
    fn claim_for(&self, site: &'static Location<'static>) -> bool {
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

/// Returns the first slot for a site. Locations are aligned to 8 bytes and 24 bytes long, so
/// neighbours have different slots.
fn start_of(address: usize, slots: usize) -> usize {
    (address >> 3) & (slots - 1)
}

impl SpawnCounts {
    pub(super) fn new() -> Self {
        Self {
            last: AtomicPtr::new((&raw const NO_SLOT).cast_mut()),
            first: OnceLock::new(),
            second: OnceLock::new(),
            unlisted: AtomicU64::new(0),
        }
    }

    /// Counts a spawn. The caller holds the arena's allocator (ARENA-1).
    #[inline]
    pub(super) fn add(&self, origin: Origin) {
        // SAFETY: COUNT-1. This thread wrote the pointer, or the thread that held the allocator before
        // and handed it over.
        let last = unsafe { &*self.last.load(Relaxed) };
        // The address of a name never equals that of a site: its lowest bit is set.
        if last.site.load(Relaxed).addr() == origin.address() {
            return increment(&last.count);
        }
        self.add_slow(origin.spawned_at());
    }

    #[cold]
    fn add_slow(&self, site: &'static Location<'static>) {
        let slot = find(&self.first, site).or_else(|| find(&self.second, site));
        let Some(slot) = slot else { return increment(&self.unlisted) };
        self.last.store(ptr::from_ref(slot).cast_mut(), Relaxed);
        increment(&slot.count);
    }

    fn slots(&self) -> impl Iterator<Item = &Slot> {
        let first = self.first.get().into_iter().flat_map(|table| table.iter());
        first.chain(self.second.get().into_iter().flat_map(|table| table.iter()))
    }

    /// Returns the number of all spawns.
    pub(super) fn total(&self) -> u64 {
        let listed: u64 = self.slots().map(|slot| slot.count.load(Relaxed)).sum();
        listed + self.unlisted.load(Relaxed)
    }

    /// Calls `f` with each site and the number of its spawns. Any thread may call this.
    pub(super) fn read(&self, mut f: impl FnMut(&'static Location<'static>, u64)) {
        for slot in self.slots() {
            // Acquire pairs with the Release store of `claim_for`.
            let site = slot.site.load(Acquire);
            // SAFETY: only `claim_for` stores here, a `&'static`; null is free.
            if let Some(site) = unsafe { site.as_ref() } {
                f(site, slot.count.load(Relaxed));
            }
        }
    }
}

/// Returns the slot of a site. Allocates the table if there is none yet.
fn find<'a, const SLOTS: usize>(
    table: &'a Table<SLOTS>,
    site: &'static Location<'static>,
) -> Option<&'a Slot> {
    let slots = table.get_or_init(|| Box::new([const { Slot::free() }; SLOTS]));
    let start = start_of(ptr::from_ref(site).addr(), SLOTS);
    (0..PROBES).map(|step| &slots[(start + step) % SLOTS]).find(|slot| slot.claim_for(site))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Leaks sites that are as far apart as the compiler's.
    fn sites(count: usize) -> Vec<&'static Location<'static>> {
        let sites: Vec<Location<'static>> = vec![*Location::caller(); count];
        sites.leak().iter().collect()
    }

    #[test]
    fn each_site_has_its_count_and_none_is_lost() {
        // Up to 200 sites each have a slot. Of 5,000, some are only part of the total.
        for (number, all_listed) in [(1, true), (60, true), (200, true), (5_000, false)] {
            let (counts, sites) = (SpawnCounts::new(), sites(number));
            let mut expected = 0;
            for round in 1..=3 {
                for (index, site) in sites.iter().enumerate() {
                    for _ in 0..=(index % round) {
                        counts.add(Origin::at(site, None));
                        expected += 1;
                    }
                }
            }
            assert_eq!(counts.total(), expected, "{number} sites");
            let mut read = BTreeMap::new();
            counts.read(|site, count| {
                assert!(read.insert(ptr::from_ref(site).addr(), count).is_none());
            });
            assert_eq!(read.len() == number, all_listed, "{number} sites, {} read", read.len());
            let listed: u64 = read.values().sum();
            assert_eq!(listed + counts.unlisted.load(Relaxed), expected, "{number} sites");
        }
    }

    #[test]
    fn named_spawns_count_for_their_site() {
        let (counts, site) = (SpawnCounts::new(), Location::caller());
        for name in ["a", "b"] {
            let origin = Origin::at(site, Some(name));
            counts.add(origin);
            origin.release();
        }
        counts.add(Origin::at(site, None));
        let mut read = Vec::new();
        counts.read(|site, count| read.push((site.line(), count)));
        assert_eq!(read, [(site.line(), 3)]);
    }
}
