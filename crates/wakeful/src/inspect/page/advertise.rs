//! Publishes the URL of a process's page to tools of the same user.
//!
//! The URL is in a file named after the process id. Only the user can read its folder: `$XDG_RUNTIME_DIR/wakeful`, or
//! `wakeful-<uid>` in the folder for temporary files. `cargo wakeful top` reads it. A second line has the URL for a
//! browser that `cargo wakeful run --page` starts, with a code in place of the token. The file contains the token, so a
//! folder or file of another user is not used.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The file with the URL. Removed on drop.
pub(super) struct Advertisement {
    path: PathBuf,
}

impl Advertisement {
    /// Writes the file of this process.
    pub(super) fn new(url: &str, code_url: Option<&str>) -> io::Result<Self> {
        let folder = folder();
        match DirBuilder::new().mode(0o700).create(&folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => check_owner(&folder)?,
        }
        let path = folder.join(std::process::id().to_string());
        let _ = fs::remove_file(&path); // of a process that had the same id
        remove_stale(&folder);
        let mut file: File =
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        file.write_all(format!("{url}\n{}\n", code_url.unwrap_or_default()).as_bytes())?;
        Ok(Self { path })
    }
}

impl Drop for Advertisement {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path); // another program may have cleaned the folder
    }
}

/// Removes the files of processes that have ended, because the page of a process is never dropped.
fn remove_stale(folder: &Path) {
    for file in fs::read_dir(folder).into_iter().flatten().flatten() {
        let id = file.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
        if id.is_some_and(|id| !Path::new(&format!("/proc/{id}")).exists()) {
            let _ = fs::remove_file(file.path()); // another process may be faster
        }
    }
}

fn folder() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(runtime) if !runtime.is_empty() => Path::new(&runtime).join("wakeful"),
        _ => std::env::temp_dir().join(format!("wakeful-{}", rustix::process::getuid().as_raw())),
    }
}

/// Fails if another user owns the folder, or may write to it, or if it is a symbolic link.
fn check_owner(folder: &Path) -> io::Result<()> {
    let metadata = fs::symlink_metadata(folder)?;
    let is_own = metadata.uid() == rustix::process::getuid().as_raw();
    if metadata.is_dir() && is_own && metadata.mode() & 0o077 == 0 {
        return Ok(());
    }
    let text = format!("{} is not a folder that only this user can use", folder.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
}
