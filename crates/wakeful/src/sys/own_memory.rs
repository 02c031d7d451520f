//! Reads memory of this process through the kernel.
//!
//! Diagnostics read memory that other threads write, that may be freed, and that may be uninitialized.
//! The kernel copies it, or refuses if nothing is mapped there. So the program itself makes no access,
//! and there is no data race.
#![allow(unsafe_code)]

/// Copies memory at `address` to `buf`. Returns the number of bytes copied: fewer at the end of a
/// mapping, 0 if the kernel refuses.
pub(crate) fn read(address: usize, buf: &mut [u8]) -> usize {
    if cfg!(any(miri, all(test, loom))) {
        return 0;
    }
    let local = libc::iovec { iov_base: buf.as_mut_ptr().cast(), iov_len: buf.len() };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: buf.len() };
    // SAFETY: the kernel writes at most `buf.len()` bytes to `buf`, which is exclusively borrowed. It
    // reads the remote memory only if it is mapped.
    let count = unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) };
    usize::try_from(count).unwrap_or(0)
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use super::read;

    #[test]
    fn mapped_memory_is_copied_and_other_memory_refused() {
        let bytes = *b"in this process";
        let mut copy = [0; 15];
        assert_eq!((read(bytes.as_ptr().addr(), &mut copy), copy), (15, bytes));
        assert_eq!(read(8, &mut copy), 0, "the first page is not mapped");
    }
}
