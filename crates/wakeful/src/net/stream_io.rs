//! What all streams of bytes do with their descriptors: sockets through `recv`
//! and `send`, pipes through `read` and `write`.

use crate::driver::io_readiness::{Direction, Readiness};
use crate::io::{Interest, ReadBuf, Ready};
use crate::runtime::poll_evented::PollEvented;
use crate::runtime::registration::OpSource;
use crate::sys::eintr::uninterrupted;
use crate::task::wait_kind::WaitKind;
use bytes::BufMut;
use rustix::net::{RecvFlags, SendFlags};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::panic::Location;
use std::task::{Context, Poll, ready};

/// More slices than that the system does not take at once.
const MOST_SLICES: usize = 1024;

/// How bytes get in and out.
pub(crate) trait StreamIo: AsFd {
    /// Whether a read that gets less than there is room for has got all there is.
    const GIVES_ALL: bool;

    fn recv(&self, buf: &mut [MaybeUninit<u8>]) -> rustix::io::Result<usize>;
    fn send(&self, buf: &[u8]) -> rustix::io::Result<usize>;
}

/// By `recv` and `send`, which raises no signal when the other side is gone.
macro_rules! transfer_of_sockets {
    ($($socket:ty: $gives_all:literal),+) => {$(
        impl StreamIo for $socket {
            const GIVES_ALL: bool = $gives_all;

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
// A read from a unix stream ends where descriptors were sent along.
transfer_of_sockets!(std::net::TcpStream: true, std::os::unix::net::UnixStream: false);

/// What an interest waits for.
pub(crate) fn mask_of(interest: Interest) -> Readiness {
    Readiness(Ready::of_interest(interest).bits())
}

/// How the wait of somebody with this interest is called.
pub(crate) fn kind_of(interest: Interest) -> WaitKind {
    match (interest.is_readable(), interest.is_writable()) {
        (true, false) => WaitKind::IoRead,
        (false, true) => WaitKind::IoWrite,
        _ => WaitKind::IoReady,
    }
}

impl<S: AsFd> PollEvented<S> {
    /// Waits for any of `interest`; any number of tasks may.
    pub(crate) async fn ready_for(
        &self,
        interest: Interest,
        site: &'static Location<'static>,
    ) -> io::Result<Ready> {
        let seen = self.registration().ready(mask_of(interest), kind_of(interest), site).await?;
        Ok(Ready::from_bits(seen.ready.0))
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
        let room = if S::GIVES_ALL { buf.remaining() } else { 0 };
        // SAFETY: only written to, and with initialised bytes.
        let space = unsafe { buf.unfilled_mut() };
        let count = ready!(self.poll_read(cx, room, |io| uninterrupted(|| io.recv(space))))?;
        // SAFETY: the system filled so many.
        unsafe { buf.assume_init(count) };
        buf.advance(count);
        Poll::Ready(Ok(()))
    }

    #[inline(always)]
    pub(crate) fn poll_send(&self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write(cx, buf.len(), |io| uninterrupted(|| io.send(buf)))
    }

    pub(crate) fn poll_send_vectored(
        &self,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        // The system takes no more of them, and that is no sign that there is no room.
        let size = bufs.iter().take(MOST_SLICES).map(|buf| buf.len()).sum();
        self.poll_write(cx, size, |io| uninterrupted(|| rustix::io::writev(io, bufs)))
    }

    pub(crate) fn try_recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        // SAFETY: initialised bytes are as good; the system writes no others.
        let space = unsafe { &mut *(std::ptr::from_mut(buf) as *mut [MaybeUninit<u8>]) };
        self.try_io(OpSource::Ours, Readiness::READ, |io| uninterrupted(|| io.recv(space)))
    }

    pub(crate) fn try_recv_vectored(&self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.try_io(OpSource::Ours, Readiness::READ, |io| {
            uninterrupted(|| rustix::io::readv(io, bufs))
        })
    }

    pub(crate) fn try_recv_buf<B: BufMut>(&self, buf: &mut B) -> io::Result<usize> {
        self.try_io(OpSource::Ours, Readiness::READ, |io| {
            let chunk = buf.chunk_mut();
            // SAFETY: only written to, and with initialised bytes.
            let space = unsafe { chunk.as_uninit_slice_mut() };
            let count = uninterrupted(|| io.recv(space))?;
            // SAFETY: the system filled so many.
            unsafe { buf.advance_mut(count) };
            Ok(count)
        })
    }

    pub(crate) fn try_send(&self, buf: &[u8]) -> io::Result<usize> {
        self.try_io(OpSource::Ours, Readiness::WRITE, |io| uninterrupted(|| io.send(buf)))
    }

    pub(crate) fn try_send_vectored(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.try_io(OpSource::Ours, Readiness::WRITE, |io| {
            uninterrupted(|| rustix::io::writev(io, bufs))
        })
    }
}
