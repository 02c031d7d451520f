//! An open file as operations share it, and its closing.
//!
//! What a worker may ask the kernel about a file depends on what the file is:
//!
//! | [`Reach`] | attributes, closing | cursor | data, by `RWF_NOWAIT` | entries of the ring |
//! | --- | --- | --- | --- | --- |
//! | `Memory` | worker | worker | worker | may be tried by the worker |
//! | `Overlay` | worker | pool | ring or pool | by a thread of the kernel |
//! | `Pipe` | closing: worker | pool | ring or pool | by a thread of the kernel |
//! | `Elsewhere` | ring or pool | pool | ring or pool | by a thread of the kernel |
//!
//! - C1. The kernel locks the cursor of a regular file for a whole `read`, `write` or
//!   `lseek` there. So where the cursor has several descriptors of ours, a worker uses it
//!   only while no thread of the pool does, and never waits for that (`try_at_cursor`);
//!   a thread of the pool waits until no worker does (`at_cursor`).

use super::mounts::{self, Latency};
use super::operation::Operation;
use super::operation::Step;
use crate::runtime::context;
use crate::runtime::file_backend::FileBackend;
use crate::task::header::WaitKind;
use rustix::fs::{FileType, OFlags};
use std::fs::File;
use std::io::{self, Seek as _, SeekFrom};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, TryLockError};

/// Where the answers to requests about an open file come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// From memory: a regular file or a folder of a local file system.
    Memory,
    /// From memory, except for the cursor and the data: a file or a folder of an overlay.
    Overlay,
    /// From a pipe's other side; closing does not wait for it.
    Pipe,
    /// From a server, another process or a device: FUSE, network file systems, terminals,
    /// sockets.
    Elsewhere,
}

/// An open file, shared by its [`File`](super::File) and the operations under way.
pub(super) struct Descriptor {
    /// There until it is closed or given away.
    std: Option<File>,
    reach: Reach,
    has_cursor: bool,
    /// Each write waits for the disk (`O_SYNC`, `O_DSYNC`).
    writes_through: bool,
    /// Others may move the file's cursor. A ring reads it and moves it in two steps,
    /// so then it is left to system calls, which do that in one.
    shares_cursor: AtomicBool,
    /// Set if descriptors of ours share the cursor (C1).
    clones: OnceLock<Arc<RwLock<()>>>,
    /// Reads of this file are never possible at once.
    reads_wait: AtomicBool,
    /// Writes to this file are never possible at once.
    writes_wait: AtomicBool,
}

impl Descriptor {
    /// A file that was opened by name, by a thread of the pool or the kernel.
    pub(super) fn opened(std: File) -> Self {
        Self::examined(std, false)
    }

    /// A file that was opened by other code, which may have shared its cursor.
    pub(super) fn taken_over(std: File) -> Self {
        Self::examined(std, true)
    }

    /// A regular file or a folder that was opened by name, without waiting and without
    /// flags of its own.
    pub(super) fn opened_inline(std: File, latency: Latency) -> Self {
        let reach = match latency {
            Latency::Local => Reach::Memory,
            Latency::Overlay => Reach::Overlay,
            Latency::Remote => Reach::Elsewhere,
        };
        Self::new(std, reach, true, false, OFlags::empty())
    }

    fn examined(std: File, may_share: bool) -> Self {
        let (reach, has_cursor) = match mounts::known(&std) {
            None => (Reach::Elsewhere, true),
            Some(known) => match (known.kind, mounts::of(&std, &known)) {
                (FileType::Fifo, _) => (Reach::Pipe, false),
                (FileType::RegularFile | FileType::Directory, latency) => match latency {
                    Latency::Local => (Reach::Memory, true),
                    Latency::Overlay => (Reach::Overlay, true),
                    Latency::Remote => (Reach::Elsewhere, true),
                },
                _ => (Reach::Elsewhere, false),
            },
        };
        let flags = rustix::fs::fcntl_getfl(&std).unwrap_or(OFlags::DIRECT | OFlags::SYNC);
        Self::new(std, reach, has_cursor, may_share && has_cursor, flags)
    }

