//! An open file as operations share it, and its closing.

use super::error;
use super::operation::Operation;
#[cfg(target_os = "linux")]
use super::operation::Step;
use crate::task::header::WaitKind;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
#[cfg(target_os = "linux")]
use std::os::fd::{AsRawFd, RawFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// How a file came to be open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opened {
    /// At once: it lies on a device that answers at once, also when it is closed.
    Inline,
    /// By somebody who may wait, or by others.
    Waiting,
}

/// An open file, shared by its [`File`](super::File) and the operations under way.
pub(super) struct Descriptor {
    /// There until it is closed or given away.
    std: Option<File>,
    /// Where it was opened, for errors.
    path: Option<Arc<Path>>,
    opened: Opened,
    /// Others may move the file's cursor. A ring reads it and moves it in two steps,
    /// so then it is left to system calls, which do that in one.
    shares_cursor: AtomicBool,
    /// Reads of this file are never possible at once.
    reads_wait: AtomicBool,
    /// Writes to this file are never possible at once.
    writes_wait: AtomicBool,
}

impl Descriptor {
    pub(super) fn new(std: File, path: Option<Arc<Path>>, opened: Opened) -> Self {
        // What came from elsewhere may have been shared there.
        let shares_cursor = path.is_none() && super::inline::has_cursor(&std);
        Self {
            std: Some(std),
            path,
            opened,
            shares_cursor: AtomicBool::new(shares_cursor),
            reads_wait: AtomicBool::new(false),
            writes_wait: AtomicBool::new(false),
        }
    }

    pub(super) fn std(&self) -> &File {
        self.std.as_ref().expect("there until it is closed")
    }

    pub(super) fn into_std(mut self) -> File {
        self.std.take().expect("there until it is closed")
    }

    /// Another one for the same file. Only the table of descriptors is touched, so
    /// nobody waits.
    pub(super) fn try_clone(&self) -> io::Result<Self> {
        let std = self.std().try_clone().map_err(|error| self.explain("clone", error))?;
        self.shares_cursor.store(true, Relaxed);
        let clone = Self::new(std, self.path.clone(), self.opened);
        clone.shares_cursor.store(true, Relaxed);
        Ok(clone)
    }

    /// Whether it lies on a device that answers at once.
    pub(super) fn answers_at_once(&self) -> bool {
        self.opened == Opened::Inline || super::inline::is_file_local(self.std())
    }

    /// Says what was done with which file.
    pub(super) fn explain(&self, operation: &'static str, source: io::Error) -> io::Error {
        match &self.path {
            Some(path) => error::at(operation, path, source),
            None => source,
        }
    }

    #[cfg(target_os = "linux")]
    pub(super) fn fd(&self) -> io_uring::types::Fd {
        io_uring::types::Fd(self.std().as_raw_fd())
    }

    /// Whether nobody else moves the cursor.
    #[cfg(target_os = "linux")]
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
}

impl AsFd for Descriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.std().as_fd()
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        let Some(std) = self.std.take() else { return };
        // Where closing may take its time, the kernel does it.
        #[cfg(target_os = "linux")]
        if self.opened == Opened::Waiting && super::inline::closes_in_ring(&std) {
            return drop(super::operation::start(Close(Some(std))));
        }
        drop(std);
    }
}

/// Closing a file.
#[cfg(target_os = "linux")]
pub(super) struct Close(pub(super) Option<File>);

#[cfg(target_os = "linux")]
impl Close {
    fn raw(&self) -> RawFd {
        self.0.as_ref().map_or(-1, AsRawFd::as_raw_fd)
    }
}

#[cfg(target_os = "linux")]
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
