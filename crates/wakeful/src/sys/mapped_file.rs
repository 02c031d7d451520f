//! A read-only file mapping, used to read the debug information of the running program.
//!
//! Debug information may have a gigabyte. Only the pages of the mapping that are read take memory, and
//! the kernel can reclaim them.

#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::ptr::NonNull;

/// The mapped content of a file.
///
/// Only for files that no process writes to: reading a part that was truncated ends the process. The
/// kernel refuses writes to a running program.
pub(crate) struct MappedFile {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: the bytes are read-only and shared with no writer.
unsafe impl Send for MappedFile {}
// SAFETY: the bytes are read-only.
unsafe impl Sync for MappedFile {}

impl MappedFile {
    /// Maps a file.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let length = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
        let (access, kind) = (libc::PROT_READ, libc::MAP_PRIVATE);
        // SAFETY: a new mapping at an address that the kernel chooses. It outlives the descriptor.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), length, access, kind, file.as_raw_fd(), 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, length })
    }
}

impl Deref for MappedFile {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `open` made a mapping of this length, which only `drop` removes.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl Drop for MappedFile {
    fn drop(&mut self) {
        // SAFETY: the mapping of `open`. No reference to it outlives `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

#[cfg(all(test, not(any(loom, miri))))]
mod tests {
    use super::MappedFile;
    use std::path::Path;

    #[test]
    fn a_mapping_has_the_bytes_of_the_file() {
        let program = std::env::current_exe().unwrap();
        let mapped = MappedFile::open(&program).unwrap();
        assert_eq!(&mapped[..4], b"\x7fELF");
        assert_eq!(mapped.len() as u64, std::fs::metadata(&program).unwrap().len());
        assert!(MappedFile::open(Path::new("/nowhere")).is_err());
    }
}
