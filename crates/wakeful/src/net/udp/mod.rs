//! [`UdpSocket`]: a socket for UDP datagrams.

mod options;
mod peek;

use super::addr::{self, ToSocketAddrs, no_addresses};
use super::datagram_io::{DatagramSocket, send_to};
use super::datagrams::datagrams;
use super::simulated;
use crate::runtime::poll_evented::{Io, PollEvented};
use crate::sim::network::SocketKind;
use rustix::net::SocketAddrAny;
use std::io;
use std::net::{self, SocketAddr};
use std::panic::Location;
use std::task::{Context, Poll};

/// A UDP socket.
///
/// All methods take `&self`. To send in one task and receive in another, share the socket with an
/// [`Arc`](std::sync::Arc).
///
/// An unconnected socket exchanges datagrams with any address, with [`send_to`](Self::send_to) and
/// [`recv_from`](Self::recv_from). A [connected](Self::connect) socket exchanges them with one
/// address, with [`send`](Self::send) and [`recv`](Self::recv).
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use wakeful::net::UdpSocket;
///
/// let a = UdpSocket::bind("127.0.0.1:0").await?;
/// let b = UdpSocket::bind("127.0.0.1:0").await?;
/// a.send_to(b"hello", b.local_addr()?).await?;
/// let mut buf = [0; 64];
/// let (len, sender) = b.recv_from(&mut buf).await?;
/// assert_eq!((&buf[..len], sender), (&b"hello"[..], a.local_addr()?));
/// # Ok(())
/// # }
/// ```
///
/// Sending and receiving in different tasks:
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use std::sync::Arc;
/// use wakeful::net::UdpSocket;
///
/// let socket = Arc::new(UdpSocket::bind("127.0.0.1:0").await?);
/// socket.connect(socket.local_addr()?).await?; // to itself
///
/// let receiver = wakeful::spawn({
///     let socket = socket.clone();
///     async move {
///         let mut buf = [0; 64];
///         socket.recv(&mut buf).await
///     }
/// });
/// socket.send(b"hello").await?;
/// assert_eq!(receiver.await.unwrap()?, 5);
/// # Ok(())
/// # }
/// ```
pub struct UdpSocket {
    io: PollEvented<net::UdpSocket>,
}

impl DatagramSocket for net::UdpSocket {
    type Addr = SocketAddr;

    fn sender_addr(raw: Option<SocketAddrAny>) -> io::Result<SocketAddr> {
        match raw.map(SocketAddr::try_from) {
            Some(Ok(addr)) => Ok(addr),
            _ => Err(io::Error::other("sender not available")),
        }
    }

    fn simulated_sender(from: SocketAddr) -> io::Result<SocketAddr> {
        Ok(from)
    }
}

datagrams!(
    UdpSocket,
    net::UdpSocket,
    SocketAddr,
    "# let a = wakeful::net::UdpSocket::bind(\"127.0.0.1:0\").await?;
# let b = wakeful::net::UdpSocket::bind(\"127.0.0.1:0\").await?;
# a.connect(b.local_addr()?).await?;
# b.connect(a.local_addr()?).await?;"
);

