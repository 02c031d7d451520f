//! What all datagram sockets do with their descriptors, and the methods that they
//! have in common.
//!
//! A packet that could not be delivered may come back as an error. The poller
//! tells of it as an error and, for lack of a better word, as the end of writing.
//! So whoever receives waits for errors too, and an operation that would block
//! takes everything back that was seen, ends included.

use crate::driver::io_readiness::{Direction, Readiness};
use crate::io::ReadBuf;
use crate::runtime::poll_evented::PollEvented;
use crate::runtime::registration::OpSource;
use crate::sys::eintr::uninterrupted;
use crate::task::wait_kind::WaitKind;
use bytes::BufMut;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketAddrAny, addr::SocketAddrArg};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::panic::Location;
use std::task::{Context, Poll};

/// There is a packet, or an error instead of one.
const INCOMING: Readiness = Readiness(Readiness::READ.0 | Readiness::ERROR.0);

/// A socket for datagrams.
pub(crate) trait Datagram: AsFd {
    type Addr;

    /// The address of a sender, as the system gave it.
    fn address(raw: Option<SocketAddrAny>) -> io::Result<Self::Addr>;
}

/// What is to be known of a packet's sender: nothing, or the address.
pub(crate) trait Origin<S>: Sized {
    fn receive(
        io: &S,
        space: &mut [MaybeUninit<u8>],
        flags: RecvFlags,
    ) -> io::Result<(usize, Self)>;
}

impl<S: AsFd> Origin<S> for () {
    fn receive(
        io: &S,
        space: &mut [MaybeUninit<u8>],
        flags: RecvFlags,
    ) -> io::Result<(usize, Self)> {
        let receive = || {
            let ((filled, _), _) = rustix::net::recv(io, &mut *space, flags)?;
            Ok::<_, Errno>((filled.len(), ()))
        };
        uninterrupted(receive)
    }
}

/// An address, for the sockets whose packets come with it.
pub(crate) struct SentBy<A>(pub(crate) A);

impl<S: Datagram> Origin<S> for SentBy<S::Addr> {
    fn receive(
        io: &S,
        space: &mut [MaybeUninit<u8>],
        flags: RecvFlags,
    ) -> io::Result<(usize, Self)> {
        let (count, sender) = uninterrupted(|| {
            let ((filled, _), _, sender) = rustix::net::recvfrom(io, &mut *space, flags)?;
            Ok::<_, Errno>((filled.len(), sender))
        })?;
        Ok((count, SentBy(S::address(sender)?)))
    }
}

/// The packet is taken.
pub(crate) const TAKE: RecvFlags = RecvFlags::empty();

pub(crate) fn count((count, ()): (usize, ())) -> usize {
    count
}

pub(crate) fn sender<A>((count, SentBy(addr)): (usize, SentBy<A>)) -> (usize, A) {
    (count, addr)
}

/// Sends to the address that the socket is connected to, without a signal if that
/// is gone.
pub(crate) fn send(io: impl AsFd, buf: &[u8]) -> io::Result<usize> {
    uninterrupted(|| rustix::net::send(&io, buf, SendFlags::NOSIGNAL))
}

/// Sends to an address.
pub(crate) fn send_to(io: impl AsFd, buf: &[u8], target: &impl SocketAddrArg) -> io::Result<usize> {
    uninterrupted(|| rustix::net::sendto(&io, buf, SendFlags::NOSIGNAL, target))
}

/// Receives into initialised memory.
pub(crate) fn into_slice<S, O: Origin<S>>(
    io: &S,
    buf: &mut [u8],
    flags: RecvFlags,
) -> io::Result<(usize, O)> {
    // SAFETY: initialised bytes are as good; `receive` writes no others.
    let space = unsafe { &mut *(std::ptr::from_mut(buf) as *mut [MaybeUninit<u8>]) };
    O::receive(io, space, flags)
}

/// Receives into a buffer that grows.
pub(crate) fn into_chunk<S, O: Origin<S>>(
    io: &S,
    buf: &mut impl BufMut,
    flags: RecvFlags,
) -> io::Result<(usize, O)> {
    // SAFETY: only written to, and with initialised bytes.
    let space = unsafe { buf.chunk_mut().as_uninit_slice_mut() };
    let (count, origin) = O::receive(io, space, flags)?;
    // SAFETY: the system filled so many.
    unsafe { buf.advance_mut(count) };
    Ok((count, origin))
}

/// Receives into what is unfilled.
pub(crate) fn into_unfilled<S, O: Origin<S>>(
    io: &S,
    buf: &mut ReadBuf<'_>,
    flags: RecvFlags,
) -> io::Result<O> {
    // SAFETY: only written to, and with initialised bytes.
    let space = unsafe { buf.unfilled_mut() };
    let (count, origin) = O::receive(io, space, flags)?;
    // SAFETY: the system filled so many.
    unsafe { buf.assume_init(count) };
    buf.advance(count);
    Ok(origin)
}

