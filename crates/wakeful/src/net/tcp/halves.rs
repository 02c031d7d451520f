//! The read and write halves of a [`TcpStream`].

use super::TcpStream;
use crate::io::ReadBuf;
use crate::net::halves::halves;
use crate::task::context;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::panic::Location;
use std::task::{Context, Poll};

halves!(
    TcpStream,
    SocketAddr,
    "# let listener = wakeful::net::TcpListener::bind(\"127.0.0.1:0\").await?;
# let client = wakeful::net::TcpStream::connect(listener.local_addr()?).await?;
# let (mut server, _) = listener.accept().await?;"
);

/// Implements `peek` for a read half, which only TCP supports.
macro_rules! peeks {
    ($half:ty) => {
        impl $half {
            /// Polls a read that leaves the bytes in the receive buffer.
            ///
            /// Only the task of the most recent call is woken; see [`peek`](Self::peek).
            ///
            /// # Errors
            ///
            /// Returns the kernel's error.
            ///
            /// # Examples
            ///
            /// ```
            /// # #[wakeful::main(flavor = "current_thread")]
            /// # async fn main() -> std::io::Result<()> {
            /// use std::future::poll_fn;
            /// use wakeful::io::{AsyncWriteExt, ReadBuf};
            /// use wakeful::net::{TcpListener, TcpStream};
            ///
            /// let listener = TcpListener::bind("127.0.0.1:0").await?;
            /// let client = TcpStream::connect(listener.local_addr()?).await?;
            /// let (mut server, _) = listener.accept().await?;
            /// server.write_all(b"hello").await?;
            ///
            /// let (mut read, _write) = client.into_split();
            /// let mut memory = [0; 5];
            /// let mut buf = ReadBuf::new(&mut memory);
            /// let len = poll_fn(|cx| read.poll_peek(cx, &mut buf)).await?;
            /// assert_eq!(buf.filled(), &b"hello"[..len]);
            /// # Ok(())
            /// # }
            /// ```
            pub fn poll_peek(
                &mut self,
                cx: &mut Context<'_>,
                buf: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<usize>> {
                self.stream().poll_peek(cx, buf)
            }

            /// Reads bytes without removing them from the receive buffer.
            ///
            /// Waits until data is available, or the peer has closed its write side. The next read
            /// returns the same bytes.
            ///
            /// # Errors
            ///
            /// Returns the kernel's error.
            ///
            /// # Cancel safety
            ///
            /// Cancel safe. The half keeps the waker of the last poll; see
            /// [`sync`](crate::sync#wakers).
            ///
            /// # Examples
            ///
            /// ```
            /// # #[wakeful::main(flavor = "current_thread")]
            /// # async fn main() -> std::io::Result<()> {
            /// use wakeful::io::{AsyncReadExt, AsyncWriteExt};
            /// use wakeful::net::{TcpListener, TcpStream};
            ///
            /// let listener = TcpListener::bind("127.0.0.1:0").await?;
            /// let client = TcpStream::connect(listener.local_addr()?).await?;
            /// let (mut server, _) = listener.accept().await?;
            /// server.write_all(b"x").await?;
            ///
            /// let (mut read, _write) = client.into_split();
            /// let mut first = [0; 1];
            /// read.peek(&mut first).await?;
            /// assert_eq!(first[0], read.read_u8().await?);
            /// # Ok(())
            /// # }
            /// ```
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
