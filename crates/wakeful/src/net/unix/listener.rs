//! [`UnixListener`]: a socket that accepts Unix connections.

use super::{SocketAddr, UnixStream};
use crate::driver::io_readiness::{Direction, Readiness};
use crate::net::simulated;
use crate::net::tcp::check_nonblocking;
use crate::runtime::poll_evented::{Io, PollEvented};
use crate::runtime::registration::OpSource;
use crate::sim::network::{SimulatedSocket, SocketKind};
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

/// A Unix socket that accepts connections.
///
/// Dropping the listener does not remove its path from the file system. The next
/// [`bind`](Self::bind) to that path fails until the file is removed.
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use wakeful::net::{UnixListener, UnixStream};
///
/// let name = format!("\0wakeful-doc-listener-{}", std::process::id()); // abstract
/// let listener = UnixListener::bind(&name)?;
/// let _client = UnixStream::connect(&name).await?;
/// let (_server, peer) = listener.accept().await?;
/// assert!(peer.is_unnamed());
/// # Ok(())
/// # }
/// ```
pub struct UnixListener {
    io: PollEvented<net::UnixListener>,
}

impl UnixListener {
    /// Creates a listener bound to a path.
    ///
    /// No file may exist at the path. On Linux, a path that begins with a zero byte is an abstract
    /// address.
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
    /// ```no_run
    /// # async fn serve() -> std::io::Result<()> {
    /// use wakeful::net::UnixListener;
    ///
    /// let listener = UnixListener::bind("/run/hello.socket")?;
    /// loop {
    ///     let (stream, _peer) = listener.accept().await?;
    ///     wakeful::spawn(async move { drop(stream) });
    /// }
    /// # }
    /// ```
    #[track_caller]
    pub fn bind<P: AsRef<Path>>(path: P) -> io::Result<UnixListener> {
        Self::bind_addr(&SocketAddr::from_path(path.as_ref())?)
    }

