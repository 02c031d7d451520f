//! Dumps on SIGQUIT (Ctrl-\ on a terminal), and one dump after the duration in `WAKEFUL_DUMP_AFTER`.
//!
//! The signal handler writes one byte into a pipe. A dedicated thread reads the pipe and prints the
//! dumps of all runtimes of the process. The thread needs no worker, so dumps work even while all
//! workers are stuck.

use super::{Handle, environment, registry};
use crate::inspect::Stamped;
use crate::runtime::inner::RuntimeInner;
use crate::sys::thread_registry::{ALL_RUNTIMES, RuntimeThread};
use std::io::Write;
use std::sync::{Arc, OnceLock, Weak};
use std::thread;
use std::time::Duration;

/// Prints a dump and the findings of a deadlock scan to stderr.
///
/// If the flight recorder is on, it also writes the trace to a file.
fn print(handle: &Handle) {
    let mut text = format!("{}\n", handle.dump());
    for report in handle.diagnose() {
        text += &format!("{}\n", Stamped(&report));
    }
    if handle.is_recording() {
        let path = format!("wakeful-trace-{}-{}.json", std::process::id(), handle.id());
        text += &match std::fs::write(&path, handle.trace()) {
            Ok(()) => format!("trace: {path}, for chrome://tracing or Perfetto\n"),
            Err(error) => format!("wakeful: cannot write {path}: {error}\n"),
        };
    }
    // Not `eprint!`, whose output a test harness captures for the test whose thread started this
    // one.
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// Starts a thread that prints a dump after the duration in `WAKEFUL_DUMP_AFTER`, if set.
pub(super) fn print_later(shared: &Arc<RuntimeInner>) {
    static AFTER: OnceLock<Option<Result<Duration, String>>> = OnceLock::new();
    let after = match AFTER.get_or_init(|| environment::duration("WAKEFUL_DUMP_AFTER")) {
        None => return,
        Some(Ok(after)) => *after,
        Some(Err(text)) => {
            return eprintln!(
                "wakeful: WAKEFUL_DUMP_AFTER must be a duration such as 10s, 500ms or 2m, but it is {text:?}"
            );
        }
    };
    let shared: Weak<RuntimeInner> = Arc::downgrade(shared);
    // If the thread cannot be started, there is no dump, and the program continues.
    let _ = thread::Builder::new().name("wakeful-dump".to_owned()).spawn(move || {
        let _own = RuntimeThread::new(ALL_RUNTIMES);
        thread::sleep(after);
        if let Some(shared) = shared.upgrade() {
            print(&Handle::from_shared(shared));
        }
    });
}

/// Prints a dump of every runtime at each SIGQUIT, unless the program handles the signal itself.
pub(super) fn print_on_signal() {
    imp::install();
}

/// Stops the dumps, because the program listens for SIGQUIT itself.
#[cfg(feature = "signal")]
pub(crate) fn leave_to_program() {
    imp::leave_to_program();
}

#[cfg(not(miri))]
mod imp {
    use super::{ALL_RUNTIMES, RuntimeThread, print, registry};
    use crate::sys::signal_mask;
    use crate::sys::unwind::catch_and_forget;
    use std::ffi::{c_int, c_void};
    use std::fs::File;
    use std::io::Read;
    use std::mem::MaybeUninit;
    use std::os::fd::{FromRawFd, IntoRawFd};
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::*};
    use std::{ptr, thread};

    /// The end of the pipe that the handler writes to.
    static PIPE: AtomicI32 = AtomicI32::new(-1);
    /// Whether the program listens for SIGQUIT itself.
    static IS_USED_BY_PROGRAM: AtomicBool = AtomicBool::new(false);

    extern "C" fn handle(_signal: c_int) {
        // SAFETY: errno belongs to this thread. `write` is async-signal-safe, and reads one byte of
        // a static string.
        unsafe {
            let errno = *libc::__errno_location();
            libc::write(PIPE.load(Relaxed), c"!".as_ptr().cast::<c_void>(), 1);
            *libc::__errno_location() = errno;
        }
    }

    pub(super) fn leave_to_program() {
        IS_USED_BY_PROGRAM.store(true, Relaxed);
    }

    /// Installs the handler on the first call, for all runtimes of the process.
    pub(super) fn install() {
        static INSTALLED: OnceLock<bool> = OnceLock::new();
        INSTALLED.get_or_init(|| is_free() && start().is_some());
    }

    /// Returns whether SIGQUIT has no handler.
    ///
    /// A shell makes background processes ignore the signal. Dumps are useful for such processes
    /// too, so an ignored signal counts as free.
    fn is_free() -> bool {
        let mut old = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: `sigaction` fills a struct of plain data, for which zeroes are valid too.
        unsafe {
            libc::sigaction(libc::SIGQUIT, ptr::null(), old.as_mut_ptr()) == 0
                && matches!(old.assume_init().sa_sigaction, libc::SIG_DFL | libc::SIG_IGN)
        }
    }

    fn start() -> Option<()> {
        let (reader, writer) = std::io::pipe().ok()?;
        // SAFETY: `into_raw_fd` passes the ownership of the descriptor to the file.
        let mut reader = unsafe { File::from_raw_fd(reader.into_raw_fd()) };
        let print_all = move || {
            let _own = RuntimeThread::new(ALL_RUNTIMES);
            let mut byte = [0];
            while reader.read_exact(&mut byte).is_ok() {
                if !IS_USED_BY_PROGRAM.load(Relaxed) {
                    // A panic, for example in a task's destructor, must not end the thread.
                    for handle in registry::all() {
                        catch_and_forget(|| print(&handle));
                    }
                }
            }
        };
        let name = "wakeful-dump".to_owned();
        thread::Builder::new().name(name).spawn(print_all).ok()?;
        PIPE.store(writer.into_raw_fd(), Relaxed);
        // SAFETY: `sigaction` reads a struct of plain data, for which zeroes are valid. The handler
        // is async-signal-safe.
        unsafe {
            let mut new: libc::sigaction = MaybeUninit::zeroed().assume_init();
            let handler: extern "C" fn(c_int) = handle;
            new.sa_sigaction = handler as usize;
            signal_mask::set_own_handler(libc::SIGQUIT, new.sa_sigaction);
            new.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
            (libc::sigaction(libc::SIGQUIT, &new, ptr::null_mut()) == 0).then_some(())
        }
    }
}

#[cfg(miri)]
mod imp {
    pub(super) fn install() {}

    #[cfg(feature = "signal")]
    pub(super) fn leave_to_program() {}
}
