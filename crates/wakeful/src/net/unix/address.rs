//! [`SocketAddr`]: the address of a Unix socket.

use rustix::net::{SocketAddrAny, SocketAddrUnix};
use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net;
use std::path::Path;

/// The address of a Unix socket: a path, an abstract name, or unnamed.
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use wakeful::net::UnixStream;
///
/// let (a, _b) = UnixStream::pair()?;
/// assert!(a.local_addr()?.is_unnamed());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct SocketAddr(pub(super) net::SocketAddr);

impl SocketAddr {
    /// Returns whether the address is unnamed, like the address of an unbound socket.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let (a, _b) = wakeful::net::UnixStream::pair()?;
    /// assert!(a.local_addr()?.is_unnamed());
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_unnamed(&self) -> bool {
        self.0.is_unnamed()
    }

    /// Returns the path, if the address is a path.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> std::io::Result<()> {
    /// use std::path::Path;
    /// use wakeful::net::unix::SocketAddr;
    ///
    /// let addr = std::os::unix::net::SocketAddr::from_pathname("/run/hello.socket")?;
    /// assert_eq!(SocketAddr::from(addr).as_pathname(), Some(Path::new("/run/hello.socket")));
    /// # Ok(())
    /// # }
    /// ```
    pub fn as_pathname(&self) -> Option<&Path> {
        self.0.as_pathname()
    }

    /// Returns the name without the leading zero byte, if the address is abstract.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::net::UnixListener;
    ///
    /// let name = format!("wakeful-doc-abstract-{}", std::process::id());
    /// let listener = UnixListener::bind(format!("\0{name}"))?;
    /// assert_eq!(listener.local_addr()?.as_abstract_name(), Some(name.as_bytes()));
    /// # Ok(())
    /// # }
    /// ```
    pub fn as_abstract_name(&self) -> Option<&[u8]> {
        self.0.as_abstract_name()
    }

    /// Returns the address for `path`, which is abstract if it begins with a zero byte.
    pub(super) fn from_path(path: &Path) -> io::Result<Self> {
        if let Some(name) = path.as_os_str().as_bytes().strip_prefix(b"\0") {
            return net::SocketAddr::from_abstract_name(name).map(Self);
        }
        net::SocketAddr::from_pathname(path).map(Self)
    }

    /// Converts to the form that system calls take.
    pub(super) fn to_raw(&self) -> rustix::io::Result<SocketAddrUnix> {
        if let Some(name) = self.as_abstract_name() {
            return SocketAddrUnix::new_abstract_name(name);
        }
        match self.as_pathname() {
            Some(path) => SocketAddrUnix::new(path),
            None => Ok(SocketAddrUnix::new_unnamed()),
        }
    }

    /// Converts from the form that system calls return; `None` is an unnamed address.
    pub(super) fn from_raw(raw: Option<SocketAddrAny>) -> io::Result<Self> {
        let bytes = raw.as_ref().map_or(&[][..], name_of);
        if let Some(name) = bytes.strip_prefix(b"\0") {
            return net::SocketAddr::from_abstract_name(name).map(Self);
        }
        let path = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        // Linux allows paths that leave no space for a terminating zero byte. std cannot represent
        // them. Such addresses become unnamed, so that a client with such a path cannot make
        // `accept` fail.
        let addr = net::SocketAddr::from_pathname(OsStr::from_bytes(path))
            .or_else(|_| net::SocketAddr::from_pathname(""));
        addr.map(Self)
    }
}

/// Returns the bytes after the address family.
///
/// `rustix` also decodes addresses, but misrepresents the longest paths and unnamed addresses.
fn name_of(raw: &SocketAddrAny) -> &[u8] {
    let offset = std::mem::offset_of!(libc::sockaddr_un, sun_path);
    let len = raw.addr_len() as usize;
    // SAFETY: the first `addr_len` bytes of `raw` are initialized, and `raw` is borrowed.
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

    fn round_trip(path: &str) -> SocketAddr {
        let addr = SocketAddr::from_path(Path::new(path)).unwrap();
        let back = SocketAddr::from_raw(Some(addr.to_raw().unwrap().into())).unwrap();
        assert_eq!(format!("{addr:?}"), format!("{back:?}"));
        back
    }

    #[test]
    fn addresses_survive_a_round_trip() {
        assert_eq!(round_trip("/a/path").as_pathname(), Some(Path::new("/a/path")));
        let longest = format!("/{}", "x".repeat(106));
        assert_eq!(round_trip(&longest).as_pathname(), Some(Path::new(&longest)));
        assert!(round_trip("").is_unnamed());
        let too_long = SocketAddrUnix::new(format!("/{}", "x".repeat(107))).unwrap();
        assert!(SocketAddr::from_raw(Some(too_long.into())).unwrap().is_unnamed());
        assert!(SocketAddr::from_raw(None).unwrap().is_unnamed());
    }

    #[test]
    fn abstract_names_may_contain_zero_bytes() {
        let back = round_trip("\0a\0b\0");
        assert_eq!(back.as_abstract_name(), Some(&b"a\0b\0"[..]));
        assert!(back.as_pathname().is_none() && !back.is_unnamed());
    }

    #[test]
    fn invalid_paths_are_rejected() {
        for path in [format!("/{}", "x".repeat(200)), "/a\0b".to_owned()] {
            let refused = SocketAddr::from_path(Path::new(&path)).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
        }
    }
}
