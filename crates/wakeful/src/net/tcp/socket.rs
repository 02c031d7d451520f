//! [`TcpSocket`]: a TCP socket that is neither connected nor listening.

use super::{TcpListener, TcpStream};
use crate::driver::io_readiness::Readiness;
use crate::net::simulated;
use crate::runtime::poll_evented::{BOTH, PollEvented};
use crate::runtime::simulated::refuse_in_simulation;
use crate::sim::network::{SimulatedSocket, SocketKind};
use crate::task::wait_kind::WaitKind;
use socket2::{Domain, Protocol, Socket, Type};
use std::fmt;
use std::io;
use std::net::{self, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, RawFd};
use std::panic::Location;

/// A TCP socket that is not yet connected or listening, on which options can be set.
///
/// Use this instead of [`TcpStream::connect`] or [`TcpListener::bind`] for options that must be set
/// before connecting or listening. Examples are buffer sizes, the local address of a client, and
/// the backlog of a server.
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use wakeful::net::TcpSocket;
///
/// let socket = TcpSocket::new_v4()?;
/// socket.set_reuseaddr(true)?;
/// socket.bind("127.0.0.1:0".parse().unwrap())?;
/// let listener = socket.listen(128)?;
///
/// let socket = TcpSocket::new_v4()?;
/// socket.set_nodelay(true)?;
/// let stream = socket.connect(listener.local_addr()?).await?;
/// assert!(stream.nodelay()?);
/// # Ok(())
/// # }
/// ```
pub struct TcpSocket {
    pub(super) socket: Socket,
    /// In a simulation, `socket` only keeps the options.
    simulated: Option<SimulatedSocket>,
}

impl TcpSocket {
    /// Creates an IPv4 socket.
    ///
    /// # Errors
    ///
    /// Returns the kernel's error.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> std::io::Result<()> {
    /// let socket = wakeful::net::TcpSocket::new_v4()?;
    /// socket.set_keepalive(true)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn new_v4() -> io::Result<TcpSocket> {
        Self::new(Domain::IPV4)
    }

    /// Creates an IPv6 socket.
    ///
    /// # Errors
    ///
    /// Returns the kernel's error.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::net::TcpSocket;
    ///
    /// let socket = TcpSocket::new_v6()?;
    /// socket.bind("[::1]:0".parse().unwrap())?;
    /// let listener = socket.listen(128)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn new_v6() -> io::Result<TcpSocket> {
        Self::new(Domain::IPV6)
    }

    fn new(domain: Domain) -> io::Result<TcpSocket> {
        let simulated = simulated::open(SocketKind::Tcp).transpose()?;
        Ok(Self { socket: new_socket(domain)?, simulated })
    }

    /// Creates a kernel socket of the address family of `addr`.
    pub(super) fn in_kernel_for(addr: SocketAddr) -> io::Result<TcpSocket> {
        Ok(Self { socket: new_socket(Domain::for_address(addr))?, simulated: None })
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
    /// # fn main() -> std::io::Result<()> {
    /// use wakeful::net::TcpSocket;
    ///
    /// let socket = TcpSocket::new_v4()?;
    /// socket.bind("127.0.0.1:0".parse().unwrap())?;
    /// assert_ne!(socket.local_addr()?.port(), 0); // the kernel chose a port
    /// # Ok(())
    /// # }
    /// ```
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        if let Some(socket) = &self.simulated {
            return socket.local_inet();
        }
        self.socket.local_addr()?.as_socket().ok_or_else(not_ip)
    }

    /// Returns and clears the pending error of the socket (`SO_ERROR`).
    ///
    /// # Errors
    ///
    /// Returns the kernel's error if the option cannot be read.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> std::io::Result<()> {
    /// let socket = wakeful::net::TcpSocket::new_v4()?;
    /// assert!(socket.take_error()?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.socket.take_error()
    }

    /// Binds the socket to an address. Port 0 requests a free port.
    ///
    /// # Errors
    ///
    /// Returns the kernel's error, for example if the address is in use.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> std::io::Result<()> {
    /// let socket = wakeful::net::TcpSocket::new_v4()?;
    /// socket.bind("127.0.0.1:0".parse().unwrap())?;
    /// assert_ne!(socket.local_addr()?.port(), 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn bind(&self, addr: SocketAddr) -> io::Result<()> {
        match &self.simulated {
            Some(socket) => socket.bind(addr),
            None => self.socket.bind(&addr.into()),
        }
    }

    /// Connects to `addr`.
    ///
    /// # Errors
    ///
    /// Returns the kernel's error, for example `ConnectionRefused`.
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
    /// use wakeful::net::{TcpListener, TcpSocket};
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0").await?;
    /// let stream = TcpSocket::new_v4()?.connect(listener.local_addr()?).await?;
    /// assert_eq!(stream.peer_addr()?, listener.local_addr()?);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn connect(self, addr: SocketAddr) -> impl Future<Output = io::Result<TcpStream>> {
        let site = Location::caller();
        connect(move || self.start_connect(addr, site), site)
    }

    /// Begins to connect to `addr`. Diagnostics show `site`.
    fn start_connect(
        self,
        addr: SocketAddr,
        site: &'static Location<'static>,
    ) -> io::Result<TcpStream> {
        if let Some(socket) = self.simulated {
            socket.set_stand_in(net::TcpStream::from(self.socket));
            return start_simulated(socket, addr, site);
        }
        refuse_in_simulation("`connect` of a `TcpSocket` made from a descriptor")?;
        start_connect(self.socket, addr, site)
    }

    /// Listens on the address that the socket is bound to.
    ///
    /// `backlog` is the number of connections that the kernel queues until they are accepted.
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
    /// use wakeful::net::TcpSocket;
    ///
    /// let socket = TcpSocket::new_v4()?;
    /// socket.bind("127.0.0.1:0".parse().unwrap())?;
    /// let listener = socket.listen(16)?;
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn listen(self, backlog: u32) -> io::Result<TcpListener> {
        if let Some(socket) = self.simulated {
            socket.set_stand_in(net::TcpListener::from(self.socket));
            socket.listen(backlog)?;
            return Ok(TcpListener::register_simulated(socket));
        }
        self.socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
        TcpListener::register(net::TcpListener::from(self.socket))
    }

    /// Converts a socket of the standard library, connected or not.
    ///
    /// Use this for sockets created by other means. The socket should be in non-blocking mode.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::net::{TcpListener, TcpSocket, TcpStream};
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0").await?;
    /// let stream = TcpStream::connect(listener.local_addr()?).await?;
    /// let socket = TcpSocket::from_std_stream(stream.into_std()?);
    /// socket.set_keepalive(true)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn from_std_stream(std_stream: net::TcpStream) -> TcpSocket {
        Self { socket: std_stream.into(), simulated: None }
    }
}

