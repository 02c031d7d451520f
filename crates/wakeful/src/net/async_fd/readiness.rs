//! Readiness waits of an [`AsyncFd`].

use super::{AsyncFd, AsyncFdReadyGuard, AsyncFdReadyMutGuard};
use crate::driver::io_readiness::{Direction, ReadinessSnapshot};
use crate::io::Interest;
use crate::net::stream_io::{readiness_mask, wait_kind};
use crate::task::wait_kind::WaitKind;
use std::io;
use std::os::fd::AsRawFd;
use std::panic::Location;
use std::task::{Context, Poll, ready};

impl<T: AsRawFd> AsyncFd<T> {
    /// Polls for read readiness.
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
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use std::future::poll_fn;
    /// # use std::os::unix::net::UnixStream;
    /// # use wakeful::io::unix::AsyncFd;
    /// # let (a, mut b) = UnixStream::pair()?;
    /// # a.set_nonblocking(true)?;
    /// # // SAFETY: a stream has one descriptor and keeps it open.
    /// # let a = unsafe { AsyncFd::register(a)? };
    /// # std::io::Write::write_all(&mut b, b"x")?;
    ///
    /// // `a` is an `AsyncFd` of a stream with one byte to read.
    /// let guard = poll_fn(|cx| a.poll_read_ready(cx)).await?;
    /// assert!(guard.ready().is_readable());
    /// # Ok(())
    /// # }
    /// ```
    pub fn poll_read_ready<'a>(
        &'a self,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<AsyncFdReadyGuard<'a, T>>> {
        let seen = ready!(self.registration.poll_ready(Direction::Read, cx, WaitKind::IoRead))?;
        Poll::Ready(Ok(self.guard(seen)))
    }

    /// Polls for read readiness, with exclusive access.
    ///
    /// Only the task of the most recent call is woken.
    ///
    /// # Errors
    ///
    /// Returns an error if the runtime has shut down.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use std::future::poll_fn;
    /// # use std::os::unix::net::UnixStream;
    /// # use wakeful::io::unix::AsyncFd;
    /// # let (a, mut b) = UnixStream::pair()?;
    /// # a.set_nonblocking(true)?;
    /// # // SAFETY: a stream has one descriptor and keeps it open.
    /// # let mut a = unsafe { AsyncFd::register(a)? };
    /// # std::io::Write::write_all(&mut b, b"x")?;
    ///
    /// // `a` is an `AsyncFd` of a stream with one byte to read.
    /// let is_readable = |ready: wakeful::io::Ready| ready.is_readable();
    /// let ready = poll_fn(|cx| a.poll_read_ready_mut(cx).map_ok(|guard| guard.ready())).await?;
    /// assert!(is_readable(ready));
    /// # Ok(())
    /// # }
    /// ```
    pub fn poll_read_ready_mut<'a>(
        &'a mut self,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<AsyncFdReadyMutGuard<'a, T>>> {
        let seen = ready!(self.registration.poll_ready(Direction::Read, cx, WaitKind::IoRead))?;
        Poll::Ready(Ok(self.guard_mut(seen)))
    }

    /// Polls for write readiness.
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
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use std::future::poll_fn;
    /// # use std::os::unix::net::UnixStream;
    /// # use wakeful::io::unix::AsyncFd;
    /// # let (a, _b) = UnixStream::pair()?;
    /// # a.set_nonblocking(true)?;
    /// # // SAFETY: a stream has one descriptor and keeps it open.
    /// # let a = unsafe { AsyncFd::register(a)? };
    ///
    /// // `a` is an `AsyncFd` of a stream.
    /// let guard = poll_fn(|cx| a.poll_write_ready(cx)).await?;
    /// assert!(guard.ready().is_writable());
    /// # Ok(())
    /// # }
    /// ```
    pub fn poll_write_ready<'a>(
        &'a self,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<AsyncFdReadyGuard<'a, T>>> {
        let seen = ready!(self.registration.poll_ready(Direction::Write, cx, WaitKind::IoWrite))?;
        Poll::Ready(Ok(self.guard(seen)))
    }

