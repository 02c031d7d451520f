//! Fingerprints of a future's memory.
//!
//! Two equal fingerprints mean that the polls in between did not change that memory.
//!
//! A future that waits by polling checks a flag, wakes itself, and stays the same. A future that works in
//! its polls usually counts in its own variables, which the fingerprint covers. If the future has at most
//! two words, such as a `Pin<Box<dyn Future>>`, the fingerprint also covers the memory that the first
//! word points to.
//!
//! The kernel copies the memory while the future may be polled ([`own_memory`]). A word that is not a
//! pointer, or a stale pointer, does no harm. At worst the fingerprint changes for another reason.

use crate::sys::own_memory;
use crate::task::header::FutureMemory;
use std::hash::{DefaultHasher, Hasher};
use std::ops::Range;

/// The maximum number of bytes of a future that the fingerprint covers.
const FUTURE: usize = 4096;
/// The number of bytes covered behind a pointer if the size of its allocation is unknown.
const UNKNOWN: usize = 32;
/// The range of addresses at which an allocation can be.
const ADDRESSES: Range<usize> = 0x1_0000..1 << 47;

/// Adds the memory at `address` to the hash. Returns the first word there, if it can be read.
fn add(hasher: &mut DefaultHasher, address: usize, len: usize) -> Option<usize> {
    let mut bytes = [0; FUTURE];
    let count = own_memory::read(address, &mut bytes[..len.min(FUTURE)]);
    hasher.write(&bytes[..count]);
    let first = bytes[..count].first_chunk().map(|word| usize::from_ne_bytes(*word));
    if count == 0 { None } else { Some(first.unwrap_or(0)) }
}

/// Estimates the size of the allocation at this address.
///
/// glibc stores it in the word before the allocation, with flags in the lowest bits. With other
/// allocators the word has any value. The memory after a small allocation is not the future's, so
/// changes of it must not count.
fn allocated_len(address: usize) -> usize {
    let mut word = [0; size_of::<usize>()];
    let count = own_memory::read(address - word.len(), &mut word);
    let size = usize::from_ne_bytes(word) & !0b111;
    let is_size = count == word.len() && size.is_multiple_of(16) && (32..=1 << 20).contains(&size);
    if is_size { size - word.len() } else { UNKNOWN }
}

/// Returns the fingerprint of a future's memory, or `None` if the kernel does not permit reading
/// it.
///
/// A pointer into `excluded` is not followed.
pub(super) fn of(memory: FutureMemory, excluded: Range<usize>) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    let FutureMemory { address, len, is_boxed } = memory;
    if is_boxed {
        let pointer = add(&mut DefaultHasher::new(), address, size_of::<usize>())?;
        add(&mut hasher, pointer, len)?;
        return Some(hasher.finish());
    }
    let first = add(&mut hasher, address, len)?;
    let is_pointer = len <= 2 * size_of::<usize>()
        && first.is_multiple_of(align_of::<usize>())
        && ADDRESSES.contains(&first)
        && !excluded.contains(&first);
    if is_pointer {
        add(&mut hasher, first, allocated_len(first));
    }
    Some(hasher.finish())
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use super::{FutureMemory, of};
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    fn memory_of<T>(future: &T) -> FutureMemory {
        let address = std::ptr::from_ref(future).addr();
        FutureMemory { address, len: size_of::<T>(), is_boxed: false }
    }

    #[test]
    fn a_change_in_the_future_or_its_box_is_seen() {
        let boxed = Box::new([const { AtomicU64::new(0) }; 4]);
        let (own, outer) = (memory_of(&*boxed), memory_of(&boxed));
        let before = (of(own, 0..0), of(outer, 0..0));
        assert!(before.0.is_some() && before == (of(own, 0..0), of(outer, 0..0)));
        boxed[3].store(1, Relaxed);
        assert!(of(own, 0..0) != before.0 && of(outer, 0..0) != before.1);
    }
}
