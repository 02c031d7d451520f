//! Read methods of a stream half.

/// Implements reading for `ReadHalf` or `OwnedReadHalf`.
macro_rules! read_half {
    ($half:ty, $stream:ident, $addr:ty) => {
        $crate::net::halves::common::half_methods!($half, $stream, $addr);

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

            /// Reads available bytes without waiting and returns their number.
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

            /// Reads available bytes into several buffers without waiting and returns their number.
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
            /// Returns the number of bytes read.
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
}
pub(crate) use read_half;
