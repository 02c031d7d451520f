//! The error of an operation whose runtime is shutting down or gone.

use std::fmt;
use std::io;

/// What is inside the [`io::Error`]: a type of its own, so that no other error can be taken for it.
#[derive(Debug)]
struct ShuttingDown;

impl fmt::Display for ShuttingDown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("A Tokio 1.x context was found, but it is being shutdown.")
    }
}

impl std::error::Error for ShuttingDown {}

pub(crate) fn shutting_down() -> io::Error {
    io::Error::other(ShuttingDown)
}

/// Whether an operation failed because the runtime that it belongs to is shutting down or gone.
///
/// A socket stays with the runtime that it was made on. Used from another one, after the first has ended, it fails
/// with this error.
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
