//! [`ReadDir`]: a stream over the entries of a directory.

use super::in_flight::start;
use super::op::must_run;
use super::op_future::run_on_pool;
use super::page_cache;
use crate::runtime::{RuntimeInner, context};
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

/// The number of entries that one pool job fetches.
const BATCH_SIZE: usize = 128;

/// Returns a stream over the entries of a directory.
///
/// The entries `.` and `..` are left out. The order is unspecified.
///
/// # Errors
///
/// Returns the same errors as [`std::fs::read_dir`].
///
/// # Panics
///
/// The future panics if polled outside of a runtime.
///
/// # Cancel safety
///
/// This function is cancel safe: it changes nothing.
///
/// # Examples
///
/// ```
/// # #[wakeful::main]
/// # async fn main() -> std::io::Result<()> {
/// # let dir = std::env::temp_dir().join(format!("wakeful-doc-list-{}", std::process::id()));
/// # std::fs::create_dir_all(dir.join("one"))?;
/// let mut entries = wakeful::fs::read_dir(&dir).await?;
/// while let Some(entry) = entries.next_entry().await? {
///     assert_eq!(entry.file_name(), "one");
///     assert!(entry.file_type().await?.is_dir());
/// }
/// # std::fs::remove_dir_all(&dir)
/// # }
/// ```
#[track_caller]
pub fn read_dir(path: impl AsRef<Path>) -> impl Future<Output = io::Result<ReadDir>> {
    let site = Location::caller();
    async move {
        let path = path;
        let owned = path.as_ref().to_owned();
        let open = move || {
            let std = std::fs::read_dir(&owned)?;
            let closer = Arc::new(DirCloser::new(&owned));
            Ok(fetch(std, closer))
        };
        let batch = run_on_pool(site, open).await?;
        Ok(ReadDir { stage: Stage::Fetched(batch), path: path.as_ref().to_owned(), site })
    }
}

/// Closes the directory on the blocking pool, if closing it may block.
///
/// std's entries share the open directory, and dropping the last one closes it. If that may block,
/// one entry is kept here until all others are dropped. Then the pool drops it.
struct DirCloser {
    closes_inline: bool,
    last: OnceLock<Arc<std::fs::DirEntry>>,
}

impl DirCloser {
    fn new(path: &Path) -> Self {
        Self { closes_inline: page_cache::is_local(path), last: OnceLock::new() }
    }
}

impl Drop for DirCloser {
    fn drop(&mut self) {
        let Some(last) = self.last.take() else { return };
        let is_open = |shared: &RuntimeInner| !shared.base().is_closing();
        if context::with_current(is_open) == Some(true) {
            drop(start(must_run(move || drop(last))));
        }
    }
}

impl fmt::Debug for DirCloser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DirCloser").finish_non_exhaustive()
    }
}

/// A batch of fetched entries, and the source of further ones.
struct Batch {
    entries: VecDeque<io::Result<DirEntry>>,
    more: Option<std::fs::ReadDir>,
    /// Dropped after the other fields.
    closer: Arc<DirCloser>,
}

fn fetch(mut std: std::fs::ReadDir, closer: Arc<DirCloser>) -> Batch {
    let mut entries = VecDeque::with_capacity(BATCH_SIZE);
    while entries.len() < BATCH_SIZE {
        let Some(entry) = std.next() else { return Batch { entries, more: None, closer } };
        let failed = entry.is_err();
        entries.push_back(entry.map(|std| {
            let (file_type, std) = (std.file_type().ok(), Arc::new(std));
            if !closer.closes_inline {
                closer.last.get_or_init(|| std.clone());
            }
            DirEntry { file_type, std, _closer: closer.clone() }
        }));
        if failed {
            break;
        }
    }
    Batch { entries, more: Some(std), closer }
}

type Fetch = Pin<Box<dyn Future<Output = io::Result<Batch>> + Send + Sync>>;

/// A stream over the entries of a directory.
///
/// Created by [`read_dir`]. Call [`next_entry`](Self::next_entry) until it returns `None`.
///
/// # Examples
///
/// ```
/// # #[wakeful::main]
/// # async fn main() -> std::io::Result<()> {
/// let mut entries = wakeful::fs::read_dir("/").await?;
/// let mut count = 0;
/// while entries.next_entry().await?.is_some() {
///     count += 1;
/// }
/// assert!(count > 0);
/// # Ok(())
/// # }
/// ```
#[must_use = "streams do nothing unless polled"]
pub struct ReadDir {
    stage: Stage,
    path: PathBuf,
    site: &'static Location<'static>,
}

enum Stage {
    Fetched(Batch),
    Fetching(Fetch),
    /// The pool could not fetch further entries.
    Failed,
}

