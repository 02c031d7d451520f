//! Rows about files, in a folder of their own in the folder for temporary files.
//!
//! What is read lies in the page cache: it was written a moment ago. The limits,
//! without a runtime, are in the rows too: `raw-pread` makes the system calls one
//! after the other, `raw-uring` keeps a ring busy.

use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use io_uring::{IoUring, opcode, types};

use super::{Cell, Kind, Row, Target, Unit, Work};
use crate::peers::files::{Files, Offsets, PAGE};
use crate::peers::{Flavor, cells};

/// Pages of the file that is read.
const PAGES: u64 = 16_384;
/// Reads in one batch.
const READS: u64 = 16_000;
/// Tasks that read at once.
const READERS: u64 = 64;
/// Appends in one batch.
const APPENDS: u64 = 2_000;
/// Appends in one batch, if each is brought to the disk.
const SYNCED: u64 = 20;
/// Small files.
const SMALL: u64 = 10_000;
/// The length of the file that is copied.
const COPIED: u64 = 256 << 20;

pub fn rows() -> Vec<Row> {
    let row = |name, what, ops_per_batch, target, cells| {
        let (unit, counted) = (Unit::Nanoseconds, None);
        Row { name, what, unit, ops_per_batch, target, counted, cells }
    };
    let raw = |peer, prepare| Cell { peer, flavor: Flavor::Single, kind: Kind::Here(prepare) };
    let with_raw = |mut cells: Vec<Cell>, raw: &[Cell]| {
        cells.extend_from_slice(raw);
        cells
    };
    vec![
        row(
            "file_read",
            "4 KiB from anywhere in a cached file, one read after the other",
            READS,
            Target::both(0.05),
            with_raw(
                cells!(file_read: MonoioUring, Compio, Glommio),
                &[raw("raw-pread", raw_pread), raw("raw-uring", || raw_uring(1))],
            ),
        ),
        row(
            "file_read_64",
            "the same, 64 tasks at once; per read",
            READS,
            Target::both(0.12),
            with_raw(
                cells!(file_read_64: MonoioUring, Compio, Glommio),
                &[raw("raw-uring", || raw_uring(READERS as u32))],
            ),
        ),
        row(
            "file_append",
            "4 KiB appended to a file, flushed at the end",
            APPENDS,
            Target::both(0.50),
            with_raw(
                cells!(file_append: MonoioUring, Compio, Glommio),
                &[raw("raw-pread", raw_append)],
            ),
        ),
        row(
            "file_append_sync",
            "4 KiB appended and brought to the disk",
            SYNCED,
            Target::both(1.10),
            cells!(file_append_sync: MonoioUring, Compio, Glommio),
        ),
        row(
            "file_open_stat",
            "stat and open one of 10,000 small files",
            SMALL,
            Target::both(0.20),
            with_raw(
                cells!(file_open_stat: MonoioUring, Compio, Glommio),
                &[raw("raw-pread", raw_open_stat)],
            ),
        ),
        row(
            "file_copy",
            "copy a file of 256 MiB",
            1,
            Target::both(1.10),
            cells!(file_copy: MonoioUring, Compio, Glommio),
        ),
    ]
}

/// A folder that goes with all that is in it.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let folder = std::env::temp_dir().join(format!("wakeful-bench-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("the folder for temporary files can be written");
        Self(folder)
    }

    fn path(&self) -> &Path {
        &self.0
    }

    /// A file of so many bytes, in the page cache and on the disk.
    fn file(&self, name: &str, len: u64) -> PathBuf {
        let path = self.0.join(name);
        let mut file = File::create(&path).expect("there is room");
        let chunk = vec![7; (1 << 20).min(len as usize)];
        for _ in 0..len / chunk.len() as u64 {
            file.write_all(&chunk).expect("there is room");
        }
        file.sync_all().expect("the disk takes it");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left behind harms nobody.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Times `work` on a worker of the peer, once per batch; `folder` stays until the
/// cell is done.
fn on_files<P, D, F>(folder: Folder, work: D) -> Work
where
    P: Files,
    D: Fn(u64) -> F + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let (peer, folder) = (P::build(), Rc::new(folder));
    Work::timed(move |batches| {
        let _kept = &folder;
        (0..batches)
            .map(|batch| {
                let work = work(batch);
                peer.run(async move {
                    let start = Instant::now();
                    work.await;
                    start.elapsed()
                })
            })
            .sum()
    })
}

