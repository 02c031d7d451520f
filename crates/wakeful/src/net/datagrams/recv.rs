//! Receive methods common to all datagram sockets, with and without the sender's address.

/// Implements the methods that receive a datagram.
///
/// `$socket`, `$addr` and `$setup` have the same meaning as in `datagrams!`.
macro_rules! recv_methods {
    ($socket:ident, $addr:ty, $setup:literal) => {
        impl $socket {
            /// Receives a datagram and returns its length.
            ///
            /// Bytes that do not fit into `buf` are discarded.
            ///
            /// # Errors
            ///
            /// Returns the kernel's error.
            ///
            /// # Cancel safety
            ///
            /// Cancel safe. If the future is dropped before it completes, nothing was received.
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
            /// let mut buf = [0; 64];
            /// let len = b.recv(&mut buf).await?;
            /// assert_eq!(&buf[..len], b"hello");
            /// # Ok(())
            /// # }
            /// ```
            #[track_caller]
            pub fn recv<'a>(
                &'a self,
                buf: &'a mut [u8],
            ) -> impl Future<Output = std::io::Result<usize>> + Send + Sync + 'a {
                let site = std::panic::Location::caller();
                self.io.async_recv_with(site, move |io| {
                    let flags = $crate::net::datagram_io::CONSUME;
                    let received = $crate::net::datagram_io::recv_into_slice(io, buf, flags);
                    received.map($crate::net::datagram_io::len_only)
                })
            }

            /// Polls a receive.
            ///
            /// Only the task of the most recent call is woken; see [`recv`](Self::recv).
            ///
            /// # Errors
            ///
            /// Returns the kernel's error.
            ///
            /// # Examples
            ///
            /// `a` and `b` are connected to each other:
            ///
            /// ```
            /// # #[wakeful::main(flavor = "current_thread")]
            /// # async fn main() -> std::io::Result<()> {
            #[doc = $setup]
            /// use wakeful::io::ReadBuf;
            ///
            /// a.send(b"hello").await?;
            /// let mut memory = [0; 64];
            /// let mut buf = ReadBuf::new(&mut memory);
            /// std::future::poll_fn(|cx| b.poll_recv(cx, &mut buf)).await?;
            /// assert_eq!(buf.filled(), b"hello");
            /// # Ok(())
            /// # }
            /// ```
            pub fn poll_recv(
                &self,
                cx: &mut std::task::Context<'_>,
                buf: &mut $crate::io::ReadBuf<'_>,
            ) -> std::task::Poll<std::io::Result<()>> {
                self.io.poll_recv_with(cx, |io| {
                    let flags = $crate::net::datagram_io::CONSUME;
                    $crate::net::datagram_io::recv_into_read_buf(io, buf, flags)
                })
            }

            /// Receives a datagram without waiting and returns its length.
            ///
            /// Bytes that do not fit into `buf` are discarded.
            ///
            /// # Errors
            ///
            /// Returns `WouldBlock` if there is no datagram, and the kernel's error otherwise.
            ///
            /// # Examples
            ///
            /// `a` and `b` are connected to each other:
            ///
            /// ```
            /// # #[wakeful::main(flavor = "current_thread")]
            /// # async fn main() -> std::io::Result<()> {
            #[doc = $setup]
            /// // Nothing was sent yet.
            /// let error = b.try_recv(&mut [0; 64]).unwrap_err();
            /// assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
            /// # Ok(())
            /// # }
            /// ```
            pub fn try_recv(&self, buf: &mut [u8]) -> std::io::Result<usize> {
                self.io.try_recv_with(move |io| {
                    let flags = $crate::net::datagram_io::CONSUME;
                    let received = $crate::net::datagram_io::recv_into_slice(io, buf, flags);
                    received.map($crate::net::datagram_io::len_only)
                })
            }

            /// Receives a datagram into a [`BufMut`](bytes::BufMut) and returns its length.
            ///
            /// The buffer must have spare capacity: bytes that do not fit into it are discarded.
            ///
            /// # Errors
            ///
            /// Returns the kernel's error.
            ///
            /// # Cancel safety
            ///
            /// Cancel safe. If the future is dropped before it completes, nothing was received.
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
            /// let mut buf = Vec::with_capacity(64);
            /// b.recv_buf(&mut buf).await?;
            /// assert_eq!(buf, b"hello");
            /// # Ok(())
            /// # }
            /// ```
            #[track_caller]
            pub fn recv_buf<B: bytes::BufMut>(
                &self,
                buf: &mut B,
            ) -> impl Future<Output = std::io::Result<usize>> {
                let site = std::panic::Location::caller();
                self.io.async_recv_with(site, move |io| {
                    let flags = $crate::net::datagram_io::CONSUME;
                    let received = $crate::net::datagram_io::recv_into_buf_mut(io, buf, flags);
                    received.map($crate::net::datagram_io::len_only)
                })
            }

            /// Receives a datagram into a [`BufMut`](bytes::BufMut) without waiting.
            ///
            /// Returns its length. The buffer must have spare capacity: bytes that do not fit into
            /// it are discarded.
            ///
            /// # Errors
            ///
            /// Returns `WouldBlock` if there is no datagram, and the kernel's error otherwise.
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
            /// b.readable().await?;
            /// let mut buf = Vec::with_capacity(64);
            /// assert_eq!(b.try_recv_buf(&mut buf)?, 5);
            /// assert_eq!(buf, b"hello");
            /// # Ok(())
            /// # }
            /// ```
            pub fn try_recv_buf<B: bytes::BufMut>(&self, buf: &mut B) -> std::io::Result<usize> {
                self.io.try_recv_with(move |io| {
                    let flags = $crate::net::datagram_io::CONSUME;
                    let received = $crate::net::datagram_io::recv_into_buf_mut(io, buf, flags);
                    received.map($crate::net::datagram_io::len_only)
                })
            }

            /// Receives a datagram and returns its length and its sender.
            ///
            /// Bytes that do not fit into `buf` are discarded.
            ///
            /// # Errors
            ///
            /// Returns the kernel's error.
            ///
            /// # Cancel safety
            ///
            /// Cancel safe. If the future is dropped before it completes, nothing was received.
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
            /// let mut buf = [0; 64];
            /// let (len, sender) = b.recv_from(&mut buf).await?;
            /// println!("{len} bytes from {sender:?}");
            /// # Ok(())
            /// # }
            /// ```
            #[track_caller]
            pub fn recv_from<'a>(
                &'a self,
                buf: &'a mut [u8],
            ) -> impl Future<Output = std::io::Result<(usize, $addr)>> + Send + Sync + 'a {
                let site = std::panic::Location::caller();
                self.io.async_recv_with(site, move |io| {
                    let flags = $crate::net::datagram_io::CONSUME;
                    let received = $crate::net::datagram_io::recv_into_slice(io, buf, flags);
                    received.map($crate::net::datagram_io::len_and_sender)
                })
            }

            /// Polls a receive and returns the sender.
            ///
            /// Only the task of the most recent call is woken; see [`recv_from`](Self::recv_from).
            ///
            /// # Errors
            ///
            /// Returns the kernel's error.
            ///
            /// # Examples
            ///
            /// `a` and `b` are connected to each other:
            ///
            /// ```
            /// # #[wakeful::main(flavor = "current_thread")]
            /// # async fn main() -> std::io::Result<()> {
            #[doc = $setup]
            /// use wakeful::io::ReadBuf;
            ///
            /// a.send(b"hello").await?;
            /// let mut memory = [0; 64];
            /// let mut buf = ReadBuf::new(&mut memory);
            /// let _sender = std::future::poll_fn(|cx| b.poll_recv_from(cx, &mut buf)).await?;
            /// assert_eq!(buf.filled(), b"hello");
            /// # Ok(())
            /// # }
            /// ```
            pub fn poll_recv_from(
                &self,
                cx: &mut std::task::Context<'_>,
                buf: &mut $crate::io::ReadBuf<'_>,
            ) -> std::task::Poll<std::io::Result<$addr>> {
                self.io.poll_recv_with(cx, |io| {
                    let flags = $crate::net::datagram_io::CONSUME;
                    let received = $crate::net::datagram_io::recv_into_read_buf(io, buf, flags);
                    received.map(|$crate::net::datagram_io::SenderAddr(addr)| addr)
                })
            }

            /// Receives a datagram without waiting and returns its length and its sender.
            ///
            /// Bytes that do not fit into `buf` are discarded.
            ///
            /// # Errors
            ///
            /// Returns `WouldBlock` if there is no datagram, and the kernel's error otherwise.
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
            /// b.readable().await?;
            /// let mut buf = [0; 64];
            /// let (len, _sender) = b.try_recv_from(&mut buf)?;
            /// assert_eq!(&buf[..len], b"hello");
            /// # Ok(())
            /// # }
            /// ```
            pub fn try_recv_from(&self, buf: &mut [u8]) -> std::io::Result<(usize, $addr)> {
                self.io.try_recv_with(move |io| {
                    let flags = $crate::net::datagram_io::CONSUME;
                    let received = $crate::net::datagram_io::recv_into_slice(io, buf, flags);
                    received.map($crate::net::datagram_io::len_and_sender)
                })
            }

            /// Receives a datagram into a [`BufMut`](bytes::BufMut), with its sender.
            ///
            /// Returns the length and the sender. The buffer must have spare capacity: bytes that
            /// do not fit into it are discarded.
            ///
            /// # Errors
            ///
            /// Returns the kernel's error.
            ///
            /// # Cancel safety
            ///
            /// Cancel safe. If the future is dropped before it completes, nothing was received.
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
            /// let mut buf = Vec::with_capacity(64);
            /// let (_len, _sender) = b.recv_buf_from(&mut buf).await?;
            /// assert_eq!(buf, b"hello");
            /// # Ok(())
            /// # }
            /// ```
            #[track_caller]
            pub fn recv_buf_from<B: bytes::BufMut>(
                &self,
                buf: &mut B,
            ) -> impl Future<Output = std::io::Result<(usize, $addr)>> {
                let site = std::panic::Location::caller();
                self.io.async_recv_with(site, move |io| {
                    let flags = $crate::net::datagram_io::CONSUME;
                    let received = $crate::net::datagram_io::recv_into_buf_mut(io, buf, flags);
                    received.map($crate::net::datagram_io::len_and_sender)
                })
            }

            /// Receives a datagram into a [`BufMut`](bytes::BufMut) without waiting, with its
            /// sender.
            ///
            /// Returns the length and the sender. The buffer must have spare capacity: bytes that
            /// do not fit into it are discarded.
            ///
            /// # Errors
            ///
            /// Returns `WouldBlock` if there is no datagram, and the kernel's error otherwise.
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
            /// b.readable().await?;
            /// let mut buf = Vec::with_capacity(64);
            /// let (len, _sender) = b.try_recv_buf_from(&mut buf)?;
            /// assert_eq!(&buf[..len], b"hello");
            /// # Ok(())
            /// # }
            /// ```
            pub fn try_recv_buf_from<B: bytes::BufMut>(
                &self,
                buf: &mut B,
            ) -> std::io::Result<(usize, $addr)> {
                self.io.try_recv_with(move |io| {
                    let flags = $crate::net::datagram_io::CONSUME;
                    let received = $crate::net::datagram_io::recv_into_buf_mut(io, buf, flags);
                    received.map($crate::net::datagram_io::len_and_sender)
                })
            }
        }
    };
}
pub(crate) use recv_methods;
