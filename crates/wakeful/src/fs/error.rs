//! What failed, and with which file: the system's errors do not say.

use crate::sys::os_error;
use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The error of an operation on a path. It sits inside of an [`io::Error`] of the
/// same kind; the system's own, with its number, is its `source`.
#[derive(Debug)]
struct FileError {
    operation: &'static str,
    path: PathBuf,
    /// The other path of a rename or a link.
    target: Option<PathBuf>,
    source: io::Error,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.operation, self.path.display())?;
        if let Some(target) = &self.target {
            write!(f, " -> {}", target.display())?;
        }
        write!(f, ": {}", self.source)
    }
}

impl Error for FileError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.source)
    }
}

/// Says what was done with which path.
pub(super) fn at(operation: &'static str, path: &Path, error: io::Error) -> io::Error {
    wrap(operation, path, None, error)
}

/// The same for two paths.
pub(super) fn between(
    operation: &'static str,
    path: &Path,
    target: &Path,
    error: io::Error,
) -> io::Error {
    wrap(operation, path, Some(target), error)
}

fn wrap(
    operation: &'static str,
    path: &Path,
    target: Option<&Path>,
    error: io::Error,
) -> io::Error {
    if !os_error::is_told_by_kind(&error) {
        return error;
    }
    let (path, target) = (path.to_owned(), target.map(Path::to_owned));
    io::Error::new(error.kind(), FileError { operation, path, target, source: error })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind;

    #[test]
    fn an_error_says_what_failed_and_keeps_its_kind_and_its_source() {
        let error = at("open", Path::new("/no/file"), io::Error::from_raw_os_error(2));
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.to_string().starts_with("open /no/file: "), "{error}");
        let source = error.get_ref().unwrap().source().unwrap();
        let source = source.downcast_ref::<io::Error>().unwrap();
        assert_eq!(source.raw_os_error(), Some(2));
    }

    #[test]
    fn an_error_that_only_its_number_tells_apart_keeps_it() {
        let too_many = io::Error::from_raw_os_error(24);
        assert_eq!(at("open", Path::new("/x"), too_many).raw_os_error(), Some(24));
        let other_device = io::Error::from_raw_os_error(18);
        assert_eq!(at("rename", Path::new("/x"), other_device).raw_os_error(), Some(18));
        let through_a_file = io::Error::from_raw_os_error(20);
        assert_eq!(at("open", Path::new("/x/y"), through_a_file).raw_os_error(), Some(20));
        let own = at("open", Path::new("/x"), io::Error::other("background task failed"));
        assert_eq!(own.to_string(), "background task failed");
    }
}
