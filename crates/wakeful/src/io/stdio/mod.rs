//! Standard input, output and error, on the blocking pool: these may be files or
//! terminals, which no poller can watch for all systems and all kinds.
//!
//! - [`Stdin`], [`Stdout`] and [`Stderr`] are what users see, in `io`.
//! - `lane`: a [`Lane`](lane::Lane) is the way of bytes between a task and the pool
//!   threads, in one direction.
//!
//! Control enters by a poll to read or write, and leaves through the closure that a
//! lane hands to the pool; the task waits for that closure's end.

mod blocking_stream;

use crate::io::{AsyncRead, AsyncWrite, ReadBuf};
use crate::task::wait_kind::WaitKind;
use blocking_stream::Lane;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The standard input of the process; see [`stdin`].
#[derive(Debug)]
pub struct Stdin {
    lane: Lane,
}

/// The standard output of the process; see [`stdout`].
#[derive(Debug)]
pub struct Stdout {
    lane: Lane,
}

/// The standard error of the process; see [`stderr`].
#[derive(Debug)]
pub struct Stderr {
    lane: Lane,
}

/// The standard input of the process, to be read from a task.
///
/// A thread of the blocking pool reads, and it cannot be called back: a runtime
/// that is dropped while a read is on its way waits for the next input, and what
/// that read brings is lost. So a program that talks to a person had better read on
/// a thread of its own, and send what it reads through a channel.
///
/// It reads from [`std::io::stdin`], whose buffer and lock are shared by all.
///
/// # Panics
///
/// Reading panics outside of a runtime.
#[track_caller]
pub fn stdin() -> Stdin {
    Stdin { lane: Lane::new("stdin", WaitKind::Stdin, Location::caller()) }
}

/// The standard output of the process, to be written to from a task.
///
/// A thread of the blocking pool writes to [`std::io::stdout`]. What was accepted is
/// written, also if the runtime is shut down at once; but only
/// [`flush`](crate::io::AsyncWriteExt::flush) waits until it was, gets it out of
/// std's buffer if it does not end with a line, and learns of the errors.
///
/// Each write of at most 2 MiB is one piece. What several tasks write through several
/// handles comes in any order.
///
/// ```
/// use wakeful::io::{self, AsyncWriteExt};
///
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() -> io::Result<()> {
/// let mut out = io::stdout();
/// out.write_all(b"hello\n").await?;
/// out.flush().await?;
/// # Ok(())
/// # }
/// ```
///
/// # Panics
///
/// Writing panics outside of a runtime.
#[track_caller]
pub fn stdout() -> Stdout {
    Stdout { lane: Lane::new("stdout", WaitKind::Stdout, Location::caller()) }
}

/// The standard error of the process, to be written to from a task; otherwise as
/// [`stdout`].
///
/// # Panics
///
/// Writing panics outside of a runtime.
#[track_caller]
pub fn stderr() -> Stderr {
    Stderr { lane: Lane::new("stderr", WaitKind::Stdout, Location::caller()) }
}

impl AsyncRead for Stdin {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.lane.poll_read(cx, buf, |space| io::stdin().read(space))
    }
}

/// The two that are written to.
macro_rules! writers {
    ($($writer:ident: $of_std:path;)+) => {$(
        impl AsyncWrite for $writer {
            fn poll_write(
                mut self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &[u8],
            ) -> Poll<io::Result<usize>> {
                self.lane.poll_write(cx, buf, |bytes| $of_std().write_all(bytes))
            }

            fn poll_flush(
                mut self: Pin<&mut Self>,
                cx: &mut Context<'_>,
            ) -> Poll<io::Result<()>> {
                self.lane.poll_flush(cx, || $of_std().flush())
            }

            /// As a flush: the stream is the whole process's, and stays open.
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