    fn new(std: File, reach: Reach, has_cursor: bool, shares_cursor: bool, flags: OFlags) -> Self {
        // Past the cache, also a read that is asked not to wait does so for the disk.
        let reads_wait = reach != Reach::Memory || flags.contains(OFlags::DIRECT);
        let writes_through = flags.intersects(OFlags::SYNC | OFlags::DSYNC);
        Self {
            std: Some(std),
            reach,
            has_cursor,
            writes_through,
            shares_cursor: AtomicBool::new(shares_cursor),
            clones: OnceLock::new(),
            reads_wait: AtomicBool::new(reads_wait),
            writes_wait: AtomicBool::new(reads_wait || writes_through),
        }
    }

    pub(super) fn std(&self) -> &File {
        self.std.as_ref().expect("there until it is closed")
    }

    pub(super) fn into_std(mut self) -> File {
        self.std.take().expect("there until it is closed")
    }

    /// Another one for the same file. Only the table of descriptors is touched, so
    /// no thread waits. No operation at the cursor is under way.
    pub(super) fn try_clone(&self) -> io::Result<Self> {
        let std = self.std().try_clone()?;
        let clones = self.clones.get_or_init(Arc::default).clone();
        self.shares_cursor.store(true, Relaxed);
        Ok(Self {
            std: Some(std),
            reach: self.reach,
            has_cursor: self.has_cursor,
            writes_through: self.writes_through,
            shares_cursor: AtomicBool::new(true),
            clones: OnceLock::from(clones),
            reads_wait: AtomicBool::new(self.reads_wait.load(Relaxed)),
            writes_wait: AtomicBool::new(self.writes_wait.load(Relaxed)),
        })
    }

    /// Whether the attributes are answered from memory.
    pub(super) fn answers_at_once(&self) -> bool {
        matches!(self.reach, Reach::Memory | Reach::Overlay)
    }

    /// Whether it has a cursor: a pipe, say, has none.
    pub(super) fn has_cursor(&self) -> bool {
        self.has_cursor
    }

    /// Does something at the cursor on a thread that may wait (C1).
    pub(super) fn at_cursor<R>(&self, f: impl FnOnce(&File) -> R) -> R {
        let clones = self.clones.get();
        let _shared = clones.map(|gate| gate.read().unwrap_or_else(PoisonError::into_inner));
        f(self.std())
    }

