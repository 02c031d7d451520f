//! Standard input, output and error, served by the blocking pool.
//!
//! The standard streams may be files or terminals, which the poller cannot watch in general. A
//! [`BlockingStream`] moves the bytes of one direction between a task and pool threads. Each poll
//! hands a closure to the pool, and the task waits until the closure has run.

mod blocking_stream;

use crate::io::{AsyncRead, AsyncWrite, ReadBuf};
use crate::runtime::simulated::refuse_in_simulation;
use crate::task::wait_kind::WaitKind;
use blocking_stream::BlockingStream;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The standard input of the process, created by [`stdin`].
///
/// # Examples
///
/// ```no_run
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use wakeful::io::{AsyncBufReadExt, BufReader, Stdin, stdin};
///
/// let input: Stdin = stdin();
/// let mut lines = BufReader::new(input).lines();
/// while let Some(line) = lines.next_line().await? {
///     println!("{line}");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Stdin {
    stream: BlockingStream,
}

/// The standard output of the process, created by [`stdout`].
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use wakeful::io::{AsyncWriteExt, Stdout, stdout};
///
/// let mut out: Stdout = stdout();
/// out.write_all(b"hello\n").await?;
/// out.flush().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Stdout {
    stream: BlockingStream,
}

/// The standard error of the process, created by [`stderr`].
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use wakeful::io::{AsyncWriteExt, Stderr, stderr};
///
/// let mut err: Stderr = stderr();
/// err.write_all(b"failed\n").await?;
/// err.flush().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Stderr {
    stream: BlockingStream,
}

/// Returns a handle to the standard input of the process.
///
/// A thread of the blocking pool reads from [`std::io::stdin`], whose buffer and lock all handles
/// share. A read that has started cannot be cancelled. If the runtime is dropped during the read,
/// it waits for the next input, which is lost. An interactive program should therefore read on a
/// dedicated thread and send the input through a channel.
///
/// # Panics
///
/// Reading panics if polled outside of a runtime.
///
/// # Examples
///
/// ```no_run
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use wakeful::io::{self, AsyncBufReadExt, BufReader};
///
/// let mut lines = BufReader::new(io::stdin()).lines();
/// while let Some(line) = lines.next_line().await? {
///     println!("read {line}");
/// }
/// # Ok(())
/// # }
/// ```
#[track_caller]
pub fn stdin() -> Stdin {
    Stdin { stream: BlockingStream::new("stdin", WaitKind::Stdin, Location::caller()) }
}

/// Returns a handle to the standard output of the process.
///
/// A thread of the blocking pool writes to [`std::io::stdout`]. Accepted bytes are written even if
/// the runtime shuts down immediately afterwards. But only
/// [`flush`](crate::io::AsyncWriteExt::flush) waits until they are written, flushes std's line
/// buffer, and reports errors.
///
/// Each write of at most 2 MiB is written in one piece. The order of writes through several handles
/// is unspecified.
///
/// # Panics
///
/// Writing panics if polled outside of a runtime.
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use wakeful::io::{self, AsyncWriteExt};
///
/// let mut out = io::stdout();
/// out.write_all(b"hello\n").await?;
/// out.flush().await?;
/// # Ok(())
/// # }
/// ```
#[track_caller]
pub fn stdout() -> Stdout {
    Stdout { stream: BlockingStream::new("stdout", WaitKind::Stdout, Location::caller()) }
}

/// Returns a handle to the standard error of the process.
///
/// A thread of the blocking pool writes to [`std::io::stderr`]. Accepted bytes are written even if
/// the runtime shuts down immediately afterwards. But only
/// [`flush`](crate::io::AsyncWriteExt::flush) waits until they are written, and reports errors.
///
/// # Panics
///
/// Writing panics if polled outside of a runtime.
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use wakeful::io::{self, AsyncWriteExt};
///
/// let mut err = io::stderr();
/// err.write_all(b"warning\n").await?;
/// err.flush().await?;
/// # Ok(())
/// # }
/// ```
#[track_caller]
pub fn stderr() -> Stderr {
    Stderr { stream: BlockingStream::new("stderr", WaitKind::Stdout, Location::caller()) }
}

impl AsyncRead for Stdin {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        refuse_in_simulation("`io::stdin`")?;
        self.stream.poll_read(cx, buf, |space| io::stdin().read(space))
    }
}

/// Implements [`AsyncWrite`] for the two output streams.
macro_rules! writers {
    ($($writer:ident: $of_std:path;)+) => {$(
        impl AsyncWrite for $writer {
            fn poll_write(
                mut self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &[u8],
            ) -> Poll<io::Result<usize>> {
                self.stream.poll_write(cx, buf, |bytes| $of_std().write_all(bytes))
            }

            fn poll_flush(
                mut self: Pin<&mut Self>,
                cx: &mut Context<'_>,
            ) -> Poll<io::Result<()>> {
                self.stream.poll_flush(cx, || $of_std().flush())
            }

            /// Flushes. The stream belongs to the whole process and stays open.
            fn poll_shutdown(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
            ) -> Poll<io::Result<()>> {
                self.poll_flush(cx)
            }
        }
    )+};
}
writers! {
    Stdout: io::stdout;
    Stderr: io::stderr;
}

macro_rules! descriptors {
    ($($stream:ident: $number:path;)+) => {$(
        impl AsFd for $stream {
            fn as_fd(&self) -> BorrowedFd<'_> {
                $number()
            }
        }

        impl AsRawFd for $stream {
            fn as_raw_fd(&self) -> RawFd {
                self.as_fd().as_raw_fd()
            }
        }
    )+};
}
descriptors! {
    Stdin: rustix::stdio::stdin;
    Stdout: rustix::stdio::stdout;
    Stderr: rustix::stdio::stderr;
}
