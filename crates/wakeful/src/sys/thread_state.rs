//! The state of another thread, as reported by the kernel.
//!
//! A thread that got no CPU time is neither blocked nor busy: other threads or processes keep it off
//! the CPUs.

#![allow(unsafe_code)]

#[cfg(target_env = "gnu")]
use super::system_call::{Activity, activity};
use std::time::Duration;

/// Returns whether the thread is blocked in the kernel.
pub(crate) fn is_blocked(thread: i32) -> bool {
    matches!(state(thread), Some('S' | 'D'))
}

/// Returns the state of a thread as the letter of `/proc`.
fn state(thread: i32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).ok()?;
    // The state follows the name, which is in brackets and may contain any character.
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}

/// Returns whether the thread runs, or would run if it had a CPU.
pub(crate) fn is_runnable(thread: i32) -> bool {
    state(thread) == Some('R')
}

/// Returns the number of the system call that blocks the thread, if it is known.
fn system_call(thread: i32) -> Option<libc::c_long> {
    Some(super::system_call::current(thread)?.number)
}

/// Returns whether the thread is in a timed sleep, so that no other thread can end its wait.
///
/// Returns false if that is unknown. The kernel's state "D" does not count. Such a thread may wait
/// for a device, but also for the memory map of the process, which another thread has locked.
pub(crate) fn is_in_timed_sleep(thread: i32) -> bool {
    matches!(system_call(thread), Some(libc::SYS_nanosleep | libc::SYS_clock_nanosleep))
}

/// Returns whether the thread is starting a process or a thread.
///
/// After a `vfork`, the thread waits until the new process executes its program. Returns false if the
/// state is unknown.
pub(crate) fn is_starting_process(thread: i32) -> bool {
    #[cfg(target_arch = "x86_64")]
    if matches!(system_call(thread), Some(libc::SYS_fork | libc::SYS_vfork)) {
        return true;
    }
    matches!(system_call(thread), Some(libc::SYS_clone | libc::SYS_clone3))
}

/// The CPU time and the run-queue time of a thread since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CpuTimes {
    /// The time on a CPU.
    pub(crate) cpu: Duration,
    /// The time in run queues: runnable, but without a CPU. Updated when the thread gets a CPU.
    pub(crate) queued: Duration,
}

/// Returns the CPU time and the run-queue time of a thread, or `None` if it has ended.
pub(crate) fn run_times(thread: i32) -> Option<CpuTimes> {
    let cpu = cpu_time(thread)?;
    // The file is absent if the kernel was built without it. The run-queue time then counts as 0.
    let schedstat = std::fs::read_to_string(format!("/proc/self/task/{thread}/schedstat"));
    let schedstat = schedstat.unwrap_or_default();
    // Its words: CPU time (exact only when a time slice ends), run-queue time, number of slices.
    let delayed = schedstat.split_ascii_whitespace().nth(1).and_then(|word| word.parse().ok());
    Some(CpuTimes { cpu, queued: Duration::from_nanos(delayed.unwrap_or(0)) })
}

/// Returns the kernel thread ids of all threads of the process.
pub(crate) fn thread_ids() -> impl Iterator<Item = i32> {
    let threads = std::fs::read_dir("/proc/self/task").ok().into_iter().flatten();
    threads.filter_map(|thread| thread.ok()?.file_name().to_str()?.parse().ok())
}