fn file_read<P: Files>() -> Work {
    let folder = Folder::new();
    let path = folder.file("source", PAGES * PAGE as u64);
    on_files::<P, _, _>(folder, move |batch| {
        P::read_pages(path.clone(), Offsets::new(batch + 1, PAGES), READS)
    })
}

fn file_read_64<P: Files>() -> Work {
    let folder = Folder::new();
    let path = folder.file("source", PAGES * PAGE as u64);
    on_files::<P, _, _>(folder, move |batch| {
        let path = path.clone();
        async move {
            let read = |reader| {
                let offsets = Offsets::new(batch * READERS + reader + 1, PAGES);
                P::spawn(P::read_pages(path.clone(), offsets, READS / READERS))
            };
            let readers: Vec<_> = (0..READERS).map(read).collect();
            for reader in readers {
                reader.await;
            }
        }
    })
}

fn file_append<P: Files>() -> Work {
    let folder = Folder::new();
    let path = folder.path().join("log");
    on_files::<P, _, _>(folder, move |_| P::append_pages(path.clone(), APPENDS, false))
}

fn file_append_sync<P: Files>() -> Work {
    let folder = Folder::new();
    let path = folder.path().join("log");
    on_files::<P, _, _>(folder, move |_| P::append_pages(path.clone(), SYNCED, true))
}

fn small_files(folder: &Folder) -> Arc<[PathBuf]> {
    let write = |number: u64| {
        let path = folder.path().join(number.to_string());
        fs::write(&path, [7; 100]).expect("there is room");
        path
    };
    (0..SMALL).map(write).collect()
}

fn file_open_stat<P: Files>() -> Work {
    let folder = Folder::new();
    let paths = small_files(&folder);
    on_files::<P, _, _>(folder, move |_| P::open_and_stat(paths.clone()))
}

fn file_copy<P: Files>() -> Work {
    let folder = Folder::new();
    let (from, to) = (folder.file("from", COPIED), folder.path().join("to"));
    on_files::<P, _, _>(folder, move |_| P::copy(from.clone(), to.clone()))
}

/// Times `work`, once per batch, without a runtime.
fn without_runtime(folder: Folder, mut work: impl FnMut(u64) + 'static) -> Work {
    Work::timed(move |batches| {
        let _kept = &folder;
        let start = Instant::now();
        (0..batches).for_each(&mut work);
        start.elapsed()
    })
}

fn raw_pread() -> Work {
    let folder = Folder::new();
    let file = File::open(folder.file("source", PAGES * PAGE as u64)).expect("it is there");
    let mut page = vec![0; PAGE];
    without_runtime(folder, move |batch| {
        for offset in Offsets::new(batch + 1, PAGES).take(READS as usize) {
            assert_eq!(file.read_at(&mut page, offset).expect("it can be read"), PAGE);
        }
    })
}

/// Keeps `depth` reads under way.
fn raw_uring(depth: u32) -> Work {
    let folder = Folder::new();
    let file = File::open(folder.file("source", PAGES * PAGE as u64)).expect("it is there");
    let mut ring = IoUring::new(depth.max(2)).expect("there is io_uring");
    let mut pages = vec![vec![0u8; PAGE]; depth as usize];
    Work::timed(move |batches| {
        let _kept = &folder;
        let mut spent = Duration::ZERO;
        for batch in 0..batches {
            let mut offsets = Offsets::new(batch + 1, PAGES);
            let start = Instant::now();
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
            spent += start.elapsed();
        }
        spent
    })
}

fn raw_append() -> Work {
    let folder = Folder::new();
    let (path, page) = (folder.path().join("log"), vec![1; PAGE]);
    without_runtime(folder, move |_| {
        let mut file = File::create(&path).expect("there is room");
        for _ in 0..APPENDS {
            file.write_all(&page).expect("there is room");
        }
    })
}

fn raw_open_stat() -> Work {
    let folder = Folder::new();
    let paths = small_files(&folder);
    without_runtime(folder, move |_| {
        for path in &*paths {
            assert!(fs::metadata(path).expect("it is there").is_file());
            drop(File::open(path).expect("it is there"));
        }
    })
}
