//! Dumps for whoever asks from outside: at SIGQUIT (Ctrl-\ on a terminal), and a while
//! after the start if `WAKEFUL_DUMP_AFTER` says so.
//!
//! The handler of the signal writes one byte into a pipe, and a thread of its own reads
//! there and prints: it needs no worker, so it also works while all of them are stuck.

use super::{Handle, registry};
use crate::runtime::inner::Shared;
use crate::sys::thread_registry::{ALL_RUNTIMES, RuntimeThread};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

/// Prints what there is to know about a runtime to stderr, and writes its trace to a
/// file if its recorder is on.
fn print(handle: &Handle) {
    eprintln!("{}", handle.dump());
    for report in handle.diagnose() {
        eprintln!("{report}");
    }
    if handle.is_recording() {
        let path = format!("wakeful-trace-{}-{}.json", std::process::id(), handle.id());
        match std::fs::write(&path, handle.trace()) {
            Ok(()) => eprintln!("what happened last: {path}, for chrome://tracing or Perfetto"),
            Err(error) => eprintln!("{path} could not be written: {error}"),
        }
    }
}

/// If the environment asks for it, prints a dump of the runtime after a while.
pub(super) fn print_later(shared: &Arc<Shared>) {
    let Ok(text) = std::env::var("WAKEFUL_DUMP_AFTER") else { return };
    let Some(after) = parse(&text) else {
        eprintln!("wakeful: WAKEFUL_DUMP_AFTER is {text:?}, and not a time like 10s, 500ms or 2m");
        return;
    };
    let shared: Weak<Shared> = Arc::downgrade(shared);
    // Without a thread there is no dump; the program is not to fail for that.
    let _ = thread::Builder::new().name("wakeful-dump".to_owned()).spawn(move || {
        let _own = RuntimeThread::new(ALL_RUNTIMES);
        thread::sleep(after);
        if let Some(shared) = shared.upgrade() {
            print(&Handle::from_shared(shared));
        }
    });
}

fn parse(text: &str) -> Option<Duration> {
    let unit = text.find(|char: char| !char.is_ascii_digit() && char != '.')?;
    let number: f64 = text[..unit].parse().ok()?;
    let seconds = match &text[unit..] {
        "ms" => number / 1000.0,
        "s" => number,
        "m" => number * 60.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(seconds).ok()
}

/// Prints dumps of this runtime at SIGQUIT from now on, unless the program handles that
/// signal itself.
pub(super) fn print_on_signal(shared: &Arc<Shared>) {
    if imp::install() {
        registry::list_for_dumps(shared.id);
    }
}

/// The program asks for SIGQUIT itself: it is the program's.
#[cfg(feature = "signal")]
pub(crate) fn leave_to_program() {
    imp::leave_to_program();
}

#[cfg(not(miri))]
mod imp {
    use super::{ALL_RUNTIMES, RuntimeThread, print, registry};
    use std::ffi::{c_int, c_void};
    use std::fs::File;
    use std::io::Read;
    use std::mem::MaybeUninit;
    use std::os::fd::{FromRawFd, IntoRawFd};
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::*};
    use std::{ptr, thread};

    /// Where the handler writes.
    static PIPE: AtomicI32 = AtomicI32::new(-1);
    static IS_PROGRAMS: AtomicBool = AtomicBool::new(false);

    extern "C" fn handle(_signal: c_int) {
        // SAFETY: errno is this thread's own; `write` is async-signal-safe, and takes one
        // byte from a place that is there.
        unsafe {
            let errno = *libc::__errno_location();
            libc::write(PIPE.load(Relaxed), c"!".as_ptr().cast::<c_void>(), 1);
            *libc::__errno_location() = errno;
        }
    }

    pub(super) fn leave_to_program() {
        IS_PROGRAMS.store(true, Relaxed);
    }

    /// Whether the signal is ours; the first call sees to it.
    pub(super) fn install() -> bool {
        static INSTALLED: OnceLock<bool> = OnceLock::new();
        *INSTALLED.get_or_init(|| is_free() && start().is_some())
    }

    /// Whether nobody handles it. Shells have those ignore it that they start in the
    /// background, who could use a dump all the same.
    fn is_free() -> bool {
        let mut old = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: fills plain data.
        unsafe {
            libc::sigaction(libc::SIGQUIT, ptr::null(), old.as_mut_ptr()) == 0
                && matches!(old.assume_init().sa_sigaction, libc::SIG_DFL | libc::SIG_IGN)
        }
    }

    fn start() -> Option<()> {
        let (reader, writer) = std::io::pipe().ok()?;
        // SAFETY: the descriptor is the file's from here on.
        let mut reader = unsafe { File::from_raw_fd(reader.into_raw_fd()) };
        let print_all = move || {
            let _own = RuntimeThread::new(ALL_RUNTIMES);
            let mut byte = [0];
            while reader.read_exact(&mut byte).is_ok() {
                if !IS_PROGRAMS.load(Relaxed) {
                    registry::listed_for_dumps().iter().for_each(print);
                }
            }
        };
        let name = "wakeful-dump".to_owned();
        thread::Builder::new().name(name).spawn(print_all).ok()?;
        PIPE.store(writer.into_raw_fd(), Relaxed);
        // SAFETY: plain data that sigaction reads; the handler does what one may.
        unsafe {
            let mut new: libc::sigaction = MaybeUninit::zeroed().assume_init();
            let handler: extern "C" fn(c_int) = handle;
            new.sa_sigaction = handler as usize;
            new.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
            (libc::sigaction(libc::SIGQUIT, &new, ptr::null_mut()) == 0).then_some(())
        }
    }
}

#[cfg(miri)]
mod imp {
    pub(super) fn install() -> bool {
        false
    }

    #[cfg(feature = "signal")]
    pub(super) fn leave_to_program() {}
}

#[cfg(test)]
mod tests {
    use super::parse;
    use std::time::Duration;

    #[test]
    fn times_have_a_unit() {
        let cases = [("10s", 10_000), ("500ms", 500), ("2m", 120_000), ("1.5s", 1_500)];
        for (text, millis) in cases {
            assert_eq!(parse(text), Some(Duration::from_millis(millis)));
        }
        assert_eq!(["10", "s", "-1s", "10 s", ""].map(parse), [None; 5]);
    }
}
