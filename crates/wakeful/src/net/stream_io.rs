//! System calls of byte streams, and the waits around them.
//!
//! Sockets use `recv` and `send`, pipes use `read` and `write`.

use crate::driver::io_readiness::{Direction, Readiness};
use crate::io::{Interest, ReadBuf, Ready};
use crate::runtime::poll_evented::{Io, IoObject, PollEvented};
use crate::runtime::registration::OpSource;
use crate::sys::eintr::uninterrupted;
use crate::task::futile::FutileKind;
use crate::task::wait_kind::WaitKind;
use bytes::BufMut;
use rustix::net::{RecvFlags, SendFlags};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::panic::Location;
use std::task::{Context, Poll, ready};

/// The maximum number of buffers of one `readv` or `writev` (`IOV_MAX`).
const MAX_IOV: usize = 1024;

/// The system calls that move bytes in and out of a descriptor.
pub(crate) trait StreamIo: IoObject {
    /// Whether a read that returns fewer bytes than requested has drained the receive buffer.
    const SHORT_READ_DRAINS: bool;

    fn recv(&self, buf: &mut [MaybeUninit<u8>]) -> rustix::io::Result<usize>;
    fn send(&self, buf: &[u8]) -> rustix::io::Result<usize>;
}

/// Implements [`StreamIo`] with `recv` and `send`, without `SIGPIPE` when the peer is gone.
macro_rules! impl_stream_io_for_sockets {
    ($($socket:ty: $short_read_drains:literal),+) => {$(
        impl StreamIo for $socket {
            const SHORT_READ_DRAINS: bool = $short_read_drains;

            #[inline]
            fn recv(&self, buf: &mut [MaybeUninit<u8>]) -> rustix::io::Result<usize> {
                rustix::net::recv(self, buf, RecvFlags::empty()).map(|((filled, _), _)| filled.len())
            }

            #[inline]
            fn send(&self, buf: &[u8]) -> rustix::io::Result<usize> {
                rustix::net::send(self, buf, SendFlags::NOSIGNAL)
            }
        }
    )+};
}
// A read from a Unix stream ends at a message with file descriptors, so a short read proves
// nothing.
impl_stream_io_for_sockets!(std::net::TcpStream: true, std::os::unix::net::UnixStream: false);

#[inline(always)]
fn recv<S: StreamIo>(io: Io<'_, S>, space: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
    uninterrupted(|| match io {
        Io::Kernel(io) => io.recv(space),
        Io::Simulated(socket) => socket.read(space, false),
    })
}

#[inline(always)]
fn send<S: StreamIo>(io: Io<'_, S>, buf: &[u8]) -> io::Result<usize> {
    uninterrupted(|| match io {
        Io::Kernel(io) => io.send(buf),
        Io::Simulated(socket) => socket.write(buf),
    })
}

#[inline(always)]
fn recv_vectored<S: StreamIo>(io: Io<'_, S>, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
    uninterrupted(|| match io {
        Io::Kernel(io) => rustix::io::readv(io, bufs),
        Io::Simulated(socket) => socket.read_vectored(bufs),
    })
}

#[inline(always)]
fn send_vectored<S: StreamIo>(io: Io<'_, S>, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
    uninterrupted(|| match io {
        Io::Kernel(io) => rustix::io::writev(io, bufs),
        Io::Simulated(socket) => socket.write_vectored(bufs),
    })
}

/// Returns the readiness that ends a wait for `interest`.
pub(crate) fn readiness_mask(interest: Interest) -> Readiness {
    Readiness(Ready::of_interest(interest).bits())
}

/// Returns the wait kind that diagnostics show for `interest`.
pub(crate) fn wait_kind(interest: Interest) -> WaitKind {
    match (interest.is_readable(), interest.is_writable()) {
        (true, false) => WaitKind::IoRead,
        (false, true) => WaitKind::IoWrite,
        _ => WaitKind::IoReady,
    }
}

