//! Whether another thread is at work, as the system sees it: one that has not had the
//! processor is neither blocked nor busy, it is kept waiting by others.

#![allow(unsafe_code)]

use std::time::Duration;

/// Whether the thread waits for something, in the kernel.
pub(crate) fn is_blocked(thread: i32) -> bool {
    matches!(state(thread), Some('S' | 'D'))
}

/// The state of a thread, as one letter.
fn state(thread: i32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).ok()?;
    // The state follows the name, which is in brackets and may contain anything.
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}

/// Whether the thread runs, or would if it had a CPU.
pub(crate) fn is_runnable(thread: i32) -> bool {
    state(thread) == Some('R')
}

/// The number of the system call that the thread is in; `None` if it is in none, or that is unknown.
fn system_call(thread: i32) -> Option<libc::c_long> {
    let call = std::fs::read_to_string(format!("/proc/self/task/{thread}/syscall")).ok()?;
    call.split_ascii_whitespace().next()?.parse().ok()
}

/// Whether no other thread can end the thread's wait: it sleeps for a time. False also if that is unknown.
///
/// A thread in the kernel's state "D" does not qualify. It may wait for a device, and as well for the process's memory
/// map, which another thread has locked.
pub(crate) fn is_in_timed_sleep(thread: i32) -> bool {
    matches!(system_call(thread), Some(libc::SYS_nanosleep | libc::SYS_clock_nanosleep))
}

/// Whether the thread starts a process (or a thread). Where both share their memory, it waits until the new process
/// runs a program of its own. False also if that is unknown.
pub(crate) fn is_starting_process(thread: i32) -> bool {
    #[cfg(target_arch = "x86_64")]
    if matches!(system_call(thread), Some(libc::SYS_fork | libc::SYS_vfork)) {
        return true;
    }
    matches!(system_call(thread), Some(libc::SYS_clone | libc::SYS_clone3))
}

/// What a thread got of the CPUs in its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CpuTimes {
    /// CPU time.
    pub(crate) cpu: Duration,
    /// Time in run queues: ready, and without a CPU. Added when the thread gets one.
    pub(crate) queued: Duration,
}

/// What the thread got of the CPUs in its life; `None` for a thread that has ended.
pub(crate) fn run_times(thread: i32) -> Option<CpuTimes> {
    let cpu = cpu_time(thread)?;
    // Absent where the kernel was built without it. Then only waits that last are known.
    let schedstat = std::fs::read_to_string(format!("/proc/self/task/{thread}/schedstat"));
    let schedstat = schedstat.unwrap_or_default();
    // CPU time, which is exact only when a slice ends; time in run queues; slices.
    let delayed = schedstat.split_ascii_whitespace().nth(1).and_then(|word| word.parse().ok());
    Some(CpuTimes { cpu, queued: Duration::from_nanos(delayed.unwrap_or(0)) })
}

/// The kernel's numbers of all threads of the process.
pub(crate) fn thread_ids() -> impl Iterator<Item = i32> {
    let threads = std::fs::read_dir("/proc/self/task").ok().into_iter().flatten();
    threads.filter_map(|thread| thread.ok()?.file_name().to_str()?.parse().ok())
}