impl UdpSocket {
    /// Creates a socket, bound to the first of the addresses that can be bound.
    ///
    /// Port 0 requests a free port; [`local_addr`](Self::local_addr) returns the assigned one.
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
    /// let socket = wakeful::net::UdpSocket::bind("127.0.0.1:0").await?;
    /// println!("bound to {}", socket.local_addr()?);
    /// # Ok(())
    /// # }
    /// ```
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
            Err(last.unwrap_or_else(no_addresses))
        }
    }

    /// Connects the socket to one address.
    ///
    /// [`send`](Self::send) then sends to this address, and [`recv`](Self::recv) receives only from
    /// it. Of several addresses, the first that the kernel accepts is used. UDP has no handshake,
    /// so success does not mean that a peer exists.
    ///
    /// # Errors
    ///
    /// Returns the error of the last address if none is accepted, and `InvalidInput` if there is no
    /// address.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. If the future is dropped before it completes, the socket is not connected.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::net::UdpSocket;
    ///
    /// let server = UdpSocket::bind("127.0.0.1:0").await?;
    /// let client = UdpSocket::bind("127.0.0.1:0").await?;
    /// client.connect(server.local_addr()?).await?;
    /// client.send(b"hello").await?;
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn connect<A: ToSocketAddrs>(&self, addr: A) -> impl Future<Output = io::Result<()>> {
        let resolved = addr::resolve(addr);
        async move {
            let mut last = None;
            for addr in resolved.await? {
                let connected = match self.io.io() {
                    Io::Kernel(io) => io.connect(addr),
                    Io::Simulated(socket) => socket.connect_datagram(addr),
                };
                match connected {
                    Ok(()) => return Ok(()),
                    Err(error) => last = Some(error),
                }
            }
            Err(last.unwrap_or_else(no_addresses))
        }
    }

    /// Returns the address to which the socket is bound.
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
    /// use wakeful::net::UdpSocket;
    ///
    /// let socket = UdpSocket::bind("127.0.0.1:0").await?;
    /// assert_ne!(socket.local_addr()?.port(), 0); // the kernel chose a port
    /// # Ok(())
    /// # }
    /// ```
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        match self.io.io() {
            Io::Kernel(io) => io.local_addr(),
            Io::Simulated(socket) => socket.local_inet(),
        }
    }

    /// Returns the address to which the socket is [connected](Self::connect).
    ///
    /// # Errors
    ///
    /// Returns the kernel's error, for example `NotConnected`.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::net::UdpSocket;
    ///
    /// let (a, b) = (UdpSocket::bind("127.0.0.1:0").await?, UdpSocket::bind("127.0.0.1:0").await?);
    /// assert!(a.peer_addr().is_err());
    /// a.connect(b.local_addr()?).await?;
    /// assert_eq!(a.peer_addr()?, b.local_addr()?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        match self.io.io() {
            Io::Kernel(io) => io.peer_addr(),
            Io::Simulated(socket) => socket.peer_inet(),
        }
    }

    /// Sends a datagram to an address; if several are given, to the first.
    ///
    /// Returns the number of bytes sent.
    ///
    /// # Errors
    ///
    /// Returns the kernel's error, and `InvalidInput` if there is no address.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. If the future is dropped before it completes, nothing was sent.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::net::UdpSocket;
    ///
    /// let a = UdpSocket::bind("127.0.0.1:0").await?;
    /// let b = UdpSocket::bind("127.0.0.1:0").await?;
    /// assert_eq!(a.send_to(b"hello", b.local_addr()?).await?, 5);
    /// # Ok(())
    /// # }
    /// ```
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
            self.io.async_send_with(site, |io| send_inet(io, buf, target)).await
        }
    }

    /// Polls a send to `target`.
    ///
    /// Only the task of the most recent call is woken; see [`send_to`](Self::send_to).
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
    /// use wakeful::net::UdpSocket;
    ///
    /// let (a, b) = (UdpSocket::bind("127.0.0.1:0").await?, UdpSocket::bind("127.0.0.1:0").await?);
    /// let target = b.local_addr()?;
    /// let len = poll_fn(|cx| a.poll_send_to(cx, b"hello", target)).await?;
    /// assert_eq!(len, 5);
    /// # Ok(())
    /// # }
    /// ```
    pub fn poll_send_to(
        &self,
        cx: &mut Context<'_>,
        buf: &[u8],
        target: SocketAddr,
    ) -> Poll<io::Result<usize>> {
        self.io.poll_send_with(cx, |io| send_inet(io, buf, target))
    }

    /// Sends a datagram to `target` without waiting.
    ///
    /// # Errors
    ///
    /// Returns `WouldBlock` if the send buffer is full, and the kernel's error otherwise.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::net::UdpSocket;
    ///
    /// let a = UdpSocket::bind("127.0.0.1:0").await?;
    /// let b = UdpSocket::bind("127.0.0.1:0").await?;
    /// a.writable().await?;
    /// assert_eq!(a.try_send_to(b"hello", b.local_addr()?)?, 5);
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_send_to(&self, buf: &[u8], target: SocketAddr) -> io::Result<usize> {
        self.io.try_send_with(move |io| send_inet(io, buf, target))
    }
}

#[inline(always)]
fn send_inet(io: Io<'_, net::UdpSocket>, buf: &[u8], target: SocketAddr) -> io::Result<usize> {
    match io {
        Io::Kernel(io) => send_to(io, buf, &target),
        Io::Simulated(socket) => Ok(socket.send(buf, Some(target))?),
    }
}

#[track_caller]
fn bind_one(addr: SocketAddr) -> io::Result<UdpSocket> {
    if let Some(socket) = simulated::open(SocketKind::Udp) {
        let socket = socket?;
        socket.bind_datagram(addr)?;
        return Ok(UdpSocket { io: simulated::register(socket, Location::caller()) });
    }
    let socket = net::UdpSocket::bind(addr)?;
    socket.set_nonblocking(true)?;
    UdpSocket::register(socket)
}