    /// Creates a listener bound to an address.
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
    /// use wakeful::net::UnixListener;
    ///
    /// let name = format!("\0wakeful-doc-bind-addr-{}", std::process::id()); // abstract
    /// let addr = UnixListener::bind(&name)?.local_addr()?; // closes the listener
    /// let listener = UnixListener::bind_addr(&addr)?;
    /// assert_eq!(listener.local_addr()?.as_abstract_name(), addr.as_abstract_name());
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn bind_addr(socket_addr: &SocketAddr) -> io::Result<UnixListener> {
        if let Some(socket) = simulated::open(SocketKind::Unix) {
            let socket = socket?;
            socket.bind_name(&simulated::name_of(&socket_addr.0))?;
            socket.listen(BACKLOG)?;
            return Ok(Self::register_simulated(socket));
        }
        let listener = net::UnixListener::bind_addr(&socket_addr.0)?;
        listener.set_nonblocking(true)?;
        Self::register(listener)
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
    /// use std::os::linux::net::SocketAddrExt;
    /// use std::os::unix::net::{SocketAddr, UnixListener as StdListener};
    /// use wakeful::net::UnixListener;
    ///
    /// let name = format!("wakeful-doc-from-std-{}", std::process::id());
    /// let listener = StdListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
    /// listener.set_nonblocking(true)?;
    /// let _listener = UnixListener::from_std(listener)?;
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn from_std(listener: net::UnixListener) -> io::Result<UnixListener> {
        check_nonblocking(&listener)?;
        Self::register(listener)
    }

    #[track_caller]
    pub(super) fn register(listener: net::UnixListener) -> io::Result<UnixListener> {
        Ok(Self { io: PollEvented::new(listener, mio::Interest::READABLE)? })
    }

    #[track_caller]
    pub(super) fn register_simulated(socket: SimulatedSocket) -> UnixListener {
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
    /// use wakeful::net::UnixListener;
    ///
    /// let name = format!("\0wakeful-doc-into-std-{}", std::process::id()); // abstract
    /// let listener = UnixListener::bind(&name)?.into_std()?;
    /// listener.set_nonblocking(false)?; // now `accept` blocks
    /// # Ok(())
    /// # }
    /// ```
    pub fn into_std(self) -> io::Result<net::UnixListener> {
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
    /// use wakeful::net::UnixListener;
    ///
    /// let name = format!("wakeful-doc-local-addr-{}", std::process::id());
    /// let listener = UnixListener::bind(format!("\0{name}"))?; // abstract
    /// assert_eq!(listener.local_addr()?.as_abstract_name(), Some(name.as_bytes()));
    /// # Ok(())
    /// # }
    /// ```
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        match self.io.io() {
            Io::Kernel(io) => io.local_addr().map(SocketAddr),
            Io::Simulated(socket) => simulated::unix_addr(socket.local_addr()?).map(SocketAddr),
        }
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
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::net::UnixListener;
    ///
    /// let name = format!("\0wakeful-doc-take-error-{}", std::process::id()); // abstract
    /// assert!(UnixListener::bind(&name)?.take_error()?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        match self.io.io() {
            Io::Kernel(io) => io.take_error(),
            Io::Simulated(socket) => socket.take_error(),
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
    /// use wakeful::net::{UnixListener, UnixStream};
    ///
    /// let name = format!("\0wakeful-doc-accept-{}", std::process::id()); // abstract
    /// let listener = UnixListener::bind(&name)?;
    /// let (client, accepted) = wakeful::join!(UnixStream::connect(&name), listener.accept());
    /// let (_client, (_server, _peer)) = (client?, accepted?);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn accept(
        &self,
    ) -> impl Future<Output = io::Result<(UnixStream, SocketAddr)>> + Send + Sync + '_ {
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
    /// use wakeful::net::{UnixListener, UnixStream};
    ///
    /// let name = format!("\0wakeful-doc-poll-accept-{}", std::process::id()); // abstract
    /// let listener = UnixListener::bind(&name)?;
    /// let _client = UnixStream::connect(&name).await?;
    /// let (_server, peer) = poll_fn(|cx| listener.poll_accept(cx)).await?;
    /// assert!(peer.is_unnamed());
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(UnixStream, SocketAddr)>> {
        let accepted = self.io.poll_io(Direction::Read, cx, WaitKind::Accept, accept);
        let site = Location::caller();
        let accepted = self.io.registration().inspect_accepted(ready!(accepted), site);
        let (stream, peer) = accepted?;
        Poll::Ready(Ok((stream.register(site)?, peer)))
    }
}

/// The number of connections that a simulated listener queues until they are accepted.
const BACKLOG: u32 = 128;

/// A connection that was accepted and is not registered yet.
enum Accepted {
    Kernel(net::UnixStream),
    Simulated(SimulatedSocket),
}

impl Accepted {
    #[inline]
    #[track_caller]
    fn register(self, site: &'static Location<'static>) -> io::Result<UnixStream> {
        match self {
            Accepted::Kernel(stream) => UnixStream::from_accepted(stream, site),
            Accepted::Simulated(socket) => Ok(UnixStream::register_simulated(socket, site)),
        }
    }
}

/// Accepts one connection, in non-blocking mode.
fn accept(listener: Io<'_, net::UnixListener>) -> io::Result<(Accepted, SocketAddr)> {
    let listener = match listener {
        Io::Kernel(listener) => listener,
        Io::Simulated(socket) => return accept_simulated(socket),
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let (stream, peer) = uninterrupted(|| rustix::net::acceptfrom_with(listener, flags))?;
    let stream = Accepted::Kernel(net::UnixStream::from(stream));
    Ok((stream, SocketAddr::from_raw(peer)?))
}

#[cold]
#[inline(never)]
fn accept_simulated(listener: &SimulatedSocket) -> io::Result<(Accepted, SocketAddr)> {
    let (stream, peer) = listener.accept()?;
    Ok((Accepted::Simulated(stream), SocketAddr(simulated::unix_addr(peer)?)))
}

impl TryFrom<net::UnixListener> for UnixListener {
    type Error = io::Error;

    /// Converts with [`from_std`](UnixListener::from_std).
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
