//! How long tasks were polled, beside their cells: a table per chunk of memory, made
//! when the first of its tasks has spent a while. Most chunks never need one, and no
//! header carries it.

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::*};
use std::time::Duration;

/// One unit of the table.
const UNIT: Duration = Duration::from_micros(10);

/// A word per cell: above, the lower half of the id of the task that it is about,
/// below, its time in units. So nothing has to be done when a cell is used again.
pub(super) struct PollTime(AtomicPtr<AtomicU64>);

impl PollTime {
    pub(super) fn empty() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// Adds to what the task with this id, in the cell of this index, has spent. Two
    /// who add at the same moment may lose one of the two: it is a measure.
    pub(super) fn add(&self, cells: usize, index: usize, id: u64, time: Duration) {
        let units = (time.as_nanos() / UNIT.as_nanos()).min(u128::from(u32::MAX)) as u32;
        if units == 0 {
            return;
        }
        assert!(index < cells);
        // SAFETY: below `cells`, and tables have so many words.
        let word = unsafe { &*self.table(cells).add(index) };
        let old = word.load(Relaxed);
        let before = if (old >> 32) as u32 == id as u32 { old as u32 } else { 0 };
        word.store(id << 32 | u64::from(before.saturating_add(units)), Relaxed);
    }

    /// `index` is that of a cell of this chunk.
    pub(super) fn get(&self, index: usize, id: u64) -> Duration {
        let table = self.0.load(Acquire);
        if table.is_null() {
            return Duration::ZERO;
        }
        // SAFETY: tables have a word per cell.
        let word = unsafe { &*table.add(index) }.load(Relaxed);
        if (word >> 32) as u32 == id as u32 { UNIT * (word as u32) } else { Duration::ZERO }
    }

    fn table(&self, cells: usize) -> *const AtomicU64 {
        let table = self.0.load(Acquire);
        if table.is_null() { self.make(cells) } else { table }
    }

    #[cold]
    fn make(&self, cells: usize) -> *const AtomicU64 {
        let words: Box<[AtomicU64]> = (0..cells).map(|_| AtomicU64::new(0)).collect();
        let new = Box::into_raw(words).cast::<AtomicU64>();
        match self.0.compare_exchange(ptr::null_mut(), new, AcqRel, Acquire) {
            Ok(_) => new,
            Err(first) => {
                // SAFETY: made above, and nobody has seen it.
                unsafe { free(new, cells) };
                first
            }
        }
    }

    /// With the chunk, whose cells nobody uses any more.
    pub(super) fn free(&self, cells: usize) {
        let table = self.0.swap(ptr::null_mut(), AcqRel);
        if !table.is_null() {
            // SAFETY: made in `make` with as many words, and taken out.
            unsafe { free(table, cells) };
        }
    }
}

/// # Safety
///
/// `table` came from `make` with so many cells, and is not used again.
unsafe fn free(table: *mut AtomicU64, cells: usize) {
    // SAFETY: by contract.
    drop(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(table, cells)) });
}

#[cfg(test)]
mod tests {
    use super::PollTime;
    use std::time::Duration;

    #[test]
    fn counts_per_task_and_forgets_the_one_before() {
        let (spent, ms) = (PollTime::empty(), Duration::from_millis(1));
        assert_eq!(spent.get(1, 7), Duration::ZERO);
        spent.add(3, 1, 7, Duration::from_nanos(9_999));
        assert_eq!(spent.get(1, 7), Duration::ZERO, "too little for a table");
        spent.add(3, 1, 7, ms);
        spent.add(3, 1, 7, ms);
        assert_eq!(spent.get(1, 7), 2 * ms);
        assert_eq!((spent.get(0, 7), spent.get(1, 8)), (Duration::ZERO, Duration::ZERO));
        spent.add(3, 1, 8, ms);
        assert_eq!((spent.get(1, 7), spent.get(1, 8)), (Duration::ZERO, ms));
        spent.add(3, 1, 8, Duration::MAX);
        assert_eq!(spent.get(1, 8).as_secs(), 42_949, "the most that fits");
        spent.free(3);
    }
}
