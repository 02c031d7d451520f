//! TCP, UDP and Unix sockets, and pipes.
//!
//! - [`TcpListener`] accepts TCP connections; [`TcpStream`] is a TCP connection. [`TcpSocket`] sets
//!   options before connecting or listening.
//! - [`UdpSocket`] sends and receives UDP datagrams.
//! - [`UnixListener`], [`UnixStream`], [`UnixDatagram`] and [`UnixSocket`] connect processes on the
//!   same machine. [`unix::pipe`] contains pipes and FIFOs.
//! - [`lookup_host`] resolves host names.
//! - [`AsyncFd`](crate::io::unix::AsyncFd) waits for any other file descriptor.
//!
//! A socket is registered with the runtime in whose context it is created, on the poller of the
//! creating worker. Any task of any runtime may use the socket. Creating a socket requires a
//! runtime with I/O enabled: [`Builder::enable_io`](crate::runtime::Builder::enable_io), which
//! `#[wakeful::main]` and `#[wakeful::test]` call.
//!
//! To read and write, import [`AsyncReadExt`](crate::io::AsyncReadExt) and
//! [`AsyncWriteExt`](crate::io::AsyncWriteExt).
//!
//! # Examples
//!
//! An echo server and its client:
//!
//! ```
//! # #[wakeful::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! use wakeful::io::{self, AsyncReadExt, AsyncWriteExt};
//! use wakeful::net::{TcpListener, TcpStream};
//!
//! let listener = TcpListener::bind("127.0.0.1:0").await?;
//! let addr = listener.local_addr()?;
//! wakeful::spawn(async move {
//!     while let Ok((mut stream, _peer)) = listener.accept().await {
//!         wakeful::spawn(async move {
//!             let (mut read, mut write) = stream.split();
//!             io::copy(&mut read, &mut write).await
//!         });
//!     }
//! });
//!
//! let mut stream = TcpStream::connect(addr).await?;
//! stream.write_all(b"hello").await?;
//! let mut echo = [0; 5];
//! stream.read_exact(&mut echo).await?;
//! assert_eq!(&echo, b"hello");
//! # Ok(())
//! # }
//! ```
#![allow(unsafe_code)]

mod addr;
pub(crate) mod async_fd;
mod datagram_io;
mod datagrams;
mod halves;
mod registered_socket;
mod simulated;
pub(crate) mod stream_io;
mod streams;
pub mod tcp;
mod udp;
pub mod unix;

pub use addr::{ToSocketAddrs, lookup_host};
pub use tcp::{TcpListener, TcpSocket, TcpStream};
pub use udp::UdpSocket;
pub use unix::{UnixDatagram, UnixListener, UnixSocket, UnixStream};
