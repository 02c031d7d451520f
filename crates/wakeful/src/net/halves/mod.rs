//! The read and write halves of a connection, borrowed and owned, for every stream socket.

pub(in crate::net) mod common;
pub(in crate::net) mod read_half;
pub(in crate::net) mod write_half;

/// Defines `ReadHalf`, `WriteHalf`, `OwnedReadHalf`, `OwnedWriteHalf` and `ReuniteError`.
///
/// `$stream` is the socket type, `$addr` the type of its addresses. `$setup` contains the hidden
/// lines of the examples, which define `client` and `server`, the two ends of a connection.
macro_rules! halves {
    ($stream:ident, $addr:ty, $setup:literal) => {
        #[doc = concat!("Borrowed read half of a [`", stringify!($stream), "`].")]
        ///
        #[doc = concat!("Created by [`split`](", stringify!($stream), "::split).")]
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

        /// Error returned by `reunite` when the two halves belong to different connections.
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
            /// // The write side is still open, so the read does not reach end of file.
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

        $crate::net::halves::read_half::read_half!(ReadHalf<'_>, $stream, $addr);
        $crate::net::halves::read_half::read_half!(OwnedReadHalf, $stream, $addr);
        $crate::net::halves::write_half::write_half!(WriteHalf<'_>, $stream, $addr);
        $crate::net::halves::write_half::write_half!(OwnedWriteHalf, $stream, $addr);
    };
}
pub(crate) use halves;
