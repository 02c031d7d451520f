//! Peeking: receiving from a [`UdpSocket`] without removing the datagram from the queue.

use super::UdpSocket;
use crate::io::ReadBuf;
use crate::net::datagram_io::{
    SenderAddr, len_and_sender, len_only, recv_into_read_buf, recv_into_slice,
};
use crate::runtime::poll_evented::Io;
use rustix::net::RecvFlags;
use std::io;
use std::net::{self, SocketAddr};
use std::panic::Location;
use std::task::{Context, Poll};

/// The flag that leaves the datagram in the receive queue.
const PEEK: RecvFlags = RecvFlags::PEEK;

/// Methods that leave the datagram in the receive queue.
impl UdpSocket {
    /// Receives a datagram without removing it from the queue and returns its length.
    ///
    /// The next receive returns the same datagram. Bytes that do not fit into `buf` are omitted.
    ///
    /// # Errors
    ///
    /// Returns the kernel's error.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. The datagram stays in the queue.
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
    ///
    /// let mut buf = [0; 64];
    /// let peeked = b.peek(&mut buf).await?;
    /// assert_eq!(b.recv(&mut buf).await?, peeked);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn peek<'a>(
        &'a self,
        buf: &'a mut [u8],
    ) -> impl Future<Output = io::Result<usize>> + Send + Sync + 'a {
        let site = Location::caller();
        self.io.async_recv_with(site, move |io| recv_into_slice(io, buf, PEEK).map(len_only))
    }

    /// Polls a receive that leaves the datagram in the queue.
    ///
    /// Only the task of the most recent call is woken; see [`peek`](Self::peek).
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
    /// use wakeful::io::ReadBuf;
    /// use wakeful::net::UdpSocket;
    ///
    /// let (a, b) = (UdpSocket::bind("127.0.0.1:0").await?, UdpSocket::bind("127.0.0.1:0").await?);
    /// a.send_to(b"hello", b.local_addr()?).await?;
    /// let mut memory = [0; 64];
    /// let mut buf = ReadBuf::new(&mut memory);
    /// poll_fn(|cx| b.poll_peek(cx, &mut buf)).await?;
    /// assert_eq!(buf.filled(), b"hello");
    /// # Ok(())
    /// # }
    /// ```
    pub fn poll_peek(&self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.io.poll_recv_with(cx, |io| recv_into_read_buf(io, buf, PEEK))
    }

    /// Receives a datagram without waiting and without removing it from the queue.
    ///
    /// Returns its length. Bytes that do not fit into `buf` are omitted.
    ///
    /// # Errors
    ///
    /// Returns `WouldBlock` if there is no datagram, and the kernel's error otherwise.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::net::UdpSocket;
    ///
    /// let (a, b) = (UdpSocket::bind("127.0.0.1:0").await?, UdpSocket::bind("127.0.0.1:0").await?);
    /// a.send_to(b"hello", b.local_addr()?).await?;
    /// b.readable().await?;
    /// let mut buf = [0; 64];
    /// assert_eq!(b.try_peek(&mut buf)?, 5);
    /// assert_eq!(b.try_recv(&mut buf)?, 5); // the datagram is still there
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.io.try_recv_with(move |io| recv_into_slice(io, buf, PEEK).map(len_only))
    }

    /// Receives a datagram and its sender without removing it from the queue.
    ///
    /// Returns the length and the sender. Bytes that do not fit into `buf` are omitted.
    ///
    /// # Errors
    ///
    /// Returns the kernel's error.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. The datagram stays in the queue.
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
    /// assert_eq!(b.peek_from(&mut buf).await?, b.recv_from(&mut buf).await?);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn peek_from<'a>(
        &'a self,
        buf: &'a mut [u8],
    ) -> impl Future<Output = io::Result<(usize, SocketAddr)>> + Send + Sync + 'a {
        let site = Location::caller();
        self.io.async_recv_with(site, move |io| recv_into_slice(io, buf, PEEK).map(len_and_sender))
    }

    /// Polls a receive that leaves the datagram in the queue, and returns the sender.
    ///
    /// Only the task of the most recent call is woken; see [`peek_from`](Self::peek_from).
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
    /// use wakeful::io::ReadBuf;
    /// use wakeful::net::UdpSocket;
    ///
    /// let (a, b) = (UdpSocket::bind("127.0.0.1:0").await?, UdpSocket::bind("127.0.0.1:0").await?);
    /// a.send_to(b"hello", b.local_addr()?).await?;
    /// let mut memory = [0; 64];
    /// let mut buf = ReadBuf::new(&mut memory);
    /// let sender = poll_fn(|cx| b.poll_peek_from(cx, &mut buf)).await?;
    /// assert_eq!((sender, buf.filled()), (a.local_addr()?, &b"hello"[..]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn poll_peek_from(
        &self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<SocketAddr>> {
        self.io
            .poll_recv_with(cx, |io| recv_into_read_buf(io, buf, PEEK).map(|SenderAddr(addr)| addr))
    }

    /// Receives a datagram and its sender without waiting and without removing it from the queue.
    ///
    /// # Errors
    ///
    /// Returns `WouldBlock` if there is no datagram, and the kernel's error otherwise.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::net::UdpSocket;
    ///
    /// let (a, b) = (UdpSocket::bind("127.0.0.1:0").await?, UdpSocket::bind("127.0.0.1:0").await?);
    /// a.send_to(b"hello", b.local_addr()?).await?;
    /// b.readable().await?;
    /// assert_eq!(b.try_peek_from(&mut [0; 64])?, (5, a.local_addr()?));
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_peek_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.io.try_recv_with(move |io| recv_into_slice(io, buf, PEEK).map(len_and_sender))
    }

    /// Waits for a datagram and returns its sender, without removing it from the queue.
    ///
    /// # Errors
    ///
    /// Returns the kernel's error.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. The datagram stays in the queue.
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
    /// assert_eq!(b.peek_sender().await?, a.local_addr()?);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn peek_sender(&self) -> impl Future<Output = io::Result<SocketAddr>> + Send + Sync + '_ {
        self.io.async_recv_with(Location::caller(), peek_sender)
    }

    /// Polls for a datagram and returns its sender, without removing it from the queue.
    ///
    /// Only the task of the most recent call is woken; see [`peek_sender`](Self::peek_sender).
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
    /// a.send_to(b"hello", b.local_addr()?).await?;
    /// let sender = poll_fn(|cx| b.poll_peek_sender(cx)).await?;
    /// assert_eq!(sender, a.local_addr()?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn poll_peek_sender(&self, cx: &mut Context<'_>) -> Poll<io::Result<SocketAddr>> {
        self.io.poll_recv_with(cx, peek_sender)
    }

    /// Returns the sender of the next datagram without waiting.
    ///
    /// The datagram stays in the queue.
    ///
    /// # Errors
    ///
    /// Returns `WouldBlock` if there is no datagram, and the kernel's error otherwise.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::net::UdpSocket;
    ///
    /// let (a, b) = (UdpSocket::bind("127.0.0.1:0").await?, UdpSocket::bind("127.0.0.1:0").await?);
    /// a.send_to(b"hello", b.local_addr()?).await?;
    /// b.readable().await?;
    /// assert_eq!(b.try_peek_sender()?, a.local_addr()?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_peek_sender(&self) -> io::Result<SocketAddr> {
        self.io.try_recv_with(peek_sender)
    }
}

fn peek_sender(io: Io<'_, net::UdpSocket>) -> io::Result<SocketAddr> {
    recv_into_slice(io, &mut [], PEEK).map(|(_, SenderAddr(addr))| addr)
}
