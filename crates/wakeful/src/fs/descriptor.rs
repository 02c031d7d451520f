//! An open file, shared by its operations; and closing it.
//!
//! Which requests about a file a worker thread may make itself depends on the file's [`Backing`]:
//!
//! | [`Backing`] | attributes, closing | cursor | data, by `RWF_NOWAIT` | io_uring entries |
//! | --- | --- | --- | --- | --- |
//! | `PageCache` | worker | worker | worker | may be tried by the worker |
//! | `Overlay` | worker | pool | ring or pool | by a kernel thread |
//! | `Pipe` | closing: worker | pool | ring or pool | by a kernel thread |
//! | `Remote` | ring or pool | pool | ring or pool | by a kernel thread |
//!
//! - CURSOR-1. The kernel locks the cursor of a regular file for the whole duration of a `read`,
//!   `write` or `lseek` at the cursor. So if several of our descriptors share a cursor, a worker
//!   uses the cursor only while no pool thread does, and never waits for one (`try_with_cursor`). A
//!   pool thread waits until no worker uses the cursor (`with_cursor`).

use super::in_flight::start;
use super::mounts::{self, DeviceLatency};
use super::op::{Operation, Step};
use crate::runtime::context;
use crate::runtime::file_backend::FileBackend;
use crate::sys::sync::ignore_poison;
use crate::task::wait_kind::WaitKind;
use rustix::fs::{FileType, OFlags};
use std::fs::File;
use std::io::{self, Seek as _, SeekFrom};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, RwLock, TryLockError};

/// The component that answers requests about an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Backing {
    /// The page cache: a regular file or a directory of a local file system.
    PageCache,
    /// The page cache, except for cursor and data: a file or a directory of an overlay.
    Overlay,
    /// The other end of a pipe. Closing does not wait for it.
    Pipe,
    /// A server, another process or a device: FUSE, network file systems, terminals, sockets.
    Remote,
}

/// An open file, shared by its [`File`](super::File) and its operations in flight.
pub(super) struct Descriptor {
    /// `Some` until it is closed or converted.
    std: Option<File>,
    backing: Backing,
    has_cursor: bool,
    /// Whether every write waits for the disk (`O_SYNC`, `O_DSYNC`).
    writes_through: bool,
    /// Whether other descriptors may move the cursor. Only system calls may use such a cursor: they
    /// read and update it atomically, io_uring in two steps.
    shares_cursor: AtomicBool,
    /// Set if several of our descriptors share the cursor (CURSOR-1).
    cursor_lock: OnceLock<Arc<RwLock<()>>>,
    /// Whether reads of this file can never be done inline.
    no_inline_reads: AtomicBool,
    /// Whether writes to this file can never be done inline.
    no_inline_writes: AtomicBool,
}

impl Backing {
    /// Returns the backing of a regular file or a directory.
    fn of_file(latency: DeviceLatency) -> Self {
        match latency {
            DeviceLatency::Local => Backing::PageCache,
            DeviceLatency::Overlay => Backing::Overlay,
            DeviceLatency::Remote => Backing::Remote,
        }
    }
}

impl Descriptor {
    /// Wraps a file that a pool thread or the kernel opened by path.
    pub(super) fn opened(std: File) -> Self {
        Self::inspect(std, false)
    }

    /// Wraps a file that other code opened, and whose cursor it may share.
    pub(super) fn from_std(std: File) -> Self {
        Self::inspect(std, true)
    }

    /// Wraps a regular file or a directory that was opened inline, without custom flags.
    pub(super) fn opened_inline(std: File, latency: DeviceLatency) -> Self {
        Self::new(std, Backing::of_file(latency), true, false, OFlags::empty())
    }

    fn inspect(std: File, may_share_cursor: bool) -> Self {
        let (backing, has_cursor) = match mounts::identify(&std) {
            None => (Backing::Remote, true),
            Some(identity) => match (identity.file_type, mounts::latency_of(&std, &identity)) {
                (FileType::Fifo, _) => (Backing::Pipe, false),
                (FileType::RegularFile | FileType::Directory, latency) => {
                    (Backing::of_file(latency), true)
                }
                _ => (Backing::Remote, false),
            },
        };
        let flags = rustix::fs::fcntl_getfl(&std).unwrap_or(OFlags::DIRECT | OFlags::SYNC);
        Self::new(std, backing, has_cursor, may_share_cursor && has_cursor, flags)
    }

