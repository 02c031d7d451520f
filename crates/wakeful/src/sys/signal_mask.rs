//! Which signals of the process have a handler.

use libc::{SIGBUS, SIGQUIT, SIGSEGV, SIGURG};

/// Signals whose handlers wake no task: those of the standard library for stack overflows, and
/// wakeful's own for stacks and dumps.
const HARMLESS: [i32; 4] = [SIGSEGV, SIGBUS, SIGURG, SIGQUIT];

/// The first signal that the C library leaves to programs. It handles the ones from 32 on itself.
const FIRST_INTERNAL: u32 = 32;

/// Returns whether a handler is installed that may run code of the program.
///
/// True if the kernel does not tell.
pub(crate) fn has_handlers() -> bool {
    let status = std::fs::read_to_string("/proc/self/status");
    status.ok().and_then(|status| caught(&status)).is_none_or(|caught| caught & !ignored() != 0)
}

/// Returns the mask of caught signals in the text of `/proc/self/status`.
fn caught(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("SigCgt:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

/// The mask of the signals that do not count.
fn ignored() -> u64 {
    let bit = |signal: u32| 1 << (signal - 1);
    let harmless = HARMLESS.iter().fold(0, |mask, signal| mask | bit(signal.cast_unsigned()));
    harmless | bit(FIRST_INTERNAL) | bit(FIRST_INTERNAL + 1)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{caught, ignored};

    #[test]
    fn the_mask_of_caught_signals_is_read() {
        let status = "Name:\tapp\nSigIgn:\t0000000000001000\nSigCgt:\t0000000100400440\n";
        let mask = caught(status).unwrap();
        assert_eq!(mask, 0x1_0040_0440);
        assert_eq!(mask & !ignored(), 0, "SEGV, BUS, URG and 33");
        assert_ne!(1 << 14 & !ignored(), 0, "SIGTERM");
        assert!(caught("Name:\tapp\n").is_none());
    }
}
