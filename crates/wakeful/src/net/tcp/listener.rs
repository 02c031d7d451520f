//! [`TcpListener`]: a socket that accepts TCP connections.

use super::TcpStream;
use crate::driver::io_readiness::{Direction, Readiness};
use crate::net::addr::{self, ToSocketAddrs, no_addresses};
use crate::net::simulated;
use crate::runtime::poll_evented::{Io, PollEvented};
use crate::runtime::registration::OpSource;
use crate::sim::network::{SimulatedSocket, SocketKind, inet};
use crate::sys::eintr::uninterrupted;
use crate::task::wait_kind::WaitKind;
use rustix::net::SocketFlags;
use std::fmt;
use std::io;
use std::net::{self, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::panic::Location;
use std::task::{Context, Poll, ready};

/// A TCP socket that accepts connections.
///
/// Dropping the listener closes the socket. Accepted connections stay open.
///
/// # Examples
///
/// ```no_run
/// # async fn serve() -> std::io::Result<()> {
/// use wakeful::net::TcpListener;
///
/// let listener = TcpListener::bind("127.0.0.1:8080").await?;
/// loop {
///     let (stream, peer) = listener.accept().await?;
///     wakeful::spawn(async move {
///         println!("connection from {peer}");
///         drop(stream);
///     });
/// }
/// # }
/// ```
pub struct TcpListener {
    io: PollEvented<net::TcpListener>,
}

/// The number of connections that the kernel queues until they are accepted.
const BACKLOG: u32 = 1024;

impl TcpListener {
    /// Creates a listener, bound to the first of the addresses that can be bound.
    ///
    /// Port 0 requests a free port; [`local_addr`](Self::local_addr) returns the assigned one. The
    /// socket has `SO_REUSEADDR` set, so a restarted server can bind its address immediately. The
    /// backlog is 1024 connections; use a [`TcpSocket`](super::TcpSocket) to choose another size.
    ///
    /// # Errors
    ///
    /// Returns the error of the last address if none can be bound, and `InvalidInput` if there is
    /// no address.
    ///
    /// # Panics
    ///
    /// The future panics if polled outside of a runtime with I/O enabled; see
    /// [`enable_io`](crate::runtime::Builder::enable_io).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. If the future is dropped before it completes, no socket stays bound.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::net::TcpListener;
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0").await?;
    /// println!("listening on {}", listener.local_addr()?);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn bind<A: ToSocketAddrs>(addr: A) -> impl Future<Output = io::Result<TcpListener>> {
        let resolved = addr::resolve(addr);
        async move {
            let mut last = None;
            for addr in resolved.await? {
                match bind_one(addr) {
                    Ok(listener) => return Ok(listener),
                    Err(error) => last = Some(error),
                }
            }
            Err(last.unwrap_or_else(no_addresses))
        }
    }

    /// Waits for the next connection.
    ///
    /// Returns the connection and the address of the peer. Any number of tasks may wait on the same
    /// listener.
    ///
    /// # Errors
    ///
    /// Returns the kernel's error. If the process has no free descriptor (`EMFILE`), the connection
    /// stays in the backlog, so close a descriptor or wait before the next call.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. No connection is lost.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::net::{TcpListener, TcpStream};
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0").await?;
    /// let client = TcpStream::connect(listener.local_addr()?).await?;
    /// let (_server, peer) = listener.accept().await?;
    /// assert_eq!(peer, client.local_addr()?);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn accept(&self) -> impl Future<Output = io::Result<(TcpStream, SocketAddr)>> + '_ {
        let site = Location::caller();
        async move {
            let accepted = self.io.async_io(
                OpSource::Library,
                Readiness::READ,
                WaitKind::Accept,
                site,
                accept,
            );
            let accepted = accepted.await;
            let (stream, peer) = self.io.registration().inspect_accepted(accepted, site)?;
            Ok((stream.register(site)?, peer))
        }
    }

    /// Polls for the next connection.
    ///
    /// Only the task of the most recent call is woken. Any number of tasks may wait with
    /// [`accept`](Self::accept).
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
    /// use wakeful::net::{TcpListener, TcpStream};
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0").await?;
    /// let _client = TcpStream::connect(listener.local_addr()?).await?;
    /// let (_server, _peer) = poll_fn(|cx| listener.poll_accept(cx)).await?;
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
        let accepted = self.io.poll_io(Direction::Read, cx, WaitKind::Accept, accept);
        let site = Location::caller();
        let accepted = self.io.registration().inspect_accepted(ready!(accepted), site);
        let (stream, peer) = accepted?;
        Poll::Ready(Ok((stream.register(site)?, peer)))
    }

    /// Registers a listener of the standard library with the current runtime.
    ///
    /// The listener must be in non-blocking mode.
    ///
    /// # Errors
    ///
    /// Returns the kernel's error if the listener cannot be registered.
    ///
    /// # Panics
    ///
    /// Panics if called outside of a runtime with I/O enabled or, with debug assertions, if the
    /// listener is in blocking mode.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::net::TcpListener;
    ///
    /// let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    /// listener.set_nonblocking(true)?;
    /// let listener = TcpListener::from_std(listener)?;
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn from_std(listener: net::TcpListener) -> io::Result<TcpListener> {
        super::check_nonblocking(&listener)?;
        Self::register(listener)
    }

    #[track_caller]
    pub(super) fn register(listener: net::TcpListener) -> io::Result<TcpListener> {
        Ok(Self { io: PollEvented::new(listener, mio::Interest::READABLE)? })
    }

    #[track_caller]
    pub(super) fn register_simulated(socket: SimulatedSocket) -> TcpListener {
        Self { io: simulated::register(socket, Location::caller()) }
    }

    /// Deregisters the listener and returns it, in non-blocking mode.
    ///
    /// # Errors
    ///
    /// Returns the kernel's error if the listener cannot be deregistered.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::net::TcpListener;
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0").await?;
    /// let listener: std::net::TcpListener = listener.into_std()?;
    /// listener.set_nonblocking(false)?; // now `accept` blocks
    /// # Ok(())
    /// # }
    /// ```
    pub fn into_std(self) -> io::Result<net::TcpListener> {
        self.io.into_inner()
    }

    /// Returns the address to which the listener is bound.
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
    /// let listener = wakeful::net::TcpListener::bind("127.0.0.1:0").await?;
    /// assert_ne!(listener.local_addr()?.port(), 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        match self.io.io() {
            Io::Kernel(io) => io.local_addr(),
            Io::Simulated(socket) => socket.local_inet(),
        }
    }

    /// Returns the time-to-live of packets (`IP_TTL`).
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
    /// use wakeful::net::TcpListener;
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0").await?;
    /// listener.set_ttl(64)?;
    /// assert_eq!(listener.ttl()?, 64);
    /// # Ok(())
    /// # }
    /// ```
    pub fn ttl(&self) -> io::Result<u32> {
        self.io.ttl()
    }

    /// Sets the time-to-live of packets (`IP_TTL`).
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
    /// let listener = wakeful::net::TcpListener::bind("127.0.0.1:0").await?;
    /// listener.set_ttl(100)?;
    /// assert_eq!(listener.ttl()?, 100);
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.io.set_ttl(ttl)
    }
}

