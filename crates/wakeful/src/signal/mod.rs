//! Asynchronous notification of operating system signals.
//!
//! [`ctrl_c`] waits for Ctrl-C. [`unix::signal`] listens for any kind of signal.
//!
//! Any number of tasks in any number of runtimes may listen for the same signal, and each is
//! notified. Signals of one kind that arrive before a task has polled again are delivered as one.
//!
//! The first listener for a kind permanently replaces the process's default action for that signal.
//! After the first [`ctrl_c`], Ctrl-C no longer terminates the process, even if no task is waiting
//! for it.
//!
//! # Examples
//!
//! Graceful shutdown:
//!
//! ```no_run
//! # #[wakeful::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! wakeful::select! {
//!     result = wakeful::signal::ctrl_c() => result?,
//!     _ = async { /* the server */ std::future::pending::<()>().await } => {}
//! }
//! println!("shutting down");
//! # Ok(())
//! # }
//! ```

// Each runtime with a listener has a `driver::SignalDriver`. It owns an eventfd, the wake_fd, that
// the runtime's poller watches. The kernel runs a handler on some thread. The handler sets the
// pending flag of an `event::SignalEvent` and writes to the wake_fd. The poller then wakes the
// driver, which wakes the tasks that listen for that kind.
#![allow(unsafe_code)]

mod driver;
mod event;
pub mod unix;

#[cfg(all(test, loom))]
mod models;

use std::io;
use std::panic::Location;

/// Waits for Ctrl-C (`SIGINT`).
///
/// The first poll of the future installs the signal handler. From then on, Ctrl-C no longer
/// terminates the process, even if no task waits for it.
///
/// # Errors
///
/// Returns the kernel's error if the signal handler cannot be installed.
///
/// # Panics
///
/// The future panics if polled outside of a runtime with I/O enabled; see
/// [`enable_io`](crate::runtime::Builder::enable_io).
///
/// # Cancel safety
///
/// A signal that arrives after the first poll is lost if the future is dropped. To receive every
/// signal, keep a [`unix::Signal`].
///
/// # Examples
///
/// ```no_run
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// println!("press Ctrl-C to stop");
/// wakeful::signal::ctrl_c().await?;
/// println!("shutting down");
/// # Ok(())
/// # }
/// ```
#[track_caller]
pub fn ctrl_c() -> impl Future<Output = io::Result<()>> {
    let site = Location::caller();
    async move {
        let mut signal = unix::signal(unix::SignalKind::interrupt())?;
        signal.recv_at(site).await;
        Ok(())
    }
}
