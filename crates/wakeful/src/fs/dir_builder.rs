//! [`DirBuilder`]: options for creating a directory.

use super::directories::create_dir_with_mode;
use super::op_future::run_on_pool;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::panic::Location;
use std::path::Path;

/// A builder for directories, with options for parents and permissions.
///
/// The asynchronous counterpart of [`std::fs::DirBuilder`].
///
/// # Examples
///
/// ```
/// use wakeful::fs::DirBuilder;
///
/// # #[wakeful::main]
/// # async fn main() -> std::io::Result<()> {
/// # let dir = std::env::temp_dir().join(format!("wakeful-doc-dir-{}", std::process::id()));
/// DirBuilder::new().recursive(true).mode(0o700).create(dir.join("a/b")).await?;
/// assert!(dir.join("a/b").is_dir());
/// # std::fs::remove_dir_all(&dir)
/// # }
/// ```
#[derive(Debug, Default)]
pub struct DirBuilder {
    recursive: bool,
    mode: Option<u32>,
}

impl DirBuilder {
    /// Creates a builder for one directory with the default permissions.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::fs::DirBuilder;
    ///
    /// let builder = DirBuilder::new();
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets whether missing parents are created too. The default is `false`.
    ///
    /// With `true`, creating a directory that already exists succeeds.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::fs::DirBuilder;
    ///
    /// # #[wakeful::main]
    /// # async fn main() -> std::io::Result<()> {
    /// # let dir = std::env::temp_dir().join(format!("wakeful-doc-recur-{}", std::process::id()));
    /// DirBuilder::new().recursive(true).create(dir.join("a/b/c")).await?;
    /// # std::fs::remove_dir_all(&dir)
    /// # }
    /// ```
    pub fn recursive(&mut self, recursive: bool) -> &mut Self {
        self.recursive = recursive;
        self
    }

    /// Sets the permissions of the directory, before the process's umask. The default is `0o777`.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::fs::DirBuilder;
    ///
    /// # #[wakeful::main]
    /// # async fn main() -> std::io::Result<()> {
    /// # let dir = std::env::temp_dir().join(format!("wakeful-doc-dmode-{}", std::process::id()));
    /// DirBuilder::new().mode(0o700).create(&dir).await?;
    /// # std::fs::remove_dir_all(&dir)
    /// # }
    /// ```
    pub fn mode(&mut self, mode: u32) -> &mut Self {
        self.mode = Some(mode);
        self
    }

    /// Creates the directory at `path` with the options of this builder.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`std::fs::DirBuilder::create`].
    ///
    /// # Panics
    ///
    /// The future panics if polled outside of a runtime.
    ///
    /// # Cancel safety
    ///
    /// This method is not cancel safe. If the future is dropped, the directory may or may not have
    /// been created.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io::ErrorKind;
    /// use wakeful::fs::DirBuilder;
    ///
    /// # #[wakeful::main]
    /// # async fn main() -> std::io::Result<()> {
    /// # let dir = std::env::temp_dir().join(format!("wakeful-doc-build-{}", std::process::id()));
    /// DirBuilder::new().create(&dir).await?;
    /// let error = DirBuilder::new().create(&dir).await.unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    /// # std::fs::remove_dir(&dir)
    /// # }
    /// ```
    #[track_caller]
    pub fn create(&self, path: impl AsRef<Path>) -> impl Future<Output = io::Result<()>> {
        let site = Location::caller();
        let (recursive, mode) = (self.recursive, self.mode.unwrap_or(0o777));
        async move {
            let path = path;
            if !recursive {
                return create_dir_with_mode(path.as_ref(), mode, site).await;
            }
            let mut builder = std::fs::DirBuilder::new();
            builder.recursive(true).mode(mode);
            let owned = path.as_ref().to_owned();
            run_on_pool(site, move || builder.create(owned)).await
        }
    }
}
