//! Functions on paths: what exists, links, removing and renaming, permissions.

use super::operation::{Operation, Perform, call, change};
use super::page_cache;
use super::path_ops::{CreateDir, Exists, HardLink, Name, RemoveDir, RemoveFile, Rename, Symlink};
use std::fs::{Metadata, Permissions};
use std::io;
use std::panic::Location;
use std::path::{Path, PathBuf};

type Site = &'static Location<'static>;

// All of these keep the paths until they are done: a path may be something that
// removes its file when it is dropped.

/// Performs an operation on a path.
async fn with_path<T: Operation>(
    path: impl AsRef<Path>,
    site: Site,
    operation: impl FnOnce(Name) -> T,
) -> io::Result<T::Output> {
    Perform::new(operation(Name::new(path.as_ref())), site).await
}

/// Performs an operation on two paths.
async fn with_paths<T: Operation>(
    (from, to): (impl AsRef<Path>, impl AsRef<Path>),
    site: Site,
    operation: impl FnOnce(Name, Name) -> T,
) -> io::Result<T::Output> {
    let operation = operation(Name::new(from.as_ref()), Name::new(to.as_ref()));
    Perform::new(operation, site).await
}

/// Calls a function of std in the pool.
async fn in_pool<R: Send + 'static>(
    path: impl AsRef<Path>,
    site: Site,
    function: impl FnOnce(PathBuf) -> io::Result<R> + Send + 'static,
) -> io::Result<R> {
    let named = path.as_ref().to_owned();
    call(site, move || function(named)).await
}

/// What is known of a file or folder; links are followed.
///
/// # Errors
///
/// As [`std::fs::metadata`].
#[track_caller]
pub fn metadata(path: impl AsRef<Path>) -> impl Future<Output = io::Result<Metadata>> {
    stat(path, true, Location::caller())
}

/// What is known of a file, a folder or a link itself.
///
/// # Errors
///
/// As [`std::fs::symlink_metadata`].
#[track_caller]
pub fn symlink_metadata(path: impl AsRef<Path>) -> impl Future<Output = io::Result<Metadata>> {
    stat(path, false, Location::caller())
}

pub(super) async fn stat(path: impl AsRef<Path>, follow: bool, site: Site) -> io::Result<Metadata> {
    if page_cache::is_allowed()? {
        page_cache::spend().await;
        if let page_cache::Attempt::Done(metadata) = page_cache::metadata(path.as_ref(), follow) {
            return metadata;
        }
    }
    // `Metadata` is made by std alone, so not through the ring.
    let ask = move |path: PathBuf| match follow {
        true => std::fs::metadata(path),
        false => std::fs::symlink_metadata(path),
    };
    in_pool(path, site, ask).await
}

/// Whether there is something at this path; links are followed.
///
/// # Errors
///
/// If that cannot be found out: for want of permission, say.
#[track_caller]
pub fn try_exists(path: impl AsRef<Path>) -> impl Future<Output = io::Result<bool>> {
    let site = Location::caller();
    async move {
        let path = path;
        if page_cache::is_allowed()? {
            page_cache::spend().await;
            match page_cache::metadata(path.as_ref(), true) {
                page_cache::Attempt::Done(Ok(_)) => return Ok(true),
                page_cache::Attempt::Done(Err(error))
                    if error.kind() == io::ErrorKind::NotFound =>
                {
                    return Ok(false);
                }
                page_cache::Attempt::Done(Err(error)) => return Err(error),
                page_cache::Attempt::MustWait | page_cache::Attempt::Never => {}
            }
        }
        with_path(path, site, Exists::new).await
    }
}

/// The absolute path, without links and dots.
///
/// # Errors
///
/// As [`std::fs::canonicalize`].
#[track_caller]
pub fn canonicalize(path: impl AsRef<Path>) -> impl Future<Output = io::Result<PathBuf>> {
    in_pool(path, Location::caller(), std::fs::canonicalize)
}

/// Where a link leads.
///
/// # Errors
///
/// As [`std::fs::read_link`].
#[track_caller]
pub fn read_link(path: impl AsRef<Path>) -> impl Future<Output = io::Result<PathBuf>> {
    in_pool(path, Location::caller(), std::fs::read_link)
}

/// Changes who may do what with a file or folder.
///
/// # Errors
///
/// As [`std::fs::set_permissions`].
#[track_caller]
pub fn set_permissions(
    path: impl AsRef<Path>,
    perm: Permissions,
) -> impl Future<Output = io::Result<()>> {
    let site = Location::caller();
    async move {
        let path = path;
        let named = path.as_ref().to_owned();
        change(site, move || std::fs::set_permissions(named, perm)).await
    }
}

/// Removes a file.
///
/// # Errors
///
/// As [`std::fs::remove_file`].
#[track_caller]
pub fn remove_file(path: impl AsRef<Path>) -> impl Future<Output = io::Result<()>> {
    with_path(path, Location::caller(), |name| RemoveFile { name })
}

/// Removes an empty folder.
///
/// # Errors
///
/// As [`std::fs::remove_dir`].
#[track_caller]
pub fn remove_dir(path: impl AsRef<Path>) -> impl Future<Output = io::Result<()>> {
    with_path(path, Location::caller(), |name| RemoveDir { name })
}

/// Removes a folder with everything in it.
///
/// # Errors
///
/// As [`std::fs::remove_dir_all`].
#[track_caller]
pub fn remove_dir_all(path: impl AsRef<Path>) -> impl Future<Output = io::Result<()>> {
    in_pool(path, Location::caller(), std::fs::remove_dir_all)
}

/// Makes a folder.
///
/// # Errors
///
/// As [`std::fs::create_dir`].
#[track_caller]
pub fn create_dir(path: impl AsRef<Path>) -> impl Future<Output = io::Result<()>> {
    make_dir(path, 0o777, Location::caller())
}

pub(super) async fn make_dir(path: impl AsRef<Path>, mode: u32, site: Site) -> io::Result<()> {
    with_path(path, site, |name| CreateDir { name, mode }).await
}

/// Makes a folder, and those above it that are missing.
///
/// # Errors
///
/// As [`std::fs::create_dir_all`].
#[track_caller]
pub fn create_dir_all(path: impl AsRef<Path>) -> impl Future<Output = io::Result<()>> {
    in_pool(path, Location::caller(), std::fs::create_dir_all)
}

/// Gives a file or folder another name. What has that name already is replaced.
///
/// # Errors
///
/// As [`std::fs::rename`].
#[track_caller]
pub fn rename(
    from: impl AsRef<Path>,
    to: impl AsRef<Path>,
) -> impl Future<Output = io::Result<()>> {
    with_paths((from, to), Location::caller(), |from, to| Rename { from, to })
}

/// Gives a file a second name.
///
/// # Errors
///
/// As [`std::fs::hard_link`].
#[track_caller]
pub fn hard_link(
    original: impl AsRef<Path>,
    link: impl AsRef<Path>,
) -> impl Future<Output = io::Result<()>> {
    let operation = |original, link| HardLink { original, link };
    with_paths((original, link), Location::caller(), operation)
}

/// Makes a link that leads to `original`, whether there is something or not.
///
/// # Errors
///
/// As [`symlink`](std::os::unix::fs::symlink) of std.
#[track_caller]
pub fn symlink(
    original: impl AsRef<Path>,
    link: impl AsRef<Path>,
) -> impl Future<Output = io::Result<()>> {
    let operation = |original, link| Symlink { original, link };
    with_paths((original, link), Location::caller(), operation)
}
