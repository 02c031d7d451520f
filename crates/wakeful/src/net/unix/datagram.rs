//! [`UnixDatagram`]: a Unix socket for datagrams.

use super::SocketAddr;
use crate::driver::io_readiness::Readiness;
use crate::net::datagram_io::{DatagramSocket, send_to};
use crate::net::datagrams::datagrams;
use crate::runtime::poll_evented::{Io, PollEvented};
use crate::runtime::simulated::{refuse_in_simulation, refused};
use rustix::net::{SocketAddrAny, SocketAddrUnix};
use std::io;
use std::net::Shutdown;
use std::os::unix::net;
use std::panic::Location;
use std::path::Path;
use std::task::{Context, Poll};

/// A Unix socket that sends and receives datagrams.
///
/// Datagrams are neither lost nor reordered: a sender waits until the receiver's queue has space.
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use wakeful::net::UnixDatagram;
///
/// let (a, b) = UnixDatagram::pair()?;
/// a.send(b"hello").await?;
/// let mut buf = [0; 64];
/// let len = b.recv(&mut buf).await?;
/// assert_eq!(&buf[..len], b"hello");
/// # Ok(())
/// # }
/// ```
pub struct UnixDatagram {
    io: PollEvented<net::UnixDatagram>,
}

impl DatagramSocket for net::UnixDatagram {
    type Addr = SocketAddr;

    fn sender_addr(raw: Option<SocketAddrAny>) -> io::Result<SocketAddr> {
        SocketAddr::from_raw(raw)
    }

    fn simulated_sender(_: std::net::SocketAddr) -> io::Result<SocketAddr> {
        Err(refused("`UnixDatagram`"))
    }
}

datagrams!(
    UnixDatagram,
    net::UnixDatagram,
    SocketAddr,
    "# let (a, b) = wakeful::net::UnixDatagram::pair()?;"
);

