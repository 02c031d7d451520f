//! Signals from the operating system, as something to wait for.
//!
//! ```no_run
//! # #[wakeful::main]
//! # async fn main() -> std::io::Result<()> {
//! wakeful::signal::ctrl_c().await?;
//! println!("shutting down");
//! # Ok(())
//! # }
//! ```
//!
//! Any number of tasks in any number of runtimes may wait for the same signal; each
//! gets it. Signals of one kind that come before a task has looked are one.
//!
//! Once a kind was asked for, the process no longer does what it would have done
//! without: after the first [`ctrl_c`], Ctrl-C does not end the process any more, even
//! when nobody waits for it.

// Inside: each runtime that was asked for a signal has a `driver::SignalDriver`, with an event
// counter that its poller watches and the handlers write to. Control enters from the
// system in a handler, which sets a flag and rings, comes back in when the poller
// finds the counter changed and wakes the hub, and leaves through the wakers of those
// who wait for that kind.
#![allow(unsafe_code)]

mod driver;
mod slot;
pub mod unix;

#[cfg(all(test, loom))]
mod models;

use std::io;
use std::panic::Location;

/// Waits for Ctrl-C, which is the signal `SIGINT`; the process listens from the first
/// poll on.
///
/// # Errors
///
/// If the system does not let it listen.
///
/// # Panics
///
/// The future panics when it is polled outside of a runtime with I/O.
///
/// # Cancel safety
///
/// Dropping the future loses nothing that came before its first poll; what came after
/// counts as seen.
#[track_caller]
pub fn ctrl_c() -> impl Future<Output = io::Result<()>> {
    let site = Location::caller();
    async move {
        let mut signal = unix::signal(unix::SignalKind::interrupt())?;
        signal.recv_at(site).await;
        Ok(())
    }
}