impl<S: AsFd> PollEvented<S> {
    /// Receives once there is something; any number of tasks may wait for it.
    pub(crate) async fn async_fetch<R>(
        &self,
        site: &'static Location<'static>,
        operation: impl FnMut(&S) -> io::Result<R>,
    ) -> io::Result<R> {
        self.async_io(OpSource::Ours, INCOMING, WaitKind::IoRead, site, operation).await
    }

    /// Sends once there is room; any number of tasks may wait for it.
    pub(crate) async fn async_post<R>(
        &self,
        site: &'static Location<'static>,
        operation: impl FnMut(&S) -> io::Result<R>,
    ) -> io::Result<R> {
        self.async_io(OpSource::Ours, Readiness::WRITE, WaitKind::IoWrite, site, operation).await
    }

    /// Receives if there is something.
    pub(crate) fn try_fetch<R>(
        &self,
        operation: impl FnOnce(&S) -> io::Result<R>,
    ) -> io::Result<R> {
        self.try_io(OpSource::Ours, INCOMING, operation)
    }

    /// Sends if there is room.
    pub(crate) fn try_post<R>(&self, operation: impl FnOnce(&S) -> io::Result<R>) -> io::Result<R> {
        self.try_io(OpSource::Ours, Readiness::WRITE, operation)
    }

    /// Receives once there is something, for the task that asks last.
    pub(crate) fn poll_fetch<R>(
        &self,
        cx: &mut Context<'_>,
        mut operation: impl FnMut(&S) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        let polled = self.poll_io(Direction::Read, cx, WaitKind::IoRead, &mut operation);
        if polled.is_ready() {
            return polled;
        }
        // The waker is in its place, and errors call it, though they do not count
        // as something to read.
        match self.try_io(OpSource::Ours, Readiness::ERROR, operation) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
            result => Poll::Ready(result),
        }
    }

    /// Sends once there is room, for the task that asks last.
    pub(crate) fn poll_post<R>(
        &self,
        cx: &mut Context<'_>,
        operation: impl FnMut(&S) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        self.poll_io(Direction::Write, cx, WaitKind::IoWrite, operation)
    }
}