/// How long the thread has had a processor in its life.
pub(crate) fn cpu_time(thread: i32) -> Option<Duration> {
    // How the kernel numbers the clock of a thread: the complement of the thread's number,
    // then one bit for "a thread's", two for "time as the scheduler counts it".
    let clock = (!thread << 3) | 0b110;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: fills plain data.
    let read = unsafe { libc::clock_gettime(clock, &mut time) } == 0;
    read.then(|| Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}

/// Whether a signal, handled with SA_RESTART, leaves no trace in what the thread does: if it
/// runs, if it is in a system call that is taken up again, or in one of those whose callers
/// wait on, as Rust's std does in a lock and a sleep.
#[cfg(target_env = "gnu")]
pub(crate) fn tolerates_signal(thread: i32) -> bool {
    let Ok(call) = std::fs::read_to_string(format!("/proc/self/task/{thread}/syscall")) else {
        return false;
    };
    let mut words = call.split_ascii_whitespace();
    let number = match words.next() {
        Some("running") => return true,
        number => number.and_then(|number| number.parse().ok()),
    };
    let first = words.next().and_then(|word| i32::from_str_radix(word.get(2..)?, 16).ok());
    match number {
        // None at all: a page fault, say.
        Some(-1) => true,
        Some(
            libc::SYS_futex
            | libc::SYS_nanosleep
            | libc::SYS_clock_nanosleep
            | libc::SYS_wait4
            | libc::SYS_waitid
            | libc::SYS_flock
            | libc::SYS_openat
            | libc::SYS_getrandom,
        ) => true,
        Some(
            libc::SYS_read
            | libc::SYS_readv
            | libc::SYS_write
            | libc::SYS_writev
            | libc::SYS_recvfrom
            | libc::SYS_recvmsg
            | libc::SYS_sendto
            | libc::SYS_sendmsg
            | libc::SYS_accept4
            | libc::SYS_connect,
        ) => first.is_some_and(|descriptor| !has_time_out(descriptor)),
        _ => false,
    }
}

/// Whether it is a socket that waits for a limited time: what is interrupted there is not
/// taken up again.
#[cfg(target_env = "gnu")]
fn has_time_out(descriptor: i32) -> bool {
    use rustix::net::sockopt::{Timeout, socket_timeout};
    if descriptor < 0 {
        return false; // the type that borrows a descriptor cannot hold -1
    }
    // SAFETY: not -1. Another's, who may close it meanwhile, and then another thing has its
    // number: nothing is done but ask.
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
    fn a_thread_that_waits_is_told_from_one_that_works() {
        let me = current_tid();
        let before = cpu_time(me).unwrap();
        while cpu_time(me).unwrap() < before + Duration::from_millis(2) {}
        assert!(!is_blocked(me), "it asks, so it runs");
        assert!(is_runnable(me) && !is_in_timed_sleep(me), "it asks, so it runs");
        assert!(thread_ids().any(|thread| thread == me));
        assert!(run_times(me).unwrap().cpu >= before + Duration::from_millis(2));
        let (release, released) = mpsc::channel::<()>();
        let (tell, told) = mpsc::channel();
        let other = thread::spawn(move || {
            tell.send(current_tid()).unwrap();
            let _ = released.recv();
        });
        let number = told.recv().unwrap();
        while !is_blocked(number) {
            thread::yield_now();
        }
        assert!(!is_runnable(number) && !is_in_timed_sleep(number), "it waits for this thread");
        drop(release);
        other.join().unwrap();
        assert!(!is_blocked(number), "gone");
        assert!(!tolerates_signal(number), "gone");
        assert!(!is_runnable(number) && run_times(number).is_none(), "gone");
    }

    /// Whether this is said, sooner or later, of a thread that waits in `call`, which
    /// `end` ends.
    fn is_said(takes: bool, call: impl FnOnce() + Send + 'static, end: impl FnOnce()) -> bool {
        let (tell, told) = mpsc::channel();
        let other = thread::spawn(move || {
            tell.send(current_tid()).unwrap();
            call();
        });
        let (number, started) = (told.recv().unwrap(), Instant::now());
        let is_so = || is_blocked(number) && tolerates_signal(number) == takes;
        while !is_so() && started.elapsed() < Duration::from_secs(60) {
            thread::yield_now();
        }
        let is_said = is_so();
        end();
        other.join().unwrap();
        is_said
    }

    /// Whether the kernel says in which system call a thread is.
    fn has_system_calls() -> bool {
        std::path::Path::new(&format!("/proc/self/task/{}/syscall", current_tid())).exists()
    }

    /// Reads a byte from the descriptor at `argument`, as a program does that starts slowly.
    extern "C" fn start_slowly(argument: *mut libc::c_void) -> libc::c_int {
        // SAFETY: the parent waits for this process, so its descriptor number is there; one byte fits.
        unsafe {
            let descriptor = *argument.cast::<libc::c_int>();
            libc::read(descriptor, (&mut 0u8 as *mut u8).cast(), 1);
            libc::_exit(0)
        }
    }

    #[test]
    fn a_thread_that_starts_a_process_waits_for_that() {
        if !has_system_calls() {
            return eprintln!("the system does not say what threads do: not tested");
        }
        let (near, mut far) = UnixStream::pair().unwrap();
        let (tell, told) = mpsc::channel();
        let starter = thread::spawn(move || {
            let mut stack = vec![0u128; 4096];
            let mut descriptor = near.as_raw_fd();
            tell.send(current_tid()).unwrap();
            let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
            // SAFETY: the stack and the argument stay until the child has ended, for which CLONE_VFORK waits.
            let child = unsafe {
                let top = stack.as_mut_ptr_range().end.cast();
                libc::clone(start_slowly, top, flags, (&raw mut descriptor).cast())
            };
            // SAFETY: a child of this process, which nobody else waits for.
            assert_eq!(unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) }, child);
        });
        let (number, started) = (told.recv().unwrap(), Instant::now());
        let is_so = || is_blocked(number) && is_starting_process(number);
        while !is_so() && started.elapsed() < Duration::from_secs(60) {
            thread::yield_now();
        }
        let (is_said, sleeps) = (is_so(), is_in_timed_sleep(number));
        // Before a failure ends this process: the child has its own copies of the descriptors, and would wait forever.
        far.write_all(b"x").unwrap();
        starter.join().unwrap();
        assert!(is_said && !sleeps);
        assert!(!is_starting_process(current_tid()), "it runs");
    }

    #[test]
    fn a_call_that_would_not_be_taken_up_again_is_known() {
        if !has_system_calls() {
            return eprintln!("the system does not say what threads do: not tested");
        }
        assert!(tolerates_signal(current_tid()), "it runs");
        let (go, gone) = mpsc::channel::<()>();
        assert!(is_said(true, move || assert!(gone.recv().is_err()), || drop(go)), "a lock");
        for (limit, takes) in [(None, true), (Some(Duration::from_secs(600)), false)] {
            let (near, mut far) = UnixStream::pair().unwrap();
            near.set_read_timeout(limit).unwrap();
            let read = move || assert_eq!((&near).read(&mut [0]).unwrap(), 1);
            assert!(is_said(takes, read, move || far.write_all(b"x").unwrap()), "{limit:?}");
        }
        let (near, mut far) = UnixStream::pair().unwrap();
        let poll = move || {
            let mut poll = libc::pollfd { fd: near.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one of them, which is there.
            assert_eq!(unsafe { libc::poll(&mut poll, 1, -1) }, 1);
        };
        assert!(is_said(false, poll, move || far.write_all(b"x").unwrap()), "a poll");
    }
}
