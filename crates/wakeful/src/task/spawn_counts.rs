//! The number of tasks spawned in an arena, by spawn site.
//!
//! Only the holder of the arena's allocator counts, one thread at a time (ARENA-1). So counting
//! takes a plain load and store. Any thread may read.
//!
//! Most spawns have the same site as the previous spawn, so its slot is tried first. Otherwise the
//! address of the spawn's [`Location`] selects a slot, which then belongs to the site permanently.
//! The first table is allocated with the first spawn, so that a runtime without tasks starts and
//! stops quickly. A second table is allocated if a program spawns at more sites. Spawns at further
//! sites only count in the total.
//!
//! - COUNT-1. `last` points to a slot of these tables, or to `NO_SLOT`. The tables are boxed, so they do
//!   not move. They are freed with the arena.

use super::origin::Origin;
use std::panic::Location;
use std::ptr;
// std's atomics even in models, because no model has two threads that count.
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::*};

const FIRST: usize = 64;
const SECOND: usize = 1024;
/// The number of slots that are tried for a site; its address selects the first.
const PROBES: usize = 8;

/// The spawn counts of an arena, by site.
pub(super) struct SpawnCounts {
    /// The slot of the last spawn (COUNT-1). Only the thread that counts reads it.
    last: AtomicPtr<Slot>,
    first: Table<FIRST>,
    second: Table<SECOND>,
    /// The number of spawns at sites without a slot.
    unlisted: AtomicU64,
}

type Table<const SLOTS: usize> = OnceLock<Box<[Slot; SLOTS]>>;

struct Slot {
    /// Null if the slot is free. Written once.
    site: AtomicPtr<Location<'static>>,
    count: AtomicU64,
}

/// The slot that `last` points to before the first spawn. No spawn counts in it, because no site
/// has a null address.
static NO_SLOT: Slot = Slot::free();

impl Slot {
    const fn free() -> Self {
        Self { site: AtomicPtr::new(ptr::null_mut()), count: AtomicU64::new(0) }
    }

    /// Claims the slot for a site, if it is free. Returns false if the slot belongs to another
    /// site.
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

/// Increments a count, which only one thread at a time writes (ARENA-1).
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
        // SAFETY: COUNT-1. The pointer was written by this thread, or by a previous holder of the
        // allocator, which handed it over.
        let last = unsafe { &*self.last.load(Relaxed) };
        // The address of details never equals a site's address, because its lowest bit is set.
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

    /// Returns the total number of spawns.
    pub(super) fn total(&self) -> u64 {
        let listed: u64 = self.slots().map(|slot| slot.count.load(Relaxed)).sum();
        listed + self.unlisted.load(Relaxed)
    }

    /// Calls `f` with each site and the number of its spawns. Any thread may call this.
    pub(super) fn read(&self, mut f: impl FnMut(&'static Location<'static>, u64)) {
        for slot in self.slots() {
            // Acquire pairs with the Release store of `claim_for`.
            let site = slot.site.load(Acquire);
            // SAFETY: only `claim_for` stores here, and only a `&'static`; null means free.
            if let Some(site) = unsafe { site.as_ref() } {
                f(site, slot.count.load(Relaxed));
            }
        }
    }
}

/// Returns the slot of a site, and allocates the table if necessary.
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
        // Up to 200 sites each get a slot. Of 5,000 sites, some count only in the total.
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
