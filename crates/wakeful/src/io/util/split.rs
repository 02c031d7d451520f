//! One stream in two halves, for two tasks.
//!
//! Rules:
//! - S1. The stream is touched under the lock only. It stays where it is: the
//!   allocation is shared, and it is moved out of it only if it is `Unpin`.
#![allow(unsafe_code)]

use crate::io::{AsyncRead, AsyncWrite, ReadBuf};
use crate::sys::sync::ignore_poison;
use std::fmt;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

/// Splits a stream into a half to read from and a half to write to, which can go
/// to different tasks. [`ReadHalf::unsplit`] makes one of them again.
///
/// Each call on either half takes a lock for its duration. Sockets have methods of
/// their own that split them without one.
pub fn split<T>(stream: T) -> (ReadHalf<T>, WriteHalf<T>)
where
    T: AsyncRead + AsyncWrite,
{
    let is_write_vectored = stream.is_write_vectored();
    let shared = Arc::new(Shared { stream: Mutex::new(stream), is_write_vectored });
    (ReadHalf { shared: shared.clone() }, WriteHalf { shared })
}

/// The half of a stream that is read from; see [`split`].
pub struct ReadHalf<T> {
    shared: Arc<Shared<T>>,
}

/// The half of a stream that is written to; see [`split`].
pub struct WriteHalf<T> {
    shared: Arc<Shared<T>>,
}

struct Shared<T> {
    /// Held while the stream is polled, which is foreign code: a lock that can
    /// put its waiters to sleep.
    stream: Mutex<T>,
    /// Asked once, as the answer must not wait.
    is_write_vectored: bool,
}

impl<T> Shared<T> {
    fn with<R>(&self, f: impl FnOnce(Pin<&mut T>) -> R) -> R {
        // A stream that panicked is itself to say what it does then.
        let mut stream = ignore_poison(self.stream.lock());
        // SAFETY: S1.
        f(unsafe { Pin::new_unchecked(&mut *stream) })
    }
}

impl<T> ReadHalf<T> {
    /// Whether both halves are of the same stream.
    pub fn is_pair_of(&self, other: &WriteHalf<T>) -> bool {
        other.is_pair_of(self)
    }

    /// The stream back, from both of its halves.
    ///
    /// # Panics
    ///
    /// If they are not of the same stream; ask
    /// [`is_pair_of`](Self::is_pair_of) if unsure.
    #[track_caller]
    pub fn unsplit(self, wr: WriteHalf<T>) -> T
    where
        T: Unpin,
    {
        if !self.is_pair_of(&wr) {
            panic!("Unrelated `split::Write` passed to `split::Read::unsplit`.");
        }
        drop(wr);
        let shared = Arc::into_inner(self.shared).expect("there are two halves and no more");
        ignore_poison(shared.stream.into_inner())
    }
}

impl<T> WriteHalf<T> {
    /// Whether both halves are of the same stream.
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

// SAFETY: a shared half gives no access to the stream; `T: Sync` is what is
// promised, not what is needed.
unsafe impl<T: Sync> Sync for ReadHalf<T> {}
// SAFETY: as above.
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
