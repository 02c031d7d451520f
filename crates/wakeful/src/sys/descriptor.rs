//! A descriptor in words, for reports.
#![allow(unsafe_code)]

use rustix::net::{SocketAddrAny, SocketAddrUnix, getpeername, getsockname};
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, RawFd};

/// What the system knows of a descriptor: its number and, if it is a socket, the
/// addresses of both sides. It may have been closed meanwhile, and its number given
/// to another: then this is about that one.
pub(crate) fn in_words(fd: RawFd) -> String {
    // SAFETY: asks two questions, which change nothing and fail for a descriptor that
    // is closed or no socket.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    let local = getsockname(borrowed).ok().and_then(address);
    let peer = getpeername(borrowed).ok().flatten().and_then(address);
    match (local, peer) {
        (Some(local), Some(peer)) => format!("descriptor {fd} ({local} to {peer})"),
        (Some(local), None) => format!("descriptor {fd} ({local})"),
        (None, Some(peer)) => format!("descriptor {fd} (to {peer})"),
        (None, None) => format!("descriptor {fd}"),
    }
}

/// `None` for a unix socket without a name.
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
    use super::in_words;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn sockets_have_addresses_and_other_things_none() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let near = listener.local_addr().expect("it is bound");
        let (fd, words) = (listener.as_raw_fd(), in_words(listener.as_raw_fd()));
        assert_eq!(words, format!("descriptor {fd} ({near})"));
        let stream = TcpStream::connect(near).expect("it listens");
        let (fd, own) = (stream.as_raw_fd(), stream.local_addr().expect("it is connected"));
        assert_eq!(in_words(fd), format!("descriptor {fd} ({own} to {near})"));
        let (one, _other) = UnixStream::pair().expect("there are descriptors");
        let fd = one.as_raw_fd();
        assert_eq!(in_words(fd), format!("descriptor {fd}"));
        assert_eq!(in_words(1 << 30), "descriptor 1073741824", "there is none");
    }
}