/// Connects a new socket to `addr`. Diagnostics show `site`.
pub(super) fn connect_new(
    addr: SocketAddr,
    site: &'static Location<'static>,
) -> impl Future<Output = io::Result<TcpStream>> {
    let start = move || match simulated::open(SocketKind::Tcp) {
        None => start_connect(new_socket(Domain::for_address(addr))?, addr, site),
        Some(socket) => start_simulated(socket?, addr, site),
    };
    connect(start, site)
}

/// Waits until the stream that `start` returns is connected.
async fn connect(
    start: impl FnOnce() -> io::Result<TcpStream>,
    site: &'static Location<'static>,
) -> io::Result<TcpStream> {
    let stream = start()?;
    // The socket becomes writable when it is connected, or when connecting failed.
    stream.registration().ready(Readiness::WRITE, WaitKind::Connect, site).await?;
    match stream.take_error()? {
        Some(error) => Err(error),
        None => Ok(stream),
    }
}

/// Begins to connect a kernel socket. Diagnostics show `site`.
#[inline(always)]
fn start_connect(
    socket: Socket,
    addr: SocketAddr,
    site: &'static Location<'static>,
) -> io::Result<TcpStream> {
    if let Err(error) = socket.connect(&addr.into())
        && error.raw_os_error() != Some(rustix::io::Errno::INPROGRESS.raw_os_error())
        && error.kind() != io::ErrorKind::Interrupted
    {
        return Err(error);
    }
    let io = PollEvented::new_at(net::TcpStream::from(socket), BOTH, site)?;
    Ok(TcpStream::from_evented(io))
}

/// Begins to connect a simulated socket. Diagnostics show `site`.
#[cold]
#[inline(never)]
fn start_simulated(
    socket: SimulatedSocket,
    addr: SocketAddr,
    site: &'static Location<'static>,
) -> io::Result<TcpStream> {
    socket.connect(addr)?;
    Ok(TcpStream::from_evented(simulated::register(socket, site)))
}

fn new_socket(domain: Domain) -> io::Result<Socket> {
    Socket::new(domain, Type::STREAM.nonblocking().cloexec(), Some(Protocol::TCP))
}

fn not_ip() -> io::Error {
    io::Error::other("the socket's address is not an IP address")
}

impl fmt::Debug for TcpSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.simulated {
            Some(socket) => socket.fmt(f),
            None => self.socket.fmt(f),
        }
    }
}

impl AsRawFd for TcpSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

impl AsFd for TcpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl FromRawFd for TcpSocket {
    // SAFETY: the trait requires an open descriptor that the caller owns and transfers.
    unsafe fn from_raw_fd(fd: RawFd) -> TcpSocket {
        // SAFETY: the caller upholds the contract above.
        Self { socket: unsafe { Socket::from_raw_fd(fd) }, simulated: None }
    }
}

impl IntoRawFd for TcpSocket {
    fn into_raw_fd(self) -> RawFd {
        self.socket.into_raw_fd()
    }
}
