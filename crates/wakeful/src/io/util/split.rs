//! [`split`], which splits one stream into two halves, for two tasks.
//!
//! Rules:
//! - SPLIT-1. The stream is accessed only under the lock. It does not move: it stays in the shared
//!   allocation, and is moved out of it only if it is `Unpin`.
#![allow(unsafe_code)]

use crate::io::{AsyncRead, AsyncWrite, ReadBuf};
use crate::sys::sync::ignore_poison;
use std::fmt;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

/// Splits a stream into a read half and a write half, for use in different tasks.
///
/// [`ReadHalf::unsplit`] recombines the halves. Each operation on a half acquires a lock. Sockets
/// can be split without a lock, with methods such as
/// [`TcpStream::into_split`](crate::net::TcpStream::into_split).
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use wakeful::io::{self, AsyncReadExt, AsyncWriteExt};
///
/// let (mut client, server) = io::duplex(64);
/// let (mut read, mut write) = io::split(server);
/// let echo = wakeful::spawn(async move { io::copy(&mut read, &mut write).await });
///
/// client.write_all(b"hello").await?;
/// client.shutdown().await?;
/// let mut text = String::new();
/// client.read_to_string(&mut text).await?;
/// assert_eq!(text, "hello");
/// assert_eq!(echo.await.unwrap()?, 5);
/// # Ok(())
/// # }
/// ```
pub fn split<T>(stream: T) -> (ReadHalf<T>, WriteHalf<T>)
where
    T: AsyncRead + AsyncWrite,
{
    let is_write_vectored = stream.is_write_vectored();
    let shared = Arc::new(Shared { stream: Mutex::new(stream), is_write_vectored });
    (ReadHalf { shared: shared.clone() }, WriteHalf { shared })
}

/// The read half of a stream, created by [`split`].
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use wakeful::io::{AsyncReadExt, AsyncWriteExt, duplex, split};
///
/// let (client, mut server) = duplex(64);
/// let (mut read, write) = split(client);
/// server.write_all(b"hello").await?;
/// let mut text = [0; 5];
/// read.read_exact(&mut text).await?;
/// assert_eq!(&text, b"hello");
/// let _client = read.unsplit(write);
/// # Ok(())
/// # }
/// ```
pub struct ReadHalf<T> {
    shared: Arc<Shared<T>>,
}

/// The write half of a stream, created by [`split`].
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use wakeful::io::{AsyncReadExt, AsyncWriteExt, duplex, split};
///
/// let (client, mut server) = duplex(64);
/// let (_read, mut write) = split(client);
/// write.write_all(b"bye").await?;
/// write.shutdown().await?;
/// let mut text = String::new();
/// server.read_to_string(&mut text).await?;
/// assert_eq!(text, "bye");
/// # Ok(())
/// # }
/// ```
pub struct WriteHalf<T> {
    shared: Arc<Shared<T>>,
}

struct Shared<T> {
    /// The lock is held while the stream is polled, which runs foreign code. So waiters sleep
    /// instead of spinning.
    stream: Mutex<T>,
    /// Determined once, because `is_write_vectored` must not wait for the lock.
    is_write_vectored: bool,
}

impl<T> Shared<T> {
    fn with<R>(&self, f: impl FnOnce(Pin<&mut T>) -> R) -> R {
        // If the stream panicked, its own methods decide what happens next.
        let mut stream = ignore_poison(self.stream.lock());
        // SAFETY: SPLIT-1.
        f(unsafe { Pin::new_unchecked(&mut *stream) })
    }
}

impl<T> ReadHalf<T> {
    /// Returns whether both halves belong to the same stream.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::io::{duplex, split};
    ///
    /// let (a, b) = duplex(64);
    /// let ((a_read, a_write), (_b_read, b_write)) = (split(a), split(b));
    /// assert!(a_read.is_pair_of(&a_write));
    /// assert!(!a_read.is_pair_of(&b_write));
    /// ```
    pub fn is_pair_of(&self, other: &WriteHalf<T>) -> bool {
        other.is_pair_of(self)
    }

    /// Recombines the two halves into the stream.
    ///
    /// # Panics
    ///
    /// Panics if the halves belong to different streams; see [`is_pair_of`](Self::is_pair_of).
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::io::{duplex, split};
    ///
    /// let (a, _b) = duplex(64);
    /// let (read, write) = split(a);
    /// let _a = read.unsplit(write);
    /// ```
    #[track_caller]
    pub fn unsplit(self, wr: WriteHalf<T>) -> T
    where
        T: Unpin,
    {
        if !self.is_pair_of(&wr) {
            panic!("Unrelated `split::Write` passed to `split::Read::unsplit`.");
        }
        drop(wr);
        let shared =
            Arc::into_inner(self.shared).expect("the write half held the only other reference");
        ignore_poison(shared.stream.into_inner())
    }
}

impl<T> WriteHalf<T> {
    /// Returns whether both halves belong to the same stream.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::io::{duplex, split};
    ///
    /// let (a, b) = duplex(64);
    /// let ((read_a, write_a), (read_b, _)) = (split(a), split(b));
    /// assert!(write_a.is_pair_of(&read_a));
    /// assert!(!write_a.is_pair_of(&read_b));
    /// ```
    pub fn is_pair_of(&self, other: &ReadHalf<T>) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }
}

impl<T: AsyncRead> AsyncRead for ReadHalf<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.shared.with(|stream| stream.poll_read(cx, buf))
    }
}

impl<T: AsyncWrite> AsyncWrite for WriteHalf<T> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.shared.with(|stream| stream.poll_write(cx, buf))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.shared.with(|stream| stream.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.shared.with(|stream| stream.poll_shutdown(cx))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.shared.with(|stream| stream.poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        self.shared.is_write_vectored
    }
}

// SAFETY: a shared reference to a half gives no access to the stream. `T: Sync` is the documented
// bound, not a requirement.
unsafe impl<T: Sync> Sync for ReadHalf<T> {}
// SAFETY: a shared reference to a half gives no access to the stream. `T: Sync` is the documented
// bound, not a requirement.
unsafe impl<T: Sync> Sync for WriteHalf<T> {}

impl<T: fmt::Debug> fmt::Debug for ReadHalf<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("split::ReadHalf").finish()
    }
}

impl<T: fmt::Debug> fmt::Debug for WriteHalf<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("split::WriteHalf").finish()
    }
}