impl ReadDir {
    /// Returns the next entry, or `None` at the end.
    ///
    /// # Errors
    ///
    /// Fails if the directory cannot be read.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe: if the future is dropped, no entry is lost.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main]
    /// # async fn main() -> std::io::Result<()> {
    /// let mut entries = wakeful::fs::read_dir("/").await?;
    /// while let Some(entry) = entries.next_entry().await? {
    ///     println!("{}", entry.path().display());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn next_entry(&mut self) -> impl Future<Output = io::Result<Option<DirEntry>>> {
        self.site = Location::caller();
        async move { poll_fn(|cx| self.poll_next_entry(cx)).await }
    }

    /// Polls for the next entry. `Ready(Ok(None))` is the end.
    ///
    /// The poll form of [`next_entry`](Self::next_entry). On `Pending`, the task of the most recent
    /// call is woken when the next entry is available.
    ///
    /// # Errors
    ///
    /// Fails if the directory cannot be read.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::future::poll_fn;
    ///
    /// # #[wakeful::main]
    /// # async fn main() -> std::io::Result<()> {
    /// let mut entries = wakeful::fs::read_dir("/").await?;
    /// let first = poll_fn(|cx| entries.poll_next_entry(cx)).await?;
    /// assert!(first.is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub fn poll_next_entry(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<DirEntry>>> {
        let progress = ready!(coop::poll_proceed(cx));
        loop {
            match &mut self.stage {
                Stage::Fetched(batch) => {
                    if let Some(entry) = batch.entries.pop_front() {
                        progress.made_progress();
                        return Poll::Ready(entry.map(Some));
                    }
                    let Some(more) = batch.more.take() else { return Poll::Ready(Ok(None)) };
                    let closer = batch.closer.clone();
                    let fetching = run_on_pool(self.site, move || Ok(fetch(more, closer)));
                    self.stage = Stage::Fetching(Box::pin(fetching));
                }
                Stage::Failed => return Poll::Ready(Ok(None)),
                Stage::Fetching(fetching) => {
                    let batch = ready!(fetching.as_mut().poll(cx));
                    self.stage = Stage::Failed;
                    self.stage = Stage::Fetched(batch?);
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

/// An entry of a directory.
///
/// Returned by [`ReadDir::next_entry`].
///
/// # Examples
///
/// ```
/// # #[wakeful::main]
/// # async fn main() -> std::io::Result<()> {
/// let mut entries = wakeful::fs::read_dir("/").await?;
/// while let Some(entry) = entries.next_entry().await? {
///     println!("{:?}, inode {}", entry.file_name(), entry.ino());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct DirEntry {
    file_type: Option<FileType>,
    std: Arc<std::fs::DirEntry>,
    /// Dropped after `std`.
    _closer: Arc<DirCloser>,
}

impl DirEntry {
    /// Returns the full path of the entry: the path passed to [`read_dir`], joined with the entry's
    /// name.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main]
    /// # async fn main() -> std::io::Result<()> {
    /// let mut entries = wakeful::fs::read_dir("/").await?;
    /// if let Some(entry) = entries.next_entry().await? {
    ///     assert!(entry.path().starts_with("/"));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn path(&self) -> PathBuf {
        self.std.path()
    }

    /// Returns the entry's name, without the directory.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main]
    /// # async fn main() -> std::io::Result<()> {
    /// # let dir = std::env::temp_dir().join(format!("wakeful-doc-name-{}", std::process::id()));
    /// # std::fs::create_dir_all(dir.join("one"))?;
    /// let mut entries = wakeful::fs::read_dir(&dir).await?;
    /// let entry = entries.next_entry().await?.expect("the directory is not empty");
    /// assert_eq!(entry.file_name(), "one");
    /// # std::fs::remove_dir_all(&dir)
    /// # }
    /// ```
    pub fn file_name(&self) -> OsString {
        self.std.file_name()
    }

    /// Returns the entry's metadata. Does not follow symbolic links.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`std::fs::DirEntry::metadata`].
    ///
    /// # Panics
    ///
    /// The future panics if polled outside of a runtime.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe: it changes nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main]
    /// # async fn main() -> std::io::Result<()> {
    /// # let dir = std::env::temp_dir().join(format!("wakeful-doc-entry-{}", std::process::id()));
    /// # std::fs::create_dir_all(&dir)?;
    /// # std::fs::write(dir.join("a"), "12345")?;
    /// let mut size = 0;
    /// let mut entries = wakeful::fs::read_dir(&dir).await?;
    /// while let Some(entry) = entries.next_entry().await? {
    ///     size += entry.metadata().await?.len();
    /// }
    /// assert_eq!(size, 5);
    /// # std::fs::remove_dir_all(&dir)
    /// # }
    /// ```
    #[track_caller]
    pub fn metadata(&self) -> impl Future<Output = io::Result<Metadata>> {
        let site = Location::caller();
        async move {
            // std uses the open directory, which may have been renamed since.
            let std = self.std.clone();
            run_on_pool(site, move || std.metadata()).await
        }
    }

    /// Returns the entry's file type. Does not follow symbolic links.
    ///
    /// Most file systems return the type together with the name, so this needs no system call.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`std::fs::DirEntry::file_type`].
    ///
    /// # Panics
    ///
    /// The future panics if polled outside of a runtime and the type was not returned with the
    /// name.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe: it changes nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main]
    /// # async fn main() -> std::io::Result<()> {
    /// let mut entries = wakeful::fs::read_dir("/").await?;
    /// while let Some(entry) = entries.next_entry().await? {
    ///     if entry.file_type().await?.is_dir() {
    ///         println!("{}/", entry.path().display());
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn file_type(&self) -> impl Future<Output = io::Result<FileType>> {
        let site = Location::caller();
        async move {
            if let Some(file_type) = self.file_type {
                return Ok(file_type);
            }
            let std = self.std.clone();
            run_on_pool(site, move || std.file_type()).await
        }
    }

    /// Returns the entry's inode number.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main]
    /// # async fn main() -> std::io::Result<()> {
    /// let mut entries = wakeful::fs::read_dir("/").await?;
    /// if let Some(entry) = entries.next_entry().await? {
    ///     println!("{} is inode {}", entry.path().display(), entry.ino());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn ino(&self) -> u64 {
        self.std.ino()
    }
}
