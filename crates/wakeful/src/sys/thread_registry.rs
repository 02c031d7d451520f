//! Registers which threads of the process belong to runtimes.
//!
//! The deadlock detector needs to know whether there are other threads, because those may wake any
//! task.

use super::backtrace::current_tid;
use super::sync::ignore_poison;
use std::sync::{Mutex, MutexGuard};

/// A registered thread.
struct Entry {
    /// The kernel's thread id.
    thread: i32,
    /// The address that identifies the runtime, or [`ALL_RUNTIMES`].
    runtime: usize,
    /// The thread was the watchdog, and may now run a report hook of the runtime.
    may_run_hook: bool,
    /// The thread runs a user callback for its start or end, or is about to run destructors of
    /// thread-locals. Both may wake any task.
    runs_user_code: bool,
}

/// The registered threads.
static REGISTERED: Mutex<Vec<Entry>> = Mutex::new(Vec::new());

/// The runtime id of threads that serve all runtimes.
pub(crate) const ALL_RUNTIMES: usize = 0;

fn lock() -> MutexGuard<'static, Vec<Entry>> {
    ignore_poison(REGISTERED.lock())
}

/// Registers the current thread as part of a runtime until the guard is dropped.
pub(crate) struct RuntimeThread {
    thread: i32,
    _thread: std::marker::PhantomData<*const ()>,
}

impl RuntimeThread {
    /// Registers the current thread. `runtime` is an address that identifies the runtime, or
    /// [`ALL_RUNTIMES`].
    pub(crate) fn new(runtime: usize) -> Self {
        let thread = current_tid();
        lock().push(Entry { thread, runtime, may_run_hook: false, runs_user_code: false });
        Self { thread, _thread: std::marker::PhantomData }
    }
}

impl Drop for RuntimeThread {
    fn drop(&mut self) {
        let mut registered = lock();
        if let Some(at) = registered.iter().position(|entry| entry.thread == self.thread) {
            registered.swap_remove(at);
        }
    }
}

/// Assigns the current thread to one runtime from now on. The thread may run that runtime's report
/// hook.
pub(crate) fn reassign(runtime: usize) {
    let thread = current_tid();
    for entry in lock().iter_mut().filter(|entry| entry.thread == thread) {
        (entry.runtime, entry.may_run_hook) = (runtime, true);
    }
}

/// Sets whether the current thread runs user code outside of tasks and closures.
///
/// Such a thread is foreign to the deadlock detector. A thread that exits sets this before it stops
/// being counted as idle or active, and leaves it set.
pub(crate) fn set_runs_user_code(runs_user_code: bool) {
    let thread = current_tid();
    for entry in lock().iter_mut().filter(|entry| entry.thread == thread) {
        entry.runs_user_code = runs_user_code;
    }
}

/// Returns whether a thread is registered for this runtime.
pub(crate) fn has_threads(runtime: usize) -> bool {
    lock().iter().any(|entry| entry.runtime == runtime)
}

/// Returns the threads of this runtime.
pub(crate) fn threads_of(runtime: usize) -> Vec<i32> {
    let registered = lock();
    let own = registered.iter().filter(|entry| entry.runtime == runtime);
    own.map(|entry| entry.thread).collect()
}

/// Returns whether the thread belongs to one of these runtimes or to all runtimes, and runs only their
/// tasks and closures.
///
/// A thread that may run a report hook counts only for the first runtime, which is being scanned.
/// The hooks of that runtime do not run during the scan.
fn is_registered(thread: i32, runtimes: &[usize]) -> bool {
    let counts = |entry: &Entry| match entry.may_run_hook {
        true => runtimes.first() == Some(&entry.runtime),
        false => entry.runtime == ALL_RUNTIMES || runtimes.contains(&entry.runtime),
    };
    lock().iter().any(|entry| entry.thread == thread && !entry.runs_user_code && counts(entry))
}

/// Returns the threads of the process that are neither registered for these runtimes nor `known`.
///
/// The first runtime is the scanned one. Returns `None` if the kernel does not list the threads.
///
/// The kernel's list ends early if a thread ends while the kernel is at its entry. The list then lacks
/// other threads, but has the ended thread. That thread is no longer registered, so the result has at
/// least one thread. If the ended thread is `known`, the caller finds that it no longer waits.
pub(crate) fn foreign_threads(runtimes: &[usize], known: &[i32]) -> Option<Vec<i32>> {
    let mut foreign = Vec::new();
    for thread in std::fs::read_dir("/proc/self/task").ok()? {
        let tid = thread.ok()?.file_name().to_str()?.parse().ok()?;
        if !known.contains(&tid) && !is_registered(tid, runtimes) && !is_io_uring_worker(tid) {
            foreign.push(tid);
        }
    }
    Some(foreign)
}

/// Returns whether this is a kernel worker of an io_uring, which runs no code of the process.
fn is_io_uring_worker(thread: i32) -> bool {
    const PF_IO_WORKER: u64 = 0x10;
    let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat"));
    // The name ends with a bracket, followed by the state, five numbers, and the flags.
    let flags = stat.ok().and_then(|stat| {
        let (_, rest) = stat.rsplit_once(") ")?;
        rest.split(' ').nth(6)?.parse::<u64>().ok()
    });
    flags.is_some_and(|flags| flags & PF_IO_WORKER != 0)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{
        ALL_RUNTIMES, RuntimeThread, foreign_threads, has_threads, is_registered, reassign,
        set_runs_user_code, threads_of,
    };
    use crate::sys::backtrace::current_tid;

    #[test]
    fn a_thread_is_registered_until_the_guard_is_dropped() {
        let me = current_tid();
        assert!(!is_registered(me, &[7]) && !has_threads(7));
        let seventh = RuntimeThread::new(7);
        assert!(is_registered(me, &[7]) && is_registered(me, &[8, 7]) && !is_registered(me, &[8]));
        assert!(has_threads(7));
        assert!(threads_of(7) == [me] && threads_of(8).is_empty());
        set_runs_user_code(true);
        assert!(!is_registered(me, &[7]) && has_threads(7));
        set_runs_user_code(false);
        assert!(is_registered(me, &[7]));
        drop(seventh);
        let shared = RuntimeThread::new(ALL_RUNTIMES);
        assert!(is_registered(me, &[7]) && is_registered(me, &[8]));
        reassign(7);
        assert!(is_registered(me, &[7, 8]) && !is_registered(me, &[8]));
        assert!(!is_registered(me, &[8, 7]), "it may run a hook of the seventh");
        drop(shared);
        assert!(!is_registered(me, &[7]) && !is_registered(me, &[ALL_RUNTIMES]));
    }

    #[test]
    fn unregistered_threads_are_foreign() {
        let (end, ends) = std::sync::mpsc::channel::<()>();
        let (tx, rx) = std::sync::mpsc::channel();
        let other = std::thread::spawn(move || {
            tx.send(current_tid()).unwrap();
            ends.recv()
        });
        let (me, number) = (current_tid(), rx.recv().unwrap());
        let found = foreign_threads(&[7], &[me]).unwrap();
        assert!(found.contains(&number) && !found.contains(&me), "{found:?}");
        assert!(!foreign_threads(&[7], &[me, number]).unwrap().contains(&number));
        drop(end);
        other.join().unwrap().unwrap_err();
    }
}
