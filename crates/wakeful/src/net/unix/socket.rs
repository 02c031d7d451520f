//! [`UnixSocket`]: a Unix socket that is neither connected nor listening.

use super::{SocketAddr, UnixDatagram, UnixListener, UnixStream};
use crate::net::simulated;
use crate::runtime::simulated::refuse_in_simulation;
use crate::sim::network::{SimulatedSocket, SocketKind};
use crate::sys::eintr::uninterrupted;
use rustix::io::Errno;
use socket2::{Domain, Socket, Type};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::panic::Location;
use std::path::Path;

/// A Unix socket that is not yet connected or listening.
///
/// Use this to bind the local address of a client, or to choose the backlog of a listener.
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use wakeful::net::{UnixSocket, UnixStream};
///
/// let name = format!("\0wakeful-doc-socket-{}", std::process::id()); // abstract
/// let socket = UnixSocket::new_stream()?;
/// socket.bind(&name)?;
/// let listener = socket.listen(16)?;
/// let _client = UnixStream::connect(&name).await?;
/// listener.accept().await?;
/// # Ok(())
/// # }
/// ```
pub struct UnixSocket {
    socket: Socket,
    /// In a simulation, `socket` only keeps the options.
    simulated: Option<SimulatedSocket>,
}

impl UnixSocket {
    /// Creates a datagram socket.
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
    /// use wakeful::net::UnixSocket;
    ///
    /// let name = format!("\0wakeful-doc-new-datagram-{}", std::process::id()); // abstract
    /// let socket = UnixSocket::new_datagram()?;
    /// socket.bind(&name)?;
    /// let _datagram = socket.datagram()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn new_datagram() -> io::Result<UnixSocket> {
        Self::new(Type::DGRAM)
    }

    /// Creates a stream socket.
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
    /// use wakeful::net::{UnixListener, UnixSocket};
    ///
    /// let name = format!("\0wakeful-doc-new-stream-{}", std::process::id()); // abstract
    /// let _listener = UnixListener::bind(&name)?;
    /// let _client = UnixSocket::new_stream()?.connect(&name).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn new_stream() -> io::Result<UnixSocket> {
        Self::new(Type::STREAM)
    }

    fn new(kind: Type) -> io::Result<UnixSocket> {
        let simulated = match kind {
            Type::STREAM => simulated::open(SocketKind::Unix).transpose()?,
            _ => None,
        };
        Ok(Self { socket: new_socket(kind)?, simulated })
    }

    /// Binds the socket to a path.
    ///
    /// No file may exist at the path. On Linux, a path that begins with a zero byte is an abstract
    /// address.
    ///
    /// # Errors
    ///
    /// Returns the kernel's error, for example `AddrInUse`.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> std::io::Result<()> {
    /// use wakeful::net::UnixSocket;
    ///
    /// let name = format!("\0wakeful-doc-bind-{}", std::process::id()); // abstract
    /// let socket = UnixSocket::new_stream()?;
    /// socket.bind(&name)?;
    /// let error = UnixSocket::new_stream()?.bind(&name).unwrap_err();
    /// assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
    /// # Ok(())
    /// # }
    /// ```
    pub fn bind(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let addr = SocketAddr::from_path(path.as_ref())?;
        if let Some(socket) = &self.simulated {
            return socket.bind_name(&simulated::name_of(&addr.0));
        }
        refuse_in_simulation("`UnixSocket::bind` of a datagram socket")?;
        let addr = addr.to_raw()?;
        Ok(rustix::net::bind(&self.socket, &addr)?)
    }

    /// Converts the socket into a listener.
    ///
    /// `backlog` is the number of connections that the kernel queues until they are accepted.
    ///
    /// # Errors
    ///
    /// Returns an error if this is a datagram socket, and the kernel's error otherwise.
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
    /// use wakeful::net::{UnixSocket, UnixStream};
    ///
    /// let name = format!("\0wakeful-doc-listen-{}", std::process::id()); // abstract
    /// let socket = UnixSocket::new_stream()?;
    /// socket.bind(&name)?;
    /// let listener = socket.listen(16)?;
    /// let _client = UnixStream::connect(&name).await?;
    /// listener.accept().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn listen(self, backlog: u32) -> io::Result<UnixListener> {
        self.reject_type(Type::DGRAM, "listen cannot be called on a datagram socket")?;
        if let Some(socket) = self.simulated {
            socket.listen(backlog)?;
            return Ok(UnixListener::register_simulated(socket));
        }
        self.socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
        UnixListener::register(OwnedFd::from(self.socket).into())
    }

    /// Connects to the listener at a path.
    ///
    /// # Errors
    ///
    /// Returns an error if this is a datagram socket, and the kernel's error otherwise.
    /// `WouldBlock` means that the listener's backlog is full; the kernel does not report when
    /// space becomes available.
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
    /// use wakeful::net::{UnixListener, UnixSocket};
    ///
    /// let name = format!("\0wakeful-doc-socket-connect-{}", std::process::id()); // abstract
    /// let _listener = UnixListener::bind(&name)?;
    /// let _stream = UnixSocket::new_stream()?.connect(&name).await?;
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn connect(self, path: impl AsRef<Path>) -> impl Future<Output = io::Result<UnixStream>> {
        let (addr, site) = (SocketAddr::from_path(path.as_ref()), Location::caller());
        async move {
            self.reject_type(Type::DGRAM, "connect cannot be called on a datagram socket")?;
            UnixStream::connected(|| self.start_connect(&addr?, site), site).await
        }
    }

    /// Begins to connect to `addr`. Diagnostics show `site`.
    fn start_connect(
        self,
        addr: &SocketAddr,
        site: &'static Location<'static>,
    ) -> io::Result<UnixStream> {
        if let Some(socket) = self.simulated {
            return start_simulated(socket, addr, site);
        }
        refuse_in_simulation("`connect` of a `UnixSocket` made from a descriptor")?;
        start_connect(self.socket, addr, site)
    }

    /// Converts the socket into a [`UnixDatagram`].
    ///
    /// # Errors
    ///
    /// Returns an error if this is a stream socket, and the kernel's error otherwise.
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
    /// use wakeful::net::UnixSocket;
    ///
    /// let datagram = UnixSocket::new_datagram()?.datagram()?;
    /// assert!(datagram.local_addr()?.is_unnamed());
    /// assert!(UnixSocket::new_stream()?.datagram().is_err());
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn datagram(self) -> io::Result<UnixDatagram> {
        self.reject_type(Type::STREAM, "datagram cannot be called on a stream socket")?;
        refuse_in_simulation("`UnixSocket::datagram`")?;
        UnixDatagram::from_unix_socket(OwnedFd::from(self.socket).into())
    }

    /// Returns an error with `message` if the socket is of type `kind`.
    fn reject_type(&self, kind: Type, message: &'static str) -> io::Result<()> {
        if self.socket.r#type()? == kind { Err(io::Error::other(message)) } else { Ok(()) }
    }
}

