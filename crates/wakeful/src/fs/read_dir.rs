//! What is in a folder.

use super::operation::{self, Perform, call};
use super::page_cache;
use crate::runtime::{Shared, context};
use crate::task::coop;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::fmt;
use std::fs::{FileType, Metadata};
use std::future::poll_fn;
use std::io;
use std::os::unix::fs::DirEntryExt;
use std::panic::Location;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

/// Entries that are fetched at once.
const BATCH: usize = 128;

/// Opens a folder, to see what is in it.
///
/// # Errors
///
/// As [`std::fs::read_dir`].
///
/// ```
/// # #[wakeful::main]
/// # async fn main() -> std::io::Result<()> {
/// # let folder = std::env::temp_dir().join(format!("wakeful-doc-list-{}", std::process::id()));
/// # std::fs::create_dir_all(folder.join("one"))?;
/// let mut entries = wakeful::fs::read_dir(&folder).await?;
/// while let Some(entry) = entries.next_entry().await? {
///     assert_eq!(entry.file_name(), "one");
///     assert!(entry.file_type().await?.is_dir());
/// }
/// # std::fs::remove_dir_all(&folder)
/// # }
/// ```
#[track_caller]
pub fn read_dir(path: impl AsRef<Path>) -> impl Future<Output = io::Result<ReadDir>> {
    let site = Location::caller();
    async move {
        let path = path;
        let named = path.as_ref().to_owned();
        let open = move || {
            let std = std::fs::read_dir(&named)?;
            let folder = Arc::new(Folder::new(&named));
            Ok(fetch(std, folder))
        };
        let batch = call(site, open).await?;
        Ok(ReadDir { stage: Stage::Here(batch), path: path.as_ref().to_owned(), site })
    }
}

/// Sees to it that the folder is not closed by a worker where closing may wait.
///
/// std's entries share the open folder, and the last one closes it. If that may wait,
/// one of them is kept here until all others are gone, and dropped by the pool.
struct Folder {
    closes_at_once: bool,
    last: OnceLock<Arc<std::fs::DirEntry>>,
}

impl Folder {
    fn new(path: &Path) -> Self {
        Self { closes_at_once: page_cache::is_local(path), last: OnceLock::new() }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let Some(last) = self.last.take() else { return };
        let is_open = |shared: &Shared| !shared.estate().is_closing();
        if context::with_current(is_open) == Some(true) {
            drop(operation::start(operation::job(move || drop(last))));
        }
    }
}

impl fmt::Debug for Folder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Folder").finish_non_exhaustive()
    }
}

/// Some entries, and where the others come from if there are more.
struct Batch {
    entries: VecDeque<io::Result<DirEntry>>,
    more: Option<std::fs::ReadDir>,
    /// Dropped after the others.
    folder: Arc<Folder>,
}

fn fetch(mut std: std::fs::ReadDir, folder: Arc<Folder>) -> Batch {
    let mut entries = VecDeque::with_capacity(BATCH);
    while entries.len() < BATCH {
        let Some(entry) = std.next() else { return Batch { entries, more: None, folder } };
        let failed = entry.is_err();
        entries.push_back(entry.map(|std| {
            let (file_type, std) = (std.file_type().ok(), Arc::new(std));
            if !folder.closes_at_once {
                folder.last.get_or_init(|| std.clone());
            }
            DirEntry { file_type, std, _folder: folder.clone() }
        }));
        if failed {
            break;
        }
    }
    Batch { entries, more: Some(std), folder }
}

type Fetch = Pin<Box<dyn Future<Output = io::Result<Batch>> + Send + Sync>>;

/// The entries of a folder; from [`read_dir`].
#[must_use = "streams do nothing unless polled"]
pub struct ReadDir {
    stage: Stage,
    path: PathBuf,
    site: &'static Location<'static>,
}

enum Stage {
    Here(Batch),
    Fetching(Fetch),
    /// The pool could not fetch any more.
    Over,
}

impl ReadDir {
    /// The next entry; none at the end.
    ///
    /// # Errors
    ///
    /// If the folder cannot be read on.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: an entry that was not given is given next.
    #[track_caller]
    pub fn next_entry(&mut self) -> impl Future<Output = io::Result<Option<DirEntry>>> {
        self.site = Location::caller();
        async move { poll_fn(|cx| self.poll_next_entry(cx)).await }
    }

    /// As [`next_entry`](Self::next_entry), for futures of your own.
    pub fn poll_next_entry(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<DirEntry>>> {
        let progress = ready!(coop::poll_proceed(cx));
        loop {
            match &mut self.stage {
                Stage::Here(batch) => {
                    if let Some(entry) = batch.entries.pop_front() {
                        progress.made_progress();
                        return Poll::Ready(entry.map(Some));
                    }
                    let Some(more) = batch.more.take() else { return Poll::Ready(Ok(None)) };
                    let folder = batch.folder.clone();
                    let fetched: Perform<_> = call(self.site, move || Ok(fetch(more, folder)));
                    self.stage = Stage::Fetching(Box::pin(fetched));
                }
                Stage::Over => return Poll::Ready(Ok(None)),
                Stage::Fetching(fetching) => {
                    let batch = ready!(fetching.as_mut().poll(cx));
                    self.stage = Stage::Over;
                    self.stage = Stage::Here(batch?);
                }
            }
        }
    }
}

impl fmt::Debug for ReadDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadDir").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Something in a folder; from [`ReadDir`].
#[derive(Debug)]
pub struct DirEntry {
    file_type: Option<FileType>,
    std: Arc<std::fs::DirEntry>,
    /// Dropped after `std`.
    _folder: Arc<Folder>,
}

impl DirEntry {
    /// The folder's path and the entry's name.
    pub fn path(&self) -> PathBuf {
        self.std.path()
    }

    /// Its name.
    pub fn file_name(&self) -> OsString {
        self.std.file_name()
    }

    /// What is known of it; of a link, of the link itself.
    ///
    /// # Errors
    ///
    /// As [`std::fs::DirEntry::metadata`].
    #[track_caller]
    pub fn metadata(&self) -> impl Future<Output = io::Result<Metadata>> {
        let site = Location::caller();
        async move {
            // By the folder that was opened, which may have another name by now.
            let std = self.std.clone();
            call(site, move || std.metadata()).await
        }
    }

    /// What it is. Most file systems have said so already.
    ///
    /// # Errors
    ///
    /// As [`std::fs::DirEntry::file_type`].
    #[track_caller]
    pub fn file_type(&self) -> impl Future<Output = io::Result<FileType>> {
        let site = Location::caller();
        async move {
            if let Some(file_type) = self.file_type {
                return Ok(file_type);
            }
            let std = self.std.clone();
            call(site, move || std.file_type()).await
        }
    }

    /// The number of its inode.
    pub fn ino(&self) -> u64 {
        self.std.ino()
    }
}
