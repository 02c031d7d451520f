//! Swaps the project's lock file for one that names the shim, and restores it byte for byte.
//!
//! A backup keeps the original until it is restored. If this program is killed before that, the next
//! call finds the backup and restores it. Ctrl-C reaches both cargo and this program: this program
//! waits for cargo, restores the file and ends.
//!
//! The lock file with the shim is cached in the target folder, together with the original that it
//! was made from. While the original is unchanged, cargo need not resolve the dependencies again.

use crate::Failure;
use crate::interrupt::install_handlers;
use crate::patch_status::PatchStatus;
use crate::project::{Project, tokios};
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};

/// A swapped lock file. Dropping it restores the original.
pub struct LockSwap {
    lock: PathBuf,
    /// The backup of the original; empty if the project has no lock file.
    backup: PathBuf,
    /// The cached lock file with the shim.
    swapped: PathBuf,
    /// The original that `swapped` was made from.
    made_from: PathBuf,
    original: Option<Vec<u8>>,
    is_restored: bool,
    /// Locked, so that one call at a time uses the folder.
    _mutex: File,
}

impl LockSwap {
    pub fn begin(project: &Project) -> Result<Self, Failure> {
        let lock = project.root.join("Cargo.lock");
        // Several projects may share a target folder.
        let mut hasher = DefaultHasher::new();
        project.root.hash(&mut hasher);
        let folder = project.target.join(format!("lock-{:016x}", hasher.finish()));
        let swap =
            Self::at(lock, &folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        install_handlers()?;
        Ok(swap)
    }

    fn at(lock: PathBuf, folder: &Path) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let mutex = File::create(folder.join("turn"))?;
        mutex.lock()?;
        let [backup, swapped, made_from] =
            ["Cargo.lock.copy", "Cargo.lock", "Cargo.lock.made-from"].map(|name| folder.join(name));
        if let Some(left_behind) = read(&backup)? {
            // Unless the user has restored the file in the meantime.
            if read(&lock)?.is_some_and(|bytes| names_wakeful(&bytes)) {
                put(&lock, original_of(&left_behind))?;
            }
            fs::remove_file(&backup)?;
        }
        let original = read(&lock)?;
        put(&backup, Some(original.as_deref().unwrap_or_default()))?;
        if let Some(cached) = read(&swapped)?
            && read(&made_from)?.as_deref() == Some(original.as_deref().unwrap_or_default())
        {
            put(&lock, Some(&cached))?;
        }
        Ok(Self { lock, backup, swapped, made_from, original, is_restored: false, _mutex: mutex })
    }

    /// Makes cargo resolve the dependencies with the shim. Returns whether the shim replaces tokio.
    pub fn resolve(&mut self, project: &Project) -> Result<PatchStatus, Failure> {
        let mut metadata = project.metadata()?;
        let mut refusal = None;
        for tokio in tokios(&metadata) {
            // The shim replaces only a tokio of its major version from the registry or from git.
            let is_replaceable =
                tokio.source.is_some() && tokio.version.major == project.shim.version.major;
            if is_replaceable && tokio.version != project.shim.version {
                refusal = project.update(&tokio.version).err();
                metadata = project.metadata()?;
            }
        }
        let status = PatchStatus::of(project, &metadata, refusal);
        if let PatchStatus::Applied(_) = status {
            self.cache().map_err(|error| format!("{}: {error}", self.swapped.display()))?;
        }
        Ok(status)
    }

    /// Returns the versions of tokio in the project's own lock file.
    pub fn locked_tokios(&self) -> Vec<semver::Version> {
        let lock = String::from_utf8_lossy(self.original.as_deref().unwrap_or_default());
        locked_versions(&lock, "tokio")
    }

    /// Caches the lock file with the shim for the next call.
    fn cache(&self) -> io::Result<()> {
        put(&self.made_from, Some(self.original.as_deref().unwrap_or_default()))?;
        put(&self.swapped, read(&self.lock)?.as_deref())
    }

    /// Restores the lock file.
    pub fn end(mut self) -> Result<(), Failure> {
        self.restore().map_err(|error| {
            let (lock, backup) = (self.lock.display(), self.backup.display());
            format!("cannot restore {lock}: {error}\n  the original is in {backup}")
        })
    }

    fn restore(&mut self) -> io::Result<()> {
        if !std::mem::replace(&mut self.is_restored, true) {
            put(&self.lock, self.original.as_deref())?;
            fs::remove_file(&self.backup)?;
        }
        Ok(())
    }
}

impl Drop for LockSwap {
    fn drop(&mut self) {
        if let Err(error) = self.restore() {
            let (lock, backup) = (self.lock.display(), self.backup.display());
            eprintln!(
                "cargo wakeful: cannot restore {lock}: {error}\n  the original is in {backup}"
            );
        }
    }
}

/// Returns the content of the original. An empty backup means that there was no lock file.
fn original_of(backup: &[u8]) -> Option<&[u8]> {
    (!backup.is_empty()).then_some(backup)
}

/// Returns the versions of a package in the text of a lock file.
///
/// cargo writes `name` and `version` as the first two lines of each `[[package]]`.
fn locked_versions(lock: &str, name: &str) -> Vec<semver::Version> {
    let name = format!("name = \"{name}\"");
    let mut versions = Vec::new();
    let mut lines = lock.lines();
    while lines.any(|line| line.trim_end() == name) {
        let version = lines.next().and_then(|line| line.trim_end().strip_prefix("version = \""));
        versions.extend(version.and_then(|text| text.strip_suffix('"')?.parse().ok()));
    }
    versions
}

