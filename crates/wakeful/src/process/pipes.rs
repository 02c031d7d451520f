//! The parent's ends of the pipes to a child process.

use crate::io::{AsyncRead, AsyncWrite, ReadBuf};
use crate::net::unix::pipe;
use rustix::fs::OFlags;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::pin::Pin;
use std::process::Stdio;
use std::task::{Context, Poll};

/// The write end of a child's standard input.
///
/// Dropping it closes the pipe, so that the child reads end-of-file. Write with the methods of
/// [`AsyncWriteExt`](crate::io::AsyncWriteExt).
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use std::process::Stdio;
/// use wakeful::io::AsyncWriteExt;
/// use wakeful::process::Command;
///
/// let mut cat = Command::new("cat");
/// let mut child = cat.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
/// let mut stdin = child.stdin.take().unwrap();
/// stdin.write_all(b"hello").await?;
/// drop(stdin); // the end of the input
/// assert_eq!(child.wait_with_output().await?.stdout, b"hello");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ChildStdin {
    pipe: pipe::Sender,
}

/// The read end of a child's standard output.
///
/// Read with the methods of [`AsyncReadExt`](crate::io::AsyncReadExt).
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use std::process::Stdio;
/// use wakeful::io::{AsyncBufReadExt, BufReader};
/// use wakeful::process::Command;
///
/// let mut child = Command::new("echo").arg("hello").stdout(Stdio::piped()).spawn()?;
/// let stdout = child.stdout.take().expect("stdout is piped");
/// let mut lines = BufReader::new(stdout).lines();
/// assert_eq!(lines.next_line().await?.as_deref(), Some("hello"));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ChildStdout {
    pipe: pipe::Receiver,
}

/// The read end of a child's standard error.
///
/// Read with the methods of [`AsyncReadExt`](crate::io::AsyncReadExt).
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use std::process::Stdio;
/// use wakeful::io::AsyncReadExt;
/// use wakeful::process::Command;
///
/// let mut command = Command::new("sh");
/// let mut child = command.args(["-c", "echo failed >&2"]).stderr(Stdio::piped()).spawn()?;
/// let mut text = String::new();
/// child.stderr.take().unwrap().read_to_string(&mut text).await?;
/// assert_eq!(text, "failed\n");
/// # child.wait().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ChildStderr {
    pipe: pipe::Receiver,
}

fn nonblocking(fd: OwnedFd) -> io::Result<OwnedFd> {
    let flags = rustix::fs::fcntl_getfl(&fd)?;
    rustix::fs::fcntl_setfl(&fd, flags | OFlags::NONBLOCK)?;
    Ok(fd)
}

/// Implements the methods common to all three ends.
macro_rules! ends {
    ($($end:ident: $pipe:ident;)+) => {$(
        impl $end {
            /// Converts a pipe of the standard library and switches it to non-blocking mode.
            ///
            /// # Errors
            ///
            /// Returns the kernel's error.
            ///
            /// # Panics
            ///
            /// Panics if called outside of a runtime with I/O enabled; see
            /// [`enable_io`](crate::runtime::Builder::enable_io).
            ///
            /// # Examples
            ///
            /// ```
            /// # #[wakeful::main(flavor = "current_thread")]
            /// # async fn main() -> std::io::Result<()> {
            /// use std::process::{Command, Stdio};
            /// use wakeful::io::AsyncReadExt;
            /// use wakeful::process::ChildStdout;
            ///
            /// let mut child = Command::new("echo").arg("hello").stdout(Stdio::piped()).spawn()?;
            /// let mut stdout = ChildStdout::from_std(child.stdout.take().unwrap())?;
            /// let mut text = String::new();
            /// stdout.read_to_string(&mut text).await?;
            /// assert_eq!(text, "hello\n");
            /// # child.wait()?;
            /// # Ok(())
            /// # }
            /// ```
            #[track_caller]
            pub fn from_std(inner: std::process::$end) -> io::Result<Self> {
                let fd = nonblocking(inner.into())?;
                Ok(Self { pipe: pipe::$pipe::from_owned_fd_unchecked(fd)? })
            }

            /// Converts into an owned descriptor, in blocking mode.
            ///
            /// # Errors
            ///
            /// Returns the kernel's error.
            ///
            /// # Examples
            ///
            /// A pipeline of two children:
            ///
            /// ```
            /// # #[wakeful::main(flavor = "current_thread")]
            /// # async fn main() -> std::io::Result<()> {
            /// use std::process::Stdio;
            /// use wakeful::process::Command;
            ///
            /// let mut echo = Command::new("echo").arg("hello").stdout(Stdio::piped()).spawn()?;
            /// let stdout: Stdio = echo.stdout.take().expect("stdout is piped").try_into()?;
            /// let output = Command::new("cat").stdin(stdout).output().await?;
            /// assert_eq!(output.stdout, b"hello\n");
            /// # Ok(())
            /// # }
            /// ```
            pub fn into_owned_fd(self) -> io::Result<OwnedFd> {
                self.pipe.into_blocking_fd()
            }
        }

        /// Converts the pipe for use as a standard stream of another child.
        impl TryFrom<$end> for Stdio {
            type Error = io::Error;

            fn try_from(end: $end) -> io::Result<Stdio> {
                Ok(end.into_owned_fd()?.into())
            }
        }

        impl AsFd for $end {
            fn as_fd(&self) -> BorrowedFd<'_> {
                self.pipe.as_fd()
            }
        }

        impl AsRawFd for $end {
            fn as_raw_fd(&self) -> RawFd {
                self.pipe.as_raw_fd()
            }
        }
    )+};
}
ends! {
    ChildStdin: Sender;
    ChildStdout: Receiver;
    ChildStderr: Receiver;
}

impl AsyncWrite for ChildStdin {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.pipe).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.pipe).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.pipe.is_write_vectored()
    }

    /// Does nothing: the pipe has no user-space buffer.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Does nothing: a pipe is closed by dropping it.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

macro_rules! readers {
    ($($end:ident)+) => {$(
        impl AsyncRead for $end {
            fn poll_read(
                mut self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                Pin::new(&mut self.pipe).poll_read(cx, buf)
            }
        }
    )+};
}
readers!(ChildStdout ChildStderr);
