//! Addresses of unix sockets.

use rustix::net::{SocketAddrAny, SocketAddrUnix};
use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net;
use std::path::Path;

/// The address of a unix socket: a path, an abstract name, or nothing.
#[derive(Clone)]
pub struct SocketAddr(pub(super) net::SocketAddr);

impl SocketAddr {
    /// Whether the socket has no address, as one has that was not bound.
    pub fn is_unnamed(&self) -> bool {
        self.0.is_unnamed()
    }

    /// The path, if it is one.
    pub fn as_pathname(&self) -> Option<&Path> {
        self.0.as_pathname()
    }

    /// The abstract name, without the zero byte in front, if it is one.
    pub fn as_abstract_name(&self) -> Option<&[u8]> {
        self.0.as_abstract_name()
    }

    /// The address that a path stands for: abstract, if it begins with a zero
    /// byte.
    pub(super) fn of_path(path: &Path) -> io::Result<Self> {
        if let Some(name) = path.as_os_str().as_bytes().strip_prefix(b"\0") {
            return net::SocketAddr::from_abstract_name(name).map(Self);
        }
        net::SocketAddr::from_pathname(path).map(Self)
    }

    /// As the system's calls want it.
    pub(super) fn to_raw(&self) -> rustix::io::Result<SocketAddrUnix> {
        if let Some(name) = self.as_abstract_name() {
            return SocketAddrUnix::new_abstract_name(name);
        }
        match self.as_pathname() {
            Some(path) => SocketAddrUnix::new(path),
            None => Ok(SocketAddrUnix::new_unnamed()),
        }
    }

    /// As it comes from the system's calls, which say nothing of a socket without
    /// an address.
    pub(super) fn of_raw(raw: Option<SocketAddrAny>) -> io::Result<Self> {
        let bytes = raw.as_ref().map_or(&[][..], name_of);
        if let Some(name) = bytes.strip_prefix(b"\0") {
            return net::SocketAddr::from_abstract_name(name).map(Self);
        }
        let path = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        // Linux lets a path be so long that no zero byte fits behind it. std cannot
        // say it, and whoever has such a path shall not keep others from accepting.
        let addr = net::SocketAddr::from_pathname(OsStr::from_bytes(path))
            .or_else(|_| net::SocketAddr::from_pathname(""));
        addr.map(Self)
    }
}

/// What follows the family in an address. `rustix` decodes addresses as well, but
/// takes the longest paths, and having none, for others than they are.
fn name_of(raw: &SocketAddrAny) -> &[u8] {
    let offset = std::mem::offset_of!(libc::sockaddr_un, sun_path);
    let len = raw.addr_len() as usize;
    // SAFETY: so many bytes of it are initialised, and it is borrowed.
    let bytes = unsafe { std::slice::from_raw_parts(raw.as_ptr().cast::<u8>(), len) };
    bytes.get(offset..).unwrap_or_default()
}

impl fmt::Debug for SocketAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<net::SocketAddr> for SocketAddr {
    fn from(addr: net::SocketAddr) -> Self {
        SocketAddr(addr)
    }
}

impl From<SocketAddr> for net::SocketAddr {
    fn from(addr: SocketAddr) -> Self {
        addr.0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn there_and_back(path: &str) -> SocketAddr {
        let addr = SocketAddr::of_path(Path::new(path)).unwrap();
        let back = SocketAddr::of_raw(Some(addr.to_raw().unwrap().into())).unwrap();
        assert_eq!(format!("{addr:?}"), format!("{back:?}"));
        back
    }

    #[test]
    fn an_address_comes_back_as_it_went() {
        assert_eq!(there_and_back("/a/path").as_pathname(), Some(Path::new("/a/path")));
        let longest = format!("/{}", "x".repeat(106));
        assert_eq!(there_and_back(&longest).as_pathname(), Some(Path::new(&longest)));
        assert!(there_and_back("").is_unnamed());
        let too_long = SocketAddrUnix::new(format!("/{}", "x".repeat(107))).unwrap();
        assert!(SocketAddr::of_raw(Some(too_long.into())).unwrap().is_unnamed());
        assert!(SocketAddr::of_raw(None).unwrap().is_unnamed());
    }

    #[test]
    fn an_abstract_name_may_hold_anything() {
        let back = there_and_back("\0a\0b\0");
        assert_eq!(back.as_abstract_name(), Some(&b"a\0b\0"[..]));
        assert!(back.as_pathname().is_none() && !back.is_unnamed());
    }

    #[test]
    fn what_is_too_long_or_broken_is_refused() {
        for path in [format!("/{}", "x".repeat(200)), "/a\0b".to_owned()] {
            let refused = SocketAddr::of_path(Path::new(&path)).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
        }
    }
}
