//! Functions on paths: what exists, links, removing and renaming, permissions.

// Each function keeps its arguments until its future is done, as an `async fn`
// would: a path may be something that removes its file when it is dropped.

use super::by_name::{CreateDir, Exists, HardLink, Name, RemoveDir, RemoveFile, Rename, Symlink};
use super::operation::{Perform, call};
use super::{error, inline};
use std::fs::{Metadata, Permissions};
use std::io;
use std::panic::Location;
use std::path::{Path, PathBuf};

/// What is known of a file or folder; links are followed.
///
/// # Errors
///
/// As [`std::fs::metadata`]; the error says which path it was.
#[track_caller]
pub fn metadata(path: impl AsRef<Path>) -> impl Future<Output = io::Result<Metadata>> {
    let site = Location::caller();
    async move {
        let path = path;
        stat(path.as_ref(), true, site).await
    }
}

/// What is known of a file, a folder or a link itself.
///
/// # Errors
///
/// As [`std::fs::symlink_metadata`]; the error says which path it was.
#[track_caller]
pub fn symlink_metadata(path: impl AsRef<Path>) -> impl Future<Output = io::Result<Metadata>> {
    let site = Location::caller();
    async move {
        let path = path;
        stat(path.as_ref(), false, site).await
    }
}

pub(super) async fn stat(
    path: &Path,
    follow: bool,
    site: &'static Location<'static>,
) -> io::Result<Metadata> {
    #[cfg(target_os = "linux")]
    if inline::is_allowed()? {
        inline::spend().await;
        if let inline::Attempt::Done(metadata) = inline::metadata(path, follow) {
            return metadata.map_err(|error| error::at("stat", path, error));
        }
    }
    // `Metadata` is made by std alone, so not through the ring.
    let named = path.to_owned();
    let asked = call(site, move || {
        if follow { std::fs::metadata(named) } else { std::fs::symlink_metadata(named) }
    });
    asked.await.map_err(|error| error::at("stat", path, error))
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
        #[cfg(target_os = "linux")]
        if inline::is_allowed()? {
            inline::spend().await;
            match inline::metadata(path.as_ref(), true) {
                inline::Attempt::Done(Ok(_)) => return Ok(true),
                inline::Attempt::Done(Err(error)) if error.kind() == io::ErrorKind::NotFound => {
                    return Ok(false);
                }
                inline::Attempt::Done(Err(error)) => {
                    return Err(error::at("stat", path.as_ref(), error));
                }
                inline::Attempt::MustWait | inline::Attempt::Never => {}
            }
        }
        let exists = Perform::new(Exists::new(Name::new(path.as_ref())), site).await;
        exists.map_err(|error| error::at("stat", path.as_ref(), error))
    }
}

/// The absolute path, without links and dots.
///
/// # Errors
///
/// As [`std::fs::canonicalize`]; the error says which path it was.
#[track_caller]
pub fn canonicalize(path: impl AsRef<Path>) -> impl Future<Output = io::Result<PathBuf>> {
    let site = Location::caller();
    async move {
        let path = path;
        let named = path.as_ref().to_owned();
        let found = call(site, move || std::fs::canonicalize(named)).await;
        found.map_err(|error| error::at("canonicalize", path.as_ref(), error))
    }
}

/// Where a link leads.
///
/// # Errors
///
/// As [`std::fs::read_link`]; the error says which path it was.
#[track_caller]
pub fn read_link(path: impl AsRef<Path>) -> impl Future<Output = io::Result<PathBuf>> {
    let site = Location::caller();
    async move {
        let path = path;
        let named = path.as_ref().to_owned();
        let read = call(site, move || std::fs::read_link(named)).await;
        read.map_err(|error| error::at("read the link", path.as_ref(), error))
    }
}

/// Changes who may do what with a file or folder.
///
/// # Errors
///
/// As [`std::fs::set_permissions`]; the error says which path it was.
#[track_caller]
pub fn set_permissions(
    path: impl AsRef<Path>,
    perm: Permissions,
) -> impl Future<Output = io::Result<()>> {
    let site = Location::caller();
    async move {
        let path = path;
        let named = path.as_ref().to_owned();
        let set = call(site, move || std::fs::set_permissions(named, perm)).await;
        set.map_err(|error| error::at("set the permissions of", path.as_ref(), error))
    }
}

