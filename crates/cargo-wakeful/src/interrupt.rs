//! Handles signals while cargo runs.
//!
//! cargo ends first. Then this program restores the lock file and ends.

use crate::Failure;
use rustix::process::{Pid, Signal, kill_process};
use std::io;
use std::process::{Child, ExitStatus};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::SeqCst};

/// The process id of the running cargo; 0 if there is none.
static CARGO: AtomicI32 = AtomicI32::new(0);
/// Whether this program has received SIGTERM.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Installs handlers for SIGINT and SIGTERM, so that this program ends after cargo.
///
/// The terminal sends SIGINT to both. SIGTERM is forwarded to cargo.
pub fn install_handlers() -> Result<(), Failure> {
    let forward = || {
        INTERRUPTED.store(true, SeqCst);
        if let Some(cargo) = Pid::from_raw(CARGO.load(SeqCst)) {
            // A failure means that cargo has ended.
            let _ = kill_process(cargo, Signal::TERM);
        }
    };
    // SAFETY: the handler does nothing.
    unsafe { signal_hook_registry::register(Signal::INT.as_raw(), || {}) }
        // SAFETY: the handler uses atomics and `kill`, which are async-signal-safe.
        .and_then(|_| unsafe { signal_hook_registry::register(Signal::TERM.as_raw(), forward) })
        .map(drop)
        .map_err(|error| format!("cannot install signal handlers: {error}"))
}

/// Returns whether this program has received SIGTERM.
pub fn is_interrupted() -> bool {
    INTERRUPTED.load(SeqCst)
}

/// Forwards SIGTERM to this cargo from now on, including a SIGTERM received earlier.
pub fn watch(cargo: &mut Child) {
    CARGO.store(cargo.id() as i32, SeqCst);
    if is_interrupted() {
        // A failure means that cargo has ended.
        let _ = cargo.kill();
    }
}

/// Waits until cargo has ended.
pub fn wait_for(cargo: &mut Child) -> io::Result<ExitStatus> {
    if CARGO.load(SeqCst) == 0 {
        watch(cargo);
    }
    let status = cargo.wait();
    CARGO.store(0, SeqCst);
    status
}
