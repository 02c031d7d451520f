//! Write methods of a stream half.

/// Implements writing for `WriteHalf` or `OwnedWriteHalf`.
macro_rules! write_half {
    ($half:ty, $stream:ident, $addr:ty) => {
        $crate::net::halves::common::half_methods!($half, $stream, $addr);

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

            /// Writes bytes without waiting and returns the number of accepted bytes.
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
            /// Returns the number of accepted bytes.
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
pub(crate) use write_half;
