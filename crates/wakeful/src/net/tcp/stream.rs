//! [`TcpStream`]: a TCP connection.

use super::socket::connect_new;
use crate::driver::io_readiness::{Direction, Readiness};
use crate::io::ReadBuf;
use crate::net::addr::{self, ToSocketAddrs, no_addresses};
use crate::net::streams::streams;
use crate::runtime::poll_evented::{Io, PollEvented};
use crate::runtime::registration::{OpSource, Registration};
use crate::sys::eintr::uninterrupted;
use crate::task::wait_kind::WaitKind;
use rustix::net::RecvFlags;
use socket2::SockRef;
use std::io;
use std::mem::MaybeUninit;
use std::net::{self, SocketAddr};
use std::panic::Location;
use std::task::{Context, Poll, ready};
use std::time::Duration;

/// A TCP connection between a local and a remote socket.
///
/// Created by [`connect`](Self::connect) or by [`TcpListener::accept`](super::TcpListener::accept).
/// Read and write with the methods of [`AsyncReadExt`](crate::io::AsyncReadExt) and
/// [`AsyncWriteExt`](crate::io::AsyncWriteExt).
///
/// Dropping the stream closes the connection. [`shutdown`](crate::io::AsyncWriteExt::shutdown)
/// closes only the write side. To read and write in different tasks, use
/// [`into_split`](Self::into_split).
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use wakeful::io::{AsyncReadExt, AsyncWriteExt};
/// use wakeful::net::{TcpListener, TcpStream};
///
/// let listener = TcpListener::bind("127.0.0.1:0").await?;
/// let mut client = TcpStream::connect(listener.local_addr()?).await?;
/// let (mut server, _peer) = listener.accept().await?;
///
/// client.write_all(b"hello").await?;
/// client.shutdown().await?;
/// let mut text = String::new();
/// server.read_to_string(&mut text).await?;
/// assert_eq!(text, "hello");
/// # Ok(())
/// # }
/// ```
pub struct TcpStream {
    io: PollEvented<net::TcpStream>,
}

streams!(
    TcpStream,
    net::TcpStream,
    "# let listener = wakeful::net::TcpListener::bind(\"127.0.0.1:0\").await?;
# let mut client = wakeful::net::TcpStream::connect(listener.local_addr()?).await?;
# let (mut server, _) = listener.accept().await?;"
);