    /// Does something at the cursor that the kernel answers from memory. None if a thread
    /// of the pool is at the cursor (C1).
    #[inline]
    pub(super) fn try_at_cursor<R>(&self, f: impl FnOnce(&Self) -> R) -> Option<R> {
        let Some(gate) = self.clones.get() else { return Some(f(self)) };
        match gate.try_write() {
            Ok(_exclusive) => Some(f(self)),
            Err(TryLockError::Poisoned(_exclusive)) => Some(f(self)),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Moves the cursor, if the kernel does that without waiting.
    pub(super) fn try_seek(&self, position: SeekFrom) -> Option<io::Result<u64>> {
        match self.reach {
            Reach::Memory => self.try_at_cursor(|file| file.std().seek(position)),
            Reach::Overlay | Reach::Pipe | Reach::Elsewhere => None,
        }
    }

    /// Where the cursor is, if the kernel knows that without waiting: also an overlay does,
    /// while it must not be moved. Nothing for a shared cursor: a thread of the pool may have
    /// locked it (C1).
    pub(super) fn position(&self) -> Option<u64> {
        match self.reach {
            _ if !self.owns_cursor() => None,
            Reach::Memory | Reach::Overlay => self.std().stream_position().ok(),
            Reach::Pipe | Reach::Elsewhere => None,
        }
    }

    /// Whether a ring reads it without making its submitter wait.
    pub(super) fn reads_in_ring_at_once(&self) -> bool {
        self.reach == Reach::Memory
    }

    /// Whether a ring writes it without making its submitter wait.
    pub(super) fn writes_in_ring_at_once(&self) -> bool {
        self.reach == Reach::Memory && !self.writes_through
    }

    pub(super) fn fd(&self) -> io_uring::types::Fd {
        io_uring::types::Fd(self.std().as_raw_fd())
    }

    /// Whether nobody else moves the cursor.
    pub(super) fn owns_cursor(&self) -> bool {
        !self.shares_cursor.load(Relaxed)
    }

    /// Whether it is worth trying to read without waiting.
    #[inline]
    pub(super) fn may_read_inline(&self) -> bool {
        !self.reads_wait.load(Relaxed)
    }

    pub(super) fn never_read_inline(&self) {
        self.reads_wait.store(true, Relaxed);
    }

    #[inline]
    pub(super) fn may_write_inline(&self) -> bool {
        !self.writes_wait.load(Relaxed)
    }

    pub(super) fn never_write_inline(&self) {
        self.writes_wait.store(true, Relaxed);
    }

    /// Whether the calling thread closes it itself.
    fn closes_here(&self) -> bool {
        let at_once = match self.reach {
            Reach::Memory | Reach::Overlay | Reach::Pipe => true,
            Reach::Elsewhere => false,
        };
        // Outside of a runtime, and at its end, no other thread does it.
        let here = |at_once, backend| at_once && backend != FileBackend::Uring;
        let state = context::with_current(|shared| {
            shared.estate().is_closing() || here(at_once, shared.files.backend)
        });
        state.unwrap_or(true)
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
        if !self.closes_here() {
            return drop(super::operation::start(Close(Some(std))));
        }
        drop(std);
    }
}

/// Closing a file.
pub(super) struct Close(pub(super) Option<File>);

impl Close {
    fn raw(&self) -> RawFd {
        self.0.as_ref().map_or(-1, AsRawFd::as_raw_fd)
    }
}

impl Operation for Close {
    type Output = ();
    const KIND: WaitKind = WaitKind::FileOp;
    const MUST_FINISH: bool = true;
    const CODE: u8 = io_uring::opcode::Close::CODE;

    fn entry(&mut self) -> Option<io_uring::squeue::Entry> {
        Some(io_uring::opcode::Close::new(io_uring::types::Fd(self.raw())).build())
    }

    /// The number is given up first, and then the file may complain of what was
    /// still to be written, in any words: by then the number may be another's.
    fn is_undone(error: rustix::io::Errno) -> bool {
        error == rustix::io::Errno::CANCELED
    }

    fn landed(mut self, result: Result<u32, rustix::io::Errno>) -> Step<Self> {
        use std::os::fd::IntoRawFd;
        if let Some(std) = self.0.take() {
            // It is closed, whatever came of it: not a second time.
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
    fn a_worker_does_not_wait_for_the_cursor_of_a_clone() {
        let name = format!("wakeful-cursor-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, "some bytes").unwrap();
        let one = Descriptor::opened(File::open(&path).unwrap());
        assert!(one.owns_cursor());
        let other = one.try_clone().unwrap();
        assert!(!one.owns_cursor() && !other.owns_cursor());
        assert_eq!((one.position(), other.position()), (None, None), "it may be locked");
        let while_the_pool_is_there = one.at_cursor(|_| {
            // Threads of the pool may share it.
            other.at_cursor(|_| ());
            (other.try_at_cursor(|_| ()), one.try_at_cursor(|_| ()))
        });
        assert_eq!(while_the_pool_is_there, (None, None));
        assert_eq!(other.try_at_cursor(|_| ()), Some(()));
        let while_a_worker_is_there = one.try_at_cursor(|_| other.try_at_cursor(|_| ()));
        assert_eq!(while_a_worker_is_there, Some(None));
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn what_waits_for_the_disk_is_not_tried_by_a_worker() {
        use std::os::unix::fs::OpenOptionsExt;
        let name = format!("wakeful-flags-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let open = |flags| {
            let mut options = File::options();
            options.read(true).write(true).create(true).truncate(true).custom_flags(flags);
            options.open(&path).map(Descriptor::opened)
        };
        let plain = open(0).unwrap();
        if plain.reach == Reach::Memory {
            assert!(plain.may_read_inline() && plain.may_write_inline());
            assert!(plain.reads_in_ring_at_once() && plain.writes_in_ring_at_once());
        }
        let through = open(libc::O_DSYNC).unwrap();
        assert!(!through.may_write_inline() && !through.writes_in_ring_at_once());
        // Not every file system has it.
        if let Ok(direct) = open(libc::O_DIRECT) {
            assert!(!direct.may_read_inline() && !direct.may_write_inline());
        }
        std::fs::remove_file(path).unwrap();
    }
}