/// Returns the CPU time of a thread.
pub(crate) fn cpu_time(thread: i32) -> Option<Duration> {
    // The clock id of a thread. It is the complement of the thread's id, one bit for "per thread",
    // and two bits for "CPU time as the scheduler counts it".
    let clock = (!thread << 3) | 0b110;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes plain data to `time`.
    let read = unsafe { libc::clock_gettime(clock, &mut time) } == 0;
    read.then(|| Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}

/// Returns whether a signal that is handled with SA_RESTART does not disturb the thread.
///
/// That is true if the thread runs, or if its system call is restarted. It is also true if callers
/// repeat the call, as Rust's std does for locks and sleeps.
#[cfg(target_env = "gnu")]
pub(crate) fn tolerates_signal(thread: i32) -> bool {
    let call = match activity(thread) {
        None => return false,
        Some(Activity::Running) => return true,
        Some(Activity::Blocked(call)) => call,
    };
    match call.number {
        // Blocked outside of a system call, such as in a page fault.
        -1 => true,
        libc::SYS_futex
        | libc::SYS_nanosleep
        | libc::SYS_clock_nanosleep
        | libc::SYS_wait4
        | libc::SYS_waitid
        | libc::SYS_flock
        | libc::SYS_openat
        | libc::SYS_getrandom => true,
        libc::SYS_read
        | libc::SYS_readv
        | libc::SYS_write
        | libc::SYS_writev
        | libc::SYS_recvfrom
        | libc::SYS_recvmsg
        | libc::SYS_sendto
        | libc::SYS_sendmsg
        | libc::SYS_accept4
        | libc::SYS_connect => !has_timeout(call.descriptor()),
        _ => false,
    }
}

/// Returns whether this is a socket with a timeout, whose calls the kernel does not restart.
#[cfg(target_env = "gnu")]
fn has_timeout(descriptor: i32) -> bool {
    use rustix::net::sockopt::{Timeout, socket_timeout};
    if descriptor < 0 {
        return false; // `BorrowedFd` must not be -1
    }
    // SAFETY: not -1. Its owner may close it at any time, and the number may be reused. The two calls
    // only read an option.
    let socket = unsafe { std::os::fd::BorrowedFd::borrow_raw(descriptor) };
    let is_limited = |which| matches!(socket_timeout(socket, which), Ok(Some(_)));
    is_limited(Timeout::Recv) || is_limited(Timeout::Send)
}

#[cfg(all(test, target_env = "gnu"))]
mod tests {
    use super::{
        cpu_time, is_blocked, is_in_timed_sleep, is_runnable, is_starting_process, run_times,
        thread_ids, tolerates_signal,
    };
    use crate::sys::backtrace::current_tid;
    use std::io::{Read, Write};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;
    use std::sync::mpsc;
    use std::thread;
    use std::time::{Duration, Instant};

    #[test]
    fn blocked_and_running_threads_are_told_apart() {
        let me = current_tid();
        let before = cpu_time(me).unwrap();
        while cpu_time(me).unwrap() < before + Duration::from_millis(2) {}
        assert!(!is_blocked(me), "this thread runs");
        assert!(is_runnable(me) && !is_in_timed_sleep(me), "this thread runs");
        assert!(thread_ids().any(|thread| thread == me));
        assert!(run_times(me).unwrap().cpu >= before + Duration::from_millis(2));
        let (release, released) = mpsc::channel::<()>();
        let (tx, rx) = mpsc::channel();
        let other = thread::spawn(move || {
            tx.send(current_tid()).unwrap();
            let _ = released.recv();
        });
        let tid = rx.recv().unwrap();
        while !is_blocked(tid) {
            thread::yield_now();
        }
        assert!(!is_runnable(tid) && !is_in_timed_sleep(tid), "it waits for this thread");
        drop(release);
        other.join().unwrap();
        assert!(!is_blocked(tid), "ended");
        assert!(!tolerates_signal(tid), "ended");
        assert!(!is_runnable(tid) && run_times(tid).is_none(), "ended");
    }

    /// Returns whether `tolerates_signal` becomes `expected` for a thread that is blocked in `call`.
    /// `end` ends that call.
    fn becomes(expected: bool, call: impl FnOnce() + Send + 'static, end: impl FnOnce()) -> bool {
        let (tx, rx) = mpsc::channel();
        let other = thread::spawn(move || {
            tx.send(current_tid()).unwrap();
            call();
        });
        let (number, started) = (rx.recv().unwrap(), Instant::now());
        let is_so = || is_blocked(number) && tolerates_signal(number) == expected;
        while !is_so() && started.elapsed() < Duration::from_secs(60) {
            thread::yield_now();
        }
        let became = is_so();
        end();
        other.join().unwrap();
        became
    }

    /// Returns whether the kernel shows the system call of a thread.
    fn has_system_calls() -> bool {
        std::path::Path::new(&format!("/proc/self/task/{}/syscall", current_tid())).exists()
    }

    /// Reads a byte from the descriptor at `argument`, to simulate a program that starts slowly.
    extern "C" fn start_slowly(argument: *mut libc::c_void) -> libc::c_int {
        // SAFETY: the parent waits for this process, so `argument` is alive. One byte fits.
        unsafe {
            let descriptor = *argument.cast::<libc::c_int>();
            libc::read(descriptor, (&mut 0u8 as *mut u8).cast(), 1);
            libc::_exit(0)
        }
    }

    #[test]
    fn a_thread_that_starts_a_process_is_recognized() {
        if !has_system_calls() {
            return eprintln!("the kernel does not show system calls: not tested");
        }
        let (near, mut far) = UnixStream::pair().unwrap();
        let (tx, rx) = mpsc::channel();
        let starter = thread::spawn(move || {
            let mut stack = vec![0u128; 4096];
            let mut descriptor = near.as_raw_fd();
            tx.send(current_tid()).unwrap();
            let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
            // SAFETY: CLONE_VFORK waits until the child has ended, so stack and argument live on.
            let child = unsafe {
                let top = stack.as_mut_ptr_range().end.cast();
                libc::clone(start_slowly, top, flags, (&raw mut descriptor).cast())
            };
            // SAFETY: a child of this process that no other thread waits for.
            assert_eq!(unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) }, child);
        });
        let (number, started) = (rx.recv().unwrap(), Instant::now());
        let is_so = || is_blocked(number) && is_starting_process(number);
        while !is_so() && started.elapsed() < Duration::from_secs(60) {
            thread::yield_now();
        }
        let (starts, sleeps) = (is_so(), is_in_timed_sleep(number));
        // Before an assertion can fail, because the child has copies of the descriptors and would
        // wait forever.
        far.write_all(b"x").unwrap();
        starter.join().unwrap();
        assert!(starts && !sleeps);
        assert!(!is_starting_process(current_tid()), "this thread runs");
    }

    #[test]
    fn calls_that_are_not_restarted_are_recognized() {
        if !has_system_calls() {
            return eprintln!("the kernel does not show system calls: not tested");
        }
        assert!(tolerates_signal(current_tid()), "this thread runs");
        let (go, gone) = mpsc::channel::<()>();
        assert!(becomes(true, move || assert!(gone.recv().is_err()), || drop(go)), "a lock");
        for (limit, tolerates) in [(None, true), (Some(Duration::from_secs(600)), false)] {
            let (near, mut far) = UnixStream::pair().unwrap();
            near.set_read_timeout(limit).unwrap();
            let read = move || assert_eq!((&near).read(&mut [0]).unwrap(), 1);
            assert!(becomes(tolerates, read, move || far.write_all(b"x").unwrap()), "{limit:?}");
        }
        let (near, mut far) = UnixStream::pair().unwrap();
        let poll = move || {
            let mut poll = libc::pollfd { fd: near.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: a pointer to one `pollfd`.
            assert_eq!(unsafe { libc::poll(&mut poll, 1, -1) }, 1);
        };
        assert!(becomes(false, poll, move || far.write_all(b"x").unwrap()), "a poll");
    }
}