#[track_caller]
fn bind_one(addr: SocketAddr) -> io::Result<TcpListener> {
    if let Some(socket) = simulated::open(SocketKind::Tcp) {
        let socket = socket?;
        socket.bind(addr)?;
        socket.listen(BACKLOG)?;
        return Ok(TcpListener::register_simulated(socket));
    }
    let socket = super::TcpSocket::in_kernel_for(addr)?;
    // Without this, a restarted server cannot bind while old connections are in TIME_WAIT.
    socket.set_reuseaddr(true)?;
    socket.bind(addr)?;
    socket.listen(BACKLOG)
}

/// A connection that was accepted and is not registered yet.
enum Accepted {
    Kernel(net::TcpStream),
    Simulated(SimulatedSocket),
}

impl Accepted {
    #[inline]
    #[track_caller]
    fn register(self, site: &'static Location<'static>) -> io::Result<TcpStream> {
        match self {
            Accepted::Kernel(stream) => TcpStream::from_accepted(stream, site),
            Accepted::Simulated(socket) => {
                Ok(TcpStream::from_evented(simulated::register(socket, site)))
            }
        }
    }
}

/// Accepts one connection, in non-blocking mode.
fn accept(listener: Io<'_, net::TcpListener>) -> io::Result<(Accepted, SocketAddr)> {
    let listener = match listener {
        Io::Kernel(listener) => listener,
        Io::Simulated(socket) => return accept_simulated(socket),
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let (stream, peer) = uninterrupted(|| rustix::net::acceptfrom_with(listener, flags))?;
    let stream = net::TcpStream::from(stream);
    match peer.map(SocketAddr::try_from) {
        Some(Ok(peer)) => Ok((Accepted::Kernel(stream), peer)),
        _ => stream.peer_addr().map(|peer| (Accepted::Kernel(stream), peer)),
    }
}

#[cold]
#[inline(never)]
fn accept_simulated(listener: &SimulatedSocket) -> io::Result<(Accepted, SocketAddr)> {
    let (stream, peer) = listener.accept()?;
    Ok((Accepted::Simulated(stream), inet(peer)?))
}

impl TryFrom<net::TcpListener> for TcpListener {
    type Error = io::Error;

    /// Converts with [`from_std`](TcpListener::from_std).
    #[track_caller]
    fn try_from(listener: net::TcpListener) -> io::Result<Self> {
        Self::from_std(listener)
    }
}

impl fmt::Debug for TcpListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.io.fmt(f)
    }
}

impl AsRawFd for TcpListener {
    fn as_raw_fd(&self) -> RawFd {
        self.io.as_raw_fd()
    }
}

impl AsFd for TcpListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.io.as_fd()
    }
}
