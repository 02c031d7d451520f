//! System calls of datagram sockets, and the waits around them.
//!
//! A datagram that could not be delivered may come back as an error. The poller reports this as an
//! error and as a closed write side. So a receiver also waits for errors, and an operation that
//! would block clears all readiness that it saw, including closed sides.

use crate::driver::io_readiness::{Direction, Readiness};
use crate::io::ReadBuf;
use crate::runtime::poll_evented::{Io, IoObject, PollEvented};
use crate::runtime::registration::OpSource;
use crate::sim::network::SimulatedSocket;
use crate::sys::eintr::uninterrupted;
use crate::task::wait_kind::WaitKind;
use bytes::BufMut;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketAddrAny, addr::SocketAddrArg};
use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::panic::Location;
use std::task::{Context, Poll};

/// Readiness that ends the wait of a receiver: a datagram, or an error in place of one.
const RECV_READINESS: Readiness = Readiness(Readiness::READ.0 | Readiness::ERROR.0);

/// A datagram socket of the standard library.
pub(crate) trait DatagramSocket: IoObject {
    type Addr;

    /// Converts the address of a sender from the kernel's form.
    fn sender_addr(raw: Option<SocketAddrAny>) -> io::Result<Self::Addr>;

    /// Converts the address of a sender in a simulation.
    fn simulated_sender(from: SocketAddr) -> io::Result<Self::Addr>;
}

/// The result of a receive in addition to the length: nothing, or the [`SenderAddr`].
pub(crate) trait Received<S>: Sized {
    fn receive(
        io: Io<'_, S>,
        space: &mut [MaybeUninit<u8>],
        flags: RecvFlags,
    ) -> io::Result<(usize, Self)>;
}

impl<S: IoObject> Received<S> for () {
    #[inline(always)]
    fn receive(
        io: Io<'_, S>,
        space: &mut [MaybeUninit<u8>],
        flags: RecvFlags,
    ) -> io::Result<(usize, Self)> {
        let receive = || match io {
            Io::Kernel(io) => {
                let ((filled, _), _) = rustix::net::recv(io, &mut *space, flags)?;
                Ok::<_, Errno>((filled.len(), ()))
            }
            Io::Simulated(socket) => {
                let (len, _) = socket.receive(space, flags.contains(RecvFlags::PEEK))?;
                Ok((len, ()))
            }
        };
        uninterrupted(receive)
    }
}

/// The address of the sender of a datagram.
pub(crate) struct SenderAddr<A>(pub(crate) A);

impl<S: DatagramSocket> Received<S> for SenderAddr<S::Addr> {
    #[inline(always)]
    fn receive(
        io: Io<'_, S>,
        space: &mut [MaybeUninit<u8>],
        flags: RecvFlags,
    ) -> io::Result<(usize, Self)> {
        match io {
            Io::Kernel(io) => receive_from(io, space, flags),
            Io::Simulated(socket) => receive_simulated::<S>(socket, space, flags),
        }
    }
}

fn receive_from<S: DatagramSocket>(
    io: &S,
    space: &mut [MaybeUninit<u8>],
    flags: RecvFlags,
) -> io::Result<(usize, SenderAddr<S::Addr>)> {
    let (len, sender) = uninterrupted(|| {
        let ((filled, _), _, sender) = rustix::net::recvfrom(io, &mut *space, flags)?;
        Ok::<_, Errno>((filled.len(), sender))
    })?;
    Ok((len, SenderAddr(S::sender_addr(sender)?)))
}

#[cold]
#[inline(never)]
fn receive_simulated<S: DatagramSocket>(
    socket: &SimulatedSocket,
    space: &mut [MaybeUninit<u8>],
    flags: RecvFlags,
) -> io::Result<(usize, SenderAddr<S::Addr>)> {
    let (len, from) = socket.receive(space, flags.contains(RecvFlags::PEEK))?;
    Ok((len, SenderAddr(S::simulated_sender(from)?)))
}

/// Removes the datagram from the receive queue.
pub(crate) const CONSUME: RecvFlags = RecvFlags::empty();

/// Returns the length of a received datagram.
pub(crate) fn len_only((len, ()): (usize, ())) -> usize {
    len
}

/// Returns the length and the sender of a received datagram.
pub(crate) fn len_and_sender<A>((len, SenderAddr(addr)): (usize, SenderAddr<A>)) -> (usize, A) {
    (len, addr)
}

