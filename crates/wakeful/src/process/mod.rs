//! Child processes.
//!
//! ```
//! use wakeful::process::Command;
//!
//! # #[wakeful::main]
//! # async fn main() -> std::io::Result<()> {
//! let output = Command::new("echo").arg("hello").output().await?;
//! assert!(output.status.success());
//! assert_eq!(output.stdout, b"hello\n");
//! # Ok(())
//! # }
//! ```
//!
//! A [`Command`] says what to run, as [`std::process::Command`] does; a [`Child`] is
//! the process that runs. To talk to it, ask for a pipe:
//!
//! ```
//! use std::process::Stdio;
//! use wakeful::io::{AsyncReadExt, AsyncWriteExt};
//! use wakeful::process::Command;
//!
//! # #[wakeful::main]
//! # async fn main() -> std::io::Result<()> {
//! let mut cat = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
//! let mut input = cat.stdin.take().expect("piped above");
//! let mut output = cat.stdout.take().expect("piped above");
//! input.write_all(b"there and back").await?;
//! drop(input); // the end, for cat
//! let mut text = String::new();
//! output.read_to_string(&mut text).await?;
//! assert_eq!(text, "there and back");
//! assert!(cat.wait().await?.success());
//! # Ok(())
//! # }
//! ```
//!
//! A child goes on when its [`Child`] is dropped, unless
//! [`kill_on_drop`](Command::kill_on_drop) says otherwise. Nobody has to wait for it:
//! the runtime does, so that it does not stay in the system's table of processes
//! after its end. A child that outlives the runtime is looked after when the program
//! next starts a process on any runtime.

// Inside: a `Child` has a `reaper::Running` until its end is known. That waits with a
// descriptor of the process (a pidfd), which the runtime's poller watches, or, where
// the kernel has none, with the signal SIGCHLD. Control enters from the poller or the
// signal hub through a waker: a task's, or that of a `reaper::OrphanChild`, a child nobody
// waits for.
#![allow(unsafe_code)]

mod child;
mod command;
mod pipes;
mod reaper;

pub use child::Child;
pub use command::Command;
pub use pipes::{ChildStderr, ChildStdin, ChildStdout};
