//! Which threads of the process are the runtimes' own, so that it can be told whether there
//! are others: those may do anything, and nobody else knows what.

use super::backtrace::current_tid;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The system's number of a thread, and the address that stands for whose it is.
static OWN: Mutex<Vec<(i32, usize)>> = Mutex::new(Vec::new());

/// Of threads that serve every runtime.
pub(crate) const ALL_RUNTIMES: usize = 0;

fn lock() -> MutexGuard<'static, Vec<(i32, usize)>> {
    OWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The time in which the thread that made it is a runtime's own.
pub(crate) struct RuntimeThread {
    thread: i32,
    _thread: std::marker::PhantomData<*const ()>,
}

impl RuntimeThread {
    /// `whose`: the address of something that only this runtime has, or [`ALL_RUNTIMES`].
    pub(crate) fn new(whose: usize) -> Self {
        let thread = current_tid();
        lock().push((thread, whose));
        Self { thread, _thread: std::marker::PhantomData }
    }
}

impl Drop for RuntimeThread {
    fn drop(&mut self) {
        let mut own = lock();
        if let Some(at) = own.iter().position(|(thread, _)| *thread == self.thread) {
            own.swap_remove(at);
        }
    }
}

/// Whether the thread is everybody's, or this runtime's.
fn is_own(thread: i32, whose: usize) -> bool {
    lock().iter().any(|own| own.0 == thread && [whose, ALL_RUNTIMES].contains(&own.1))
}

/// The threads of the process that are neither this runtime's own nor `known`; `None` if that cannot be found out.
pub(crate) fn others(whose: usize, known: &[i32]) -> Option<Vec<i32>> {
    let mut others = Vec::new();
    for thread in std::fs::read_dir("/proc/self/task").ok()? {
        let number = thread.ok()?.file_name().to_str()?.parse().ok()?;
        if !known.contains(&number) && !is_own(number, whose) && !is_of_a_ring(number) {
            others.push(number);
        }
    }
    Some(others)
}

/// Whether it works for an io_uring: in the kernel, and nowhere else.
fn is_of_a_ring(thread: i32) -> bool {
    const PF_IO_WORKER: u64 = 0x10;
    let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat"));
    // After its name, which ends with a bracket: its state, five numbers, and the flags.
    let flags = stat.ok().and_then(|stat| {
        let (_, rest) = stat.rsplit_once(") ")?;
        rest.split(' ').nth(6)?.parse::<u64>().ok()
    });
    flags.is_some_and(|flags| flags & PF_IO_WORKER != 0)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{ALL_RUNTIMES, RuntimeThread, is_own, others};
    use crate::sys::backtrace::current_tid;

    #[test]
    fn a_thread_is_somebodys_for_its_time() {
        let me = current_tid();
        assert!(!is_own(me, 7));
        let seventh = RuntimeThread::new(7);
        assert!(is_own(me, 7) && !is_own(me, 8));
        drop(seventh);
        let everybodys = RuntimeThread::new(ALL_RUNTIMES);
        assert!(is_own(me, 7) && is_own(me, 8));
        drop(everybodys);
        assert!(!is_own(me, 7) && !is_own(me, ALL_RUNTIMES));
    }

    #[test]
    fn a_thread_that_is_nobodys_is_another() {
        let (end, ends) = std::sync::mpsc::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel();
        let other = std::thread::spawn(move || {
            tell.send(current_tid()).unwrap();
            ends.recv()
        });
        let (me, number) = (current_tid(), told.recv().unwrap());
        let found = others(7, &[me]).unwrap();
        assert!(found.contains(&number) && !found.contains(&me), "{found:?}");
        assert!(!others(7, &[me, number]).unwrap().contains(&number));
        drop(end);
        other.join().unwrap().unwrap_err();
    }
}
