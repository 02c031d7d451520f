//! TCP: the halves of a [`TcpStream`] and their error.

mod halves;
mod listener;
mod socket;
mod socket_options;
mod stream;

pub use halves::{OwnedReadHalf, OwnedWriteHalf, ReadHalf, ReuniteError, WriteHalf};
pub use listener::TcpListener;
pub use socket::TcpSocket;
pub use stream::TcpStream;

use std::io;
use std::os::fd::AsFd;

/// Panics in builds with debug assertions if `socket` is in blocking mode.
///
/// A blocking socket would block the worker that uses it.
#[track_caller]
pub(super) fn check_nonblocking(socket: &impl AsFd) -> io::Result<()> {
    if cfg!(debug_assertions) {
        let flags = rustix::fs::fcntl_getfl(socket)?;
        if !flags.contains(rustix::fs::OFlags::NONBLOCK) {
            panic!(
                "Registering a blocking socket with the tokio runtime is unsupported. Call \
                 `set_nonblocking(true)` on it first."
            );
        }
    }
    Ok(())
}
