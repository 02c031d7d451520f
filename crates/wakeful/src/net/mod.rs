//! Sockets: TCP, UDP, and those of Unix.
//!
//! A socket belongs to the runtime in whose context it is made, and is watched by
//! the poller of the worker that makes it. Any task of any runtime may use it.
#![allow(unsafe_code)]

mod addr;
pub(crate) mod async_fd;
mod datagram;
mod halves;
pub(crate) mod stream_io;
mod streams;
pub mod tcp;
mod udp;
pub mod unix;

pub use addr::{ToSocketAddrs, lookup_host};
pub use tcp::{TcpListener, TcpSocket, TcpStream};
pub use udp::UdpSocket;
pub use unix::{UnixDatagram, UnixListener, UnixSocket, UnixStream};