fn names_wakeful(lock: &[u8]) -> bool {
    let name = b"name = \"wakeful\"";
    lock.windows(name.len()).any(|part| part == name)
}

fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes this content to the file, or removes the file for `None`. Does not touch it if nothing changes.
fn put(path: &Path, bytes: Option<&[u8]>) -> io::Result<()> {
    match (read(path)?.as_deref(), bytes) {
        (old, new) if old == new => Ok(()),
        (_, Some(bytes)) => replace(path, bytes),
        (_, None) => fs::remove_file(path),
    }
}

/// Replaces a file atomically.
///
/// If the process is killed or the disk is full, either the old file or the new one remains. A
/// symbolic link and the file's permissions are kept.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let mut new = path.clone().into_os_string();
    new.push(".wakeful-new");
    let replaced = fs::write(&new, bytes)
        .and_then(|()| match fs::metadata(&path) {
            Ok(metadata) => fs::set_permissions(&new, metadata.permissions()),
            Err(_) => Ok(()),
        })
        .and_then(|()| fs::rename(&new, &path));
    match replaced {
        // The folder is read-only, but the file may be writable.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => fs::write(&path, bytes),
        replaced => replaced.inspect_err(|_| _ = fs::remove_file(&new)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let folder =
                std::env::temp_dir().join(format!("cargo-wakeful-{}-{name}", std::process::id()));
            fs::create_dir_all(&folder).unwrap();
            Self(folder)
        }

        fn swap(&self) -> LockSwap {
            LockSwap::at(self.0.join("Cargo.lock"), &self.0.join("notes")).unwrap()
        }

        fn lock(&self) -> Option<Vec<u8>> {
            read(&self.0.join("Cargo.lock")).unwrap()
        }

        fn set_lock(&self, bytes: Option<&[u8]>) {
            put(&self.0.join("Cargo.lock"), bytes).unwrap();
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn the_locked_versions_of_a_package_are_found() {
        let lock = "version = 4\n\n[[package]]\nname = \"tokio\"\nversion = \"0.2.25\"\n\n\
                    [[package]]\nname = \"tokio-util\"\nversion = \"0.7.1\"\ndependencies = [\n \"tokio\",\n]\n\n\
                    [[package]]\r\nname = \"tokio\"\r\nversion = \"1.50.0\"\r\n";
        let found: Vec<String> =
            locked_versions(lock, "tokio").iter().map(semver::Version::to_string).collect();
        assert_eq!(found, ["0.2.25", "1.50.0"]);
        assert!(locked_versions("", "tokio").is_empty());
    }

    #[test]
    fn the_original_is_restored() {
        let folder = Folder::new("back");
        for original in [None, Some(&b"the project's"[..])] {
            folder.set_lock(original);
            let swap = folder.swap();
            folder.set_lock(Some(b"cargo's"));
            swap.end().unwrap();
            assert_eq!(folder.lock().as_deref(), original);
            let swap = folder.swap();
            folder.set_lock(Some(b"cargo's"));
            drop(swap);
            assert_eq!(folder.lock().as_deref(), original);
        }
    }

    #[test]
    fn the_next_call_restores_after_a_kill() {
        let folder = Folder::new("killed");
        for original in [None, Some(&b"the project's"[..])] {
            folder.set_lock(original);
            let mut swap = folder.swap();
            folder.set_lock(Some(b"name = \"wakeful\""));
            // As if the program had been killed.
            swap.is_restored = true;
            drop(swap);
            let swap = folder.swap();
            assert_eq!(swap.original.as_deref(), original);
            swap.end().unwrap();
            assert_eq!(folder.lock().as_deref(), original);

            let mut swap = folder.swap();
            swap.is_restored = true;
            drop(swap);
            folder.set_lock(Some(b"restored by the user"));
            folder.swap().end().unwrap();
            assert_eq!(folder.lock().unwrap(), b"restored by the user");
        }
    }

    #[test]
    fn a_failed_write_leaves_the_old_file() {
        let folder = Folder::new("full");
        folder.set_lock(Some(b"the project's"));
        // The temporary file cannot be created.
        fs::create_dir(folder.0.join("Cargo.lock.wakeful-new")).unwrap();
        put(&folder.0.join("Cargo.lock"), Some(b"another")).unwrap_err();
        assert_eq!(folder.lock().unwrap(), b"the project's");
    }

    #[test]
    fn a_link_stays_a_link_and_permissions_stay() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = Folder::new("link");
        let (lock, real) = (folder.0.join("Cargo.lock"), folder.0.join("real"));
        fs::write(&real, "one").unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o600)).unwrap();
        symlink(&real, &lock).unwrap();
        put(&lock, Some(b"two")).unwrap();
        assert!(lock.is_symlink());
        assert_eq!(fs::read(&real).unwrap(), b"two");
        assert_eq!(fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn the_lock_file_with_the_shim_is_cached_for_its_original() {
        let folder = Folder::new("kept");
        folder.set_lock(Some(b"one"));
        let swap = folder.swap();
        folder.set_lock(Some(b"one, swapped"));
        swap.cache().unwrap();
        swap.end().unwrap();
        let swap = folder.swap();
        assert_eq!(folder.lock().unwrap(), b"one, swapped");
        swap.end().unwrap();
        folder.set_lock(Some(b"two"));
        let swap = folder.swap();
        assert_eq!(folder.lock().unwrap(), b"two", "made from another original");
        swap.end().unwrap();
    }
}
