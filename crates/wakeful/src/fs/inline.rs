//! What the system has in memory, taken from there at once: names it has looked
//! up lately, pages it has read lately. The kernel is asked to say so rather than
//! wait (`RESOLVE_CACHED`, `RWF_NOWAIT`), and then somebody who may wait does it.

use super::operation::gone;
use crate::runtime::context;
use crate::runtime::files::FileBackend;
use crate::runtime::spawn::no_runtime;
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

#[cfg(target_os = "linux")]
pub(super) use linux::*;

/// Elsewhere there are no rings, for which that matters.
#[cfg(not(target_os = "linux"))]
pub(super) fn has_cursor(_file: &std::fs::File) -> bool {
    true
}

/// Elsewhere nobody can tell.
#[cfg(not(target_os = "linux"))]
pub(super) fn is_file_local(_file: &std::fs::File) -> bool {
    false
}

#[cfg(target_os = "linux")]
mod linux {
    use super::*;
    use crate::runtime::Shared;
    use crate::runtime::files::{Device, Distance};
    use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, StatxFlags};
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
        device: Device,
        kind: FileType,
    }

    /// Follows a name through what is in memory.
    fn look_up(path: &Path, follow: bool) -> Attempt<Found> {
        let mut flags = OFlags::PATH | OFlags::CLOEXEC;
        if !follow {
            flags |= OFlags::NOFOLLOW;
        }
        let fd = match rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::CACHED) {
            Ok(fd) => fd,
            Err(error) => return refused(error),
        };
        match device_and_kind(&fd) {
            Some((device, kind)) => Attempt::Done(Ok(Found { fd, device, kind })),
            None => Attempt::MustWait,
        }
    }

    /// What is known of an open file without asking anybody.
    fn device_and_kind(fd: impl AsFd) -> Option<(Device, FileType)> {
        /// A number that no other mount ever has; from Linux 6.8 on.
        const MOUNT: u32 = 0x4000;
        let unasked = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let wanted = StatxFlags::TYPE | StatxFlags::from_bits_retain(MOUNT);
        let stat = rustix::fs::statx(fd, c"", unasked, wanted).ok()?;
        let number = rustix::fs::makedev(stat.stx_dev_major, stat.stx_dev_minor);
        let mount = if stat.stx_mask & MOUNT != 0 { stat.stx_mnt_id } else { 0 };
        Some((Device { number, mount }, FileType::from_raw_mode(stat.stx_mode.into())))
    }

    /// Whether an open file has a cursor: a pipe, say, has none.
    pub(in crate::fs) fn has_cursor(file: &File) -> bool {
        device_and_kind(file).is_none_or(|(_, kind)| kind == FileType::RegularFile)
    }

    /// What is known of the device that an open file lies on.
    fn distance(shared: &Shared, file: &File) -> Option<Distance> {
        let (device, _) = device_and_kind(file)?;
        shared.files.devices.distance(device)
    }

    /// Whether an open file lies on a device that is known to answer at once.
    pub(in crate::fs) fn is_file_local(file: &File) -> bool {
        let is_local = |shared: &Shared| distance(shared, file) == Some(Distance::Local);
        context::with_current(is_local).unwrap_or(false)
    }

    /// Whether a file is to be closed by the ring: it lies on a device that is known
    /// to take its time, or the ring does everything.
    pub(in crate::fs) fn closes_in_ring(file: &File) -> bool {
        let in_ring = |shared: &Shared| {
            !shared.estate().is_closing()
                && (shared.files.backend == FileBackend::Uring
                    || distance(shared, file) == Some(Distance::Away))
                && shared.ring().is_some_and(|ring| ring.supports(io_uring::opcode::Close::CODE))
        };
        context::with_current(in_ring).unwrap_or(false)
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

    /// Whether what was found lies on a device that answers at once. If nobody
    /// knows yet, what follows finds out, on a thread that may wait.
    fn is_local(shared: &Shared, found: &Found) -> bool {
        let known = shared.files.devices.distance(found.device);
        known.map(|distance| distance == Distance::Local).unwrap_or_else(|| {
            let (learner, fd, device) = (context::keeper(), found.fd.try_clone(), found.device);
            if let (Ok(keeper), Ok(fd)) = (learner, fd) {
                // Nobody else need ask.
                shared.files.devices.learn(device, Distance::Unknown);
                let shared = keeper.shared.clone();
                let learn = move || keeper.shared.files.devices.learn(device, asks_distance(&fd));
                drop(crate::runtime::blocking::spawn_blocking_on(&shared, learn, None, false));
            }
            false
        })
    }

    /// Asks the file system what it is.
    fn asks_distance(fd: &OwnedFd) -> Distance {
        /// The numbers by which Linux tells its file systems apart: ext, XFS, Btrfs,
        /// tmpfs, ramfs, F2FS, overlay, ZFS, bcachefs, squashfs, EROFS, FAT, exFAT.
        const LOCAL: [u64; 13] = [
            0xef53,
            0x5846_5342,
            0x9123_683e,
            0x0102_1994,
            0x8584_58f6,
            0xf2f5_2010,
            0x794c_7630,
            0x2fc1_2fc1,
            0xca45_1a4e,
            0x7371_7368,
            0xe0f5_e1e2,
            0x4d44,
            0x2011_bab0,
        ];
        match rustix::fs::fstatfs(fd) {
            Ok(stat) if LOCAL.contains(&(stat.f_type as u64)) => Distance::Local,
            _ => Distance::Away,
        }
    }

    fn found_here(path: &Path, follow: bool) -> Attempt<Found> {
        match look_up(path, follow) {
            Attempt::Done(Ok(found)) => {
                let local = context::with_current(|shared| is_local(shared, &found));
                match local {
                    Some(true) => Attempt::Done(Ok(found)),
                    _ => Attempt::MustWait,
                }
            }
            other => other,
        }
    }

    pub(in crate::fs) fn metadata(path: &Path, follow: bool) -> Attempt<Metadata> {
        match found_here(path, follow) {
            Attempt::Done(Ok(found)) => Attempt::Done(File::from(found.fd).metadata()),
            Attempt::Done(Err(error)) => Attempt::Done(Err(error)),
            Attempt::MustWait | Attempt::Never => Attempt::MustWait,
        }
    }

    /// Opens what exists: a file or a folder, not a pipe or a device, which may
    /// wait for the other side.
    pub(in crate::fs) fn open(path: &Path, flags: OFlags) -> Attempt<File> {
        match found_here(path, true) {
            Attempt::Done(Ok(found)) => {
                if !matches!(found.kind, FileType::RegularFile | FileType::Directory) {
                    return Attempt::MustWait;
                }
                // There may be a pipe in its place by now, or somebody has a lease.
                let (cached, unwaiting) = (ResolveFlags::CACHED, flags | OFlags::NONBLOCK);
                match rustix::fs::openat2(CWD, path, unwaiting, Mode::empty(), cached) {
                    Ok(fd) if is_still(&fd, found.kind, flags) => Attempt::Done(Ok(File::from(fd))),
                    Ok(_) => Attempt::MustWait,
                    Err(error) => refused(error),
                }
            }
            Attempt::Done(Err(error)) => Attempt::Done(Err(error)),
            Attempt::MustWait | Attempt::Never => Attempt::MustWait,
        }
    }

    /// Whether what was opened is of this kind, and has the flags that it should have.
    fn is_still(fd: &OwnedFd, kind: FileType, flags: OFlags) -> bool {
        device_and_kind(fd).is_some_and(|(_, now)| now == kind)
            && rustix::fs::fcntl_setfl(fd, flags).is_ok()
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
