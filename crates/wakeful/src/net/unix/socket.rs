//! A unix socket that is not yet connected and does not listen.

use super::{SocketAddr, UnixDatagram, UnixListener, UnixStream};
use crate::sys::eintr::uninterrupted;
use rustix::io::Errno;
use socket2::{Domain, Socket, Type};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::panic::Location;
use std::path::Path;

/// A unix socket that is not yet connected and does not listen: for binding it
/// before it does, or choosing how many connections may wait.
///
/// ```no_run
/// # async fn connect() -> std::io::Result<()> {
/// let socket = wakeful::net::UnixSocket::new_stream()?;
/// socket.bind("/run/client.socket")?;
/// let stream = socket.connect("/run/server.socket").await?;
/// # drop(stream);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct UnixSocket {
    socket: Socket,
}

impl UnixSocket {
    /// A socket for datagrams.
    pub fn new_datagram() -> io::Result<UnixSocket> {
        Self::new(Type::DGRAM)
    }

    /// A socket for streams of bytes.
    pub fn new_stream() -> io::Result<UnixSocket> {
        Self::new(Type::STREAM)
    }

    fn new(kind: Type) -> io::Result<UnixSocket> {
        Ok(Self { socket: Socket::new(Domain::UNIX, kind.nonblocking().cloexec(), None)? })
    }

    /// Gives it an address: a path, at which there must be nothing yet, or on
    /// Linux an abstract address, which is a path that begins with a zero byte.
    pub fn bind(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let addr = SocketAddr::of_path(path.as_ref())?.to_raw()?;
        Ok(rustix::net::bind(&self.socket, &addr)?)
    }

    /// Makes it a listener that lets so many connections wait to be accepted.
    ///
    /// # Errors
    ///
    /// If it is for datagrams, and those of the system.
    ///
    /// # Panics
    ///
    /// Outside of a runtime with I/O.
    #[track_caller]
    pub fn listen(self, backlog: u32) -> io::Result<UnixListener> {
        self.must_not_be(Type::DGRAM, "listen cannot be called on a datagram socket")?;
        self.socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
        UnixListener::watch(OwnedFd::from(self.socket).into())
    }

    /// Connects to the listener at a path.
    ///
    /// # Errors
    ///
    /// If it is for datagrams, and those of the system: `WouldBlock` means that
    /// too many wait there to be accepted already, and the system does not tell
    /// when there is room.
    ///
    /// # Panics
    ///
    /// Outside of a runtime with I/O.
    #[track_caller]
    pub fn connect(self, path: impl AsRef<Path>) -> impl Future<Output = io::Result<UnixStream>> {
        let (addr, site) = (SocketAddr::of_path(path.as_ref()), Location::caller());
        async move {
            self.must_not_be(Type::DGRAM, "connect cannot be called on a datagram socket")?;
            self.connect_from(&addr?, site).await
        }
    }

    pub(super) async fn connect_from(
        self,
        addr: &SocketAddr,
        site: &'static Location<'static>,
    ) -> io::Result<UnixStream> {
        let addr = addr.to_raw()?;
        uninterrupted(|| match rustix::net::connect(&self.socket, &addr) {
            Err(Errno::INPROGRESS) => Ok(()),
            result => result,
        })?;
        UnixStream::connecting_at(OwnedFd::from(self.socket).into(), site).await
    }

    /// Makes it a socket that sends and receives.
    ///
    /// # Errors
    ///
    /// If it is for streams, and those of the system.
    ///
    /// # Panics
    ///
    /// Outside of a runtime with I/O.
    #[track_caller]
    pub fn datagram(self) -> io::Result<UnixDatagram> {
        self.must_not_be(Type::STREAM, "datagram cannot be called on a stream socket")?;
        UnixDatagram::of_socket(OwnedFd::from(self.socket).into())
    }

    fn must_not_be(&self, kind: Type, complaint: &'static str) -> io::Result<()> {
        if self.socket.r#type()? == kind { Err(io::Error::other(complaint)) } else { Ok(()) }
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
    /// Takes over a socket, which must be in non-blocking mode.
    ///
    /// # Safety
    ///
    /// It is an open socket, and nobody else closes it.
    unsafe fn from_raw_fd(fd: RawFd) -> UnixSocket {
        // SAFETY: the caller's word.
        Self { socket: unsafe { Socket::from_raw_fd(fd) } }
    }
}

impl IntoRawFd for UnixSocket {
    fn into_raw_fd(self) -> RawFd {
        self.socket.into_raw_fd()
    }
}
