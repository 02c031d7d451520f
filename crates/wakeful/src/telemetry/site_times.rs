//! Poll times and wait times of tasks, by spawn site.
//!
//! Recording is off until the live page is served. From then on a worker also records its timed
//! poll, and the wait before it, for the spawn site of the task. One thread writes the table of a
//! worker with plain stores; any thread may read it.

use crate::telemetry::histogram::{Counts, Histogram};
use std::panic::Location;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering::*};
use std::time::Duration;

/// The number of sites that a table has room for. Further sites are not recorded.
const SITES: usize = 128;
/// The number of slots probed for a site.
const PROBES: usize = 8;

static IS_ENABLED: AtomicBool = AtomicBool::new(false);

/// Starts recording, for the rest of the process.
#[cfg(feature = "page")]
pub(crate) fn enable() {
    IS_ENABLED.store(true, Relaxed);
}

/// Returns whether timed polls are recorded by site.
#[inline]
pub(crate) fn is_enabled() -> bool {
    IS_ENABLED.load(Relaxed)
}

/// The times of one worker, by site.
#[derive(Debug)]
pub(crate) struct SiteTimes {
    /// `SITES` slots.
    table: OnceLock<Box<[Slot]>>,
}

#[derive(Debug)]
struct Slot {
    /// Null if the slot is free. A slot keeps its site forever.
    site: AtomicPtr<Location<'static>>,
    polls: Histogram,
    waits: Histogram,
}

impl Slot {
    fn free() -> Self {
        Self {
            site: AtomicPtr::new(ptr::null_mut()),
            polls: Histogram::new(),
            waits: Histogram::new(),
        }
    }
}

impl SiteTimes {
    pub(crate) fn new() -> Self {
        Self { table: OnceLock::new() }
    }

    /// Records a poll that represents `weight` polls, and the wait before it. Only the thread that
    /// holds the worker's core may call it.
    #[cold]
    pub(crate) fn record(
        &self,
        site: &'static Location<'static>,
        poll: Duration,
        weight: u64,
        waited: Option<Duration>,
    ) {
        // Collected on the heap: the array would not fit a small stack.
        let table = self.table.get_or_init(|| (0..SITES).map(|_| Slot::free()).collect());
        let start = ptr::from_ref(site).addr() >> 3;
        let slots = (0..PROBES).map(|step| &table[(start + step) % SITES]);
        for slot in slots {
            let owner = slot.site.load(Relaxed);
            if owner.is_null() {
                // Release pairs with the Acquire load of `read`, which follows the address.
                slot.site.store(ptr::from_ref(site).cast_mut(), Release);
            } else if !ptr::eq(owner, site) {
                continue;
            }
            slot.polls.record(poll, weight);
            if let Some(waited) = waited {
                slot.waits.record(waited, weight);
            }
            return;
        }
    }

    /// Calls `f` with the poll times and the waits of each site.
    #[cfg(feature = "page")]
    pub(crate) fn read(&self, f: &mut dyn FnMut(&'static Location<'static>, Counts, Counts)) {
        for slot in self.table.get().iter().flat_map(|table| table.iter()) {
            // Acquire pairs with the Release store of `record`.
            let site = slot.site.load(Acquire);
            // SAFETY: only `record` stores here, a `&'static`; null means free.
            if let Some(site) = unsafe { site.as_ref() } {
                f(site, slot.polls.read(), slot.waits.read());
            }
        }
    }
}

#[cfg(all(test, feature = "page", not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn sites_are_kept_apart_and_bounded() {
        let sites: Vec<Location<'static>> = vec![*Location::caller(); 4 * SITES];
        let sites: &'static [_] = sites.leak();
        let (times, ms) = (SiteTimes::new(), Duration::from_millis(1));
        times.record(&sites[0], ms, 2, None);
        times.record(&sites[1], 2 * ms, 1, Some(5 * ms));
        let mut read = Vec::new();
        times.read(&mut |site, polls, waits| {
            let counts = (polls.counts.iter().sum::<u64>(), waits.counts.iter().sum::<u64>());
            read.push((ptr::from_ref(site).addr(), counts));
        });
        read.sort_unstable();
        let address = |index: usize| ptr::from_ref(&sites[index]).addr();
        assert_eq!(read, [(address(0), (2, 0)), (address(1), (1, 1))]);
        sites.iter().for_each(|site| times.record(site, ms, 1, None));
        let mut count = 0;
        times.read(&mut |_, _, _| count += 1);
        assert!(count > SITES / 2 && count <= SITES, "{count}");
    }
}
