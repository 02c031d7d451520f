//! Functions on paths: metadata, links, removing and renaming files, permissions.

use super::op::Operation;
use super::op_future::{OpFuture, change_on_pool, run_on_pool};
use super::page_cache::{self, Attempt};
use super::path_ops::{Exists, HardLink, OpPath, RemoveFile, Rename, Symlink};
use std::fs::{Metadata, Permissions};
use std::io;
use std::panic::Location;
use std::path::{Path, PathBuf};

pub(super) type Site = &'static Location<'static>;

// All functions keep their arguments until they finish: an argument may be a guard that removes its
// file when it is dropped.

/// Executes an operation on a path.
pub(super) async fn with_path<T: Operation>(
    path: impl AsRef<Path>,
    site: Site,
    operation: impl FnOnce(OpPath) -> T,
) -> io::Result<T::Output> {
    OpFuture::new(operation(OpPath::new(path.as_ref())), site).await
}

/// Executes an operation on two paths.
async fn with_paths<T: Operation>(
    (from, to): (impl AsRef<Path>, impl AsRef<Path>),
    site: Site,
    operation: impl FnOnce(OpPath, OpPath) -> T,
) -> io::Result<T::Output> {
    let operation = operation(OpPath::new(from.as_ref()), OpPath::new(to.as_ref()));
    OpFuture::new(operation, site).await
}

/// Calls a function of std on the blocking pool.
pub(super) async fn on_pool<R: Send + 'static>(
    path: impl AsRef<Path>,
    site: Site,
    function: impl FnOnce(PathBuf) -> io::Result<R> + Send + 'static,
) -> io::Result<R> {
    let owned = path.as_ref().to_owned();
    run_on_pool(site, move || function(owned)).await
}

/// Returns the metadata of a file or directory. Follows symbolic links.
///
/// # Errors
///
/// Returns the same errors as [`std::fs::metadata`].
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
/// let metadata = wakeful::fs::metadata("/").await?;
/// assert!(metadata.is_dir());
/// # Ok(())
/// # }
/// ```
#[track_caller]
pub fn metadata(path: impl AsRef<Path>) -> impl Future<Output = io::Result<Metadata>> {
    stat(path, true, Location::caller())
}

/// Returns the metadata of a file, directory or symbolic link. Does not follow links.
///
/// # Errors
///
/// Returns the same errors as [`std::fs::symlink_metadata`].
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
/// use wakeful::fs;
///
/// # #[wakeful::main]
/// # async fn main() -> std::io::Result<()> {
/// # let link = std::env::temp_dir().join(format!("wakeful-doc-lstat-{}", std::process::id()));
/// fs::symlink("/", &link).await?;
/// assert!(fs::symlink_metadata(&link).await?.is_symlink());
/// assert!(fs::metadata(&link).await?.is_dir());
/// # std::fs::remove_file(&link)
/// # }
/// ```
#[track_caller]
pub fn symlink_metadata(path: impl AsRef<Path>) -> impl Future<Output = io::Result<Metadata>> {
    stat(path, false, Location::caller())
}

pub(super) async fn stat(path: impl AsRef<Path>, follow: bool, site: Site) -> io::Result<Metadata> {
    if page_cache::check_inline_allowed()? {
        page_cache::spend_budget().await;
        if let Attempt::Done(metadata) = page_cache::metadata(path.as_ref(), follow) {
            return metadata;
        }
    }
    // Only std can create a `Metadata`, so io_uring cannot be used.
    let stat = move |path: PathBuf| match follow {
        true => std::fs::metadata(path),
        false => std::fs::symlink_metadata(path),
    };
    on_pool(path, site, stat).await
}

