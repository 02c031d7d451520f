//! Rows about files, in a folder inside the folder for temporary files.
//!
//! The files were just written, so reads come from the page cache. Programs without a runtime are in
//! the rows too, as limits (`raw_files.rs`). A cell ends when all its data is on the disk, so that the
//! next cell has the disk for itself.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use super::{Cell, Kind, Row, Target, Unit, Work, raw_files as raw};
use crate::peers::files::{Files, Offsets, PAGE};
use crate::peers::{Flavor, cells};

/// Pages of the file that is read.
pub const PAGES: u64 = 16_384;
/// Reads in one batch.
pub const READS: u64 = 16_000;
/// Tasks that read at once.
pub const READERS: u64 = 64;
/// Appends in one batch.
pub const APPENDS: u64 = 2_000;
/// Appends in one batch, if each is brought to the disk.
pub const SYNCED: u64 = 20;
/// Small files.
const SMALL: u64 = 10_000;
/// The length of the file that is copied.
pub const COPIED: u64 = 256 << 20;

/// A program without a runtime: its name, and how it does the work of a row.
type Limit = (&'static str, fn() -> Work);

pub fn rows() -> Vec<Row> {
    let row = |name, what, ops_per_batch, target, cells| {
        let (unit, counted) = (Unit::Nanoseconds, None);
        Row { name, what, unit, ops_per_batch, target, counted, cells }
    };
    let limits = |mut cells: Vec<Cell>, limits: &[Limit]| {
        let limit = |&(peer, prepare): &Limit| {
            let (flavor, kind) = (Flavor::Single, Kind::Here(prepare));
            Cell { peer, flavor, kind }
        };
        cells.extend(limits.iter().map(limit));
        cells
    };
    vec![
        row(
            "file_read",
            "4 KiB from anywhere in a cached file, one read after the other",
            READS,
            Target::both(0.05),
            limits(
                cells!(file_read: MonoioUring, Compio, Glommio),
                &[("raw-pread", raw::pread), ("raw-uring", || raw::reads_in_ring(1))],
            ),
        ),
        row(
            "file_read_64",
            "4 KiB from anywhere in a cached file, 64 tasks at once; per read",
            READS,
            Target::both(0.12),
            limits(
                cells!(file_read_64: MonoioUring, Compio, Glommio),
                &[("raw-uring", || raw::reads_in_ring(READERS as u32))],
            ),
        ),
        row(
            "file_append",
            "4 KiB appended to a file, flushed at the end",
            APPENDS,
            Target::both(0.50),
            limits(
                cells!(file_append: MonoioUring, Compio, Glommio),
                &[
                    ("raw-pread", || raw::append(APPENDS, false)),
                    ("raw-uring", || raw::append_in_ring(APPENDS, false)),
                ],
            ),
        ),
        row(
            "file_append_sync",
            "4 KiB appended and brought to the disk",
            SYNCED,
            Target::both(1.00),
            limits(
                cells!(file_append_sync: MonoioUring, Compio, Glommio),
                &[
                    ("raw-pread", || raw::append(SYNCED, true)),
                    ("raw-uring", || raw::append_in_ring(SYNCED, true)),
                ],
            ),
        ),
        row(
            "file_open_stat",
            "stat and open one of 10,000 small files",
            SMALL,
            Target::both(0.50),
            limits(
                cells!(file_open_stat: MonoioUring, Compio, Glommio),
                &[("raw-pread", raw::open_stat), ("raw-uring", raw::open_stat_in_ring)],
            ),
        ),
        row(
            "file_copy",
            "copy a file of 256 MiB",
            1,
            Target::both(1.10),
            limits(
                cells!(file_copy: MonoioUring, Compio, Glommio),
                &[("raw-pread", raw::copy), ("raw-uring", raw::copy_in_ring)],
            ),
        ),
    ]
}

/// A folder that goes with all that is in it.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Self {
        let folder = std::env::temp_dir().join(format!("wakeful-bench-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("the folder for temporary files can be written");
        Self(folder)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Creates a file of `len` bytes, in the page cache and on the disk.
    pub fn file(&self, name: &str, len: u64) -> PathBuf {
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
        // A folder that stays in the temporary folder does no harm.
        let _ = fs::remove_dir_all(&self.0);
        if let Some(disk) = self.0.parent().and_then(|folder| File::open(folder).ok()) {
            let _ = rustix::fs::syncfs(disk);
        }
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

pub fn small_files(folder: &Folder) -> Arc<[PathBuf]> {
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
