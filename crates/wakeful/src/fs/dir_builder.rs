//! How a folder is to be made.

use super::operation::call;
use super::paths;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::panic::Location;
use std::path::Path;

/// How a folder is to be made; as [`std::fs::DirBuilder`].
///
/// ```
/// # #[wakeful::main]
/// # async fn main() -> std::io::Result<()> {
/// use wakeful::fs::DirBuilder;
///
/// # let folder = std::env::temp_dir().join(format!("wakeful-doc-dir-{}", std::process::id()));
/// DirBuilder::new().recursive(true).mode(0o700).create(folder.join("a/b")).await?;
/// assert!(folder.join("a/b").is_dir());
/// # std::fs::remove_dir_all(&folder)
/// # }
/// ```
#[derive(Debug, Default)]
pub struct DirBuilder {
    recursive: bool,
    mode: Option<u32>,
}

impl DirBuilder {
    /// One folder, with the usual permissions.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the folders above it are made too; then it may be there already.
    pub fn recursive(&mut self, recursive: bool) -> &mut Self {
        self.recursive = recursive;
        self
    }

    /// Its permissions, before the process's umask; 0o777 by default.
    pub fn mode(&mut self, mode: u32) -> &mut Self {
        self.mode = Some(mode);
        self
    }

    /// Makes the folder.
    ///
    /// # Errors
    ///
    /// As [`std::fs::DirBuilder::create`].
    #[track_caller]
    pub fn create(&self, path: impl AsRef<Path>) -> impl Future<Output = io::Result<()>> {
        let site = Location::caller();
        let (recursive, mode) = (self.recursive, self.mode.unwrap_or(0o777));
        async move {
            let path = path;
            if !recursive {
                return paths::make_dir(path.as_ref(), mode, site).await;
            }
            let mut builder = std::fs::DirBuilder::new();
            builder.recursive(true).mode(mode);
            let named = path.as_ref().to_owned();
            call(site, move || builder.create(named)).await
        }
    }
}