impl TcpStream {
    /// Connects to the first of the addresses that accepts the connection.
    ///
    /// Tries the addresses one after another. Host names are resolved on the blocking pool.
    ///
    /// # Errors
    ///
    /// Returns the error of the last address if none accepts, and `InvalidInput` if there is no
    /// address.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the socket.
    ///
    /// # Panics
    ///
    /// The future panics if polled outside of a runtime with I/O enabled; see
    /// [`enable_io`](crate::runtime::Builder::enable_io).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::net::{TcpListener, TcpStream};
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0").await?;
    /// let stream = TcpStream::connect(listener.local_addr()?).await?;
    /// assert_eq!(stream.peer_addr()?, listener.local_addr()?);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn connect<A: ToSocketAddrs>(addr: A) -> impl Future<Output = io::Result<TcpStream>> {
        let site = Location::caller();
        let resolved = addr::resolve(addr);
        async move {
            let mut last = None;
            for addr in resolved.await? {
                // The resolver may return addresses of a family that the kernel does not support.
                match connect_new(addr, site).await {
                    Ok(stream) => return Ok(stream),
                    Err(error) => last = Some(error),
                }
            }
            Err(last.unwrap_or_else(no_addresses))
        }
    }

    pub(super) fn registration(&self) -> &Registration {
        self.io.registration()
    }

    pub(super) fn from_evented(io: PollEvented<net::TcpStream>) -> TcpStream {
        Self { io }
    }

    /// Returns the local address.
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
    /// use wakeful::net::{TcpListener, TcpStream};
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0").await?;
    /// let client = TcpStream::connect(listener.local_addr()?).await?;
    /// assert!(client.local_addr()?.ip().is_loopback());
    /// # Ok(())
    /// # }
    /// ```
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        match self.io.io() {
            Io::Kernel(io) => io.local_addr(),
            Io::Simulated(socket) => socket.local_inet(),
        }
    }

    /// Returns the address of the peer.
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
    /// use wakeful::net::{TcpListener, TcpStream};
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0").await?;
    /// let client = TcpStream::connect(listener.local_addr()?).await?;
    /// assert_eq!(client.peer_addr()?, listener.local_addr()?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        match self.io.io() {
            Io::Kernel(io) => io.peer_addr(),
            Io::Simulated(socket) => socket.peer_inet(),
        }
    }

    /// Polls a read that leaves the bytes in the receive buffer.
    ///
    /// Only the task of the most recent call is woken. Any number of tasks may wait with
    /// [`peek`](Self::peek).
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
    /// use wakeful::io::{AsyncWriteExt, ReadBuf};
    /// use wakeful::net::{TcpListener, TcpStream};
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0").await?;
    /// let mut client = TcpStream::connect(listener.local_addr()?).await?;
    /// let (server, _) = listener.accept().await?;
    /// client.write_all(b"x").await?;
    ///
    /// let mut memory = [0; 8];
    /// let mut buf = ReadBuf::new(&mut memory);
    /// assert_eq!(poll_fn(|cx| server.poll_peek(cx, &mut buf)).await?, 1);
    /// assert_eq!(server.try_read(&mut [0; 8])?, 1); // the byte is still there
    /// # Ok(())
    /// # }
    /// ```
    pub fn poll_peek(
        &self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<usize>> {
        // SAFETY: `recv` writes only initialized bytes.
        let space = unsafe { buf.unfilled_mut() };
        let peeked =
            self.io.poll_io(Direction::Read, cx, WaitKind::IoRead, |io| peek(io, &mut *space));
        let count = ready!(peeked)?;
        // SAFETY: the kernel filled the first `count` unfilled bytes.
        unsafe { buf.assume_init(count) };
        buf.advance(count);
        Poll::Ready(Ok(count))
    }

    /// Reads bytes without removing them from the receive buffer.
    ///
    /// Waits until data is available, or the peer has closed its write side. The next read returns
    /// the same bytes.
    ///
    /// # Errors
    ///
    /// Returns the kernel's error.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. No bytes are removed from the receive buffer.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::io::{AsyncReadExt, AsyncWriteExt};
    /// use wakeful::net::{TcpListener, TcpStream};
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0").await?;
    /// let mut client = TcpStream::connect(listener.local_addr()?).await?;
    /// let (mut server, _peer) = listener.accept().await?;
    /// client.write_all(b"hello").await?;
    ///
    /// let mut first = [0; 1];
    /// server.peek(&mut first).await?;
    /// assert_eq!(first[0], server.read_u8().await?);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn peek<'a>(
        &'a self,
        buf: &'a mut [u8],
    ) -> impl Future<Output = io::Result<usize>> + Send + 'a {
        let site = Location::caller();
        self.io.async_io(OpSource::Library, Readiness::READ, WaitKind::IoRead, site, move |io| {
            // SAFETY: `peek` writes only initialized bytes, so `buf` stays initialized.
            let space = unsafe { &mut *(std::ptr::from_mut(buf) as *mut [MaybeUninit<u8>]) };
            peek(io, space)
        })
    }

    /// Returns whether Nagle's algorithm is disabled (`TCP_NODELAY`).
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
    /// use wakeful::net::{TcpListener, TcpStream};
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0").await?;
    /// let client = TcpStream::connect(listener.local_addr()?).await?;
    /// assert!(!client.nodelay()?);
    /// client.set_nodelay(true)?;
    /// assert!(client.nodelay()?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn nodelay(&self) -> io::Result<bool> {
        self.io.nodelay()
    }

    /// Sets whether Nagle's algorithm is disabled, so that small writes are sent immediately
    /// (`TCP_NODELAY`).
    ///
    /// Set it for request-response protocols that write small messages.
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
    /// use wakeful::net::{TcpListener, TcpStream};
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0").await?;
    /// let stream = TcpStream::connect(listener.local_addr()?).await?;
    /// stream.set_nodelay(true)?;
    /// assert!(stream.nodelay()?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.io.set_nodelay(nodelay)
    }

    /// Returns whether received data is acknowledged immediately (`TCP_QUICKACK`).
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
    /// use wakeful::net::{TcpListener, TcpStream};
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0").await?;
    /// let client = TcpStream::connect(listener.local_addr()?).await?;
    /// println!("{}", client.quickack()?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn quickack(&self) -> io::Result<bool> {
        SockRef::from(self).tcp_quickack()
    }

    /// Sets whether received data is acknowledged immediately (`TCP_QUICKACK`).
    ///
    /// The setting is not permanent: the kernel may change it later.
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
    /// use wakeful::net::{TcpListener, TcpStream};
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0").await?;
    /// let client = TcpStream::connect(listener.local_addr()?).await?;
    /// client.set_quickack(true)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_quickack(&self, quickack: bool) -> io::Result<()> {
        SockRef::from(self).set_tcp_quickack(quickack)
    }

    /// Returns how long closing the socket waits for unsent data to be sent (`SO_LINGER`).
    ///
    /// `None` means that closing returns immediately, and the kernel sends the data in the
    /// background.
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
    /// use std::time::Duration;
    /// use wakeful::net::{TcpListener, TcpStream};
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0").await?;
    /// let client = TcpStream::connect(listener.local_addr()?).await?;
    /// assert_eq!(client.linger()?, None);
    /// client.set_zero_linger()?;
    /// assert_eq!(client.linger()?, Some(Duration::ZERO));
    /// # Ok(())
    /// # }
    /// ```
    pub fn linger(&self) -> io::Result<Option<Duration>> {
        SockRef::from(self).linger()
    }

    /// Sets how long closing the socket waits for unsent data to be sent (`SO_LINGER`).
    ///
    /// A nonzero value blocks the thread that closes the socket, which is usually a worker.
    ///
    /// # Errors
    ///
    /// Returns the kernel's error.
    #[deprecated = "a nonzero linger time blocks the thread that closes the socket; use \
                    `set_zero_linger`"]
    pub fn set_linger(&self, dur: Option<Duration>) -> io::Result<()> {
        SockRef::from(self).set_linger(dur)
    }

    /// Makes closing the socket discard unsent data and reset the connection (`SO_LINGER` of zero).
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
    /// use std::time::Duration;
    /// use wakeful::net::{TcpListener, TcpStream};
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0").await?;
    /// let stream = TcpStream::connect(listener.local_addr()?).await?;
    /// stream.set_zero_linger()?;
    /// assert_eq!(stream.linger()?, Some(Duration::ZERO));
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_zero_linger(&self) -> io::Result<()> {
        SockRef::from(self).set_linger(Some(Duration::ZERO))
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
    /// use wakeful::net::{TcpListener, TcpStream};
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0").await?;
    /// let client = TcpStream::connect(listener.local_addr()?).await?;
    /// client.set_ttl(64)?;
    /// assert_eq!(client.ttl()?, 64);
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
    /// use wakeful::net::{TcpListener, TcpStream};
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0").await?;
    /// let stream = TcpStream::connect(listener.local_addr()?).await?;
    /// stream.set_ttl(100)?;
    /// assert_eq!(stream.ttl()?, 100);
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.io.set_ttl(ttl)
    }
}

/// Reads bytes, leaving them in the receive buffer.
#[inline(always)]
fn peek(io: Io<'_, net::TcpStream>, space: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
    uninterrupted(|| match io {
        Io::Kernel(io) => {
            let received = rustix::net::recv(io, &mut *space, RecvFlags::PEEK);
            received.map(|((filled, _), _)| filled.len())
        }
        Io::Simulated(socket) => socket.read(space, true),
    })
}