    fn new(
        std: File,
        backing: Backing,
        has_cursor: bool,
        shares_cursor: bool,
        flags: OFlags,
    ) -> Self {
        // A direct read waits for the disk even with `RWF_NOWAIT`.
        let no_inline_reads = backing != Backing::PageCache || flags.contains(OFlags::DIRECT);
        let writes_through = flags.intersects(OFlags::SYNC | OFlags::DSYNC);
        Self {
            std: Some(std),
            backing,
            has_cursor,
            writes_through,
            shares_cursor: AtomicBool::new(shares_cursor),
            cursor_lock: OnceLock::new(),
            no_inline_reads: AtomicBool::new(no_inline_reads),
            no_inline_writes: AtomicBool::new(no_inline_reads || writes_through),
        }
    }

    pub(super) fn std(&self) -> &File {
        self.std.as_ref().expect("present until it is closed")
    }

    pub(super) fn into_std(mut self) -> File {
        self.std.take().expect("present until it is closed")
    }

    /// Duplicates the descriptor. No operation at the cursor may be in flight.
    ///
    /// Does not block: only the process's descriptor table changes.
    pub(super) fn try_clone(&self) -> io::Result<Self> {
        let std = self.std().try_clone()?;
        let cursor_lock = self.cursor_lock.get_or_init(Arc::default).clone();
        self.shares_cursor.store(true, Relaxed);
        Ok(Self {
            std: Some(std),
            backing: self.backing,
            has_cursor: self.has_cursor,
            writes_through: self.writes_through,
            shares_cursor: AtomicBool::new(true),
            cursor_lock: OnceLock::from(cursor_lock),
            no_inline_reads: AtomicBool::new(self.no_inline_reads.load(Relaxed)),
            no_inline_writes: AtomicBool::new(self.no_inline_writes.load(Relaxed)),
        })
    }

    /// Returns whether reading the attributes does not block.
    pub(super) fn has_cached_metadata(&self) -> bool {
        matches!(self.backing, Backing::PageCache | Backing::Overlay)
    }

    /// Returns whether the file has a cursor. A pipe, for example, has none.
    pub(super) fn has_cursor(&self) -> bool {
        self.has_cursor
    }

    /// Uses the cursor on a thread that may block (CURSOR-1).
    pub(super) fn with_cursor<R>(&self, f: impl FnOnce(&File) -> R) -> R {
        let cursor_lock = self.cursor_lock.get();
        let _shared = cursor_lock.map(|lock| ignore_poison(lock.read()));
        f(self.std())
    }

    /// Uses the cursor for an operation that does not block. `None` if a pool thread uses it
    /// (CURSOR-1).
    #[inline]
    pub(super) fn try_with_cursor<R>(&self, f: impl FnOnce(&Self) -> R) -> Option<R> {
        let Some(lock) = self.cursor_lock.get() else { return Some(f(self)) };
        match lock.try_write() {
            Ok(_exclusive) => Some(f(self)),
            Err(TryLockError::Poisoned(_exclusive)) => Some(f(self)),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Moves the cursor, if that does not block.
    pub(super) fn try_seek(&self, position: SeekFrom) -> Option<io::Result<u64>> {
        match self.backing {
            Backing::PageCache => self.try_with_cursor(|file| file.std().seek(position)),
            Backing::Overlay | Backing::Pipe | Backing::Remote => None,
        }
    }

    /// Returns the cursor's position, if that does not block.
    ///
    /// Reading it does not block on an overlay either, while moving it might. `None` for a shared
    /// cursor, which a pool thread may have locked (CURSOR-1).
    pub(super) fn position(&self) -> Option<u64> {
        match self.backing {
            _ if !self.owns_cursor() => None,
            Backing::PageCache | Backing::Overlay => self.std().stream_position().ok(),
            Backing::Pipe | Backing::Remote => None,
        }
    }

    /// Returns whether submitting a read to io_uring does not block.
    pub(super) fn can_submit_reads(&self) -> bool {
        self.backing == Backing::PageCache
    }

    /// Returns whether submitting a write to io_uring does not block.
    pub(super) fn can_submit_writes(&self) -> bool {
        self.backing == Backing::PageCache && !self.writes_through
    }

    pub(super) fn fd(&self) -> io_uring::types::Fd {
        io_uring::types::Fd(self.std().as_raw_fd())
    }

    /// Returns whether no other descriptor moves the cursor.
    pub(super) fn owns_cursor(&self) -> bool {
        !self.shares_cursor.load(Relaxed)
    }

    /// Returns whether a read may be tried inline.
    #[inline]
    pub(super) fn may_read_inline(&self) -> bool {
        !self.no_inline_reads.load(Relaxed)
    }

    /// Records that reads of this file cannot be done inline.
    pub(super) fn disable_inline_reads(&self) {
        self.no_inline_reads.store(true, Relaxed);
    }

    /// Returns whether a write may be tried inline.
    #[inline]
    pub(super) fn may_write_inline(&self) -> bool {
        !self.no_inline_writes.load(Relaxed)
    }

    /// Records that writes to this file cannot be done inline.
    pub(super) fn disable_inline_writes(&self) {
        self.no_inline_writes.store(true, Relaxed);
    }

    /// Returns whether the calling thread closes the file itself.
    fn closes_inline(&self) -> bool {
        let never_blocks = match self.backing {
            Backing::PageCache | Backing::Overlay | Backing::Pipe => true,
            Backing::Remote => false,
        };
        let is_inline = context::with_current(|shared| {
            let is_preferred = never_blocks && shared.files.backend != FileBackend::Uring;
            shared.base().is_closing() || is_preferred
        });
        // Outside of a runtime no other thread can close it.
        is_inline.unwrap_or(true)
    }
}

impl AsFd for Descriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.std().as_fd()
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        let Some(std) = self.std.take() else { return };
        if !self.closes_inline() {
            return drop(start(Close(Some(std))));
        }
        drop(std);
    }
}

