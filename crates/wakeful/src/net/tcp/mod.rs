//! TCP.

mod halves;
mod listener;
mod socket;
mod stream;

pub use halves::{OwnedReadHalf, OwnedWriteHalf, ReadHalf, ReuniteError, WriteHalf};
pub use listener::TcpListener;
pub use socket::TcpSocket;
pub use stream::TcpStream;

use std::io;
use std::os::fd::AsFd;

/// A socket that blocks would block its worker, so it is refused where mistakes
/// are looked for.
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
