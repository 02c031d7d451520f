//! A unix socket for datagrams.

use super::SocketAddr;
use crate::driver::io_readiness::Readiness;
use crate::net::datagram::{Datagram, datagrams, send_to};
use rustix::net::SocketAddrAny;
use std::net::Shutdown;
use std::os::unix::net;
use std::path::Path;

/// A unix socket for datagrams. None of them is lost: whoever sends waits for the
/// receiver to have room.
///
/// ```
/// # #[wakeful::main]
/// # async fn main() -> std::io::Result<()> {
/// let (a, b) = wakeful::net::UnixDatagram::pair()?;
/// a.send(b"hello").await?;
/// let mut packet = [0; 64];
/// let len = b.recv(&mut packet).await?;
/// assert_eq!(&packet[..len], b"hello");
/// # Ok(())
/// # }
/// ```
pub struct UnixDatagram {
    io: PollEvented<net::UnixDatagram>,
}

impl Datagram for net::UnixDatagram {
    type Addr = SocketAddr;

    fn address(raw: Option<SocketAddrAny>) -> io::Result<SocketAddr> {
        SocketAddr::of_raw(raw)
    }
}

datagrams!(UnixDatagram, net::UnixDatagram, SocketAddr);

impl UnixDatagram {
    /// A socket with an address: a path, at which there must be nothing yet, or on
    /// Linux an abstract address, which is a path that begins with a zero byte.
    ///
    /// # Panics
    ///
    /// Outside of a runtime with I/O.
    #[track_caller]
    pub fn bind<P: AsRef<Path>>(path: P) -> io::Result<UnixDatagram> {
        let addr = SocketAddr::of_path(path.as_ref())?;
        Self::fresh(net::UnixDatagram::bind_addr(&addr.0)?)
    }

    /// Two sockets without an address that are connected to each other.
    ///
    /// # Panics
    ///
    /// Outside of a runtime with I/O.
    #[track_caller]
    pub fn pair() -> io::Result<(UnixDatagram, UnixDatagram)> {
        let (a, b) = net::UnixDatagram::pair()?;
        let (a, b) = (Self::fresh(a)?, Self::fresh(b)?);
        for socket in [&a, &b] {
            socket.io.registration().assume(Readiness::WRITABLE);
        }
        Ok((a, b))
    }

    /// A socket without an address: it can send, but nobody can answer.
    ///
    /// # Panics
    ///
    /// Outside of a runtime with I/O.
    #[track_caller]
    pub fn unbound() -> io::Result<UnixDatagram> {
        Self::fresh(net::UnixDatagram::unbound()?)
    }

    #[track_caller]
    fn fresh(socket: net::UnixDatagram) -> io::Result<UnixDatagram> {
        socket.set_nonblocking(true)?;
        Self::watch(socket)
    }

    /// Takes over what was a [`UnixSocket`](super::UnixSocket).
    #[track_caller]
    pub(super) fn of_socket(socket: net::UnixDatagram) -> io::Result<UnixDatagram> {
        match socket.take_error()? {
            Some(error) => Err(error),
            None => Self::watch(socket),
        }
    }

    /// Talks to one address only from now on: [`send`](Self::send) goes there.
    pub fn connect<P: AsRef<Path>>(&self, path: P) -> io::Result<()> {
        self.io.connect_addr(&SocketAddr::of_path(path.as_ref())?.0)
    }

    /// Sends a datagram to the socket at a path. If there is no room for it there,
    /// this waits; but the system tells only those who are
    /// [connected](Self::connect) when somebody else's datagrams have made room.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before it is done, nothing was sent.
    #[track_caller]
    pub fn send_to<P: AsRef<Path>>(
        &self,
        buf: &[u8],
        target: P,
    ) -> impl Future<Output = io::Result<usize>> {
        let (target, site) = (SocketAddr::of_path(target.as_ref()), Location::caller());
        async move {
            let target = target?.to_raw()?;
            self.io.async_post(site, |io| send_to(io, buf, &target)).await
        }
    }

    /// As [`send_to`](Self::send_to), for the task that asks last.
    pub fn poll_send_to<P: AsRef<Path>>(
        &self,
        cx: &mut Context<'_>,
        buf: &[u8],
        target: P,
    ) -> Poll<io::Result<usize>> {
        let target = SocketAddr::of_path(target.as_ref())?.to_raw().map_err(io::Error::from)?;
        self.io.poll_post(cx, |io| send_to(io, buf, &target))
    }

    /// Sends to the socket at a path without waiting.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if there is no room.
    pub fn try_send_to<P: AsRef<Path>>(&self, buf: &[u8], target: P) -> io::Result<usize> {
        let target = SocketAddr::of_path(target.as_ref())?.to_raw()?;
        self.io.try_post(|io| send_to(io, buf, &target))
    }

    /// The address of this socket.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.local_addr().map(SocketAddr)
    }

    /// The address that it is [connected](Self::connect) to.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.io.peer_addr().map(SocketAddr)
    }

    /// Closes one direction, or both.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.io.shutdown(how)
    }
}
