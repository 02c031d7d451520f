//! The read and write halves of a connection, borrowed and owned, for every stream socket.

/// Defines `ReadHalf`, `WriteHalf`, `OwnedReadHalf`, `OwnedWriteHalf` and `ReuniteError`.
///
/// `$stream` is the socket type, `$addr` the type of its addresses. `$setup` has the hidden lines
/// of the examples, which define `client` and `server`, the two ends of a connection.
macro_rules! halves {
    ($stream:ident, $addr:ty, $setup:literal) => {
        #[doc = concat!("Borrowed read half of a [`", stringify!($stream), "`].")]
        ///
        ///
        /// # Examples
        ///
        /// `client` and `server` are the two ends of a connection:
        ///
        /// ```
        /// # #[wakeful::main(flavor = "current_thread")]
        /// # async fn main() -> std::io::Result<()> {
        #[doc = $setup]
        /// # let mut client = client;
        /// use wakeful::io::{AsyncReadExt, AsyncWriteExt};
        ///
        /// let (mut read, _write) = client.split();
        /// server.write_all(b"hello").await?;
        /// read.readable().await?;
        /// assert_eq!(read.try_read(&mut [0; 1])?, 1);
        /// let mut rest = [0; 4];
        /// read.read_exact(&mut rest).await?;
        /// assert_eq!(&rest, b"ello");
        /// # Ok(())
        /// # }
        /// ```
        #[doc = concat!("Created by [`split`](", stringify!($stream), "::split).")]
        #[derive(Debug)]
        pub struct ReadHalf<'a>(&'a $stream);

        #[doc = concat!("Borrowed write half of a [`", stringify!($stream), "`].")]
        ///
        #[doc = concat!("Created by [`split`](", stringify!($stream), "::split). ")]
        /// [`shutdown`](crate::io::AsyncWriteExt::shutdown) closes the write side of the
        /// connection.
        ///
        /// # Examples
        ///
        /// `client` and `server` are the two ends of a connection:
        ///
        /// ```
        /// # #[wakeful::main(flavor = "current_thread")]
        /// # async fn main() -> std::io::Result<()> {
        #[doc = $setup]
        /// # let mut client = client;
        /// use wakeful::io::{AsyncReadExt, AsyncWriteExt};
        ///
        /// let (_read, mut write) = client.split();
        /// write.writable().await?;
        /// assert_eq!(write.try_write(b"by")?, 2);
        /// write.write_all(b"e").await?;
        /// write.shutdown().await?;
        ///
        /// let mut text = String::new();
        /// server.read_to_string(&mut text).await?;
        /// assert_eq!(text, "bye");
        /// # Ok(())
        /// # }
        /// ```
        #[derive(Debug)]
        pub struct WriteHalf<'a>(&'a $stream);

        pub(super) fn split(stream: &mut $stream) -> (ReadHalf<'_>, WriteHalf<'_>) {
            (ReadHalf(stream), WriteHalf(stream))
        }

        #[doc = concat!("Owned read half of a [`", stringify!($stream), "`].")]
        ///
        #[doc = concat!("Created by [`into_split`](", stringify!($stream), "::into_split). ")]
        /// The socket is closed when both halves are dropped.
        ///
        /// # Examples
        ///
        /// `client` and `server` are the two ends of a connection:
        ///
        /// ```
        /// # #[wakeful::main(flavor = "current_thread")]
        /// # async fn main() -> std::io::Result<()> {
        #[doc = $setup]
        /// use wakeful::io::{AsyncReadExt, AsyncWriteExt};
        ///
        /// let (mut read, _write) = client.into_split();
        /// let reader = wakeful::spawn(async move { read.read_u8().await });
        /// server.write_u8(7).await?;
        /// assert_eq!(reader.await.unwrap()?, 7);
        /// # Ok(())
        /// # }
        /// ```
        #[derive(Debug)]
        pub struct OwnedReadHalf {
            stream: std::sync::Arc<$stream>,
        }

        #[doc = concat!("Owned write half of a [`", stringify!($stream), "`].")]
        ///
        #[doc = concat!("Created by [`into_split`](", stringify!($stream), "::into_split). ")]
        /// Dropping it closes the write side of the connection, unless
        /// [`forget`](OwnedWriteHalf::forget) is used.
        ///
        /// # Examples
        ///
        /// `client` and `server` are the two ends of a connection:
        ///
        /// ```
        /// # #[wakeful::main(flavor = "current_thread")]
        /// # async fn main() -> std::io::Result<()> {
        #[doc = $setup]
        /// use wakeful::io::{AsyncReadExt, AsyncWriteExt};
        ///
        /// let (_read, mut write) = client.into_split();
        /// write.write_all(b"bye").await?;
        /// drop(write); // closes the write side
        ///
        /// let mut text = String::new();
        /// server.read_to_string(&mut text).await?;
        /// assert_eq!(text, "bye");
        /// # Ok(())
        /// # }
        /// ```
        #[derive(Debug)]
        pub struct OwnedWriteHalf {
            stream: std::sync::Arc<$stream>,
            /// Whether dropping this half closes the write side.
            shutdown_on_drop: bool,
        }

        pub(super) fn split_owned(stream: $stream) -> (OwnedReadHalf, OwnedWriteHalf) {
            let stream = std::sync::Arc::new(stream);
            let read = OwnedReadHalf { stream: stream.clone() };
            (read, OwnedWriteHalf { stream, shutdown_on_drop: true })
        }

        /// Error of `reunite`: the two halves belong to different connections.
        ///
        /// Contains both halves.
        ///
        /// # Examples
        ///
        /// `client` and `server` are the two ends of a connection:
        ///
        /// ```
        /// # #[wakeful::main(flavor = "current_thread")]
        /// # async fn main() -> std::io::Result<()> {
        #[doc = $setup]
        /// let ((read, write), (_other_read, other_write)) = (client.into_split(), server.into_split());
        /// let error = read.reunite(other_write).unwrap_err();
        /// let (read, _other_write) = (error.0, error.1);
        /// assert!(read.reunite(write).is_ok());
        /// # Ok(())
        /// # }
        /// ```
        #[derive(Debug)]
        pub struct ReuniteError(pub OwnedReadHalf, pub OwnedWriteHalf);

        impl std::fmt::Display for ReuniteError {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("tried to reunite halves that are not from the same socket")
            }
        }

        impl std::error::Error for ReuniteError {}

        fn reunite(
            read: OwnedReadHalf,
            mut write: OwnedWriteHalf,
        ) -> Result<$stream, ReuniteError> {
            if !std::sync::Arc::ptr_eq(&read.stream, &write.stream) {
                return Err(ReuniteError(read, write));
            }
            write.shutdown_on_drop = false;
            drop(write);
            let stream = std::sync::Arc::into_inner(read.stream);
            Ok(stream.expect("the write half held the only other reference"))
        }

        impl OwnedReadHalf {
            /// Recombines the two halves into the stream.
            ///
            /// # Errors
            ///
            /// Returns [`ReuniteError`] if the halves belong to different connections.
            ///
            /// # Examples
            ///
            /// `client` is one end of a connection:
            ///
            /// ```
            /// # #[wakeful::main(flavor = "current_thread")]
            /// # async fn main() -> std::io::Result<()> {
            #[doc = $setup]
            /// let (read, write) = client.into_split();
            /// let client = read.reunite(write).expect("halves of one stream");
            /// # Ok(())
            /// # }
            /// ```
            pub fn reunite(self, other: OwnedWriteHalf) -> Result<$stream, ReuniteError> {
                reunite(self, other)
            }
        }

        impl OwnedWriteHalf {
            /// Recombines the two halves into the stream.
            ///
            /// # Errors
            ///
            /// Returns [`ReuniteError`] if the halves belong to different connections.
            ///
            /// # Examples
            ///
            /// `client` is one end of a connection:
            ///
            /// ```
            /// # #[wakeful::main(flavor = "current_thread")]
            /// # async fn main() -> std::io::Result<()> {
            #[doc = $setup]
            /// let (read, write) = client.into_split();
            /// let client = write.reunite(read).expect("halves of one stream");
            /// # Ok(())
            /// # }
            /// ```
            pub fn reunite(self, other: OwnedReadHalf) -> Result<$stream, ReuniteError> {
                reunite(other, self)
            }

            /// Drops this half without closing the write side of the connection.
            ///
            /// # Examples
            ///
            /// `client` and `server` are the two ends of a connection:
            ///
            /// ```
            /// # #[wakeful::main(flavor = "current_thread")]
            /// # async fn main() -> std::io::Result<()> {
            #[doc = $setup]
            /// let (_read, write) = client.into_split();
            /// write.forget();
            /// // The write side is still open, so there is no end of the data.
            /// let error = server.try_read(&mut [0; 8]).unwrap_err();
            /// assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
            /// # Ok(())
            /// # }
            /// ```
            pub fn forget(mut self) {
                self.shutdown_on_drop = false;
            }
        }

        impl Drop for OwnedWriteHalf {
            fn drop(&mut self) {
                if self.shutdown_on_drop {
                    // `drop` cannot report an error.
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
            /// Waits until the socket is ready for any of `interest`.
            ///
            #[doc = concat!("See [`", stringify!($stream), "::ready`].")]
            ///
            /// # Errors
            ///
            /// Returns an error if the runtime has shut down.
            ///
            /// # Cancel safety
            ///
            /// Cancel safe. The socket stays ready until an operation fails with `WouldBlock`.
            ///
            /// # Examples
            ///
            /// With a pair of connected Unix sockets:
            ///
            /// ```
            /// # #[wakeful::main(flavor = "current_thread")]
            /// # async fn main() -> std::io::Result<()> {
            /// use wakeful::io::Interest;
            ///
            /// let (client, _server) = wakeful::net::UnixStream::pair()?;
            /// let (_read, write) = client.into_split();
            /// assert!(write.ready(Interest::WRITABLE).await?.is_writable());
            /// # Ok(())
            /// # }
            /// ```
            #[track_caller]
            pub fn ready(
                &self,
                interest: $crate::io::Interest,
            ) -> impl Future<Output = std::io::Result<$crate::io::Ready>> + Send + Sync + '_ {
                self.stream().ready(interest)
            }

            /// Returns the address of the peer.
            ///
            /// # Errors
            ///
            /// Returns the kernel's error, for example if the socket is no longer connected.
            ///
            /// # Examples
            ///
            /// With a TCP connection:
            ///
            /// ```
            /// # #[wakeful::main(flavor = "current_thread")]
            /// # async fn main() -> std::io::Result<()> {
            /// use wakeful::net::{TcpListener, TcpStream};
            ///
            /// let listener = TcpListener::bind("127.0.0.1:0").await?;
            /// let client = TcpStream::connect(listener.local_addr()?).await?;
            /// let (read, _write) = client.into_split();
            /// assert_eq!(read.peer_addr()?, listener.local_addr()?);
            /// # Ok(())
            /// # }
            /// ```
            pub fn peer_addr(&self) -> std::io::Result<$addr> {
                self.stream().peer_addr()
            }

            /// Returns the local address.
            ///
            /// # Errors
            ///
            /// Returns the kernel's error.
            ///
            /// # Examples
            ///
            /// With a TCP connection:
            ///
            /// ```
            /// # #[wakeful::main(flavor = "current_thread")]
            /// # async fn main() -> std::io::Result<()> {
            /// use wakeful::net::{TcpListener, TcpStream};
            ///
            /// let listener = TcpListener::bind("127.0.0.1:0").await?;
            /// let client = TcpStream::connect(listener.local_addr()?).await?;
            /// let (read, write) = client.into_split();
            /// assert_eq!(read.local_addr()?, write.local_addr()?);
            /// # Ok(())
            /// # }
            /// ```
            pub fn local_addr(&self) -> std::io::Result<$addr> {
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
            /// Waits until the socket is readable, or its read side is closed.
            ///
            #[doc = concat!("See [`", stringify!($stream), "::readable`].")]
            ///
            /// # Errors
            ///
            /// Returns an error if the runtime has shut down.
            ///
            /// # Cancel safety
            ///
            /// Cancel safe. The socket stays readable until an operation fails with `WouldBlock`.
            ///
            /// # Examples
            ///
            /// With a pair of connected Unix sockets:
            ///
            /// ```
            /// # #[wakeful::main(flavor = "current_thread")]
            /// # async fn main() -> std::io::Result<()> {
            /// use wakeful::io::AsyncWriteExt;
            ///
            /// let (client, mut server) = wakeful::net::UnixStream::pair()?;
            /// let (read, _write) = client.into_split();
            /// server.write_all(b"hello").await?;
            /// read.readable().await?;
            /// assert_eq!(read.try_read(&mut [0; 8])?, 5);
            /// # Ok(())
            /// # }
            /// ```
            #[track_caller]
            pub fn readable(&self) -> impl Future<Output = std::io::Result<()>> + Send + Sync + '_ {
                self.stream().readable()
            }

            /// Reads available bytes without waiting, and returns how many.
            ///
            /// # Errors
            ///
            /// Returns `WouldBlock` if there is nothing to read, and the kernel's error otherwise.
            ///
            /// # Examples
            ///
            /// With a pair of connected Unix sockets:
            ///
            /// ```
            /// # #[wakeful::main(flavor = "current_thread")]
            /// # async fn main() -> std::io::Result<()> {
            /// use std::io::ErrorKind;
            ///
            /// let (client, _server) = wakeful::net::UnixStream::pair()?;
            /// let (read, _write) = client.into_split();
            /// let error = read.try_read(&mut [0; 8]).unwrap_err();
            /// assert_eq!(error.kind(), ErrorKind::WouldBlock);
            /// # Ok(())
            /// # }
            /// ```
            pub fn try_read(&self, buf: &mut [u8]) -> std::io::Result<usize> {
                self.stream().try_read(buf)
            }

            /// Reads available bytes into several buffers without waiting, and returns how many.
            ///
            /// # Errors
            ///
            /// Returns `WouldBlock` if there is nothing to read, and the kernel's error otherwise.
            ///
            /// # Examples
            ///
            /// With a pair of connected Unix sockets:
            ///
            /// ```
            /// # #[wakeful::main(flavor = "current_thread")]
            /// # async fn main() -> std::io::Result<()> {
            /// use std::io::IoSliceMut;
            /// use wakeful::io::AsyncWriteExt;
            ///
            /// let (client, mut server) = wakeful::net::UnixStream::pair()?;
            /// let (read, _write) = client.into_split();
            /// server.write_all(b"hello").await?;
            /// read.readable().await?;
            /// let (mut head, mut rest) = ([0; 1], [0; 7]);
            /// let mut bufs = [IoSliceMut::new(&mut head), IoSliceMut::new(&mut rest)];
            /// assert_eq!(read.try_read_vectored(&mut bufs)?, 5);
            /// assert_eq!(&head, b"h");
            /// # Ok(())
            /// # }
            /// ```
            pub fn try_read_vectored(
                &self,
                bufs: &mut [std::io::IoSliceMut<'_>],
            ) -> std::io::Result<usize> {
                self.stream().try_read_vectored(bufs)
            }

            /// Reads available bytes into a [`BufMut`](bytes::BufMut) without waiting.
            ///
            /// Returns how many bytes were read.
            ///
            /// # Errors
            ///
            /// Returns `WouldBlock` if there is nothing to read, and the kernel's error otherwise.
            ///
            /// # Examples
            ///
            /// With a pair of connected Unix sockets:
            ///
            /// ```
            /// # #[wakeful::main(flavor = "current_thread")]
            /// # async fn main() -> std::io::Result<()> {
            /// use wakeful::io::AsyncWriteExt;
            ///
            /// let (client, mut server) = wakeful::net::UnixStream::pair()?;
            /// let (read, _write) = client.into_split();
            /// server.write_all(b"hello").await?;
            /// read.readable().await?;
            /// let mut buf = Vec::with_capacity(8);
            /// read.try_read_buf(&mut buf)?;
            /// assert_eq!(buf, b"hello");
            /// # Ok(())
            /// # }
            /// ```
            pub fn try_read_buf<B: bytes::BufMut>(&self, buf: &mut B) -> std::io::Result<usize> {
                self.stream().try_read_buf(buf)
            }
        }

        impl $crate::io::AsyncRead for $half {
            fn poll_read(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
                buf: &mut $crate::io::ReadBuf<'_>,
            ) -> std::task::Poll<std::io::Result<()>> {
                self.stream().poll_read_shared(cx, buf)
            }
        }
    };

    (@write $half:ty, $stream:ident, $addr:ty) => {
        halves!(@both $half, $stream, $addr);

        impl $half {
            /// Waits until the socket is writable, or its write side is closed.
            ///
            #[doc = concat!("See [`", stringify!($stream), "::writable`].")]
            ///
            /// # Errors
            ///
            /// Returns an error if the runtime has shut down.
            ///
            /// # Cancel safety
            ///
            /// Cancel safe. The socket stays writable until an operation fails with `WouldBlock`.
            ///
            /// # Examples
            ///
            /// With a pair of connected Unix sockets:
            ///
            /// ```
            /// # #[wakeful::main(flavor = "current_thread")]
            /// # async fn main() -> std::io::Result<()> {
            /// let (client, _server) = wakeful::net::UnixStream::pair()?;
            /// let (_read, write) = client.into_split();
            /// write.writable().await?;
            /// assert_eq!(write.try_write(b"hello")?, 5);
            /// # Ok(())
            /// # }
            /// ```
            #[track_caller]
            pub fn writable(&self) -> impl Future<Output = std::io::Result<()>> + Send + Sync + '_ {
                self.stream().writable()
            }

            /// Writes bytes without waiting, and returns how many the kernel accepted.
            ///
            /// # Errors
            ///
            /// Returns `WouldBlock` if the send buffer is full, and the kernel's error otherwise.
            ///
            /// # Examples
            ///
            /// With a pair of connected Unix sockets:
            ///
            /// ```
            /// # #[wakeful::main(flavor = "current_thread")]
            /// # async fn main() -> std::io::Result<()> {
            /// let (client, _server) = wakeful::net::UnixStream::pair()?;
            /// let (_read, write) = client.into_split();
            /// write.writable().await?;
            /// assert_eq!(write.try_write(b"hello")?, 5);
            /// # Ok(())
            /// # }
            /// ```
            pub fn try_write(&self, buf: &[u8]) -> std::io::Result<usize> {
                self.stream().try_write(buf)
            }

            /// Writes bytes from several buffers without waiting.
            ///
            /// Returns how many bytes the kernel accepted.
            ///
            /// # Errors
            ///
            /// Returns `WouldBlock` if the send buffer is full, and the kernel's error otherwise.
            ///
            /// # Examples
            ///
            /// With a pair of connected Unix sockets:
            ///
            /// ```
            /// # #[wakeful::main(flavor = "current_thread")]
            /// # async fn main() -> std::io::Result<()> {
            /// use std::io::IoSlice;
            ///
            /// let (client, _server) = wakeful::net::UnixStream::pair()?;
            /// let (_read, write) = client.into_split();
            /// write.writable().await?;
            /// let bufs = [IoSlice::new(b"hello "), IoSlice::new(b"world")];
            /// assert_eq!(write.try_write_vectored(&bufs)?, 11);
            /// # Ok(())
            /// # }
            /// ```
            pub fn try_write_vectored(
                &self,
                bufs: &[std::io::IoSlice<'_>],
            ) -> std::io::Result<usize> {
                self.stream().try_write_vectored(bufs)
            }
        }

        impl $crate::io::AsyncWrite for $half {
            fn poll_write(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
                buf: &[u8],
            ) -> std::task::Poll<std::io::Result<usize>> {
                self.stream().poll_write_shared(cx, buf)
            }

            fn poll_write_vectored(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
                bufs: &[std::io::IoSlice<'_>],
            ) -> std::task::Poll<std::io::Result<usize>> {
                self.stream().poll_write_vectored_shared(cx, bufs)
            }

            fn is_write_vectored(&self) -> bool {
                true
            }

            /// Does nothing: the socket has no user-space buffer.
            fn poll_flush(
                self: std::pin::Pin<&mut Self>,
                _: &mut std::task::Context<'_>,
            ) -> std::task::Poll<std::io::Result<()>> {
                std::task::Poll::Ready(Ok(()))
            }

            fn poll_shutdown(
                self: std::pin::Pin<&mut Self>,
                _: &mut std::task::Context<'_>,
            ) -> std::task::Poll<std::io::Result<()>> {
                std::task::Poll::Ready(self.stream().shut_down_write())
            }
        }
    };
}
pub(crate) use halves;