fn new_socket(kind: Type) -> io::Result<Socket> {
    Socket::new(Domain::UNIX, kind.nonblocking().cloexec(), None)
}

/// Begins to connect a new socket. Diagnostics show `site`.
#[inline(always)]
pub(super) fn start_new(
    addr: &SocketAddr,
    site: &'static Location<'static>,
) -> io::Result<UnixStream> {
    match simulated::open(SocketKind::Unix) {
        None => start_connect(new_socket(Type::STREAM)?, addr, site),
        Some(socket) => start_simulated(socket?, addr, site),
    }
}

/// Begins to connect a kernel socket. Diagnostics show `site`.
#[inline(always)]
fn start_connect(
    socket: Socket,
    addr: &SocketAddr,
    site: &'static Location<'static>,
) -> io::Result<UnixStream> {
    let addr = addr.to_raw()?;
    uninterrupted(|| match rustix::net::connect(&socket, &addr) {
        Err(Errno::INPROGRESS) => Ok(()),
        result => result,
    })?;
    UnixStream::register(OwnedFd::from(socket).into(), site)
}

/// Connects a simulated socket, which is done at once. Diagnostics show `site`.
#[cold]
#[inline(never)]
fn start_simulated(
    socket: SimulatedSocket,
    addr: &SocketAddr,
    site: &'static Location<'static>,
) -> io::Result<UnixStream> {
    socket.connect_name(&simulated::name_of(&addr.0))?;
    Ok(UnixStream::register_simulated(socket, site))
}

impl fmt::Debug for UnixSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.simulated {
            Some(socket) => socket.fmt(f),
            None => self.socket.fmt(f),
        }
    }
}

impl AsRawFd for UnixSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

impl AsFd for UnixSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl FromRawFd for UnixSocket {
    /// Converts a socket, which must be in non-blocking mode.
    ///
    /// # Safety
    ///
    /// `fd` must be an open socket that the caller owns and transfers.
    unsafe fn from_raw_fd(fd: RawFd) -> UnixSocket {
        // SAFETY: the caller upholds the contract above.
        Self { socket: unsafe { Socket::from_raw_fd(fd) }, simulated: None }
    }
}

impl IntoRawFd for UnixSocket {
    fn into_raw_fd(self) -> RawFd {
        self.socket.into_raw_fd()
    }
}