/// Returns whether a path exists. Follows symbolic links.
///
/// Returns false for a broken symbolic link.
///
/// # Errors
///
/// Fails if the existence cannot be determined, for example due to missing permissions.
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
/// use wakeful::fs;
///
/// # #[wakeful::main]
/// # async fn main() -> std::io::Result<()> {
/// assert!(fs::try_exists("/").await?);
/// assert!(!fs::try_exists("/no/such/file").await?);
/// # Ok(())
/// # }
/// ```
#[track_caller]
pub fn try_exists(path: impl AsRef<Path>) -> impl Future<Output = io::Result<bool>> {
    let site = Location::caller();
    async move {
        let path = path;
        if page_cache::check_inline_allowed()? {
            page_cache::spend_budget().await;
            match page_cache::metadata(path.as_ref(), true) {
                Attempt::Done(Ok(_)) => return Ok(true),
                Attempt::Done(Err(error)) if error.kind() == io::ErrorKind::NotFound => {
                    return Ok(false);
                }
                Attempt::Done(Err(error)) => return Err(error),
                Attempt::WouldBlock | Attempt::Unsupported => {}
            }
        }
        with_path(path, site, Exists::new).await
    }
}

/// Returns the canonical, absolute form of a path, with all symbolic links resolved.
///
/// # Errors
///
/// Returns the same errors as [`std::fs::canonicalize`], for example if the path does not exist.
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
/// use std::path::Path;
///
/// # #[wakeful::main]
/// # async fn main() -> std::io::Result<()> {
/// let path = wakeful::fs::canonicalize("/dev/../dev/null").await?;
/// assert_eq!(path, Path::new("/dev/null"));
/// # Ok(())
/// # }
/// ```
#[track_caller]
pub fn canonicalize(path: impl AsRef<Path>) -> impl Future<Output = io::Result<PathBuf>> {
    on_pool(path, Location::caller(), std::fs::canonicalize)
}

/// Returns the target of a symbolic link.
///
/// # Errors
///
/// Returns the same errors as [`std::fs::read_link`], for example if `path` is not a symbolic link.
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
/// use std::path::Path;
/// use wakeful::fs;
///
/// # #[wakeful::main]
/// # async fn main() -> std::io::Result<()> {
/// # let link = std::env::temp_dir().join(format!("wakeful-doc-readlink-{}", std::process::id()));
/// fs::symlink("some/target", &link).await?;
/// assert_eq!(fs::read_link(&link).await?, Path::new("some/target"));
/// # std::fs::remove_file(&link)
/// # }
/// ```
#[track_caller]
pub fn read_link(path: impl AsRef<Path>) -> impl Future<Output = io::Result<PathBuf>> {
    on_pool(path, Location::caller(), std::fs::read_link)
}

/// Changes the permissions of a file or directory.
///
/// # Errors
///
/// Returns the same errors as [`std::fs::set_permissions`].
///
/// # Panics
///
/// The future panics if polled outside of a runtime.
///
/// # Cancel safety
///
/// Once started, the permissions are changed even if the future is dropped.
///
/// # Examples
///
/// ```
/// use wakeful::fs;
///
/// # #[wakeful::main]
/// # async fn main() -> std::io::Result<()> {
/// # let path = std::env::temp_dir().join(format!("wakeful-doc-chmod-{}", std::process::id()));
/// fs::write(&path, "read me").await?;
/// let mut permissions = fs::metadata(&path).await?.permissions();
/// permissions.set_readonly(true);
/// fs::set_permissions(&path, permissions).await?;
/// # std::fs::remove_file(&path)
/// # }
/// ```
#[track_caller]
pub fn set_permissions(
    path: impl AsRef<Path>,
    perm: Permissions,
) -> impl Future<Output = io::Result<()>> {
    let site = Location::caller();
    async move {
        let path = path;
        let owned = path.as_ref().to_owned();
        change_on_pool(site, move || std::fs::set_permissions(owned, perm)).await
    }
}

/// Removes a file.
///
/// # Errors
///
/// Returns the same errors as [`std::fs::remove_file`], for example if `path` is a directory.
///
/// # Panics
///
/// The future panics if polled outside of a runtime.
///
/// # Cancel safety
///
/// Once started, the file is removed even if the future is dropped.
///
/// # Examples
///
/// ```
/// use wakeful::fs;
///
/// # #[wakeful::main]
/// # async fn main() -> std::io::Result<()> {
/// # let path = std::env::temp_dir().join(format!("wakeful-doc-unlink-{}", std::process::id()));
/// fs::write(&path, "temporary").await?;
/// fs::remove_file(&path).await?;
/// assert!(!fs::try_exists(&path).await?);
/// # Ok(())
/// # }
/// ```
#[track_caller]
pub fn remove_file(path: impl AsRef<Path>) -> impl Future<Output = io::Result<()>> {
    with_path(path, Location::caller(), |path| RemoveFile { path })
}

