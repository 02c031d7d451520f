//! A unix socket that others connect to.

use super::{SocketAddr, UnixStream};
use crate::driver::io_readiness::{Direction, Readiness};
use crate::net::tcp::check_nonblocking;
use crate::runtime::poll_evented::PollEvented;
use crate::runtime::registration::OpSource;
use crate::sys::eintr::uninterrupted;
use crate::task::wait_kind::WaitKind;
use rustix::net::SocketFlags;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::net;
use std::panic::Location;
use std::path::Path;
use std::task::{Context, Poll, ready};

/// A unix socket that others connect to.
///
/// Dropping it leaves its path in the file system, where it keeps the next from
/// being bound there: remove it first.
///
/// ```no_run
/// # async fn serve() -> std::io::Result<()> {
/// let listener = wakeful::net::UnixListener::bind("/run/hello.socket")?;
/// loop {
///     let (stream, _peer) = listener.accept().await?;
///     wakeful::spawn(async move { drop(stream) });
/// }
/// # }
/// ```
pub struct UnixListener {
    io: PollEvented<net::UnixListener>,
}

impl UnixListener {
    /// Listens at a path, at which there must be nothing yet; on Linux also at an
    /// abstract address, which is a path that begins with a zero byte.
    ///
    /// # Panics
    ///
    /// Outside of a runtime with I/O.
    #[track_caller]
    pub fn bind<P: AsRef<Path>>(path: P) -> io::Result<UnixListener> {
        Self::bind_addr(&SocketAddr::of_path(path.as_ref())?)
    }

    /// Listens at an address.
    ///
    /// # Panics
    ///
    /// Outside of a runtime with I/O.
    #[track_caller]
    pub fn bind_addr(socket_addr: &SocketAddr) -> io::Result<UnixListener> {
        let listener = net::UnixListener::bind_addr(&socket_addr.0)?;
        listener.set_nonblocking(true)?;
        Self::watch(listener)
    }

    /// Takes a listener over, which must be in non-blocking mode.
    ///
    /// # Panics
    ///
    /// Outside of a runtime with I/O, and, with debug assertions, if the listener
    /// is in blocking mode.
    #[track_caller]
    pub fn from_std(listener: net::UnixListener) -> io::Result<UnixListener> {
        check_nonblocking(&listener)?;
        Self::watch(listener)
    }

    #[track_caller]
    pub(super) fn watch(listener: net::UnixListener) -> io::Result<UnixListener> {
        Ok(Self { io: PollEvented::new(listener, mio::Interest::READABLE)? })
    }

    /// Gives the listener back, in non-blocking mode.
    pub fn into_std(self) -> io::Result<net::UnixListener> {
        self.io.into_inner()
    }

    /// The address it listens at.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.local_addr().map(SocketAddr)
    }

    /// The pending error of the socket, which is cleared (`SO_ERROR`).
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.io.take_error()
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
    pub fn accept(
        &self,
    ) -> impl Future<Output = io::Result<(UnixStream, SocketAddr)>> + Send + Sync + '_ {
        let site = Location::caller();
        async move {
            let accepted =
                self.io.async_io(OpSource::Ours, Readiness::READ, WaitKind::Accept, site, accept);
            let (stream, peer) = accepted.await?;
            Ok((UnixStream::accepted_at(stream, site)?, peer))
        }
    }

    /// As [`accept`](Self::accept), for the task that asks last.
    #[track_caller]
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(UnixStream, SocketAddr)>> {
        let accepted = self.io.poll_io(Direction::Read, cx, WaitKind::Accept, accept);
        let (stream, peer) = ready!(accepted)?;
        Poll::Ready(Ok((UnixStream::accepted_at(stream, Location::caller())?, peer)))
    }
}

/// Accepts one connection, in non-blocking mode.
fn accept(listener: &net::UnixListener) -> io::Result<(net::UnixStream, SocketAddr)> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let (stream, peer) = uninterrupted(|| rustix::net::acceptfrom_with(listener, flags))?;
    Ok((net::UnixStream::from(stream), SocketAddr::of_raw(peer)?))
}

impl TryFrom<net::UnixListener> for UnixListener {
    type Error = io::Error;

    /// As [`from_std`](UnixListener::from_std).
    #[track_caller]
    fn try_from(listener: net::UnixListener) -> io::Result<Self> {
        Self::from_std(listener)
    }
}

impl fmt::Debug for UnixListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.io.fmt(f)
    }
}

impl AsRawFd for UnixListener {
    fn as_raw_fd(&self) -> RawFd {
        self.io.as_raw_fd()
    }
}

impl AsFd for UnixListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.io.as_fd()
    }
}