    /// Polls for write readiness, with exclusive access.
    ///
    /// Only the task of the most recent call is woken.
    ///
    /// # Errors
    ///
    /// Returns an error if the runtime has shut down.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use std::future::poll_fn;
    /// # use std::os::unix::net::UnixStream;
    /// # use wakeful::io::unix::AsyncFd;
    /// # let (a, _b) = UnixStream::pair()?;
    /// # a.set_nonblocking(true)?;
    /// # // SAFETY: a stream has one descriptor and keeps it open.
    /// # let mut a = unsafe { AsyncFd::register(a)? };
    ///
    /// // `a` is an `AsyncFd` of a stream.
    /// let ready = poll_fn(|cx| a.poll_write_ready_mut(cx).map_ok(|guard| guard.ready())).await?;
    /// assert!(ready.is_writable());
    /// # Ok(())
    /// # }
    /// ```
    pub fn poll_write_ready_mut<'a>(
        &'a mut self,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<AsyncFdReadyMutGuard<'a, T>>> {
        let seen = ready!(self.registration.poll_ready(Direction::Write, cx, WaitKind::IoWrite))?;
        Poll::Ready(Ok(self.guard_mut(seen)))
    }

    fn guard(&self, seen: ReadinessSnapshot) -> AsyncFdReadyGuard<'_, T> {
        AsyncFdReadyGuard { async_fd: self, seen: Some(seen) }
    }

    fn guard_mut(&mut self, seen: ReadinessSnapshot) -> AsyncFdReadyMutGuard<'_, T> {
        AsyncFdReadyMutGuard { async_fd: self, seen: Some(seen) }
    }

    /// Waits until the descriptor is ready for any of `interest`.
    ///
    /// `interest` must be a subset of the interest with which the descriptor was registered.
    ///
    /// # Errors
    ///
    /// Returns an error if the runtime has shut down.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. The descriptor stays ready until its readiness is cleared.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use std::os::unix::net::UnixStream;
    /// use wakeful::io::Interest;
    /// use wakeful::io::unix::AsyncFd;
    ///
    /// let (a, _b) = UnixStream::pair()?;
    /// a.set_nonblocking(true)?;
    /// // SAFETY: a stream has one descriptor and keeps it open.
    /// let a = unsafe { AsyncFd::register(a)? };
    /// let guard = a.ready(Interest::READABLE | Interest::WRITABLE).await?;
    /// assert!(guard.ready().is_writable() && !guard.ready().is_readable());
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn ready(
        &self,
        interest: Interest,
    ) -> impl Future<Output = io::Result<AsyncFdReadyGuard<'_, T>>> {
        let site = Location::caller();
        let ready = self.registration.ready(readiness_mask(interest), wait_kind(interest), site);
        async move { Ok(self.guard(ready.await?)) }
    }

    /// Waits until the descriptor is ready for any of `interest`, with exclusive access.
    ///
    /// # Errors
    ///
    /// Returns an error if the runtime has shut down.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. The descriptor stays ready until its readiness is cleared.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::io::Interest;
    /// # use std::os::unix::net::UnixStream;
    /// # use wakeful::io::unix::AsyncFd;
    /// # let (a, _b) = UnixStream::pair()?;
    /// # a.set_nonblocking(true)?;
    /// # // SAFETY: a stream has one descriptor and keeps it open.
    /// # let mut a = unsafe { AsyncFd::register(a)? };
    ///
    /// // `a` is an `AsyncFd` of a stream.
    /// let guard = a.ready_mut(Interest::READABLE | Interest::WRITABLE).await?;
    /// assert!(guard.ready().is_writable());
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn ready_mut(
        &mut self,
        interest: Interest,
    ) -> impl Future<Output = io::Result<AsyncFdReadyMutGuard<'_, T>>> {
        let site = Location::caller();
        async move {
            let ready =
                self.registration.ready(readiness_mask(interest), wait_kind(interest), site);
            let seen = ready.await?;
            Ok(self.guard_mut(seen))
        }
    }

    /// Waits until the descriptor is readable, or its read side is closed.
    ///
    /// # Errors
    ///
    /// Returns an error if the runtime has shut down.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. The descriptor stays readable until its readiness is cleared.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use std::io::{Read, Write};
    /// use std::os::unix::net::UnixStream;
    /// use wakeful::io::unix::AsyncFd;
    ///
    /// let (a, mut b) = UnixStream::pair()?;
    /// a.set_nonblocking(true)?;
    /// // SAFETY: a stream has one descriptor and keeps it open.
    /// let a = unsafe { AsyncFd::register(a)? };
    /// b.write_all(b"hello")?;
    /// let mut guard = a.readable().await?;
    /// let mut buf = [0; 8];
    /// assert_eq!(guard.try_io(|a| a.get_ref().read(&mut buf)).unwrap()?, 5);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn readable(&self) -> impl Future<Output = io::Result<AsyncFdReadyGuard<'_, T>>> {
        self.ready(Interest::READABLE)
    }

    /// Waits until the descriptor is readable, with exclusive access.
    ///
    /// # Errors
    ///
    /// Returns an error if the runtime has shut down.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. The descriptor stays readable until its readiness is cleared.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use std::io::{Read, Write};
    /// use std::os::unix::net::UnixStream;
    /// use wakeful::io::unix::AsyncFd;
    ///
    /// let (a, mut b) = UnixStream::pair()?;
    /// a.set_nonblocking(true)?;
    /// // SAFETY: a stream has one descriptor and keeps it open.
    /// let mut a = unsafe { AsyncFd::register(a)? };
    /// b.write_all(b"hello")?;
    /// let mut guard = a.readable_mut().await?;
    /// let mut buf = [0; 8];
    /// assert_eq!(guard.try_io(|a| a.get_mut().read(&mut buf)).unwrap()?, 5);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn readable_mut(
        &mut self,
    ) -> impl Future<Output = io::Result<AsyncFdReadyMutGuard<'_, T>>> {
        self.ready_mut(Interest::READABLE)
    }

    /// Waits until the descriptor is writable, or its write side is closed.
    ///
    /// # Errors
    ///
    /// Returns an error if the runtime has shut down.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. The descriptor stays writable until its readiness is cleared.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use std::io::Write;
    /// use std::os::unix::net::UnixStream;
    /// use wakeful::io::unix::AsyncFd;
    ///
    /// let (a, _b) = UnixStream::pair()?;
    /// a.set_nonblocking(true)?;
    /// // SAFETY: a stream has one descriptor and keeps it open.
    /// let a = unsafe { AsyncFd::register(a)? };
    /// let mut guard = a.writable().await?;
    /// assert_eq!(guard.try_io(|a| a.get_ref().write(b"hello")).unwrap()?, 5);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn writable(&self) -> impl Future<Output = io::Result<AsyncFdReadyGuard<'_, T>>> {
        self.ready(Interest::WRITABLE)
    }

    /// Waits until the descriptor is writable, with exclusive access.
    ///
    /// # Errors
    ///
    /// Returns an error if the runtime has shut down.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. The descriptor stays writable until its readiness is cleared.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use std::io::Write;
    /// use std::os::unix::net::UnixStream;
    /// use wakeful::io::unix::AsyncFd;
    ///
    /// let (a, _b) = UnixStream::pair()?;
    /// a.set_nonblocking(true)?;
    /// // SAFETY: a stream has one descriptor and keeps it open.
    /// let mut a = unsafe { AsyncFd::register(a)? };
    /// let mut guard = a.writable_mut().await?;
    /// assert_eq!(guard.try_io(|a| a.get_mut().write(b"hello")).unwrap()?, 5);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn writable_mut(
        &mut self,
    ) -> impl Future<Output = io::Result<AsyncFdReadyMutGuard<'_, T>>> {
        self.ready_mut(Interest::WRITABLE)
    }
}
