//! Methods common to all datagram sockets: `UdpSocket` and `UnixDatagram`.

pub(in crate::net) mod recv;

/// Implements the methods and traits common to all datagram sockets.
///
/// - `$socket` is a struct with one field `io: PollEvented<$std>`.
/// - `$addr` is the type of sender addresses.
/// - `$setup` contains the hidden lines of the examples. They define `a` and `b`, two sockets that
///   are connected to each other.
macro_rules! datagrams {
    ($socket:ident, $std:ty, $addr:ty, $setup:literal) => {
        $crate::net::registered_socket::registered_socket!($socket, $std);

        impl $socket {
            /// Registers a standard library socket with the current runtime.
            ///
            /// The socket must be in non-blocking mode.
            ///
            /// # Errors
            ///
            /// Returns the kernel's error if the socket cannot be registered.
            ///
            /// # Panics
            ///
            /// Panics if called outside of a runtime with I/O enabled or, with debug assertions, if
            /// the socket is in blocking mode.
            ///
            /// # Examples
            ///
            /// `a` is a socket of the standard library:
            ///
            /// ```
            /// # #[wakeful::main(flavor = "current_thread")]
            /// # async fn main() -> std::io::Result<()> {
            #[doc = $setup]
            /// # let a = a.into_std()?;
            /// a.set_nonblocking(true)?;
            #[doc = concat!("let a = wakeful::net::", stringify!($socket), "::from_std(a)?;")]
            /// # Ok(())
            /// # }
            /// ```
            #[track_caller]
            pub fn from_std(socket: $std) -> std::io::Result<$socket> {
                $crate::net::tcp::check_nonblocking(&socket)?;
                Self::register(socket)
            }

            /// Registers a socket that is known to be in non-blocking mode.
            #[track_caller]
            fn register(socket: $std) -> std::io::Result<$socket> {
                Ok(Self { io: $crate::runtime::poll_evented::PollEvented::both(socket)? })
            }

            /// Waits until the socket is ready for any of `interest`.
            ///
            /// Use this with the `try_` methods to send and receive in one task. The readiness may
            /// be stale: the operation that follows can still fail with `WouldBlock`.
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
            /// `a` and `b` are connected to each other:
            ///
            /// ```
            /// # #[wakeful::main(flavor = "current_thread")]
            /// # async fn main() -> std::io::Result<()> {
            #[doc = $setup]
            /// use wakeful::io::Interest;
            ///
            /// let ready = a.ready(Interest::READABLE | Interest::WRITABLE).await?;
            /// assert!(ready.is_writable());
            /// # Ok(())
            /// # }
            /// ```
            #[track_caller]
            pub fn ready(
                &self,
                interest: $crate::io::Interest,
            ) -> impl Future<Output = std::io::Result<$crate::io::Ready>> + Send + Sync + '_ {
                self.io.ready_for(interest, std::panic::Location::caller())
            }

            /// Waits until there is a datagram to receive.
            ///
            /// The readiness may be stale: [`try_recv`](Self::try_recv) can still fail with
            /// `WouldBlock`.
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
            /// `a` and `b` are connected to each other:
            ///
            /// ```
            /// # #[wakeful::main(flavor = "current_thread")]
            /// # async fn main() -> std::io::Result<()> {
            #[doc = $setup]
            /// a.send(b"hello").await?;
            ///
            /// let mut buf = [0; 64];
            /// let len = loop {
            ///     b.readable().await?;
            ///     match b.try_recv(&mut buf) {
            ///         Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => continue,
            ///         result => break result?,
            ///     }
            /// };
            /// assert_eq!(&buf[..len], b"hello");
            /// # Ok(())
            /// # }
            /// ```
            #[track_caller]
            pub fn readable(&self) -> impl Future<Output = std::io::Result<()>> + Send + Sync + '_ {
                let site = std::panic::Location::caller();
                let ready = self.io.ready_for($crate::io::Interest::READABLE, site);
                async { ready.await.map(drop) }
            }

            /// Polls for a datagram to receive.
            ///
            /// Only the task of the most recent call is woken. Any number of tasks may wait with
            /// [`readable`](Self::readable).
            ///
            /// # Errors
            ///
            /// Returns an error if the runtime has shut down.
            ///
            /// # Examples
            ///
            /// `a` and `b` are connected to each other:
            ///
            /// ```
            /// # #[wakeful::main(flavor = "current_thread")]
            /// # async fn main() -> std::io::Result<()> {
            #[doc = $setup]
            /// a.send(b"hello").await?;
            /// std::future::poll_fn(|cx| b.poll_recv_ready(cx)).await?;
            /// assert_eq!(b.try_recv(&mut [0; 64])?, 5);
            /// # Ok(())
            /// # }
            /// ```
            pub fn poll_recv_ready(
                &self,
                cx: &mut std::task::Context<'_>,
            ) -> std::task::Poll<std::io::Result<()>> {
                self.io.poll_read_ready(cx)
            }

            /// Waits until the send buffer has space.
            ///
            /// The readiness may be stale: [`try_send`](Self::try_send) can still fail with
            /// `WouldBlock`.
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
            /// `a` and `b` are connected to each other:
            ///
            /// ```
            /// # #[wakeful::main(flavor = "current_thread")]
            /// # async fn main() -> std::io::Result<()> {
            #[doc = $setup]
            /// a.writable().await?;
            /// a.try_send(b"hello")?;
            /// # Ok(())
            /// # }
            /// ```
            #[track_caller]
            pub fn writable(&self) -> impl Future<Output = std::io::Result<()>> + Send + Sync + '_ {
                let site = std::panic::Location::caller();
                let ready = self.io.ready_for($crate::io::Interest::WRITABLE, site);
                async { ready.await.map(drop) }
            }

            /// Polls for space in the send buffer.
            ///
            /// Only the task of the most recent call is woken. Any number of tasks may wait with
            /// [`writable`](Self::writable).
            ///
            /// # Errors
            ///
            /// Returns an error if the runtime has shut down.
            ///
            /// # Examples
            ///
            /// `a` and `b` are connected to each other:
            ///
            /// ```
            /// # #[wakeful::main(flavor = "current_thread")]
            /// # async fn main() -> std::io::Result<()> {
            #[doc = $setup]
            /// std::future::poll_fn(|cx| a.poll_send_ready(cx)).await?;
            /// assert_eq!(a.try_send(b"hello")?, 5);
            /// # Ok(())
            /// # }
            /// ```
            pub fn poll_send_ready(
                &self,
                cx: &mut std::task::Context<'_>,
            ) -> std::task::Poll<std::io::Result<()>> {
                self.io.poll_write_ready(cx)
            }

            /// Sends a datagram to the address to which the socket is connected.
            ///
            /// Returns the number of bytes sent.
            ///
            /// # Errors
            ///
            /// Returns the kernel's error, for example if the socket is not connected.
            ///
            /// # Cancel safety
            ///
            /// Cancel safe. If the future is dropped before it completes, nothing was sent.
            ///
            /// # Examples
            ///
            /// `a` and `b` are connected to each other:
            ///
            /// ```
            /// # #[wakeful::main(flavor = "current_thread")]
            /// # async fn main() -> std::io::Result<()> {
            #[doc = $setup]
            /// assert_eq!(a.send(b"hello").await?, 5);
            /// # Ok(())
            /// # }
            /// ```
            #[track_caller]
            pub fn send<'a>(
                &'a self,
                buf: &'a [u8],
            ) -> impl Future<Output = std::io::Result<usize>> + Send + Sync + 'a {
                let site = std::panic::Location::caller();
                self.io.async_send_with(site, move |io| $crate::net::datagram_io::send(io, buf))
            }

            /// Polls a send to the address to which the socket is connected.
            ///
            /// Only the task of the most recent call is woken; see [`send`](Self::send).
            ///
            /// # Errors
            ///
            /// Returns the kernel's error, for example if the socket is not connected.
            ///
            /// # Examples
            ///
            /// `a` and `b` are connected to each other:
            ///
            /// ```
            /// # #[wakeful::main(flavor = "current_thread")]
            /// # async fn main() -> std::io::Result<()> {
            #[doc = $setup]
            /// let len = std::future::poll_fn(|cx| a.poll_send(cx, b"hello")).await?;
            /// assert_eq!(len, 5);
            /// # Ok(())
            /// # }
            /// ```
            pub fn poll_send(
                &self,
                cx: &mut std::task::Context<'_>,
                buf: &[u8],
            ) -> std::task::Poll<std::io::Result<usize>> {
                self.io.poll_send_with(cx, |io| $crate::net::datagram_io::send(io, buf))
            }

            /// Sends a datagram without waiting, to the address to which the socket is connected.
            ///
            /// # Errors
            ///
            /// Returns `WouldBlock` if the send buffer is full, and the kernel's error otherwise.
            ///
            /// # Examples
            ///
            /// `a` and `b` are connected to each other:
            ///
            /// ```
            /// # #[wakeful::main(flavor = "current_thread")]
            /// # async fn main() -> std::io::Result<()> {
            #[doc = $setup]
            /// a.writable().await?;
            /// assert_eq!(a.try_send(b"hello")?, 5);
            /// # Ok(())
            /// # }
            /// ```
            pub fn try_send(&self, buf: &[u8]) -> std::io::Result<usize> {
                self.io.try_send_with(move |io| $crate::net::datagram_io::send(io, buf))
            }
        }

        $crate::net::datagrams::recv::recv_methods!($socket, $addr, $setup);
    };
}
pub(crate) use datagrams;
