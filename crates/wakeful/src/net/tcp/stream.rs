//! A TCP connection.

use super::halves::{self, OwnedReadHalf, OwnedWriteHalf, ReadHalf, WriteHalf};
use super::{TcpSocket, check_nonblocking};
use crate::driver::source::{Direction, Readiness};
use crate::io::{AsyncRead, AsyncWrite, Interest, ReadBuf, Ready};
use crate::net::addr::{self, ToSocketAddrs, no_address};
use crate::net::transfer::{mask_of, uninterrupted};
use crate::runtime::evented::{BOTH, Evented};
use crate::task::header::WaitKind;
use bytes::BufMut;
use rustix::net::RecvFlags;
use socket2::SockRef;
use std::fmt;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{self, Shutdown, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
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
    io: Evented<net::TcpStream>,
}

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
                match TcpSocket::for_addr(addr)?.connect_from(addr, site).await {
                    Ok(stream) => return Ok(stream),
                    Err(error) => last = Some(error),
                }
            }
            Err(last.unwrap_or_else(no_address))
        }
    }

    /// Takes a connection over, which must be in non-blocking mode.
    ///
    /// # Panics
    ///
    /// Outside of a runtime with I/O, and, with debug assertions, if the socket is
    /// in blocking mode.
    #[track_caller]
    pub fn from_std(stream: net::TcpStream) -> io::Result<TcpStream> {
        check_nonblocking(&stream)?;
        Self::watch_from(stream, Location::caller())
    }

    #[track_caller]
    pub(super) fn watch_from(
        stream: net::TcpStream,
        site: &'static Location<'static>,
    ) -> io::Result<TcpStream> {
        Ok(Self { io: Evented::made_at(stream, BOTH, site)? })
    }

    /// One that a listener accepted: there is room to write, and most likely
    /// something to read.
    #[track_caller]
    pub(super) fn accepted_at(
        stream: net::TcpStream,
        site: &'static Location<'static>,
    ) -> io::Result<TcpStream> {
        let stream = Self::watch_from(stream, site)?;
        stream.io.registration().assume(Readiness::READABLE | Readiness::WRITABLE);
        Ok(stream)
    }

    pub(super) fn from_evented(io: Evented<net::TcpStream>) -> TcpStream {
        Self { io }
    }

    /// Gives the connection back, in non-blocking mode.
    pub fn into_std(self) -> io::Result<net::TcpStream> {
        self.io.into_inner()
    }

    /// The address of this side.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.local_addr()
    }

    /// The address of the other side.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.io.peer_addr()
    }

    /// The pending error of the socket, which is cleared (`SO_ERROR`).
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.io.take_error()
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
        self.io.async_io(Readiness::READ, WaitKind::IoRead, site, move |io| io.peek(buf))
    }

    /// Waits for any of `interest`. It may be wrong about it: the operation that
    /// follows may still have to wait.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing: what is ready stays so until an
    /// operation fails with `WouldBlock`.
    #[track_caller]
    pub fn ready(
        &self,
        interest: Interest,
    ) -> impl Future<Output = io::Result<Ready>> + Send + Sync + '_ {
        self.io.ready_for(interest, Location::caller())
    }

    /// Waits until there is something to read, or nothing more comes.
    ///
    /// # Cancel safety
    ///
    /// As [`ready`](Self::ready).
    #[track_caller]
    pub fn readable(&self) -> impl Future<Output = io::Result<()>> + Send + Sync + '_ {
        let ready = self.io.ready_for(Interest::READABLE, Location::caller());
        async { ready.await.map(drop) }
    }

    /// As [`readable`](Self::readable), for the task that asks last.
    pub fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io.poll_read_ready(cx)
    }

    /// Reads without waiting.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if there is nothing to read.
    pub fn try_read(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.io.try_recv(buf)
    }

    /// As [`try_read`](Self::try_read), into several buffers.
    pub fn try_read_vectored(&self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.io.try_recv_vectored(bufs)
    }

    /// As [`try_read`](Self::try_read), into a buffer that grows.
    pub fn try_read_buf<B: BufMut>(&self, buf: &mut B) -> io::Result<usize> {
        self.io.try_recv_buf(buf)
    }

    /// Waits until there is room to write, or nothing more goes out.
    ///
    /// # Cancel safety
    ///
    /// As [`ready`](Self::ready).
    #[track_caller]
    pub fn writable(&self) -> impl Future<Output = io::Result<()>> + Send + Sync + '_ {
        let ready = self.io.ready_for(Interest::WRITABLE, Location::caller());
        async { ready.await.map(drop) }
    }

    /// As [`writable`](Self::writable), for the task that asks last.
    pub fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io.poll_write_ready(cx)
    }

    /// Writes without waiting.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if there is no room.
    pub fn try_write(&self, buf: &[u8]) -> io::Result<usize> {
        self.io.try_send(buf)
    }

    /// As [`try_write`](Self::try_write), from several buffers.
    pub fn try_write_vectored(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.io.try_send_vectored(bufs)
    }

    /// Tries an operation of the user's own on the socket, if it is known to be
    /// ready; if that fails with `WouldBlock`, it is known not to be.
    pub fn try_io<R>(
        &self,
        interest: Interest,
        f: impl FnOnce() -> io::Result<R>,
    ) -> io::Result<R> {
        self.io.try_io(mask_of(interest), |_| f())
    }

    /// Repeats an operation of the user's own until it does not fail with
    /// `WouldBlock`, waiting in between.
    ///
    /// # Cancel safety
    ///
    /// As `f` is: nothing else is lost.
    #[track_caller]
    pub fn async_io<R>(
        &self,
        interest: Interest,
        mut f: impl FnMut() -> io::Result<R>,
    ) -> impl Future<Output = io::Result<R>> {
        let (mask, site) = (mask_of(interest), Location::caller());
        self.io.async_io(mask, WaitKind::IoReady, site, move |_| f())
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
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub fn quickack(&self) -> io::Result<bool> {
        SockRef::from(self).tcp_quickack()
    }

    /// Sets whether what arrives is acknowledged at once (`TCP_QUICKACK`). The
    /// system may change it back by itself.
    #[cfg(any(target_os = "linux", target_os = "android"))]
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

    /// Two halves that borrow the stream: cheap, for one task.
    pub fn split(&mut self) -> (ReadHalf<'_>, WriteHalf<'_>) {
        halves::split(self)
    }

    /// Two halves that own the stream: for two tasks.
    pub fn into_split(self) -> (OwnedReadHalf, OwnedWriteHalf) {
        halves::split_owned(self)
    }

    /// As [`AsyncRead::poll_read`], by a shared reference.
    #[inline]
    pub(crate) fn poll_read_shared(
        &self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.io.poll_recv(cx, buf)
    }

    /// As [`AsyncWrite::poll_write`], by a shared reference.
    #[inline]
    pub(crate) fn poll_write_shared(
        &self,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.io.poll_send(cx, buf)
    }

    /// As [`AsyncWrite::poll_write_vectored`], by a shared reference.
    pub(crate) fn poll_write_vectored_shared(
        &self,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.io.poll_send_vectored(cx, bufs)
    }

    /// Closes the writing side.
    pub(crate) fn shut_down_write(&self) -> io::Result<()> {
        match self.io.shutdown(Shutdown::Write) {
            // The other side was faster.
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(()),
            result => result,
        }
    }
}

impl AsyncRead for TcpStream {
    #[inline]
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.poll_read_shared(cx, buf)
    }
}

impl AsyncWrite for TcpStream {
    #[inline]
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_shared(cx, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored_shared(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Nothing is kept back.
    #[inline]
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.shut_down_write())
    }
}

impl TryFrom<net::TcpStream> for TcpStream {
    type Error = io::Error;

    /// As [`from_std`](TcpStream::from_std).
    #[track_caller]
    fn try_from(stream: net::TcpStream) -> io::Result<Self> {
        Self::from_std(stream)
    }
}

impl AsRef<TcpStream> for TcpStream {
    fn as_ref(&self) -> &TcpStream {
        self
    }
}

impl fmt::Debug for TcpStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.io.fmt(f)
    }
}

impl AsRawFd for TcpStream {
    fn as_raw_fd(&self) -> RawFd {
        self.io.as_raw_fd()
    }
}

impl AsFd for TcpStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.io.as_fd()
    }
}