/// Closes a file.
pub(super) struct Close(pub(super) Option<File>);

impl Close {
    fn raw_fd(&self) -> RawFd {
        self.0.as_ref().map_or(-1, AsRawFd::as_raw_fd)
    }
}

impl Operation for Close {
    type Output = ();
    const WAIT_KIND: WaitKind = WaitKind::FileOp;
    const MUST_FINISH: bool = true;
    const OPCODE: u8 = io_uring::opcode::Close::CODE;

    fn submission_entry(&mut self) -> Option<io_uring::squeue::Entry> {
        Some(io_uring::opcode::Close::new(io_uring::types::Fd(self.raw_fd())).build())
    }

    /// The kernel frees the descriptor number first. Then the file system may report an error of
    /// earlier writes, of any kind. At that time the number may already belong to another file, so
    /// only a cancelled close was not executed.
    fn is_not_executed(error: rustix::io::Errno) -> bool {
        error == rustix::io::Errno::CANCELED
    }

    fn completed(mut self, result: Result<u32, rustix::io::Errno>) -> Step<Self> {
        use std::os::fd::IntoRawFd;
        if let Some(std) = self.0.take() {
            // The kernel has closed the file, regardless of the result, so it must not be closed
            // again.
            let _closed: RawFd = std.into_raw_fd();
        }
        Step::Done(result.map(|_| ()).map_err(io::Error::from))
    }

    fn run(self) -> io::Result<()> {
        drop(self);
        Ok(())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn worker_does_not_wait_for_the_cursor_of_a_clone() {
        let name = format!("wakeful-cursor-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, "some bytes").unwrap();
        let one = Descriptor::opened(File::open(&path).unwrap());
        assert!(one.owns_cursor());
        let other = one.try_clone().unwrap();
        assert!(!one.owns_cursor() && !other.owns_cursor());
        assert_eq!((one.position(), other.position()), (None, None), "the cursor may be locked");
        let during_pool_use = one.with_cursor(|_| {
            // Several pool threads may use it.
            other.with_cursor(|_| ());
            (other.try_with_cursor(|_| ()), one.try_with_cursor(|_| ()))
        });
        assert_eq!(during_pool_use, (None, None));
        assert_eq!(other.try_with_cursor(|_| ()), Some(()));
        let during_worker_use = one.try_with_cursor(|_| other.try_with_cursor(|_| ()));
        assert_eq!(during_worker_use, Some(None));
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn worker_does_not_try_operations_that_wait_for_the_disk() {
        use std::os::unix::fs::OpenOptionsExt;
        let name = format!("wakeful-flags-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let open = |flags| {
            let mut options = File::options();
            options.read(true).write(true).create(true).truncate(true).custom_flags(flags);
            options.open(&path).map(Descriptor::opened)
        };
        let plain = open(0).unwrap();
        if plain.backing == Backing::PageCache {
            assert!(plain.may_read_inline() && plain.may_write_inline());
            assert!(plain.can_submit_reads() && plain.can_submit_writes());
        }
        let through = open(libc::O_DSYNC).unwrap();
        assert!(!through.may_write_inline() && !through.can_submit_writes());
        // Not every file system supports `O_DIRECT`.
        if let Ok(direct) = open(libc::O_DIRECT) {
            assert!(!direct.may_read_inline() && !direct.may_write_inline());
        }
        std::fs::remove_file(path).unwrap();
    }
}
