//! What happens when this program is told to end while cargo runs: cargo is to end, and this program does after it,
//! when the lock file is back.

use crate::Failure;
use rustix::process::{Pid, Signal, kill_process};
use std::io;
use std::process::{Child, ExitStatus};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::SeqCst};

/// The number of the cargo that is waited for; 0 if there is none.
static CARGO: AtomicI32 = AtomicI32::new(0);
/// This program was told to end.
static TOLD: AtomicBool = AtomicBool::new(false);

/// From now on, this program outlives the cargo that it waits for. Ctrl-C reaches both by itself; a request to end is
/// passed on.
pub fn outlive_cargo() -> Result<(), Failure> {
    let pass_on = || {
        TOLD.store(true, SeqCst);
        if let Some(cargo) = Pid::from_raw(CARGO.load(SeqCst)) {
            // If it fails, it has ended.
            let _ = kill_process(cargo, Signal::TERM);
        }
    };
    // SAFETY: it does nothing at all.
    unsafe { signal_hook_registry::register(Signal::INT.as_raw(), || {}) }
        // SAFETY: it stores and loads numbers and makes a system call, all of which a handler may do.
        .and_then(|_| unsafe { signal_hook_registry::register(Signal::TERM.as_raw(), pass_on) })
        .map(drop)
        .map_err(|error| format!("cannot listen for signals: {error}"))
}

/// Whether this program was told to end.
pub fn is_told_to_end() -> bool {
    TOLD.load(SeqCst)
}

/// From now on a request to end is passed on to this cargo; also one that came before.
pub fn watch(cargo: &mut Child) {
    CARGO.store(cargo.id() as i32, SeqCst);
    if is_told_to_end() {
        // If it fails, it has ended.
        let _ = cargo.kill();
    }
}

/// Waits for cargo's end.
pub fn wait_for(cargo: &mut Child) -> io::Result<ExitStatus> {
    if CARGO.load(SeqCst) == 0 {
        watch(cargo);
    }
    let status = cargo.wait();
    CARGO.store(0, SeqCst);
    status
}
