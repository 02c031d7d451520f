//! Sockets of Unix, between processes of one machine, and pipes.
//!
//! Their addresses are paths in the file system. On Linux a path that begins with
//! a zero byte stands for an *abstract* address, which is not in the file system
//! and goes when the last socket goes that has it.

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

/// The number of a user.
#[allow(non_camel_case_types, reason = "the system's name")]
pub type uid_t = u32;

/// The number of a group.
#[allow(non_camel_case_types, reason = "the system's name")]
pub type gid_t = u32;

/// The number of a process.
#[allow(non_camel_case_types, reason = "the system's name")]
pub type pid_t = i32;