/// Sends to the address to which the socket is connected, without `SIGPIPE` if the peer is gone.
#[inline(always)]
pub(crate) fn send<S: AsFd>(io: Io<'_, S>, buf: &[u8]) -> io::Result<usize> {
    uninterrupted(|| match io {
        Io::Kernel(io) => rustix::net::send(io, buf, SendFlags::NOSIGNAL),
        Io::Simulated(socket) => socket.send(buf, None),
    })
}

/// Sends a datagram to `target` through a kernel socket.
pub(crate) fn send_to(io: impl AsFd, buf: &[u8], target: &impl SocketAddrArg) -> io::Result<usize> {
    uninterrupted(|| rustix::net::sendto(&io, buf, SendFlags::NOSIGNAL, target))
}

/// Receives into initialized memory.
pub(crate) fn recv_into_slice<S, R: Received<S>>(
    io: Io<'_, S>,
    buf: &mut [u8],
    flags: RecvFlags,
) -> io::Result<(usize, R)> {
    // SAFETY: `receive` writes only initialized bytes, so `buf` stays initialized.
    let space = unsafe { &mut *(std::ptr::from_mut(buf) as *mut [MaybeUninit<u8>]) };
    R::receive(io, space, flags)
}

/// Receives into the next chunk of a `BufMut`.
pub(crate) fn recv_into_buf_mut<S, R: Received<S>>(
    io: Io<'_, S>,
    buf: &mut impl BufMut,
    flags: RecvFlags,
) -> io::Result<(usize, R)> {
    // SAFETY: `receive` writes only initialized bytes.
    let space = unsafe { buf.chunk_mut().as_uninit_slice_mut() };
    let (len, received) = R::receive(io, space, flags)?;
    // SAFETY: the kernel filled the first `len` bytes of the chunk.
    unsafe { buf.advance_mut(len) };
    Ok((len, received))
}

/// Receives into the unfilled part of a `ReadBuf`.
pub(crate) fn recv_into_read_buf<S, R: Received<S>>(
    io: Io<'_, S>,
    buf: &mut ReadBuf<'_>,
    flags: RecvFlags,
) -> io::Result<R> {
    // SAFETY: `receive` writes only initialized bytes.
    let space = unsafe { buf.unfilled_mut() };
    let (len, received) = R::receive(io, space, flags)?;
    // SAFETY: the kernel filled the first `len` unfilled bytes.
    unsafe { buf.assume_init(len) };
    buf.advance(len);
    Ok(received)
}

impl<S: IoObject> PollEvented<S> {
    /// Waits until `operation` receives. Any number of tasks may wait.
    pub(crate) async fn async_recv_with<R>(
        &self,
        site: &'static Location<'static>,
        operation: impl FnMut(Io<'_, S>) -> io::Result<R>,
    ) -> io::Result<R> {
        self.async_io(OpSource::Library, RECV_READINESS, WaitKind::IoRead, site, operation).await
    }

    /// Waits until `operation` sends. Any number of tasks may wait.
    pub(crate) async fn async_send_with<R>(
        &self,
        site: &'static Location<'static>,
        operation: impl FnMut(Io<'_, S>) -> io::Result<R>,
    ) -> io::Result<R> {
        self.async_io(OpSource::Library, Readiness::WRITE, WaitKind::IoWrite, site, operation).await
    }

    /// Receives without waiting.
    pub(crate) fn try_recv_with<R>(
        &self,
        operation: impl FnOnce(Io<'_, S>) -> io::Result<R>,
    ) -> io::Result<R> {
        self.try_io(OpSource::Library, RECV_READINESS, operation)
    }

    /// Sends without waiting.
    pub(crate) fn try_send_with<R>(
        &self,
        operation: impl FnOnce(Io<'_, S>) -> io::Result<R>,
    ) -> io::Result<R> {
        self.try_io(OpSource::Library, Readiness::WRITE, operation)
    }

    /// Polls a receive. Only the task of the most recent call is woken.
    pub(crate) fn poll_recv_with<R>(
        &self,
        cx: &mut Context<'_>,
        mut operation: impl FnMut(Io<'_, S>) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        let polled = self.poll_io(Direction::Read, cx, WaitKind::IoRead, &mut operation);
        if polled.is_ready() {
            return polled;
        }
        // The waker is registered, and an error wakes it. But an error is not read readiness, so
        // `poll_io` does not see an earlier error.
        match self.try_io(OpSource::Library, Readiness::ERROR, operation) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
            result => Poll::Ready(result),
        }
    }

    /// Polls a send. Only the task of the most recent call is woken.
    pub(crate) fn poll_send_with<R>(
        &self,
        cx: &mut Context<'_>,
        operation: impl FnMut(Io<'_, S>) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        self.poll_io(Direction::Write, cx, WaitKind::IoWrite, operation)
    }
}
