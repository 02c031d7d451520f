//! The two halves of a connection, borrowed and owned, for every kind of stream.

/// `halves!(TcpStream, SocketAddr)` makes `ReadHalf`, `WriteHalf`,
/// `OwnedReadHalf`, `OwnedWriteHalf` and `ReuniteError` for a stream whose
/// addresses have that type.
macro_rules! halves {
    ($stream:ident, $addr:ty) => {
        use crate::io::{AsyncRead, AsyncWrite, Interest, ReadBuf, Ready};
        use bytes::BufMut;
        use std::error::Error;
        use std::fmt;
        use std::io::{self, IoSlice, IoSliceMut};
        use std::pin::Pin;
        use std::sync::Arc;
        use std::task::{Context, Poll};

        /// The half that is read, borrowed from its stream.
        #[derive(Debug)]
        pub struct ReadHalf<'a>(&'a $stream);

        /// The half that is written, borrowed from its stream. Shutting it down
        /// closes the writing side of the connection.
        #[derive(Debug)]
        pub struct WriteHalf<'a>(&'a $stream);

        pub(super) fn split(stream: &mut $stream) -> (ReadHalf<'_>, WriteHalf<'_>) {
            (ReadHalf(stream), WriteHalf(stream))
        }

        /// The half that is read. The connection lasts until both halves are
        /// dropped.
        #[derive(Debug)]
        pub struct OwnedReadHalf {
            stream: Arc<$stream>,
        }

        /// The half that is written. Dropping it closes the writing side of the
        /// connection, unless it is [forgotten](OwnedWriteHalf::forget).
        #[derive(Debug)]
        pub struct OwnedWriteHalf {
            stream: Arc<$stream>,
            /// Dropping it closes the writing side.
            closes: bool,
        }

        pub(super) fn split_owned(stream: $stream) -> (OwnedReadHalf, OwnedWriteHalf) {
            let stream = Arc::new(stream);
            (OwnedReadHalf { stream: stream.clone() }, OwnedWriteHalf { stream, closes: true })
        }

        /// Two halves that are not of the same connection; they are given back.
        #[derive(Debug)]
        pub struct ReuniteError(pub OwnedReadHalf, pub OwnedWriteHalf);

        impl fmt::Display for ReuniteError {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("tried to reunite halves that are not from the same socket")
            }
        }

        impl Error for ReuniteError {}

        fn reunite(
            read: OwnedReadHalf,
            mut write: OwnedWriteHalf,
        ) -> Result<$stream, ReuniteError> {
            if !Arc::ptr_eq(&read.stream, &write.stream) {
                return Err(ReuniteError(read, write));
            }
            write.closes = false;
            drop(write);
            Ok(Arc::into_inner(read.stream).expect("there are two halves, and one is gone"))
        }

        impl OwnedReadHalf {
            /// Makes one stream of the two halves again.
            ///
            /// # Errors
            ///
            /// If they are not of the same connection.
            pub fn reunite(self, other: OwnedWriteHalf) -> Result<$stream, ReuniteError> {
                reunite(self, other)
            }
        }

        impl OwnedWriteHalf {
            /// Makes one stream of the two halves again.
            ///
            /// # Errors
            ///
            /// If they are not of the same connection.
            pub fn reunite(self, other: OwnedReadHalf) -> Result<$stream, ReuniteError> {
                reunite(other, self)
            }

            /// Drops this half and leaves the writing side open.
            pub fn forget(mut self) {
                self.closes = false;
            }
        }

        impl Drop for OwnedWriteHalf {
            fn drop(&mut self) {
                if self.closes {
                    // Nobody is left to be told.
                    let _ = self.stream.shut_down_write();
                }
            }
        }

        impl ReadHalf<'_> {
            fn stream(&self) -> &$stream {
                self.0
            }
        }

        impl WriteHalf<'_> {
            fn stream(&self) -> &$stream {
                self.0
            }
        }

        impl OwnedReadHalf {
            fn stream(&self) -> &$stream {
                &self.stream
            }
        }

        impl OwnedWriteHalf {
            fn stream(&self) -> &$stream {
                &self.stream
            }
        }

        halves!(@read ReadHalf<'_>, $stream, $addr);
        halves!(@read OwnedReadHalf, $stream, $addr);
        halves!(@write WriteHalf<'_>, $stream, $addr);
        halves!(@write OwnedWriteHalf, $stream, $addr);
    };

    (@both $half:ty, $stream:ident, $addr:ty) => {
        impl $half {
            /// Waits for any of `interest`; see the stream's own `ready`.
            #[track_caller]
            pub fn ready(
                &self,
                interest: Interest,
            ) -> impl Future<Output = io::Result<Ready>> + Send + Sync + '_ {
                self.stream().ready(interest)
            }

            /// The address of the other side.
            pub fn peer_addr(&self) -> io::Result<$addr> {
                self.stream().peer_addr()
            }

            /// The address of this side.
            pub fn local_addr(&self) -> io::Result<$addr> {
                self.stream().local_addr()
            }
        }

        impl AsRef<$stream> for $half {
            fn as_ref(&self) -> &$stream {
                self.stream()
            }
        }
    };

    (@read $half:ty, $stream:ident, $addr:ty) => {
        halves!(@both $half, $stream, $addr);

        impl $half {
            /// Waits until there is something to read, or nothing more comes.
            ///
            /// # Cancel safety
            ///
            /// Dropping the future loses nothing.
            #[track_caller]
            pub fn readable(&self) -> impl Future<Output = io::Result<()>> + Send + Sync + '_ {
                self.stream().readable()
            }

            /// Reads without waiting; `WouldBlock` if there is nothing to read.
            pub fn try_read(&self, buf: &mut [u8]) -> io::Result<usize> {
                self.stream().try_read(buf)
            }

            /// As [`try_read`](Self::try_read), into several buffers.
            pub fn try_read_vectored(&self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
                self.stream().try_read_vectored(bufs)
            }

            /// As [`try_read`](Self::try_read), into a buffer that grows.
            pub fn try_read_buf<B: BufMut>(&self, buf: &mut B) -> io::Result<usize> {
                self.stream().try_read_buf(buf)
            }
        }

        impl AsyncRead for $half {
            fn poll_read(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                self.stream().poll_read_shared(cx, buf)
            }
        }
    };

    (@write $half:ty, $stream:ident, $addr:ty) => {
        halves!(@both $half, $stream, $addr);

        impl $half {
            /// Waits until there is room to write, or nothing more goes out.
            ///
            /// # Cancel safety
            ///
            /// Dropping the future loses nothing.
            #[track_caller]
            pub fn writable(&self) -> impl Future<Output = io::Result<()>> + Send + Sync + '_ {
                self.stream().writable()
            }

            /// Writes without waiting; `WouldBlock` if there is no room.
            pub fn try_write(&self, buf: &[u8]) -> io::Result<usize> {
                self.stream().try_write(buf)
            }

            /// As [`try_write`](Self::try_write), from several buffers.
            pub fn try_write_vectored(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
                self.stream().try_write_vectored(bufs)
            }
        }

        impl AsyncWrite for $half {
            fn poll_write(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &[u8],
            ) -> Poll<io::Result<usize>> {
                self.stream().poll_write_shared(cx, buf)
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                bufs: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                self.stream().poll_write_vectored_shared(cx, bufs)
            }

            fn is_write_vectored(&self) -> bool {
                true
            }

            fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }

            fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(self.stream().shut_down_write())
            }
        }
    };
}
pub(crate) use halves;
