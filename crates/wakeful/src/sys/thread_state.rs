//! Whether another thread is at work, as the system sees it: one that has not had the
//! processor is neither blocked nor busy, it is kept waiting by others.

#![allow(unsafe_code)]

use std::time::Duration;

/// Whether the thread waits for something, in the kernel.
#[cfg(all(target_os = "linux", not(any(loom, miri))))]
pub(crate) fn is_waiting(thread: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat"));
    // The state follows the name, which is in brackets and may contain anything.
    let state =
        stat.as_ref().ok().and_then(|stat| stat.rsplit_once(')')?.1.trim_start().chars().next());
    matches!(state, Some('S' | 'D'))
}

/// How long the thread has had a processor in its life.
#[cfg(all(target_os = "linux", not(any(loom, miri))))]
pub(crate) fn processor_time(thread: i32) -> Option<Duration> {
    // How the kernel numbers the clock of a thread: the complement of the thread's number,
    // then one bit for "a thread's", two for "time as the scheduler counts it".
    let clock = (!thread << 3) | 0b110;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: fills plain data.
    let read = unsafe { libc::clock_gettime(clock, &mut time) } == 0;
    read.then(|| Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}

#[cfg(not(all(target_os = "linux", not(any(loom, miri)))))]
pub(crate) fn is_waiting(_thread: i32) -> bool {
    true
}

#[cfg(not(all(target_os = "linux", not(any(loom, miri)))))]
pub(crate) fn processor_time(_thread: i32) -> Option<Duration> {
    None
}

#[cfg(all(test, target_os = "linux", not(loom)))]
mod tests {
    use super::{is_waiting, processor_time};
    use crate::sys::backtrace::this_thread;
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    #[test]
    fn a_thread_that_waits_is_told_from_one_that_works() {
        let me = this_thread();
        let before = processor_time(me).unwrap();
        while processor_time(me).unwrap() < before + Duration::from_millis(2) {}
        assert!(!is_waiting(me), "it asks, so it runs");
        let (release, released) = mpsc::channel::<()>();
        let (tell, told) = mpsc::channel();
        let other = thread::spawn(move || {
            tell.send(this_thread()).unwrap();
            let _ = released.recv();
        });
        let number = told.recv().unwrap();
        while !is_waiting(number) {
            thread::yield_now();
        }
        drop(release);
        other.join().unwrap();
        assert!(!is_waiting(number), "gone");
    }
}
