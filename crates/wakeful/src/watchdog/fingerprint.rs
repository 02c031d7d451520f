//! Fingerprints of the memory of a future: equal ones mean that its polls have changed nothing there.
//!
//! A future that waits by polling looks at a flag, wakes itself, and is the same as before. A future that
//! does work in its polls usually counts it in its own variables. A fingerprint covers these. If the
//! future is no larger than two words, such as a `Pin<Box<dyn Future>>`, it covers what the first word
//! points to as well.
//!
//! The memory is copied by the kernel while the future may be polled ([`own_memory`]). A pointer that is
//! none, or that is stale, makes no harm: at worst the fingerprint changes for another reason.

use crate::sys::own_memory;
use crate::task::header::FutureMemory;
use std::hash::{DefaultHasher, Hasher};
use std::ops::Range;

/// The most bytes of a future that count.
const FUTURE: usize = 4096;
/// The bytes that count at a pointer if the size of its allocation is not known.
const UNKNOWN: usize = 32;
/// No allocation lies below or above.
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
/// allocators the word is anything. Memory behind a small allocation belongs to others, and its changes
/// say nothing of the future.
fn allocated_len(address: usize) -> usize {
    let mut word = [0; size_of::<usize>()];
    let count = own_memory::read(address - word.len(), &mut word);
    let size = usize::from_ne_bytes(word) & !0b111;
    let is_size = count == word.len() && size.is_multiple_of(16) && (32..=1 << 20).contains(&size);
    if is_size { size - word.len() } else { UNKNOWN }
}

/// Returns the fingerprint of a future's memory, or `None` if the kernel does not allow to read it.
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
