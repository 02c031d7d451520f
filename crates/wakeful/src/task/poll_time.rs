//! The total poll time of tasks: a table for the cells of a chunk.
//!
//! A chunk gets its table when one of its tasks has been polled for at least one unit of time. Most
//! chunks never need a table, and headers stay small.

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::*};
use std::time::Duration;

/// The unit of the table.
const UNIT: Duration = Duration::from_micros(10);

/// The poll times of the tasks in one chunk.
///
/// One word per cell: the upper half has the lower half of the task's id, the lower half has the
/// time in units. So a spawn need not reset the word of a reused cell.
pub(super) struct PollTime(AtomicPtr<AtomicU64>);

impl PollTime {
    pub(super) fn empty() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// Adds to the time of the task `id` in the cell `index`.
    ///
    /// If two threads add at once, one addition may be lost: the time is an estimate.
    pub(super) fn add(&self, cells: usize, index: usize, id: u64, time: Duration) {
        let units = (time.as_nanos() / UNIT.as_nanos()).min(u128::from(u32::MAX)) as u32;
        if units == 0 {
            return;
        }
        assert!(index < cells);
        // SAFETY: the index is below `cells`, and the table has a word per cell.
        let word = unsafe { &*self.table(cells).add(index) };
        let old = word.load(Relaxed);
        let before = if (old >> 32) as u32 == id as u32 { old as u32 } else { 0 };
        word.store(id << 32 | u64::from(before.saturating_add(units)), Relaxed);
    }

    /// Returns the time of the task `id` in the cell `index` of this chunk.
    pub(super) fn get(&self, index: usize, id: u64) -> Duration {
        let table = self.0.load(Acquire);
        if table.is_null() {
            return Duration::ZERO;
        }
        // SAFETY: the table has a word per cell.
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
                // SAFETY: the table was created above, and never published.
                unsafe { free(new, cells) };
                first
            }
        }
    }

    /// Frees the table, when the chunk is freed.
    pub(super) fn free(&self, cells: usize) {
        let table = self.0.swap(ptr::null_mut(), AcqRel);
        if !table.is_null() {
            // SAFETY: `make` created the table with as many words, and the swap removed it.
            unsafe { free(table, cells) };
        }
    }
}

/// Frees a table.
///
/// # Safety
///
/// `make` must have created `table` for as many cells, and it must not be used again.
unsafe fn free(table: *mut AtomicU64, cells: usize) {
    // SAFETY: by contract.
    drop(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(table, cells)) });
}

#[cfg(test)]
mod tests {
    use super::PollTime;
    use std::time::Duration;

    #[test]
    fn time_is_counted_per_task_and_reset_for_a_new_id() {
        let (times, ms) = (PollTime::empty(), Duration::from_millis(1));
        assert_eq!(times.get(1, 7), Duration::ZERO);
        times.add(3, 1, 7, Duration::from_nanos(9_999));
        assert_eq!(times.get(1, 7), Duration::ZERO, "too little for a table");
        times.add(3, 1, 7, ms);
        times.add(3, 1, 7, ms);
        assert_eq!(times.get(1, 7), 2 * ms);
        assert_eq!((times.get(0, 7), times.get(1, 8)), (Duration::ZERO, Duration::ZERO));
        times.add(3, 1, 8, ms);
        assert_eq!((times.get(1, 7), times.get(1, 8)), (Duration::ZERO, ms));
        times.add(3, 1, 8, Duration::MAX);
        assert_eq!(times.get(1, 8).as_secs(), 42_949, "the largest value that fits");
        times.free(3);
    }
}
