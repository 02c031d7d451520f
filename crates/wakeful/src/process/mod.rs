//! Child processes.
//!
//! A [`Command`] describes a process to start, as [`std::process::Command`] does. A [`Child`] is a
//! running process.
//!
//! # Examples
//!
//! Running a program and collecting its output:
//!
//! ```
//! # #[wakeful::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! use wakeful::process::Command;
//!
//! let output = Command::new("echo").arg("hello").output().await?;
//! assert!(output.status.success());
//! assert_eq!(output.stdout, b"hello\n");
//! # Ok(())
//! # }
//! ```
//!
//! Exchanging data with a child through pipes:
//!
//! ```
//! # #[wakeful::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! use std::process::Stdio;
//! use wakeful::io::{AsyncReadExt, AsyncWriteExt};
//! use wakeful::process::Command;
//!
//! let mut cat = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
//! let mut input = cat.stdin.take().expect("stdin is piped");
//! let mut output = cat.stdout.take().expect("stdout is piped");
//! input.write_all(b"hello").await?;
//! drop(input); // closes the child's standard input
//! let mut text = String::new();
//! output.read_to_string(&mut text).await?;
//! assert_eq!(text, "hello");
//! assert!(cat.wait().await?.success());
//! # Ok(())
//! # }
//! ```
//!
//! # Dropping a child
//!
//! Dropping a [`Child`] does not kill the process, unless [`kill_on_drop`](Command::kill_on_drop)
//! is set. The runtime reaps the process when it exits, so that it does not stay a zombie. A child
//! that outlives its runtime is reaped when the program next starts or waits for a child process on
//! any runtime.

// A `Child` owns a `reaper::RunningChild` until its exit status is known. The `RunningChild` waits
// for a pidfd, which the runtime's poller watches, or for SIGCHLD if the kernel has no pidfds. The
// poller or the signal driver wakes the waiting task. If the `Child` was dropped, a
// `reaper::OrphanChild` is woken instead, which reaps the process.
#![allow(unsafe_code)]

mod child;
mod command;
mod pipes;
mod reaper;

pub use child::Child;
pub use command::Command;
pub use pipes::{ChildStderr, ChildStdin, ChildStdout};
