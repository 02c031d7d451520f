//! Inline operations, which run on the calling thread and are served from the kernel's caches.
//!
//! The kernel is asked to fail rather than to block: `RESOLVE_CACHED` for paths, `RWF_NOWAIT` for
//! data. If it would block, the operation goes to io_uring or to the blocking pool.

use super::mounts::{self, DeviceLatency, FileIdentity};
use super::op::runtime_shut_down;
use crate::runtime::context;
use crate::runtime::file_backend::FileBackend;
use crate::runtime::task_api::spawn::no_runtime;
use crate::task::coop;
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::{Errno, ReadWriteFlags};
use std::fs::{File, Metadata};
use std::future::poll_fn;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// The maximum number of bytes that an inline read or write moves per unit of budget.
pub(super) const CHUNK: usize = 64 * 1024;

/// The offset value that selects the file's own cursor.
pub(super) const CURSOR: u64 = u64::MAX;

/// Returns whether operations may be done inline, on the calling thread.
///
/// # Errors
///
/// Fails if the runtime has shut down.
///
/// # Panics
///
/// Panics if called outside of a runtime.
#[track_caller]
#[inline]
pub(super) fn check_inline_allowed() -> io::Result<bool> {
    let state = context::with_current(|shared| {
        shared.refuse_in_simulation("`wakeful::fs`")?;
        io::Result::Ok((shared.files.backend == FileBackend::Auto, shared.base().is_closing()))
    });
    match state.transpose()? {
        None => no_runtime(),
        Some((_, true)) => Err(runtime_shut_down()),
        Some((is_auto, false)) => Ok(is_auto),
    }
}

/// Spends one unit of the cooperative budget. Yields if the budget is exhausted.
pub(super) async fn spend_budget() {
    poll_fn(coop::poll_proceed).await.made_progress();
}

/// The outcome of an inline attempt.
#[must_use]
pub(super) enum Attempt<R> {
    Done(io::Result<R>),
    /// The operation would block.
    WouldBlock,
    /// The operation can never be done inline for this file.
    Unsupported,
}

/// A path that was resolved from the kernel's caches.
struct Resolved {
    fd: OwnedFd,
    identity: FileIdentity,
    latency: DeviceLatency,
}

/// Resolves a path from the kernel's caches, if it leads to a local file system.
fn resolve(path: &Path, follow: bool) -> Attempt<Resolved> {
    let mut flags = OFlags::PATH | OFlags::CLOEXEC;
    if !follow {
        flags |= OFlags::NOFOLLOW;
    }
    let fd = match rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::CACHED) {
        Ok(fd) => fd,
        Err(error) => return resolve_error(error),
    };
    let Some(identity) = mounts::identify(&fd) else { return Attempt::WouldBlock };
    match mounts::latency_of(&fd, &identity) {
        DeviceLatency::Remote => Attempt::WouldBlock,
        latency => Attempt::Done(Ok(Resolved { fd, identity, latency })),
    }
}

/// Distinguishes an error that is a cached answer from one that means "not cached".
fn resolve_error<R>(error: Errno) -> Attempt<R> {
    match error {
        Errno::NOENT | Errno::NOTDIR | Errno::ACCESS | Errno::LOOP | Errno::NAMETOOLONG => {
            Attempt::Done(Err(error.into()))
        }
        _ => Attempt::WouldBlock,
    }
}

/// Returns whether a path leads to a local file system. May block.
pub(super) fn is_local(path: &Path) -> bool {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let Ok(fd) = rustix::fs::open(path, flags, Mode::empty()) else { return false };
    mounts::identify(&fd)
        .is_some_and(|identity| mounts::latency_of(&fd, &identity) != DeviceLatency::Remote)
}

/// Reads the metadata of a path, if it is cached.
pub(super) fn metadata(path: &Path, follow: bool) -> Attempt<Metadata> {
    match resolve(path, follow) {
        Attempt::Done(Ok(resolved)) => Attempt::Done(File::from(resolved.fd).metadata()),
        Attempt::Done(Err(error)) => Attempt::Done(Err(error)),
        Attempt::WouldBlock | Attempt::Unsupported => Attempt::WouldBlock,
    }
}

/// Opens an existing regular file or directory, if its path is cached.
///
/// Pipes and devices would block, because opening them may wait for the other side.
pub(super) fn open(path: &Path, flags: OFlags) -> Attempt<(File, DeviceLatency)> {
    match resolve(path, true) {
        Attempt::Done(Ok(resolved)) => {
            let file_type = resolved.identity.file_type;
            if !matches!(file_type, FileType::RegularFile | FileType::Directory) {
                return Attempt::WouldBlock;
            }
            // Since then, the path may have changed to a pipe, or another process may hold a lease
            // on the file.
            let (cached, nonblocking) = (ResolveFlags::CACHED, flags | OFlags::NONBLOCK);
            match rustix::fs::openat2(CWD, path, nonblocking, Mode::empty(), cached) {
                Ok(fd) if restore_flags_if_unchanged(&fd, resolved.identity, flags) => {
                    Attempt::Done(Ok((File::from(fd), resolved.latency)))
                }
                Ok(_) => Attempt::WouldBlock,
                Err(error) => resolve_error(error),
            }
        }
        Attempt::Done(Err(error)) => Attempt::Done(Err(error)),
        Attempt::WouldBlock | Attempt::Unsupported => Attempt::WouldBlock,
    }
}

/// Sets the requested flags, if the opened file is the resolved file.
///
/// Returns false if it has another type or mount, or if the flags could not be set.
fn restore_flags_if_unchanged(fd: &OwnedFd, expected: FileIdentity, flags: OFlags) -> bool {
    mounts::identify(fd) == Some(expected) && rustix::fs::fcntl_setfl(fd, flags).is_ok()
}

/// Reads from the page cache, at most [`CHUNK`] bytes.
#[inline]
pub(super) fn read(file: impl AsFd, buf: &mut [u8], offset: u64) -> Attempt<usize> {
    let len = buf.len().min(CHUNK);
    let mut parts = [IoSliceMut::new(&mut buf[..len])];
    attempt(rustix::io::preadv2(file, &mut parts, offset, ReadWriteFlags::NOWAIT))
}

/// Writes to the page cache, at most [`CHUNK`] bytes, if the file system can do that without
/// blocking.
pub(super) fn write(file: impl AsFd, data: &[u8], offset: u64) -> Attempt<usize> {
    let parts = [IoSlice::new(&data[..data.len().min(CHUNK)])];
    attempt(rustix::io::pwritev2(file, &parts, offset, ReadWriteFlags::NOWAIT))
}

fn attempt(result: Result<usize, Errno>) -> Attempt<usize> {
    match result {
        Ok(count) => Attempt::Done(Ok(count)),
        Err(Errno::AGAIN | Errno::INTR) => Attempt::WouldBlock,
        // The file system or the kernel does not support `RWF_NOWAIT`, or the file has no offsets.
        Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::SPIPE | Errno::PERM) => {
            Attempt::Unsupported
        }
        Err(error) => Attempt::Done(Err(error.into())),
    }
}
