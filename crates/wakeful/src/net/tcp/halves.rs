//! The two halves of a TCP connection.

use super::TcpStream;
use crate::net::halves::halves;
use std::net::SocketAddr;

halves!(TcpStream, SocketAddr);

/// Looking ahead, which only TCP does.
macro_rules! peeks {
    ($half:ty) => {
        impl $half {
            /// Reads what is there without taking it away, for the task that asks
            /// last.
            pub fn poll_peek(
                &mut self,
                cx: &mut Context<'_>,
                buf: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<usize>> {
                self.stream().poll_peek(cx, buf)
            }

            /// Reads what is there without taking it away: the next read finds it
            /// again.
            ///
            /// # Cancel safety
            ///
            /// Dropping the future loses nothing.
            #[track_caller]
            pub fn peek<'p>(
                &'p mut self,
                buf: &'p mut [u8],
            ) -> impl Future<Output = io::Result<usize>> + Send + 'p {
                self.stream().peek(buf)
            }
        }
    };
}
peeks!(ReadHalf<'_>);
peeks!(OwnedReadHalf);
