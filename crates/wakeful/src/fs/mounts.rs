//! Classification of file systems: which of them answer from memory, so that a worker may ask them.
//!
//! A worker may ask the kernel about a file only if the answer needs no disk, server or other
//! process. [`latency_of`] determines this without asking the file system itself: `statx` with
//! `AT_STATX_DONT_SYNC` returns the mount, and the kernel's list of mounts contains its type. Only
//! types on a fixed list count as local. Results are cached for the process.

use crate::sys::sync::ignore_poison;
use rustix::fs::{AtFlags, FileType, StatxFlags};
use std::os::fd::AsFd;
use std::sync::RwLock;

/// The speed at which a file system answers requests about cached names and attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeviceLatency {
    /// Immediately: a local disk or memory.
    Local,
    /// Immediately, except for the cursor: it is locked while another thread copies the file to the
    /// overlay's upper layer.
    Overlay,
    /// After asking a server or another process: FUSE, NFS, and every type that is not known to be
    /// local.
    Remote,
}

/// Identifies a mount. The kernel reuses device numbers and, before Linux 6.8, mount ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mount {
    device: u64,
    /// Never reused from Linux 6.8 on.
    id: u64,
}

/// The mount and the type of an open file, which `statx` returns without asking the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileIdentity {
    mount: Mount,
    pub(super) file_type: FileType,
}

/// `STATX_MNT_ID`: the id that is in the kernel's list of mounts.
const LISTED_ID: u32 = 0x1000;
/// `STATX_MNT_ID_UNIQUE`, from Linux 6.8 on. Older kernels return the other id.
const UNIQUE_ID: u32 = 0x4000;

fn statx(fd: impl AsFd, id: u32) -> Option<rustix::fs::Statx> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let mask = StatxFlags::TYPE | StatxFlags::from_bits_retain(id);
    rustix::fs::statx(fd, c"", flags, mask).ok()
}

/// Returns the type and the mount of an open file, which may be open with `O_PATH` only.
pub(super) fn identify(fd: impl AsFd) -> Option<FileIdentity> {
    let stat = statx(fd, UNIQUE_ID)?;
    let device = rustix::fs::makedev(stat.stx_dev_major, stat.stx_dev_minor);
    let has_id = stat.stx_mask & (LISTED_ID | UNIQUE_ID) != 0;
    let mount = Mount { device, id: if has_id { stat.stx_mnt_id } else { 0 } };
    Some(FileIdentity { mount, file_type: FileType::from_raw_mode(stat.stx_mode.into()) })
}

/// The latencies of recently looked-up mounts.
static CACHE: RwLock<Vec<(Mount, DeviceLatency)>> = RwLock::new(Vec::new());
/// The maximum number of cached mounts.
const CACHE_SIZE: usize = 64;

/// Returns the latency of an open file's file system.
pub(super) fn latency_of(fd: impl AsFd, identity: &FileIdentity) -> DeviceLatency {
    {
        let mounts = ignore_poison(CACHE.read());
        if let Some((_, latency)) = mounts.iter().find(|(mount, _)| *mount == identity.mount) {
            return *latency;
        }
    }
    let latency = look_up(fd);
    let mut mounts = ignore_poison(CACHE.write());
    mounts.retain(|(mount, _)| *mount != identity.mount);
    if mounts.len() == CACHE_SIZE {
        mounts.remove(0);
    }
    mounts.push((identity.mount, latency));
    latency
}

/// Looks the mount up in the kernel's list of mounts, which needs no disk.
fn look_up(fd: impl AsFd) -> DeviceLatency {
    let listed = statx(fd, LISTED_ID).filter(|stat| stat.stx_mask & LISTED_ID != 0);
    // Read as bytes: names of mount points need not be UTF-8.
    let list = std::fs::read("/proc/thread-self/mountinfo");
    match (listed, list) {
        (Some(stat), Ok(list)) => latency_in(&list, stat.stx_mnt_id),
        _ => DeviceLatency::Remote,
    }
}

/// Returns the latency of the mount with this id. A mount that is not listed counts as remote.
fn latency_in(list: &[u8], id: u64) -> DeviceLatency {
    type_in(&String::from_utf8_lossy(list), id).map_or(DeviceLatency::Remote, latency_of_type)
}

/// Returns the type of the mount with this id. `list` has the format of `/proc/self/mountinfo`.
fn type_in(list: &str, id: u64) -> Option<&str> {
    let has_id = |line: &&str| line.split(' ').next().and_then(|id| id.parse().ok()) == Some(id);
    // Spaces inside of fields are escaped, so this finds the separator.
    let (_, after) = list.lines().find(has_id)?.split_once(" - ")?;
    after.split(' ').next()
}

fn latency_of_type(file_system: &str) -> DeviceLatency {
    match file_system {
        "ext2" | "ext3" | "ext4" | "xfs" | "btrfs" | "tmpfs" | "devtmpfs" | "ramfs" | "f2fs"
        | "zfs" | "bcachefs" | "squashfs" | "erofs" | "msdos" | "vfat" | "exfat" => {
            DeviceLatency::Local
        }
        "overlay" => DeviceLatency::Overlay,
        _ => DeviceLatency::Remote,
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const LIST: &str = "\
22 28 0:21 / /proc rw,relatime - proc proc rw
28 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard
128 28 0:40 / /with\\040space rw - fuse.sshfs host:/a\\040-\\040b rw
129 28 0:41 / /o rw - overlay overlay rw,lowerdir=/l";

    #[test]
    fn mount_type_is_found_by_id() {
        assert_eq!(type_in(LIST, 28), Some("ext4"));
        assert_eq!(type_in(LIST, 129), Some("overlay"));
        assert_eq!(type_in(LIST, 2), None, "a prefix of an id is not a match");
        assert_eq!(type_in(LIST, 28).map(latency_of_type), Some(DeviceLatency::Local));
        assert_eq!(type_in(LIST, 22).map(latency_of_type), Some(DeviceLatency::Remote));
        assert_eq!(type_in(LIST, 129).map(latency_of_type), Some(DeviceLatency::Overlay));
        assert_eq!(latency_of_type("fuse.sshfs"), DeviceLatency::Remote);
        assert_eq!(latency_of_type("nfs4"), DeviceLatency::Remote);
    }

    #[test]
    fn mount_point_that_is_not_utf8_hides_no_mount() {
        let list = b"40 28 0:50 / /mnt/\xff\xfe rw - nfs4 host:/ rw\n\
            28 1 254:0 / / rw - ext4 /dev/vda rw\n";
        assert_eq!(latency_in(list, 28), DeviceLatency::Local);
        assert_eq!(latency_in(list, 40), DeviceLatency::Remote);
        assert_eq!(latency_in(list, 41), DeviceLatency::Remote, "not listed");
    }

    #[test]
    fn proc_is_not_local() {
        let file = std::fs::File::open("/proc/self/stat").unwrap();
        let identity = identify(&file).unwrap();
        assert_eq!(latency_of(&file, &identity), DeviceLatency::Remote);
        assert_eq!(latency_of(&file, &identity), DeviceLatency::Remote, "cached");
    }
}
