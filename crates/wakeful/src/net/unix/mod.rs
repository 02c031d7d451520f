//! Unix sockets and pipes, which connect processes on the same machine.
//!
//! [`UnixListener`] and [`UnixStream`] are connections, [`UnixDatagram`] exchanges messages,
//! [`pipe`](mod@pipe) contains pipes and FIFOs.
//!
//! The address of a Unix socket is a path in the file system. On Linux, a path that begins with a
//! zero byte is an *abstract* address. An abstract address is not in the file system. It can be
//! reused once the last socket bound to it is closed.

mod address;
mod credentials;
mod datagram;
mod halves;
mod listener;
pub mod pipe;
mod socket;
mod stream;

pub use address::SocketAddr;
pub use credentials::UCred;
pub use datagram::UnixDatagram;
pub use halves::{OwnedReadHalf, OwnedWriteHalf, ReadHalf, ReuniteError, WriteHalf};
pub use listener::UnixListener;
pub use socket::UnixSocket;
pub use stream::UnixStream;

/// A user id.
#[allow(non_camel_case_types, reason = "the name of the C type")]
pub type uid_t = u32;

/// A group id.
#[allow(non_camel_case_types, reason = "the name of the C type")]
pub type gid_t = u32;

/// A process id.
#[allow(non_camel_case_types, reason = "the name of the C type")]
pub type pid_t = i32;
