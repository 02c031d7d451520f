//! `AsyncRead` and `AsyncWrite` for all byte stream sockets.

/// Implements the traits for `$stream`, and the poll methods that its halves share.
macro_rules! async_read_write {
    ($stream:ident) => {
        impl $stream {
            /// Polls a read through a shared reference.
            #[inline(always)]
            pub(crate) fn poll_read_shared(
                &self,
                cx: &mut std::task::Context<'_>,
                buf: &mut $crate::io::ReadBuf<'_>,
            ) -> std::task::Poll<std::io::Result<()>> {
                self.io.poll_recv(cx, buf)
            }

            /// Polls a write through a shared reference.
            #[inline(always)]
            pub(crate) fn poll_write_shared(
                &self,
                cx: &mut std::task::Context<'_>,
                buf: &[u8],
            ) -> std::task::Poll<std::io::Result<usize>> {
                self.io.poll_send(cx, buf)
            }

            /// Polls a vectored write through a shared reference.
            pub(crate) fn poll_write_vectored_shared(
                &self,
                cx: &mut std::task::Context<'_>,
                bufs: &[std::io::IoSlice<'_>],
            ) -> std::task::Poll<std::io::Result<usize>> {
                self.io.poll_send_vectored(cx, bufs)
            }

            /// Closes the write side of the connection.
            pub(crate) fn shut_down_write(&self) -> std::io::Result<()> {
                let shut_down = match self.io.io() {
                    $crate::runtime::poll_evented::Io::Kernel(io) => {
                        io.shutdown(std::net::Shutdown::Write)
                    }
                    $crate::runtime::poll_evented::Io::Simulated(socket) => {
                        socket.shut_down_write()
                    }
                };
                match shut_down {
                    // The peer has already closed the connection.
                    Err(error) if error.kind() == std::io::ErrorKind::NotConnected => Ok(()),
                    result => result,
                }
            }
        }

        impl $crate::io::AsyncRead for $stream {
            #[inline(always)]
            fn poll_read(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
                buf: &mut $crate::io::ReadBuf<'_>,
            ) -> std::task::Poll<std::io::Result<()>> {
                self.poll_read_shared(cx, buf)
            }
        }

        impl $crate::io::AsyncWrite for $stream {
            #[inline(always)]
            fn poll_write(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
                buf: &[u8],
            ) -> std::task::Poll<std::io::Result<usize>> {
                self.poll_write_shared(cx, buf)
            }

            fn poll_write_vectored(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
                bufs: &[std::io::IoSlice<'_>],
            ) -> std::task::Poll<std::io::Result<usize>> {
                self.poll_write_vectored_shared(cx, bufs)
            }

            fn is_write_vectored(&self) -> bool {
                true
            }

            /// Does nothing: the socket has no user-space buffer.
            #[inline]
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
                std::task::Poll::Ready(self.shut_down_write())
            }
        }
    };
}
pub(crate) use async_read_write;
