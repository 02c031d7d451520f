//! Sockets: TCP, UDP, and those of Unix.
//!
//! A socket belongs to the runtime in whose context it is made, and is watched by
//! the poller of the worker that makes it. Any task of any runtime may use it.
#![allow(unsafe_code)]

mod addr;
mod halves;
pub mod tcp;
pub(crate) mod transfer;

pub use addr::{ToSocketAddrs, lookup_host};
pub use tcp::{TcpListener, TcpSocket, TcpStream};
