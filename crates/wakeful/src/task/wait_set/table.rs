//! All wait sets of the process: the table that finds them by index, and the free lists.

use super::WaitSet;
use super::slot::Slot;
use crate::sys::sync::atomic::{AtomicPtr, AtomicU32, Ordering::*};
use crate::sys::sync::ignore_poison;
use std::ptr;
use std::sync::atomic::AtomicPtr as StdPtr;
use std::sync::{Mutex, MutexGuard};

/// All sets, in chunks that are never freed. Chunk `k` has `FIRST_CHUNK << k` entries.
///
/// A poll that records several waits reads the table each time, so reading takes no lock. Models
/// also use std's atomics here, because a set is reached through an index that its task has
/// published.
static CHUNKS: [StdPtr<StdPtr<WaitSet>>; 26] = [const { StdPtr::new(ptr::null_mut()) }; 26];
pub(super) const FIRST_CHUNK: u32 = 64;
/// The number of sets; locked while a set is added.
pub(super) static COUNT: Mutex<u32> = Mutex::new(0);

/// Returns the chunk of an index, and the position in it.
pub(super) fn position(index: u32) -> (usize, usize) {
    let chunk = (index / FIRST_CHUNK + 1).ilog2();
    (chunk as usize, (index - FIRST_CHUNK * ((1 << chunk) - 1)) as usize)
}

/// The number of free lists, to reduce contention between worker threads.
const SHARDS: usize = 8;
static UNUSED: [Mutex<Vec<&'static WaitSet>>; SHARDS] = [const { Mutex::new(Vec::new()) }; SHARDS];

/// The sets of ended tasks whose waiters are still in a list (SET-2).
pub(super) static LINGERING: Mutex<Vec<&'static WaitSet>> = Mutex::new(Vec::new());

/// Removes from [`LINGERING`] a set whose last link was removed, and returns it.
fn take_lingering() -> Option<&'static WaitSet> {
    let mut lingering = ignore_poison(LINGERING.lock());
    let position = lingering.iter().position(|set| !set.has_links())?;
    Some(lingering.swap_remove(position))
}

/// Locks a free list. No foreign code runs under the lock.
pub(super) fn unused(shard: usize) -> MutexGuard<'static, Vec<&'static WaitSet>> {
    ignore_poison(UNUSED[shard % SHARDS].lock())
}

/// Returns the number of the calling thread's free list, before it is taken modulo [`SHARDS`].
///
/// The number is derived from an address on the thread's stack. Two threads may get the same list.
pub(super) fn own_shard() -> usize {
    let on_stack = 0_u8;
    ptr::from_ref(&on_stack).addr() >> 21
}

impl WaitSet {
    /// Returns a set without waits, reusing a free one if possible.
    pub(in crate::task) fn obtain() -> &'static WaitSet {
        let own = own_shard();
        let reused = (0..SHARDS).find_map(|shard| unused(own + shard).pop());
        reused.or_else(take_lingering).unwrap_or_else(Self::add_to_table)
    }

    fn add_to_table() -> &'static WaitSet {
        let mut count = ignore_poison(COUNT.lock());
        let index = *count;
        let set: &'static WaitSet = Box::leak(Box::new(WaitSet {
            index,
            slots: [Slot::new(), Slot::new(), Slot::new(), Slot::new()],
            next: AtomicPtr::new(ptr::null_mut()),
            poll: AtomicU32::new(0),
            last: AtomicU32::new(0),
        }));
        let (chunk, position) = position(index);
        let mut entries = CHUNKS[chunk].load(Relaxed);
        if entries.is_null() {
            let vacant = |_| StdPtr::new(ptr::null_mut());
            let new: Box<[_]> = (0..FIRST_CHUNK << chunk).map(vacant).collect();
            entries = Box::leak(new).as_mut_ptr();
            // Release pairs with the Acquire load of `at`.
            CHUNKS[chunk].store(entries, Release);
        }
        // SAFETY: the chunk has more entries than `position`, and is never freed.
        let entry = unsafe { &*entries.add(position) };
        // Release pairs with the Acquire load of `at`.
        entry.store(ptr::from_ref(set).cast_mut(), Release);
        *count = index.checked_add(1).expect("fewer than 2^32 tasks wait at once");
        set
    }

    /// Returns the set with this index, if it exists.
    pub(in crate::task) fn at(index: u32) -> Option<&'static WaitSet> {
        let (chunk, position) = position(index);
        let entries = CHUNKS.get(chunk)?.load(Acquire);
        if entries.is_null() {
            return None;
        }
        // SAFETY: the chunk has more entries than `position`, and is never freed. An entry is null or a
        // `&'static`.
        unsafe { (*entries.add(position)).load(Acquire).as_ref() }
    }
}
