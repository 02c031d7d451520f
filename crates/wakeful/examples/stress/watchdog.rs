//! Detects a round that hangs: prints its state and the command that repeats it, and aborts the process.

use std::fs;
use std::io::Write;
use std::sync::{Mutex, Once};
use std::thread;
use std::time::{Duration, Instant};

use super::round::lock;

/// The time limit of a round. The longest ones need seconds, on a busy machine and under the sanitizer.
const LIMIT: Duration = Duration::from_secs(180);

struct TestRuntime {
    since: Instant,
    repeat: String,
    /// The condition that the runner waits for after the round.
    waits_for: String,
}

static CURRENT: Mutex<Option<TestRuntime>> = Mutex::new(None);

/// Restarts the time limit for the next round. `repeat` is the command that repeats the round.
pub fn watch(repeat: String) {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        let builder = thread::Builder::new().name("stress-watchdog".to_owned());
        builder.spawn(run).expect("the system has a thread to give");
    });
    let watched = TestRuntime { since: Instant::now(), repeat, waits_for: String::new() };
    *lock(&CURRENT) = Some(watched);
}

pub fn unwatch() {
    *lock(&CURRENT) = None;
}

/// Records the condition that the runner waits for, for the message.
pub fn waits_for(what: String) {
    if let Some(watched) = &mut *lock(&CURRENT) {
        watched.waits_for = what;
    }
}

fn run() {
    loop {
        // The watchdog checks once per second; no test waits for it.
        thread::sleep(Duration::from_secs(1));
        let is_late =
            lock(&CURRENT).as_ref().is_some_and(|watched| watched.since.elapsed() > LIMIT);
        if is_late {
            abort();
        }
    }
}

fn abort() -> ! {
    if let Some(watched) = lock(&CURRENT).take() {
        print(format!("a round hangs: not done after {LIMIT:?} {}", watched.waits_for));
        print(format!("to repeat it: {}", watched.repeat));
    }
    print_threads();
    // Every runtime of the stress prints its dump on SIGQUIT, from a thread that needs no worker.
    // SAFETY: sends a signal to this process, which handles it.
    unsafe { libc::kill(libc::getpid(), libc::SIGQUIT) };
    // The time for the dumps to be printed before the process ends.
    thread::sleep(Duration::from_secs(3));
    std::process::abort();
}

/// Prints each thread's name, kernel wait site (`wchan`) and system call.
fn print_threads() {
    let Ok(threads) = fs::read_dir("/proc/self/task") else { return };
    for thread in threads.flatten() {
        let read = |name| fs::read_to_string(thread.path().join(name)).unwrap_or_default();
        let (name, call, place) = (read("comm"), read("syscall"), read("wchan"));
        print(format!("  {:<16} {place:<24} {}", name.trim(), call.trim()));
    }
}

/// Prints a line to stderr if it is still open. The process must end in any case.
fn print(line: String) {
    _ = writeln!(std::io::stderr(), "{line}");
}
