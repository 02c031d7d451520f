//! A TCP socket that others connect to.

use super::TcpStream;
use crate::driver::io_readiness::{Direction, Readiness};
use crate::net::addr::{self, ToSocketAddrs, no_address};
use crate::runtime::poll_evented::PollEvented;
use crate::runtime::registration::OpSource;
use crate::sys::eintr::uninterrupted;
use crate::task::wait_kind::WaitKind;
use rustix::net::SocketFlags;
use std::fmt;
use std::io;
use std::net::{self, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::panic::Location;
use std::task::{Context, Poll, ready};

/// A TCP socket that others connect to.
///
/// ```no_run
/// # async fn serve() -> std::io::Result<()> {
/// let listener = wakeful::net::TcpListener::bind("127.0.0.1:8080").await?;
/// loop {
///     let (stream, _peer) = listener.accept().await?;
///     wakeful::spawn(async move { drop(stream) });
/// }
/// # }
/// ```
pub struct TcpListener {
    io: PollEvented<net::TcpListener>,
}

/// Connections that the system keeps until they are accepted.
const BACKLOG: u32 = 1024;

impl TcpListener {
    /// Listens on the first of the addresses that can be had. Port 0 means any
    /// that is free. The address may be reused at once after a listener on it is
    /// closed.
    ///
    /// # Errors
    ///
    /// The error of the last address, if none could be had.
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
            Err(last.unwrap_or_else(no_address))
        }
    }

    /// Waits for the next connection.
    ///
    /// If the process has no descriptors left, the error says so; the connection
    /// stays with the system, so close something or wait before the next call.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no connection.
    #[track_caller]
    pub fn accept(&self) -> impl Future<Output = io::Result<(TcpStream, SocketAddr)>> + '_ {
        let site = Location::caller();
        async move {
            let accepted =
                self.io.async_io(OpSource::Ours, Readiness::READ, WaitKind::Accept, site, accept);
            let (stream, peer) = accepted.await?;
            Ok((TcpStream::accepted_at(stream, site)?, peer))
        }
    }

    /// As [`accept`](Self::accept), for the task that asks last.
    #[track_caller]
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
        let accepted = self.io.poll_io(Direction::Read, cx, WaitKind::Accept, accept);
        let (stream, peer) = ready!(accepted)?;
        Poll::Ready(Ok((TcpStream::accepted_at(stream, Location::caller())?, peer)))
    }

    /// Takes a listener over, which must be in non-blocking mode.
    ///
    /// # Panics
    ///
    /// Outside of a runtime with I/O, and, with debug assertions, if the listener
    /// is in blocking mode.
    #[track_caller]
    pub fn from_std(listener: net::TcpListener) -> io::Result<TcpListener> {
        super::check_nonblocking(&listener)?;
        Self::watch(listener)
    }

    #[track_caller]
    pub(super) fn watch(listener: net::TcpListener) -> io::Result<TcpListener> {
        Ok(Self { io: PollEvented::new(listener, mio::Interest::READABLE)? })
    }

    /// Gives the listener back, in non-blocking mode.
    pub fn into_std(self) -> io::Result<net::TcpListener> {
        self.io.into_inner()
    }

    /// The address it listens on.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.local_addr()
    }

    /// The time-to-live of packets (`IP_TTL`).
    pub fn ttl(&self) -> io::Result<u32> {
        self.io.ttl()
    }

    /// Sets the time-to-live of packets (`IP_TTL`).
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.io.set_ttl(ttl)
    }
}

#[track_caller]
fn bind_one(addr: SocketAddr) -> io::Result<TcpListener> {
    let socket = super::TcpSocket::for_addr(addr)?;
    // So that a server can be started again at once.
    socket.set_reuseaddr(true)?;
    socket.bind(addr)?;
    socket.listen(BACKLOG)
}

/// Accepts one connection, in non-blocking mode.
fn accept(listener: &net::TcpListener) -> io::Result<(net::TcpStream, SocketAddr)> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let (stream, peer) = uninterrupted(|| rustix::net::acceptfrom_with(listener, flags))?;
    let stream = net::TcpStream::from(stream);
    match peer.map(SocketAddr::try_from) {
        Some(Ok(peer)) => Ok((stream, peer)),
        _ => stream.peer_addr().map(|peer| (stream, peer)),
    }
}

impl TryFrom<net::TcpListener> for TcpListener {
    type Error = io::Error;

    /// As [`from_std`](TcpListener::from_std).
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
