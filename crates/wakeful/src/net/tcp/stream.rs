//! A TCP connection.

use super::TcpSocket;
use crate::driver::io_readiness::{Direction, Readiness};
use crate::net::addr::{self, ToSocketAddrs, no_address};
use crate::net::streams::streams;
use crate::sys::eintr::uninterrupted;
use rustix::net::RecvFlags;
use socket2::SockRef;
use std::net::{self, SocketAddr};
use std::task::ready;
use std::time::Duration;

/// A TCP connection.
///
/// Reading and writing is done with the methods of
/// [`AsyncReadExt`](crate::io::AsyncReadExt) and
/// [`AsyncWriteExt`](crate::io::AsyncWriteExt). Dropping it closes the connection;
/// `shutdown` closes the writing side only.
///
/// ```no_run
/// # async fn fetch() -> std::io::Result<()> {
/// use wakeful::io::{AsyncReadExt, AsyncWriteExt};
///
/// let mut stream = wakeful::net::TcpStream::connect("127.0.0.1:8080").await?;
/// stream.write_all(b"hello").await?;
/// let mut answer = String::new();
/// stream.read_to_string(&mut answer).await?;
/// # Ok(())
/// # }
/// ```
pub struct TcpStream {
    io: PollEvented<net::TcpStream>,
}

streams!(TcpStream, net::TcpStream);

impl TcpStream {
    /// Connects to the first of the addresses that answers.
    ///
    /// # Errors
    ///
    /// The error of the last address, if none did.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the socket.
    #[track_caller]
    pub fn connect<A: ToSocketAddrs>(addr: A) -> impl Future<Output = io::Result<TcpStream>> {
        let site = Location::caller();
        let resolved = addr::resolve(addr);
        async move {
            let mut last = None;
            for addr in resolved.await? {
                // A system may have no sockets of one family, and addresses of both.
                let connected = match TcpSocket::for_addr(addr) {
                    Ok(socket) => socket.connect_from(addr, site).await,
                    Err(error) => Err(error),
                };
                match connected {
                    Ok(stream) => return Ok(stream),
                    Err(error) => last = Some(error),
                }
            }
            Err(last.unwrap_or_else(no_address))
        }
    }

    pub(super) fn from_evented(io: PollEvented<net::TcpStream>) -> TcpStream {
        Self { io }
    }

    /// The address of this side.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.local_addr()
    }

    /// The address of the other side.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.io.peer_addr()
    }

    /// Reads what is there without taking it away, for the task that asks last.
    pub fn poll_peek(
        &self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<usize>> {
        // SAFETY: only written to, and with initialised bytes.
        let space = unsafe { buf.unfilled_mut() };
        let peeked = self.io.poll_io(Direction::Read, cx, WaitKind::IoRead, |io| {
            uninterrupted(|| {
                let received = rustix::net::recv(io, &mut *space, RecvFlags::PEEK);
                received.map(|((filled, _), _)| filled.len())
            })
        });
        let count = ready!(peeked)?;
        // SAFETY: the system filled so many.
        unsafe { buf.assume_init(count) };
        buf.advance(count);
        Poll::Ready(Ok(count))
    }

    /// Reads what is there without taking it away: the next read finds it again.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    #[track_caller]
    pub fn peek<'a>(
        &'a self,
        buf: &'a mut [u8],
    ) -> impl Future<Output = io::Result<usize>> + Send + 'a {
        let site = Location::caller();
        self.io.async_io(OpSource::Ours, Readiness::READ, WaitKind::IoRead, site, move |io| {
            io.peek(buf)
        })
    }

    /// Whether what is written goes out at once (`TCP_NODELAY`).
    pub fn nodelay(&self) -> io::Result<bool> {
        self.io.nodelay()
    }

    /// Sets whether what is written goes out at once, in small packets if need be
    /// (`TCP_NODELAY`).
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.io.set_nodelay(nodelay)
    }

    /// Whether what arrives is acknowledged at once (`TCP_QUICKACK`).
    pub fn quickack(&self) -> io::Result<bool> {
        SockRef::from(self).tcp_quickack()
    }

    /// Sets whether what arrives is acknowledged at once (`TCP_QUICKACK`). The
    /// system may change it back by itself.
    pub fn set_quickack(&self, quickack: bool) -> io::Result<()> {
        SockRef::from(self).set_tcp_quickack(quickack)
    }

    /// How long closing may take to send what is left (`SO_LINGER`).
    pub fn linger(&self) -> io::Result<Option<Duration>> {
        SockRef::from(self).linger()
    }

    /// Sets how long closing may take to send what is left (`SO_LINGER`).
    #[deprecated = "a time to linger other than zero blocks the thread that closes the socket; \
                    use `set_zero_linger`"]
    pub fn set_linger(&self, dur: Option<Duration>) -> io::Result<()> {
        SockRef::from(self).set_linger(dur)
    }

    /// Closing drops what is left and resets the connection.
    pub fn set_zero_linger(&self) -> io::Result<()> {
        SockRef::from(self).set_linger(Some(Duration::ZERO))
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
