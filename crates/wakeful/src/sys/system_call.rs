//! The system call that a thread is in, as reported by the kernel.
//!
//! `/proc` shows its number and arguments. So a report can name the call and the descriptor of a
//! thread whose stack must not be captured.

use super::descriptor;
use std::fmt;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// A system call that has not returned yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SystemCall {
    /// The number of the call, or -1 for a thread that is blocked outside of a call, such as in a
    /// page fault.
    pub(crate) number: libc::c_long,
    pub(crate) arguments: [u64; 6],
    /// The user-space stack pointer and program counter of the thread.
    pub(crate) stack_pointer: u64,
    pub(crate) program_counter: u64,
}

/// The activity of a thread, as reported by the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activity {
    /// The thread runs, or waits for a CPU.
    Running,
    /// The thread is blocked in the kernel.
    Blocked(SystemCall),
}

/// Returns what a thread of this process does. Returns `None` if it has ended, or the kernel does
/// not report it.
pub(crate) fn activity(thread: i32) -> Option<Activity> {
    let text = std::fs::read_to_string(format!("/proc/self/task/{thread}/syscall")).ok()?;
    parse(&text)
}

/// Returns the system call that a thread of this process is blocked in.
pub(crate) fn current(thread: i32) -> Option<SystemCall> {
    match activity(thread)? {
        Activity::Blocked(call) if call.number >= 0 => Some(call),
        _ => None,
    }
}

fn parse(text: &str) -> Option<Activity> {
    let mut words = text.split_ascii_whitespace();
    let number = match words.next()? {
        "running" => return Some(Activity::Running),
        number => number.parse().ok()?,
    };
    let mut next = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
    let mut arguments = [0; 6];
    if number >= 0 {
        for argument in &mut arguments {
            *argument = next()?;
        }
    }
    let (stack_pointer, program_counter) = (next()?, next()?);
    Some(Activity::Blocked(SystemCall { number, arguments, stack_pointer, program_counter }))
}

/// The meaning of a system call's arguments.
enum Subject {
    /// The first argument is a descriptor.
    Descriptor,
    /// The first argument points to `pollfd`s, and the second counts them.
    PollList,
    Nothing,
}

impl SystemCall {
    /// Returns the first argument as a descriptor, or any other signed number.
    pub(crate) fn descriptor(&self) -> i32 {
        self.arguments[0] as i32
    }

    fn name(&self) -> Option<(&'static str, Subject)> {
        use Subject::*;
        #[cfg(target_arch = "x86_64")]
        match self.number {
            libc::SYS_poll => return Some(("poll", PollList)),
            libc::SYS_select => return Some(("select", Nothing)),
            libc::SYS_epoll_wait => return Some(("epoll_wait", Descriptor)),
            libc::SYS_accept => return Some(("accept", Descriptor)),
            libc::SYS_open => return Some(("open", Nothing)),
            libc::SYS_pause => return Some(("pause", Nothing)),
            libc::SYS_fork | libc::SYS_vfork => return Some(("vfork", Nothing)),
            _ => {}
        }
        Some(match self.number {
            libc::SYS_ppoll => ("ppoll", PollList),
            libc::SYS_pselect6 => ("pselect6", Nothing),
            libc::SYS_epoll_pwait => ("epoll_pwait", Descriptor),
            libc::SYS_epoll_pwait2 => ("epoll_pwait2", Descriptor),
            libc::SYS_futex => ("futex", Nothing),
            libc::SYS_nanosleep => ("nanosleep", Nothing),
            libc::SYS_clock_nanosleep => ("clock_nanosleep", Nothing),
            libc::SYS_wait4 => ("wait4", Nothing),
            libc::SYS_waitid => ("waitid", Nothing),
            libc::SYS_flock => ("flock", Descriptor),
            libc::SYS_fcntl => ("fcntl", Descriptor),
            libc::SYS_openat => ("openat", Nothing),
            libc::SYS_getrandom => ("getrandom", Nothing),
            libc::SYS_clone | libc::SYS_clone3 => ("clone", Nothing),
            libc::SYS_read => ("read", Descriptor),
            libc::SYS_readv => ("readv", Descriptor),
            libc::SYS_pread64 => ("pread64", Descriptor),
            libc::SYS_write => ("write", Descriptor),
            libc::SYS_writev => ("writev", Descriptor),
            libc::SYS_pwrite64 => ("pwrite64", Descriptor),
            libc::SYS_fsync => ("fsync", Descriptor),
            libc::SYS_fdatasync => ("fdatasync", Descriptor),
            libc::SYS_recvfrom => ("recvfrom", Descriptor),
            libc::SYS_recvmsg => ("recvmsg", Descriptor),
            libc::SYS_recvmmsg => ("recvmmsg", Descriptor),
            libc::SYS_sendto => ("sendto", Descriptor),
            libc::SYS_sendmsg => ("sendmsg", Descriptor),
            libc::SYS_sendmmsg => ("sendmmsg", Descriptor),
            libc::SYS_accept4 => ("accept4", Descriptor),
            libc::SYS_connect => ("connect", Descriptor),
            libc::SYS_io_uring_enter => ("io_uring_enter", Descriptor),
            libc::SYS_rt_sigtimedwait => ("rt_sigtimedwait", Nothing),
            libc::SYS_semtimedop => ("semtimedop", Nothing),
            libc::SYS_msgrcv => ("msgrcv", Nothing),
            _ => return None,
        })
    }