impl UnixDatagram {
    /// Creates a socket bound to a path.
    ///
    /// No file may exist at the path. Remove it when the socket is closed. On Linux, a path that
    /// begins with a zero byte is an abstract address.
    ///
    /// # Errors
    ///
    /// Returns the kernel's error, for example `AddrInUse`.
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
    /// use wakeful::net::UnixDatagram;
    ///
    /// let name = format!("\0wakeful-doc-datagram-{}", std::process::id()); // abstract
    /// let server = UnixDatagram::bind(&name)?;
    /// let client = UnixDatagram::unbound()?;
    /// client.send_to(b"hello", &name).await?;
    /// let mut buf = [0; 64];
    /// assert_eq!(server.recv(&mut buf).await?, 5);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn bind<P: AsRef<Path>>(path: P) -> io::Result<UnixDatagram> {
        refuse_in_simulation("`UnixDatagram::bind`")?;
        let addr = SocketAddr::from_path(path.as_ref())?;
        Self::register_nonblocking(net::UnixDatagram::bind_addr(&addr.0)?)
    }

    /// Creates a pair of unnamed sockets, connected to each other.
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
    /// let (a, b) = wakeful::net::UnixDatagram::pair()?;
    /// a.send(b"hello").await?;
    /// let mut buf = [0; 64];
    /// assert_eq!(b.recv(&mut buf).await?, 5);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn pair() -> io::Result<(UnixDatagram, UnixDatagram)> {
        refuse_in_simulation("`UnixDatagram::pair`")?;
        let (a, b) = net::UnixDatagram::pair()?;
        let (a, b) = (Self::register_nonblocking(a)?, Self::register_nonblocking(b)?);
        for socket in [&a, &b] {
            socket.io.registration().assume(Readiness::WRITABLE);
        }
        Ok((a, b))
    }

    /// Creates a socket without an address, to which receivers cannot reply.
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
    /// use wakeful::net::UnixDatagram;
    ///
    /// let name = format!("\0wakeful-doc-unbound-{}", std::process::id()); // abstract
    /// let receiver = UnixDatagram::bind(&name)?;
    /// let sender = UnixDatagram::unbound()?;
    /// sender.send_to(b"hello", &name).await?;
    /// let (len, addr) = receiver.recv_from(&mut [0; 64]).await?;
    /// assert!(len == 5 && addr.is_unnamed());
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn unbound() -> io::Result<UnixDatagram> {
        refuse_in_simulation("`UnixDatagram::unbound`")?;
        Self::register_nonblocking(net::UnixDatagram::unbound()?)
    }

    /// Switches a socket to non-blocking mode and registers it.
    #[track_caller]
    fn register_nonblocking(socket: net::UnixDatagram) -> io::Result<UnixDatagram> {
        socket.set_nonblocking(true)?;
        Self::register(socket)
    }

    /// Registers a socket that was created as a [`UnixSocket`](super::UnixSocket).
    #[track_caller]
    pub(super) fn from_unix_socket(socket: net::UnixDatagram) -> io::Result<UnixDatagram> {
        match socket.take_error()? {
            Some(error) => Err(error),
            None => Self::register(socket),
        }
    }

    /// Connects the socket to the socket at `path`.
    ///
    /// [`send`](Self::send) then sends to this socket.
    ///
    /// # Errors
    ///
    /// Returns the kernel's error, for example `NotFound`.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::net::UnixDatagram;
    ///
    /// let name = format!("\0wakeful-doc-connect-{}", std::process::id()); // abstract
    /// let server = UnixDatagram::bind(&name)?;
    /// let client = UnixDatagram::unbound()?;
    /// client.connect(&name)?;
    /// client.send(b"hello").await?;
    /// let mut buf = [0; 64];
    /// assert_eq!(server.recv(&mut buf).await?, 5);
    /// # Ok(())
    /// # }
    /// ```
    pub fn connect<P: AsRef<Path>>(&self, path: P) -> io::Result<()> {
        self.io.connect_addr(&SocketAddr::from_path(path.as_ref())?.0)
    }

    /// Sends a datagram to the socket at `target`.
    ///
    /// Returns the number of bytes sent. If the receiver's queue is full, waits until it has space.
    /// If the queue is full of datagrams from other senders, the kernel reports free space only to
    /// [connected](Self::connect) senders.
    ///
    /// # Errors
    ///
    /// Returns the kernel's error, for example `NotFound`.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. If the future is dropped before it completes, nothing was sent.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::net::UnixDatagram;
    ///
    /// let name = format!("\0wakeful-doc-send-to-{}", std::process::id()); // abstract
    /// let _server = UnixDatagram::bind(&name)?;
    /// assert_eq!(UnixDatagram::unbound()?.send_to(b"hello", &name).await?, 5);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn send_to<P: AsRef<Path>>(
        &self,
        buf: &[u8],
        target: P,
    ) -> impl Future<Output = io::Result<usize>> {
        let (target, site) = (SocketAddr::from_path(target.as_ref()), Location::caller());
        async move {
            let target = target?.to_raw()?;
            self.io.async_send_with(site, |io| send_unix(io, buf, &target)).await
        }
    }

    /// Polls a send to the socket at `target`.
    ///
    /// Only the task of the most recent call is woken; see [`send_to`](Self::send_to).
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
    /// use std::future::poll_fn;
    /// use wakeful::net::UnixDatagram;
    ///
    /// let name = format!("\0wakeful-doc-poll-send-to-{}", std::process::id()); // abstract
    /// let _receiver = UnixDatagram::bind(&name)?;
    /// let sender = UnixDatagram::unbound()?;
    /// let len = poll_fn(|cx| sender.poll_send_to(cx, b"hello", &name)).await?;
    /// assert_eq!(len, 5);
    /// # Ok(())
    /// # }
    /// ```
    pub fn poll_send_to<P: AsRef<Path>>(
        &self,
        cx: &mut Context<'_>,
        buf: &[u8],
        target: P,
    ) -> Poll<io::Result<usize>> {
        let target = SocketAddr::from_path(target.as_ref())?.to_raw().map_err(io::Error::from)?;
        self.io.poll_send_with(cx, |io| send_unix(io, buf, &target))
    }

    /// Sends a datagram to the socket at `target` without waiting.
    ///
    /// # Errors
    ///
    /// Returns `WouldBlock` if the receiver's queue is full, and the kernel's error otherwise.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::net::UnixDatagram;
    ///
    /// let name = format!("\0wakeful-doc-try-send-to-{}", std::process::id()); // abstract
    /// let _receiver = UnixDatagram::bind(&name)?;
    /// let sender = UnixDatagram::unbound()?;
    /// sender.writable().await?;
    /// assert_eq!(sender.try_send_to(b"hello", &name)?, 5);
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_send_to<P: AsRef<Path>>(&self, buf: &[u8], target: P) -> io::Result<usize> {
        let target = SocketAddr::from_path(target.as_ref())?.to_raw()?;
        self.io.try_send_with(|io| send_unix(io, buf, &target))
    }

    /// Returns the address to which the socket is bound.
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
    /// let (a, _b) = wakeful::net::UnixDatagram::pair()?;
    /// assert!(a.local_addr()?.is_unnamed());
    /// # Ok(())
    /// # }
    /// ```
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.local_addr().map(SocketAddr)
    }

    /// Returns the address to which the socket is [connected](Self::connect).
    ///
    /// # Errors
    ///
    /// Returns the kernel's error, for example `NotConnected`.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::net::UnixDatagram;
    ///
    /// assert!(UnixDatagram::unbound()?.peer_addr().is_err());
    /// let (a, _b) = UnixDatagram::pair()?;
    /// assert!(a.peer_addr()?.is_unnamed());
    /// # Ok(())
    /// # }
    /// ```
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.io.peer_addr().map(SocketAddr)
    }

    /// Closes the read side, the write side, or both.
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
    /// use std::net::Shutdown;
    ///
    /// let (a, b) = wakeful::net::UnixDatagram::pair()?;
    /// a.shutdown(Shutdown::Both)?;
    /// assert!(b.send(b"hello").await.is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.io.shutdown(how)
    }
}

fn send_unix(
    io: Io<'_, net::UnixDatagram>,
    buf: &[u8],
    target: &SocketAddrUnix,
) -> io::Result<usize> {
    match io {
        Io::Kernel(io) => send_to(io, buf, target),
        Io::Simulated(_) => Err(refused("`UnixDatagram`")),
    }
}
