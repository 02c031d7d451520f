//! The files of a search, in the folder `wakeful-sim` of the target folder.
//!
//! | file | content |
//! | --- | --- |
//! | `<test>.running` | the seed that is running; the file stays if the process is killed or aborts |
//! | `<test>-<seed>.choices` | the shrunk choices of a failure, for `WAKEFUL_SIM_REPLAY` |
//! | `<test>-<seed>.json` | the timeline of the shrunk run |
//! | `<test>-<seed>.log` | the messages of the shrunk run |

use crate::sim::oracle::Choices;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const FOLDER: &str = "wakeful-sim";

/// Returns the cargo target folder that holds this program, or `target`.
fn target_folder() -> PathBuf {
    let program = std::env::current_exe().unwrap_or_default();
    // Cargo marks its target folder, whatever its name is.
    let marked = program.ancestors().find(|folder| folder.join("CACHEDIR.TAG").is_file());
    marked.map_or_else(|| PathBuf::from("target"), Path::to_owned)
}

/// Returns a path as it appears in a printed command: `target/…` if the target folder has that name.
pub(super) fn shown(path: &Path) -> String {
    let target = target_folder();
    let inside = path.strip_prefix(&target).ok().filter(|_| target.ends_with("target"));
    inside
        .map_or_else(|| path.to_owned(), |inside| Path::new("target").join(inside))
        .display()
        .to_string()
}

/// Finds a file that a user names. Tests run in the folder of their package, but the user's path may
/// be relative to the root of the workspace.
pub(super) fn find(path: &Path) -> PathBuf {
    let in_target = path.file_name().map(|name| target_folder().join(FOLDER).join(name));
    in_target
        .filter(|path| path.is_file())
        .filter(|_| !path.is_file())
        .unwrap_or_else(|| path.to_owned())
}

/// Converts the name of a test to a part of a file name.
fn file_stem(test: &str) -> String {
    let is_kept = |char: char| char.is_alphanumeric() || "_-.".contains(char);
    test.replace("::", ".").chars().map(|char| if is_kept(char) { char } else { '_' }).collect()
}

/// A file with the running seed. Removed at the end of the search.
pub(super) struct RunningFile {
    /// `None` if the file cannot be written. The search continues without it.
    file: Option<(Arc<File>, PathBuf)>,
}

/// Writes to a [`RunningFile`] from any thread.
#[derive(Clone)]
pub(super) struct SeedWriter(Option<Arc<File>>);

impl SeedWriter {
    /// Writes the seed that is about to run.
    pub(super) fn write(&self, seed: u64) {
        let Some(file) = &self.0 else { return };
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        // All lines have one length, so a shorter seed leaves no digits of a longer one.
        let mut line = *b"WAKEFUL_SIM_SEED=0x0000000000000000\n";
        for (at, digit) in line[19..35].iter_mut().enumerate() {
            *digit = DIGITS[(seed >> (60 - 4 * at)) as usize & 15];
        }
        let _ = file.write_all_at(&line, 0);
    }
}

impl RunningFile {
    pub(super) fn create(test: &str) -> Self {
        let folder = target_folder().join(FOLDER);
        let path = folder.join(format!("{}.running", file_stem(test)));
        let file = fs::create_dir_all(&folder).and_then(|()| File::create(&path));
        Self { file: file.ok().map(|file| (Arc::new(file), path)) }
    }

    /// Returns a writer to this file.
    pub(super) fn writer(&self) -> SeedWriter {
        SeedWriter(self.file.as_ref().map(|(file, _)| file.clone()))
    }
}

impl Drop for RunningFile {
    fn drop(&mut self) {
        if let Some((_, path)) = &self.file {
            let _ = fs::remove_file(path);
        }
    }
}

/// Writes the choices of a failure to a file, and returns its path.
pub(super) fn write_choices(test: &str, seed: u64, choices: &Choices) -> io::Result<PathBuf> {
    let folder = target_folder().join(FOLDER);
    fs::create_dir_all(&folder)?;
    let path = folder.join(format!("{}-{seed:x}.choices", file_stem(test)));
    fs::write(&path, format!("# test {test}\n# seed {seed:#x}\n{choices}"))?;
    Ok(path)
}

/// The content of a file with choices.
#[derive(Debug, PartialEq)]
pub(super) struct ChoicesFile {
    pub(super) test: String,
    pub(super) seed: u64,
    pub(super) choices: Choices,
}

impl ChoicesFile {
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
        Self::parse(&text)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let header = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(&format!("# {key} ")));
            line.ok_or_else(|| format!("the file has no line `# {key} …`"))
        };
        let seed = crate::sim::oracle::parse_seed(header("seed")?)?;
        Ok(Self { test: header("test")?.to_owned(), seed, choices: text.parse()? })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_choices_of_a_failure_are_read_as_they_were_written() {
        let choices: Choices = "task 1 4 2\nloss 2 0 1\n".parse().unwrap();
        let path = write_choices("files::round trip", 0x51e3, &choices).unwrap();
        assert!(path.ends_with("wakeful-sim/files.round_trip-51e3.choices"), "{path:?}");
        let read = ChoicesFile::read(&path).unwrap();
        assert_eq!(read, ChoicesFile { test: "files::round trip".into(), seed: 0x51e3, choices });
        assert_eq!(find(Path::new("somewhere/files.round_trip-51e3.choices")), path);
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_file_without_its_header_is_refused() {
        let error = ChoicesFile::parse("task 1 4 2\n").unwrap_err();
        assert_eq!(error, "the file has no line `# seed …`");
        assert!(
            ChoicesFile::parse("# test a\n# seed 3\ntusk 1 4 2\n").unwrap_err().contains("tusk")
        );
    }

    #[test]
    fn the_running_seed_is_on_disk_while_it_runs() {
        let running = RunningFile::create("files::running");
        let path = running.file.as_ref().unwrap().1.clone();
        running.writer().write(0xffff_ffff_ffff_ffff);
        running.writer().write(0x51e3);
        assert_eq!(fs::read_to_string(&path).unwrap(), "WAKEFUL_SIM_SEED=0x00000000000051e3\n");
        drop(running);
        assert!(!path.exists());
    }
}