/// Renames a file or directory, replacing any existing file at `to`.
///
/// Both paths must be on the same file system.
///
/// # Errors
///
/// Returns the same errors as [`std::fs::rename`].
///
/// # Panics
///
/// The future panics if polled outside of a runtime.
///
/// # Cancel safety
///
/// Once started, the file is renamed even if the future is dropped.
///
/// # Examples
///
/// Replace a file atomically:
///
/// ```
/// use wakeful::fs;
///
/// # #[wakeful::main]
/// # async fn main() -> std::io::Result<()> {
/// # let dir = std::env::temp_dir().join(format!("wakeful-doc-rename-{}", std::process::id()));
/// # std::fs::create_dir_all(&dir)?;
/// fs::write(dir.join("config.new"), "port = 80").await?;
/// fs::rename(dir.join("config.new"), dir.join("config")).await?;
/// assert_eq!(fs::read_to_string(dir.join("config")).await?, "port = 80");
/// # std::fs::remove_dir_all(&dir)
/// # }
/// ```
#[track_caller]
pub fn rename(
    from: impl AsRef<Path>,
    to: impl AsRef<Path>,
) -> impl Future<Output = io::Result<()>> {
    with_paths((from, to), Location::caller(), |from, to| Rename { from, to })
}

/// Creates a hard link: a second name for the file `original`.
///
/// Both paths must be on the same file system.
///
/// # Errors
///
/// Returns the same errors as [`std::fs::hard_link`].
///
/// # Panics
///
/// The future panics if polled outside of a runtime.
///
/// # Cancel safety
///
/// Once started, the link is created even if the future is dropped.
///
/// # Examples
///
/// ```
/// use wakeful::fs;
///
/// # #[wakeful::main]
/// # async fn main() -> std::io::Result<()> {
/// # let dir = std::env::temp_dir().join(format!("wakeful-doc-link-{}", std::process::id()));
/// # std::fs::create_dir_all(&dir)?;
/// fs::write(dir.join("a"), "shared").await?;
/// fs::hard_link(dir.join("a"), dir.join("b")).await?;
/// assert_eq!(fs::read(dir.join("b")).await?, b"shared");
/// # std::fs::remove_dir_all(&dir)
/// # }
/// ```
#[track_caller]
pub fn hard_link(
    original: impl AsRef<Path>,
    link: impl AsRef<Path>,
) -> impl Future<Output = io::Result<()>> {
    let operation = |original, link| HardLink { original, link };
    with_paths((original, link), Location::caller(), operation)
}

/// Creates a symbolic link that points to `original`, which need not exist.
///
/// # Errors
///
/// Returns the same errors as [`std::os::unix::fs::symlink`].
///
/// # Panics
///
/// The future panics if polled outside of a runtime.
///
/// # Cancel safety
///
/// Once started, the link is created even if the future is dropped.
///
/// # Examples
///
/// ```
/// use wakeful::fs;
///
/// # #[wakeful::main]
/// # async fn main() -> std::io::Result<()> {
/// # let link = std::env::temp_dir().join(format!("wakeful-doc-symlink-{}", std::process::id()));
/// fs::symlink("/dev/null", &link).await?;
/// assert_eq!(fs::read(&link).await?, b"");
/// # std::fs::remove_file(&link)
/// # }
/// ```
#[track_caller]
pub fn symlink(
    original: impl AsRef<Path>,
    link: impl AsRef<Path>,
) -> impl Future<Output = io::Result<()>> {
    let operation = |original, link| Symlink { original, link };
    with_paths((original, link), Location::caller(), operation)
}
