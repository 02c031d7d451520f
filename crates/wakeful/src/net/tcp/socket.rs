//! A TCP socket that is not yet connected and does not listen.

use super::{TcpListener, TcpStream};
use crate::driver::io_readiness::Readiness;
use crate::runtime::poll_evented::{BOTH, PollEvented};
use crate::task::wait_kind::WaitKind;
use socket2::{Domain, Protocol, Socket, Type};
use std::fmt;
use std::io;
use std::net::{self, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, RawFd};
use std::panic::Location;
use std::time::Duration;

/// A TCP socket that is not yet connected and does not listen: for setting
/// options before it does either.
///
/// ```no_run
/// # async fn connect() -> std::io::Result<()> {
/// let socket = wakeful::net::TcpSocket::new_v4()?;
/// socket.set_recv_buffer_size(1 << 20)?;
/// let stream = socket.connect("127.0.0.1:8080".parse().unwrap()).await?;
/// # drop(stream);
/// # Ok(())
/// # }
/// ```
pub struct TcpSocket {
    socket: Socket,
}

impl TcpSocket {
    /// A socket for IPv4.
    pub fn new_v4() -> io::Result<TcpSocket> {
        Self::new(Domain::IPV4)
    }

    /// A socket for IPv6.
    pub fn new_v6() -> io::Result<TcpSocket> {
        Self::new(Domain::IPV6)
    }

    fn new(domain: Domain) -> io::Result<TcpSocket> {
        let kind = Type::STREAM.nonblocking().cloexec();
        Ok(Self { socket: Socket::new(domain, kind, Some(Protocol::TCP))? })
    }

    pub(super) fn for_addr(addr: SocketAddr) -> io::Result<TcpSocket> {
        Self::new(Domain::for_address(addr))
    }

    /// Whether the system looks now and then if an idle connection is still there
    /// (`SO_KEEPALIVE`).
    pub fn set_keepalive(&self, keepalive: bool) -> io::Result<()> {
        self.socket.set_keepalive(keepalive)
    }

    /// See [`set_keepalive`](Self::set_keepalive).
    pub fn keepalive(&self) -> io::Result<bool> {
        self.socket.keepalive()
    }

    /// Whether an address can be bound that was in use a moment ago
    /// (`SO_REUSEADDR`).
    pub fn set_reuseaddr(&self, reuseaddr: bool) -> io::Result<()> {
        self.socket.set_reuse_address(reuseaddr)
    }

    /// See [`set_reuseaddr`](Self::set_reuseaddr).
    pub fn reuseaddr(&self) -> io::Result<bool> {
        self.socket.reuse_address()
    }

    /// Whether several sockets may be bound to one port (`SO_REUSEPORT`).
    pub fn set_reuseport(&self, reuseport: bool) -> io::Result<()> {
        self.socket.set_reuse_port(reuseport)
    }

    /// See [`set_reuseport`](Self::set_reuseport).
    pub fn reuseport(&self) -> io::Result<bool> {
        self.socket.reuse_port()
    }

    /// The size of the buffer for what is sent (`SO_SNDBUF`). The system may
    /// choose another; Linux doubles it.
    pub fn set_send_buffer_size(&self, size: u32) -> io::Result<()> {
        self.socket.set_send_buffer_size(size as usize)
    }

    /// See [`set_send_buffer_size`](Self::set_send_buffer_size).
    pub fn send_buffer_size(&self) -> io::Result<u32> {
        self.socket.send_buffer_size().map(|size| size as u32)
    }

    /// The size of the buffer for what arrives (`SO_RCVBUF`). The system may
    /// choose another; Linux doubles it.
    pub fn set_recv_buffer_size(&self, size: u32) -> io::Result<()> {
        self.socket.set_recv_buffer_size(size as usize)
    }

    /// See [`set_recv_buffer_size`](Self::set_recv_buffer_size).
    pub fn recv_buffer_size(&self) -> io::Result<u32> {
        self.socket.recv_buffer_size().map(|size| size as u32)
    }

    /// How long closing may take to send what is left (`SO_LINGER`). It blocks
    /// the thread that closes the socket for as long, which is that of the
    /// worker.
    #[deprecated = "a time to linger other than zero blocks the thread that closes the socket; \
                    use `set_zero_linger`"]
    pub fn set_linger(&self, dur: Option<Duration>) -> io::Result<()> {
        self.socket.set_linger(dur)
    }

    /// Closing drops what is left and resets the connection (`SO_LINGER` of
    /// zero).
    pub fn set_zero_linger(&self) -> io::Result<()> {
        self.socket.set_linger(Some(Duration::ZERO))
    }

    /// How long closing may take to send what is left.
    pub fn linger(&self) -> io::Result<Option<Duration>> {
        self.socket.linger()
    }

