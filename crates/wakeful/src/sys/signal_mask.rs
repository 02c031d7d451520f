//! Finds out whether the process has signal handlers.

#![allow(unsafe_code)]

use libc::{SIGBUS, SIGQUIT, SIGSEGV, SIGURG};
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Signals whose handlers wake no task: std uses them for stack overflows.
const HARMLESS: [c_int; 2] = [SIGSEGV, SIGBUS];

/// The addresses of wakeful's own handlers, for stacks and dumps. 0 if not installed.
static OWN: [(c_int, AtomicUsize); 2] =
    [(SIGURG, AtomicUsize::new(0)), (SIGQUIT, AtomicUsize::new(0))];

/// The first of the two signals, 32 and 33, that the C library uses internally.
const FIRST_INTERNAL: u32 = 32;

/// Stores the address of a handler of wakeful, before it is installed.
pub(crate) fn set_own_handler(signal: c_int, handler: usize) {
    for (_, own) in OWN.iter().filter(|(own, _)| *own == signal) {
        // Relaxed: a reader that sees the handler installed, but not here, assumes that it belongs
        // to the program, and proves nothing.
        own.store(handler, Relaxed);
    }
}

/// Returns whether a handler is installed that may run code of the program.
///
/// Returns true if the kernel does not report the handlers.
pub(crate) fn has_handlers() -> bool {
    let status = std::fs::read_to_string("/proc/self/status");
    let own = own_handlers();
    let is_of_program = |caught: u64| caught & !ignored() & !own != 0;
    status.ok().and_then(|status| caught(&status)).is_none_or(is_of_program)
}

/// Returns the mask of the signals that have wakeful's own handler.
fn own_handlers() -> u64 {
    let is_own = |signal: c_int, own: usize| own != 0 && handler_of(signal) == Some(own);
    let own = OWN.iter().filter(|(signal, own)| is_own(*signal, own.load(Relaxed)));
    own.fold(0, |mask, (signal, _)| mask | bit(signal.cast_unsigned()))
}

/// Returns the address of the handler of a signal.
fn handler_of(signal: c_int) -> Option<usize> {
    let mut current = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: `sigaction` fills a struct of plain data, for which zeroes are valid too.
    unsafe {
        (libc::sigaction(signal, ptr::null(), current.as_mut_ptr()) == 0)
            .then(|| current.assume_init().sa_sigaction)
    }
}

fn bit(signal: u32) -> u64 {
    1 << (signal - 1)
}

/// Returns the mask of caught signals in the text of `/proc/self/status`.
fn caught(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("SigCgt:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

/// The mask of the signals that do not count.
fn ignored() -> u64 {
    let harmless = HARMLESS.iter().fold(0, |mask, signal| mask | bit(signal.cast_unsigned()));
    harmless | bit(FIRST_INTERNAL) | bit(FIRST_INTERNAL + 1)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{SIGQUIT, SIGURG, bit, caught, ignored};

    #[test]
    fn the_mask_of_caught_signals_is_read() {
        let status = "Name:\tapp\nSigIgn:\t0000000000001000\nSigCgt:\t0000000100000440\n";
        let mask = caught(status).unwrap();
        assert_eq!(mask, 0x1_0000_0440);
        assert_eq!(mask & !ignored(), 0, "SEGV, BUS and 33");
        for signal in [SIGQUIT, SIGURG] {
            assert_ne!(bit(signal.cast_unsigned()) & !ignored(), 0, "it may be the program's");
        }
        assert_ne!(1 << 14 & !ignored(), 0, "SIGTERM");
        assert!(caught("Name:\tapp\n").is_none());
    }
}
