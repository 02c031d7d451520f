//! [`UnixStream`]: a Unix connection.

use super::socket::start_new;
use super::{SocketAddr, UCred};
use crate::driver::io_readiness::Readiness;
use crate::net::simulated;
use crate::net::streams::streams;
use crate::runtime::poll_evented::{Io, PollEvented};
use crate::sim::network::SimulatedSocket;
use crate::task::wait_kind::WaitKind;
use std::io;
use std::os::unix::net;
use std::panic::Location;
use std::path::Path;

/// A connection between two Unix sockets.
///
/// Read and write with the methods of [`AsyncReadExt`](crate::io::AsyncReadExt) and
/// [`AsyncWriteExt`](crate::io::AsyncWriteExt).
///
/// Dropping the stream closes the connection. [`shutdown`](crate::io::AsyncWriteExt::shutdown)
/// closes only the write side. To read and write in different tasks, use
/// [`into_split`](Self::into_split).
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use wakeful::io::{AsyncReadExt, AsyncWriteExt};
/// use wakeful::net::UnixStream;
///
/// let (mut a, mut b) = UnixStream::pair()?;
/// a.write_all(b"hello").await?;
/// drop(a);
/// let mut text = String::new();
/// b.read_to_string(&mut text).await?;
/// assert_eq!(text, "hello");
/// # Ok(())
/// # }
/// ```
pub struct UnixStream {
    io: PollEvented<net::UnixStream>,
}

streams!(
    UnixStream,
    net::UnixStream,
    "# let (mut client, mut server) = wakeful::net::UnixStream::pair()?;"
);

impl UnixStream {
    /// Connects to the listener at a path.
    ///
    /// A path that begins with a zero byte is an abstract address.
    ///
    /// # Errors
    ///
    /// Returns the kernel's error. `WouldBlock` means that the listener's backlog is full; the
    /// kernel does not report when space becomes available.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the socket.
    ///
    /// # Panics
    ///
    /// The future panics if polled outside of a runtime with I/O enabled; see
    /// [`enable_io`](crate::runtime::Builder::enable_io).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::net::{UnixListener, UnixStream};
    ///
    /// let name = format!("\0wakeful-doc-stream-{}", std::process::id()); // abstract
    /// let listener = UnixListener::bind(&name)?;
    /// let client = UnixStream::connect(&name).await?;
    /// assert_eq!(client.peer_addr()?.as_abstract_name(), Some(name[1..].as_bytes()));
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn connect<P: AsRef<Path>>(path: P) -> impl Future<Output = io::Result<UnixStream>> {
        let (addr, site) = (SocketAddr::from_path(path.as_ref()), Location::caller());
        async move { Self::connected(|| start_new(&addr?, site), site).await }
    }

    /// Connects to the listener at an address; see [`connect`](Self::connect).
    ///
    /// # Errors
    ///
    /// Returns the kernel's error. `WouldBlock` means that the listener's backlog is full.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the socket.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::net::{UnixListener, UnixStream};
    ///
    /// let name = format!("\0wakeful-doc-connect-addr-{}", std::process::id()); // abstract
    /// let listener = UnixListener::bind(&name)?;
    /// let _client = UnixStream::connect_addr(&listener.local_addr()?).await?;
    /// listener.accept().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn connect_addr(
        socket_addr: &SocketAddr,
    ) -> impl Future<Output = io::Result<UnixStream>> + Send + Sync + '_ {
        let site = Location::caller();
        Self::connected(move || start_new(socket_addr, site), site)
    }

    /// Waits until the stream that `start` returns is connected.
    pub(super) async fn connected(
        start: impl FnOnce() -> io::Result<UnixStream>,
        site: &'static Location<'static>,
    ) -> io::Result<UnixStream> {
        let stream = start()?;
        // The socket becomes writable when it is connected, or when connecting failed.
        stream.io.registration().ready(Readiness::WRITE, WaitKind::Connect, site).await?;
        match stream.take_error()? {
            Some(error) => Err(error),
            None => Ok(stream),
        }
    }

    /// Creates a pair of unnamed streams, connected to each other.
    ///
    /// # Errors
    ///
    /// Returns the kernel's error.
    ///
    /// # Panics
    ///
    /// Panics if called outside of a runtime with I/O enabled; see
    /// [`enable_io`](crate::runtime::Builder::enable_io).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::io::{AsyncReadExt, AsyncWriteExt};
    ///
    /// let (mut a, mut b) = wakeful::net::UnixStream::pair()?;
    /// a.write_u8(7).await?;
    /// assert_eq!(b.read_u8().await?, 7);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn pair() -> io::Result<(UnixStream, UnixStream)> {
        if let Some([a, b]) = simulated::pair().transpose()? {
            let site = Location::caller();
            let (a, b) = (Self::register_simulated(a, site), Self::register_simulated(b, site));
            return Ok((a, b));
        }
        let (a, b) = net::UnixStream::pair()?;
        Ok((Self::from_pair(a)?, Self::from_pair(b)?))
    }

    /// Registers one stream of a pair, which is known to be writable.
    #[track_caller]
    fn from_pair(stream: net::UnixStream) -> io::Result<UnixStream> {
        stream.set_nonblocking(true)?;
        let stream = Self::register(stream, Location::caller())?;
        stream.io.registration().assume(Readiness::WRITABLE);
        Ok(stream)
    }

    #[track_caller]
    pub(super) fn register_simulated(
        socket: SimulatedSocket,
        site: &'static Location<'static>,
    ) -> UnixStream {
        Self { io: simulated::register(socket, site) }
    }

    /// Returns the local address.
    ///
    /// # Errors
    ///
    /// Returns the kernel's error.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let (a, _b) = wakeful::net::UnixStream::pair()?;
    /// assert!(a.local_addr()?.is_unnamed());
    /// # Ok(())
    /// # }
    /// ```
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        match self.io.io() {
            Io::Kernel(io) => io.local_addr().map(SocketAddr),
            Io::Simulated(socket) => simulated::unix_addr(socket.local_addr()?).map(SocketAddr),
        }
    }

    /// Returns the address of the peer.
    ///
    /// # Errors
    ///
    /// Returns the kernel's error.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::net::{UnixListener, UnixStream};
    ///
    /// let name = format!("wakeful-doc-peer-addr-{}", std::process::id());
    /// let _listener = UnixListener::bind(format!("\0{name}"))?; // abstract
    /// let client = UnixStream::connect(format!("\0{name}")).await?;
    /// assert_eq!(client.peer_addr()?.as_abstract_name(), Some(name.as_bytes()));
    /// # Ok(())
    /// # }
    /// ```
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        match self.io.io() {
            Io::Kernel(io) => io.peer_addr().map(SocketAddr),
            Io::Simulated(socket) => simulated::unix_addr(socket.peer_addr()?).map(SocketAddr),
        }
    }

    /// Returns the credentials of the peer process, which called `connect`, `listen` or `pair`.
    ///
    /// # Errors
    ///
    /// Returns the kernel's error.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let (a, _b) = wakeful::net::UnixStream::pair()?;
    /// assert_eq!(a.peer_cred()?.pid(), Some(std::process::id() as i32));
    /// # Ok(())
    /// # }
    /// ```
    pub fn peer_cred(&self) -> io::Result<UCred> {
        match self.io.io() {
            Io::Kernel(io) => UCred::from_peer(io),
            Io::Simulated(_) => Ok(UCred::of_this_process()),
        }
    }
}
