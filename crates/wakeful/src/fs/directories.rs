//! Functions that create and remove directories.

use super::path_ops::{CreateDir, RemoveDir};
use super::paths::{Site, on_pool, with_path};
use std::io;
use std::panic::Location;
use std::path::Path;

/// Removes an empty directory.
///
/// # Errors
///
/// Returns the same errors as [`std::fs::remove_dir`], for example if the directory is not empty.
///
/// # Panics
///
/// The future panics if polled outside of a runtime.
///
/// # Cancel safety
///
/// Once started, the directory is removed even if the future is dropped.
///
/// # Examples
///
/// ```
/// use wakeful::fs;
///
/// # #[wakeful::main]
/// # async fn main() -> std::io::Result<()> {
/// # let dir = std::env::temp_dir().join(format!("wakeful-doc-rmdir-{}", std::process::id()));
/// fs::create_dir(&dir).await?;
/// fs::remove_dir(&dir).await?;
/// # Ok(())
/// # }
/// ```
#[track_caller]
pub fn remove_dir(path: impl AsRef<Path>) -> impl Future<Output = io::Result<()>> {
    with_path(path, Location::caller(), |path| RemoveDir { path })
}

/// Removes a directory with all its contents.
///
/// Does not follow symbolic links: removes the links themselves.
///
/// # Errors
///
/// Returns the same errors as [`std::fs::remove_dir_all`].
///
/// # Panics
///
/// The future panics if polled outside of a runtime.
///
/// # Cancel safety
///
/// This function is not cancel safe. If the future is dropped, the directory may or may not have
/// been removed.
///
/// # Examples
///
/// ```
/// use wakeful::fs;
///
/// # #[wakeful::main]
/// # async fn main() -> std::io::Result<()> {
/// # let dir = std::env::temp_dir().join(format!("wakeful-doc-rmall-{}", std::process::id()));
/// fs::create_dir_all(dir.join("a/b")).await?;
/// fs::remove_dir_all(&dir).await?;
/// assert!(!fs::try_exists(&dir).await?);
/// # Ok(())
/// # }
/// ```
#[track_caller]
pub fn remove_dir_all(path: impl AsRef<Path>) -> impl Future<Output = io::Result<()>> {
    on_pool(path, Location::caller(), std::fs::remove_dir_all)
}

/// Creates a directory.
///
/// Use [`create_dir_all`] to create missing parents too, or [`DirBuilder`](super::DirBuilder) to
/// set the permissions.
///
/// # Errors
///
/// Returns the same errors as [`std::fs::create_dir`], for example if the parent does not exist.
///
/// # Panics
///
/// The future panics if polled outside of a runtime.
///
/// # Cancel safety
///
/// Once started, the directory is created even if the future is dropped.
///
/// # Examples
///
/// ```
/// use wakeful::fs;
///
/// # #[wakeful::main]
/// # async fn main() -> std::io::Result<()> {
/// # let dir = std::env::temp_dir().join(format!("wakeful-doc-mkdir-{}", std::process::id()));
/// fs::create_dir(&dir).await?;
/// assert!(fs::metadata(&dir).await?.is_dir());
/// # std::fs::remove_dir(&dir)
/// # }
/// ```
#[track_caller]
pub fn create_dir(path: impl AsRef<Path>) -> impl Future<Output = io::Result<()>> {
    create_dir_with_mode(path, 0o777, Location::caller())
}

pub(super) async fn create_dir_with_mode(
    path: impl AsRef<Path>,
    mode: u32,
    site: Site,
) -> io::Result<()> {
    with_path(path, site, |path| CreateDir { path, mode }).await
}

/// Creates a directory and all missing parents.
///
/// Succeeds if the directory already exists.
///
/// # Errors
///
/// Returns the same errors as [`std::fs::create_dir_all`].
///
/// # Panics
///
/// The future panics if polled outside of a runtime.
///
/// # Cancel safety
///
/// This function is not cancel safe. If the future is dropped, the directories may or may not have
/// been created.
///
/// # Examples
///
/// ```
/// use wakeful::fs;
///
/// # #[wakeful::main]
/// # async fn main() -> std::io::Result<()> {
/// # let dir = std::env::temp_dir().join(format!("wakeful-doc-mkall-{}", std::process::id()));
/// fs::create_dir_all(dir.join("a/b/c")).await?;
/// assert!(fs::try_exists(dir.join("a/b")).await?);
/// # std::fs::remove_dir_all(&dir)
/// # }
/// ```
#[track_caller]
pub fn create_dir_all(path: impl AsRef<Path>) -> impl Future<Output = io::Result<()>> {
    on_pool(path, Location::caller(), std::fs::create_dir_all)
}
