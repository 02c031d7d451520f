//! The limits of the rows about files, without a runtime: `raw-pread` makes the system calls one after
//! the other, `raw-uring` submits them to a ring.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::Write;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::time::Instant;

use io_uring::squeue::Entry;
use io_uring::{IoUring, opcode, types};

use super::Work;
use super::files::{COPIED, Folder, PAGES, READS, small_files};
use crate::peers::files::{CHUNK, Offsets, PAGE};

/// What the kernel calls the current folder.
const HERE: types::Fd = types::Fd(-100);

/// Times `work`, once per batch, without a runtime.
fn without_runtime(folder: Folder, mut work: impl FnMut(u64) + 'static) -> Work {
    Work::timed(move |batches| {
        let _kept = &folder;
        let start = Instant::now();
        (0..batches).for_each(&mut work);
        start.elapsed()
    })
}

pub fn pread() -> Work {
    let folder = Folder::new();
    let file = File::open(folder.file("source", PAGES * PAGE as u64)).expect("it is there");
    let mut page = vec![0; PAGE];
    without_runtime(folder, move |batch| {
        for offset in Offsets::new(batch + 1, PAGES).take(READS as usize) {
            assert_eq!(file.read_at(&mut page, offset).expect("it can be read"), PAGE);
        }
    })
}

pub fn append(count: u64, sync: bool) -> Work {
    let folder = Folder::new();
    let (path, page) = (folder.path().join("log"), vec![1; PAGE]);
    without_runtime(folder, move |_| {
        let mut file = File::create(&path).expect("there is room");
        for _ in 0..count {
            file.write_all(&page).expect("there is room");
            if sync {
                file.sync_data().expect("the disk takes it");
            }
        }
    })
}

pub fn open_stat() -> Work {
    let folder = Folder::new();
    let paths = small_files(&folder);
    without_runtime(folder, move |_| {
        for path in &*paths {
            assert!(fs::metadata(path).expect("it is there").is_file());
            drop(File::open(path).expect("it is there"));
        }
    })
}

pub fn copy() -> Work {
    let folder = Folder::new();
    let (from, to) = (folder.file("from", COPIED), folder.path().join("to"));
    without_runtime(folder, move |_| {
        assert_eq!(fs::copy(&from, &to).expect("there is room"), COPIED);
    })
}

/// A ring with one operation in flight at a time.
struct Ring(IoUring);

impl Ring {
    fn new() -> Self {
        Self(IoUring::new(2).expect("there is io_uring"))
    }

    /// # Safety
    ///
    /// What the entry points to is there and untouched until this returns.
    unsafe fn call(&mut self, entry: Entry) -> usize {
        // SAFETY: by contract; it is done below.
        unsafe { self.0.submission().push(&entry) }.expect("there is room for one");
        self.0.submit_and_wait(1).expect("the ring works");
        let done = self.0.completion().next().expect("waited for it");
        usize::try_from(done.result()).expect("it can be done")
    }

    fn write(&mut self, file: &File, data: &[u8], offset: u64) {
        let fd = types::Fd(file.as_raw_fd());
        let write = opcode::Write::new(fd, data.as_ptr(), data.len() as u32).offset(offset);
        // SAFETY: borrowed until it is done.
        assert_eq!(unsafe { self.call(write.build()) }, data.len());
    }
}

/// Keeps `depth` reads under way.
pub fn reads_in_ring(depth: u32) -> Work {
    let folder = Folder::new();
    let file = File::open(folder.file("source", PAGES * PAGE as u64)).expect("it is there");
    let mut ring = IoUring::new(depth.max(2)).expect("there is io_uring");
    let mut pages = vec![vec![0u8; PAGE]; depth as usize];
    without_runtime(folder, move |batch| {
        let mut offsets = Offsets::new(batch + 1, PAGES);
        for _ in 0..READS / u64::from(depth) {
            for (number, page) in pages.iter_mut().enumerate() {
                let fd = types::Fd(file.as_raw_fd());
                let offset = offsets.next().expect("there is always another");
                let read = opcode::Read::new(fd, page.as_mut_ptr(), PAGE as u32);
                let entry = read.offset(offset).build().user_data(number as u64);
                // SAFETY: the page stays until its completion was seen below.
                unsafe { ring.submission().push(&entry) }.expect("there is room for all");
            }
            ring.submit_and_wait(depth as usize).expect("the ring works");
            let done = ring.completion().map(|done| assert_eq!(done.result(), PAGE as i32));
            assert_eq!(done.count(), depth as usize);
        }
    })
}

pub fn append_in_ring(count: u64, sync: bool) -> Work {
    let folder = Folder::new();
    let (path, page) = (folder.path().join("log"), vec![1; PAGE]);
    let mut ring = Ring::new();
    without_runtime(folder, move |_| {
        let file = File::create(&path).expect("there is room");
        for number in 0..count {
            ring.write(&file, &page, number * PAGE as u64);
            if sync {
                let fsync = opcode::Fsync::new(types::Fd(file.as_raw_fd()));
                // SAFETY: it points to nothing.
                unsafe { ring.call(fsync.flags(types::FsyncFlags::DATASYNC).build()) };
            }
        }
    })
}

pub fn open_stat_in_ring() -> Work {
    let folder = Folder::new();
    let name = |path: &std::path::PathBuf| CString::new(path.as_os_str().as_bytes());
    let names: Vec<_> =
        small_files(&folder).iter().map(|path| name(path).expect("no zeros")).collect();
    let mut ring = Ring::new();
    without_runtime(folder, move |_| {
        let mut found = MaybeUninit::<rustix::fs::Statx>::uninit();
        for name in &names {
            let stat = opcode::Statx::new(HERE, name.as_ptr(), found.as_mut_ptr().cast());
            let open = opcode::OpenAt::new(HERE, name.as_ptr()).build();
            // SAFETY: the name and the room for the answer are there until it is done.
            let fd = unsafe {
                ring.call(stat.build());
                ring.call(open)
            };
            // SAFETY: it points to nothing.
            unsafe { ring.call(opcode::Close::new(types::Fd(fd as RawFd)).build()) };
        }
    })
}

pub fn copy_in_ring() -> Work {
    let folder = Folder::new();
    let (from, to) = (folder.file("from", COPIED), folder.path().join("to"));
    let (mut ring, mut chunk) = (Ring::new(), vec![0; CHUNK]);
    without_runtime(folder, move |_| {
        let from = File::open(&from).expect("it is there");
        let to = File::create(&to).expect("there is room");
        for offset in (0..COPIED).step_by(CHUNK) {
            let fd = types::Fd(from.as_raw_fd());
            let read = opcode::Read::new(fd, chunk.as_mut_ptr(), CHUNK as u32).offset(offset);
            // SAFETY: the chunk is there until it is done.
            assert_eq!(unsafe { ring.call(read.build()) }, CHUNK);
            ring.write(&to, &chunk, offset);
        }
    })
}