/// Removes a file.
///
/// # Errors
///
/// As [`std::fs::remove_file`]; the error says which path it was.
#[track_caller]
pub fn remove_file(path: impl AsRef<Path>) -> impl Future<Output = io::Result<()>> {
    let site = Location::caller();
    async move {
        let path = path;
        let removed = Perform::new(RemoveFile { name: Name::new(path.as_ref()) }, site).await;
        removed.map_err(|error| error::at("remove", path.as_ref(), error))
    }
}

/// Removes an empty folder.
///
/// # Errors
///
/// As [`std::fs::remove_dir`]; the error says which path it was.
#[track_caller]
pub fn remove_dir(path: impl AsRef<Path>) -> impl Future<Output = io::Result<()>> {
    let site = Location::caller();
    async move {
        let path = path;
        let removed = Perform::new(RemoveDir { name: Name::new(path.as_ref()) }, site).await;
        removed.map_err(|error| error::at("remove", path.as_ref(), error))
    }
}

/// Removes a folder with everything in it.
///
/// # Errors
///
/// As [`std::fs::remove_dir_all`]; the error says which path it was.
#[track_caller]
pub fn remove_dir_all(path: impl AsRef<Path>) -> impl Future<Output = io::Result<()>> {
    let site = Location::caller();
    async move {
        let path = path;
        let named = path.as_ref().to_owned();
        let removed = call(site, move || std::fs::remove_dir_all(named)).await;
        removed.map_err(|error| error::at("remove all of", path.as_ref(), error))
    }
}

/// Makes a folder.
///
/// # Errors
///
/// As [`std::fs::create_dir`]; the error says which path it was.
#[track_caller]
pub fn create_dir(path: impl AsRef<Path>) -> impl Future<Output = io::Result<()>> {
    let site = Location::caller();
    async move {
        let path = path;
        make_dir(path.as_ref(), 0o777, site).await
    }
}

pub(super) async fn make_dir(
    path: &Path,
    mode: u32,
    site: &'static Location<'static>,
) -> io::Result<()> {
    let made = Perform::new(CreateDir { name: Name::new(path), mode }, site).await;
    made.map_err(|error| error::at("create the folder", path, error))
}

/// Makes a folder, and those above it that are missing.
///
/// # Errors
///
/// As [`std::fs::create_dir_all`]; the error says which path it was.
#[track_caller]
pub fn create_dir_all(path: impl AsRef<Path>) -> impl Future<Output = io::Result<()>> {
    let site = Location::caller();
    async move {
        let path = path;
        let named = path.as_ref().to_owned();
        let made = call(site, move || std::fs::create_dir_all(named)).await;
        made.map_err(|error| error::at("create the folder", path.as_ref(), error))
    }
}

/// Gives a file or folder another name. What has that name already is replaced.
///
/// # Errors
///
/// As [`std::fs::rename`]; the error says which paths these were.
#[track_caller]
pub fn rename(
    from: impl AsRef<Path>,
    to: impl AsRef<Path>,
) -> impl Future<Output = io::Result<()>> {
    let site = Location::caller();
    async move {
        let (from, to) = (from, to);
        let operation = Rename { from: Name::new(from.as_ref()), to: Name::new(to.as_ref()) };
        let renamed = Perform::new(operation, site).await;
        renamed.map_err(|error| error::between("rename", from.as_ref(), to.as_ref(), error))
    }
}

/// Gives a file a second name.
///
/// # Errors
///
/// As [`std::fs::hard_link`]; the error says which paths these were.
#[track_caller]
pub fn hard_link(
    original: impl AsRef<Path>,
    link: impl AsRef<Path>,
) -> impl Future<Output = io::Result<()>> {
    let site = Location::caller();
    async move {
        let (original, link) = (original, link);
        let operation =
            HardLink { original: Name::new(original.as_ref()), link: Name::new(link.as_ref()) };
        let linked = Perform::new(operation, site).await;
        linked.map_err(|error| error::between("link", original.as_ref(), link.as_ref(), error))
    }
}

/// Makes a link that leads to `original`, whether there is something or not.
///
/// # Errors
///
/// As [`symlink`](std::os::unix::fs::symlink) of std; the error says which paths
/// these were.
#[track_caller]
pub fn symlink(
    original: impl AsRef<Path>,
    link: impl AsRef<Path>,
) -> impl Future<Output = io::Result<()>> {
    let site = Location::caller();
    async move {
        let (original, link) = (original, link);
        let operation =
            Symlink { original: Name::new(original.as_ref()), link: Name::new(link.as_ref()) };
        let linked = Perform::new(operation, site).await;
        linked.map_err(|error| error::between("symlink", original.as_ref(), link.as_ref(), error))
    }
}
