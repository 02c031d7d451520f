//! Describes file descriptors for reports.
#![allow(unsafe_code)]

use rustix::net::{SocketAddrAny, SocketAddrUnix, getpeername, getsockname};
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, RawFd};

/// The first number of simulated sockets. No descriptor has such a number.
pub(crate) const FIRST_SIMULATED: u32 = 1 << 30;

/// Describes a file descriptor: its number and, for a socket, both addresses.
///
/// If the descriptor was closed and its number reused, this describes the new one.
///
/// Returns `None` for a number that is not a descriptor. The number comes from a wait record, and a
/// reader that races with the task may combine it with the kind of another wait.
pub(crate) fn describe(number: u64) -> Option<String> {
    // No descriptor is negative, and `BorrowedFd` must not be -1.
    let fd = RawFd::try_from(number).ok()?;
    if let Some(simulated) = number.checked_sub(u64::from(FIRST_SIMULATED)) {
        return Some(format!("simulated socket {simulated}"));
    }
    // SAFETY: not -1. The two calls change nothing, and fail for a descriptor that is closed or not a
    // socket.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    let local = getsockname(borrowed).ok().and_then(address);
    let peer = getpeername(borrowed).ok().flatten().and_then(address);
    Some(match (local, peer) {
        (Some(local), Some(peer)) => format!("descriptor {fd} ({local} to {peer})"),
        (Some(local), None) => format!("descriptor {fd} ({local})"),
        (None, Some(peer)) => format!("descriptor {fd} (to {peer})"),
        (None, None) => format!("descriptor {fd}"),
    })
}

/// Describes a socket like [`describe`], and any other descriptor by its target: a path, or a word
/// such as `pipe`.
pub(crate) fn describe_target(number: u64) -> Option<String> {
    let text = describe(number)?;
    if text.ends_with(')') || number >= u64::from(FIRST_SIMULATED) {
        return Some(text);
    }
    let Ok(target) = std::fs::read_link(format!("/proc/self/fd/{number}")) else {
        return Some(text);
    };
    let target = target.to_string_lossy();
    // An inode number in brackets does not help a reader.
    let target = target.split_once(":[").map_or(&*target, |(kind, _)| kind);
    Some(format!("{text} ({target})"))
}

/// Formats an address. Returns `None` for a Unix socket without a name.
fn address(addr: SocketAddrAny) -> Option<String> {
    if let Ok(addr) = SocketAddr::try_from(addr.clone()) {
        return Some(addr.to_string());
    }
    let addr = SocketAddrUnix::try_from(addr).ok()?;
    let bytes = match (addr.path_bytes(), addr.abstract_name()) {
        (Some(path), _) if !path.is_empty() => path.to_vec(),
        (_, Some(name)) if !name.is_empty() => [b"@", name].concat(),
        _ => return None,
    };
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{describe, describe_target};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::{AsRawFd, RawFd};
    use std::os::unix::net::UnixStream;

    #[test]
    fn sockets_are_described_with_their_addresses() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let near = listener.local_addr().expect("it is bound");
        let text_for = |fd: RawFd| describe(fd as u64).expect("not negative");
        let (fd, text) = (listener.as_raw_fd(), text_for(listener.as_raw_fd()));
        assert_eq!(text, format!("descriptor {fd} ({near})"));
        let stream = TcpStream::connect(near).expect("it listens");
        let (fd, own) = (stream.as_raw_fd(), stream.local_addr().expect("it is connected"));
        assert_eq!(text_for(fd), format!("descriptor {fd} ({own} to {near})"));
        let (one, _other) = UnixStream::pair().expect("there are descriptors");
        let fd = one.as_raw_fd();
        assert_eq!(text_for(fd), format!("descriptor {fd}"));
        assert_eq!(text_for((1 << 30) + 7), "simulated socket 7");
        assert_eq!(text_for(1 << 29), "descriptor 536870912", "not open");
    }

    #[test]
    #[cfg(not(miri))]
    fn other_descriptors_are_described_by_their_target() {
        let (reader, _writer) = std::io::pipe().expect("there are descriptors");
        let program = std::env::current_exe().expect("it has a path");
        let file = std::fs::File::open(&program).expect("it can be read");
        let text_for = |fd: RawFd| describe_target(fd as u64).expect("not negative");
        let fd = reader.as_raw_fd();
        assert_eq!(text_for(fd), format!("descriptor {fd} (pipe)"));
        let fd = file.as_raw_fd();
        assert_eq!(text_for(fd), format!("descriptor {fd} ({})", program.display()));
        let (one, _other) = UnixStream::pair().expect("there are descriptors");
        let fd = one.as_raw_fd();
        assert_eq!(text_for(fd), format!("descriptor {fd} (socket)"));
        assert_eq!(text_for(1 << 29), "descriptor 536870912", "not open");
    }

    /// A debug build aborts where -1 is borrowed.
    #[test]
    fn numbers_that_are_no_descriptors_are_not_borrowed() {
        let numbers = [u64::MAX, u64::MAX >> 3, u64::from(u32::MAX), 1 << 31, 1 << 32];
        assert_eq!(numbers.map(describe), [const { None }; 5]);
    }
}
