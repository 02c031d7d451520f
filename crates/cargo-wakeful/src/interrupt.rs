//! What happens when this program is told to end while cargo runs: cargo is to end, and this program does after it,
//! when the lock file is back.

use crate::Failure;
use rustix::process::{Pid, Signal, kill_process};
use std::io;
use std::process::{Child, ExitStatus};
use std::sync::atomic::{AtomicI32, Ordering::SeqCst};

/// The number of the cargo that is waited for; 0 if there is none.
static CARGO: AtomicI32 = AtomicI32::new(0);

/// From now on, this program outlives the cargo that it waits for. Ctrl-C reaches both by itself; a request to end is
/// passed on.
pub fn outlive_cargo() -> Result<(), Failure> {
    let pass_on = || {
        if let Some(cargo) = Pid::from_raw(CARGO.load(SeqCst)) {
            // If it fails, it has ended.
            let _ = kill_process(cargo, Signal::TERM);
        }
    };
    // SAFETY: it does nothing at all.
    unsafe { signal_hook_registry::register(Signal::INT.as_raw(), || {}) }
        // SAFETY: it loads a number and makes a system call, both of which a handler may do.
        .and_then(|_| unsafe { signal_hook_registry::register(Signal::TERM.as_raw(), pass_on) })
        .map(drop)
        .map_err(|error| format!("cannot listen for signals: {error}"))
}

/// Waits for cargo's end.
pub fn wait_for(cargo: &mut Child) -> io::Result<ExitStatus> {
    CARGO.store(cargo.id() as i32, SeqCst);
    let status = cargo.wait();
    CARGO.store(0, SeqCst);
    status
}
