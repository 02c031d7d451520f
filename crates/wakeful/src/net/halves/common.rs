//! Methods common to all halves of a stream: addresses and readiness.

/// Implements the methods common to read halves and write halves.
macro_rules! half_methods {
    ($half:ty, $stream:ident, $addr:ty) => {
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
}
pub(crate) use half_methods;
