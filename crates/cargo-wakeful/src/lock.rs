//! The project's lock file: swapped for one that names the face while cargo runs, and put back byte for byte.
//!
//! What the file was is kept in a copy until it is back. If this program is killed in between, the next call finds the
//! copy and puts it back. Ctrl-C reaches cargo and this program alike; this one waits for cargo, puts the file back and
//! ends then. The lock file with the face is kept in the target folder for the next call, with the one it was made
//! from: as long as that stays the same, nothing has to be chosen again.

use crate::Failure;
use crate::interrupt::outlive_cargo;
use crate::project::{Project, tokios};
use crate::verdict::Verdict;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};

/// The lock file is swapped; ends when it is dropped, at the latest.
pub struct Swap {
    lock: PathBuf,
    /// What the lock file was, until it is back; empty for "not there".
    copy: PathBuf,
    /// The lock file with the face, for the next call.
    swapped: PathBuf,
    /// What `swapped` was made from.
    made_from: PathBuf,
    original: Option<Vec<u8>>,
    is_over: bool,
    /// One call at a time per target folder.
    _turn: File,
}

impl Swap {
    pub fn begin(project: &Project) -> Result<Self, Failure> {
        let lock = project.root.join("Cargo.lock");
        // Several projects may share a target folder.
        let mut hasher = DefaultHasher::new();
        project.root.hash(&mut hasher);
        let folder = project.target.join(format!("lock-{:016x}", hasher.finish()));
        let swap =
            Self::at(lock, &folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        outlive_cargo()?;
        Ok(swap)
    }

    fn at(lock: PathBuf, folder: &Path) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let turn = File::create(folder.join("turn"))?;
        turn.lock()?;
        let [copy, swapped, made_from] =
            ["Cargo.lock.copy", "Cargo.lock", "Cargo.lock.made-from"].map(|name| folder.join(name));
        if let Some(left_behind) = read(&copy)? {
            // Unless somebody else has put the file in order since.
            if read(&lock)?.is_some_and(|bytes| names_wakeful(&bytes)) {
                put(&lock, as_file(&left_behind))?;
            }
            fs::remove_file(&copy)?;
        }
        let original = read(&lock)?;
        put(&copy, Some(original.as_deref().unwrap_or_default()))?;
        if let Some(made) = read(&swapped)?
            && read(&made_from)?.as_deref() == Some(original.as_deref().unwrap_or_default())
        {
            put(&lock, Some(&made))?;
        }
        Ok(Self { lock, copy, swapped, made_from, original, is_over: false, _turn: turn })
    }

    /// Has cargo choose the dependencies with the face, and looks whether it did take it.
    pub fn resolve(&mut self, project: &Project) -> Result<Verdict, Failure> {
        let mut metadata = project.metadata()?;
        let mut refusal = None;
        for tokio in tokios(&metadata) {
            // Of the same major version, so that it may stand in for it, from the same place.
            let is_older =
                tokio.source.is_some() && tokio.version.major == project.face.version.major;
            if is_older && tokio.version != project.face.version {
                refusal = project.update(&tokio.version).err();
                metadata = project.metadata()?;
            }
        }
        let verdict = Verdict::of(project, &metadata, refusal);
        if let Verdict::Taken(_) = verdict {
            self.keep().map_err(|error| format!("{}: {error}", self.swapped.display()))?;
        }
        Ok(verdict)
    }

    /// Returns the versions of tokio that the project's own lock file names.
    pub fn locked_tokios(&self) -> Vec<semver::Version> {
        let lock = String::from_utf8_lossy(self.original.as_deref().unwrap_or_default());
        locked_versions(&lock, "tokio")
    }

    /// Keeps the lock file with the face for the next call.
    fn keep(&self) -> io::Result<()> {
        put(&self.made_from, Some(self.original.as_deref().unwrap_or_default()))?;
        put(&self.swapped, read(&self.lock)?.as_deref())
    }

