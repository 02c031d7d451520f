//! What the system has in memory, taken from there at once: names it has looked
//! up lately, pages it has read lately. The kernel is asked to say so rather than
//! wait (`RESOLVE_CACHED`, `RWF_NOWAIT`), and then somebody who may wait does it.

use super::operation::gone;
use crate::runtime::context;
use crate::runtime::file_backend::FileBackend;
use crate::runtime::task_api::spawn::no_runtime;
use crate::task::coop;
use std::future::poll_fn;
use std::io;

/// Inline reads and writes move at most so much per unit of budget.
pub(super) const CHUNK: usize = 64 * 1024;

/// Whether operations may be done at once on the calling thread.
///
/// # Errors
///
/// If the runtime has shut down.
///
/// # Panics
///
/// Outside of a runtime.
#[track_caller]
#[inline]
pub(super) fn is_allowed() -> io::Result<bool> {
    let state = context::with_current(|shared| {
        (shared.files.backend == FileBackend::Auto, shared.estate().is_closing())
    });
    match state {
        None => no_runtime(),
        Some((_, true)) => Err(gone()),
        Some((is_auto, false)) => Ok(is_auto),
    }
}

/// Spends one unit of budget, yielding if there is none left.
pub(super) async fn spend() {
    poll_fn(coop::poll_proceed).await.made_progress();
}

pub(super) use linux::*;

mod linux {
    use super::*;
    use crate::fs::mounts::{self, Latency};
    use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags};
    use rustix::io::{Errno, ReadWriteFlags};
    use std::fs::{File, Metadata};
    use std::io::{IoSlice, IoSliceMut};
    use std::os::fd::{AsFd, OwnedFd};
    use std::path::Path;

    /// The offset that stands for the file's own cursor.
    pub(in crate::fs) const CURSOR: u64 = u64::MAX;

    /// What came of an attempt.
    #[must_use]
    pub(in crate::fs) enum Attempt<R> {
        Done(io::Result<R>),
        /// Somebody who may wait has to do it.
        MustWait,
        /// The same, and it will be so for this file for good.
        Never,
    }

    /// Something that was found by its name.
    struct Found {
        fd: OwnedFd,
        known: mounts::Known,
        latency: Latency,
    }

    /// Follows a name through what is in memory, to something on a local file system.
    fn look_up(path: &Path, follow: bool) -> Attempt<Found> {
        let mut flags = OFlags::PATH | OFlags::CLOEXEC;
        if !follow {
            flags |= OFlags::NOFOLLOW;
        }
        let fd = match rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::CACHED) {
            Ok(fd) => fd,
            Err(error) => return refused(error),
        };
        let Some(known) = mounts::known(&fd) else { return Attempt::MustWait };
        match mounts::of(&fd, &known) {
            Latency::Remote => Attempt::MustWait,
            latency => Attempt::Done(Ok(Found { fd, known, latency })),
        }
    }

    /// What the answer about a name means. The file system has said that there is
    /// no such thing, or the kernel does not know without asking it.
    fn refused<R>(error: Errno) -> Attempt<R> {
        match error {
            Errno::NOENT | Errno::NOTDIR | Errno::ACCESS | Errno::LOOP | Errno::NAMETOOLONG => {
                Attempt::Done(Err(error.into()))
            }
            _ => Attempt::MustWait,
        }
    }

    /// Whether a path leads to a local file system; asked by a thread that may wait.
    pub(in crate::fs) fn is_local(path: &Path) -> bool {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let Ok(fd) = rustix::fs::open(path, flags, Mode::empty()) else { return false };
        mounts::known(&fd).is_some_and(|known| mounts::of(&fd, &known) != Latency::Remote)
    }

    pub(in crate::fs) fn metadata(path: &Path, follow: bool) -> Attempt<Metadata> {
        match look_up(path, follow) {
            Attempt::Done(Ok(found)) => Attempt::Done(File::from(found.fd).metadata()),
            Attempt::Done(Err(error)) => Attempt::Done(Err(error)),
            Attempt::MustWait | Attempt::Never => Attempt::MustWait,
        }
    }

    /// Opens what exists: a file or a folder, not a pipe or a device, which may
    /// wait for the other side.
    pub(in crate::fs) fn open(path: &Path, flags: OFlags) -> Attempt<(File, Latency)> {
        match look_up(path, true) {
            Attempt::Done(Ok(found)) => {
                if !matches!(found.known.kind, FileType::RegularFile | FileType::Directory) {
                    return Attempt::MustWait;
                }
                // There may be a pipe in its place by now, or somebody has a lease.
                let (cached, unwaiting) = (ResolveFlags::CACHED, flags | OFlags::NONBLOCK);
                match rustix::fs::openat2(CWD, path, unwaiting, Mode::empty(), cached) {
                    Ok(fd) if is_still(&fd, found.known, flags) => {
                        Attempt::Done(Ok((File::from(fd), found.latency)))
                    }
                    Ok(_) => Attempt::MustWait,
                    Err(error) => refused(error),
                }
            }
            Attempt::Done(Err(error)) => Attempt::Done(Err(error)),
            Attempt::MustWait | Attempt::Never => Attempt::MustWait,
        }
    }

    /// Whether what was opened is of this kind and on this mount, and has the flags that it
    /// should have.
    fn is_still(fd: &OwnedFd, then: mounts::Known, flags: OFlags) -> bool {
        mounts::known(fd) == Some(then) && rustix::fs::fcntl_setfl(fd, flags).is_ok()
    }

    /// Reads what is in memory; at most `CHUNK` bytes.
    #[inline]
    pub(in crate::fs) fn read(file: impl AsFd, buf: &mut [u8], offset: u64) -> Attempt<usize> {
        let len = buf.len().min(CHUNK);
        let mut parts = [IoSliceMut::new(&mut buf[..len])];
        attempt(rustix::io::preadv2(file, &mut parts, offset, ReadWriteFlags::NOWAIT))
    }

    /// Writes to memory, where the file system can do that without waiting; at
    /// most `CHUNK` bytes.
    pub(in crate::fs) fn write(file: impl AsFd, data: &[u8], offset: u64) -> Attempt<usize> {
        let parts = [IoSlice::new(&data[..data.len().min(CHUNK)])];
        attempt(rustix::io::pwritev2(file, &parts, offset, ReadWriteFlags::NOWAIT))
    }

    fn attempt(result: Result<usize, Errno>) -> Attempt<usize> {
        match result {
            Ok(count) => Attempt::Done(Ok(count)),
            Err(Errno::AGAIN | Errno::INTR) => Attempt::MustWait,
            // The file system or the kernel cannot promise not to wait; or the file
            // is none that has places.
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::SPIPE | Errno::PERM) => {
                Attempt::Never
            }
            Err(error) => Attempt::Done(Err(error.into())),
        }
    }
}
