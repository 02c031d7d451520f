//! Methods and traits common to all sockets with a poller registration.

/// Implements the methods and traits that stream and datagram sockets share.
///
/// `$socket` is a struct with one field `io: PollEvented<$std>` and a method `from_std`.
macro_rules! registered_socket {
    ($socket:ident, $std:ty) => {
        impl $socket {
            /// Deregisters the socket and returns it, in non-blocking mode.
            ///
            /// # Errors
            ///
            /// Returns the kernel's error if the socket cannot be deregistered.
            ///
            /// # Examples
            ///
            /// With a pair of connected Unix sockets:
            ///
            /// ```
            /// # #[wakeful::main(flavor = "current_thread")]
            /// # async fn main() -> std::io::Result<()> {
            /// let (client, server) = wakeful::net::UnixStream::pair()?;
            /// let client = client.into_std()?;
            /// client.set_nonblocking(false)?; // now the socket blocks, as std's sockets do by default
            /// # Ok(())
            /// # }
            /// ```
            pub fn into_std(self) -> std::io::Result<$std> {
                self.io.into_inner()
            }

            /// Returns and clears the pending error of the socket (`SO_ERROR`).
            ///
            /// # Errors
            ///
            /// Returns the kernel's error if the option cannot be read.
            ///
            /// # Examples
            ///
            /// With a pair of connected Unix sockets:
            ///
            /// ```
            /// # #[wakeful::main(flavor = "current_thread")]
            /// # async fn main() -> std::io::Result<()> {
            /// let (client, _server) = wakeful::net::UnixStream::pair()?;
            /// assert!(client.take_error()?.is_none());
            /// # Ok(())
            /// # }
            /// ```
            pub fn take_error(&self) -> std::io::Result<Option<std::io::Error>> {
                match self.io.io() {
                    $crate::runtime::poll_evented::Io::Kernel(io) => io.take_error(),
                    $crate::runtime::poll_evented::Io::Simulated(socket) => socket.take_error(),
                }
            }

            /// Calls `f` once if the socket is ready for `interest`.
            ///
            /// Use this for system calls for which this type has no method. If `f` fails with
            /// `WouldBlock`, the readiness is cleared. `f` must operate on this socket.
            ///
            /// # Errors
            ///
            /// Returns `WouldBlock` without calling `f` if the socket is not known to be ready, and
            /// the error of `f` otherwise.
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
            /// let (client, server) = wakeful::net::UnixStream::pair()?;
            /// server.try_write(b"x")?;
            /// client.readable().await?;
            /// let mut byte = [0];
            /// client.try_io(Interest::READABLE, || Ok(rustix::io::read(&client, &mut byte)?))?;
            /// assert_eq!(byte[0], b'x');
            /// # Ok(())
            /// # }
            /// ```
            pub fn try_io<R>(
                &self,
                interest: $crate::io::Interest,
                f: impl FnOnce() -> std::io::Result<R>,
            ) -> std::io::Result<R> {
                let mask = $crate::net::stream_io::readiness_mask(interest);
                self.io.try_io($crate::runtime::registration::OpSource::User, mask, |_| f())
            }

            /// Calls `f` until it no longer fails with `WouldBlock`, waiting for readiness in
            /// between.
            ///
            /// Use this for system calls for which this type has no method. `f` must operate on
            /// this socket.
            ///
            /// # Errors
            ///
            /// Returns the error of `f`, or an error if the runtime has shut down.
            ///
            /// # Cancel safety
            ///
            /// As cancel safe as `f`: the future is only dropped between two calls of `f`.
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
            /// let (client, server) = wakeful::net::UnixStream::pair()?;
            /// server.try_write(b"x")?;
            /// let byte = client.async_io(Interest::READABLE, || {
            ///     let mut byte = [0];
            ///     rustix::io::read(&client, &mut byte)?;
            ///     Ok(byte[0])
            /// });
            /// assert_eq!(byte.await?, b'x');
            /// # Ok(())
            /// # }
            /// ```
            #[track_caller]
            pub fn async_io<R>(
                &self,
                interest: $crate::io::Interest,
                mut f: impl FnMut() -> std::io::Result<R>,
            ) -> impl Future<Output = std::io::Result<R>> {
                let source = $crate::runtime::registration::OpSource::User;
                let mask = $crate::net::stream_io::readiness_mask(interest);
                let kind = $crate::task::wait_kind::WaitKind::IoReady;
                let site = std::panic::Location::caller();
                self.io.async_io(source, mask, kind, site, move |_| f())
            }
        }

        impl TryFrom<$std> for $socket {
            type Error = std::io::Error;

            #[doc = concat!("Converts with [`from_std`](", stringify!($socket), "::from_std).")]
            #[track_caller]
            fn try_from(socket: $std) -> std::io::Result<Self> {
                Self::from_std(socket)
            }
        }

        impl std::fmt::Debug for $socket {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Debug::fmt(&self.io, f)
            }
        }

        impl std::os::fd::AsRawFd for $socket {
            fn as_raw_fd(&self) -> std::os::fd::RawFd {
                std::os::fd::AsRawFd::as_raw_fd(&*self.io)
            }
        }

        impl std::os::fd::AsFd for $socket {
            fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
                std::os::fd::AsFd::as_fd(&*self.io)
            }
        }
    };
}
pub(crate) use registered_socket;