    /// Puts the lock file back.
    pub fn end(mut self) -> Result<(), Failure> {
        self.put_back().map_err(|error| {
            let (lock, copy) = (self.lock.display(), self.copy.display());
            format!("{lock} cannot be put back: {error}\n  what it was is in {copy}")
        })
    }

    fn put_back(&mut self) -> io::Result<()> {
        if !std::mem::replace(&mut self.is_over, true) {
            put(&self.lock, self.original.as_deref())?;
            fs::remove_file(&self.copy)?;
        }
        Ok(())
    }
}

impl Drop for Swap {
    fn drop(&mut self) {
        if let Err(error) = self.put_back() {
            let (lock, copy) = (self.lock.display(), self.copy.display());
            eprintln!(
                "cargo wakeful: {lock} cannot be put back: {error}\n  what it was is in {copy}"
            );
        }
    }
}

/// The copy of a lock file that was not there is empty.
fn as_file(copy: &[u8]) -> Option<&[u8]> {
    (!copy.is_empty()).then_some(copy)
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

/// Makes the file be this, or not be there; untouched if it is so already.
fn put(path: &Path, bytes: Option<&[u8]>) -> io::Result<()> {
    match (read(path)?.as_deref(), bytes) {
        (is, shall) if is == shall => Ok(()),
        (_, Some(bytes)) => replace(path, bytes),
        (_, None) => fs::remove_file(path),
    }
}

/// In one step: whoever is killed, or finds no room, leaves the old one or the new one. A link stays
/// one, and the file's permissions stay.
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
        // A folder in which nothing can be made, with a file that can be written.
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

        fn swap(&self) -> Swap {
            Swap::at(self.0.join("Cargo.lock"), &self.0.join("notes")).unwrap()
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
    fn what_was_there_comes_back() {
        let folder = Folder::new("back");
        for was in [None, Some(&b"the project's"[..])] {
            folder.set_lock(was);
            let swap = folder.swap();
            folder.set_lock(Some(b"cargo's"));
            swap.end().unwrap();
            assert_eq!(folder.lock().as_deref(), was);
            let swap = folder.swap();
            folder.set_lock(Some(b"cargo's"));
            drop(swap);
            assert_eq!(folder.lock().as_deref(), was);
        }
    }

    #[test]
    fn a_call_that_was_killed_is_made_up_for() {
        let folder = Folder::new("killed");
        for was in [None, Some(&b"the project's"[..])] {
            folder.set_lock(was);
            let mut swap = folder.swap();
            folder.set_lock(Some(b"name = \"wakeful\""));
            // As if it had not come to an end.
            swap.is_over = true;
            drop(swap);
            let swap = folder.swap();
            assert_eq!(swap.original.as_deref(), was);
            swap.end().unwrap();
            assert_eq!(folder.lock().as_deref(), was);

            let mut swap = folder.swap();
            swap.is_over = true;
            drop(swap);
            folder.set_lock(Some(b"put in order since"));
            folder.swap().end().unwrap();
            assert_eq!(folder.lock().unwrap(), b"put in order since");
        }
    }

    #[test]
    fn a_file_that_cannot_be_written_stays_as_it_was() {
        let folder = Folder::new("full");
        folder.set_lock(Some(b"the project's"));
        // What is written first is in the way.
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
    fn what_was_chosen_is_kept_for_the_same_project() {
        let folder = Folder::new("kept");
        folder.set_lock(Some(b"one"));
        let swap = folder.swap();
        folder.set_lock(Some(b"one, swapped"));
        swap.keep().unwrap();
        swap.end().unwrap();
        let swap = folder.swap();
        assert_eq!(folder.lock().unwrap(), b"one, swapped");
        swap.end().unwrap();
        folder.set_lock(Some(b"two"));
        let swap = folder.swap();
        assert_eq!(folder.lock().unwrap(), b"two", "another project's");
        swap.end().unwrap();
    }
}