    /// Whether what is written goes out at once, in small packets if need be
    /// (`TCP_NODELAY`).
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.socket.set_tcp_nodelay(nodelay)
    }

    /// See [`set_nodelay`](Self::set_nodelay).
    pub fn nodelay(&self) -> io::Result<bool> {
        self.socket.tcp_nodelay()
    }

    /// The traffic class of IPv6 packets (`IPV6_TCLASS`).
    pub fn tclass_v6(&self) -> io::Result<u32> {
        self.socket.tclass_v6()
    }

    /// Sets the traffic class of IPv6 packets (`IPV6_TCLASS`).
    pub fn set_tclass_v6(&self, tclass: u32) -> io::Result<()> {
        self.socket.set_tclass_v6(tclass)
    }

    /// The type of service of IPv4 packets (`IP_TOS`).
    pub fn tos_v4(&self) -> io::Result<u32> {
        self.socket.tos_v4()
    }

    /// As [`tos_v4`](Self::tos_v4).
    #[deprecated = "it is about IPv4 only; use `tos_v4`"]
    pub fn tos(&self) -> io::Result<u32> {
        self.tos_v4()
    }

    /// Sets the type of service of IPv4 packets (`IP_TOS`).
    pub fn set_tos_v4(&self, tos: u32) -> io::Result<()> {
        self.socket.set_tos_v4(tos)
    }

    /// As [`set_tos_v4`](Self::set_tos_v4).
    #[deprecated = "it is about IPv4 only; use `set_tos_v4`"]
    pub fn set_tos(&self, tos: u32) -> io::Result<()> {
        self.set_tos_v4(tos)
    }

    /// The network interface it is bound to, if any (`SO_BINDTODEVICE`).
    pub fn device(&self) -> io::Result<Option<Vec<u8>>> {
        self.socket.device()
    }

    /// Binds it to a network interface, or to all (`SO_BINDTODEVICE`).
    pub fn bind_device(&self, interface: Option<&[u8]>) -> io::Result<()> {
        self.socket.bind_device(interface)
    }

    /// The address it is bound to.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()?.as_socket().ok_or_else(not_ip)
    }

    /// The pending error of the socket, which is cleared (`SO_ERROR`).
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.socket.take_error()
    }

    /// Binds it to an address; port 0 means any that is free.
    pub fn bind(&self, addr: SocketAddr) -> io::Result<()> {
        self.socket.bind(&addr.into())
    }

    /// Connects it.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the socket.
    ///
    /// # Panics
    ///
    /// Outside of a runtime with I/O.
    #[track_caller]
    pub fn connect(self, addr: SocketAddr) -> impl Future<Output = io::Result<TcpStream>> {
        self.connect_from(addr, Location::caller())
    }

    /// As `connect`, for a call at `site`.
    pub(super) async fn connect_from(
        self,
        addr: SocketAddr,
        site: &'static Location<'static>,
    ) -> io::Result<TcpStream> {
        if let Err(error) = self.socket.connect(&addr.into())
            && error.raw_os_error() != Some(rustix::io::Errno::INPROGRESS.raw_os_error())
            && error.kind() != io::ErrorKind::Interrupted
        {
            return Err(error);
        }
        let io = PollEvented::made_at(net::TcpStream::from(self.socket), BOTH, site)?;
        // Once it can be written to, it is connected, or has an error.
        let registration = io.registration();
        registration.ready(Readiness::WRITE, WaitKind::Connect, site).await?;
        match io.take_error()? {
            Some(error) => Err(error),
            None => Ok(TcpStream::from_evented(io)),
        }
    }

    /// Listens on the address it is bound to, with room for `backlog`
    /// connections that are not accepted yet.
    ///
    /// # Panics
    ///
    /// Outside of a runtime with I/O.
    #[track_caller]
    pub fn listen(self, backlog: u32) -> io::Result<TcpListener> {
        self.socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
        TcpListener::watch(net::TcpListener::from(self.socket))
    }

    /// Takes a socket over that was made in another way: `std_stream` stands for
    /// any TCP socket, connected or not, and should be in non-blocking mode.
    pub fn from_std_stream(std_stream: net::TcpStream) -> TcpSocket {
        Self { socket: std_stream.into() }
    }
}

fn not_ip() -> io::Error {
    io::Error::other("the socket's address is not one of IP")
}

impl fmt::Debug for TcpSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.socket.fmt(f)
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
    // SAFETY: the caller's, as the trait says: an open descriptor that is given away.
    unsafe fn from_raw_fd(fd: RawFd) -> TcpSocket {
        // SAFETY: by contract.
        Self { socket: unsafe { Socket::from_raw_fd(fd) } }
    }
}

impl IntoRawFd for TcpSocket {
    fn into_raw_fd(self) -> RawFd {
        self.socket.into_raw_fd()
    }
}