    /// Returns the descriptors that the thread waits for.
    fn descriptors(&self) -> Vec<i32> {
        match self.name() {
            Some((_, Subject::Descriptor)) => vec![self.descriptor()],
            Some((_, Subject::PollList)) => self.poll_list().unwrap_or_default(),
            _ => Vec::new(),
        }
    }

    /// Reads the descriptors of a `poll` from the memory of the thread.
    fn poll_list(&self) -> Option<Vec<i32>> {
        let [list, count, ..] = self.arguments;
        // A thread that has returned from the call may have freed the list, so the kernel reads it.
        let memory = File::open("/proc/self/mem").ok()?;
        let mut bytes = vec![0; count.min(MAX_LISTED as u64 + 1) as usize * POLLFD_BYTES];
        memory.read_exact_at(&mut bytes, list).ok()?;
        let descriptor = |entry: &[u8]| Some(i32::from_ne_bytes(*entry.first_chunk()?));
        bytes.chunks_exact(POLLFD_BYTES).map(descriptor).collect()
    }
}

const POLLFD_BYTES: usize = size_of::<libc::pollfd>();
/// The most descriptors of a `poll` that a description lists.
const MAX_LISTED: usize = 4;

impl fmt::Display for SystemCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some((name, _)) => f.write_str(name)?,
            None => write!(f, "number {}", self.number)?,
        }
        let descriptors = self.descriptors();
        let described = descriptors.iter().take(MAX_LISTED).filter_map(|descriptor| {
            let number = u64::try_from(*descriptor).ok()?;
            descriptor::describe_target(number)
        });
        for (nth, text) in described.enumerate() {
            write!(f, "{} {text}", if nth == 0 { " on" } else { "," })?;
        }
        if descriptors.len() > MAX_LISTED {
            f.write_str(", and others")?;
        }
        Ok(())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Activity, SystemCall, parse};

    #[test]
    fn the_lines_of_the_kernel_are_read() {
        assert_eq!(parse("running\n"), Some(Activity::Running));
        let fault = SystemCall {
            number: -1,
            arguments: [0; 6],
            stack_pointer: 0x7ffd,
            program_counter: 0x55,
        };
        assert_eq!(parse("-1 0x7ffd 0x55\n"), Some(Activity::Blocked(fault)));
        let call = "7 0x10 0x1 0xffffffff 0x0 0x8 0x9 0x7ffd 0x55\n";
        let arguments = [0x10, 1, 0xffff_ffff, 0, 8, 9];
        assert_eq!(
            parse(call),
            Some(Activity::Blocked(SystemCall { number: 7, arguments, ..fault }))
        );
        assert_eq!(parse(""), None);
        assert_eq!(parse("7 0x10"), None);
    }

    #[test]
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    fn a_call_is_described_with_its_descriptors() {
        use std::os::fd::AsRawFd;
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let (reader, _writer) = std::io::pipe().unwrap();
        let address = socket.local_addr().unwrap();
        let list = [socket.as_raw_fd(), reader.as_raw_fd()].map(|fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        });
        let call = |number, first: u64, second| SystemCall {
            number,
            arguments: [first, second, 0, 0, 0, 0],
            stack_pointer: 0,
            program_counter: 0,
        };
        let text = call(libc::SYS_poll, list.as_ptr().addr() as u64, 2).to_string();
        let (first, second) = (list[0].fd, list[1].fd);
        let expected =
            format!("poll on descriptor {first} ({address}), descriptor {second} (pipe)");
        assert_eq!(text, expected);
        let text = call(libc::SYS_recvfrom, first as u64, 0).to_string();
        assert_eq!(text, format!("recvfrom on descriptor {first} ({address})"));
        assert_eq!(call(libc::SYS_poll, 8, 1).to_string(), "poll", "no such memory");
        assert_eq!(call(9999, 0, 0).to_string(), "number 9999");
    }
}
