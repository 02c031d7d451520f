//! The two halves of a TCP connection.

use super::TcpStream;
use crate::net::halves::halves;
use crate::task::context;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::panic::Location;

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
            /// Dropping the future loses nothing. The half keeps the waker
            /// of the task that asked last: see [`sync`](crate::sync#wakers).
            #[track_caller]
            pub fn peek<'p>(
                &'p mut self,
                buf: &'p mut [u8],
            ) -> impl Future<Output = io::Result<usize>> + Send + 'p {
                let site = Location::caller();
                async move {
                    let mut buf = ReadBuf::new(buf);
                    poll_fn(|cx| {
                        let polled = self.stream().poll_peek(cx, &mut buf);
                        if polled.is_pending() {
                            context::set_wait_site(site);
                        }
                        polled
                    })
                    .await
                }
            }
        }
    };
}
peeks!(ReadHalf<'_>);
peeks!(OwnedReadHalf);
