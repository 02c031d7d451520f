//! The error of an operation whose runtime is shutting down or has shut down.

use std::fmt;
use std::io;

/// The payload of the [`io::Error`]; its type identifies the error.
#[derive(Debug)]
struct ShuttingDown;

impl fmt::Display for ShuttingDown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("A Tokio 1.x context was found, but it is being shutdown.")
    }
}

impl std::error::Error for ShuttingDown {}

#[cold]
#[inline(never)]
pub(crate) fn shutting_down() -> io::Error {
    io::Error::other(ShuttingDown)
}

/// Returns whether an operation failed because its runtime is shutting down or has shut down.
///
/// A socket belongs to the runtime on which it was created. After that runtime has shut down,
/// operations on the socket fail with this error, even when they run on another runtime.
///
/// # Examples
///
/// ```
/// use wakeful::net::TcpListener;
/// use wakeful::runtime::{Runtime, is_rt_shutdown_err};
///
/// let first = Runtime::new()?;
/// let listener = first.block_on(TcpListener::bind("127.0.0.1:0"))?;
/// drop(first);
///
/// let error = Runtime::new()?.block_on(listener.accept()).unwrap_err();
/// assert!(is_rt_shutdown_err(&error));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn is_rt_shutdown_err(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<ShuttingDown>())
}
