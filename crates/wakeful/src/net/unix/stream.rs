//! A unix connection.

use super::{SocketAddr, UCred, UnixSocket};
use crate::driver::io_readiness::Readiness;
use crate::net::streams::streams;
use std::os::unix::net;
use std::path::Path;

/// A connection between two unix sockets.
///
/// Reading and writing is done with the methods of
/// [`AsyncReadExt`](crate::io::AsyncReadExt) and
/// [`AsyncWriteExt`](crate::io::AsyncWriteExt). Dropping it closes the connection;
/// `shutdown` closes the writing side only.
///
/// ```
/// # #[wakeful::main]
/// # async fn main() -> std::io::Result<()> {
/// use wakeful::io::{AsyncReadExt, AsyncWriteExt};
///
/// let (mut near, mut far) = wakeful::net::UnixStream::pair()?;
/// near.write_all(b"hello").await?;
/// drop(near);
/// let mut text = String::new();
/// far.read_to_string(&mut text).await?;
/// assert_eq!(text, "hello");
/// # Ok(())
/// # }
/// ```
pub struct UnixStream {
    io: PollEvented<net::UnixStream>,
}

streams!(UnixStream, net::UnixStream);

impl UnixStream {
    /// Connects to the listener at a path; on Linux also at an abstract address,
    /// which is a path that begins with a zero byte.
    ///
    /// # Errors
    ///
    /// `WouldBlock` means that too many wait there to be accepted already. The
    /// system does not tell when there is room.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the socket.
    #[track_caller]
    pub fn connect<P: AsRef<Path>>(path: P) -> impl Future<Output = io::Result<UnixStream>> {
        let (addr, site) = (SocketAddr::of_path(path.as_ref()), Location::caller());
        async move { UnixSocket::new_stream()?.connect_from(&addr?, site).await }
    }

    /// Connects to the listener at an address; see [`connect`](Self::connect).
    #[track_caller]
    pub fn connect_addr(
        socket_addr: &SocketAddr,
    ) -> impl Future<Output = io::Result<UnixStream>> + Send + Sync + '_ {
        let site = Location::caller();
        async move { UnixSocket::new_stream()?.connect_from(socket_addr, site).await }
    }

    /// Waits until a socket is connected.
    pub(super) async fn connecting_at(
        stream: net::UnixStream,
        site: &'static Location<'static>,
    ) -> io::Result<UnixStream> {
        let stream = Self::watch_from(stream, site)?;
        // Once it can be written to, it is connected, or has an error.
        stream.io.registration().ready(Readiness::WRITE, WaitKind::Connect, site).await?;
        match stream.take_error()? {
            Some(error) => Err(error),
            None => Ok(stream),
        }
    }

    /// Two streams without an address that are connected to each other.
    ///
    /// # Panics
    ///
    /// Outside of a runtime with I/O.
    #[track_caller]
    pub fn pair() -> io::Result<(UnixStream, UnixStream)> {
        let (a, b) = net::UnixStream::pair()?;
        Ok((Self::paired(a)?, Self::paired(b)?))
    }

    /// One of a pair: there is room to write.
    #[track_caller]
    fn paired(stream: net::UnixStream) -> io::Result<UnixStream> {
        stream.set_nonblocking(true)?;
        let stream = Self::watch_from(stream, Location::caller())?;
        stream.io.registration().assume(Readiness::WRITABLE);
        Ok(stream)
    }

    /// The address of this side.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.local_addr().map(SocketAddr)
    }

    /// The address of the other side.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.io.peer_addr().map(SocketAddr)
    }

    /// Who was on the other side when it connected, or called `pair` or `listen`.
    pub fn peer_cred(&self) -> io::Result<UCred> {
        UCred::of_peer(self)
    }
}
