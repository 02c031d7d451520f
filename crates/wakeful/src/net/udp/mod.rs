//! UDP.

mod options;

use super::addr::{self, ToSocketAddrs, no_address};
use super::datagram::{Datagram, datagrams, send_to};
use rustix::net::{RecvFlags, SocketAddrAny};
use std::net::{self, SocketAddr};

/// A UDP socket.
///
/// All methods take it by reference, so that one task can send while another
/// receives: put it into an [`Arc`](std::sync::Arc) for that. It either talks to
/// anybody, with [`send_to`](Self::send_to) and [`recv_from`](Self::recv_from), or
/// is [connected](Self::connect) to one address, and then takes packets from that
/// one only.
///
/// ```
/// # #[wakeful::main]
/// # async fn main() -> std::io::Result<()> {
/// use wakeful::net::UdpSocket;
///
/// let a = UdpSocket::bind("127.0.0.1:0").await?;
/// let b = UdpSocket::bind("127.0.0.1:0").await?;
/// a.send_to(b"hello", b.local_addr()?).await?;
/// let mut packet = [0; 64];
/// let (len, sender) = b.recv_from(&mut packet).await?;
/// assert_eq!((&packet[..len], sender), (&b"hello"[..], a.local_addr()?));
/// # Ok(())
/// # }
/// ```
pub struct UdpSocket {
    io: PollEvented<net::UdpSocket>,
}

impl Datagram for net::UdpSocket {
    type Addr = SocketAddr;

    fn address(raw: Option<SocketAddrAny>) -> io::Result<SocketAddr> {
        match raw.map(SocketAddr::try_from) {
            Some(Ok(addr)) => Ok(addr),
            _ => Err(io::Error::other("sender not available")),
        }
    }
}

datagrams!(UdpSocket, net::UdpSocket, SocketAddr);

impl UdpSocket {
    /// A socket with the first of the addresses that can be had. Port 0 means any
    /// that is free.
    ///
    /// # Errors
    ///
    /// The error of the last address, if none could be had.
    #[track_caller]
    pub fn bind<A: ToSocketAddrs>(addr: A) -> impl Future<Output = io::Result<UdpSocket>> {
        let resolved = addr::resolve(addr);
        async move {
            let mut last = None;
            for addr in resolved.await? {
                match bind_one(addr) {
                    Ok(socket) => return Ok(socket),
                    Err(error) => last = Some(error),
                }
            }
            Err(last.unwrap_or_else(no_address))
        }
    }

    /// Talks to one address only from now on: [`send`](Self::send) goes there, and
    /// [`recv`](Self::recv) takes only what comes from there. Of several addresses
    /// it is the first that the system accepts; that does not mean that somebody
    /// is there.
    #[track_caller]
    pub fn connect<A: ToSocketAddrs>(&self, addr: A) -> impl Future<Output = io::Result<()>> {
        let resolved = addr::resolve(addr);
        async move {
            let mut last = None;
            for addr in resolved.await? {
                match self.io.connect(addr) {
                    Ok(()) => return Ok(()),
                    Err(error) => last = Some(error),
                }
            }
            Err(last.unwrap_or_else(no_address))
        }
    }

    /// The address of this socket.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.local_addr()
    }

    /// The address that it is [connected](Self::connect) to.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.io.peer_addr()
    }

    /// Sends a datagram to an address; to the first, if there are several.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before it is done, nothing was sent.
    #[track_caller]
    pub fn send_to<A: ToSocketAddrs>(
        &self,
        buf: &[u8],
        addr: A,
    ) -> impl Future<Output = io::Result<usize>> {
        let site = Location::caller();
        let resolved = addr::resolve(addr);
        async move {
            let Some(target) = resolved.await?.next() else {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    "no addresses to send data to",
                ));
            };
            self.io.async_post(site, |io| send_to(io, buf, &target)).await
        }
    }

    /// As [`send_to`](Self::send_to), for the task that asks last.
    pub fn poll_send_to(
        &self,
        cx: &mut Context<'_>,
        buf: &[u8],
        target: SocketAddr,
    ) -> Poll<io::Result<usize>> {
        self.io.poll_post(cx, |io| send_to(io, buf, &target))
    }

    /// Sends to an address without waiting.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if there is no room.
    pub fn try_send_to(&self, buf: &[u8], target: SocketAddr) -> io::Result<usize> {
        self.io.try_post(|io| send_to(io, buf, &target))
    }
}

/// Nothing is taken: the next receive finds it again.
const PEEK: RecvFlags = RecvFlags::PEEK;

/// Looking at the next packet.
impl UdpSocket {
    /// As [`recv`](Self::recv), but leaves the datagram where it is.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    #[track_caller]
    pub fn peek<'a>(
        &'a self,
        buf: &'a mut [u8],
    ) -> impl Future<Output = io::Result<usize>> + Send + Sync + 'a {
        let site = Location::caller();
        self.io.async_fetch(site, move |io| into_slice(io, buf, PEEK).map(count))
    }

    /// As [`peek`](Self::peek), for the task that asks last.
    pub fn poll_peek(&self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.io.poll_fetch(cx, |io| into_unfilled(io, buf, PEEK))
    }

    /// As [`try_recv`](Self::try_recv), but leaves the datagram where it is.
    pub fn try_peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.io.try_fetch(|io| into_slice(io, buf, PEEK).map(count))
    }

    /// As [`recv_from`](Self::recv_from), but leaves the datagram where it is.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    #[track_caller]
    pub fn peek_from<'a>(
        &'a self,
        buf: &'a mut [u8],
    ) -> impl Future<Output = io::Result<(usize, SocketAddr)>> + Send + Sync + 'a {
        let site = Location::caller();
        self.io.async_fetch(site, move |io| into_slice(io, buf, PEEK).map(sender))
    }

    /// As [`peek_from`](Self::peek_from), for the task that asks last.
    pub fn poll_peek_from(
        &self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<SocketAddr>> {
        self.io.poll_fetch(cx, |io| into_unfilled(io, buf, PEEK).map(|SentBy(addr)| addr))
    }

    /// As [`try_recv_from`](Self::try_recv_from), but leaves the datagram where it
    /// is.
    pub fn try_peek_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.io.try_fetch(|io| into_slice(io, buf, PEEK).map(sender))
    }

    /// Waits for a datagram and tells who sent it, but leaves it where it is.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    #[track_caller]
    pub fn peek_sender(&self) -> impl Future<Output = io::Result<SocketAddr>> + Send + Sync + '_ {
        self.io.async_fetch(Location::caller(), peek_sender)
    }

    /// As [`peek_sender`](Self::peek_sender), for the task that asks last.
    pub fn poll_peek_sender(&self, cx: &mut Context<'_>) -> Poll<io::Result<SocketAddr>> {
        self.io.poll_fetch(cx, peek_sender)
    }

    /// As [`peek_sender`](Self::peek_sender), without waiting.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if there is nothing.
    pub fn try_peek_sender(&self) -> io::Result<SocketAddr> {
        self.io.try_fetch(peek_sender)
    }
}

fn peek_sender(io: &net::UdpSocket) -> io::Result<SocketAddr> {
    into_slice(io, &mut [], PEEK).map(|(_, SentBy(addr))| addr)
}

fn bind_one(addr: SocketAddr) -> io::Result<UdpSocket> {
    let socket = net::UdpSocket::bind(addr)?;
    socket.set_nonblocking(true)?;
    UdpSocket::watch(socket)
}