/// `datagrams!(UdpSocket, std::net::UdpSocket, SocketAddr)` gives a socket type
/// with a field `io: PollEvented<_>` the methods that are the same for all; its
/// senders' addresses have that type.
macro_rules! datagrams {
    ($socket:ident, $std:ty, $addr:ty) => {
        use crate::io::{Interest, ReadBuf, Ready};
        use crate::net::datagram::{
            SentBy, TAKE, count, into_chunk, into_slice, into_unfilled, send, sender,
        };
        use crate::net::stream_io::mask_of;
        use crate::runtime::poll_evented::PollEvented;
        use crate::runtime::registration::OpSource;
        use crate::task::wait_kind::WaitKind;
        use bytes::BufMut;
        use std::fmt;
        use std::io;
        use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
        use std::panic::Location;
        use std::task::{Context, Poll};

        impl $socket {
            /// Takes a socket over, which must be in non-blocking mode.
            ///
            /// # Panics
            ///
            /// Outside of a runtime with I/O, and, with debug assertions, if the
            /// socket is in blocking mode.
            #[track_caller]
            pub fn from_std(socket: $std) -> io::Result<$socket> {
                $crate::net::tcp::check_nonblocking(&socket)?;
                Self::watch(socket)
            }

            /// A socket that is in non-blocking mode for sure.
            #[track_caller]
            fn watch(socket: $std) -> io::Result<$socket> {
                Ok(Self { io: PollEvented::both(socket)? })
            }

            /// Gives the socket back, in non-blocking mode.
            pub fn into_std(self) -> io::Result<$std> {
                self.io.into_inner()
            }

            /// The pending error of the socket, which is cleared (`SO_ERROR`).
            pub fn take_error(&self) -> io::Result<Option<io::Error>> {
                self.io.take_error()
            }

            /// Waits for any of `interest`. It may be wrong about it: the
            /// operation that follows may still have to wait.
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

            /// Waits until there is something to receive.
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
            pub fn poll_recv_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                self.io.poll_read_ready(cx)
            }

            /// Waits until there is room to send.
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
            pub fn poll_send_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                self.io.poll_write_ready(cx)
            }

            /// Sends a datagram to the address that the socket is connected to.
            ///
            /// # Cancel safety
            ///
            /// If the future is dropped before it is done, nothing was sent.
            #[track_caller]
            pub fn send<'a>(
                &'a self,
                buf: &'a [u8],
            ) -> impl Future<Output = io::Result<usize>> + Send + Sync + 'a {
                self.io.async_post(Location::caller(), move |io| send(io, buf))
            }

            /// As [`send`](Self::send), for the task that asks last.
            pub fn poll_send(&self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
                self.io.poll_post(cx, |io| send(io, buf))
            }

            /// Sends without waiting, to the address that the socket is connected
            /// to.
            ///
            /// # Errors
            ///
            /// `WouldBlock` if there is no room.
            pub fn try_send(&self, buf: &[u8]) -> io::Result<usize> {
                self.io.try_post(|io| send(io, buf))
            }

            /// Receives a datagram. What does not fit into `buf` is lost.
            ///
            /// # Cancel safety
            ///
            /// If the future is dropped before it is done, nothing was received.
            #[track_caller]
            pub fn recv<'a>(
                &'a self,
                buf: &'a mut [u8],
            ) -> impl Future<Output = io::Result<usize>> + Send + Sync + 'a {
                let site = Location::caller();
                self.io.async_fetch(site, move |io| into_slice(io, buf, TAKE).map(count))
            }

            /// As [`recv`](Self::recv), for the task that asks last.
            pub fn poll_recv(
                &self,
                cx: &mut Context<'_>,
                buf: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                self.io.poll_fetch(cx, |io| into_unfilled(io, buf, TAKE))
            }

            /// Receives without waiting. What does not fit into `buf` is lost.
            ///
            /// # Errors
            ///
            /// `WouldBlock` if there is nothing.
            pub fn try_recv(&self, buf: &mut [u8]) -> io::Result<usize> {
                self.io.try_fetch(|io| into_slice(io, buf, TAKE).map(count))
            }

            /// As [`recv`](Self::recv), into a buffer that grows. It has to have
            /// room before: what does not fit is lost.
            ///
            /// # Cancel safety
            ///
            /// If the future is dropped before it is done, nothing was received.
            #[track_caller]
            pub fn recv_buf<B: BufMut>(
                &self,
                buf: &mut B,
            ) -> impl Future<Output = io::Result<usize>> {
                let site = Location::caller();
                self.io.async_fetch(site, move |io| into_chunk(io, buf, TAKE).map(count))
            }

            /// As [`try_recv`](Self::try_recv), into a buffer that grows. It has to
            /// have room before: what does not fit is lost.
            pub fn try_recv_buf<B: BufMut>(&self, buf: &mut B) -> io::Result<usize> {
                self.io.try_fetch(|io| into_chunk(io, buf, TAKE).map(count))
            }

            /// Receives a datagram and tells who sent it. What does not fit into
            /// `buf` is lost.
            ///
            /// # Cancel safety
            ///
            /// If the future is dropped before it is done, nothing was received.
            #[track_caller]
            pub fn recv_from<'a>(
                &'a self,
                buf: &'a mut [u8],
            ) -> impl Future<Output = io::Result<(usize, $addr)>> + Send + Sync + 'a {
                let site = Location::caller();
                self.io.async_fetch(site, move |io| into_slice(io, buf, TAKE).map(sender))
            }

            /// As [`recv_from`](Self::recv_from), for the task that asks last.
            pub fn poll_recv_from(
                &self,
                cx: &mut Context<'_>,
                buf: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<$addr>> {
                self.io.poll_fetch(cx, |io| into_unfilled(io, buf, TAKE).map(|SentBy(addr)| addr))
            }

            /// Receives without waiting, and tells who sent it.
            ///
            /// # Errors
            ///
            /// `WouldBlock` if there is nothing.
            pub fn try_recv_from(&self, buf: &mut [u8]) -> io::Result<(usize, $addr)> {
                self.io.try_fetch(|io| into_slice(io, buf, TAKE).map(sender))
            }

            /// As [`recv_from`](Self::recv_from), into a buffer that grows. It has
            /// to have room before: what does not fit is lost.
            ///
            /// # Cancel safety
            ///
            /// If the future is dropped before it is done, nothing was received.
            #[track_caller]
            pub fn recv_buf_from<B: BufMut>(
                &self,
                buf: &mut B,
            ) -> impl Future<Output = io::Result<(usize, $addr)>> {
                let site = Location::caller();
                self.io.async_fetch(site, move |io| into_chunk(io, buf, TAKE).map(sender))
            }

            /// As [`try_recv_from`](Self::try_recv_from), into a buffer that grows.
            /// It has to have room before: what does not fit is lost.
            pub fn try_recv_buf_from<B: BufMut>(&self, buf: &mut B) -> io::Result<(usize, $addr)> {
                self.io.try_fetch(|io| into_chunk(io, buf, TAKE).map(sender))
            }

            /// Tries an operation of the user's own on the socket, if it is known
            /// to be ready; if that fails with `WouldBlock`, it is known not to
            /// be.
            pub fn try_io<R>(
                &self,
                interest: Interest,
                f: impl FnOnce() -> io::Result<R>,
            ) -> io::Result<R> {
                self.io.try_io(OpSource::TheUsers, mask_of(interest), |_| f())
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
                self.io.async_io(OpSource::TheUsers, mask, WaitKind::IoReady, site, move |_| f())
            }
        }

        impl TryFrom<$std> for $socket {
            type Error = io::Error;

            #[doc = concat!("As [`from_std`](", stringify!($socket), "::from_std).")]
            #[track_caller]
            fn try_from(socket: $std) -> io::Result<Self> {
                Self::from_std(socket)
            }
        }

        impl fmt::Debug for $socket {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.io.fmt(f)
            }
        }

        impl AsRawFd for $socket {
            fn as_raw_fd(&self) -> RawFd {
                self.io.as_raw_fd()
            }
        }

        impl AsFd for $socket {
            fn as_fd(&self) -> BorrowedFd<'_> {
                self.io.as_fd()
            }
        }
    };
}
pub(crate) use datagrams;