impl<S: IoObject> PollEvented<S> {
    /// Waits for any of `interest`. Any number of tasks may wait.
    pub(crate) async fn ready_for(
        &self,
        interest: Interest,
        site: &'static Location<'static>,
    ) -> io::Result<Ready> {
        let seen =
            self.registration().ready(readiness_mask(interest), wait_kind(interest), site).await?;
        Ok(Ready::from_bits(seen.ready().0))
    }

    pub(crate) fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.registration().poll_ready(Direction::Read, cx, WaitKind::IoRead))?;
        Poll::Ready(Ok(()))
    }

    pub(crate) fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.registration().poll_ready(Direction::Write, cx, WaitKind::IoWrite))?;
        Poll::Ready(Ok(()))
    }
}

impl<S: StreamIo> PollEvented<S> {
    #[inline(always)]
    pub(crate) fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let room = if S::SHORT_READ_DRAINS { buf.remaining() } else { 0 };
        // SAFETY: `recv` writes only initialized bytes.
        let space = unsafe { buf.unfilled_mut() };
        let count = ready!(self.poll_read(cx, room, |io| recv(io, space)))?;
        if count == 0 && buf.remaining() > 0 {
            self.registration().count_eof(FutileKind::StreamRead, None);
        }
        // SAFETY: the kernel filled the first `count` unfilled bytes.
        unsafe { buf.assume_init(count) };
        buf.advance(count);
        Poll::Ready(Ok(()))
    }

    #[inline(always)]
    pub(crate) fn poll_send(&self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write(cx, buf.len(), |io| send(io, buf))
    }

    pub(crate) fn poll_send_vectored(
        &self,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        // The kernel ignores buffers beyond this limit. A write that stops there is no short write,
        // so it must not count as a full send buffer.
        let size = bufs.iter().take(MAX_IOV).map(|buf| buf.len()).sum();
        self.poll_write(cx, size, |io| send_vectored(io, bufs))
    }

    #[track_caller]
    pub(crate) fn try_recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        // SAFETY: `recv` writes only initialized bytes, so `buf` stays initialized.
        let space = unsafe { &mut *(std::ptr::from_mut(buf) as *mut [MaybeUninit<u8>]) };
        let site = Location::caller();
        let Some(io) = self.kernel() else { return self.try_recv_simulated(space, site) };
        self.try_recv_from(Io::Kernel(io), space, site)
    }

    #[cold]
    #[inline(never)]
    fn try_recv_simulated(
        &self,
        space: &mut [MaybeUninit<u8>],
        site: &'static Location<'static>,
    ) -> io::Result<usize> {
        self.try_recv_from(self.io(), space, site)
    }

    #[inline(always)]
    fn try_recv_from(
        &self,
        io: Io<'_, S>,
        space: &mut [MaybeUninit<u8>],
        site: &'static Location<'static>,
    ) -> io::Result<usize> {
        let len = space.len();
        let registration = self.registration();
        match registration.try_io(OpSource::Library, Readiness::READ, || recv(io, space)) {
            Ok(0) if len > 0 => registration.return_eof(FutileKind::StreamTryRead, Some(site)),
            received => received,
        }
    }

    pub(crate) fn try_recv_vectored(&self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.try_io(OpSource::Library, Readiness::READ, |io| recv_vectored(io, bufs))
    }

    pub(crate) fn try_recv_buf<B: BufMut>(&self, buf: &mut B) -> io::Result<usize> {
        self.try_io(OpSource::Library, Readiness::READ, |io| {
            let chunk = buf.chunk_mut();
            // SAFETY: `recv` writes only initialized bytes.
            let space = unsafe { chunk.as_uninit_slice_mut() };
            let count = recv(io, space)?;
            // SAFETY: the kernel filled the first `count` bytes of the chunk.
            unsafe { buf.advance_mut(count) };
            Ok(count)
        })
    }

    pub(crate) fn try_send(&self, buf: &[u8]) -> io::Result<usize> {
        self.try_io(OpSource::Library, Readiness::WRITE, move |io| send(io, buf))
    }

    pub(crate) fn try_send_vectored(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.try_io(OpSource::Library, Readiness::WRITE, |io| send_vectored(io, bufs))
    }
}
