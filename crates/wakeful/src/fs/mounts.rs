//! Which file systems answer from memory.
//!
//! A worker may ask the kernel about a file only if the answer needs no disk, server or
//! other process. [`of`] finds that out without asking the file system itself: `statx`
//! with `AT_STATX_DONT_SYNC` gives the mount, and the kernel's list of mounts gives the
//! type. Only types on a fixed list count as local. Answers are kept for the process.

use crate::sys::sync::ignore_poison;
use rustix::fs::{AtFlags, FileType, StatxFlags};
use std::os::fd::AsFd;
use std::sync::RwLock;

/// How a file system answers requests about names and attributes it has in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Latency {
    /// At once: a local disk or memory.
    Local,
    /// At once, but the cursor of an overlay's file waits while another thread copies
    /// the file to the upper layer.
    Overlay,
    /// After asking a server or another process: FUSE, NFS and every type that is not
    /// known to be local.
    Remote,
}

/// One mount. The kernel gives device numbers and old mount ids to later mounts again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mount {
    device: u64,
    /// Never given to another mount from Linux 6.8 on.
    id: u64,
}

/// What `statx` has in memory about an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    mount: Mount,
    pub(super) kind: FileType,
}

/// `STATX_MNT_ID`: the id that the list of mounts has.
const LISTED_ID: u32 = 0x1000;
/// `STATX_MNT_ID_UNIQUE`, from Linux 6.8 on; before, the kernel gives the other.
const UNIQUE_ID: u32 = 0x4000;

fn statx(fd: impl AsFd, id: u32) -> Option<rustix::fs::Statx> {
    let in_memory = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let wanted = StatxFlags::TYPE | StatxFlags::from_bits_retain(id);
    rustix::fs::statx(fd, c"", in_memory, wanted).ok()
}

/// Asks for the kind and the mount of an open file, which may be open as a path only.
pub(super) fn known(fd: impl AsFd) -> Option<Known> {
    let stat = statx(fd, UNIQUE_ID)?;
    let device = rustix::fs::makedev(stat.stx_dev_major, stat.stx_dev_minor);
    let has_id = stat.stx_mask & (LISTED_ID | UNIQUE_ID) != 0;
    let mount = Mount { device, id: if has_id { stat.stx_mnt_id } else { 0 } };
    Some(Known { mount, kind: FileType::from_raw_mode(stat.stx_mode.into()) })
}

/// The mounts that were asked about last.
static MOUNTS: RwLock<Vec<(Mount, Latency)>> = RwLock::new(Vec::new());
/// How many mounts are remembered.
const REMEMBERED: usize = 64;

/// How the file system of an open file answers.
pub(super) fn of(fd: impl AsFd, known: &Known) -> Latency {
    {
        let mounts = ignore_poison(MOUNTS.read());
        if let Some((_, latency)) = mounts.iter().find(|(mount, _)| *mount == known.mount) {
            return *latency;
        }
    }
    let latency = ask(fd);
    let mut mounts = ignore_poison(MOUNTS.write());
    mounts.retain(|(mount, _)| *mount != known.mount);
    if mounts.len() == REMEMBERED {
        mounts.remove(0);
    }
    mounts.push((known.mount, latency));
    latency
}

/// Looks the mount up in the kernel's list, which is kept in memory.
fn ask(fd: impl AsFd) -> Latency {
    let listed = statx(fd, LISTED_ID).filter(|stat| stat.stx_mask & LISTED_ID != 0);
    // Names of mount points may be any bytes.
    let list = std::fs::read("/proc/thread-self/mountinfo");
    match (listed, list) {
        (Some(stat), Ok(list)) => latency_in(&list, stat.stx_mnt_id),
        _ => Latency::Remote,
    }
}

/// How the mount with this id answers. A mount that is not listed counts as remote.
fn latency_in(list: &[u8], id: u64) -> Latency {
    type_in(&String::from_utf8_lossy(list), id).map_or(Latency::Remote, latency)
}

/// The type of the mount with this id, in the format of `/proc/self/mountinfo`.
fn type_in(list: &str, id: u64) -> Option<&str> {
    let is_it = |line: &&str| line.split(' ').next().and_then(|id| id.parse().ok()) == Some(id);
    // Spaces inside of fields are escaped.
    let (_, after) = list.lines().find(is_it)?.split_once(" - ")?;
    after.split(' ').next()
}

fn latency(file_system: &str) -> Latency {
    match file_system {
        "ext2" | "ext3" | "ext4" | "xfs" | "btrfs" | "tmpfs" | "devtmpfs" | "ramfs" | "f2fs"
        | "zfs" | "bcachefs" | "squashfs" | "erofs" | "msdos" | "vfat" | "exfat" => Latency::Local,
        "overlay" => Latency::Overlay,
        _ => Latency::Remote,
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
    fn a_type_is_found_by_the_id_of_its_mount() {
        assert_eq!(type_in(LIST, 28), Some("ext4"));
        assert_eq!(type_in(LIST, 129), Some("overlay"));
        assert_eq!(type_in(LIST, 2), None, "no mount has a part of an id");
        assert_eq!(type_in(LIST, 28).map(latency), Some(Latency::Local));
        assert_eq!(type_in(LIST, 22).map(latency), Some(Latency::Remote));
        assert_eq!(type_in(LIST, 129).map(latency), Some(Latency::Overlay));
        assert_eq!(latency("fuse.sshfs"), Latency::Remote);
        assert_eq!(latency("nfs4"), Latency::Remote);
    }

    #[test]
    fn a_name_that_is_no_text_hides_no_mount() {
        let list = b"40 28 0:50 / /mnt/\xff\xfe rw - nfs4 host:/ rw\n28 1 254:0 / / rw - ext4 /dev/vda rw\n";
        assert_eq!(latency_in(list, 28), Latency::Local);
        assert_eq!(latency_in(list, 40), Latency::Remote);
        assert_eq!(latency_in(list, 41), Latency::Remote, "not listed");
    }

    #[test]
    fn a_file_of_the_kernel_is_not_local() {
        let file = std::fs::File::open("/proc/self/stat").unwrap();
        let known = known(&file).unwrap();
        assert_eq!(of(&file, &known), Latency::Remote);
        assert_eq!(of(&file, &known), Latency::Remote, "remembered");
    }
}
