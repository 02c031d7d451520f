//! The system's errors: which of them may be told with more words.

use std::io;

/// Whether an error of the system's has a kind by which everybody tells it apart. An error
/// that carries more than a number has no number to ask for; where that is all there is
/// (too many open files, say), it stays. So it does where the kind is younger than the
/// programs that go by the number: a path through a file (a server of files answers 404 by
/// that), a rename to another device.
pub(crate) fn is_told_by_kind(error: &io::Error) -> bool {
    let nameless = io::Error::from_raw_os_error(i32::MAX).kind();
    let by_number = [nameless, io::ErrorKind::CrossesDevices, io::ErrorKind::NotADirectory];
    error.raw_os_error().is_some() && !by_number.contains(&error.kind())
}
