//! [`UCred`]: the credentials of the peer of a Unix socket.

use super::{gid_t, pid_t, uid_t};
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// The credentials of the peer of a Unix socket, at the time of the connection.
///
/// Returned by [`UnixStream::peer_cred`](super::UnixStream::peer_cred).
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let (a, _b) = wakeful::net::UnixStream::pair()?;
/// let peer = a.peer_cred()?; // this process
/// println!("user {}, group {}", peer.uid(), peer.gid());
/// assert_eq!(peer.pid().map(|pid| pid as u32), Some(std::process::id()));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UCred {
    pid: Option<pid_t>,
    uid: uid_t,
    gid: gid_t,
}

impl UCred {
    /// Returns the user id.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let (a, b) = wakeful::net::UnixStream::pair()?;
    /// assert_eq!(a.peer_cred()?.uid(), b.peer_cred()?.uid()); // the user of this process
    /// # Ok(())
    /// # }
    /// ```
    pub fn uid(&self) -> uid_t {
        self.uid
    }

    /// Returns the group id.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let (a, b) = wakeful::net::UnixStream::pair()?;
    /// assert_eq!(a.peer_cred()?.gid(), b.peer_cred()?.gid()); // the group of this process
    /// # Ok(())
    /// # }
    /// ```
    pub fn gid(&self) -> gid_t {
        self.gid
    }

    /// Returns the process id, if the kernel reports it.
    ///
    /// The process may have exited since. Linux reports 0 for a process in another pid namespace.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let (a, _b) = wakeful::net::UnixStream::pair()?;
    /// let pid = a.peer_cred()?.pid().unwrap();
    /// assert_eq!(pid as u32, std::process::id());
    /// # Ok(())
    /// # }
    /// ```
    pub fn pid(&self) -> Option<pid_t> {
        self.pid
    }

    pub(super) fn of_this_process() -> UCred {
        use rustix::process::{getgid, getpid, getuid};
        let pid = Some(getpid().as_raw_nonzero().get());
        UCred { pid, uid: getuid().as_raw(), gid: getgid().as_raw() }
    }

    pub(super) fn from_peer(socket: &impl AsFd) -> io::Result<UCred> {
        let mut found = libc::ucred { pid: 0, uid: 0, gid: 0 };
        let mut len = size_of::<libc::ucred>() as libc::socklen_t;
        // SAFETY: the descriptor is borrowed, so it is open. The kernel writes at most `len` bytes,
        // which is the size of `found`, and every byte pattern is a valid `ucred`.
        let status = unsafe {
            libc::getsockopt(
                socket.as_fd().as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERCRED,
                (&raw mut found).cast(),
                &raw mut len,
            )
        };
        if status != 0 {
            return Err(io::Error::last_os_error());
        }
        assert_eq!(
            len as usize,
            size_of::<libc::ucred>(),
            "the kernel returned a `ucred` of another size"
        );
        Ok(UCred { pid: Some(found.pid), uid: found.uid, gid: found.gid })
    }
}
