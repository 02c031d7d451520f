//! The methods that all streams of bytes have in common.

/// `streams!(UnixStream, std::os::unix::net::UnixStream)` gives a stream type with
/// a field `io: PollEvented<_>` the methods that are the same for all. Its module has
/// its halves in `halves`.
macro_rules! streams {
    ($stream:ident, $std:ty) => {
        use super::halves::{self, OwnedReadHalf, OwnedWriteHalf, ReadHalf, WriteHalf};
        use crate::io::{AsyncRead, AsyncWrite, Interest, ReadBuf, Ready};
        use crate::net::stream_io::mask_of;
        use crate::runtime::poll_evented::{BOTH, PollEvented};
        use crate::runtime::registration::OpSource;
        use crate::task::wait_kind::WaitKind;
        use bytes::BufMut;
        use std::fmt;
        use std::io::{self, IoSlice, IoSliceMut};
        use std::net::Shutdown;
        use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
        use std::panic::Location;
        use std::pin::Pin;
        use std::task::{Context, Poll};

        impl $stream {
            /// Takes a connection over, which must be in non-blocking mode.
            ///
            /// # Panics
            ///
            /// Outside of a runtime with I/O, and, with debug assertions, if the
            /// socket is in blocking mode.
            #[track_caller]
            pub fn from_std(stream: $std) -> io::Result<$stream> {
                $crate::net::tcp::check_nonblocking(&stream)?;
                Self::watch_from(stream, Location::caller())
            }

            #[track_caller]
            pub(super) fn watch_from(
                stream: $std,
                site: &'static Location<'static>,
            ) -> io::Result<$stream> {
                Ok(Self { io: PollEvented::made_at(stream, BOTH, site)? })
            }

            /// One that a listener accepted: there is room to write, and most likely
            /// something to read.
            #[track_caller]
            pub(super) fn accepted_at(
                stream: $std,
                site: &'static Location<'static>,
            ) -> io::Result<$stream> {
                let stream = Self::watch_from(stream, site)?;
                stream.io.registration().assume(Readiness::READABLE | Readiness::WRITABLE);
                Ok(stream)
            }

            /// Gives the connection back, in non-blocking mode.
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

            /// Two halves that borrow the stream: cheap, for one task.
            pub fn split(&mut self) -> (ReadHalf<'_>, WriteHalf<'_>) {
                halves::split(self)
            }

            /// Two halves that own the stream: for two tasks.
            pub fn into_split(self) -> (OwnedReadHalf, OwnedWriteHalf) {
                halves::split_owned(self)
            }

            /// As [`AsyncRead::poll_read`], by a shared reference.
            #[inline(always)]
            pub(crate) fn poll_read_shared(
                &self,
                cx: &mut Context<'_>,
                buf: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                self.io.poll_recv(cx, buf)
            }

            /// As [`AsyncWrite::poll_write`], by a shared reference.
            #[inline(always)]
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

        impl AsyncRead for $stream {
            #[inline(always)]
            fn poll_read(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                self.poll_read_shared(cx, buf)
            }
        }

        impl AsyncWrite for $stream {
            #[inline(always)]
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

        impl TryFrom<$std> for $stream {
            type Error = io::Error;

            #[doc = concat!("As [`from_std`](", stringify!($stream), "::from_std).")]
            #[track_caller]
            fn try_from(stream: $std) -> io::Result<Self> {
                Self::from_std(stream)
            }
        }

        impl AsRef<$stream> for $stream {
            fn as_ref(&self) -> &$stream {
                self
            }
        }

        impl fmt::Debug for $stream {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.io.fmt(f)
            }
        }

        impl AsRawFd for $stream {
            fn as_raw_fd(&self) -> RawFd {
                self.io.as_raw_fd()
            }
        }

        impl AsFd for $stream {
            fn as_fd(&self) -> BorrowedFd<'_> {
                self.io.as_fd()
            }
        }
    };
}
pub(crate) use streams;
